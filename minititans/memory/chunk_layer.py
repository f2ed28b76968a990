"""One layer of the memory over one chunk, read and written, each with its derivative by hand.

Autograd would find the same derivatives. Written out they take the same matmuls, but fewer passes
over the matrices between them; `forward` may add in place, and fewer matrices are kept.

Both take what `chunked` names: W₀ and S₀ `[rows, d_out, d_in]`, the surprise's factors a
`[rows, b, d_in]` and δ `[rows, b, d_out]`, and the products of gates. `by_x` is the derivative of
whatever is being minimised with respect to x.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import Function


def read_layer(
    X: Tensor, W: Tensor, S: Tensor, a: Tensor, delta: Tensor, G: Tensor, beta: Tensor, f: Tensor
) -> Tensor:
    """Every row of X with its own W_t: `(β ⊙ X) W₀ᵀ + (f ⊙ X) S₀ᵀ + (G ⊙ (X aᵀ)) δ`.

    X: `[rows, b, d_in]`; G: `[rows, b, b]`; beta, f: `[rows, b, 1]`; returns `[rows, b, d_out]`.
    """
    return _ReadLayer.apply(X, W, S, a, delta, G, beta, f)[0]


def write_layer(
    W: Tensor, S: Tensor, a: Tensor, delta: Tensor,
    into_W: Tensor, into_S: Tensor, m: Tensor, f: Tensor, beta: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """W and S after the chunk: `β W₀ + f S₀ + δᵀ (into_W ⊙ a)` and `m S₀ + δᵀ (into_S ⊙ a)`.

    into_W, into_S: `[rows, b, 1]`; m, f, beta: `[rows, 1, 1]`, those of the last token.
    """
    return _WriteLayer.apply(W, S, a, delta, into_W, into_S, m, f, beta)


def in_full_precision(function: Callable) -> Callable:
    """Without autocast, which would bring some of these products to half precision, not all."""

    @functools.wraps(function)
    def without_autocast(*arguments):
        with torch.autocast(arguments[0].device.type, enabled=False):
            return function(*arguments)

    return without_autocast


class _ReadLayer(Function):
    @staticmethod
    @in_full_precision
    def forward(X, W, S, a, delta, G, beta, f) -> tuple[Tensor, Tensor]:
        overlap = torch.bmm(X, a.mT)  # [rows, b, b]: how alike each query and each key are
        y = torch.bmm(beta * X, W.mT)
        y = y.baddbmm_(f * X, S.mT)
        return y.baddbmm_(G * overlap, delta), overlap

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.device = inputs[0].device
        ctx.set_materialize_grads(False)  # overlap is kept, not used: nothing to derive by it
        ctx.save_for_backward(*inputs, outputs[1])

    @staticmethod
    @in_full_precision
    def backward(ctx, by_y: Tensor | None, again: Tensor | None) -> tuple[Tensor, ...]:
        X, W, S, a, delta, G, beta, f, overlap = ctx.saved_tensors
        by_y = torch.zeros_like(delta) if by_y is None else by_y
        through_W, through_S = torch.bmm(by_y, W), torch.bmm(by_y, S)  # [rows, b, d_in]
        by_weighted = torch.bmm(by_y, delta.mT)  # [rows, b, b]
        by_overlap = G * by_weighted
        by_overlap = by_overlap if again is None else by_overlap + again
        by_X = torch.addcmul(beta * through_W, f, through_S)
        by_X = torch.baddbmm(by_X, by_overlap, a)
        by_W, by_S = torch.bmm(by_y.mT, beta * X), torch.bmm(by_y.mT, f * X)
        by_a = torch.bmm(by_overlap.mT, X)
        by_delta = torch.bmm((G * overlap).mT, by_y)
        by_beta, by_f = _dot(through_W, X), _dot(through_S, X)
        return by_X, by_W, by_S, by_a, by_delta, by_weighted * overlap, by_beta, by_f


class _WriteLayer(Function):
    @staticmethod
    @in_full_precision
    def forward(W, S, a, delta, into_W, into_S, m, f, beta) -> tuple[Tensor, Tensor]:
        W_after = (beta * W).addcmul_(f, S).baddbmm_(delta.mT, into_W * a)
        return W_after, (m * S).baddbmm_(delta.mT, into_S * a)

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.device = inputs[0].device
        ctx.save_for_backward(*inputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, by_W_after: Tensor, by_S_after: Tensor) -> tuple[Tensor, ...]:
        W, S, a, delta, into_W, into_S, m, f, beta = ctx.saved_tensors
        through_W, through_S = torch.bmm(delta, by_W_after), torch.bmm(delta, by_S_after)
        by_a = torch.addcmul(into_W * through_W, into_S, through_S)  # [rows, b, d_in]
        by_delta = torch.bmm(into_W * a, by_W_after.mT)
        by_delta = torch.baddbmm(by_delta, into_S * a, by_S_after.mT)
        by_W, by_S = beta * by_W_after, torch.addcmul(f * by_W_after, m, by_S_after)
        by_into_W, by_into_S = _dot(through_W, a), _dot(through_S, a)
        by_m, by_f, by_beta = (
            (x * y).sum((1, 2), keepdim=True)
            for x, y in ((by_S_after, S), (by_W_after, S), (by_W_after, W))
        )
        return by_W, by_S, by_a, by_delta, by_into_W, by_into_S, by_m, by_f, by_beta


def _dot(x: Tensor, y: Tensor) -> Tensor:
    """The inner products of x's rows with y's: `[rows, b, d]` to `[rows, b, 1]`."""
    return (x * y).sum(-1, keepdim=True)
