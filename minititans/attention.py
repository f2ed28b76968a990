"""Attention as a short-term memory: causal, in a sliding window, or in MAC's segments.

Each mask is a small function that returns which query may see which key, so that it can be
tested and drawn. Short inputs are attended to under such a mask. Long ones go block by block, and
for a fixed window cost and memory grow linearly with length: no time × time mask is ever made.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from minititans.arguments import check, check_heads, whole
from minititans.state import State
from minititans.tensors import POSITION, check_kept, check_pairs, check_sequence

WINDOW = whole(1, none="all that came before")

# ---------------------------------------------------------------------------------- masks


def window_mask(queries: int, keys: int, window: int | None, prefix: int = 0) -> Tensor:
    """True where a query may look: `[queries, prefix + keys]`.

    The queries are the last of the keys. Each sees itself and what came before, at most `window`
    tokens in all, and every prefix token wherever it stands. `window=None` is causal attention.

    >>> window_mask(queries=4, keys=4, window=2, prefix=1).int()
    tensor([[1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [1, 0, 1, 1, 0],
            [1, 0, 0, 1, 1]], dtype=torch.int32)
    """
    _check_window(queries, keys, window)
    check(prefix=prefix)
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)  # [queries, keys]
    seen = distance >= 0
    if window is not None:
        seen &= distance < window
    return F.pad(seen, (prefix, 0), value=True)


def _check_window(queries: int, keys: int, window: int | None) -> None:
    WINDOW.check("window", window)
    check(queries=queries, keys=keys)
    if queries > keys:
        raise ValueError(f"queries: got {queries}, expected at most as many as keys, {keys}")


def segment_mask(queries: int, length: int, persistent: int, literal: bool = False) -> Tensor:
    """MAC's `[persistent | retrieved | segment]` for the last queries of a segment so far.

    `length` tokens of the segment are there, and as many retrieved ones. Retrieved token j is
    what the memory says about token j, so only positions from j on may see it; the paper's letter
    (`literal=True`) shows all of them to all, and the future with them.

    >>> segment_mask(queries=2, length=2, persistent=1).int()
    tensor([[1, 1, 0, 1, 0],
            [1, 1, 1, 1, 1]], dtype=torch.int32)
    """
    check(length=length, persistent=persistent, literal=literal)
    causal = window_mask(queries, length, window=None)
    retrieved = torch.ones_like(causal) if literal else causal
    return torch.cat([F.pad(retrieved, (persistent, 0), value=True), causal], 1)


# ---------------------------------------------------------------------------------- rotary


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions: pairs of numbers turn with the position, so products feel distance only.

    x: `[..., time, dim]` with an even dim; positions: `[time]`.
    """
    check_pairs(x)
    half = x.shape[-1] // 2
    frequency = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    angle = positions[:, None].to(torch.float64) * frequency  # [time, half]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Projections(nn.Module):
    """Queries, keys and values from a sequence (1), and the way back."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        check_heads(dim, heads)
        if dim // heads % 2:
            raise ValueError(
                f"dim: got {dim}, expected heads, {heads}, times an even number: "
                "rotary positions turn channels in pairs"
            )
        self.dim, self.heads = dim, heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[batch, time, dim]` to three times `[batch, heads, time, dim_head]`."""
        return rearrange(self.to_qkv(x), "b t (qkv h d) -> qkv b h t d", qkv=3, h=self.heads)

    def check_input(self, x: Tensor, name: str = "x", axes: str = "batch time dim") -> None:
        check_sequence(x, self.dim, self.to_qkv.weight, name, axes)

    def join(self, y: Tensor) -> Tensor:
        return self.to_out(rearrange(y, "b h t d -> b t (h d)"))


# ---------------------------------------------------------------------------------- window


class KeysAndValues(State):
    """What the states of both kinds of attention share: keys `[batch, heads, tokens, dim_head]`."""

    @property
    def tokens(self) -> int:
        four_axes = isinstance(self.keys, Tensor) and self.keys.dim() == 4
        return self.keys.shape[2] if four_axes else 0

    def check(self, k: Tensor) -> None:
        """Every tensor holds the same number of tokens, and goes together with k, a new key."""
        for name, tensor in vars(self).items():
            if name != "position":
                check_kept(name, tensor, (*k.shape[:2], self.tokens, k.shape[3]), k)


@dataclass(frozen=True)
class WindowState(KeysAndValues):
    """The last keys and values that the next token can still see, and how many tokens passed."""

    keys: Tensor  # [batch, heads, at most window - 1, dim_head], rotated
    values: Tensor
    position: int


class WindowAttention(Projections):
    """Softmax attention (2) over the last `window` tokens; all of them if it is None.

    With a prefix, `[tokens, dim]`, every position also sees each prefix token, from nowhere in
    particular: its score has no position in it, so it is the same at token 10 and at token 10⁶.

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
        self, x: Tensor, state: WindowState | None = None, prefix: Tensor | None = None
    ) -> tuple[Tensor, WindowState]:
        WindowState.expect(state)
        self.check_input(x)
        if prefix is not None:
            self.check_input(prefix, "prefix", "tokens dim")
        batch, time = x.shape[:2]
        q, k, v = self.split(x)
        if state is None:
            state = WindowState(k[:, :, :0], v[:, :, :0], 0)
        self.check(state, k)
        positions = torch.arange(state.position, state.position + time, device=x.device)
        q_raw, q, k = q, rotate(q, positions), rotate(k, positions)
        keys, values = torch.cat([state.keys, k], 2), torch.cat([state.values, v], 2)

        k_prefix = v_prefix = None
        if prefix is not None:
            _, k_prefix, v_prefix = self.split(prefix.expand(batch, -1, -1))
            # Twice the numbers: the first half meets rotated keys, the second the prefix's.
            q, keys_wide = torch.cat([q, q_raw], -1), F.pad(keys, (0, k.shape[-1]))
            k_prefix = F.pad(k_prefix, (k.shape[-1], 0))
        else:
            keys_wide = keys
        y = window_attention(q, keys_wide, values, self.window, k_prefix, v_prefix)

        if self.window is not None:
            kept = min(self.window - 1, keys.shape[2])
            keys, values = (x[:, :, x.shape[2] - kept :] for x in (keys, values))
        return self.join(y), WindowState(keys, values, state.position + time)

    def check(self, state: WindowState, k: Tensor) -> None:
        """The state was made by attention of this shape and window, for this batch."""
        POSITION.check("state.position", state.position)
        seen = state.position if self.window is None else min(state.position, self.window - 1)
        state.check(k)
        if state.tokens != seen:
            raise ValueError(
                f"state: holds {state.tokens} tokens after {state.position}, expected {seen}: "
                f"it was made with another window than {self.window}"
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

    The score is divided by the root of v's size: q and k may carry a second half (see above).
    """
    queries, keys, prefix = q.shape[2], k.shape[2], 0 if k_prefix is None else k_prefix.shape[2]
    scale = v.shape[-1] ** -0.5
    _check_window(queries, keys, window)
    if window is None or queries <= window:
        if prefix:
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
    if prefix:
        mask = F.pad(mask, (prefix, 0), value=True)
        k, v = (
            torch.cat([p[:, None].expand(-1, blocks, -1, -1, -1), x], 3)
            for p, x in ((k_prefix, k), (v_prefix, v))
        )
    y = F.scaled_dot_product_attention(q, k, v, mask, scale=scale)
    return rearrange(y, "b n h w d -> b h (n w) d")[:, :, :queries]


# ---------------------------------------------------------------------------------- segment


@dataclass(frozen=True)
class SegmentState(KeysAndValues):
    """Keys and values of the open segment: what was retrieved, and its own tokens."""

    retrieved_keys: Tensor  # [batch, heads, tokens so far, dim_head]
    retrieved_values: Tensor
    keys: Tensor
    values: Tensor


class SegmentAttention(Projections):
    """MAC's attention over `[persistent | retrieved | segment]`, (22) and (23).

    Positions are those of the whole: persistent tokens first, then `segment` places for what
    was retrieved, then the segment's own tokens.
    """

    def __init__(self, dim: int, heads: int, segment: int, literal: bool = False):
        super().__init__(dim, heads)
        check(segment=segment, literal=literal)
        self.segment, self.literal = segment, literal

    def forward(
        self, persistent: Tensor, retrieved: Tensor, x: Tensor, state: SegmentState | None = None
    ) -> tuple[Tensor, SegmentState]:
        """persistent: `[tokens, dim]`; retrieved and x: `[batch, time, dim]`, part of a segment."""
        SegmentState.expect(state)
        self.check_input(x)
        self.check_input(retrieved, "retrieved")
        if not isinstance(persistent, Tensor) or len(persistent) > 0:  # there may be none
            self.check_input(persistent, "persistent", "tokens dim")
        if retrieved.shape != x.shape:
            raise ValueError(
                f"retrieved: got shape {list(retrieved.shape)}, expected x's, {list(x.shape)}"
            )
        batch, time, persistents = x.shape[0], x.shape[1], len(persistent)
        q, k, v = self.split(x)
        so_far = 0
        if state is not None:
            state.check(k)
            so_far = state.tokens
        if so_far + time > self.segment:
            raise ValueError(
                f"x: got {time} tokens after {so_far}, expected at most {self.segment} in a segment"
            )
        place = torch.arange(so_far, so_far + time, device=x.device) + persistents
        _, k_h, v_h = self.split(retrieved)
        _, k_p, v_p = self.split(persistent.expand(batch, -1, -1))
        q, k = rotate(q, place + self.segment), rotate(k, place + self.segment)
        k_h, k_p = rotate(k_h, place), rotate(k_p, torch.arange(persistents, device=x.device))
        if state is not None:
            k_h, v_h = (
                torch.cat([state.retrieved_keys, k_h], 2),
                torch.cat([state.retrieved_values, v_h], 2),
            )
            k, v = torch.cat([state.keys, k], 2), torch.cat([state.values, v], 2)

        mask = segment_mask(time, so_far + time, persistents, self.literal).to(x.device)
        y = F.scaled_dot_product_attention(
            q, torch.cat([k_p, k_h, k], 2), torch.cat([v_p, v_h, v], 2), mask
        )
        return self.join(y), SegmentState(k_h, v_h, k, v)
