"""The rule as matmuls, for a memory of any depth: the same numbers as `sequential`, fast.

Within a chunk every gradient is taken at the weights W₀ with which the chunk began (16), so
minus token i's gradient in a layer is an outer product `δ_i a_iᵀ` that is known at once for all
tokens (`surprise_factors`). Unrolling (13) and (14) over the chunk leaves products of gates:

    H[t,i] = theta_i · eta_{i+1} ⋯ eta_t              how much of surprise i is in S_t
    D[t,s] = (1 − alpha_{s+1}) ⋯ (1 − alpha_t)        how much of a write at s is left at t
    G = D H,   m_t = eta_1 ⋯ eta_t,   f = D m,   β_t = (1 − alpha_1) ⋯ (1 − alpha_t)

    S_t = m_t S₀ + Σ_i H[t,i] δ_i a_iᵀ
    W_t = β_t W₀ + f_t S₀ + Σ_i G[t,i] δ_i a_iᵀ

and reading a layer, every row x_t of X with its own W_t, is

    X_next = (β ⊙ X) W₀ᵀ + (f ⊙ X) S₀ᵀ + (G ⊙ (X Aᵀ)) Δ

Momentum and forgetting cost one `b × b` matrix. No weights per token, no gradients per token,
no scan. What does not depend on the weights is computed for many chunks before the loop.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from minititans.memory.checks import check_layers, check_rule
from minititans.memory.chunk_layer import read_layer, write_layer
from minititans.memory.chunks import Step, Weights, over_chunks
from minititans.memory.gates import Gates, segment_products
from minititans.memory.network import add_norm, surprise_factors
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace, chunk_norms


def chunked(
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
) -> tuple[Tensor, MemoryState] | tuple[Tensor, MemoryState, Trace]:
    """Read a sequence while learning it, a chunk of tokens at a time.

    Arguments and results are those of `sequential`.

    >>> q = k = v = torch.nn.functional.normalize(torch.ones(1, 1, 3, 4), dim=-1)
    >>> gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 3))
    >>> y, state = chunked(q, k, v, gates, MemoryState.start([torch.zeros(1, 4, 4)], 1), 1)
    >>> y[0, 0, :, 0]  # the same pair three times: each time half of the error is gone
    tensor([0.2500, 0.3750, 0.4375])
    """
    check_rule(q, k, v, gates, state, chunk_size, clip)
    check_layers(state.weights, k.shape[-1], v.shape[-1], residual_norm)

    def step(chunk, W, S, W_start):
        surprise = surprise_factors(W_start, chunk.k, chunk.v, residual_norm, clip)
        a, delta = surprise.inputs, surprise.deltas
        y = read(chunk, W, S, a, delta)
        y = add_norm(chunk.q, y) if residual_norm else y
        return Step(
            y,
            *write(chunk, W, S, a, delta),
            measured=chunk_norms(chunk, W, S, surprise) if trace else None,
        )

    return over_chunks(prepare, step, q, k, v, gates, state, chunk_size, trace)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of b tokens, with everything about it that the weights do not change."""

    q: Tensor  # [rows, b, dim]
    k: Tensor
    v: Tensor
    H: Tensor  # [rows, b, b]
    G: Tensor
    m: Tensor  # [rows, b, 1]
    f: Tensor
    beta: Tensor
    into_W: Tensor  # [rows, b, 1]   last row of G: how much of each surprise ends up in W
    into_S: Tensor  # [rows, b, 1]   last row of H: and how much in S
    last: tuple[Tensor, Tensor, Tensor]  # [rows, 1, 1]   m, f and β of the last token


def prepare(
    q: Tensor, k: Tensor, v: Tensor, theta: Tensor, eta: Tensor, alpha: Tensor, size: int
) -> list[Chunk]:
    """Cut `[rows, time, ...]` into chunks and do all their work that needs no weights at once."""
    q, k, v = (rearrange(x, "r (n b) d -> n r b d", b=size).contiguous() for x in (q, k, v))
    theta, eta, alpha = (rearrange(x, "r (n b) -> n r b", b=size) for x in (theta, eta, alpha))
    E, D = segment_products(torch.stack([eta, 1 - alpha]))  # [n, rows, b, b]
    H = E * theta[..., None, :]
    G = D @ H
    m = E[..., :1] * eta[..., :1, None]  # [n, rows, b, 1]
    f = D @ m
    beta = D[..., :1] * (1 - alpha)[..., :1, None]
    into_W, into_S = G[..., -1, :, None], H[..., -1, :, None]
    last = zip(*(gate[:, :, -1:].unbind(0) for gate in (m, f, beta)))
    parts = (q, k, v, H, G, m, f, beta, into_W, into_S)
    # unbind, not indexing: the backward of an index allocates all chunks for each chunk
    return [Chunk(*each) for each in zip(*(part.unbind(0) for part in parts), last)]


def read(chunk: Chunk, W: Weights, S: Weights, a: list[Tensor], delta: list[Tensor]) -> Tensor:
    """Every token's query answered by its own W_t, layer by layer: `[rows, b, d_out]`."""
    X = chunk.q
    for layer, factors in enumerate(zip(W, S, a, delta)):
        X = F.silu(X) if layer > 0 else X
        X = read_layer(X, *factors, chunk.G, chunk.beta, chunk.f)
    return X


def write(
    chunk: Chunk, W: Weights, S: Weights, a: list[Tensor], delta: list[Tensor]
) -> tuple[Weights, Weights]:
    """W and S after the chunk's last token."""
    after = [
        write_layer(*factors, chunk.into_W, chunk.into_S, *chunk.last)
        for factors in zip(W, S, a, delta)
    ]
    W_after, S_after = zip(*after)
    return list(W_after), list(S_after)
