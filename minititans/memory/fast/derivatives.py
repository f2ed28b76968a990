"""What the hand-written derivatives have in common.

`d_x` is the derivative of whatever is being minimised with respect to x.
"""

import torch
from torch import Tensor
from torch.autograd import Function


def call(function: type[Function], *inputs):
    """`function.apply`, or only its forward pass where no derivative is needed."""
    return function.apply(*inputs) if torch.is_grad_enabled() else function.forward(*inputs)


def given(d_outputs, outputs) -> list[Tensor]:
    """The derivatives, with zeros for outputs on which nothing depends.

    The zeros are made like the others, so that under vmap they too have its axis.
    """
    one = next(x for x in (*d_outputs, *outputs) if x is not None)
    return [one.new_zeros(y.shape) if d is None else d for d, y in zip(d_outputs, outputs)]


def dot(x: Tensor, y: Tensor, axes: int | tuple[int, int] = -1) -> Tensor:
    """Inner products along the axes, which are kept at size 1. Faster than bmm with a vector."""
    return (x * y).sum(axes, keepdim=True)


def apart(x: Tensor, chunks: int) -> tuple[Tensor, ...]:
    """Chunk by chunk what is one axis for all rows and their chunks: `[rows·n, …]`."""
    return x.reshape(-1, chunks, *x.shape[1:]).unbind(1)


def together(each: tuple[Tensor, ...]) -> Tensor:
    """The opposite of `apart`."""
    return torch.stack(each, 1).reshape(-1, *each[0].shape[1:])


def split(parts: tuple, chunks: int) -> list[tuple]:
    """A tuple of lists of tensors for each chunk."""
    lists = [
        [list(piece) for piece in zip(*(apart(x, chunks) for x in part))] or [[]] * chunks
        for part in parts
    ]
    return [type(parts)(*each) for each in zip(*lists)]


def scaled(tensors: list[Tensor], steps: tuple[float, ...]) -> list[Tensor]:
    """Each tensor times its step."""
    return [x if step == 1 else x * step for x, step in zip(tensors, steps)]
