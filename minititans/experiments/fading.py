"""What is left of a deep memory when the layers below its last one fade.

A memory starts with random lower layers, faded to a share of their size, and an empty last layer.
Then it reads the pairs of a random straight map, which a matrix could learn. Plain layers pass a
fading vector to the last one, which learns less and less. Layers that add to a vector of length 1
pass it the key itself.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked
from minititans.tasks.maps import STRAIGHT, Maps, generators, normal

PLAIN, ADDING = "plain", "adding"  # forms of layers


@dataclass(frozen=True)
class FadingConfig:
    """left: shares of the lower layers' random weights that are left."""

    dim: int = 8
    depths: tuple[int, ...] = (2, 3)
    left: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    pairs: int = 256
    chunk_size: int = 16
    theta: float = 0.5
    tasks: int = 8
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Fading:
    """Errors of the last quarter's predictions; answering zero has an error of 1.

    errors: `[seeds, left]` by the form of the layers and the depth
    matrix: of a memory of depth 1, `[seeds]`
    """

    config: FadingConfig
    errors: dict[tuple[str, int], Tensor]
    matrix: Tensor

    def at(self, layers: str, depth: int, left: float) -> Tensor:
        return self.errors[layers, depth][:, self.config.left.index(left)]


@torch.no_grad()
def fading(config: FadingConfig) -> Fading:
    """Every form, every depth, every share of the lower layers."""
    errors = {
        (layers, depth): torch.stack(
            [late_error(config, depth, left, layers) for left in config.left], 1
        )
        for layers in (PLAIN, ADDING)
        for depth in config.depths
    }
    return Fading(config, errors, late_error(config, 1, 1.0, ADDING))


def late_error(config: FadingConfig, depth: int, left: float, layers: str) -> Tensor:
    """The mean error of the last quarter of the pairs, each predicted before it is read."""
    sources = generators("fading", config.seeds)
    maps = Maps(config.dim, 2 * config.dim, STRAIGHT)
    batches = [maps.batch(config.tasks, config.pairs, rng) for rng in sources]
    k, v = (torch.stack(x, 1) for x in zip(*batches))  # [tasks, seeds, pairs, dim]
    size = (config.dim, config.dim)
    below = [
        left * torch.stack([normal(*size, rng) for rng in sources]) / config.dim**0.5
        for _ in range(depth - 1)
    ]
    start = MemoryState.start([*below, torch.zeros(len(sources), *size)], config.tasks)
    gates = Gates.constant(config.theta, 0.0, 0.0, k.shape[:3])
    coming, adds = k.roll(-1, 2), layers == ADDING
    y, _ = chunked(coming, k, v, gates, start, config.chunk_size, residual=adds)
    error = (y[:, :, :-1] - v[:, :, 1:]).square().sum(-1)
    return error[:, :, -config.pairs // 4 :].mean((0, 2))
