"""The products of gates that `chunked.prepare` makes, for one chunk, on chip; and their gradient.

    H[t,i] = theta_i · eta_{i+1} ⋯ eta_t              how much of surprise i is in S_t
    D[t,s] = (1 − alpha_{s+1}) ⋯ (1 − alpha_t)        how much of a write at s is left at t
    G = D H,   m_t = eta_1 ⋯ eta_t,   f = D m,   β_t = (1 − alpha_1) ⋯ (1 − alpha_t)

Multiplication only, so that gates of exactly 0 are exact. Gates after the chunk's last token
are loaded as 0: they stand in rows that nobody reads.
"""

import triton
import triton.language as tl

from minititans.memory.triton.tiles import load_numbers, matmul, row_of_last


@triton.jit
def load_gates(theta_at, eta_at, alpha_at, count, DTYPE: tl.constexpr, B: tl.constexpr):
    """theta, eta and 1 − alpha of a chunk, `[B]` each."""
    theta = load_numbers(theta_at, 0, count, DTYPE, B)
    eta = load_numbers(eta_at, 0, count, DTYPE, B)
    alpha = load_numbers(alpha_at, 0, count, DTYPE, B)
    return theta, eta, tl.where(tl.arange(0, B) < count, 1 - alpha, 0.0)


@triton.jit
def segment_products(gate, B: tl.constexpr):
    """`P[t, i] = gate_{i+1} · … · gate_t` for `i <= t` (1 on the diagonal), and 0 above it."""
    t, i = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    factors = tl.where(t > i, gate[:, None], 1.0)
    return tl.where(t >= i, tl.cumprod(factors, 0), 0.0)


@triton.jit
def prepare(theta, eta, decay, count, B: tl.constexpr, PRECISION: tl.constexpr):
    """What of a chunk does not depend on the weights.

    E, D, H, G: `[B, B]`; m, f, β, and the last token's rows of G and H: `[B]`.
    """
    E, D = segment_products(eta, B), segment_products(decay, B)
    H = E * theta[None, :]
    G = matmul(D, H, PRECISION)
    m = tl.cumprod(eta, 0)
    f = tl.sum(D * m[None, :], 1)
    beta = tl.cumprod(decay, 0)
    # The last rows of G = D H and of H: how much of each surprise ends up in W, and in S.
    into_W = tl.sum(row_of_last(D, count, B)[:, None] * H, 0)
    into_S = row_of_last(H, count, B)
    return E, D, H, G, m, f, beta, into_W, into_S


@triton.jit
def prepare_backward(
    dH, dG, dm, df, dbeta, E, D, H, m, theta, eta_before, decay_before,
    B: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients by theta, eta and 1 − alpha, from those by everything `prepare` made."""
    # G = D H and f = D m
    dD = matmul(dG, tl.trans(H), PRECISION) + df[:, None] * m[None, :]
    dH += matmul(tl.trans(D), dG, PRECISION)
    dm += tl.sum(D * df[:, None], 0)
    # H = E theta
    dtheta = tl.sum(dH * E, 0)
    dE = dH * theta[None, :]
    deta = products_backward(dE, dm, E, eta_before, B, PRECISION)
    ddecay = products_backward(dD, dbeta, D, decay_before, B, PRECISION)
    return dtheta, deta, ddecay


@triton.jit
def products_backward(dP, dp, P, gate_before, B: tl.constexpr, PRECISION: tl.constexpr):
    """The gradient by a gate of its segment products P and of its products from the start, p.

    Between i and t lies j: `P[t,i] = P[t,j] · gate_j · P[j−1,i]`, so the derivative by gate_j is
    `Σ_{t,i} dP[t,i] P[t,j] P[j−1,i]`, without a division; and `p_t = P[t,j] · gate_j · p_{j−1}`.
    The tile of `P[j−1,i]` is made from the gates of one token before, `gate_before`.
    """
    t, i = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    factors = tl.where(t - 1 > i, gate_before[:, None], 1.0)
    P_before = tl.where(t - 1 >= i, tl.cumprod(factors, 0), 0.0)
    p_before = tl.cumprod(tl.where(tl.arange(0, B) > 0, gate_before, 1.0), 0)
    by_segments = tl.sum(matmul(tl.trans(P), dP, PRECISION) * P_before, 1)
    return by_segments + tl.sum(P * dp[:, None], 0) * p_before
