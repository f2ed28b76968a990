"""Refuse a memory that a variant cannot be built around, and inputs that it cannot read."""

from torch import Tensor

from minititans.arguments import check
from minititans.memory import NeuralMemory
from minititans.tensors import check_sequence


def check_memory_fits(memory: NeuralMemory, dim: int) -> None:
    """A variant of size `dim` can be built around this memory."""
    if not isinstance(memory, NeuralMemory):
        raise TypeError(f"memory: got {type(memory).__name__}, expected a NeuralMemory")
    check(dim=dim)
    if memory.dim != dim:
        raise ValueError(f"memory: its dim is {memory.dim}, expected {dim}, the variant's")


def check_reads(memory: NeuralMemory, x: Tensor) -> None:
    """x is a sequence that a variant around this memory can read."""
    check_sequence(x, memory.dim, memory.to_qkv.weight)
