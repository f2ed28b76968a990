"""`fast`: arguments, results and order of work as in `chunked`, with derivatives of its own.

Chunks, heads and batch rows are one axis wherever nothing waits. A few chunks are prepared
at once, then the loop measures and writes them one by one, then all of them are read.
"""

from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor

from minititans.memory.checks import check_layers, check_rule
from minititans.memory.chunked import chunked, read
from minititans.memory.fast.gates import chunk_products
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
    """Read a sequence while learning it. Arguments and results are those of `sequential`.

    >>> q = k = v = torch.nn.functional.normalize(torch.ones(1, 1, 3, 4), dim=-1)
    >>> gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 3))
    >>> y, state = fast(q, k, v, gates, MemoryState.start([torch.zeros(1, 4, 4)], 1))
    >>> y[0, 0, :, 0]  # the same pair three times: each time half of the error is gone
    tensor([0.2500, 0.3750, 0.4375])
    """
    if trace:  # for figures, where speed does not matter
        return chunked(
            q, k, v, gates, state, chunk_size, exact=exact, residual=residual, trace=True
        )
    check_rule(q, k, v, gates, state, chunk_size)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual)

    def rows(tensor):  # [batch, heads, ...] -> [rows, ...]
        return tensor.to(state.weights[0].dtype).flatten(0, 1)

    W, S, at = ([rows(w) for w in ws] for ws in (state.weights, state.momentum, state.chunk_start))
    position, readings = state.position, []
    below = 1 / chunk_size if exact else 1.0
    steps = (*[below] * (len(W) - 1), 1.0)  # shares of theta, by layer
    width = max(chunk_size, *(max(w.shape[-2:]) for w in W))
    span = max(1, AT_ONCE // (len(W[0]) * width**2))
    lengths, sizes = zip(*spans(q.shape[2], position, chunk_size, span))
    # split, not slices: the backward of each slice would allocate the whole sequence
    inputs = [rows(x).split(lengths, 1) for x in (q, k, v, *vars(gates).values())]
    with full_precision(q.device):
        for length, size, *piece in zip(lengths, sizes, *inputs):
            n = length // size
            rule = Rule(n, len(W), exact, residual, steps)
            cut = [rearrange(x, "r (n b) ... -> (r n) b ...", b=size) for x in piece]
            P = chunk_products(*cut[3:])
            written = write_chunks(rule, cut[1], cut[2], P, W, S, W if position == 0 else at)
            y = read(cut[0], P, written.W, written.S, written.A, written.E, residual)
            readings.append(rearrange(y, "(r n) b d -> r (n b) d", n=n))
            if (position + length) % chunk_size and position == 0:
                at = W
            W, S = written.W_after, written.S_after
            position = (position + length) % chunk_size

    def unrows(layers):
        return [w.unflatten(0, q.shape[:2]) for w in layers]

    y, W, S = (torch.cat(readings, 1).unflatten(0, q.shape[:2])).to(q.dtype), unrows(W), unrows(S)
    start = W if position == 0 else unrows(at)
    return y, replace(
        state, weights=W, momentum=S, chunk_start=start, position=position, chunk_size=chunk_size
    )


def spans(time: int, position: int, chunk_size: int, most: int):
    """The `pieces` of a sequence, cut again so that each has at most `most` chunks.

    >>> list(spans(time=14, position=3, chunk_size=4, most=2))
    [(1, 1), (8, 4), (4, 4), (1, 1)]
    """
    for length, size in pieces(time, position, chunk_size):
        for first in range(0, length, most * size):
            yield min(most * size, length - first), size
