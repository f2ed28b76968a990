"""A matrix overflows: many unrelated pairs, one after another.

Keys are random unit vectors in d dimensions, the memory is a d × d matrix without momentum, and
one step of the rule (13) multiplies the old memory by `B = (1 − alpha) I − theta k kᵀ`. Averaged
over k, B is r times the identity, and its square is q times the identity:

    r = (1 − alpha) − theta / d           q = (1 − alpha)² − (2 (1 − alpha) theta − theta²) / d

Every expectation, here and in `forgetting.py`, follows from these two numbers.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked


def random_units(*shape: int, seed: int) -> Tensor:
    """Random vectors of norm 1."""
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*shape, generator=generator), dim=-1)


def shrinkage(dim: int, theta: float, alpha):
    """r and q as above, for one alpha or a tensor of them.

    >>> shrinkage(dim=4, theta=1.0, alpha=0.0)
    (0.75, 0.75)
    """
    kept = 1 - alpha
    return kept - theta / dim, kept**2 - (2 * kept * theta - theta**2) / dim


def recall_by_age(
    pairs: int,
    dim: int = 16,
    theta: float = 1.0,
    alpha: float = 0.0,
    seeds: Iterable[int] = (0, 1, 2),
    memories: int = 64,
) -> Tensor:
    """Write random pairs and ask for each of them: squared error by age, `[seeds, pairs]`.

    Age 0 is the pair written last. Values have norm 1, so silence has an error of 1.
    """
    draws = [random_units(2, memories, pairs, dim, seed=seed) for seed in seeds]
    k, v = torch.stack(draws, 2)  # [memories, seeds, pairs, dim]: every seed is a head
    gates = Gates.constant(theta, 0.0, alpha, k.shape[:3])
    start = MemoryState.start([torch.zeros(len(draws), dim, dim)], memories)
    _, state = chunked(k, k, v, gates, start, chunk_size=1)
    error = (k @ state.weights[0].mT - v).square().sum(-1)
    return error.mean(0).flip(-1)


def expected_by_age(pairs: int, dim: int = 16, theta: float = 1.0, alpha: float = 0.0) -> Tensor:
    """What `recall_by_age` should find, `[pairs]`.

    Ask for a pair of age j. Its own value comes back with the weight `theta r^j`; every newer
    pair, and every older one, adds its value with a random weight whose square is on average
    theta²/d times a power of q. (In one place the square of a mean replaces the mean of a square,
    which is good to about a hundredth.)

    >>> float(expected_by_age(1)[0])
    0.0
    """
    r, q = shrinkage(dim, theta, alpha)
    age = torch.arange(pairs, dtype=torch.float64)
    older = pairs - 1 - age
    own = theta * r**age
    from_newer = theta**2 / dim * _geometric(q, age)
    passed = (1 - alpha) ** 2 * q**age - (2 * (1 - alpha) * theta - theta**2) * r ** (2 * age)
    from_older = theta**2 / dim * passed * _geometric(q, older)
    return (1 - own).square() + from_newer + from_older


def _geometric(q: float, terms: Tensor) -> Tensor:
    """`1 + q + … + q^(terms − 1)`."""
    return (1 - q**terms) / (1 - q) if q != 1 else terms
