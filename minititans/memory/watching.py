"""Watch every memory in a model while it reads."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from minititans.memory.neural_memory import NeuralMemory
from minititans.memory.trace import Trace


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

    def ask(memory, args, kwargs):
        return args, kwargs | {"trace": True}

    def collect(name):
        def hook(memory, args, result):
            y, state, trace = result
            seen[name].append(trace)
            return y, state  # what the caller expects

        return hook

    for name, memory in model.named_modules():
        if isinstance(memory, NeuralMemory):
            seen[name] = []
            hooks.append(memory.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(memory.register_forward_hook(collect(name)))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
