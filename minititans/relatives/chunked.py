"""The rule as matmuls: the same numbers as `loop`, but faster.

Write `u_t = S_{t-1} a_t` for what the memory answers before a write. Unrolled over a chunk that
starts with S₀, and with `D_{i→t}` for the decays after i up to t,

    S_t = S₀ D_{0→t} + Σ_{i≤t} (u_i b_iᵀ + v_i k_iᵀ) D_{i→t}

so that with the overlaps `QK[t,i] = q_t D_{i→t} k_i`, and QB, AK, AB defined likewise, the answers
and the readings of the whole chunk are

    U = (I − AB)⁻¹ (A S₀ᵀ + AK V)            AB is strictly lower triangular: no token waits
    Y = Q S₀ᵀ + QB U + QK V                  for a later one

where the rows of A and Q are decayed from the chunk's start. Only S is passed from chunk to chunk;
everything else is computed for all chunks at once. The result does not depend on `chunk_size`.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from minititans.arguments import check
from minititans.relatives.checks import check_tokens, start_or_check
from minititans.relatives.overlaps import overlaps_many_decays, overlaps_one_decay
from minititans.relatives.rule import Tokens


def chunked(
    tokens: Tokens, state: Tensor | None = None, chunk_size: int = 16
) -> tuple[Tensor, Tensor]:
    """Read a sequence while writing it to the memory, `chunk_size` tokens at a time.

    Arguments and results are those of `loop`. A chunk's size is rounded up to a power of 2.

    >>> one = torch.ones(1, 1, 3, 1)
    >>> y, S = chunked(Tokens(q=one, k=one, v=one, decay=torch.full((1, 1, 3), 0.5)))
    >>> y.flatten()
    tensor([1.0000, 1.5000, 1.7500])
    """
    check(chunk_size=chunk_size)
    check_tokens(tokens)
    S = start_or_check(state, tokens)
    dtype = tokens.q.dtype
    tokens = tokens.map(lambda x: x.to(S.dtype))  # the arithmetic is done in the state's precision
    batch, heads, time = tokens.q.shape[:3]
    size = 1 << (min(chunk_size, time) - 1).bit_length()
    chunks = _cut(tokens, size)

    S = S.flatten(0, 1)
    if chunks.a is None or chunks.b is None:
        y, S = _adding(chunks, S)
    else:
        y, S = _asking(chunks, chunks.a, chunks.b, S)
    y = rearrange(y, "n (b h) t d -> b h (n t) d", b=batch)[:, :, :time]
    if tokens.skip is not None:
        y = y + tokens.skip[..., None] * tokens.v
    return y.to(dtype), S.unflatten(0, (batch, heads))


def _adding(chunks: Tokens, S: Tensor) -> tuple[Tensor, Tensor]:
    """A rule without a and b: what is written does not depend on the memory."""
    parts = _overlaps(chunks, [chunks.q], [chunks.k], before=[False])
    QK, Q, K = parts.matrix[..., 0, 0, :, :], parts.x[..., 0, :, :], parts.z[..., 0, :, :]
    writes = chunks.v.mT @ K  # [n, rows, dim_value, dim_key]
    starts = []
    for write, total in zip(writes.unbind(0), parts.total.unbind(0)):
        starts.append(S)
        S = torch.addcmul(write, S, total)
    return Q @ torch.stack(starts).mT + QK @ chunks.v, S


def _asking(chunks: Tokens, a: Tensor, b: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """A rule with a and b: the memory is asked, `u_t = S_{t-1} a_t`, before each write."""
    parts = _overlaps(chunks, [chunks.q, a], [chunks.k, b], before=[False, True])
    (QK, QB), (AK, AB) = (kind.unbind(-3) for kind in parts.matrix.unbind(-4))
    (Q, A), (K, B) = parts.x.unbind(-3), parts.z.unbind(-3)

    one = torch.eye(AB.shape[-1], dtype=AB.dtype, device=AB.device)
    right = torch.cat([A, AK @ chunks.v], -1)
    solved = torch.linalg.solve_triangular(one - AB, right, upper=False, unitriangular=True)
    from_S, from_chunk = solved.split([A.shape[-1], chunks.v.shape[-1]], -1)
    writes = chunks.v.mT @ K  # [n, rows, dim_value, dim_key]

    starts, answers = [], []
    # unbind, not indexing: the backward of an index allocates all chunks for each chunk
    for ask, own, correction, write, total in zip(
        *(x.unbind(0) for x in (from_S, from_chunk, B, writes, parts.total))
    ):
        starts.append(S)
        U = torch.baddbmm(own, ask, S.mT)  # [rows, size, dim_value]
        answers.append(U)
        S = torch.baddbmm(torch.addcmul(write, S, total), U.mT, correction)
    return Q @ torch.stack(starts).mT + QB @ torch.stack(answers) + QK @ chunks.v, S


def _overlaps(chunks: Tokens, x: list[Tensor], z: list[Tensor], before: list[bool]):
    one_decay = chunks.decay.dim() == 3  # [n, rows, size]
    form = overlaps_one_decay if one_decay else overlaps_many_decays
    return form(torch.stack(x, -3), torch.stack(z, -3), chunks.decay, before)


def _cut(tokens: Tokens, size: int) -> Tokens:
    """`[batch, heads, time, ...]` to `[chunks, rows, size, ...]`, with the last chunk padded.

    The padding keeps the memory (decay 1) and writes nothing (everything else 0).
    """
    missing = -tokens.q.shape[2] % size

    def cut(name, x):
        padding = (0, missing) if x.dim() == 3 else (0, 0, 0, missing)
        x = F.pad(x, padding, value=1.0 if name == "decay" else 0.0)
        return rearrange(x, "b h (n t) ... -> n (b h) t ...", t=size)

    return Tokens(**{name: cut(name, x) for name, x in tokens.present.items()})
