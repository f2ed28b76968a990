"""What the variants cost: parameters, numbers to keep between two calls, time to read a text."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from minititans.attention import WindowAttention
from minititans.experiments.attention_cost import count_numbers, full_attention
from minititans.experiments.timing import fastest
from minititans.memory import NeuralMemory
from minititans.state import State
from minititans.variants import LMM, MAC, MAG, MAL

ATTENTION = "attention alone"  # over the whole text, for comparison
PIECE = 1024  # tokens that are read at once when only the state matters


@dataclass(frozen=True)
class VariantCostConfig:
    """Single layers, of the sizes at which `attention_cost` compares attention and memory."""

    dim: int = 64
    heads: int = 4
    depth: int = 2
    chunk_size: int = 64
    span: int = 64  # MAC's segment, and the window of MAG and MAL
    persistent: int = 4
    lengths: tuple[int, ...] = (256, 1024, 4096, 16384)
    rounds: int = 3


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
        ATTENTION: WindowAttention(*sizes, window=None),
    }


@torch.no_grad()
def variant_costs(config: VariantCostConfig) -> VariantCost:
    """Count and time the layers over texts of random vectors."""
    made = layers(config)
    rng = torch.Generator().manual_seed(0)
    texts = [torch.randn(1, n, config.dim, generator=rng) for n in config.lengths]
    seconds = {}
    for x in texts:  # one length after the other: a short call right after a long one is slow
        sides = {
            (name, len(x[0])): lambda layer=layer, x=x: answer(layer, x)
            for name, layer in made.items()
        }
        seconds |= fastest(sides, config.rounds)
    return VariantCost(
        config,
        {name: sum(p.numel() for p in layer.parameters()) for name, layer in made.items()},
        # One token short of a segment's end, where MAC has most to keep.
        {name: [numbers_after(layer, x[:, :-1]) for x in texts] for name, layer in made.items()},
        {name: [seconds[name, n] for n in config.lengths] for name in made},
    )


def answer(layer: nn.Module, x: Tensor) -> Tensor:
    """What a layer answers to a whole text; full attention in the fastest way there is."""
    return full_attention(layer, x) if isinstance(layer, WindowAttention) else layer(x)[0]


def numbers_after(layer: nn.Module, x: Tensor) -> int:
    """How many numbers the layer's state holds after a text."""
    state: State | None = None
    for piece in x.split(PIECE, dim=1):
        _, state = layer(piece, state)
    return count_numbers(state)
