"""What a deeper memory costs: seconds of a training step, by depth and by length."""

from dataclasses import dataclass

import torch

from minititans.experiments.timing import fastest
from minititans.memory import Gates, MemoryState, chunked
from minititans.tasks.maps import normal, unit_vectors


@dataclass(frozen=True)
class SpeedConfig:
    """A training step of a memory whose layers are all `dim × dim`."""

    dim: int = 64
    batch: int = 4
    heads: int = 2
    chunk_size: int = 32
    depths: tuple[int, ...] = (1, 2, 3, 4)
    times: tuple[int, ...] = (128, 512)
    rounds: int = 6


def training_seconds(config: SpeedConfig) -> dict[tuple[int, int], float]:
    """How long the forward and backward pass of a sequence take: `(depth, time)` to seconds."""
    rng = torch.Generator().manual_seed(0)
    sides = {
        (depth, time): _training_step(config, depth, time, rng)
        for time in config.times
        for depth in config.depths
    }
    return fastest(sides, config.rounds)


def _training_step(config: SpeedConfig, depth: int, time: int, rng: torch.Generator):
    shape = (config.batch, config.heads, time, config.dim)
    q, k = unit_vectors(*shape, rng), unit_vectors(*shape, rng)
    v = normal(*shape, rng) / config.dim**0.5
    size = (config.heads, config.dim, config.dim)
    weights = [(normal(*size, rng) / config.dim**0.5).requires_grad_() for _ in range(depth)]
    gates = Gates.constant(0.5 / config.chunk_size, 0.5, 0.01, shape[:3], dtype=q.dtype)

    def step():
        start = MemoryState.start(weights, config.batch)
        y, _ = chunked(q, k, v, gates, start, config.chunk_size)
        return torch.autograd.grad(y.square().mean(), weights)

    return step
