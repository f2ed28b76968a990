"""What the variants cost: parameters, numbers to keep between two calls, time to read a text."""

from dataclasses import dataclass

import torch
from torch import nn

from minititans.experiments.timing import fastest
from minititans.memory import NeuralMemory
from minititans.state import State
from minititans.variants import LMM, MAC, MAG, MAL, PrefixedAttention

ATTENTION = "attention alone"  # over the whole text, for comparison


@dataclass(frozen=True)
class VariantCostConfig:
    """Single layers, as in a model of the default size."""

    dim: int = 64
    heads: int = 4
    depth: int = 2
    chunk_size: int = 16
    span: int = 64  # MAC's segment, and the window of MAG and MAL
    persistent: int = 4
    lengths: tuple[int, ...] = (128, 512, 2048)
    rounds: int = 2


@dataclass(frozen=True)
class VariantCost:
    """By the variant's name; lists are as long as `config.lengths`."""

    config: VariantCostConfig
    parameters: dict[str, int]
    state: dict[str, list[int]]  # numbers to keep after all but one of this many tokens
    seconds: dict[str, list[float]]  # to read this many tokens, without a gradient


def layers(config: VariantCostConfig) -> dict[str, nn.Module]:
    """The four variants and full attention, untrained."""
    torch.manual_seed(0)

    def memory() -> NeuralMemory:
        return NeuralMemory(config.dim, config.heads, config.depth, chunk_size=config.chunk_size)

    sizes = (config.dim, config.heads)
    return {
        "MAC": MAC(*sizes, memory(), config.span, config.persistent),
        "MAG": MAG(*sizes, memory(), config.span, config.persistent),
        "MAL": MAL(*sizes, memory(), config.span, config.persistent),
        "LMM": LMM(config.dim, memory(), config.persistent),
        ATTENTION: PrefixedAttention(*sizes, None, config.persistent),
    }


@torch.no_grad()
def variant_costs(config: VariantCostConfig) -> VariantCost:
    """Count and time the layers over texts of random vectors."""
    made = layers(config)
    rng = torch.Generator().manual_seed(0)
    texts = [torch.randn(1, n, config.dim, generator=rng) for n in config.lengths]
    seconds = fastest(
        {(name, len(x[0])): lambda layer=layer, x=x: layer(x)
         for name, layer in made.items() for x in texts},
        config.rounds,
    )  # fmt: skip
    return VariantCost(
        config,
        {name: sum(p.numel() for p in layer.parameters()) for name, layer in made.items()},
        # One token short of a segment's end, where MAC has most to keep.
        {name: [numbers_in(layer(x[:, :-1])[1]) for x in texts] for name, layer in made.items()},
        {name: [seconds[name, n] for n in config.lengths] for name in made},
    )


def numbers_in(state: State) -> int:
    """How many numbers a state holds; a tensor that is there twice counts once.

    >>> from minititans.attention import WindowState
    >>> numbers_in(WindowState(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), position=3))
    48
    """
    sizes = []
    state.map(lambda tensor: sizes.append(tensor.numel()) or tensor)
    return sum(sizes)
