"""Vectors brought to length 1 (the ℓ2 norm of section 4.4), with the derivative by hand.

`F.normalize` computes the same. Its derivative goes over the vectors ten times, this one four
times, and queries and keys are the longest tensors of a memory layer.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.derivatives import call

# Vectors shorter than this are divided by it: near zero, the derivative of a norm of 1 would be
# without bound, and gradients could overflow.
EPS = 1e-6


def unit(x: Tensor) -> Tensor:
    """x along its last axis with norm 1; what is shorter than EPS stays shorter than 1.

    >>> unit(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """
    return call(_Unit, x)[0]


class _Unit(Function):
    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / norm.clamp(min=EPS), norm

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*outputs)

    @staticmethod
    def backward(ctx, by_y: Tensor | None, by_norm: Tensor | None) -> Tensor:
        y, norm = ctx.saved_tensors
        by_y = torch.zeros_like(y) if by_y is None else by_y
        along = torch.where(norm > EPS, (y * by_y).sum(-1, keepdim=True), 0)
        norm = norm.clamp(min=EPS)
        if by_norm is not None:  # only a second derivative asks for it
            along = along - by_norm * norm
        return torch.addcmul(by_y, y, along, value=-1) / norm
