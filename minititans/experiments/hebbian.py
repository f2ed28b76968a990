"""A matrix that remembers pairs: what it answers, and how much the other pairs interfere.

The Hebbian matrix `M = Σ v_i k_iᵀ`, (4), asked with the key k_j answers

    M k_j = v_j + Σ_{i≠j} (k_i · k_j) v_i

and the sum is cross-talk. For n random keys of norm 1 in d dimensions its expected squared norm
is `(n − 1) / d` times that of a value, because `(k_i · k_j)²` is 1/d on average.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Recall:
    """What a memory answered when it was asked for each of its pairs."""

    keys: Tensor  # [pairs, dim], norm 1
    values: Tensor  # [pairs, dim], norm 1
    answers: Tensor  # [pairs, dim]

    def error(self) -> float:
        """Squared distance from answer to value, on average, in units of a value's norm²."""
        return float((self.answers - self.values).square().sum(-1).mean())

    def scores(self) -> Tensor:
        """How much each answer, a row, is like each value, a column: `[pairs, pairs]`."""
        return self.answers @ self.values.T

    def right(self) -> float:
        """The share of answers that are more like their own value than like any other."""
        own = torch.arange(len(self.values))
        return float((self.scores().argmax(-1) == own).float().mean())


def random_pairs(pairs: int, dim: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Keys and values of norm 1 in random directions, `[pairs, dim]` each."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = F.normalize(torch.randn(2, pairs, dim, generator=generator), dim=-1)
    return keys, values


def hebbian_recall(pairs: int, dim: int, seed: int = 0) -> Recall:
    """Write random pairs into a Hebbian matrix and ask for every one of them.

    >>> hebbian_recall(pairs=1, dim=8).error() < 1e-12  # one pair: nothing interferes
    True
    """
    keys, values = random_pairs(pairs, dim, seed)
    M = values.T @ keys  # Σ v_i k_iᵀ
    return Recall(keys, values, keys @ M.T)


def crosstalk(pairs: int, dim: int) -> float:
    """The expected squared error of a Hebbian matrix, in units of a value's norm².

    >>> crosstalk(1, 64), crosstalk(65, 64)
    (0.0, 1.0)
    """
    return (pairs - 1) / dim


@lru_cache(maxsize=512)
def mean_error(pairs: int, dim: int, seeds: tuple[int, ...] = (0,)) -> float:
    """The measured error, averaged over seeds."""
    return sum(hebbian_recall(pairs, dim, seed).error() for seed in seeds) / len(seeds)


def pairs_held(dim: int, seed: int = 0, right: float = 0.9) -> int:
    """How many random pairs a Hebbian matrix holds with this share of answers right.

    The counts that are tried grow by a fifth; the last one that reaches the share is returned.
    """
    pairs = more = 4
    while hebbian_recall(more, dim, seed).right() >= right:
        pairs, more = more, int(1.2 * more) + 1
    return pairs
