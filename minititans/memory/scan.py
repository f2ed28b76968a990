"""The paper's own way to parallelise (section 3.2): all surprises of a chunk, then a scan.

With every gradient of a chunk taken at the chunk's starting weights, (18) is a linear
recurrence, and so is (13) after it:

    S_t = eta_t S_{t-1} − theta_t u_t            M_t = (1 − alpha_t) M_{t-1} + S_t

A linear recurrence can be computed in log₂ b steps, because combining two of its steps gives
one step of the same form. And where a chunk shares its gates the momentum is a time-invariant
filter, a convolution of the surprises with 1, eta, eta², …, for which there is the FFT.

This form holds the weights of every token of a chunk at once. It is here to be understood, and
as a second witness: `chunked` gets the same numbers without them.
"""

import torch
from einops import einsum
from torch import Tensor

from minititans.memory.checks import check_layers, check_rule
from minititans.memory.chunks import Step, over_chunks
from minititans.memory.gates import Gates
from minititans.memory.network import read, surprise_factors, surprise_norm
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace


def scan(
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
    shared_gates: bool = False,
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Read a sequence while learning it, the momentum of a chunk by a parallel scan.

    Arguments and results are those of `sequential`. With `shared_gates=True` all tokens of a
    chunk must have the same gates, and the momentum is computed as a convolution.
    """
    check_rule(q, k, v, gates, state, chunk_size, clip)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual_norm)
    momentum_of = convolution if shared_gates else linear_recurrence

    def step(q, k, v, theta, eta, alpha, size, M, S, M_start):
        if shared_gates:
            _check_shared(theta, eta, alpha)
        surprise = surprise_factors(M_start, k, v, residual_norm, clip)
        a, delta = surprise.inputs, surprise.deltas
        S_t, M_t = [], []  # [rows, time, d_out, d_in] a layer
        for layer in range(len(M)):
            minus_u = einsum(delta[layer], a[layer], "r t o, r t i -> r t o i")
            S_t.append(momentum_of(eta, theta[..., None, None] * minus_u, S[layer]))
            M_t.append(linear_recurrence(1 - alpha, S_t[layer], M[layer]))
        y = read(M_t, q[:, :, None], residual_norm)[:, :, 0]

        measured = None
        if trace:
            loss = surprise.error.square().sum(-1) / 2
            series = (surprise_norm(surprise), _norm(S_t), _norm(M_t), loss)
            measured = [x.detach() for x in series]
        return Step(y, [m[:, -1] for m in M_t], [s[:, -1] for s in S_t], measured)

    return over_chunks(step, q, k, v, gates, state, chunk_size, trace)


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
        # (decay, x) now stands for the last `step` tokens: join it with the same, `step` earlier.
        x = torch.cat([x[:, :step], x[:, step:] + decay[:, step:] * x[:, :-step]], 1)
        decay = torch.cat([decay[:, :step], decay[:, step:] * decay[:, :-step]], 1)
        step *= 2
    return x


def convolution(decay: Tensor, x: Tensor, initial: Tensor) -> Tensor:
    """The same recurrence where decay does not change: a convolution with its powers.

    >>> halves = torch.full((1, 3), 0.5)
    >>> convolution(halves, torch.ones(1, 3), torch.zeros(1))
    tensor([[1.0000, 1.5000, 1.7500]])
    """
    time = x.shape[1]
    decay = decay[:, :1].reshape((-1,) + (1,) * (x.dim() - 1))
    exponents = torch.arange(time, device=x.device).reshape((-1,) + (1,) * (x.dim() - 2))
    powers = decay**exponents  # 1, decay, decay², …
    x = torch.cat([x[:, :1] + decay * initial[:, None], x[:, 1:]], 1)
    # Twice the length, so that the end does not wrap around into the beginning.
    spectrum = torch.fft.rfft(powers, 2 * time, dim=1) * torch.fft.rfft(x, 2 * time, dim=1)
    return torch.fft.irfft(spectrum, 2 * time, dim=1)[:, :time]


def _check_shared(theta: Tensor, eta: Tensor, alpha: Tensor) -> None:
    for name, gate in (("theta", theta), ("eta", eta), ("alpha", alpha)):
        if not torch.equal(gate, gate[:, :1].expand_as(gate)):
            raise ValueError(
                f"gates.{name}: changes inside a chunk, expected one value a chunk "
                "with shared_gates=True; use shared_gates=False for gates per token"
            )


def _norm(weights: list[Tensor]) -> Tensor:
    """The norm of all layers together, for every token: `[rows, time]`."""
    return sum(w.square().sum((-2, -1)) for w in weights).sqrt()
