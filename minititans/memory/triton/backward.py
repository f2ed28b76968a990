"""The gradient of the chunked memory: three kernels, for a few chunks at a time.

A chunk's gradient needs W and S as they were at its start; the forward kernel has just stored
them for these chunks, from a checkpoint (see `launch`). Then every block of `forward` is undone:

    read_backward_kernel    the reading, all these chunks at once: it needs nothing from later ones
    write_backward_kernel   the writing and the surprise, from the last chunk to the first: the
                            gradients by W and S, dW and dS, go from chunk to chunk on chip
    gates_backward_kernel   the products of gates, all these chunks at once again

What one hands to the next lies in scratch memory, which the next few chunks use again: the
gradients by a and δ, by the products of gates, and by the W and S that were read.
`dX` is the gradient by X.
"""

import triton
import triton.language as tl

from minititans.memory.triton.forward import read_layer
from minititans.memory.triton.gates import load_gates, prepare, prepare_backward
from minititans.memory.triton.surprise import surprise_backward, surprise_factors
from minititans.memory.triton.tiles import (
    add_layers,
    at_last,
    load_layer,
    load_layer_anew,
    load_layers,
    load_numbers,
    load_tokens,
    matmul,
    matmul_t,
    silu_and_slope,
    store_layer,
    store_layers,
    store_numbers,
    store_tokens,
)


