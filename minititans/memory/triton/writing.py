"""Writing a chunk, and the derivative of that.

    W ← β W + f S + Eᵀ (G ⊙ A)         S ← m S + Eᵀ (H ⊙ A)         with the last rows of each

The backward pass goes from the last chunk to the first: dW and dS, the derivatives of whatever is
being minimised with respect to W and S, are passed from chunk to chunk.
"""

import triton
import triton.language as tl

from minititans.memory.triton.gates import (
    after_tokens,
    at_last,
    before_tokens,
    load_gates,
    row_of_last,
)
from minititans.memory.triton.surprise import surprise_backward
from minititans.memory.triton.tiles import (
    add_tokens,
    load_layer,
    load_tokens,
    matmul,
    matmul_t,
    store_layer,
    store_numbers,
)


@triton.jit
def write(
    W_at, S_at, A, E, G, f, beta, H, m, count,
    B: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """W and S after the chunk's last token, in place."""
    into_W, into_S = row_of_last(G, count, B)[:, None], row_of_last(H, count, B)[:, None]
    m, f, beta = at_last(m, count, B), at_last(f, count, B), at_last(beta, count, B)
    for l in tl.static_range(DEPTH):
        S = load_layer(S_at, l, WIDTH, D)
        W = beta * load_layer(W_at, l, WIDTH, D) + f * S
        W += matmul(tl.trans(E[l]), into_W * A[l], PRECISION)
        store_layer(W_at, W, l, WIDTH, D)
        S = m * S + matmul(tl.trans(E[l]), into_S * A[l], PRECISION)
        store_layer(S_at, S, l, WIDTH, D)


@triton.jit(do_not_specialize=("time", "first_chunk", "chunks", "slots"))
def write_backward_kernel(
    k_at, theta_at, eta_at, alpha_at, starts_at, found_at,  # as in `read_backward_kernel`
    dW_at, dS_at,  # [rows, SIZE]   of the state after these chunks; becomes that before them
    dW_open_at,  # [rows, SIZE]   of the weights with which the open chunk started
    dk_at, dv_at,  # go out, shaped as k and v
    by_starts_at, by_found_at, by_gates_at,  # as there; puts dG, df, dβ, dH, dm into the last
    time, first_chunk, chunks, slots,
    WIDTH: tl.constexpr, D: tl.constexpr, SIZE: tl.constexpr, FOUND: tl.constexpr,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Through writing and surprise; dW, dS, and the dA and dE in scratch, are added to in place."""
    DTYPE: tl.constexpr = starts_at.dtype.element_ty
    TILE: tl.constexpr = CHUNK * WIDTH
    row = tl.program_id(0).to(tl.int64)
    dW_at, dS_at = dW_at + row * SIZE, dS_at + row * SIZE

    for back in range(chunks):
        n = chunks - 1 - back
        start = (first_chunk + n) * CHUNK
        count = tl.minimum(time - start, CHUNK)
        first = row * time + start
        slot = row * slots + n
        W_at, dW_read_at = starts_at + slot * 2 * SIZE, by_starts_at + slot * 2 * SIZE
        A_at, dA_at = found_at + slot * FOUND + B * B, by_found_at + slot * 2 * DEPTH * TILE
        S_at = W_at + SIZE

        theta, eta, keep, eta_before, keep_before = load_gates(
            theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
        )
        G, f, beta, H, m = before_tokens(theta, eta, eta_before, keep_before, B, PRECISION)
        G_after, f_after, beta_after = after_tokens(G, f, beta, H, m, keep)
        into_W, into_S = row_of_last(G_after, count, B), row_of_last(H, count, B)
        m_last = at_last(m, count, B)
        f_last, beta_last = at_last(f_after, count, B), at_last(beta_after, count, B)

        # Through the writing, on top of what came through the reading.
        A = load_tokens(A_at, count, DTYPE, B, WIDTH, D)
        E = load_tokens(A_at + TILE, count, DTYPE, B, WIDTH, D)
        dinto_W, dinto_S = write_backward(
            A, E, into_W, into_S, dW_at, dS_at, dA_at, count,
            DTYPE, DEPTH - 1, TILE, B, WIDTH, D, PRECISION,
        )  # fmt: skip
        if DEPTH == 2:
            k = load_tokens(k_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
            E = load_tokens(A_at + 2 * TILE, count, DTYPE, B, WIDTH, D)
            dinto_W_below, dinto_S_below = write_backward(
                k, E, into_W, into_S, dW_at, dS_at, dA_at + 2 * TILE, count,
                DTYPE, 0, TILE, B, WIDTH, D, PRECISION,
            )  # fmt: skip
            dinto_W, dinto_S = dinto_W + dinto_W_below, dinto_S + dinto_S_below
        dm, df_last, dbeta_last = m_last * 0, m_last * 0, m_last * 0
        for l in tl.static_range(DEPTH):
            dW, dS = load_layer(dW_at, l, WIDTH, D), load_layer(dS_at, l, WIDTH, D)
            S = load_layer(S_at, l, WIDTH, D)
            dbeta_last += tl.sum(dW * load_layer(W_at, l, WIDTH, D))
            df_last += tl.sum(dW * S)
            dm += tl.sum(dS * S)
            dS = f_last * dW + m_last * dS + load_layer(dW_read_at + SIZE, l, WIDTH, D)
            store_layer(dS_at, dS, l, WIDTH, D)
            dW = beta_last * dW + load_layer(dW_read_at, l, WIDTH, D)
            if count < CHUNK:  # the weights this chunk started with are part of the state too
                dW += load_layer(dW_open_at + row * SIZE, l, WIDTH, D)
            store_layer(dW_at, dW, l, WIDTH, D)

        # Through the surprise.
        tokens = first * WIDTH
        dG, df, dbeta = surprise_backward(
            k_at + tokens, dk_at + tokens, dv_at + tokens, W_at, S_at, found_at + slot * FOUND,
            dW_at, dS_at, dA_at, G, f, beta, count,
            DTYPE, DEPTH, CHUNK, B, WIDTH, D, PRECISION,
        )  # fmt: skip

        # What was asked of G, f and β before token t is asked of row t − 1.
        gates_at = by_gates_at + (2 * slot + 1) * (B * B + 4 * B)
        t, i = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        tl.store(gates_at + (t - 1) * B + i, dG, mask=(t > 0) & (t < count))
        store_numbers(gates_at + (count - 1) * B, dinto_W, 0, B, B)
        gates_at += B * B
        store_numbers(gates_at - 1, df, 1, count, B)
        tl.store(gates_at + count - 1, df_last)
        store_numbers(gates_at + B - 1, dbeta, 1, count, B)
        tl.store(gates_at + B + count - 1, dbeta_last)
        store_numbers(gates_at + 2 * B, dinto_S, 0, B, B)
        tl.store(gates_at + 3 * B, dm)


@triton.jit
def write_backward(
    A, E, into_W, into_S, dW_at, dS_at, dA_at, count,
    DTYPE: tl.constexpr, l: tl.constexpr, TILE: tl.constexpr,
    B: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds to dA and dE of a layer; returns its part of the last rows of G and H."""
    dW, dS = load_layer(dW_at, l, WIDTH, D), load_layer(dS_at, l, WIDTH, D)
    through_W = matmul(E, dW, PRECISION)  # [B, D]
    through_S = matmul(E, dS, PRECISION)
    dA = into_W[:, None] * through_W + into_S[:, None] * through_S
    add_tokens(dA_at, dA, count, DTYPE, B, WIDTH, D)
    dE = matmul_t(into_W[:, None] * A, dW, PRECISION) + matmul_t(into_S[:, None] * A, dS, PRECISION)
    add_tokens(dA_at + TILE, dE, count, DTYPE, B, WIDTH, D)
    return tl.sum(through_W * A, 1), tl.sum(through_S * A, 1)
