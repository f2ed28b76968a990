"""Memory as a context (MAC): attention sees what the memory recalls. Section 4.1."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from minititans.arguments import shown, whole
from minititans.attention import SegmentAttention, SegmentState
from minititans.memory import MemoryState, NeuralMemory
from minititans.state import State
from minititans.tensors import check_kept
from minititans.variants.checks import check_memory_fits, check_reads
from minititans.variants.combine import Combine
from minititans.variants.persistent import Persistent


@dataclass(frozen=True)
class MACState(State):
    """memory: M now; before: M's weights before the open segment; open: its keys and values."""

    memory: MemoryState
    before: list[Tensor]
    open: SegmentState | None
    position: int  # tokens of the open segment so far
    segment: int


class MAC(nn.Module):
    """For each segment S of the input:

        h = M*(S W_Q), with M as it was before the segment        (21)
        S̃ = p || h || S                                           (22)
        y = S + Attn(S̃)                                           (23)
        M ← M(y)                                                  (24)
        o = y ⊗ M*(y)                                             (25)

    The S in (23) is section 4.4's "in all blocks, we use residual connections": the memory reads
    the tokens, and not only what attention makes of them.

    Taken literally, this shows a token its future: attention would see h_j of later tokens, and
    (25) would read from an M that has seen the whole segment. So here h_j is visible from token j
    on, and each token reads from its own M. `literal=True` follows the letter, to show the leak;
    it needs whole segments in one call.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        memory: NeuralMemory,
        segment: int = 64,
        persistent: int = 4,
        literal: bool = False,
    ):
        super().__init__()
        check_memory_fits(memory, dim)
        self.segment, self.literal = segment, literal
        self.persistent, self.memory = Persistent(persistent, dim), memory
        self.attention = SegmentAttention(dim, heads, segment, literal)
        self.combine = Combine(dim)
        # At first, attention finds nearly the same everywhere. If that were large, all tokens
        # would look much alike, and the memory could not tell their keys apart.
        with torch.no_grad():
            self.attention.to_out.weight.mul_(0.1)

    def forward(self, x: Tensor, state: MACState | None = None) -> tuple[Tensor, MACState]:
        MACState.expect(state)
        check_reads(self.memory, x)
        if state is None:
            memory = self.memory.start(len(x))
            state = MACState(memory, memory.weights, None, 0, self.segment)
        self.check(state, x)
        tokens = self.persistent.tokens
        p = x.new_empty(0, x.shape[-1]) if tokens is None else tokens
        outputs = []
        for first, last in self.parts(x.shape[1], state.position):
            S = x[:, first:last]
            h = self.memory.read(S, state.before)  # (21)
            y, open_segment = self.attention(p, h, S, state.open)  # (22), (23)
            y = S + y
            m, memory = self.memory(y, state.memory)  # (24), and (25)'s M*(y), token by token
            if self.literal:
                m = self.memory.read(y, memory.weights)
            outputs.append(self.combine(y, m))  # (25)
            position = (state.position + last - first) % self.segment
            if position == 0:
                state = MACState(memory, memory.weights, None, 0, self.segment)
            else:
                state = MACState(memory, state.before, open_segment, position, self.segment)
        return torch.cat(outputs, 1), state

    def check(self, state: MACState, x: Tensor) -> None:
        """The state was made by a layer like this one, and its parts belong together."""
        if state.segment != self.segment:
            raise ValueError(
                f"state: made with segments of {shown(state.segment)}, expected {self.segment}"
            )
        MemoryState.expect(state.memory)
        self.memory.check(state.memory, x)
        if not isinstance(state.before, list) or len(state.before) != len(state.memory.weights):
            raise ValueError(
                f"state.before: got {shown(state.before)}, expected a list of one tensor per layer "
                f"of the memory, {len(state.memory.weights)}"
            )
        for before, now in zip(state.before, state.memory.weights):
            check_kept("before", before, now.shape, now)
        whole(0, most=self.segment - 1).check("state.position", state.position)
        SegmentState.expect(state.open)
        held = 0 if state.open is None else state.open.tokens
        if held != state.position:
            raise ValueError(
                f"state.open: got {held} tokens, expected {state.position}, as state.position says"
            )
        if self.literal and state.position:
            raise ValueError(
                f"state: ended {state.position} tokens into a segment of {self.segment}, expected "
                "the end of one: with literal=True a segment must come in one call"
            )

    def parts(self, time: int, position: int) -> Iterator[tuple[int, int]]:
        """Where segments begin and end in this call; the first and the last may be partial."""
        first = 0
        while first < time:
            last = min(time, first + self.segment - position)
            yield first, last
            first, position = last, 0
