"""Reading one layer of the memory, for many chunks at once, and its derivative by hand.

Autograd would find the same derivative. Written out it takes the same matmuls, but fewer passes
over the matrices between them; `forward` may work in place, and fewer matrices are kept.

The axis `rows` holds whatever has weights of its own: every chunk of every head of every batch
row. `by_x` is the derivative of whatever is being minimised with respect to x.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.derivatives import call, dot
from minititans.memory.precision import in_full_precision


def read_layer(
    X: Tensor, W: Tensor, S: Tensor, a: Tensor, delta: Tensor, G: Tensor, beta: Tensor, f: Tensor
) -> Tensor:
    """Every token of X with its own W_t: `(β ⊙ X) W₀ᵀ + (f ⊙ X) S₀ᵀ + (G ⊙ (X aᵀ)) δ`.

    X: `[rows, b, d_in]`; W, S: `[rows, d_out, d_in]`, what the chunk began with; its surprise
    a `[rows, b, d_in]` and delta `[rows, b, d_out]`; G: `[rows, b, b]`; beta, f: `[rows, b, 1]`.
    Returns `[rows, b, d_out]`.
    """
    return call(_ReadLayer, X, W, S, a, delta, G, beta, f)


class _ReadLayer(Function):
    @staticmethod
    @in_full_precision
    def forward(X, W, S, a, delta, G, beta, f) -> Tensor:
        scaled = beta * X
        y = torch.bmm(scaled, W.mT)
        y.baddbmm_(torch.mul(f, X, out=scaled), S.mT)
        overlap = torch.bmm(X, a.mT)  # [rows, b, b]: how alike each query and each key are
        return y.baddbmm_(overlap.mul_(G), delta)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, by_y: Tensor) -> tuple[Tensor, ...]:
        X, W, S, a, delta, G, beta, f = ctx.saved_tensors
        # In an order that needs few matrices at a time: they stay in the cache.
        overlap = torch.bmm(X, a.mT)  # again, rather than kept
        by_delta = torch.bmm((G * overlap).mT, by_y)
        by_weighted = torch.bmm(by_y, delta.mT)  # [rows, b, b]
        by_G = by_weighted * overlap
        by_overlap = G * by_weighted
        del overlap, by_weighted
        by_a, by_X = torch.bmm(by_overlap.mT, X), torch.bmm(by_overlap, a)
        del by_overlap
        by_X, by_W, by_beta = _scaled_backward(X, W, beta, by_y, by_X)
        by_X, by_S, by_f = _scaled_backward(X, S, f, by_y, by_X)
        return by_X, by_W, by_S, by_a, by_delta, by_G, by_beta, by_f


def _scaled_backward(X: Tensor, W: Tensor, scale: Tensor, by_y: Tensor, by_X: Tensor):
    """Through `(scale ⊙ X) Wᵀ`: by X, added to by_X, by W and by scale."""
    through = torch.bmm(by_y, W)  # [rows, b, d_in]
    by_W = torch.bmm(by_y.mT, scale * X)
    return by_X.addcmul_(scale, through), by_W, dot(through, X)
