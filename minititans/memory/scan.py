"""The paper's own way to parallelise (section 3.2): all surprises of a chunk, then a scan.

If every gradient of a chunk is taken at the chunk's starting weights, (18) is a linear
recurrence, and so is (13):

    S_t = eta_t S_{t-1} − theta_t u_t            M_t = (1 − alpha_t) M_{t-1} + S_t

A linear recurrence can be computed in log₂ b steps, because combining two of its steps gives
one step of the same form. If a chunk shares its gates, the momentum is a time-invariant filter, a
convolution of the surprises with 1, eta, eta², …, which the FFT can compute.

This form holds the weights of every token of a chunk at once. It is here to be read, and as an
independent check: `chunked` gets the same numbers without them.
"""

import torch
from einops import einsum, rearrange
from torch import Tensor

from minititans.memory.checks import check_layers, check_not_exact, check_rule
from minititans.memory.gates import Gates
from minititans.memory.network import errors_below, path, read
from minititans.memory.state import MemoryState, pieces
from minititans.memory.trace import Trace, norm
from minititans.precision import full_precision


def scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Gates,
    state: MemoryState,
    chunk_size: int = 16,
    *,
    exact: bool = False,
    residual: bool = True,
    trace: bool = False,
    shared_gates: bool = False,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Read a sequence while learning it, with each chunk's momentum from a parallel scan.

    Arguments and results are those of `sequential` with `exact=False`. With `shared_gates=True`
    all tokens of a chunk must have the same gates, and the momentum is computed as a convolution.
    """
    check_rule(q, k, v, gates, state, chunk_size)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual)
    check_not_exact("scan", exact)
    momentum_of = convolution if shared_gates else linear_recurrence

    def rows(tensor):  # [batch, heads, ...] -> [rows, ...]
        return tensor.to(state.weights[0].dtype).flatten(0, 1)

    def unrows(tensor):
        return tensor.unflatten(0, q.shape[:2])

    M, S, M_start = (
        [rows(w) for w in ws] for ws in (state.weights, state.momentum, state.chunk_start)
    )
    position, readings, measured = state.position, [], []
    lengths = [length for length, _ in pieces(q.shape[2], position, chunk_size, most=1)]
    inputs = [rows(x).split(lengths, 1) for x in (q, k, v, *vars(gates).values())]
    with full_precision(q.device):
        for q_n, k_n, v_n, theta, eta, alpha in zip(*inputs):
            if shared_gates:
                _check_shared(theta, eta, alpha)
            M_start = M if position == 0 else M_start
            way = path(M_start, k_n, residual)
            error = v_n - way.inputs[-1] @ M_start[-1].mT
            errors = [*errors_below(M_start, way, error @ M_start[-1]), error]
            S_t, M_t, minus_u = [], [], []  # [rows, time, d_out, d_in] per layer
            for layer, (a, e) in enumerate(zip(way.inputs, errors)):
                minus_u.append(einsum(e, a, "r t o, r t i -> r t o i"))
                S_t.append(momentum_of(eta, theta[..., None, None] * minus_u[-1], S[layer]))
                M_t.append(linear_recurrence(1 - alpha, S_t[layer], M[layer]))
            readings.append(read(M_t, rearrange(q_n, "r t d -> r t 1 d"), residual)[:, :, 0])
            if trace:
                norms = [norm(x).detach() for x in (minus_u, S_t, M_t)]
                measured.append([*norms, error.detach().square().sum(-1) / 2])
            M, S = [m[:, -1] for m in M_t], [s[:, -1] for s in S_t]
            position = (position + q_n.shape[1]) % chunk_size

    M, S, M_start = ([unrows(w) for w in ws] for ws in (M, S, M_start))
    state = state.after(M, S, M_start, q.shape[2], chunk_size)
    y = unrows(torch.cat(readings, 1)).to(q.dtype)
    if not trace:
        return y, state
    return y, state, Trace.of([unrows(torch.cat(series, 1)) for series in zip(*measured)], gates)


def linear_recurrence(decay: Tensor, x: Tensor, initial: Tensor) -> Tensor:
    """`h_t = decay_t h_{t-1} + x_t` for all t, by an associative scan in log₂(time) steps.

    decay: `[rows, time]`; x: `[rows, time, ...]`; initial: `[rows, ...]`.

    >>> halves = torch.full((1, 3), 0.5)
    >>> linear_recurrence(halves, torch.ones(1, 3), torch.zeros(1))
    tensor([[1.0000, 1.5000, 1.7500]])
    """
    decay = decay.reshape(decay.shape + (1,) * (x.dim() - 2))
    x = torch.cat([x[:, :1] + decay[:, :1] * initial[:, None], x[:, 1:]], 1)
    step = 1
    while step < x.shape[1]:
        # (decay, x) now covers the last `step` tokens: join it with the same, `step` earlier.
        x = torch.cat([x[:, :step], x[:, step:] + decay[:, step:] * x[:, :-step]], 1)
        decay = torch.cat([decay[:, :step], decay[:, step:] * decay[:, :-step]], 1)
        step *= 2
    return x


def convolution(decay: Tensor, x: Tensor, initial: Tensor) -> Tensor:
    """The same recurrence where decay does not change: a convolution with its powers.

    Only the first decay, which applies to what was there before, may differ.

    >>> halves = torch.full((1, 3), 0.5)
    >>> convolution(halves, torch.ones(1, 3), torch.zeros(1))
    tensor([[1.0000, 1.5000, 1.7500]])
    """
    time = x.shape[1]
    first, decay = (
        decay[:, i : i + 1].reshape((-1,) + (1,) * (x.dim() - 1)) for i in (0, min(1, time - 1))
    )
    exponents = torch.arange(time, device=x.device).reshape((-1,) + (1,) * (x.dim() - 2))
    powers = decay**exponents  # 1, decay, decay², …
    x = torch.cat([x[:, :1] + first * initial[:, None], x[:, 1:]], 1)
    # Twice the length, so that the end does not wrap around into the beginning.
    spectrum = torch.fft.rfft(powers, 2 * time, dim=1) * torch.fft.rfft(x, 2 * time, dim=1)
    return torch.fft.irfft(spectrum, 2 * time, dim=1)[:, :time]


def _check_shared(theta: Tensor, eta: Tensor, alpha: Tensor) -> None:
    for name, gate in (("theta", theta), ("eta", eta), ("alpha", alpha)):
        if name == "eta":
            gate = gate[:, 1:]  # the first may rescale what is left of the chunk before
        if not torch.equal(gate, gate[:, :1].expand_as(gate)):
            raise ValueError(
                f"gates.{name}: changes inside a chunk, expected one value per chunk "
                "with shared_gates=True; use shared_gates=False for gates per token"
            )
