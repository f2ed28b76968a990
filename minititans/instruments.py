"""Instruments for a trained model: watch its memories while they read, or switch them off.

With `checkpoint=True` in the configuration, a block called inside the `with` is not recomputed: the
backward pass often comes after the `with`, and would recompute something else. What was called
before the `with` needs its backward pass before it, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from minititans.arguments import SWITCH
from minititans.memory import NeuralMemory, Trace


@contextmanager
def watch_memory(model: nn.Module) -> Iterator[dict[str, list[Trace]]]:
    """Inside the `with`, collect a `Trace` of every call of every memory, by the memory's name.

    A MAC calls its memory once per segment; `Trace.join` joins the traces into one.

    >>> import torch
    >>> model = nn.Sequential(NeuralMemory(dim=8, heads=2))
    >>> with watch_memory(model) as seen:
    ...     y, state = model(torch.randn(1, 5, 8))
    >>> [trace.theta.shape for trace in seen["0"]]
    [torch.Size([1, 2, 5])]
    """
    seen: dict[str, list[Trace]] = {}
    hooks = []

    def collect(name):
        def hook(memory, args, result):
            y, state, trace = result
            seen[name].append(trace)
            return y, state  # what the caller expects

        return hook

    for name, memory in model.named_modules():
        if isinstance(memory, NeuralMemory):
            seen[name] = []
            hooks.append(memory.register_forward_pre_hook(_ask, with_kwargs=True))
            hooks.append(memory.register_forward_hook(collect(name)))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


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

    Taking away the state as well needs no switch: pass None in its place.

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


def in_use(model: nn.Module) -> bool:
    """Whether a memory in the model is being watched, or does not read or does not write.

    >>> memory = NeuralMemory(dim=8, heads=2)
    >>> with watch_memory(memory):
    ...     in_use(memory)
    True
    >>> in_use(memory)
    False
    """
    return any(
        _ask in each._forward_pre_hooks.values() or not (each.reading and each.writing)
        for each in model.modules()
        if isinstance(each, NeuralMemory)
    )


def _ask(memory, args, kwargs):
    return args, kwargs | {"trace": True}
