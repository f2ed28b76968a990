"""Switch off a trained memory, or only its writing, to see what it is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from minititans.arguments import SWITCH
from minititans.memory.neural_memory import NeuralMemory


@contextmanager
def switch_memory(
    model: nn.Module, *, reading: bool = True, writing: bool = True
) -> Iterator[nn.Module]:
    """Inside the `with`, every memory in the model reads and writes, or does not.

    reading=False: the memory answers 0 to everything. MAC and MAG multiply by that answer, so
                   their blocks then pass on nothing but the residual: there is no Titan left
    writing=False: the memory stays as it is, at its learned start or at the state it is given,
                   and answers from there; it learns nothing from the text. Persistent tokens belong
                   to the start, and are still written

    To take away the state as well needs no switch: pass None in its place.

    >>> import torch
    >>> memory = NeuralMemory(dim=8, heads=2)
    >>> with switch_memory(memory, writing=False):
    ...     _, state = memory(torch.randn(1, 5, 8))
    >>> bool(state.weights[-1].any())  # as empty as before
    False
    """
    SWITCH.check("reading", reading)
    SWITCH.check("writing", writing)
    memories = [each for each in model.modules() if isinstance(each, NeuralMemory)]
    if not memories:
        raise ValueError(
            f"model: this {type(model).__name__} has no memory to switch; expected one of the "
            "variants 'mac', 'mag', 'mal' and 'lmm'"
        )
    before = [(each.reading, each.writing) for each in memories]
    for each in memories:
        each.reading, each.writing = reading, writing
    try:
        yield model
    finally:
        for each, (was_reading, was_writing) in zip(memories, before):
            each.reading, each.writing = was_reading, was_writing
