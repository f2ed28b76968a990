"""Can gates and keys be chosen so that a matrix memory grows without bound?

For a matrix, (13) and (14) with values of zero are linear in `(M, S)`: a token multiplies them by a
matrix that depends on its key and its gates. A cycle of tokens that is read again and again
multiplies by the product of these matrices, whose largest eigenvalue decides whether the memory
grows. `largest_growth` looks for the worst cycle, first at random, then by changing the worst one.
"""

import torch
from torch import Tensor

from minititans.experiments.shares import gates_of
from minititans.memory import Gates

KEYS, DIM = 3, 3


def largest_growth(rule: str, eta_max: float, tries: int = 1000, seed: int = 0) -> float:
    """The largest growth per token that was found, 1 for none.

    rule: what is done to the gates that a layer computes, see `gates_of`

    >>> largest_growth("shares", eta_max=0.5, tries=20) <= 1.0001
    True
    """
    rng = torch.Generator().manual_seed(seed)
    best, worst = 0.0, None
    for number in range(tries):
        length = int(torch.randint(2, 41, (), generator=rng))
        fresh = worst is None or number % 2 == 0
        cycle = _random_cycle(length, rng) if fresh else _changed(worst, rng)
        found = _growth(rule, eta_max, *cycle)
        if found > best:
            best, worst = found, cycle
    return best


def _random_cycle(length: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Keys, `[length, DIM]`, and theta, eta and alpha as shares of the most they may be.

    Tokens come in runs of the same key and gates, and gates are often at their limits: that is how
    surprises pile up.
    """
    keys = torch.randn(KEYS, DIM, generator=rng, dtype=torch.float64)
    runs = int(torch.randint(1, length + 1, (), generator=rng))
    run = torch.randint(runs, (length,), generator=rng).sort().values
    which = torch.randint(KEYS, (runs,), generator=rng)[run]
    gates = torch.rand(3, runs, generator=rng, dtype=torch.float64)
    gates = torch.where(torch.rand(3, runs, generator=rng) < 0.7, gates.round(), gates)
    gates[2] *= torch.rand((), generator=rng).round()  # in half of the cycles nothing is forgotten
    return torch.nn.functional.normalize(keys, dim=-1)[which], gates[:, run]


def _changed(cycle: tuple[Tensor, Tensor], rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The same cycle with slightly different keys and a few gates redrawn."""
    keys, gates = cycle
    other = torch.randn(keys.shape, generator=rng, dtype=keys.dtype)
    keys = torch.nn.functional.normalize(keys + 0.1 * other, dim=-1)
    some = torch.rand(gates.shape, generator=rng) < 0.1
    drawn = torch.rand(gates.shape, generator=rng, dtype=keys.dtype).round()
    return keys, torch.where(some, drawn, gates)


def _growth(rule: str, eta_max: float, keys: Tensor, gates: Tensor) -> float:
    """The cycle's spectral radius per token, on a row of (M, S) side by side."""
    theta, eta, alpha = gates[:, None, None]  # [1, 1, length]
    given = Gates(theta, eta_max * eta, alpha)
    used = gates_of(rule, given, eta_before=given.eta[..., -1])  # the cycle repeats
    total, one = torch.eye(2 * DIM, dtype=keys.dtype), torch.eye(DIM, dtype=keys.dtype)
    for k, theta, eta, alpha in zip(keys, *(gate[0, 0] for gate in vars(used).values())):
        to_S = torch.cat([-theta * torch.outer(k, k), eta * one], 1)  # (14), (M k − 0) kᵀ
        to_M = torch.cat([(1 - alpha) * one, torch.zeros_like(one)], 1) + to_S  # (13)
        total = torch.cat([to_M, to_S], 0) @ total
    radius = torch.linalg.eigvals(total).abs().max().item()
    return radius ** (1 / len(keys))
