"""The memory alone (LMM): section 4.3, "Memory Without Attention"."""

from torch import Tensor, nn

from minititans.memory import MemoryState, NeuralMemory
from minititans.variants.checks import check_memory_fits, check_reads
from minititans.variants.persistent import Persistent


class LMM(nn.Module):
    """y = M(p || x)"""

    def __init__(self, dim: int, memory: NeuralMemory, persistent: int = 4):
        super().__init__()
        check_memory_fits(memory, dim)
        self.persistent, self.memory = Persistent(persistent, dim), memory

    def forward(self, x: Tensor, state: MemoryState | None = None) -> tuple[Tensor, MemoryState]:
        MemoryState.expect(state)
        check_reads(self.memory, x)
        if state is None:
            _, state = self.persistent.read_into(self.memory, len(x))
        return self.memory(x, state)
