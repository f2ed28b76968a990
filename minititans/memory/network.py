"""The memory itself: a small MLP whose weights are what is remembered (the paper's section 3.1).

Every layer but the last adds to a vector of length 1, and the last one answers:

    a_1 = x,      a_{l+1} = unit(a_l + silu(W_l a_l)),      M(x) = W_L a_L

Depth 1 is a matrix. If a layer fades to zero, a deep memory becomes a shallower one: the last
layer still reads a vector of length 1 and keeps learning. With `residual=False` the layers are
plain, `a_{l+1} = silu(W_l a_l)`, and a memory of zeros stays at zero: its gradient is zero too.

Every function takes the weights as an argument, a list with one `[..., d_out, d_in]` tensor per
layer, because in this library the weights are data: they change with every token.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# Its square is added to a squared length before anything is divided by it. Far below any length
# that matters, and large enough that dividing zero by it four times has a finite derivative.
EPS = 1e-4


def read(weights: list[Tensor], x: Tensor, residual: bool = True) -> Tensor:
    """Ask the memory without writing to it, `M*(x)`: equation (15).

    weights: one `[..., d_out, d_in]` per layer; x: `[..., d_in]`, a single vector or a matrix
    of them; returns `[..., d_out of the last layer]`.

    >>> double = [2 * torch.eye(3)]
    >>> read(double, torch.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 6.])
    """
    for W in weights[:-1]:
        x = join(x, F.silu(x @ W.mT), residual)
    return x @ weights[-1].mT


def join(a: Tensor, hidden: Tensor, residual: bool) -> Tensor:
    """What enters the next layer: `a + hidden` scaled to length 1; with plain layers, `hidden`."""
    if not residual:
        return hidden
    total = widened(a, hidden.shape[-1]) + hidden
    return total * length(total).reciprocal()  # faster to differentiate than a division


def loss(weights: list[Tensor], key: Tensor, value: Tensor, residual: bool = True) -> Tensor:
    """How wrong the memory is about one pair: equation (12), with the appendix's factor 1/2.

    >>> loss([torch.eye(2)], torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0]))
    tensor(0.5000)
    """
    return (read(weights, key, residual) - value).square().sum() / 2


class Path(NamedTuple):
    """What keys meet on their way to the last layer, with one tensor per layer below it."""

    inputs: list[Tensor]  # a: what enters each layer, the last one included, [..., time, d_in]
    slopes: list[Tensor]  # silu′ of each layer, [..., time, d_out]
    norms: list[Tensor]  # ‖a + silu(W a)‖, [..., time, 1]


def path(weights: list[Tensor], keys: Tensor, residual: bool = True) -> Path:
    """Follow keys, `[..., time, dim]`, up to the last layer."""
    inputs, slopes, norms = [keys], [], []
    for W in weights[:-1]:
        z = inputs[-1] @ W.mT
        sigma = z.sigmoid()
        hidden = z * sigma
        slopes.append(sigma + hidden * (1 - sigma))
        if residual:
            hidden = widened(inputs[-1], z.shape[-1]) + hidden
            norms.append(length(hidden))
            hidden = hidden / norms[-1]
        inputs.append(hidden)
    return Path(inputs, slopes, norms)


def errors_below(weights: list[Tensor], way: Path, back: Tensor) -> list[Tensor]:
    """The error at the output of every layer below the last, by backpropagation.

    back: the error at the last layer's input, `[..., time, d_in]`. Minus a token's gradient with
    respect to layer l is then `errors[l] ⊗ way.inputs[l]`: this is (17) for any depth.
    """
    errors = []
    for l in reversed(range(len(way.slopes))):
        if way.norms:  # through unit, which removes any change along the vector
            a = way.inputs[l + 1]
            back = (back - a * (a * back).sum(-1, keepdim=True)) / way.norms[l]
        errors.append(way.slopes[l] * back)
        if l > 0:
            below = errors[-1] @ weights[l]
            back = below + narrowed(back, below.shape[-1]) if way.norms else below
    return errors[::-1]


def unit(x: Tensor) -> Tensor:
    """x along its last axis with length 1.

    >>> unit(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """
    moderate, _ = _moderate(x)
    return (moderate * length(moderate).reciprocal()).to(x.dtype)


def length(x: Tensor) -> Tensor:
    """`√(‖x‖² + EPS²)`, so that a vector of zeros can be divided by it: `[..., 1]`."""
    return (x.square().sum(-1, keepdim=True) + EPS**2).sqrt()


def bounded(x: Tensor, most: float) -> Tensor:
    """x along its last axis, no longer than `most`.

    >>> bounded(torch.tensor([[3.0, 4.0], [300.0, 400.0]]), 50.0)
    tensor([[ 3.,  4.],
            [30., 40.]])
    """
    moderate, size = _moderate(x)
    return (moderate * (most / length(moderate)).minimum(size)).to(x.dtype)


def _moderate(x: Tensor) -> tuple[Tensor, Tensor]:
    """x in at least float32, divided by its largest entry if that is above 1; and the divisor.

    The square of 1e20 would be infinite in float32, and that of 300 in float16.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    size = x.detach().abs().amax(-1, keepdim=True).clamp(min=1)
    return x / size, size


def widened(a: Tensor, width: int) -> Tensor:
    """a repeated to `width` entries, at the same length: the first layer may expand."""
    times = width // a.shape[-1]
    return a if times == 1 else a.repeat(*[1] * (a.dim() - 1), times) / times**0.5


def narrowed(back: Tensor, width: int) -> Tensor:
    """The transpose of `widened`: it takes an error at the output back to the input."""
    times = back.shape[-1] // width
    return back if times == 1 else back.unflatten(-1, (times, width)).sum(-2) / times**0.5
