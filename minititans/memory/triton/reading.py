"""Reading a chunk, every token's query answered by its own W_t, and the derivative of that.

    y = (β ⊙ X) Wᵀ + (f ⊙ X) Sᵀ + (G ⊙ (X Aᵀ)) E

The derivative of a chunk's reading needs nothing from later chunks: one kernel, many chunks at
once. `dX` is the derivative of whatever is being minimised with respect to X.
"""

import triton
import triton.language as tl

from minititans.memory.triton.gates import after_tokens, before_tokens, load_gates
from minititans.memory.triton.tiles import (
    load_layer,
    load_tokens,
    matmul,
    matmul_t,
    step_up,
    store_layer,
    store_numbers,
    store_tokens,
    through_unit,
)


@triton.jit
def read(
    q, W_at, S_at, A, E, G, f, beta,
    DEPTH: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Every token's query answered by its own W_t, layer by layer: `[B, D]`."""
    y = read_layer(q, W_at, S_at, A[0], E[0], G, f, beta, 0, WIDTH, D, PRECISION)
    if DEPTH == 2:
        x, _, _, _ = step_up(q, y)
        y = read_layer(x, W_at, S_at, A[1], E[1], G, f, beta, 1, WIDTH, D, PRECISION)
    return y


@triton.jit
def read_layer(
    x, W_at, S_at, A, E, G, f, beta,
    l: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """`(β ⊙ X) Wᵀ + (f ⊙ X) Sᵀ + (G ⊙ (X Aᵀ)) E`."""
    y = matmul(G * matmul(x, tl.trans(A), PRECISION), E, PRECISION)
    y += matmul_t(beta[:, None] * x, load_layer(W_at, l, WIDTH, D), PRECISION)
    return y + matmul_t(f[:, None] * x, load_layer(S_at, l, WIDTH, D), PRECISION)


@triton.jit(do_not_specialize=("time", "first_chunk", "slots"))
def read_backward_kernel(
    q_at, k_at, theta_at, eta_at, alpha_at,  # as in `forward_kernel`
    starts_at,  # [rows, slots, 2, SIZE]   W and S at each chunk's start
    found_at,  # [rows, slots, FOUND]   see `store_found`
    dy_at, dq_at,  # comes in, goes out; shaped as y and q
    by_starts_at,  # [rows, slots, 2, SIZE]   scratch: dW and dS
    by_found_at,  # [rows, slots, 2·DEPTH·CHUNK·WIDTH]   scratch: dA, dE, last layer first
    by_gates_at,  # [rows, slots, 2·(B·B + 4·B)]   scratch: dG, df, dβ; then the writing's
    time, first_chunk, slots,
    WIDTH: tl.constexpr, D: tl.constexpr, SIZE: tl.constexpr, FOUND: tl.constexpr,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """y = (β ⊙ X) Wᵀ + (f ⊙ X) Sᵀ + (G ⊙ (X Aᵀ)) E, from the last layer to the first."""
    DTYPE: tl.constexpr = starts_at.dtype.element_ty
    TILE: tl.constexpr = CHUNK * WIDTH
    row, n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start = (first_chunk + n) * CHUNK
    count = tl.minimum(time - start, CHUNK)
    first = row * time + start
    slot = row * slots + n
    W_at, dW_at = starts_at + slot * 2 * SIZE, by_starts_at + slot * 2 * SIZE
    A_at, dA_at = found_at + slot * FOUND + B * B, by_found_at + slot * 2 * DEPTH * TILE

    theta, eta, keep, eta_before, keep_before = load_gates(
        theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
    )
    G, f, beta, H, m = before_tokens(theta, eta, eta_before, keep_before, B, PRECISION)
    G, f, beta = after_tokens(G, f, beta, H, m, keep)
    x = load_tokens(q_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
    if DEPTH == 2:
        A = load_tokens(k_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
        E = load_tokens(A_at + 2 * TILE, count, DTYPE, B, WIDTH, D)
        y = read_layer(x, W_at, W_at + SIZE, A, E, G, f, beta, 0, WIDTH, D, PRECISION)
        x, length, slope, _ = step_up(x, y)

    A = load_tokens(A_at, count, DTYPE, B, WIDTH, D)
    E = load_tokens(A_at + TILE, count, DTYPE, B, WIDTH, D)
    dy = load_tokens(dy_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
    dx, dG, df, dbeta = read_layer_backward(
        x, dy, A, E, G, f, beta, W_at, dW_at, dA_at, count,
        DEPTH - 1, SIZE, TILE, B, WIDTH, D, PRECISION,
    )  # fmt: skip
    if DEPTH == 2:
        dtotal = through_unit(dx, x, length)
        x = load_tokens(q_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
        A = load_tokens(k_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
        E = load_tokens(A_at + 2 * TILE, count, DTYPE, B, WIDTH, D)
        dx, dG_below, df_below, dbeta_below = read_layer_backward(
            x, slope * dtotal, A, E, G, f, beta, W_at, dW_at, dA_at + 2 * TILE, count,
            0, SIZE, TILE, B, WIDTH, D, PRECISION,
        )  # fmt: skip
        dx += dtotal
        dG, df, dbeta = dG + dG_below, df + df_below, dbeta + dbeta_below
    store_tokens(dq_at + first * WIDTH, dx, count, B, WIDTH, D)
    by_gates_at += slot * 2 * (B * B + 4 * B)
    store_tokens(by_gates_at, dG, B, B, B, B)
    store_numbers(by_gates_at + B * B, df, 0, B, B)
    store_numbers(by_gates_at + B * B + B, dbeta, 0, B, B)


@triton.jit
def read_layer_backward(
    x, dy, A, E, G, f, beta, W_at, dW_at, dA_at, count,
    l: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
    B: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From dy to dx, dG, df and dβ; stores dW, dS, dA and dE of the layer."""
    overlap = matmul(x, tl.trans(A), PRECISION)  # [B, B]
    dE = matmul(tl.trans(G * overlap), dy, PRECISION)
    store_tokens(dA_at + TILE, dE, count, B, WIDTH, D)
    dweighted = matmul(dy, tl.trans(E), PRECISION)
    dG, doverlap = dweighted * overlap, dweighted * G
    dA = matmul(tl.trans(doverlap), x, PRECISION)
    store_tokens(dA_at, dA, count, B, WIDTH, D)
    dx = matmul(doverlap, A, PRECISION)
    # through W and S
    through = matmul(dy, load_layer(W_at, l, WIDTH, D), PRECISION)
    dbeta = tl.sum(through * x, 1)
    dx += beta[:, None] * through
    through = matmul(dy, load_layer(W_at + SIZE, l, WIDTH, D), PRECISION)
    df = tl.sum(through * x, 1)
    dx += f[:, None] * through
    dW = matmul(tl.trans(dy), beta[:, None] * x, PRECISION)
    store_layer(dW_at, dW, l, WIDTH, D)
    dS = matmul(tl.trans(dy), f[:, None] * x, PRECISION)
    store_layer(dW_at + SIZE, dS, l, WIDTH, D)
    return dx, dG, df, dbeta
