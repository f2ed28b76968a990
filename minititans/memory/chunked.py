"""The rule as matmuls, for a memory of any depth: the same numbers as `sequential`, but faster.

Unroll (13) and (14) over a chunk that starts with the weights W₀ and the momentum S₀. If minus
token i's gradient in a layer is `e_i a_iᵀ`, an error times what entered the layer, then

    S_t = m_t S₀ + Σ_i H[t,i] e_i a_iᵀ          W_t = β_t W₀ + f_t S₀ + Σ_i G[t,i] e_i a_iᵀ

with the products of gates m, H, β, f and G of `chunk_products`. Reading a layer, every row x_t of
X with its own W_t, is therefore

    β ⊙ (X W₀ᵀ) + f ⊙ (X S₀ᵀ) + (G ⊙ (X Aᵀ)) E

Momentum and forgetting cost one `b × b` matrix: no weights per token, no gradients per token.

What are a and e? A layer below the last is measured at the weights the chunk started with (16),
so its inputs and errors are known for all tokens at once. The last layer is measured at its
current weights, `e_t = v_t − W_{t−1} a_t`. As W_{t−1} contains the errors before t, this is a
system of linear equations, lower triangular with ones on its diagonal: row t needs rows 1 … t − 1.

    (I + G⁻ ⊙ (A Aᵀ)) E = V − β⁻ ⊙ (A W₀ᵀ) − f⁻ ⊙ (A S₀ᵀ)         ⁻: one row earlier

Solving it goes through the tokens one by one, as `sequential` does, but in a single call.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from minititans.memory.checks import check_layers, check_rule
from minititans.memory.gates import Before, Gates, Products, chunk_products
from minititans.memory.network import errors_below, join, path
from minititans.memory.state import Layers, MemoryState, pieces
from minititans.memory.trace import Trace, chunk_norms
from minititans.precision import full_precision


def chunked(
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
    """Read a sequence while learning it, a chunk of tokens at a time.

    Arguments and results are those of `sequential`.

    >>> q = k = v = torch.nn.functional.normalize(torch.ones(1, 1, 3, 4), dim=-1)
    >>> gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 3))
    >>> y, state = chunked(q, k, v, gates, MemoryState.start([torch.zeros(1, 4, 4)], 1))
    >>> y[0, 0, :, 0]  # the same pair three times: each time half of the error is gone
    tensor([0.2500, 0.3750, 0.4375])
    """
    check_rule(q, k, v, gates, state, chunk_size)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual)

    def measure(k, v, before, W, S, W_start):
        return surprise(k, v, before if exact else None, W, S, W_start, residual)

    below = 1 / chunk_size if exact else 1.0
    steps = [below] * (len(state.weights) - 1) + [1.0]  # shares of theta, by layer
    return over_chunks(measure, q, k, v, gates, state, chunk_size, steps, residual, trace)


def over_chunks(measure, q, k, v, gates, state, chunk_size, steps, residual, trace):
    """Chunk after chunk: measure surprise, read, write."""
    W, S, W_start, position = state.weights, state.momentum, state.chunk_start, state.position
    inputs = [x.to(W[0].dtype) for x in (q, k, v, *vars(gates).values())]
    readings, measured = [], []
    lengths, sizes = zip(*pieces(q.shape[2], position, chunk_size, most=q.shape[2]))
    with full_precision(q.device):
        # split and unbind, not slices: the backward of each slice would allocate the whole
        for size, *piece in zip(sizes, *(x.split(lengths, 2) for x in inputs)):
            chunks = [rearrange(x, "b h (n t) ... -> n b h t ...", t=size) for x in piece]
            P = chunk_products(*chunks[3:])
            for q_n, k_n, v_n, *gates_n in zip(
                *(x.unbind(0) for x in (*chunks[:3], *P, *P.before()))
            ):
                W_start = W if position == 0 else W_start
                P_n, before = Products(*gates_n[:5]), Before(*gates_n[5:])
                A, E, error = measure(k_n, v_n, before, W, S, W_start)
                E = [e * step for e, step in zip(E, steps)]
                readings.append(read(q_n, P_n, W, S, A, E, residual))
                if trace:
                    measured.append(chunk_norms(P_n, W, S, A, E, steps, error))
                W, S = write(P_n, W, S, A, E)
                position = (position + size) % chunk_size

    state = state.after(W, S, W_start, q.shape[2], chunk_size)
    y = torch.cat(readings, 2).to(q.dtype)
    if not trace:
        return y, state
    return y, state, Trace.of([torch.cat(series, 2) for series in zip(*measured)], gates)


def surprise(
    k: Tensor, v: Tensor, before: Before | None, W: Layers, S: Layers, W_start: Layers,
    residual: bool,
) -> tuple[Layers, Layers, Tensor]:  # fmt: skip
    """What enters each layer, `[..., b, d_in]`, and the error at its output, `[..., b, d_out]`.

    Third comes `v − M(k)` itself, which is the last layer's error. before: None for (16).
    """
    way = path(W_start, k, residual)
    A = way.inputs[-1]
    if before is None:
        E = v - A @ W_start[-1].mT
        back = E @ W_start[-1]
    else:
        G, f, beta = before
        right = v - beta * (A @ W[-1].mT) - f * (A @ S[-1].mT)
        left = G * (A @ A.mT)  # the solver takes the ones on its diagonal for granted
        E = torch.linalg.solve_triangular(left, right, upper=False, unitriangular=True)
        back = beta * (E @ W[-1]) + f * (E @ S[-1]) + (G * (E @ E.mT)) @ A  # row t: W_{t−1}ᵀ e_t
    return way.inputs, [*errors_below(W_start, way, back), E], E


def read(
    x: Tensor, P: Products, W: Layers, S: Layers, A: Layers, E: Layers, residual: bool
) -> Tensor:
    """Every token's query answered by its own W_t, layer by layer: `[..., b, d_out]`."""
    for layer, (w, s, a, e) in enumerate(zip(W, S, A, E)):
        y = P.beta * (x @ w.mT) + P.f * (x @ s.mT) + (P.G * (x @ a.mT)) @ e
        x = join(x, F.silu(y), residual) if layer + 1 < len(W) else y
    return x


def write(P: Products, W: Layers, S: Layers, A: Layers, E: Layers) -> tuple[Layers, Layers]:
    """W and S after the chunk: the last rows of the formulas above."""
    H, G, m, f, beta = (x[..., -1:, :] for x in P)
    after = [beta * w + f * s + (G.mT * e).mT @ a for w, s, a, e in zip(W, S, A, E)]
    return after, [m * s + (H.mT * e).mT @ a for s, a, e in zip(S, A, E)]
