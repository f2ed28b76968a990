"""The products of gates that describe a chunk, with a hand-written derivative.

Each is a recurrence over the chunk's tokens that starts with m = β = 1 and everything else 0:

    H_t = eta_t H_{t−1} + theta_t e_t        G_t = (1 − alpha_t) G_{t−1} + H_t        e_t: 1 at t
    m_t = eta_t m_{t−1}                      f_t = (1 − alpha_t) f_{t−1} + m_t
                                             β_t = (1 − alpha_t) β_{t−1}

`segment_products` unrolls them: E those with eta, D those with 1 − alpha. Their derivative is the
same recurrence from the last token to the first, unrolled by Eᵀ and Dᵀ. Autograd, which sees only
matrices, would take three times as many matmuls.

`d_x` is the derivative of whatever is being minimised with respect to x.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.fast.derivatives import call, dot, given
from minititans.memory.gates import Products, segment_products
from minititans.precision import in_full_precision


def chunk_products(theta: Tensor, eta: Tensor, alpha: Tensor) -> Products:
    """Like the plain one, from gates `[rows, b]`, but with only the last rows of H and m."""
    keep = 1 - alpha
    E, D = segment_products(torch.stack([eta, keep]))  # [rows, b, b]
    return Products(*call(_ChunkProducts, theta, eta, keep, E, D))


class _ChunkProducts(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(theta, eta, keep, E, D) -> tuple[Tensor, ...]:
        H, m = _momentum(theta, eta, E)
        beta = D[..., :1] * keep[:, :1, None]
        return H[:, -1:].clone(), torch.bmm(D, H), m[:, -1:].clone(), dot(D, m.mT), beta

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *outputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, *d_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        theta, eta, _, E, D, *outputs = ctx.saved_tensors
        _, G, _, f, beta = outputs
        d_H_last, d_G, d_m_last, d_f, d_beta = given(d_outputs, outputs)
        H, m = _momentum(theta, eta, E)
        # From the last token to the first: what token t and all later ones ask for.
        d_G = torch.bmm(D.mT, d_G)
        d_f, d_beta = dot(D, d_f, 1).mT, dot(D, d_beta, 1).mT  # [rows, b, 1]
        d_H = torch.bmm(E.mT, d_G).addcmul_(E[:, -1, :, None], d_H_last)
        d_m = dot(E, d_f, 1).mT + E[:, -1, :, None] * d_m_last
        # A gate multiplies what the token before has left behind.
        d_eta = dot(d_H[:, 1:], H[:, :-1]) + d_m[:, 1:] * m[:, :-1]
        d_keep = dot(d_G[:, 1:], G[:, :-1]) + d_f[:, 1:] * f[:, :-1]
        d_keep = d_keep + d_beta[:, 1:] * beta[:, :-1]
        d_eta = torch.cat([d_m[:, :1], d_eta], 1).squeeze(-1)
        d_keep = torch.cat([d_beta[:, :1], d_keep], 1).squeeze(-1)
        # None for E and D: they are functions of eta and keep, whose derivatives include them.
        return d_H.diagonal(dim1=1, dim2=2), d_eta, d_keep, None, None


def _momentum(theta: Tensor, eta: Tensor, E: Tensor) -> tuple[Tensor, Tensor]:
    """H, `[rows, b, b]`, and m, `[rows, b, 1]`."""
    return E * theta[:, None], E[..., :1] * eta[:, :1, None]
