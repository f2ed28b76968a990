"""Inside a trained model that looks for a needle: surprise, gates, and how long a write lasts."""

import math
from copy import deepcopy

import torch
from torch import Tensor

from minititans.instruments import watch_memory
from minititans.memory import NeuralMemory
from minititans.memory.trace import Trace
from minititans.model import TitansLM
from minititans.tasks.needle import Needle, generator


@torch.no_grad()
def traces(model: TitansLM, tokens: Tensor) -> list[Trace]:
    """What happened in each memory of the model at each token, `[rows, heads, time]`, by layer.

    The persistent tokens, which an LMM reads before the first, are left out.
    """
    with watch_memory(model) as seen:
        model(tokens)
    joined = [Trace.join(each) for each in seen.values()]
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
            if not memory.forgetting:
                raise ValueError(
                    "model: got a memory with forgetting=False, which has no alpha to hold; "
                    "expected one with forgetting=True"
                )
            gate = slice(-memory.heads, None)  # theta, eta, alpha: the last heads are alpha's
            with torch.no_grad():
                memory.to_gates.weight[gate] = 0.0
                memory.to_gates.bias[gate] = torch.logit(torch.tensor(alpha**0.25))
    return copy
