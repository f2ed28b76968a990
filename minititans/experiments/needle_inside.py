"""Inside a trained model that looks for a needle: surprise, gates, and how long a write lasts."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from minititans.memory import NeuralMemory
from minititans.memory.trace import Trace
from minititans.model import TitansLM
from minititans.tasks.needle import Needle, generator


@contextmanager
def watch_memories(model: nn.Module) -> Iterator[list[list[Trace]]]:
    """Inside the `with`, collect a trace of every call of every memory: one list per memory."""
    memories = [each for each in model.modules() if isinstance(each, NeuralMemory)]
    seen: list[list[Trace]] = [[] for _ in memories]

    def collect(traces):
        def hook(memory, args, kwargs, result):
            traces.append(memory.forward(*args, **kwargs, trace=True)[2])  # calls no hook

        return hook

    hooks = [
        memory.register_forward_hook(collect(traces), with_kwargs=True)
        for memory, traces in zip(memories, seen)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def traces(model: TitansLM, tokens: Tensor) -> list[Trace]:
    """What happened in each memory of the model at each token, `[rows, heads, time]`, by layer.

    The persistent tokens, which an LMM reads before the first, are left out.
    """
    with watch_memories(model) as seen:
        model(tokens)
    joined = [Trace.join(each) for each in seen]
    time = tokens.shape[1]
    return [Trace(*(x[..., -time:] for x in vars(each).values())) for each in joined]


def half_lives(model: TitansLM, kind: str = "pk", tokens: int = 512, seed: int = 0) -> Tensor:
    """After how many tokens of noise half of a write is forgotten, `[layers, heads]`.

    From the mean of log(1 − α): what is left of a write is a product of 1 − α. The first half of
    the noise is left out: by then the memory knows it.
    """
    noise = Needle(kind).noise(2, tokens, generator(seed, step=0, stream=3))
    # [layers, rows, heads, time]
    alpha = torch.stack([each.alpha for each in traces(model, noise)]).double()
    lost = -torch.log1p(-alpha[..., tokens // 2 :]).mean((1, 3))
    return math.log(2) / lost


def with_alpha(model: TitansLM, alpha: float) -> TitansLM:
    """A copy of a model in which memories forget the same share at every token."""
    copy = deepcopy(model)
    for memory in copy.modules():
        if isinstance(memory, NeuralMemory):
            gate = slice(-memory.heads, None)  # theta, eta, alpha: the last heads are alpha's
            with torch.no_grad():
                memory.to_gates.weight[gate] = 0.0
                memory.to_gates.bias[gate] = torch.logit(torch.tensor(alpha**0.25))
    return copy
