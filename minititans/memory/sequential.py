"""The rule as the paper writes it, one token at a time: slow, and easy to check against the paper.

    u_t = ∇ℓ(M_{t-1}; k_t, v_t)               momentary surprise
    S_t = eta_t · S_{t-1} − theta_t · u_t     surprise with momentum          (14)
    M_t = (1 − alpha_t) · M_{t-1} + S_t       write, with forgetting          (13)
    y_t = M_t*(q_t)                           read, without writing           (15)

With `chunk_size=1` this is all there is. In larger chunks, which can be computed in parallel, the
surprise of every layer but the last is measured at the weights the chunk started with (16). As
these stay fixed for b tokens, such a layer takes steps of theta / b. With `exact=False` the last
layer is measured there as well, and all layers take theta as it is given.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from minititans.memory import network as mlp
from minititans.memory.checks import check_layers, check_module, check_rule
from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace, norm
from minititans.precision import full_precision


def sequential(
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
    network: nn.Module | None = None,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Read a sequence token by token while learning it.

    q, k: `[batch, heads, time, dim]`; v: `[batch, heads, time, dim_value]`; gates: each
    `[batch, heads, time]`. Returns y `[batch, heads, time, dim_value]`, the new state, and with
    `trace=True` a `Trace`.

    exact measures the last layer's surprise at its current weights, inside a chunk as well;
    residual is the form of the memory's layers, see `network`. The argument network is any module
    to use as the memory instead; it has no last layer to be exact about, so it needs
    `exact=False`. `MemoryState.start_from(module, batch, heads)` is the state to start with.

    >>> q = k = v = torch.nn.functional.normalize(torch.ones(1, 1, 3, 4), dim=-1)
    >>> gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 3))
    >>> y, state = sequential(q, k, v, gates, MemoryState.start([torch.zeros(1, 4, 4)], 1))
    >>> y[0, 0, :, 0]  # the same pair three times: each time half of the error is gone
    tensor([0.2500, 0.3750, 0.4375])
    """
    check_rule(q, k, v, gates, state, chunk_size)
    if network is None:
        check_layers(state.weights, k.shape[-1], v.shape[-1], residual)
    else:
        check_module(state.weights, network, exact)

    def read(weights, x):
        if network is None:
            return mlp.read(weights, x, residual)
        names = [name for name, _ in network.named_parameters()]
        return functional_call(network, dict(zip(names, weights, strict=True)), (x,))

    def loss(weights, key, value):  # (12)
        return (read(weights, key) - value).square().sum() / 2

    over_rows = lambda function: vmap(vmap(function))  # noqa: E731  every batch row, every head
    surprise_and_loss = over_rows(grad_and_value(loss))
    answer = over_rows(read)

    inputs = (x.to(state.weights[0].dtype) for x in (q, k, v, *vars(gates).values()))
    M, S, M_start, position = state.weights, state.momentum, state.chunk_start, state.position
    below = 1 / chunk_size if exact else 1.0
    steps = [below] * (len(M) - 1) + [1.0]  # shares of theta, by layer
    readings, measured = [], []
    with full_precision(q.device):
        for q_t, k_t, v_t, theta, eta, alpha in zip(*(x.unbind(2) for x in inputs)):
            measured_at = [*M_start[:-1], M[-1]] if exact else M_start
            u, ell = surprise_and_loss(measured_at, k_t, v_t)
            S = [_each(eta, s) * s - _each(step * theta, g) * g for s, g, step in zip(S, u, steps)]
            M = [_each(1 - alpha, m) * m + s for m, s in zip(M, S)]
            readings.append(answer(M, q_t))

            if trace:
                measured.append([x.detach() for x in (norm(u), norm(S), norm(M), ell)])
            position = (position + 1) % chunk_size
            if position == 0:
                M_start = M

    y = torch.stack(readings, dim=2).to(q.dtype)
    state = state.after(M, S, M_start, q.shape[2], chunk_size)
    if not trace:
        return y, state
    return y, state, Trace.of([torch.stack(series, -1) for series in zip(*measured)], gates)


def _each(number: Tensor, like: Tensor) -> Tensor:
    """One number per row and head, `[batch, heads]`, shaped to multiply that row's weights."""
    return number.reshape(number.shape + (1,) * (like.dim() - number.dim()))
