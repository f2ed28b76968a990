"""A sequence as chunks: where they begin and end, and what goes from one to the next.

`chunked` and `scan` differ only in what they do inside a chunk. Both walk over them here, so
both may enter in the middle of a chunk and stop in the middle of one, and any split of a
sequence gives the same result as the whole.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from minititans.memory.gates import Gates
from minititans.memory.precision import full_precision
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace

Weights = list[Tensor]  # one [rows, d_out, d_in] a layer


class Step(NamedTuple):
    """What comes out of a piece."""

    y: Tensor  # [rows, time, d_value]
    W: Weights
    S: Weights
    measured: list[Tensor] | None  # the trace's four series, [rows, time] each


def over_chunks(
    step: Callable[..., Step],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Gates,
    state: MemoryState,
    chunk_size: int,
    trace: bool,
    span: int = 1,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Cut, then `step(q, k, v, theta, eta, alpha, size, W, S, W_start)` for each piece.

    A piece is at most `span` chunks of one size, and only the first of a piece can have been
    begun before: its surprise is measured at W_start, which otherwise is W itself.

    Inside, the axes batch and heads are one, `rows`: every head of every batch row has a memory
    of its own. The arithmetic is done in the state's precision, y comes back in q's.
    """
    dtype, position = state.weights[0].dtype, state.position

    def rows(tensor):  # [batch, heads, ...] -> [rows, ...]
        return tensor.to(dtype).flatten(0, 1)

    def unrows(tensor):
        return tensor.unflatten(0, q.shape[:2])

    W, S, W_start = (
        [rows(w) for w in ws] for ws in (state.weights, state.momentum, state.chunk_start)
    )
    lengths, sizes = zip(*pieces(q.shape[2], position, chunk_size, span))
    # split, not slices: the backward of each slice would allocate the whole sequence
    inputs = [rows(x).split(lengths, 1) for x in (q, k, v, gates.theta, gates.eta, gates.alpha)]
    readings, measured = [], []
    with full_precision(q.device):
        for length, size, *piece in zip(lengths, sizes, *inputs):
            if position == 0:
                W_start = W
            y, W, S, seen = step(*piece, size, W, S, W_start)
            readings.append(y)
            measured.append(seen)
            position = (position + length) % chunk_size

    y = unrows(torch.cat(readings, 1)).to(q.dtype)
    W, S, W_start = ([unrows(w) for w in ws] for ws in (W, S, W_start))
    state = replace(
        state,
        weights=W,
        momentum=S,
        chunk_start=W if position == 0 else W_start,
        position=position,
        chunk_size=chunk_size,
    )
    if not trace:
        return y, state
    return y, state, Trace.of([unrows(torch.cat(series, 1)) for series in zip(*measured)], gates)


def pieces(time: int, position: int, chunk_size: int, span: int) -> Iterator[tuple[int, int]]:
    """Cut a sequence into pieces `(length, size)`, each at most `span` chunks of one size.

    What an open chunk still takes, then whole chunks, then the beginning of the next.

    >>> list(pieces(time=10, position=3, chunk_size=4, span=16))
    [(1, 1), (8, 4), (1, 1)]
    """
    rest = min(time, -position % chunk_size)
    if rest > 0:
        yield rest, rest
    chunks, tail = divmod(time - rest, chunk_size)
    for done in range(0, chunks, span):
        yield min(span, chunks - done) * chunk_size, chunk_size
    if tail > 0:
        yield tail, tail
