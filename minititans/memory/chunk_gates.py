"""The products of gates that stand for a chunk, and their derivative by hand.

Each is a recurrence over the chunk's tokens that begins with m = β = 1 and everything else 0:

    H_t = eta_t H_{t−1} + theta_t e_t        G_t = (1 − alpha_t) G_{t−1} + H_t        e_t: 1 at t
    m_t = eta_t m_{t−1}                      f_t = (1 − alpha_t) f_{t−1} + m_t
                                             β_t = (1 − alpha_t) β_{t−1}

`segment_products` unrolls them: E those with eta, D those with 1 − alpha. Their derivative is the
same recurrence from the last token to the first, unrolled by Eᵀ and Dᵀ. Autograd, which sees only
matrices, would take three times as many matmuls.

`by_x` is the derivative of whatever is being minimised with respect to x.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.derivatives import call, dot, given
from minititans.memory.gates import segment_products
from minititans.memory.precision import in_full_precision


class Products(NamedTuple):
    """For the tokens t and i of a chunk that begins with the weights W₀ and the momentum S₀."""

    H: Tensor  # [rows, b, b]    how much of surprise i is in S_t
    G: Tensor  #                 and in W_t
    m: Tensor  # [rows, b, 1]    how much of S₀ is in S_t
    f: Tensor  #                 and in W_t
    beta: Tensor  #              how much of W₀ is in W_t
    into_S: Tensor  # [rows, b]  H's last row: what the chunk leaves of each surprise
    into_W: Tensor  #            and G's


def chunk_products(theta: Tensor, eta: Tensor, alpha: Tensor) -> Products:
    """All of them, from gates `[rows, b]`.

    >>> theta, eta, alpha = torch.tensor([[[0.1, 0.2]], [[0.5, 0.5]], [[0.0, 0.5]]])
    >>> H, G, *_ = chunk_products(theta, eta, alpha)
    >>> H  # half of the first surprise is still in S when the second comes
    tensor([[[0.1000, 0.0000],
             [0.0500, 0.2000]]])
    >>> G  # W has forgotten half of the first, and S has brought half of it again
    tensor([[[0.1000, 0.0000],
             [0.1000, 0.2000]]])
    """
    keep = 1 - alpha
    E, D = segment_products(torch.stack([eta, keep]))  # [rows, b, b]
    return Products(*call(_ChunkProducts, theta, eta, keep, E, D))


class _ChunkProducts(Function):
    @staticmethod
    @in_full_precision
    def forward(theta, eta, keep, E, D) -> tuple[Tensor, ...]:
        H = E * theta[:, None]
        G = torch.bmm(D, H)
        m = E[..., :1] * eta[:, :1, None]  # [rows, b, 1]
        f = dot(D, m.mT)  # D m
        beta = D[..., :1] * keep[:, :1, None]
        return H, G, m, f, beta, H[:, -1].clone(), G[:, -1].clone()

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[3:], *outputs[:5])

    @staticmethod
    @in_full_precision
    def backward(ctx, by_H: Tensor | None, *by_others: Tensor | None) -> tuple[Tensor | None, ...]:
        E, D, H, G, m, f, beta = ctx.saved_tensors
        by_G, by_m, by_f, by_beta, by_into_S, by_into_W = given(
            by_others, (G, m, f, beta, G[:, 0], G[:, 0])
        )
        # From the last token to the first: what token t and all later ones ask for.
        by_G = torch.bmm(D.mT, by_G).addcmul_(D[:, -1, :, None], by_into_W[:, None])
        by_f, by_beta = dot(D, by_f, 1).mT, dot(D, by_beta, 1).mT  # [rows, b, 1]
        by_H = by_G if by_H is None else by_G + by_H  # nothing but the trace looks at H
        by_H = torch.bmm(E.mT, by_H).addcmul_(E[:, -1, :, None], by_into_S[:, None])
        by_m = dot(E, by_f + by_m, 1).mT
        # A gate multiplies what the token before has left.
        by_eta = dot(by_H[:, 1:], H[:, :-1]) + by_m[:, 1:] * m[:, :-1]
        by_keep = dot(by_G[:, 1:], G[:, :-1]) + by_f[:, 1:] * f[:, :-1]
        by_keep = by_keep + by_beta[:, 1:] * beta[:, :-1]
        by_eta = torch.cat([by_m[:, :1], by_eta], 1).squeeze(-1)
        by_keep = torch.cat([by_beta[:, :1], by_keep], 1).squeeze(-1)
        # None by E and D: they are functions of eta and keep, and have been followed to these.
        return by_H.diagonal(dim1=1, dim2=2), by_eta, by_keep, None, None