@triton.jit(do_not_specialize=("time", "first_chunk", "slots"))
def read_backward_kernel(
    q_at, k_at, v_at, theta_at, eta_at, alpha_at,  # as in `forward_kernel`
    starts_at,  # [rows, slots, 2, SIZE]   W and S at each chunk's start
    dy_at, dq_at,  # comes in, goes out; shaped as y and q
    by_starts_at,  # [rows, slots, 2, SIZE]   scratch: dW and dS
    by_factors_at,  # [rows, slots, FACTORS]   scratch: da and dδ of each layer
    by_gates_at,  # [rows, slots, B·B + 7·B]   scratch: dG, df, dβ
    time, first_chunk, slots, clip,
    WIDTHS: tl.constexpr, BLOCKS: tl.constexpr, SIZE: tl.constexpr, FACTORS: tl.constexpr,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr,
    CLIP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Z = (β ⊙ X) Wᵀ + (f ⊙ X) Sᵀ + (G ⊙ (X Aᵀ)) Δ, from the last layer to the first."""
    DTYPE: tl.constexpr = starts_at.dtype.element_ty
    row, n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start = (first_chunk + n) * CHUNK
    count = tl.minimum(time - start, CHUNK)
    first = row * time + start
    slot = row * slots + n

    # The chunk once more, as in `forward_kernel`; layers are loaded anew where they are needed.
    W_at, S_at = starts_at + slot * 2 * SIZE, starts_at + slot * 2 * SIZE + SIZE
    W = load_layers(W_at, WIDTHS, BLOCKS, DEPTH)
    q = load_tokens(q_at + first * WIDTHS[0], count, DTYPE, B, WIDTHS[0], BLOCKS[0])
    k = load_tokens(k_at + first * WIDTHS[0], count, DTYPE, B, WIDTHS[0], BLOCKS[0])
    v = load_tokens(v_at + first * WIDTHS[DEPTH], count, DTYPE, B, WIDTHS[DEPTH], BLOCKS[DEPTH])
    theta, eta, decay = load_gates(
        theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
    )
    _, _, _, G, _, f, beta, _, _ = prepare(theta, eta, decay, count, B, PRECISION)
    a, delta, _, _, _, _, _, _, _ = surprise_factors(W, k, v, clip, CLIP, DEPTH, PRECISION)
    X, inputs, slopes = q, (q,), ()
    for l in tl.static_range(DEPTH - 1):
        W_l = load_layer_anew(W_at, l, WIDTHS, BLOCKS)
        S_l = load_layer(S_at, l, WIDTHS, BLOCKS)
        X = read_layer(X, W_l, S_l, a[l], delta[l], G, f, beta, PRECISION)
        X, slope, _ = silu_and_slope(X)
        inputs, slopes = inputs + (X,), slopes + (slope,)

    dZ = load_tokens(dy_at + first * WIDTHS[DEPTH], count, DTYPE, B, WIDTHS[DEPTH], BLOCKS[DEPTH])
    dG, df, dbeta = G * 0, f * 0, f * 0
    da, ddelta = (), ()
    for l in tl.static_range(DEPTH - 1, -1, -1):
        X = inputs[l]
        # through the overlap G ⊙ (X Aᵀ)
        XA = matmul(X, tl.trans(a[l]), PRECISION)  # [B, B]
        doverlap = matmul(dZ, tl.trans(delta[l]), PRECISION)
        dG += doverlap * XA
        dXA = doverlap * G
        ddelta = (matmul(tl.trans(G * XA), dZ, PRECISION),) + ddelta
        da = (matmul(tl.trans(dXA), X, PRECISION),) + da
        # through W and S
        through_W = matmul(dZ, load_layer_anew(W_at, l, WIDTHS, BLOCKS), PRECISION)
        through_S = matmul(dZ, load_layer_anew(S_at, l, WIDTHS, BLOCKS), PRECISION)
        dbeta += tl.sum(through_W * X, 1)
        df += tl.sum(through_S * X, 1)
        dW = matmul(tl.trans(dZ), beta[:, None] * X, PRECISION)
        store_layer(by_starts_at + slot * 2 * SIZE, dW, l, WIDTHS, BLOCKS)
        dS = matmul(tl.trans(dZ), f[:, None] * X, PRECISION)
        store_layer(by_starts_at + slot * 2 * SIZE + SIZE, dS, l, WIDTHS, BLOCKS)
        dX = beta[:, None] * through_W + f[:, None] * through_S + matmul(dXA, a[l], PRECISION)
        if l > 0:
            dZ = dX * slopes[l - 1]
        else:
            store_tokens(dq_at + first * WIDTHS[0], dX, count, B, WIDTHS[0], BLOCKS[0])

    by_factors_at += slot * FACTORS
    for l in tl.static_range(DEPTH):
        store_tokens(by_factors_at, da[l], count, B, WIDTHS[l], BLOCKS[l])
        by_factors_at += CHUNK * WIDTHS[l]
        store_tokens(by_factors_at, ddelta[l], count, B, WIDTHS[l + 1], BLOCKS[l + 1])
        by_factors_at += CHUNK * WIDTHS[l + 1]
    by_gates_at += slot * (B * B + 7 * B)
    store_tokens(by_gates_at, dG, B, B, B, B)
    store_numbers(by_gates_at + B * B, df, B, B)
    store_numbers(by_gates_at + B * B + B, dbeta, B, B)


@triton.jit(do_not_specialize=("time", "first_chunk", "chunks", "slots"))
def write_backward_kernel(
    k_at, v_at, theta_at, eta_at, alpha_at, starts_at,  # as above
    dW_at, dS_at,  # [rows, SIZE]   by the state after these chunks; becomes that before them
    dW_open_at,  # [rows, SIZE]   by the weights with which the open chunk began
    dk_at, dv_at,  # go out, shaped as k and v
    by_starts_at, by_factors_at, by_gates_at,  # as above; adds to the last: d into_W, … dm, df, dβ
    time, first_chunk, chunks, slots, clip,
    WIDTHS: tl.constexpr, BLOCKS: tl.constexpr, SIZE: tl.constexpr, FACTORS: tl.constexpr,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr,
    CLIP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """W' = β W + f S + Δᵀ (into_W ⊙ A) and S' = m S + Δᵀ (into_S ⊙ A), all of the last token."""
    DTYPE: tl.constexpr = starts_at.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    dW = load_layers(dW_at + row * SIZE, WIDTHS, BLOCKS, DEPTH)
    dS = load_layers(dS_at + row * SIZE, WIDTHS, BLOCKS, DEPTH)

    for back in range(chunks):
        n = chunks - 1 - back
        start = (first_chunk + n) * CHUNK
        count = tl.minimum(time - start, CHUNK)
        first = row * time + start
        slot = row * slots + n

        # The chunk once more, as in `forward_kernel`, but for the reading.
        W_at, dW_read_at = starts_at + slot * 2 * SIZE, by_starts_at + slot * 2 * SIZE
        W = load_layers(W_at, WIDTHS, BLOCKS, DEPTH)
        k = load_tokens(k_at + first * WIDTHS[0], count, DTYPE, B, WIDTHS[0], BLOCKS[0])
        v = load_tokens(v_at + first * WIDTHS[DEPTH], count, DTYPE, B, WIDTHS[DEPTH], BLOCKS[DEPTH])
        theta, eta, decay = load_gates(
            theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
        )
        _, _, _, _, m, f, beta, into_W, into_S = prepare(theta, eta, decay, count, B, PRECISION)
        m, f, beta = at_last(m, count, B), at_last(f, count, B), at_last(beta, count, B)
        a, delta, raw, slopes, bends, energy, shrink, size, _ = surprise_factors(
            W, k, v, clip, CLIP, DEPTH, PRECISION
        )

        # Through the writing, on top of what came through the reading.
        factors_at = by_factors_at + slot * FACTORS
        dinto_W, dinto_S = into_W * 0, into_W * 0
        dm, df, dbeta = m * 0, m * 0, m * 0
        da, ddelta, dW_before, dS_before = (), (), (), ()
        for l in tl.static_range(DEPTH):
            W_l = load_layer_anew(W_at, l, WIDTHS, BLOCKS)
            S_l = load_layer(W_at + SIZE, l, WIDTHS, BLOCKS)
            dW_read = load_layer(dW_read_at, l, WIDTHS, BLOCKS)
            dS_read = load_layer(dW_read_at + SIZE, l, WIDTHS, BLOCKS)
            dbeta += tl.sum(dW[l] * W_l)
            df += tl.sum(dW[l] * S_l)
            dm += tl.sum(dS[l] * S_l)
            dW_before = dW_before + (beta * dW[l] + dW_read,)
            dS_before = dS_before + (f * dW[l] + m * dS[l] + dS_read,)

            by_W = matmul(delta[l], dW[l], PRECISION)  # [B, d_in]
            by_S = matmul(delta[l], dS[l], PRECISION)
            dinto_W += tl.sum(by_W * a[l], 1)
            dinto_S += tl.sum(by_S * a[l], 1)
            da_read = load_tokens(factors_at, count, DTYPE, B, WIDTHS[l], BLOCKS[l])
            da = da + (da_read + into_W[:, None] * by_W + into_S[:, None] * by_S,)
            factors_at += CHUNK * WIDTHS[l]

            to_W = matmul_t(into_W[:, None] * a[l], dW[l], PRECISION)  # [B, d_out]
            to_S = matmul_t(into_S[:, None] * a[l], dS[l], PRECISION)
            ddelta_read = load_tokens(factors_at, count, DTYPE, B, WIDTHS[l + 1], BLOCKS[l + 1])
            ddelta = ddelta + (ddelta_read + to_W + to_S,)
            factors_at += CHUNK * WIDTHS[l + 1]

        # Through the surprise.
        tl.debug_barrier()  # see `load_layer_anew`
        W = load_layers(W_at, WIDTHS, BLOCKS, DEPTH)
        dk, dv, dW_surprise = surprise_backward(
            da, ddelta, W, a, raw, slopes, bends, energy, shrink, size, clip,
            CLIP, DEPTH, PRECISION,
        )  # fmt: skip
        dW, dS = add_layers(dW_before, dW_surprise, DEPTH), dS_before
        if count < CHUNK:  # the weights this chunk began with are part of the state, too
            dW = add_layers(dW, load_layers(dW_open_at + row * SIZE, WIDTHS, BLOCKS, DEPTH), DEPTH)

        store_tokens(dk_at + first * WIDTHS[0], dk, count, B, WIDTHS[0], BLOCKS[0])
        store_tokens(dv_at + first * WIDTHS[DEPTH], dv, count, B, WIDTHS[DEPTH], BLOCKS[DEPTH])
        gates_at = by_gates_at + slot * (B * B + 7 * B) + B * B
        last = tl.arange(0, B) == count - 1
        store_numbers(gates_at + 2 * B, dinto_W, B, B)
        store_numbers(gates_at + 3 * B, dinto_S, B, B)
        store_numbers(gates_at + 4 * B, tl.where(last, dm, 0.0), B, B)
        store_numbers(gates_at + 5 * B, tl.where(last, df, 0.0), B, B)
        store_numbers(gates_at + 6 * B, tl.where(last, dbeta, 0.0), B, B)

    store_layers(dW_at + row * SIZE, dW, WIDTHS, BLOCKS, DEPTH)
    store_layers(dS_at + row * SIZE, dS, WIDTHS, BLOCKS, DEPTH)


@triton.jit(do_not_specialize=("time", "first_chunk", "slots"))
def gates_backward_kernel(
    theta_at, eta_at, alpha_at, by_gates_at,  # as above
    dtheta_at, deta_at, dalpha_at,  # go out
    time, first_chunk, slots,
    CHUNK: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """H, G = D H, m, f = D m and β, down to theta, eta and alpha: see `prepare_backward`."""
    DTYPE: tl.constexpr = by_gates_at.dtype.element_ty
    row, n = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start = (first_chunk + n) * CHUNK
    count = tl.minimum(time - start, CHUNK)
    first = row * time + start
    theta, eta, decay = load_gates(
        theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
    )
    E, D, H, _, m, _, _, _, _ = prepare(theta, eta, decay, count, B, PRECISION)

    # The reading's part, and the writing's, which is that of the last token.
    by_gates_at += (row * slots + n) * (B * B + 7 * B)
    numbers_at = by_gates_at + B * B
    last = tl.arange(0, B)[:, None] == count - 1
    dG = load_tokens(by_gates_at, B, DTYPE, B, B, B)
    dG += tl.where(last, load_numbers(numbers_at + 2 * B, 0, B, DTYPE, B)[None, :], 0.0)
    dH = tl.where(last, load_numbers(numbers_at + 3 * B, 0, B, DTYPE, B)[None, :], 0.0)
    dm = load_numbers(numbers_at + 4 * B, 0, B, DTYPE, B)
    df = load_numbers(numbers_at, 0, B, DTYPE, B)
    df += load_numbers(numbers_at + 5 * B, 0, B, DTYPE, B)
    dbeta = load_numbers(numbers_at + B, 0, B, DTYPE, B)
    dbeta += load_numbers(numbers_at + 6 * B, 0, B, DTYPE, B)

    eta_before = load_numbers(eta_at + first - 1, 1, count, DTYPE, B)
    decay_before = 1 - load_numbers(alpha_at + first - 1, 1, count, DTYPE, B)
    dtheta, deta, ddecay = prepare_backward(
        dH, dG, dm, df, dbeta, E, D, H, m, theta, eta_before, decay_before, B, PRECISION
    )
    store_numbers(dtheta_at + first, dtheta, count, B)
    store_numbers(deta_at + first, deta, count, B)
    store_numbers(dalpha_at + first, -ddecay, count, B)
