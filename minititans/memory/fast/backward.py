"""Back through one chunk, in the opposite order of the plain form's `surprise` and `write`.

`d_x` is the derivative of whatever is being minimised with respect to x. The lists in
`Derivatives` are added to on the way, until everything that depends on a tensor has been counted.
"""

from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from minititans.memory.fast.derivatives import dot, scaled
from minititans.memory.fast.recall import Below, Last, Recalled, Rule
from minititans.memory.gates import Products
from minititans.memory.network import narrowed, widened
from minititans.memory.state import Layers


class Derivatives(NamedTuple):
    """With respect to what a chunk started with and what its surprise consists of, by layer."""

    W: Layers
    S: Layers
    A: Layers
    E: Layers


def chunk_back(
    rule: Rule, chunk: Recalled, d: Derivatives, d_W_after: Layers, d_S_after: Layers
) -> tuple[Derivatives, list[Tensor | None], list[Tensor]]:
    """From W and S after a chunk to everything before it.

    Returns `Derivatives`, in which A begins with the keys'; those with respect to the weights
    where surprise was measured; and those of the values and of the gates, see `Recalled`.
    """
    below = [Below(*chunk.below[i : i + 6]) for i in range(0, len(chunk.below), 6)]
    d_P = write_back(chunk, d, d_W_after, d_S_after)
    d.E[:] = scaled(d.E, rule.steps)
    d_at: list[Tensor | None] = [None] * rule.layers
    d_back, d_slopes, d_norms = errors_back(rule, chunk, below, d, d_at)
    if rule.exact:
        d_v, *d_before = exact_back(chunk, d, d_back)
    else:
        d_v, d_before = frozen_back(chunk, d, d_at, d_back), []
    path_back(rule, chunk, below, d, d_at, d_slopes, d_norms)
    return d, d_at, [d_v, *d_P, *d_before]


def write_back(chunk: Recalled, d: Derivatives, d_W_after: Layers, d_S_after: Layers) -> Products:
    """Through `W ← β W + f S + Eᵀ (G ⊙ A)` and `S ← m S + Eᵀ (H ⊙ A)`, with the last rows of P."""
    H, G, m, f, beta = chunk.P  # H, G: [rows, b, 1]; the others [rows, 1, 1]
    d_P = []
    for l, (W, S, A, E) in enumerate(zip(chunk.W, chunk.S, chunk.A, chunk.E)):
        d_W, d_S = d_W_after[l], d_S_after[l]
        through_W, through_S = torch.bmm(E, d_W), torch.bmm(E, d_S)  # [rows, b, d_in]
        d.A[l] = torch.addcmul(d.A[l], G, through_W).addcmul_(H, through_S)
        d.E[l] = torch.baddbmm(d.E[l], G * A, d_W.mT).baddbmm_(H * A, d_S.mT)
        d.W[l] = torch.addcmul(d.W[l], beta, d_W)
        d.S[l] = torch.addcmul(d.S[l], f, d_W).addcmul_(m, d_S)
        both = (-2, -1)
        d_columns = dot(through_S, A), dot(through_W, A)
        d_P.append((*d_columns, dot(d_S, S, both), dot(d_W, S, both), dot(d_W, W, both)))
    return Products(*(reduce(torch.add, x) for x in zip(*d_P)))


def errors_back(
    rule: Rule, chunk: Recalled, below: list[Below], d: Derivatives, d_at: list[Tensor | None]
) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:
    """Through `errors_below`: from the errors of the layers below the last to that at its input.

    Returns this one, and what is asked of each layer's slope and norm.
    """
    d_back, d_slopes, d_norms = None, [], []
    for l, layer in enumerate(below):
        d_e = d.E[l]
        if d_back is not None:  # back below this layer is e W + r
            d_at[l] = torch.bmm((layer.slope * layer.r).mT, d_back)
            d_e = torch.baddbmm(d_e, d_back, chunk.at[l].mT)
        d_r, d_norm = layer.slope * d_e, None  # e = slope ⊙ r
        if rule.residual:
            if d_back is not None:
                d_r = d_r + widened(d_back, d_r.shape[-1])
            a, along = chunk.A[l + 1], dot(chunk.A[l + 1], d_r)
            d.A[l + 1] = d.A[l + 1] - (layer.along * d_r + along * layer.back) / layer.norm
            d_norm = -dot(d_r, layer.r) / layer.norm
            d_back = torch.addcmul(d_r, a, along, value=-1) / layer.norm
        else:
            d_back = d_r
        d_slopes.append(layer.r * d_e)
        d_norms.append(d_norm)
    return d_back, d_slopes, d_norms


