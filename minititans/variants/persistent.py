"""Persistent memory: learned tokens that do not depend on the input (section 3.3)."""

import torch
from torch import Tensor, nn

from minititans.arguments import check
from minititans.memory import MemoryState, NeuralMemory
from minititans.tensors import check_sequence


class Persistent(nn.Module):
    """`p_1 … p_N` of (19). With N = 0 there is nothing before the sequence."""

    def __init__(self, tokens: int, dim: int):
        super().__init__()
        check(persistent=tokens, dim=dim)
        self.tokens = nn.Parameter(torch.randn(tokens, dim)) if tokens else None

    def read_into(self, memory: NeuralMemory, batch: int) -> tuple[Tensor | None, MemoryState]:
        """Let the memory read p before the sequence: `M(p || x)` is this, and then `M(x)`.

        Returns what it answered, `[batch, tokens, dim]`, and its state.
        """
        if self.tokens is None:
            return None, memory.start(batch)
        return memory(self.tokens.expand(batch, -1, -1))


def check_reads(memory: NeuralMemory, x: Tensor) -> None:
    """x is a sequence that a variant around this memory can read."""
    check_sequence(x, memory.dim, memory.to_qkv.weight)


def check_memory_fits(memory: NeuralMemory, dim: int) -> None:
    """A variant of size `dim` can be built around this memory."""
    if not isinstance(memory, NeuralMemory):
        raise TypeError(f"memory: got {type(memory).__name__}, expected a NeuralMemory")
    check(dim=dim)
    if memory.dim != dim:
        raise ValueError(f"memory: its dim is {memory.dim}, expected {dim}, the variant's")
