"""Memory as a layer (MAL): the memory first, attention over its answers. Section 4.3."""

from dataclasses import dataclass

from torch import Tensor, nn

from minititans.attention import WindowAttention, WindowState
from minititans.memory import MemoryState, NeuralMemory
from minititans.state import State
from minititans.variants.checks import check_memory_fits, check_reads
from minititans.variants.persistent import Persistent


@dataclass(frozen=True)
class MALState(State):
    memory: MemoryState
    window: WindowState | None


class MAL(nn.Module):
    """x̃ = p || x (29);   y = M(x̃) (30);   o = SW-Attn(y) (31)"""

    def __init__(
        self, dim: int, heads: int, memory: NeuralMemory, window: int = 64, persistent: int = 4
    ):
        super().__init__()
        check_memory_fits(memory, dim)
        self.persistent, self.memory = Persistent(persistent, dim), memory
        self.norm = nn.RMSNorm(dim)
        self.attention = WindowAttention(dim, heads, window)

    def forward(self, x: Tensor, state: MALState | None = None) -> tuple[Tensor, MALState]:
        MALState.expect(state)
        check_reads(self.memory, x)
        if state is None:
            state = self.before(len(x))
        self.memory.check(state.memory, x)
        y, memory = self.memory(x, state.memory)
        o, window = self.attention(self.norm(x + y), state.window)
        return y + o, MALState(memory, window)

    def before(self, batch: int) -> MALState:
        """The state after p, which the memory reads and the first window still sees."""
        y, memory = self.persistent.read_into(self.memory, batch)
        tokens = self.persistent.tokens
        if y is None or tokens is None:
            return MALState(memory, None)
        _, window = self.attention(self.norm(tokens + y))
        return MALState(memory, window)
