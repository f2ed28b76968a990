"""Memories that have learned to learn, on maps that they have never met."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minititans.experiments.depth import Learner, best_matrix_error, learning_curve
from minititans.experiments.depth_grid import SLOPES
from minititans.memory import MemoryState, chunked
from minititans.memory.network import read
from minititans.tasks.maps import Maps, unit_vectors

PAIRS = (0, 8, 16, 32, 64, 128, 256, 512)
ASKED = 60  # keys that the explorer asks for


@dataclass(frozen=True)
class Race:
    """Memories of every depth on every kind of map.

    curves:  errors against the pairs read, `[seeds, pairs]`, by the kind of map and the depth
    best:    the error of the best of all matrices, `[seeds]`, by the kind of map
    trained: pairs in a sequence of the meta-training
    """

    curves: dict[str, dict[int, Tensor]]
    best: dict[str, Tensor]
    trained: int

    def late(self, kind: str, depth: int, pairs: int | None = None) -> Tensor:
        """The mean error in the last quarter of the first `pairs`, as in training by default."""
        last = self.trained if pairs is None else pairs
        return self.curves[kind][depth][:, 3 * last // 4 : last].mean(1)

    def early(self, kind: str, depth: int) -> Tensor:
        """The mean error from the 5th to the 16th pair: `[seeds]`."""
        return self.curves[kind][depth][:, 4:16].mean(1)


def race(learners: Mapping[int, Learner], pairs: int = 512) -> Race:
    """Let the memories of every depth read the same 64 new maps of each kind."""
    config = next(iter(learners.values())).config
    curves = {
        kind: {depth: learning_curve(each, slope, pairs) for depth, each in learners.items()}
        for kind, slope in SLOPES.items()
    }
    best = {kind: best_matrix_error(config, slope) for kind, slope in SLOPES.items()}
    return Race(curves, best, config.pairs)


@dataclass(frozen=True)
class DepthTrace:
    """What one memory knows about one map after some pairs: values of keys it has not read.

    truth, matrix, answer: `[asked, dim]`; matrix is the answer of the best matrix for all pairs
    """

    truth: Tensor
    matrix: Tensor
    answer: Tensor

    def error(self, answer: Tensor) -> float:
        return (answer - self.truth).square().sum(-1).mean().item()


@torch.no_grad()
def depth_trace(learner: Learner, slope: float, pairs: int, number: int = 1) -> DepthTrace:
    """Let the first seed's memory read some pairs of a map, then ask it for other keys.

    number: which map; every number gives a different random one.
    """
    config = learner.config
    rng = torch.Generator().manual_seed(number)
    asked = unit_vectors(ASKED, config.maps.dim, rng)
    maps = Maps(config.maps.dim, config.maps.units, slope)
    keys, values = maps.batch(1, max(PAIRS), rng, asked)  # [1, pairs + asked, dim]
    matrix = torch.linalg.lstsq(keys, values).solution[0]
    alone = replace(learner, weights=[w[:1] for w in learner.weights], raw=learner.raw[:, :1])
    state = MemoryState.start(alone.weights, 1)
    if pairs > 0:
        k, v = keys[None, :, :pairs], values[None, :, :pairs]
        gates = alone.gates(1, pairs)
        _, state = chunked(k, k, v, gates, state, config.chunk_size)
    answer = read(state.weights, asked[None, None])[0, 0]
    return DepthTrace(values[0, max(PAIRS) :], asked @ matrix, answer)
