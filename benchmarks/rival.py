"""A training step, ours against titans-pytorch's: the same work, the same shapes, taking turns.

titans-pytorch computes what the paper says when every token has its own gradient and its own
gates (`chunk_size=1`) and the weights at which gradients are taken move on every 64 tokens
(`batch_size=64`): that is our `chunk_size=64`. Its coarse setting (`chunk_size=64`) shares the
gates and sums the gradients within a chunk, and one weight answers a whole chunk; ours, with
`gates="chunk"`, shares the gates too but still lets each token read its own weights.

Like for like means plain layers and all gradients frozen in a chunk (`exact=False,
residual=False`). Our defaults, layers that add to their input and a last layer that is exact, do
more work; one line says what that costs.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.measurement import Measured, Progress, Unavailable
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans import NeuralMemory

BATCH, TIME, DIM, DEPTH, CHUNK = 4, 1024, 64, 2, 64


def measure_paper(quick: bool, progress: Progress) -> Measured:
    """Every token has its own gradient and gates, on both sides."""
    time, rounds = (256, 2) if quick else (TIME, 9)
    return against_rival("token", rounds, 20, time, progress)


def measure_defaults(quick: bool, progress: Progress) -> Measured:
    """The same with our memory's defaults: residual layers, the last one exact."""
    time, rounds = (256, 2) if quick else (TIME, 9)
    return against_rival("token", rounds, 20, time, progress, plain=False)


def measure_coarse(quick: bool, progress: Progress) -> Measured:
    """titans-pytorch at the setting it is meant to be trained with."""
    time, rounds = (256, 3) if quick else (TIME, 25)
    return against_rival("chunk", rounds, 2, time, progress)


def against_rival(
    gates: str, rounds: int, calls: int, time: int, progress: Progress, plain: bool = True
) -> Measured:
    """How many of our steps fit into one of theirs."""
    x = random_input(BATCH, time)
    theirs, ours = their_memory(gates), our_memory(gates, plain)
    sides = {
        "theirs": Side(lambda: train_step(theirs, x)),
        "ours": Side(lambda: train_step(ours, x), calls),
    }
    seconds = interleaved(sides, rounds, progress)
    return ratio(
        seconds["theirs"],
        seconds["ours"],
        batch=BATCH,
        time=time,
        dim=DIM,
        depth=DEPTH,
        chunk_size=CHUNK,
        gates=gates,
        plain=plain,
        seconds={side: summary(each) for side, each in seconds.items()},
        tokens_per_second={
            side: summary(BATCH * time / s for s in each) for side, each in seconds.items()
        },
    )


def our_memory(gates: str, plain: bool = True) -> nn.Module:
    """Without a convolution, which titans-pytorch does not have; plain: with its rule as well."""
    torch.manual_seed(0)
    rule = {"exact": False, "residual": False} if plain else {}
    return NeuralMemory(DIM, heads=1, depth=DEPTH, chunk_size=CHUNK, gates=gates, conv=0, **rule)


def their_memory(gates: str) -> nn.Module:
    try:
        import titans_pytorch
    except ImportError as error:
        raise Unavailable(
            "needs titans-pytorch: `make bench` installs it, or pip install titans-pytorch==0.5.5"
        ) from error
    torch.manual_seed(0)
    return titans_pytorch.NeuralMemory(
        DIM,
        heads=1,
        chunk_size=1 if gates == "token" else CHUNK,
        batch_size=CHUNK,
        model=titans_pytorch.MemoryMLP(DIM, depth=DEPTH, expansion_factor=1.0),
    )


def random_input(batch: int, time: int) -> Tensor:
    return torch.randn(batch, time, DIM, generator=torch.Generator().manual_seed(1))


def train_step(memory: Callable, x: Tensor) -> None:
    """Forward and backward, with gradients for every parameter and for the input."""
    memory.zero_grad(set_to_none=True)
    y = memory(x.detach().requires_grad_())[0]
    y.backward(x)  # any direction will do; x has the right shape
