"""Memory as a gate (MAG): attention and memory side by side. Section 4.2."""

from dataclasses import dataclass

from torch import Tensor, nn

from minititans.attention import WindowAttention, WindowState
from minititans.memory import MemoryState, NeuralMemory
from minititans.state import State
from minititans.variants.checks import check_memory_fits, check_reads
from minititans.variants.combine import Combine
from minititans.variants.persistent import Persistent


@dataclass(frozen=True)
class MAGState(State):
    memory: MemoryState
    window: WindowState | None


class MAG(nn.Module):
    """x̃ = p || x (26);   y = SW-Attn*(x̃) (27);   o = y ⊗ M(x̃) (28)"""

    def __init__(
        self, dim: int, heads: int, memory: NeuralMemory, window: int = 64, persistent: int = 4
    ):
        super().__init__()
        check_memory_fits(memory, dim)
        self.persistent, self.memory = Persistent(persistent, dim), memory
        self.attention = WindowAttention(dim, heads, window)
        self.combine = Combine(dim)

    def forward(self, x: Tensor, state: MAGState | None = None) -> tuple[Tensor, MAGState]:
        MAGState.expect(state)
        check_reads(self.memory, x)
        if state is None:
            state = MAGState(self.persistent.read_into(self.memory, len(x))[1], None)
        self.memory.check(state.memory, x)
        y, window = self.attention(x, state.window, prefix=self.persistent.tokens)
        m, memory = self.memory(x, state.memory)
        return self.combine(y, m), MAGState(memory, window)
