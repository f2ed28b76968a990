"""Two ways of writing a pair into a matrix: Hebb adds it, the delta rule corrects what is there.

Hebb    M ← M + v kᵀ                       (4)
delta   M ← M + theta (v − M k) kᵀ         (8), with the gradient of (12) written out
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from minititans.experiments.hebbian import random_pairs


def hebb(M: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Write one pair by adding it: M `[..., d_v, d_k]`, k `[..., d_k]`, v `[..., d_v]`."""
    return M + v[..., :, None] * k[..., None, :]


def delta(M: Tensor, k: Tensor, v: Tensor, theta: float = 1.0) -> Tensor:
    """Write one pair by taking a share theta of the error away.

    >>> k, v = torch.tensor([1.0, 0.0]), torch.tensor([3.0, 4.0])
    >>> delta(torch.ones(2, 2), k, v) @ k  # whatever M held, it now answers v
    tensor([3., 4.])
    """
    error = v - (M @ k[..., None])[..., 0]
    return M + theta * error[..., :, None] * k[..., None, :]


@dataclass(frozen=True)
class Overwrite:
    """One key, first with an old value and then with a new one: what each rule answers."""

    old: Tensor  # [dim]
    new: Tensor
    hebb: Tensor
    delta: Tensor


def overwrite(dim: int = 12, seed: int = 0) -> Overwrite:
    """Write an old value and then a new one under the same key, with both rules."""
    keys, (old, new) = random_pairs(2, dim, seed)
    k, M = keys[0], torch.zeros(dim, dim)
    blended = hebb(hebb(M, k, old), k, new) @ k
    corrected = delta(delta(M, k, old), k, new) @ k
    return Overwrite(old, new, blended, corrected)


@lru_cache(maxsize=256)
def delta_error(pairs: int, dim: int, passes: int, seeds: tuple[int, ...] = (0, 1, 2)) -> float:
    """Squared error, in units of ‖v‖², after reading all pairs `passes` times with theta = 1."""
    drawn = [random_pairs(pairs, dim, seed) for seed in seeds]
    keys, values = (torch.stack(each) for each in zip(*drawn))  # [seeds, pairs, dim]
    M = torch.zeros(len(seeds), dim, dim)
    for _ in range(passes):
        for i in range(pairs):
            M = delta(M, keys[:, i], values[:, i])
    return float((keys @ M.mT - values).square().sum(-1).mean())
