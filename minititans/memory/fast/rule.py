"""`fast`: arguments, results and order of work as in `chunked`, with derivatives of its own.

Chunks, heads and batch rows are one axis wherever nothing waits. A few chunks are prepared
at once, then the loop measures and writes them one by one, then all of them are read.
"""

import torch
from einops import rearrange
from torch import Tensor

from minititans.memory.checks import check_layers, check_rule
from minititans.memory.chunked import chunked
from minititans.memory.fast.gates import chunk_products
from minititans.memory.fast.reading import read
from minititans.memory.fast.recall import Rule
from minititans.memory.fast.writing import write_chunks
from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState, pieces
from minititans.memory.trace import Trace
from minititans.precision import full_precision

# The target number of elements in each tensor of the chunks that are prepared, written and read
# together: enough to fill the matmuls, few enough to stay in the cache.
AT_ONCE = 2**19


def fast(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Gates,
    state: MemoryState,
    chunk_size: int = 16,
    *,
    exact: bool = True,
    residual: bool = True,
    trace: bool = False,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Read a sequence while learning it. Arguments and results are those of `sequential`."""
    if trace:  # for figures, where speed does not matter
        return chunked(
            q, k, v, gates, state, chunk_size, exact=exact, residual=residual, trace=True
        )
    check_rule(q, k, v, gates, state, chunk_size)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual)

    def rows(tensors):  # each [batch, heads, ...] -> [rows, ...]
        return [x.to(state.weights[0].dtype).flatten(0, 1) for x in tensors]

    inputs = rows((q, k, v, *vars(gates).values()))
    W, S, start = map(rows, (state.weights, state.momentum, state.chunk_start))
    with full_precision(q.device):
        y, *held = over_spans(inputs, W, S, start, state.position, chunk_size, exact, residual)
    W, S, start = ([w.unflatten(0, q.shape[:2]) for w in ws] for ws in held)
    y = y.unflatten(0, q.shape[:2]).to(q.dtype)
    return y, state.after(W, S, start, q.shape[2], chunk_size)


def over_spans(inputs, W, S, start, position, chunk_size, exact, residual):
    """Span after span: learn its chunks, then read them. Returns y, and W, S and start after it."""
    below = 1 / chunk_size if exact else 1.0
    steps = (*[below] * (len(W) - 1), 1.0)  # shares of theta, by layer
    width = max(chunk_size, *(max(w.shape[-2:]) for w in W))
    span = max(1, AT_ONCE // (len(W[0]) * width**2))
    lengths, sizes = zip(*pieces(inputs[0].shape[1], position, chunk_size, span))
    readings = []
    # split, not slices: the backward of each slice would allocate the whole sequence
    for length, size, *piece in zip(lengths, sizes, *(x.split(lengths, 1) for x in inputs)):
        n = length // size
        q, k, v, *gates = (rearrange(x, "r (n b) ... -> (r n) b ...", b=size) for x in piece)
        P = chunk_products(*gates)
        start = W if position == 0 else start
        written = write_chunks(Rule(n, len(W), exact, residual, steps), k, v, P, W, S, start)
        y = read(q, P, written.W, written.S, written.A, written.E, residual)
        readings.append(rearrange(y, "(r n) b d -> r (n b) d", n=n))
        W, S = written.W_after, written.S_after
        position = (position + length) % chunk_size
    return torch.cat(readings, 1), W, S, start
