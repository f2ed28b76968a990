"""Reading one layer of the memory, for many chunks at once, with its derivative by hand.

Autograd would find the same derivative. Written out it takes the same matmuls, but fewer passes
over the matrices between them, and fewer matrices are kept.

The axis `rows` holds whatever has weights of its own: every chunk of every head of every batch
row. `d_x` is the derivative of whatever is being minimised with respect to x.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.fast.derivatives import call, dot
from minititans.memory.precision import in_full_precision


def read_layer(
    X: Tensor, W: Tensor, S: Tensor, A: Tensor, E: Tensor, G: Tensor, f: Tensor, beta: Tensor
) -> Tensor:
    """Every token of X with its own W_t: `(β ⊙ X) W₀ᵀ + (f ⊙ X) S₀ᵀ + (G ⊙ (X Aᵀ)) E`.

    X: `[rows, b, d_in]`; W, S: `[rows, d_out, d_in]`, what the chunk began with; its surprise
    A `[rows, b, d_in]` and E `[rows, b, d_out]`; G: `[rows, b, b]`; f, beta: `[rows, b, 1]`.
    Returns `[rows, b, d_out]`.
    """
    return call(_ReadLayer, X, W, S, A, E, G, f, beta)


class _ReadLayer(Function):
    generate_vmap_rule = True

    @staticmethod
    @in_full_precision
    def forward(X, W, S, A, E, G, f, beta) -> Tensor:
        y = torch.baddbmm(torch.bmm(beta * X, W.mT), f * X, S.mT)
        overlap = torch.bmm(X, A.mT)  # [rows, b, b]: how alike each query and each key are
        return torch.baddbmm(y, G * overlap, E)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, d_y: Tensor) -> tuple[Tensor, ...]:
        X, W, S, A, E, G, f, beta = ctx.saved_tensors
        # In an order that needs few matrices at a time: they stay in the cache.
        overlap = torch.bmm(X, A.mT)  # again, rather than kept
        d_E = torch.bmm((G * overlap).mT, d_y)
        d_weighted = torch.bmm(d_y, E.mT)  # [rows, b, b]
        d_G = d_weighted * overlap
        d_overlap = G * d_weighted
        del overlap, d_weighted
        d_A, d_X = torch.bmm(d_overlap.mT, X), torch.bmm(d_overlap, A)
        del d_overlap
        d_X, d_W, d_beta = _scaled_back(X, W, beta, d_y, d_X)
        d_X, d_S, d_f = _scaled_back(X, S, f, d_y, d_X)
        return d_X, d_W, d_S, d_A, d_E, d_G, d_f, d_beta


def _scaled_back(X: Tensor, W: Tensor, scale: Tensor, d_y: Tensor, d_X: Tensor):
    """Through `(scale ⊙ X) Wᵀ`: with respect to X, added to d_X, to W and to scale."""
    through = torch.bmm(d_y, W)  # [rows, b, d_in]
    d_W = torch.bmm(d_y.mT, scale * X)
    return d_X.addcmul_(scale, through), d_W, dot(through, X)
