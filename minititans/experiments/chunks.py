"""What it costs to freeze the gradients of a chunk, and what it buys."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from minititans.experiments.timing import fastest
from minititans.memory import Gates, MemoryState, chunked, scan
from minititans.tasks.maps import STRAIGHT, Maps, generators, normal, unit_vectors


@dataclass(frozen=True)
class FreezingConfig:
    """A matrix learns random straight maps; each chunk size may choose the theta that suits it."""

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


@torch.no_grad()
def freezing_cost(config: FreezingConfig) -> Freezing:
    """Read the same pairs with every chunk size and every theta.

    What diverges has an error far above 1: it is cut off at 1,000.
    """
    maps = Maps(config.dim, 2 * config.dim, STRAIGHT)
    batches = [
        maps.batch(config.tasks, config.pairs, rng) for rng in generators("freezing", config.seeds)
    ]
    keys, values = (torch.stack(x, 1).double() for x in zip(*batches))  # [tasks, seeds, pairs, dim]
    rows = len(config.thetas) * config.tasks  # every theta reads every map
    k, v = (x.repeat(len(config.thetas), 1, 1, 1) for x in (keys, values))
    theta = torch.tensor(config.thetas, dtype=k.dtype).repeat_interleave(config.tasks)
    theta = theta[:, None, None].expand(k.shape[:3])
    gates = Gates(theta, torch.zeros_like(theta), torch.zeros_like(theta))
    start = [torch.zeros(len(config.seeds), config.dim, config.dim, dtype=k.dtype)]
    errors = []
    for size in config.sizes:
        fresh = MemoryState.start(start, rows)
        y, _ = chunked(k.roll(-1, 2), k, v, gates, fresh, size, exact=False)
        error = (y[:, :, :-1] - v[:, :, 1:]).square().sum(-1).mean(2)  # [rows, seeds]
        error = error.nan_to_num(1e3, 1e3).clamp(max=1e3)
        errors.append(error.unflatten(0, (len(config.thetas), config.tasks)).mean(1))
    return Freezing(config, torch.stack(errors, 1).permute(2, 1, 0))


@dataclass(frozen=True)
class CostConfig:
    """A training step: reading `time` tokens and the way back."""

    dim: int = 32
    depth: int = 2
    batch: int = 1
    heads: int = 2
    time: int = 128
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    rounds: int = 2


@dataclass(frozen=True)
class Cost:
    """Of each chunk size, in a list as long as `config.sizes`, by the rule's name."""

    config: CostConfig
    seconds: dict[str, list[float]]
    kept: dict[str, list[int]]  # bytes that the backward pass needs


RULES = {"matmuls": chunked, "a weight per token": scan}


def chunk_costs(config: CostConfig) -> Cost:
    """Seconds and bytes of a training step in matmuls, and with the weights of every token."""
    rng = torch.Generator().manual_seed(0)
    shape = (config.batch, config.heads, config.time, config.dim)
    k, q = unit_vectors(*shape, rng), unit_vectors(*shape, rng)
    v = normal(*shape, rng) / config.dim**0.5
    k, q, v = (x.requires_grad_() for x in (k, q, v))  # a layer's: training needs their gradients
    dims = pairwise([config.dim] * (config.depth + 1))
    weights = [
        (normal(config.heads, d_out, d_in, rng) / d_in**0.5).requires_grad_()
        for d_in, d_out in dims
    ]

    def reading(rule, size):
        gates = Gates.constant(0.5 / size, 0.5, 0.01, shape[:3], dtype=q.dtype, requires_grad=True)
        plain = {"exact": False, "residual": False}
        return lambda: rule(
            q, k, v, gates, MemoryState.start(weights, config.batch), size, **plain
        )[0]  # fmt: skip

    def training(read):
        return lambda: torch.autograd.grad(read().square().mean(), weights)

    reads = {
        (name, size): reading(rule, size) for name, rule in RULES.items() for size in config.sizes
    }
    kept = {key: kept_bytes(read) for key, read in reads.items()}
    seconds = fastest({key: training(read) for key, read in reads.items()}, config.rounds)
    return Cost(
        config,
        {name: [seconds[name, size] for size in config.sizes] for name in RULES},
        {name: [kept[name, size] for size in config.sizes] for name in RULES},
    )


def kept_bytes(function: Callable[[], Tensor]) -> int:
    """How many bytes autograd keeps for the backward pass of `function()`: a count, not a timing.

    >>> x = torch.ones(1000, requires_grad=True)
    >>> kept_bytes(lambda: x.sin() * 2.0)  # the way back through sin needs x, 4 bytes a number
    4000
    """
    sizes: dict[int, int] = {}

    def remember(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()  # views of one storage count once
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        result = function()  # held while we count, so that no storage is freed and used again
    del result
    return sum(sizes.values())
