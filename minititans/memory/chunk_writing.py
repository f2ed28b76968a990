"""The loop of `chunked`: surprise and writing, chunk after chunk, and its derivative by hand.

Only this part of the rule must wait for the chunk before. `_WriteChunks.forward` is the formula;
autograd could differentiate it. Written out, the derivative takes the same matmuls in a fraction
of the calls, and what waits for no other chunk is done for all chunks at once.

`by_x` is the derivative of whatever is being minimised with respect to x.
"""

from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from minititans.memory.chunks import Weights
from minititans.memory.derivatives import call, dot, given
from minititans.memory.network import norm_error, silu_derivatives, surprise_factors
from minititans.memory.precision import in_full_precision


class Written(NamedTuple):
    """What n chunks leave behind, a tensor a layer."""

    W: list[Tensor]  # [n·rows, d_out, d_in]   what each chunk began with
    S: list[Tensor]
    a: list[Tensor]  # [n·rows, b, d_in]       each chunk's surprise, in factors
    delta: list[Tensor]  # [n·rows, b, d_out]
    W_after: Weights  # [rows, d_out, d_in]    after the last chunk
    S_after: Weights


def write_chunks(
    chunks,
    W: Weights,
    S: Weights,
    W_start: Weights,
    residual_norm: bool = False,
    clip: float | None = None,
) -> Written:
    """Learn the `chunks` that `chunked.prepare` cut, going on from W and S.

    W_start is where the first chunk's surprise is measured: W, unless it was begun before.
    """
    # What is left at the end of a chunk of each surprise, and of what the chunk began with.
    into_W, into_S = chunks.into_W[..., None], chunks.into_S[..., None]  # [n·rows, b, 1]
    last = (chunks.m[:, -1:], chunks.f[:, -1:], chunks.beta[:, -1:])  # [n·rows, 1, 1]
    sequences = (chunks.k, chunks.v, into_W, into_S, *last)
    options = (chunks.n, len(W), residual_norm, clip)
    # As views: the compiler would refuse the same tensor twice, as W and as W_start.
    W_start = [w.view_as(w) for w in W_start]
    outputs = call(_WriteChunks, *options, *sequences, *W, *S, *W_start)
    W, S, W_after, S_after, delta, a, _ = _by_kind(outputs, len(W))
    return Written(W, S, [chunks.k, *a], delta, W_after, S_after)


def write(
    state: list[Tensor], a: list[Tensor], delta: list[Tensor],
    into_W: Tensor, into_S: Tensor, m: Tensor, f: Tensor, beta: Tensor, out: list[Tensor],
) -> None:  # fmt: skip
    """After a chunk W is `β W₀ + f S₀ + δᵀ (into_W ⊙ a)` and S is `m S₀ + δᵀ (into_S ⊙ a)`.

    state, out: W of every layer, then S of every layer.
    """
    layers = len(a)
    for l in range(layers):
        W, S, W_after, S_after = state[l], state[layers + l], out[l], out[layers + l]
        delta_T = delta[l].mT
        torch.mul(beta, W, out=W_after).addcmul_(f, S).baddbmm_(delta_T, into_W * a[l])
        torch.mul(m, S, out=S_after).baddbmm_(delta_T, into_S * a[l])


