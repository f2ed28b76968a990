"""What it costs to freeze the gradients of a chunk, and that an exact chunk costs nothing.

Throughout, a matrix learns random straight maps and predicts each value before it is written.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked
from minititans.memory.gates import chunk_products, segment_products
from minititans.tasks.maps import STRAIGHT, Maps, generators

DIVERGED = 1e3  # errors are capped here: a memory that has diverged is at NaN, or far above


@dataclass(frozen=True)
class FreezingConfig:
    """Each chunk size may choose the theta that suits it."""

    dim: int = 8
    pairs: int = 256
    tasks: int = 8
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    thetas: tuple[float, ...] = tuple(2.0 ** (i / 2) for i in range(-10, 2))
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Freezing:
    """errors: of predictions, the mean over a sequence, `[seeds, sizes, thetas]`."""

    config: FreezingConfig
    errors: Tensor

    @property
    def best(self) -> Tensor:
        """The error with the theta that suits the chunk size best, `[seeds, sizes]`."""
        return self.errors.amin(-1)

    @property
    def best_theta(self) -> Tensor:
        """That theta, `[seeds, sizes]`."""
        return torch.tensor(self.config.thetas)[self.errors.argmin(-1)]

    def error_at(self, size: int) -> Tensor:
        """The best error of one chunk size, `[seeds]`."""
        return self.best[:, self.config.sizes.index(size)]

    def theta_at(self, size: int) -> Tensor:
        """The best theta of one chunk size, `[seeds]`."""
        return self.best_theta[:, self.config.sizes.index(size)]


@torch.no_grad()
def freezing_cost(config: FreezingConfig, exact: bool = False) -> Freezing:
    """Read the same pairs with every chunk size and every theta, frozen or exact."""
    maps = Maps(config.dim, 2 * config.dim, STRAIGHT)
    batches = [
        maps.batch(config.tasks, config.pairs, rng) for rng in generators("freezing", config.seeds)
    ]
    keys, values = (torch.stack(x, 1).double() for x in zip(*batches))  # [tasks, seeds, pairs, dim]
    k, v = (x.repeat(len(config.thetas), 1, 1, 1) for x in (keys, values))  # for every theta
    theta = torch.tensor(config.thetas, dtype=k.dtype).repeat_interleave(config.tasks)
    theta = theta[:, None, None].expand(k.shape[:3])
    gates = Gates(theta, torch.zeros_like(theta), torch.zeros_like(theta))
    errors = []
    for size in config.sizes:
        error = prediction_errors(k, v, gates, size, exact).mean(2)  # [rows, seeds]
        error = error.nan_to_num(DIVERGED, DIVERGED).clamp(max=DIVERGED)
        errors.append(error.unflatten(0, (len(config.thetas), config.tasks)).mean(1))
    return Freezing(config, torch.stack(errors, 1).permute(2, 1, 0))


def prediction_errors(keys: Tensor, values: Tensor, gates: Gates, size: int, exact: bool) -> Tensor:
    """Squared errors of an empty matrix's predictions from the second pair on.

    keys, values: `[batch, heads, time, dim]`; returns `[batch, heads, time - 1]`.
    """
    batch, heads, _, dim = keys.shape
    start = MemoryState.start([keys.new_zeros(heads, dim, dim)], batch)
    coming = keys.roll(-1, 2)  # after pair t, ask for pair t + 1
    y, _ = chunked(coming, keys, values, gates, start, size, exact=exact)
    return (y[:, :, :-1] - values[:, :, 1:]).square().sum(-1)


SIZES = (1, 2, 4, 8, 16, 32, 64)
SAME, OWN = "the same for all", "its own for each"  # the gates of the tokens


@dataclass(frozen=True)
class ChunkTrace:
    """One sequence of 64 pairs, read with the same gates in chunks of every size.

    H, D, G: of the first chunk of `size` tokens, `[size, size]`
    frozen:  the mean error with frozen gradients, one for each of `SIZES`
    exact:   the mean error with exact ones: the same for every size
    """

    size: int
    H: Tensor
    D: Tensor
    G: Tensor
    frozen: list[float]
    exact: float


@torch.no_grad()
def chunk_trace(size: int, theta: float, eta: float, alpha: float, gates: str) -> ChunkTrace:
    """gates: `SAME` takes the three numbers for every token, `OWN` a random share of them."""
    keys, values, share = sequence()
    if gates == SAME:
        share = torch.ones_like(share)
    # Each token's own gates are between 0 and what the slider says; theta keeps at least 1/4.
    each = Gates(theta * (0.25 + 0.75 * share[0]), eta * share[1], alpha * share[2])
    first = [gate[0, 0, :size] for gate in (each.theta, each.eta, each.alpha)]
    H, G, *_ = chunk_products(*first)

    def error(size: int, exact: bool) -> float:
        mean = prediction_errors(keys, values, each, size, exact).mean()
        return mean.nan_to_num(DIVERGED, DIVERGED).clamp(max=DIVERGED).item()

    exact = error(max(SIZES), exact=True)
    frozen = [exact, *(error(size, exact=False) for size in SIZES[1:])]  # one token: nothing frozen
    return ChunkTrace(size, H, segment_products(1 - first[2]), G, frozen, exact)


@lru_cache(maxsize=1)
def sequence() -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values `[1, 1, 64, 8]`, and random shares from 0 to 1 for three gates."""
    rng = torch.Generator().manual_seed(0)
    keys, values = Maps(dim=8, units=16, slope=STRAIGHT).batch(1, max(SIZES), rng)
    share = torch.rand(3, 1, 1, max(SIZES), generator=rng, dtype=torch.float64)
    return keys[None].double(), values[None].double(), share
