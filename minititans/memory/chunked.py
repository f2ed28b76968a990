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
no scan. Only surprise and writing go chunk by chunk (`write_chunks`); what needs no weights is
computed for many chunks before that loop (`prepare`), and all of them are read after it (`read`).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from minititans.memory.checks import check_layers, check_rule
from minititans.memory.chunk_gates import chunk_products
from minititans.memory.chunk_reading import read_layer
from minititans.memory.chunk_writing import Written, write_chunks
from minititans.memory.chunks import Step, over_chunks
from minititans.memory.gates import Gates
from minititans.memory.network import add_norm, surprise_factors
from minititans.memory.state import MemoryState
from minititans.memory.trace import Trace, chunk_norms

# So many numbers in each tensor of the chunks that are prepared, written and read together:
# enough to fill the matmuls, few enough to stay in the cache.
AT_ONCE = 2**19


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

    def step(*piece):
        *sequences, size, W, S, W_start = piece
        chunks = prepare(*sequences, size)
        written = write_chunks(chunks, W, S, W_start, residual_norm, clip)
        y = read(chunks, written)
        y = add_norm(chunks.q, y) if residual_norm else y

        def join(x):
            return rearrange(x, "(n r) b ... -> r (n b) ...", n=chunks.n)

        measured = None
        if trace:
            at = W_start if chunks.n == 1 else written.W
            with torch.no_grad():
                surprise = surprise_factors(at, chunks.k, chunks.v, residual_norm, clip)
            measured = [join(x) for x in chunk_norms(chunks, written.W, written.S, surprise)]
        return Step(join(y), written.W_after, written.S_after, measured)

    width = max(chunk_size, *(max(w.shape[-2:]) for w in state.weights))
    span = max(1, AT_ONCE // (q.shape[0] * q.shape[1] * width**2))
    return over_chunks(step, q, k, v, gates, state, chunk_size, trace, span)


@dataclass(frozen=True, slots=True)
class Chunks:
    """n chunks of b tokens, with everything about them that the weights do not change.

    Chunks and rows are one axis: the rows of the first chunk, those of the second, …
    """

    n: int
    q: Tensor  # [n·rows, b, dim]
    k: Tensor
    v: Tensor
    H: Tensor  # [n·rows, b, b]  from here on: the fields of `Products`
    G: Tensor
    m: Tensor  # [n·rows, b, 1]
    f: Tensor
    beta: Tensor
    into_S: Tensor  # [n·rows, b]
    into_W: Tensor


def prepare(
    q: Tensor, k: Tensor, v: Tensor, theta: Tensor, eta: Tensor, alpha: Tensor, size: int
) -> Chunks:
    """Cut `[rows, time, ...]` into chunks and do all their work that needs no weights at once."""
    n = q.shape[1] // size
    q, k, v = (rearrange(x, "r (n b) d -> (n r) b d", b=size) for x in (q, k, v))
    theta, eta, alpha = (rearrange(x, "r (n b) -> (n r) b", b=size) for x in (theta, eta, alpha))
    return Chunks(n, q, k, v, *chunk_products(theta, eta, alpha))


def read(chunks: Chunks, written: Written) -> Tensor:
    """Every token's query answered by its own W_t, layer by layer: `[n·rows, b, d_out]`."""
    X = chunks.q
    for layer, factors in enumerate(zip(written.W, written.S, written.a, written.delta)):
        X = F.silu(X, inplace=not torch.is_grad_enabled()) if layer > 0 else X
        X = read_layer(X, *factors, chunks.G, chunks.beta, chunks.f)
    return X