def exact_back(
    chunk: Recalled, d: Derivatives, d_back: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Through the triangular system and `back = β⁻ ⊙ (E W) + f⁻ ⊙ (E S) + (G⁻ ⊙ (E Eᵀ)) A`."""
    last, W, S, A, E = Last(*chunk.last), chunk.W[-1], chunk.S[-1], chunk.A[-1], chunk.E[-1]
    G, f, beta = chunk.before
    d_E = d.E[-1]
    if d_back is not None:
        d_N = torch.bmm(d_back, A.mT)  # of G⁻ ⊙ (E Eᵀ)
        d_EE = G * d_N
        through_W, through_S = torch.bmm(d_back, W.mT), torch.bmm(d_back, S.mT)
        d_E = torch.addcmul(d_E, beta, through_W).addcmul_(f, through_S)
        d_E = d_E.baddbmm_(d_EE + d_EE.mT, E)
    d_v = torch.bmm(last.inverse.mT, d_E)  # of the system's right-hand side
    d_L = torch.bmm(d_v, E.mT)  # minus that of its matrix, as that of A Wᵀ is minus d_v
    d_AA = G * d_L
    d_vW, d_vS = torch.bmm(d_v, W), torch.bmm(d_v, S)
    d_A = torch.addcmul(beta * d_vW, f, d_vS).baddbmm_(d_AA + d_AA.mT, A)
    d_G, d_f, d_beta = -last.AA * d_L, -dot(d_vS, A), -dot(d_vW, A)
    d_W, d_S = -torch.bmm((beta * d_v).mT, A), -torch.bmm((f * d_v).mT, A)
    if d_back is not None:
        d_A = d_A - torch.bmm((G * last.EE).mT, d_back)
        d_G = torch.addcmul(d_G, last.EE, d_N)
        d_f, d_beta = d_f + dot(E, through_S), d_beta + dot(E, through_W)
        d_W, d_S = d_W.baddbmm_(E.mT, beta * d_back), d_S.baddbmm_(E.mT, f * d_back)
    d.A[-1], d.W[-1], d.S[-1] = d.A[-1] - d_A, d.W[-1] + d_W, d.S[-1] + d_S
    return d_v, d_G, d_f, d_beta


def frozen_back(
    chunk: Recalled, d: Derivatives, d_at: list[Tensor | None], d_back: Tensor | None
) -> Tensor:
    """Through `E = V − A Wᵀ` and `back = E W`, at the weights the chunk started with."""
    A, E, W = chunk.A[-1], chunk.E[-1], chunk.at[-1]
    d_v = d.E[-1] if d_back is None else torch.baddbmm(d.E[-1], d_back, W.mT)
    d.A[-1] = torch.baddbmm(d.A[-1], d_v, W, alpha=-1)
    d_W = -torch.bmm(d_v.mT, A)
    d_at[-1] = d_W if d_back is None else d_W.baddbmm_(E.mT, d_back)
    return d_v


def path_back(
    rule: Rule, chunk: Recalled, below: list[Below], d: Derivatives, d_at: list[Tensor | None],
    d_slopes: list[Tensor], d_norms: list[Tensor | None],
) -> None:  # fmt: skip
    """Through `path`: from what enters the last layer to the keys."""
    for l in reversed(range(len(below))):
        layer, a, d_sum, d_norm = below[l], chunk.A[l + 1], d.A[l + 1], d_norms[l]
        if d_norm is not None:  # unit, and the length that `errors_below` divides by
            along = dot(a, d_sum) - d_norm * layer.norm
            d_sum = torch.addcmul(d_sum, a, along, value=-1) / layer.norm
        d_z = torch.addcmul(layer.slope * d_sum, layer.bend, d_slopes[l])
        d.A[l] = torch.baddbmm(d.A[l], d_z, chunk.at[l])
        if rule.residual:
            d.A[l] = d.A[l] + narrowed(d_sum, d.A[l].shape[-1])
        d_W, more = torch.bmm(d_z.mT, chunk.A[l]), d_at[l]
        d_at[l] = d_W if more is None else more + d_W
