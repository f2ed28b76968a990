"""Persistent memory: learned tokens that do not depend on the input (section 3.3)."""

import torch
from torch import Tensor, nn

from minititans.arguments import check
from minititans.instruments import switch_memory
from minititans.memory import MemoryState, NeuralMemory


class Persistent(nn.Module):
    """`p_1 … p_N` of (19). With N = 0 there is nothing before the sequence."""

    def __init__(self, tokens: int, dim: int):
        super().__init__()
        check(persistent=tokens, dim=dim)
        self.tokens = nn.Parameter(torch.randn(tokens, dim)) if tokens else None

    def read_into(self, memory: NeuralMemory, batch: int) -> tuple[Tensor | None, MemoryState]:
        """Let the memory read p before the sequence: `M(p || x)` is this, followed by `M(x)`.

        Returns what it answered, `[batch, tokens, dim]`, and its state.
        """
        if self.tokens is None:
            return None, memory.start(batch)
        with switch_memory(memory, reading=memory.reading):  # p is written in any case
            return memory(self.tokens.expand(batch, -1, -1))
