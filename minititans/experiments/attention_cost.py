"""What reading a text costs with full attention and with the memory, by the text's length."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.attention import WindowAttention
from minititans.attention.rotary import rotate
from minititans.experiments.timing import fastest
from minititans.memory import NeuralMemory
from minititans.state import State


@dataclass(frozen=True)
class CostConfig:
    """One layer of each, forward only."""

    dim: int = 64
    heads: int = 4
    depth: int = 2
    chunk_size: int = 64
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192)
    rounds: int = 3


@torch.inference_mode()
def reading_seconds(config: CostConfig) -> dict[str, list[float]]:
    """Seconds to read a text of each length, with "attention" and with "memory"."""
    torch.manual_seed(0)
    attention = WindowAttention(config.dim, config.heads, window=None)
    memory = make_memory(config)
    sides = {}
    for length in config.lengths:
        x = torch.randn(1, length, config.dim)
        sides["attention", length] = lambda x=x: full_attention(attention, x)
        sides["memory", length] = lambda x=x: memory(x)
    seconds = fastest(sides, config.rounds)
    return {
        side: [seconds[side, length] for length in config.lengths]
        for side in ("attention", "memory")
    }


def full_attention(attention: WindowAttention, x: Tensor) -> Tensor:
    """What the layer answers to x, with its window left out, by torch's own causal attention.

    The library's layer builds a mask, which takes most of its time in a long text. This needs none,
    and is as fast as attention gets on a CPU: a fair opponent for the memory.

    >>> attention, x = WindowAttention(dim=16, heads=2, window=None), torch.randn(1, 100, 16)
    >>> torch.allclose(full_attention(attention, x), attention(x)[0], atol=1e-5)
    True
    """
    q, k, v = attention.split(x)  # [batch, heads, time, dim_head]
    positions = torch.arange(x.shape[1])
    q, k = rotate(q, positions), rotate(k, positions)
    return attention.join(F.scaled_dot_product_attention(q, k, v, is_causal=True))


@torch.inference_mode()
def numbers_kept(config: CostConfig, length: int) -> dict[str, int]:
    """How many numbers the state holds after a text of this length."""
    attention = WindowAttention(config.dim, config.heads, window=None)
    x = torch.randn(1, length, config.dim)
    states = {"attention": attention(x)[1], "memory": make_memory(config)(x)[1]}
    return {side: count_numbers(state) for side, state in states.items()}


def count_numbers(state: State) -> int:
    """Every tensor that a state keeps; a shared one once."""
    sizes = []

    def note(tensor):
        sizes.append(tensor.numel())
        return tensor

    state.map(note)
    return sum(sizes)


def make_memory(config: CostConfig) -> NeuralMemory:
    return NeuralMemory(
        config.dim, config.heads, depth=config.depth, chunk_size=config.chunk_size
    ).eval()


def crossover(lengths: tuple[int, ...], seconds: dict[str, list[float]]) -> float | None:
    """The length from which the memory is faster, between two measured ones; None if never.

    Both curves are taken as straight lines on logarithmic scales.

    >>> crossover((1, 4), {"attention": [1.0, 16.0], "memory": [2.0, 8.0]})
    2.0
    """
    log = torch.tensor(lengths, dtype=torch.float64).log2()
    ratio = (torch.tensor(seconds["attention"]) / torch.tensor(seconds["memory"])).log2()
    if ratio[-1] <= 0:
        return None
    slower = [i for i, each in enumerate(ratio.tolist()) if each <= 0]
    if not slower:
        return float(lengths[0])
    i = slower[-1]
    share = float(-ratio[i] / (ratio[i + 1] - ratio[i]))
    return float(2 ** (log[i] + share * (log[i + 1] - log[i])))
