"""Calling the kernels: from tensors to pointers, and from derivatives back through checkpoints."""

from functools import partial
from math import isqrt

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState
from minititans.memory.triton.budget import Tiles, precision
from minititans.memory.triton.forward import forward_kernel
from minititans.memory.triton.gates import gates_backward_kernel
from minititans.memory.triton.reading import read_backward_kernel
from minititans.memory.triton.writing import write_backward_kernel


def whole_chunks(
    q: Tensor, k: Tensor, v: Tensor, gates: Gates, state: MemoryState, chunk_size: int
) -> tuple[Tensor, MemoryState]:
    """Read tokens that start on a chunk's boundary; the last chunk may stay open."""
    depth = len(state.weights)
    tiles = Tiles.of([q.shape[-1]] * (depth + 1), chunk_size)

    def rows(tensor):  # [batch, heads, ...] -> [rows, ...]
        return tensor.flatten(0, 1).contiguous()

    def layers(stacked):  # [rows, depth, d, d] -> one [batch, heads, d, d] per layer
        return list(stacked.unflatten(0, q.shape[:2]).unbind(2))

    inputs = [rows(x) for x in (q, k, v, gates.theta, gates.eta, gates.alpha)]
    W, S = (rows(torch.stack(x, 2)) for x in (state.weights, state.momentum))
    y, W, S, W_open = _Fused.apply(*inputs, W, S, tiles)
    state = state.after(layers(W), layers(S), layers(W_open), q.shape[2], chunk_size)
    return y.unflatten(0, q.shape[:2]), state


class _Fused(torch.autograd.Function):
    """The forward kernel, and for its derivative the backward kernels.

    q, k, v: `[rows, time, d]`; theta, eta, alpha: `[rows, time]`; W, S: `[rows, depth, d, d]`.
    Returns y, W and S after the last token, and W at the open chunk's start.
    """

    @staticmethod
    def forward(ctx, q, k, v, theta, eta, alpha, W, S, tiles: Tiles):
        rows, time = theta.shape
        chunks = -(-time // tiles.chunk)
        # Stored are a checkpoint at every `every`-th chunk and, on the way back through a stretch
        # between two of them, the starts of its chunks: fewest when both are √chunks.
        keep = any(ctx.needs_input_grad)
        every = isqrt(chunks - 1) + 1
        kept = -(-chunks // every) if keep else 0
        y = torch.empty_like(v)
        W, S, W_open = W.clone(), S.clone(), torch.empty_like(W)  # changed in place
        checkpoints = W.new_empty(rows, kept, 2, *W.shape[1:])
        tokens = (q, k, v, theta, eta, alpha)
        with torch.cuda.device_of(W):
            forward_kernel[(rows,)](
                *tokens, W, S, y, W_open, checkpoints, kept, W.new_empty(0), time, 0, chunks, every,
                KEEP=keep, AGAIN=False, **_options(tiles, q),
            )  # fmt: skip
        ctx.save_for_backward(*tokens, checkpoints)
        ctx.settings = tiles, chunks, every
        return y, W, S, W_open

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, dW, dS, dW_open):
        *tokens, checkpoints = ctx.saved_tensors
        tiles, chunks, every = ctx.settings
        rows, time = tokens[3].shape
        options = _options(tiles, tokens[0])
        no_layers = {"WIDTH", "D", "SIZE", "FOUND", "DEPTH"}
        dy, dW_open = dy.contiguous(), dW_open.contiguous()
        own = partial(torch.clone, memory_format=torch.contiguous_format)  # changed in place
        dW, dS = own(dW), own(dS)
        q, k, _, *gates = tokens
        dq, dk, dv, *dgates = (torch.empty_like(x) for x in tokens)
        starts, by_starts = (dW.new_empty(rows, every, 2, tiles.size) for _ in range(2))
        found, by_found, by_gates = (
            dW.new_empty(rows, every, size)
            for size in (tiles.found, tiles.by_found, tiles.by_gates)
        )
        nothing = dW.new_empty(0)
        with torch.cuda.device_of(dW):
            for stretch in reversed(range(checkpoints.shape[1])):
                first = stretch * every
                number = min(every, chunks - first)
                W, S = map(own, checkpoints[:, stretch].unbind(1))
                forward_kernel[(rows,)](
                    *tokens, W, S, nothing, nothing, starts, every, found,
                    time, first, number, 1, KEEP=True, AGAIN=True, **options,
                )  # fmt: skip
                read_backward_kernel[(rows, number)](
                    q, k, *gates, starts, found, dy, dq, by_starts, by_found, by_gates,
                    time, first, every, **options,
                )  # fmt: skip
                write_backward_kernel[(rows,)](
                    k, *gates, starts, found, dW, dS, dW_open, dk, dv,
                    by_starts, by_found, by_gates, time, first, number, every, **options,
                )  # fmt: skip
                gates_backward_kernel[(rows, number)](
                    *gates, by_gates, *dgates, time, first, every,
                    **{name: value for name, value in options.items() if name not in no_layers},
                )  # fmt: skip
        return dq, dk, dv, *dgates, dW, dS, None


def _options(tiles: Tiles, q: Tensor) -> dict:
    """What every kernel is compiled for."""
    return {
        "WIDTH": tiles.width,
        "D": tiles.block,
        "SIZE": tiles.size,
        "FOUND": tiles.found,
        "DEPTH": tiles.depth,
        "CHUNK": tiles.chunk,
        "B": tiles.block_time,
        "PRECISION": precision(q.dtype),
        "num_warps": tiles.warps,
        "num_stages": 1,  # no loads ahead: shared memory is for the products
        "maxnreg": 255,
    }
