"""`fused`: the arguments and results of `chunked`, computed by the kernels."""

import torch
from torch import Tensor

from minititans.memory.checks import check_backend, check_layers, check_rule
from minititans.memory.chunked import chunked
from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace
from minititans.memory.triton.budget import why_not


def fused(
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
    """Read a sequence while learning it, on a GPU, in one kernel.

    Arguments and results are those of `sequential`. Gradients are first derivatives only.
    """
    options = {"exact": exact, "residual": residual}
    if trace:  # for figures, where speed does not matter
        return chunked(q, k, v, gates, state, chunk_size, **options, trace=True)
    check_rule(q, k, v, gates, state, chunk_size)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual)
    W = state.weights[0]
    widths = [W.shape[-1], *(w.shape[-2] for w in state.weights)]
    check_backend(why_not(widths, chunk_size, exact, residual, W.dtype, W.device, q.dtype))
    from minititans.memory.triton.launch import whole_chunks

    # The rest of an open chunk goes through `chunked`: its surprise is measured at other weights
    # than those that answer, and a few tokens would not keep a kernel busy.
    time, rest = q.shape[2], min(q.shape[2], -state.position % chunk_size)
    readings = []
    for rule, first, last in ((chunked, 0, rest), (whole_chunks, rest, time)):
        if first < last:
            cut = [x[:, :, first:last] for x in (q, k, v)]
            some = gates.map(lambda gate: gate[:, :, first:last])  # noqa: B023  (called at once)
            y, state = rule(*cut, some, state, chunk_size)
            readings.append(y)
    return torch.cat(readings, 2), state
