"""The products of gates of one chunk, on chip, and their derivative.

As in `fast.gates`, each is a recurrence over the tokens, starting with m = β = 1 and the rest 0:

    H_t = eta_t H_{t−1} + theta_t e_t        G_t = (1 − alpha_t) G_{t−1} + H_t        e_t: 1 at t
    m_t = eta_t m_{t−1}                      f_t = (1 − alpha_t) f_{t−1} + m_t
                                             β_t = (1 − alpha_t) β_{t−1}

The kernels need them after token t, to read, and before it, to measure surprise. The latter are
unrolled, from the gates of the token before; one step of the recurrence then gives the former.

Multiplication only, so that gates of exactly 0 are exact. Gates after the chunk's last token
are loaded as 0: they are in rows that nothing reads.
"""

import triton
import triton.language as tl

from minititans.memory.triton.tiles import load_numbers, load_tokens, matmul, store_numbers


@triton.jit
def load_gates(theta_at, eta_at, alpha_at, count, DTYPE: tl.constexpr, B: tl.constexpr):
    """theta, eta, 1 − alpha, and the last two of the token before, each `[B]`."""
    theta = load_numbers(theta_at, 0, count, DTYPE, B)
    eta = load_numbers(eta_at, 0, count, DTYPE, B)
    alpha = load_numbers(alpha_at, 0, count, DTYPE, B)
    keep = tl.where(tl.arange(0, B) < count, 1 - alpha, 0.0)
    eta_before = load_numbers(eta_at - 1, 1, count, DTYPE, B)
    keep_before = 1 - load_numbers(alpha_at - 1, 1, count, DTYPE, B)
    return theta, eta, keep, eta_before, keep_before


@triton.jit
def segment_products(gate, B: tl.constexpr, BEFORE: tl.constexpr):
    """`P[t, i] = gate_{i+1} · … · gate_t` for `i <= t` (1 on the diagonal), and 0 above it.

    With BEFORE = 1 it is `P[t − 1, i]`, and `gate` is that of the token before.
    """
    t, i = tl.arange(0, B)[:, None] - BEFORE, tl.arange(0, B)[None, :]
    factors = tl.where(t > i, gate[:, None], 1.0)
    return tl.where(t >= i, tl.cumprod(factors, 0), 0.0)


@triton.jit
def products_before(gate_before, B: tl.constexpr):
    """`gate_1 · … · gate_{t−1}`, 1 for the first token."""
    return tl.cumprod(tl.where(tl.arange(0, B) > 0, gate_before, 1.0), 0)


@triton.jit
def before_tokens(
    theta, eta, eta_before, keep_before, B: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """G, f and β before each token, and H and m after it: `[B, B]` and `[B]`."""
    D_before = segment_products(keep_before, B, 1)
    H = segment_products(eta, B, 0) * theta[None, :]
    m = tl.cumprod(eta, 0)
    G = matmul(D_before, H, PRECISION)
    f = tl.sum(D_before * m[None, :], 1)
    return G, f, products_before(keep_before, B), H, m


@triton.jit
def after_tokens(G, f, beta, H, m, keep):
    """G, f and β after each token, from those before it."""
    return keep[:, None] * G + H, keep * f + m, keep * beta


@triton.jit
def gates_backward(
    dG, df, dbeta, dH_last, dm_last, theta, eta, keep, eta_before, keep_before, count,
    B: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From the derivatives of G, f, β and the last rows of H and m to those of the three gates."""
    # From the last token to the first: what token t and all later ones ask for.
    D = segment_products(keep, B, 0)
    dG = matmul(tl.trans(D), dG, PRECISION)
    df = tl.sum(D * df[:, None], 0)
    dbeta = tl.sum(D * dbeta[:, None], 0)
    E = segment_products(eta, B, 0)
    E_last = row_of_last(E, count, B)
    dH = matmul(tl.trans(E), dG, PRECISION) + E_last[:, None] * dH_last[None, :]
    dm = tl.sum(E * df[:, None], 0) + E_last * dm_last
    # A gate multiplies what the token before has left.
    G, f, beta, _, _ = before_tokens(theta, eta, eta_before, keep_before, B, PRECISION)
    H_before = segment_products(eta_before, B, 1) * theta[None, :]
    deta = tl.sum(dH * H_before, 1) + dm * products_before(eta_before, B)
    dkeep = tl.sum(dG * G, 1) + df * f + dbeta * beta
    t, i = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    return tl.sum(tl.where(t == i, dH, 0.0), 0), deta, dkeep


@triton.jit(do_not_specialize=("time", "first_chunk", "slots"))
def gates_backward_kernel(
    theta_at, eta_at, alpha_at, by_gates_at,  # as in `write_backward_kernel`
    dtheta_at, deta_at, dalpha_at,  # go out
    time, first_chunk, slots,
    CHUNK: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """G, f, β, and the last rows of H and m, down to theta, eta and alpha."""
    DTYPE: tl.constexpr = by_gates_at.dtype.element_ty
    row, n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start = (first_chunk + n) * CHUNK
    count = tl.minimum(time - start, CHUNK)
    first = row * time + start
    theta, eta, keep, eta_before, keep_before = load_gates(
        theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
    )

    # The reading's part, and that of writing and surprise.
    read_at = by_gates_at + (row * slots + n) * 2 * (B * B + 4 * B)
    write_at = read_at + B * B + 4 * B
    dG = load_tokens(read_at, count, DTYPE, B, B, B) + load_tokens(write_at, count, DTYPE, B, B, B)
    read_at, write_at = read_at + B * B, write_at + B * B
    df = load_numbers(read_at, 0, count, DTYPE, B) + load_numbers(write_at, 0, count, DTYPE, B)
    read_at, write_at = read_at + B, write_at + B
    dbeta = load_numbers(read_at, 0, count, DTYPE, B) + load_numbers(write_at, 0, count, DTYPE, B)
    dH_last = load_numbers(write_at + B, 0, B, DTYPE, B)
    dm_last = tl.load(write_at + 2 * B)

    dtheta, deta, dkeep = gates_backward(
        dG, df, dbeta, dH_last, dm_last, theta, eta, keep, eta_before, keep_before, count,
        B, PRECISION,
    )  # fmt: skip
    store_numbers(dtheta_at + first, dtheta, 0, count, B)
    store_numbers(deta_at + first, deta, 0, count, B)
    store_numbers(dalpha_at + first, -dkeep, 0, count, B)


@triton.jit
def at_last(x, count, B: tl.constexpr):
    """The number of the chunk's last token."""
    return tl.sum(tl.where(tl.arange(0, B) == count - 1, x, 0.0), 0)


@triton.jit
def row_of_last(X, count, B: tl.constexpr):
    """The row of the chunk's last token."""
    return tl.sum(tl.where(tl.arange(0, B)[:, None] == count - 1, X, 0.0), 0)