class _WriteChunks(Function):
    @staticmethod
    @in_full_precision
    def forward(n, layers, residual_norm, clip, *tensors) -> tuple[Tensor, ...]:
        sequences, weights = tensors[:7], tensors[7:]
        state, at = weights[: 2 * layers], weights[2 * layers :]  # W and S of all layers
        began = [w.new_empty(n * len(w), *w.shape[1:]) for w in state]
        after = [torch.empty_like(w) for w in state]
        states = [*_each(n, began), after]
        for first, w in zip(states[0], state):
            first.copy_(w)
        found = []
        for (k, v, *gates), state, next_state in zip(_each(n, sequences), states, states[1:]):
            a, delta, _, clipping = surprise_factors(at, k, v, residual_norm, clip)
            found.append((*delta, *a[1:], *(() if clip is None else clipping[1:])))
            write(state, a, delta, *gates, out=next_state)
            at = next_state[:layers]
        return *began, *after, *(torch.cat(x) for x in zip(*found))

    @staticmethod
    def setup_context(ctx, inputs, outputs) -> None:
        ctx.n, ctx.layers, ctx.residual_norm, ctx.clip, *tensors = inputs
        if ctx.clip is not None:
            ctx.mark_non_differentiable(outputs[-1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *outputs)

    @staticmethod
    @in_full_precision
    def backward(ctx, *by_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        n, layers = ctx.n, ctx.layers
        k, v, into_W, into_S, m, f, beta, *tensors = ctx.saved_tensors
        W_start, outputs = tensors[2 * layers : 3 * layers], tensors[3 * layers :]
        W, S, _, _, delta, a, clipping = _by_kind(outputs, layers)
        by_W, by_S, by_W_after, by_S_after, by_delta, by_a, by_clipping = _by_kind(
            given(by_outputs, outputs), layers
        )
        a, by_a = [k, *a], [torch.zeros_like(k), *by_a]

        # What waits for no other chunk: SiLU's derivatives, the second times what it multiplies.
        at = W_start if n == 1 else W  # where surprise was measured
        slopes, bends = [], []
        for l in range(layers - 1):
            slope, bend = silu_derivatives(torch.bmm(a[l], at[l].mT), a[l + 1])
            slopes.append(slope)
            bends.append(bend * torch.bmm(delta[l + 1], at[l + 1]))
        head = (torch.bmm(a[-1], at[-1].mT), k, v) if ctx.residual_norm else ()
        gates = (into_W, into_S, m, f, beta)
        parts = (W, S, a, delta, gates, slopes, bends, head, clipping)
        chunks = [_Chunk(*chunk) for chunk in zip(*(_each(n, part) for part in parts))]
        by_parts = (by_W, by_S, by_a, by_delta, by_clipping[:1])
        by_chunks = zip(*(_each(n, part) for part in by_parts))

        found = []
        for chunk, (*by_chunk, by_kept) in reversed(list(zip(chunks, by_chunks))):
            layer_by_layer = zip(
                *chunk[:4], [chunk.gates] * layers, by_W_after, by_S_after, *by_chunk
            )
            by_W, by_S, by_a, by_delta, *by_gates = (
                list(x) for x in zip(*(_write_backward(*layer) for layer in layer_by_layer))
            )
            by_gates = [_sum(by_gate) for by_gate in by_gates]
            if ctx.clip is not None:
                by_a, by_delta = _clip_backward(chunk, by_a, by_delta, *by_kept, ctx.clip)
            at = W_start if n == 1 else chunk.W
            by_k, by_v, by_at = _surprise_backward(chunk, at, by_a, by_delta)
            found.append((by_k, by_v, *by_gates))
            if len(found) < n:  # the first chunk's may be other weights than W
                by_W = [x.add_(y) for x, y in zip(by_W, by_at)]
            by_W_after, by_S_after = by_W, by_S  # of the chunk before
        by_sequences = [torch.cat(x) for x in zip(*reversed(found))]
        return None, None, None, None, *by_sequences, *by_W, *by_S, *by_at


class _Chunk(NamedTuple):
    """One chunk on the way back; lists have a tensor a layer."""

    W: Weights
    S: Weights
    a: list[Tensor]
    delta: list[Tensor]
    gates: list[Tensor]  # into_W, into_S, m, f, β
    slopes: list[Tensor]  # of the SiLU after each layer but the last
    bends: list[Tensor]  # and how that changes δ
    head: list[Tensor]  # with residual_norm: the last layer's output, k, v
    clipping: list[Tensor]  # with a clip: kept, clipped


def _write_backward(
    W: Tensor, S: Tensor, a: Tensor, delta: Tensor, gates: list[Tensor],
    by_W_after: Tensor, by_S_after: Tensor,
    by_W: Tensor, by_S: Tensor, by_a: Tensor, by_delta: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Through `write` of a layer: added to what is known of its inputs, and by the gates."""
    into_W, into_S, m, f, beta = gates
    through_W, through_S = torch.bmm(delta, by_W_after), torch.bmm(delta, by_S_after)
    by_a = by_a.addcmul(into_W, through_W).addcmul_(into_S, through_S)  # [rows, b, d_in]
    by_delta = torch.baddbmm(by_delta, into_W * a, by_W_after.mT)
    by_delta.baddbmm_(into_S * a, by_S_after.mT)
    by_W = by_W.addcmul(beta, by_W_after)
    by_S = by_S.addcmul(f, by_W_after).addcmul_(m, by_S_after)
    by_into = dot(through_W, a), dot(through_S, a)  # [rows, b, 1]
    by_m = dot(by_S_after, S, (1, 2))  # [rows, 1, 1]
    by_f, by_beta = dot(by_W_after, S, (1, 2)), dot(by_W_after, W, (1, 2))
    return by_W, by_S, by_a, by_delta, *by_into, by_m, by_f, by_beta


def _clip_backward(chunk: _Chunk, by_a, by_delta, by_kept: Tensor, clip: float):
    """Through the clip, `δ = kept · (δ before)` with `kept = clip / ‖gradient‖` where clipped.

    Returns the derivative by (δ before) without its factor `kept`: every layer's δ is a product
    with the next layer's, so that the factor can wait for the last one.
    """
    a, delta, (kept, clipped) = chunk.a, chunk.delta, chunk.clipping
    along = kept * by_kept + _sum(dot(x, d) for x, d in zip(by_delta, delta))
    along = torch.where(clipped, along / clip / clip, 0)  # [rows, b, 1]
    by_a = [x - along * dot(d, d) * y for x, y, d in zip(by_a, a, delta)]
    return by_a, [x - along * dot(y, y) * d for x, y, d in zip(by_delta, a, delta)]


def _surprise_backward(chunk: _Chunk, at: Weights, by_a, by_delta):
    """Through `surprise_factors`, to keys, values and the weights at which it was measured."""
    a, delta, slopes = chunk.a, chunk.delta, chunk.slopes
    last = len(at) - 1
    by_at = []
    for l in range(last):  # δ_l = (δ_{l+1} W_{l+1}) ⊙ slope_l
        by_product = by_delta[l] * slopes[l]
        by_at.append(torch.bmm(delta[l + 1].mT, by_product))  # of layer l + 1
        by_delta[l + 1].baddbmm_(by_product, at[l + 1].mT)

    by_v = chunk.clipping[0] * by_delta[last] if chunk.clipping else by_delta[last]
    by_y, by_k = -by_v, None
    if chunk.head:
        _, pull = torch.func.vjp(lambda *head: norm_error(*head)[1], *chunk.head)
        by_y, by_k, by_v = pull(by_v)

    for l in range(last, 0, -1):  # y_l = a_l W_lᵀ, a_l = silu(y_{l−1})
        by_at[l - 1].baddbmm_(by_y.mT, a[l])
        by_y = by_a[l].baddbmm_(by_y, at[l]) * slopes[l - 1]
        by_y.addcmul_(by_delta[l - 1], chunk.bends[l - 1])
    by_keys = by_a[0].baddbmm_(by_y, at[0])
    by_keys = by_keys if by_k is None else by_keys + by_k
    return by_keys, by_v, [torch.bmm(by_y.mT, a[0]), *by_at]


def _sum(tensors) -> Tensor:
    """Without the 0 with which `sum` begins."""
    return reduce(torch.add, tensors)


def _each(n: int, tensors) -> list[list[Tensor]]:
    """What the n chunks have of each tensor, chunk by chunk."""
    if not tensors:
        return [[]] * n
    return [list(chunk) for chunk in zip(*(x.chunk(n) for x in tensors))]


def _by_kind(tensors, layers: int) -> list[list[Tensor]]:
    """`_WriteChunks`'s outputs: W, S, W after, S after, δ, a but for k; clipped: kept, clipped."""
    tensors = list(tensors)
    sizes = [layers] * 5 + [layers - 1, 2]
    return [[tensors.pop(0) for _ in range(min(size, len(tensors)))] for size in sizes]
