"""What the derivatives that are written by hand have in common.

`by_x` is the derivative of whatever is being minimised with respect to x.
"""

import torch
from torch import Tensor
from torch.autograd import Function


def call(function: type[Function], *inputs):
    """`function.apply`, or only its forward pass where nothing is to be differentiated."""
    return function.apply(*inputs) if torch.is_grad_enabled() else function.forward(*inputs)


def given(by_outputs, outputs) -> list[Tensor]:
    """The derivatives, and zeros by outputs on which nothing depends.

    Zeros like the others: under vmap they too have its axis, and may be added to in place.
    """
    one = next(x for x in (*by_outputs, *outputs) if x is not None)
    return [
        one.new_zeros(y.shape) if by_y is None else by_y for by_y, y in zip(by_outputs, outputs)
    ]


def dot(x: Tensor, y: Tensor, axes: int | tuple[int, int] = -1) -> Tensor:
    """Inner products along the axes, which stay with length 1. Faster than bmm with a vector."""
    return (x * y).sum(axes, keepdim=True)
