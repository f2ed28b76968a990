"""Causal attention and the sliding window, with or without a prefix that every token sees.

Short inputs are attended to under a mask. Long ones go block by block, so for a fixed window time
and memory grow linearly with the length: no time × time mask is ever made.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from minititans.attention.masks import WINDOW, attention_weights, check_window, window_mask
from minititans.attention.projections import KeysAndValues, Projections
from minititans.attention.rotary import rotate
from minititans.tensors import POSITION


@dataclass(frozen=True)
class WindowState(KeysAndValues):
    """The last keys and values that the next token can still see, and how many were read."""

    keys: Tensor  # [batch, heads, at most window - 1, dim_head], rotated
    values: Tensor
    position: int


class WindowAttention(Projections):
    """Softmax attention (2) over the last `window` tokens; all of them if it is None.

    With a prefix, `[tokens, dim]`, every token also sees each prefix token, which has no position:
    its score is the same at token 10 and at token 10⁶.

    >>> attention = WindowAttention(dim=16, heads=2, window=8)
    >>> y, state = attention(torch.randn(1, 100, 16))
    >>> y.shape, state.keys.shape
    (torch.Size([1, 100, 16]), torch.Size([1, 2, 7, 8]))
    """

    def __init__(self, dim: int, heads: int, window: int | None):
        super().__init__(dim, heads)
        WINDOW.check("window", window)
        self.window = window

    def forward(
        self,
        x: Tensor,
        state: WindowState | None = None,
        prefix: Tensor | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, WindowState] | tuple[Tensor, WindowState, Tensor]:
        """Read x, `[batch, time, dim]`, continuing from `state`; return y, of the same shape.

        With `weights=True`, a third result says which token looked where,
        `[batch, heads, time, prefix + keys]`; the keys are those that the state still held, then
        x's. It has about time × time numbers: ask for it only when the text is short.
        """
        WindowState.expect(state)
        self.check_input(x)
        if prefix is not None:
            self.check_input(prefix, "prefix", "tokens dim")
        batch, time = x.shape[:2]
        q, k, v = self.split(x)
        if state is None:
            state = WindowState(k[:, :, :0], v[:, :, :0], 0)
        self.check(state, k)
        state = state.to(k.dtype)
        positions = torch.arange(state.position, state.position + time, device="cpu")
        q_raw, q, k = q, rotate(q, positions), rotate(k, positions)
        keys, values = torch.cat([state.keys, k], 2), torch.cat([state.values, v], 2)

        k_prefix = v_prefix = None
        if prefix is not None:
            _, k_prefix, v_prefix = self.split(prefix.expand(batch, -1, -1))
            # Twice the channels: the first half meets rotated keys, the second the prefix's.
            q, keys_wide = torch.cat([q, q_raw], -1), F.pad(keys, (0, k.shape[-1]))
            k_prefix = F.pad(k_prefix, (k.shape[-1], 0))
        else:
            keys_wide = keys
        y = window_attention(q, keys_wide, values, self.window, k_prefix, v_prefix)

        if self.window is not None:
            kept = min(self.window - 1, keys.shape[2])
            # Copies: of views, the keys and values of all tokens would be kept.
            keys, values = (x[:, :, x.shape[2] - kept :].clone() for x in (keys, values))
        result = self.join(y), WindowState(keys, values, state.position + time)
        if not weights:
            return result
        return *result, window_weights(q, keys_wide, self.window, v.shape[-1], k_prefix)

    def check(self, state: WindowState, k: Tensor) -> None:
        """The state was made by attention of this shape and window, for this batch."""
        POSITION.check("state.position", state.position)
        seen = state.position if self.window is None else min(state.position, self.window - 1)
        state.check(k)
        if state.tokens != seen:
            raise ValueError(
                f"state: holds {state.tokens} tokens after {state.position}, expected {seen}: "
                f"it was made with a window other than {self.window}"
            )


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: int | None,
    k_prefix: Tensor | None = None,
    v_prefix: Tensor | None = None,
) -> Tensor:
    """Attend from the last tokens of k and v, `[batch, heads, time, dim]`, under `window_mask`.

    The score is divided by the root of v's size, because q and k may have a second half (above).
    """
    queries, keys, prefix = q.shape[2], k.shape[2], 0 if k_prefix is None else k_prefix.shape[2]
    scale = v.shape[-1] ** -0.5
    check_window(queries, keys, window)
    if window is None or queries <= window:
        if k_prefix is not None and v_prefix is not None:
            k, v = torch.cat([k_prefix, k], 2), torch.cat([v_prefix, v], 2)
        mask = window_mask(queries, keys, window, prefix).to(q.device)
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)

    # Blocks of `window` queries; each sees its own block of keys and the one before.
    past = keys - queries
    blocks = -(-queries // window)
    end = blocks * window - queries
    q = rearrange(F.pad(q, (0, 0, 0, end)), "b h (n w) d -> b n h w d", w=window)
    k, v = (
        F.pad(x, (0, 0, window - past, end)).unfold(2, 2 * window, window)  # [b, h, n, d, 2w]
        for x in (k, v)
    )
    k, v = (rearrange(x, "b h n d w -> b n h w d") for x in (k, v))
    mask = window_mask(window, 2 * window, window).to(q.device)
    there = torch.arange((blocks + 1) * window, device=q.device) >= window - past  # not padding
    mask = mask & there.unfold(0, 2 * window, window)[:, None, None, :]  # [n, 1, w, 2w]
    if k_prefix is not None and v_prefix is not None:
        mask = F.pad(mask, (prefix, 0), value=True)
        k, v = (
            torch.cat([p[:, None].expand(-1, blocks, -1, -1, -1), x], 3)
            for p, x in ((k_prefix, k), (v_prefix, v))
        )
    y = F.scaled_dot_product_attention(q, k, v, mask, scale=scale)
    return rearrange(y, "b n h w d -> b h (n w) d")[:, :, :queries]


def window_weights(
    q: Tensor, k: Tensor, window: int | None, dim: int, k_prefix: Tensor | None = None
) -> Tensor:
    """The weights that `window_attention` gives to values of size `dim`."""
    mask = window_mask(q.shape[2], k.shape[2], window, 0 if k_prefix is None else k_prefix.shape[2])
    k = k if k_prefix is None else torch.cat([k_prefix, k], 2)
    return attention_weights(q, k, mask, dim**-0.5)
