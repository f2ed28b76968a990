"""The rule as the paper writes it, one token at a time: slow, and easy to check against the page.

    u_t = ∇ℓ(M_{t'}; k_t, v_t)                momentary surprise
    S_t = eta_t · S_{t-1} − theta_t · u_t     surprise with momentum          (14)
    M_t = (1 − alpha_t) · M_{t-1} + S_t       write, with forgetting          (13)
    y_t = M_t*(q_t)                           read, without writing           (15)

`M_{t'}` are the weights with which the chunk of token t began (16); with `chunk_size=1` that is
`M_{t-1}`, and this is (13) and (14) to the letter. `chunked` computes the same thing fast.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from minititans.memory import network as mlp
from minititans.memory.checks import check_layers, check_module, check_rule
from minititans.memory.gates import Gates
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace


def sequential(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Gates,
    state: MemoryState,
    chunk_size: int = 16,
    *,
    residual_norm: bool = False,
    clip: float | None = None,
    trace: bool = False,
    network: nn.Module | None = None,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Read a sequence token by token while learning it.

    q, k: `[batch, heads, time, dim]`; v: `[batch, heads, time, dim_value]`; gates: each
    `[batch, heads, time]`. Returns y `[batch, heads, time, dim_value]`, the new state, and with
    `trace=True` a `Trace`.

    clip bounds the norm of each token's surprise. network is any module to use as the memory
    instead of the MLP; begin its state with `MemoryState.start_from(module, batch, heads)`.

    >>> q = k = v = torch.nn.functional.normalize(torch.ones(1, 1, 3, 4), dim=-1)
    >>> gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 3))
    >>> y, state = sequential(q, k, v, gates, MemoryState.start([torch.zeros(1, 4, 4)], 1), 1)
    >>> y[0, 0, :, 0]  # the same pair three times: each time half of the error is gone
    tensor([0.2500, 0.3750, 0.4375])
    """
    check_rule(q, k, v, gates, state, chunk_size, clip)
    if network is None:
        check_layers(state.weights, k.shape[-1], v.shape[-1], residual_norm)
    else:
        check_module(state.weights, network)

    def read(weights, x):
        if network is None:
            return mlp.read(weights, x, residual_norm)
        names = [name for name, _ in network.named_parameters()]
        return functional_call(network, dict(zip(names, weights, strict=True)), (x,))

    def loss(weights, key, value):  # (12)
        return (read(weights, key) - value).square().sum() / 2

    over_rows = lambda function: vmap(vmap(function))  # noqa: E731  every batch row, every head
    surprise_and_loss = over_rows(grad_and_value(loss))
    answer = over_rows(read)

    def cast(x):  # the arithmetic is done in the state's precision
        return x.to(state.weights[0].dtype)

    queries, keys, values = cast(q), cast(k), cast(v)
    theta, eta, alpha = cast(gates.theta), cast(gates.eta), cast(gates.alpha)
    M, S, M_start, position = state.weights, state.momentum, state.chunk_start, state.position
    readings, measured = [], []
    for t in range(q.shape[2]):
        u, ell = surprise_and_loss(M_start, keys[:, :, t], values[:, :, t])
        energy = _energy(u)  # [batch, heads]
        if clip is not None:
            # min(1, clip / ‖u‖), with u brought down to about 1 first: squares can overflow.
            size = torch.stack([g.detach().abs().flatten(2).amax(-1) for g in u]).amax(0)
            size = size.clamp(min=1)  # [batch, heads]
            u = [g / _each(size, g) for g in u]
            shrink = clip * torch.maximum(_energy(u), (clip / size).square()).rsqrt()
            u = [_each(shrink, g) * g for g in u]
        S = [_each(eta[:, :, t], s) * s - _each(theta[:, :, t], g) * g for s, g in zip(S, u)]
        M = [_each(1 - alpha[:, :, t], m) * m + s for m, s in zip(M, S)]
        readings.append(answer(M, queries[:, :, t]))

        if trace:
            norms = [e.detach().sqrt() for e in (energy, _energy(S), _energy(M))]
            measured.append([*norms, ell.detach()])
        position = (position + 1) % chunk_size
        if position == 0:
            M_start = M

    y = torch.stack(readings, dim=2).to(q.dtype)
    state = replace(
        state, weights=M, momentum=S, chunk_start=M_start, position=position, chunk_size=chunk_size
    )
    if not trace:
        return y, state
    return y, state, Trace.of([torch.stack(series, -1) for series in zip(*measured)], gates)


def _each(number: Tensor, like: Tensor) -> Tensor:
    """One number a row and head, `[batch, heads]`, shaped to multiply that row's weights."""
    return number.reshape(number.shape + (1,) * (like.dim() - number.dim()))


def _energy(tensors: list[Tensor]) -> Tensor:
    """The squared norm of all layers together, `[batch, heads]`."""
    return torch.stack([t.flatten(2).square().sum(-1) for t in tensors]).sum(0)
