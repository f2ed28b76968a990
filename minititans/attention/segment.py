"""MAC's attention: a segment of the text, what the memory says about it, and persistent tokens."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.arguments import check
from minititans.attention.masks import attention_weights, segment_mask
from minititans.attention.projections import KeysAndValues, Projections
from minititans.attention.rotary import rotate


@dataclass(frozen=True)
class SegmentState(KeysAndValues):
    """Keys and values of the open segment: what was retrieved, and its own tokens."""

    retrieved_keys: Tensor  # [batch, heads, tokens so far, dim_head]
    retrieved_values: Tensor
    keys: Tensor
    values: Tensor


class SegmentAttention(Projections):
    """MAC's attention over `[persistent | retrieved | segment]`, (22) and (23).

    Positions run through all three: persistent tokens first, then `segment` places for what was
    retrieved, then the segment's own tokens.
    """

    def __init__(self, dim: int, heads: int, segment: int, literal: bool = False):
        super().__init__(dim, heads)
        check(segment=segment, literal=literal)
        self.segment, self.literal = segment, literal

    def forward(
        self,
        persistent: Tensor,
        retrieved: Tensor,
        x: Tensor,
        state: SegmentState | None = None,
        weights: bool = False,
    ) -> tuple[Tensor, SegmentState] | tuple[Tensor, SegmentState, Tensor]:
        """persistent: `[tokens, dim]`; retrieved and x: `[batch, time, dim]`, part of a segment.

        With `weights=True`, a third result says which token looked where:
        `[batch, heads, time, keys]`, with the keys in the order of (22).
        """
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
            state = state.to(k.dtype)
            so_far = state.tokens
        if so_far + time > self.segment:
            raise ValueError(
                f"x: got {time} tokens after {so_far}, expected at most {self.segment} in a segment"
            )
        place = torch.arange(so_far, so_far + time, device="cpu") + persistents
        _, k_h, v_h = self.split(retrieved)
        _, k_p, v_p = self.split(persistent.expand(batch, -1, -1))
        q, k = rotate(q, place + self.segment), rotate(k, place + self.segment)
        k_h, k_p = rotate(k_h, place), rotate(k_p, torch.arange(persistents, device="cpu"))
        if state is not None:
            k_h, v_h = (
                torch.cat([state.retrieved_keys, k_h], 2),
                torch.cat([state.retrieved_values, v_h], 2),
            )
            k, v = torch.cat([state.keys, k], 2), torch.cat([state.values, v], 2)

        mask = segment_mask(time, so_far + time, persistents, self.literal).to(x.device)
        keys, values = torch.cat([k_p, k_h, k], 2), torch.cat([v_p, v_h, v], 2)
        y = F.scaled_dot_product_attention(q, keys, values, mask)
        result = self.join(y), SegmentState(k_h, v_h, k, v)
        return (
            (*result, attention_weights(q, keys, mask, q.shape[-1] ** -0.5)) if weights else result
        )
