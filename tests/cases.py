"""Random inputs for the memory rule, in float64 so that 'equal' can mean 1e-10."""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory import Gates, MemoryState

EXACT = 1e-10


@dataclass
class Case:
    """Inputs of a rule; every tensor requires a gradient."""

    q: Tensor
    k: Tensor
    v: Tensor
    gates: Gates
    weights: list[Tensor]

    @property
    def leaves(self) -> dict[str, Tensor]:
        layers = {f"weights.{layer}": w for layer, w in enumerate(self.weights)}
        return {"q": self.q, "k": self.k, "v": self.v, **vars(self.gates), **layers}

    def start(self) -> MemoryState:
        return MemoryState.start(self.weights, len(self.q))

    def part(self, first: int, last: int) -> tuple[Tensor, Tensor, Tensor, Gates]:
        """The arguments for some of the tokens."""
        cut = lambda x: x[:, :, first:last]  # noqa: E731
        return cut(self.q), cut(self.k), cut(self.v), self.gates.map(cut)

    def run(self, rule, chunk_size: int, **options):
        return rule(*self.part(0, self.q.shape[2]), self.start(), chunk_size, **options)


def random_case(
    batch=2,
    heads=2,
    time=10,
    dim=5,
    depth=2,
    expansion=2,
    seed=0,
    limits=False,
    dtype=torch.float64,
) -> Case:
    """Keys and queries of norm 1; `limits` sets many gates to exactly 0 or 1."""
    rng = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=rng, dtype=dtype)

    def gate(low, high):
        values = low + (high - low) * torch.rand(batch, heads, time, generator=rng, dtype=dtype)
        if limits:
            dice = torch.rand(batch, heads, time, generator=rng)
            values = values.masked_fill(dice < 0.2, 0.0).masked_fill(dice > 0.8, 1.0)
        return values

    q, k = (F.normalize(randn(batch, heads, time, dim), dim=-1) for _ in range(2))
    v = randn(batch, heads, time, dim)
    theta, eta, alpha = gate(0.0, 0.3), gate(0.0, 1.0), gate(0.0, 0.5)
    if limits:
        theta = theta.clamp(max=0.3)  # theta's own limit is 0; large steps only blow numbers up
    widths = [dim] + [expansion * dim] * (depth - 1) + [dim]
    weights = [randn(heads, d_out, d_in) / d_in**0.5 for d_in, d_out in pairwise(widths)]
    for tensor in (q, k, v, theta, eta, alpha, *weights):
        tensor.requires_grad_()
    return Case(q, k, v, Gates(theta, eta, alpha), weights)


def everything(case: Case, y: Tensor, state: MemoryState) -> dict[str, Tensor]:
    """Values, final state and the gradients of a generic function of all of them."""
    named = {"y": y}
    for name in ("weights", "momentum", "chunk_start"):
        named |= {f"{name}.{layer}": w for layer, w in enumerate(getattr(state, name))}
    total = 0.0
    for number, tensor in enumerate(named.values()):
        wave = torch.arange(tensor.numel(), dtype=tensor.dtype).add(number).sin()
        total = total + (tensor.flatten() * wave).sum()
    grads = torch.autograd.grad(total, list(case.leaves.values()), materialize_grads=True)
    return named | {
        f"gradient with respect to {n}": g for n, g in zip(case.leaves, grads, strict=True)
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance=EXACT) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        difference = (found[name] - tensor).abs().max().item()
        scale = max(1.0, tensor.abs().max().item())
        assert difference <= tolerance * scale, f"{name} differs by {difference}"  # NaN fails too
