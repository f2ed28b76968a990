"""What a deeper memory is good for: memories of depth 1 to 4 learn maps in context.

A memory reads the pairs of one map, one after another, and must predict the value of each pair
before it reads it. Its starting weights and its three gates are meta-learned, by Adam through
`fast`, so that a few pairs are enough to predict a map it has never met. Layers and gates are
those of `NeuralMemory`: residual, the last one exact, surprises written in shares. Seeds are heads:
the three memories of three seeds are side by side in each tensor and never interact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from minititans.memory import Gates, MemoryState, fast
from minititans.memory.network import read
from minititans.memory.neural_memory import LARGEST_ETA
from minititans.tasks.maps import Maps, generators, normal, unit_vectors


@dataclass(frozen=True)
class DepthConfig:
    """Everything that the numbers depend on, except the depth.

    maps:       what the memories are meta-trained on
    width:      of the memory's hidden layers
    pairs:      in a sequence of the meta-training
    chunk_size: pairs for which the layers below the last are measured at the same weights
    tasks:      maps in a step of the meta-training, for each seed
    steps, lr:  of Adam; the rate falls to zero along a straight line
    """

    maps: Maps = field(default_factory=Maps)
    width: int = 16
    pairs: int = 128
    chunk_size: int = 16
    tasks: int = 4
    steps: int = 100
    lr: float = 0.04
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Learner:
    """A memory before its first pair, for each seed: everything that meta-training changes.

    weights: one `[seeds, d_out, d_in]` per layer
    raw:     the three gates before the sigmoid, `[3, seeds]`
    """

    config: DepthConfig
    weights: list[Tensor]
    raw: Tensor

    @property
    def depth(self) -> int:
        return len(self.weights)

    def gates(self, tasks: int, pairs: int) -> Gates:
        """The same gates for every pair, in shares: each `[tasks, seeds, pairs]`."""
        theta, eta, alpha = self.raw.sigmoid()
        gates = Gates(theta, LARGEST_ETA * eta, alpha)
        shape = (tasks, len(theta), pairs)
        return gates.map(lambda gate: gate[None, :, None].expand(shape)).in_shares()


def new_learner(config: DepthConfig, depth: int) -> Learner:
    """Random weights, theta and eta in the middle of their range, and almost no forgetting."""
    dim = config.maps.dim
    widths = [dim] + [config.width] * (depth - 1) + [dim]
    sources = generators("start", config.seeds)
    weights = [
        torch.stack([normal(d_out, d_in, rng) for rng in sources]) / d_in**0.5
        for d_in, d_out in pairwise(widths)
    ]
    raw = torch.tensor([0.0, 0.0, -5.0], dtype=torch.float32)[:, None].repeat(1, len(config.seeds))
    return Learner(config, weights, raw)


def prediction_errors(learner: Learner, keys: Tensor, values: Tensor) -> Tensor:
    """The squared error of each pair's prediction, made before the pair is written.

    keys, values: `[tasks, seeds, pairs, dim]`; returns `[tasks, seeds, pairs]`.
    """
    tasks, _, pairs, _ = keys.shape
    size = learner.config.chunk_size
    start = MemoryState.start(learner.weights, tasks)
    first = read(start.weights, keys[:, :, :1])  # before anything was read
    coming = keys.roll(-1, dims=2)  # at pair t, ask for pair t + 1
    later, _ = fast(coming, keys, values, learner.gates(tasks, pairs), start, size)
    predictions = torch.cat([first, later[:, :, :-1]], dim=2)
    return (predictions - values).square().sum(-1)


def meta_train(config: DepthConfig, depth: int) -> Learner:
    """Learn where to start and how to gate, so that predictions of new maps are good."""
    learner = new_learner(config, depth)
    parameters = [*learner.weights, learner.raw]
    for parameter in parameters:
        parameter.requires_grad_()
    optimiser = torch.optim.Adam(parameters, config.lr)
    sources = generators("training", config.seeds)
    for step in range(config.steps):
        optimiser.param_groups[0]["lr"] = config.lr * (1 - step / config.steps)
        keys, values = draw(config.maps, config.tasks, config.pairs, sources)
        # The sum over seeds, not their mean: then each has the gradient that it has alone.
        loss = prediction_errors(learner, keys, values).mean((0, 2)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for parameter in parameters:
        parameter.requires_grad_(False)
    return learner


def draw(
    maps: Maps, tasks: int, pairs: int, sources: Sequence[torch.Generator]
) -> tuple[Tensor, Tensor]:
    """Keys and values `[tasks, seeds, pairs, dim]`, each seed's from its own source."""
    keys, values = zip(*(maps.batch(tasks, pairs, rng) for rng in sources))
    return torch.stack(keys, 1), torch.stack(values, 1)


@torch.no_grad()
def learning_curve(learner: Learner, slope: float, pairs: int, tasks: int = 64) -> Tensor:
    """Error against the number of pairs read before, on new maps: `[seeds, pairs]`."""
    config = learner.config
    maps = Maps(config.maps.dim, config.maps.units, slope)
    keys, values = draw(maps, tasks, pairs, generators("reading", config.seeds))
    return prediction_errors(learner, keys, values).mean(0)


def best_matrix_error(config: DepthConfig, slope: float, pairs: int = 1000, tasks: int = 64):
    """The error that no matrix can go below: that of the least-squares solution, `[seeds]`."""
    maps = Maps(config.maps.dim, config.maps.units, slope)
    keys, values = draw(maps, tasks, pairs, generators("reading", config.seeds))
    solution = torch.linalg.lstsq(keys, values).solution  # [tasks, seeds, dim, dim]
    return (keys @ solution - values).square().sum(-1).mean((0, 2))


@torch.no_grad()
def recall_error(learner: Learner, pairs: int, passes: int, tasks: int = 64) -> Tensor:
    """Read a list of random pairs, which no map connects, several times, then ask: `[seeds]`.

    Chunks are no longer than the list, so that no chunk holds a pair twice.
    """
    config, dim = learner.config, learner.config.maps.dim
    sources = generators("recall", config.seeds)
    keys, values = (
        torch.stack([unit_vectors(tasks, pairs, dim, rng) for rng in sources], 1) for _ in range(2)
    )
    size = min(pairs, config.chunk_size)
    again_keys, again_values = keys.repeat(1, 1, passes, 1), values.repeat(1, 1, passes, 1)
    gates = learner.gates(tasks, pairs * passes)
    start = MemoryState.start(learner.weights, tasks)
    _, state = fast(again_keys, again_keys, again_values, gates, start, size)
    return (read(state.weights, keys) - values).square().sum(-1).mean((0, 2))
