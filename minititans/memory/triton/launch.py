"""Calling the kernels: from tensors to pointers, and from a gradient back through checkpoints."""

from dataclasses import replace
from math import isqrt

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace
from minititans.memory.triton.backward import (
    gates_backward_kernel,
    read_backward_kernel,
    write_backward_kernel,
)
from minititans.memory.triton.budget import Tiles, precision
from minititans.memory.triton.forward import forward_kernel


def whole_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Gates,
    state: MemoryState,
    chunk_size: int,
    *,
    clip: float | None,
    trace: bool,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Tokens that begin on a chunk's boundary; the last chunk may stay open."""
    shapes = [w.shape[2:] for w in state.weights]
    tiles = Tiles.of([shapes[0][1], *(shape[0] for shape in shapes)], chunk_size)

    def rows(tensor):  # [batch, heads, ...] -> [rows, ...]
        return tensor.flatten(0, 1).contiguous()

    def flat(layers):  # one [batch, heads, d_out, d_in] a layer -> [rows, size]
        return rows(torch.cat([layer.flatten(2) for layer in layers], -1))

    def layers(flat):
        parts = flat.unflatten(0, q.shape[:2]).split([s.numel() for s in shapes], -1)
        return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes)]

    inputs = [rows(x) for x in (q, k, v, gates.theta, gates.eta, gates.alpha)]
    y, W, S, W_open, measured = _Fused.apply(
        *inputs, flat(state.weights), flat(state.momentum), tiles, clip, trace
    )
    position = q.shape[2] % chunk_size
    weights = layers(W)
    state = replace(
        state,
        weights=weights,
        momentum=layers(S),
        chunk_start=layers(W_open) if position else weights,
        position=position,
        chunk_size=chunk_size,
    )
    y = y.unflatten(0, q.shape[:2])
    if not trace:
        return y, state
    return y, state, Trace.of([x.unflatten(0, q.shape[:2]) for x in measured.unbind()], gates)


class _Fused(torch.autograd.Function):
    """The forward kernel, and for its gradient the backward kernel.

    q, k, v: `[rows, time, dim]`; theta, eta, alpha: `[rows, time]`; W, S: `[rows, size]`.
    Returns y, W and S after the last token, W at the open chunk's start, and the trace.
    """

    @staticmethod
    def forward(ctx, q, k, v, theta, eta, alpha, W, S, tiles: Tiles, clip, trace):
        rows, time = theta.shape
        chunks = -(-time // tiles.chunk)
        # Checkpoints at every `every`-th chunk, and while one stretch between two of them is
        # gone through backwards, its chunks' starts: fewest in all when both are √chunks.
        keep = any(ctx.needs_input_grad)
        every = isqrt(chunks - 1) + 1
        kept = -(-chunks // every) if keep else 0
        y = q.new_empty(rows, time, tiles.widths[-1])
        W_after, S_after, W_open = (torch.empty_like(W) for _ in range(3))
        checkpoints = W.new_empty(rows, kept, 2, tiles.size)
        measured = W.new_empty(4 if trace else 0, rows, time)
        tokens = (q, k, v, theta, eta, alpha)
        with torch.cuda.device_of(W):
            forward_kernel[(rows,)](
                *tokens, W, S, tiles.size, y, W_after, S_after, W_open, checkpoints, kept,
                measured, time, 0, chunks, every, clip or 0.0,
                READ=True, KEEP=keep, TRACE=trace, **_options(tiles, clip, q),
            )  # fmt: skip
        ctx.save_for_backward(*tokens, checkpoints)
        ctx.settings = tiles, clip, chunks, every
        ctx.mark_non_differentiable(measured)
        return y, W_after, S_after, W_open, measured

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, dW, dS, dW_open, _):
        *tokens, checkpoints = ctx.saved_tensors
        tiles, clip, chunks, every = ctx.settings
        rows, time = tokens[3].shape
        options = _options(tiles, clip, tokens[0])
        no_layers = {"WIDTHS", "BLOCKS", "SIZE", "DEPTH", "CLIP"}
        dy, dW_open = dy.contiguous(), dW_open.contiguous()
        dW, dS = (x.clone(memory_format=torch.contiguous_format) for x in (dW, dS))
        _, k, v, *gates = tokens
        dq, dk, dv, *dgates = (torch.empty_like(x) for x in tokens)
        starts, by_starts = (dW.new_empty(rows, every, 2, tiles.size) for _ in range(2))
        by_factors = dW.new_empty(rows, every, tiles.factors)
        by_gates = dW.new_empty(rows, every, tiles.block_time * (tiles.block_time + 7))
        nothing = dW.new_empty(0)
        clip = clip or 0.0
        with torch.cuda.device_of(dW):
            for stretch in reversed(range(checkpoints.shape[1])):
                first = stretch * every
                number = min(every, chunks - first)
                W, S = checkpoints[:, stretch].unbind(1)
                forward_kernel[(rows,)](  # again, for W and S at the start of each of these chunks
                    *tokens, W, S, W.stride(0), *[nothing] * 4, starts, every, nothing,
                    time, first, number, 1, clip, READ=False, KEEP=True, TRACE=False, **options,
                )  # fmt: skip
                read_backward_kernel[(rows, number)](
                    *tokens, starts, dy, dq, by_starts, by_factors, by_gates,
                    time, first, every, clip, FACTORS=tiles.factors, **options,
                )  # fmt: skip
                write_backward_kernel[(rows,)](
                    k, v, *gates, starts, dW, dS, dW_open, dk, dv, by_starts, by_factors, by_gates,
                    time, first, number, every, clip, FACTORS=tiles.factors, **options,
                )  # fmt: skip
                gates_backward_kernel[(rows, number)](
                    *gates, by_gates, *dgates, time, first, every,
                    **{name: value for name, value in options.items() if name not in no_layers},
                )  # fmt: skip
        return dq, dk, dv, *dgates, dW, dS, None, None, None


def _options(tiles: Tiles, clip: float | None, q: Tensor) -> dict:
    """What every kernel is compiled for."""
    return {
        "WIDTHS": tiles.widths,
        "BLOCKS": tiles.blocks,
        "SIZE": tiles.size,
        "DEPTH": tiles.depth,
        "CHUNK": tiles.chunk,
        "B": tiles.block_time,
        "CLIP": clip is not None,
        "PRECISION": precision(q.dtype),
        "num_warps": tiles.warps,
        "num_stages": 1,  # no loads ahead: shared memory is for the products
        "maxnreg": 255,
    }
