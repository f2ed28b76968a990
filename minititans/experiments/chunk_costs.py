"""What a chunk buys: the time and the memory of a training step, by chunk size."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from minititans.experiments.timing import fastest
from minititans.memory import Gates, MemoryState, chunked, scan
from minititans.tasks.maps import normal, unit_vectors


@dataclass(frozen=True)
class CostConfig:
    """A training step: forward and backward over `time` tokens."""

    dim: int = 32
    depth: int = 2
    batch: int = 1
    heads: int = 2
    time: int = 64
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    rounds: int = 2


@dataclass(frozen=True)
class Cost:
    """One number per chunk size, in a list as long as `config.sizes`, by the rule's name."""

    config: CostConfig
    seconds: dict[str, list[float]]
    kept: dict[str, list[int]]  # bytes that the backward pass needs

    def speedup(self, name: str, size: int, over: tuple[str, int]) -> float:
        """How many times as fast one rule in chunks of `size` is as another, `(name, size)`."""
        other, at = over
        place = self.config.sizes.index
        return self.seconds[other][place(at)] / self.seconds[name][place(size)]

    def share_kept(self, name: str, of: str, size: int) -> float:
        """The bytes that one rule keeps, as a share of another's, in chunks of `size`."""
        place = self.config.sizes.index(size)
        return self.kept[name][place] / self.kept[of][place]


EXACT, FROZEN, PER_TOKEN = "exact", "frozen", "a memory per token"
RULES = {EXACT: chunked, FROZEN: chunked, PER_TOKEN: scan}


def chunk_costs(config: CostConfig) -> Cost:
    """Seconds and bytes of a training step: as matmuls, exact and frozen, and token by token.

    `PER_TOKEN` builds the weights of every token, by a scan; its gradients are frozen too.
    """
    rng = torch.Generator().manual_seed(0)
    shape = (config.batch, config.heads, config.time, config.dim)
    k, q = unit_vectors(*shape, rng), unit_vectors(*shape, rng)
    v = normal(*shape, rng) / config.dim**0.5
    k, q, v = (x.requires_grad_() for x in (k, q, v))  # as in a layer that is trained
    dims = pairwise([config.dim] * (config.depth + 1))
    weights = [
        (normal(config.heads, d_out, d_in, rng) / d_in**0.5).requires_grad_()
        for d_in, d_out in dims
    ]

    def reading(name, size):
        gates = Gates.constant(0.5 / size, 0.5, 0.01, shape[:3], dtype=q.dtype, requires_grad=True)
        rule, form = RULES[name], {"exact": name == EXACT, "residual": False}
        return lambda: rule(
            q, k, v, gates, MemoryState.start(weights, config.batch), size, **form
        )[0]  # fmt: skip

    def training(read):
        return lambda: torch.autograd.grad(read().square().mean(), weights)

    reads = {(name, size): reading(name, size) for name in RULES for size in config.sizes}
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
    >>> kept_bytes(lambda: x.sin() * 2.0)  # the derivative of sin needs x, 4 bytes per number
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
