"""The memory itself: a small MLP whose weights are what is remembered (the paper's section 3.1).

A layer is `y = W x`; SiLU stands between layers and nothing follows the last one. With
`residual_norm=True` the output becomes `x + LayerNorm(y)`, which keeps a deep memory's answers
at one scale however far its weights wander.

Every function takes the weights as an argument, a list with one `[..., d_out, d_in]` tensor a
layer, because in this library the weights are data: they change with every token.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

NORM_EPS = 1e-5  # LayerNorm's usual guard against a variance of zero


def read(weights: list[Tensor], x: Tensor, residual_norm: bool = False) -> Tensor:
    """Ask the memory without writing to it, `M*(x)`: equation (15).

    weights: one `[..., d_out, d_in]` a layer; x: `[..., d_in]`, a single vector or a matrix
    of them; returns `[..., d_out of the last layer]`.

    >>> double = [2 * torch.eye(3)]
    >>> read(double, torch.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 6.])
    """
    hidden = x
    for W in weights[:-1]:
        hidden = F.silu(hidden @ W.mT)
    y = hidden @ weights[-1].mT
    return add_norm(x, y) if residual_norm else y


def add_norm(x: Tensor, y: Tensor) -> Tensor:
    """`x + LayerNorm(y)`, without learned scale and shift."""
    return x + F.layer_norm(y, y.shape[-1:], eps=NORM_EPS)


def loss(weights: list[Tensor], key: Tensor, value: Tensor, residual_norm: bool = False) -> Tensor:
    """How wrong the memory is about one pair: equation (12), with the appendix's factor 1/2.

    >>> loss([torch.eye(2)], torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0]))
    tensor(0.5000)
    """
    return (read(weights, key, residual_norm) - value).square().sum() / 2


class Clipping(NamedTuple):
    """What clipping did to each token, `[rows, time, 1]` each."""

    norm: Tensor  # of the gradient before
    kept: Tensor  # the factor by which it became shorter
    clipped: Tensor  # True where its norm was too large


class Surprise(NamedTuple):
    """What `surprise_factors` returns."""

    inputs: list[Tensor]  # a: what entered each layer, [rows, time, d_in]
    deltas: list[Tensor]  # δ: the error at each layer's output, [rows, time, d_out]
    error: Tensor  # v − M(k), [rows, time, d_value]
    clipping: Clipping | None  # None without `clip`


def surprise_factors(
    weights: list[Tensor],
    keys: Tensor,
    values: Tensor,
    residual_norm: bool = False,
    clip: float | None = None,
) -> Surprise:
    """The surprise of many tokens at once, each as the factors of an outer product.

    Minus token i's gradient of `loss` with respect to layer l is `deltas[l][i] ⊗ inputs[l][i]`:
    the error propagated back to the layer's output, and what entered the layer. This is (17)
    for a memory of any depth; the `d_out × d_in` gradient of a token is never written down.

    weights: one `[rows, d_out, d_in]` a layer; keys, values: `[rows, time, dim]`. With `clip`,
    deltas are scaled down so that no token's gradient, all layers together, has a larger norm.
    """
    inputs, slopes = [keys], []
    for W in weights[:-1]:
        z = torch.bmm(inputs[-1], W.mT)  # [rows, time, d_out]
        hidden, slope = _silu_and_slope(z)
        inputs.append(hidden)
        slopes.append(slope)

    if residual_norm:
        error, delta = norm_error(torch.bmm(inputs[-1], weights[-1].mT), keys, values)
    else:
        delta = error = torch.baddbmm(values, inputs[-1], weights[-1].mT, alpha=-1)

    if clip is not None:
        # The clipped gradient depends on the error's direction alone, so a huge error is
        # brought down to about 1 before anything is squared, and nothing can overflow.
        size = delta.detach().abs().amax(-1, keepdim=True).clamp(min=1)
        delta = delta / size

    deltas, clipping = [delta], None
    for W, slope in zip(reversed(weights[1:]), reversed(slopes)):
        deltas.append(torch.bmm(deltas[-1], W) * slope)
    deltas.reverse()

    if clip is not None:
        floor = (clip / size).square().clamp(min=1e-24)  # and a key of zeros divides by 1e-12
        energy = surprise_energy(inputs, deltas)[..., None]
        shrink = clip * torch.maximum(energy, floor).rsqrt()  # size · min(1, clip / ‖gradient‖)
        deltas = [delta * shrink for delta in deltas]
        clipping = Clipping(size * energy.detach().sqrt(), shrink / size, energy > floor)
    return Surprise(inputs, deltas, error, clipping)


def surprise_energy(inputs: list[Tensor], deltas: list[Tensor]) -> Tensor:
    """The squared norm of each token's gradient, all layers together: `‖δ aᵀ‖ = ‖δ‖ ‖a‖`."""
    return sum(a.square().sum(-1) * delta.square().sum(-1) for a, delta in zip(inputs, deltas))


def surprise_norm(surprise: Surprise) -> Tensor:
    """The norm of each token's gradient before any clipping, `[rows, time]`."""
    if surprise.clipping is None:
        return surprise_energy(surprise.inputs, surprise.deltas).sqrt()
    return surprise.clipping.norm.squeeze(-1)


def norm_error(y: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """With `residual_norm`: `v − (k + LayerNorm(y))`, and the same brought back to y."""
    normed, inverse_std = _normalise(y)
    error = values - keys - normed
    return error, _normalise_backward(error, normed, inverse_std)


def silu_derivatives(z: Tensor, silu: Tensor) -> tuple[Tensor, Tensor]:
    """SiLU's first and second derivative, from z and `silu(z)`."""
    sigma = torch.sigmoid(z)
    slope = _slope(sigma, silu)
    return slope, (1 - sigma) * (slope + sigma).addcmul_(silu, sigma, value=-1)


def _silu_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
    """`silu(z) = z σ(z)` and its derivative."""
    sigma = torch.sigmoid(z)
    silu = z * sigma
    return silu, _slope(sigma, silu)


def _slope(sigma: Tensor, silu: Tensor) -> Tensor:
    """SiLU's derivative, `σ + silu (1 − σ)`."""
    return torch.lerp(sigma, sigma.new_ones(()), silu)


def _normalise(y: Tensor) -> tuple[Tensor, Tensor]:
    """LayerNorm without learned scale, and the 1/std that its backward pass needs."""
    variance, mean = torch.var_mean(y, dim=-1, correction=0, keepdim=True)
    inverse_std = (variance + NORM_EPS).rsqrt()
    return (y - mean) * inverse_std, inverse_std


def _normalise_backward(error: Tensor, normed: Tensor, inverse_std: Tensor) -> Tensor:
    """The error at LayerNorm's input: what is left after removing the mean and the scale."""
    along = (error * normed).mean(-1, keepdim=True)
    return (error - error.mean(-1, keepdim=True) - normed * along) * inverse_std
