"""The memory's rule by itself: inputs such as a `NeuralMemory` would send, and a training step."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory import Gates, MemoryState

Inputs = tuple[list[Tensor], Gates, list[Tensor]]  # q, k and v; gates; weights


def random_inputs(batch: int, heads: int, time: int, dim: int, depth: int, **place: Any) -> Inputs:
    """Leaves that want a gradient; q, k and v on the device and with the dtype of `place`."""
    random = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, batch, heads, time, dim, generator=random)
    theta, eta, alpha = torch.rand(3, batch, heads, time, generator=random)
    weights = [torch.randn(heads, dim, dim, generator=random) / dim**0.5 for _ in range(depth)]
    gates = Gates(theta, 0.7 * eta, alpha / 50).in_shares()
    device = place.get("device")
    return (
        [
            x.to(**place).requires_grad_()
            for x in (F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)
        ],
        gates.map(lambda gate: gate.to(device).requires_grad_()),
        [w.to(device).requires_grad_() for w in weights],
    )


def train_step(rule: Callable, inputs: Inputs, chunk_size: int) -> None:
    """Forward and backward, with gradients for everything that goes in."""
    tokens, gates, weights = inputs
    y, _ = rule(*tokens, gates, MemoryState.start(weights, len(tokens[0])), chunk_size)
    torch.autograd.grad(y.float().square().sum(), [*tokens, *vars(gates).values(), *weights])
