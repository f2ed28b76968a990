"""The surprise of a chunk's tokens, as in `chunked`, and the derivative of that.

The last layer is exact: its errors E, measured at its current weights, solve

    (I + G⁻ ⊙ (A Aᵀ)) E = V − β⁻ ⊙ (A Wᵀ) − f⁻ ⊙ (A Sᵀ)         ⁻: before the token

The layer below, if there is one, is measured at the weights the chunk started with, and gets what
comes down from the last layer, row t of which is `W_{t−1}ᵀ e_t`:

    back = β⁻ ⊙ (E W) + f⁻ ⊙ (E S) + (G⁻ ⊙ (E Eᵀ)) A

The derivative is that of `fast.backward`, in steps that load what they need and add what they find
to dW, dS, dA and dE in place: few tiles at a time, because there is little room. `dX` is the
derivative of whatever is being minimised with respect to X.
"""

import triton
import triton.language as tl

from minititans.memory.triton.solve import inverse
from minititans.memory.triton.tiles import (
    add_layer,
    add_tokens,
    dot,
    load_layer,
    load_tokens,
    matmul,
    matmul_t,
    step_up,
    store_tokens,
    through_unit,
)


@triton.jit
def surprise(
    k, v, W_at, S_at, G, f, beta,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What enters each layer and the error at its output, as it is written: tuples of `[B, D]`.

    And what the derivative needs: the system's inverse, `[B, B]`, and `back`. G, f and β: before
    each token.
    """
    A = k
    if DEPTH == 2:
        z = matmul_t(k, load_layer(W_at, 0, WIDTH, D), PRECISION)
        A, length, slope, _ = step_up(k, z)
    solve = inverse(G * matmul(A, tl.trans(A), PRECISION), B, PRECISION)
    right = v - beta[:, None] * matmul_t(A, load_layer(W_at, DEPTH - 1, WIDTH, D), PRECISION)
    right -= f[:, None] * matmul_t(A, load_layer(S_at, DEPTH - 1, WIDTH, D), PRECISION)
    E = matmul(solve, right, PRECISION)
    if DEPTH == 1:
        return (k,), (E,), solve, E
    else:
        back = beta[:, None] * matmul(E, load_layer(W_at, 1, WIDTH, D), PRECISION)
        back += f[:, None] * matmul(E, load_layer(S_at, 1, WIDTH, D), PRECISION)
        back += matmul(G * matmul(E, tl.trans(E), PRECISION), A, PRECISION)
        # The layer below is frozen for a chunk, so it writes only a share of each error.
        E_below = slope * through_unit(back, A, length) / CHUNK
        return (k, A), (E_below, E), solve, back


@triton.jit
def surprise_backward(
    k_at, dk_at, dv_at, W_at, S_at, found_at, dW_at, dS_at, dA_at, G, f, beta, count,
    DTYPE: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Stores dk and dv, adds to dW and dS; returns the derivatives of G, f and β before the tokens.

    found_at: see `forward.store_found`; dA_at: dA and dE, the last layer's first.
    """
    TILE: tl.constexpr = CHUNK * WIDTH
    A_at = found_at + B * B
    dG, df, dbeta = G * 0, f * 0, f * 0
    if DEPTH == 2:  # the errors of the layer below, and what came down to them
        k = load_tokens(k_at, count, DTYPE, B, WIDTH, D)
        z = matmul_t(k, load_layer(W_at, 0, WIDTH, D), PRECISION)
        A = load_tokens(A_at, count, DTYPE, B, WIDTH, D)
        back = load_tokens(A_at + 3 * TILE, count, DTYPE, B, WIDTH, D)
        dE = load_tokens(dA_at + 3 * TILE, count, DTYPE, B, WIDTH, D) / CHUNK
        dA, dback, dlength, dslope = below_backward(k, z, A, back, dE)
        add_tokens(dA_at, dA, count, DTYPE, B, WIDTH, D)
        E = load_tokens(A_at + TILE, count, DTYPE, B, WIDTH, D)
        dA, dE, dG, df, dbeta = back_backward(
            A, E, G, f, beta, W_at, S_at, dback, WIDTH, D, PRECISION
        )
        add_tokens(dA_at, dA, count, DTYPE, B, WIDTH, D)
        add_tokens(dA_at + TILE, dE, count, DTYPE, B, WIDTH, D)
        E = load_tokens(A_at + TILE, count, DTYPE, B, WIDTH, D)
        add_layer(dW_at, matmul(tl.trans(E), beta[:, None] * dback, PRECISION), 1, WIDTH, D)
        add_layer(dS_at, matmul(tl.trans(E), f[:, None] * dback, PRECISION), 1, WIDTH, D)

    # The errors of the last layer. Its system's right-hand side begins with v.
    solve = load_tokens(found_at, B, DTYPE, B, B, B)
    dE = load_tokens(dA_at + TILE, count, DTYPE, B, WIDTH, D)
    dv = matmul(tl.trans(solve), dE, PRECISION)
    store_tokens(dv_at, dv, count, B, WIDTH, D)
    A = load_tokens(A_at, count, DTYPE, B, WIDTH, D)
    E = load_tokens(A_at + TILE, count, DTYPE, B, WIDTH, D)
    dA, dG_too, df_too, dbeta_too = system_backward(
        A, E, G, f, beta, W_at, S_at, dv, DEPTH - 1, WIDTH, D, PRECISION
    )
    add_tokens(dA_at, dA, count, DTYPE, B, WIDTH, D)
    A = load_tokens(A_at, count, DTYPE, B, WIDTH, D)
    dW = -matmul(tl.trans(beta[:, None] * dv), A, PRECISION)
    add_layer(dW_at, dW, DEPTH - 1, WIDTH, D)
    dS = -matmul(tl.trans(f[:, None] * dv), A, PRECISION)
    add_layer(dS_at, dS, DEPTH - 1, WIDTH, D)

    dA = load_tokens(dA_at, count, DTYPE, B, WIDTH, D)
    if DEPTH == 2:  # from what enters the last layer to the keys
        k = load_tokens(k_at, count, DTYPE, B, WIDTH, D)
        W = load_layer(W_at, 0, WIDTH, D)
        A = load_tokens(A_at, count, DTYPE, B, WIDTH, D)
        _, length, slope, bend = step_up(k, matmul_t(k, W, PRECISION))
        dtotal = through_unit(dA, A, length) + A * dlength
        dz = slope * dtotal + bend * dslope
        dA = load_tokens(dA_at + 2 * TILE, count, DTYPE, B, WIDTH, D)
        dA += dtotal + matmul(dz, W, PRECISION)
        add_layer(dW_at, matmul(tl.trans(dz), k, PRECISION), 0, WIDTH, D)
    store_tokens(dk_at, dA, count, B, WIDTH, D)
    return dG + dG_too, df + df_too, dbeta + dbeta_too


@triton.jit
def below_backward(k, z, A, back, dE):
    """Through the errors of the layer below, `slope ⊙ r`, where r is `back` through unit.

    z: what silu was given. Returns its part of dA, and the derivatives of back, of the length that
    unit divides by, and of the slope.
    """
    _, length, slope, _ = step_up(k, z)
    along = dot(A, back)
    r = (back - A * along) / length
    dr = slope * dE
    dalong = dot(A, dr)
    dA = -(along * dr + dalong * back) / length
    return dA, (dr - A * dalong) / length, -dot(dr, r) / length, r * dE


@triton.jit
def back_backward(
    A, E, G, f, beta, W_at, S_at, dback,
    WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Through `back`: its part of dA and dE, and of the derivatives of G, f and β."""
    through = matmul_t(dback, load_layer(W_at, 1, WIDTH, D), PRECISION)
    dbeta = tl.sum(through * E, 1)
    dE = beta[:, None] * through
    through = matmul_t(dback, load_layer(S_at, 1, WIDTH, D), PRECISION)
    df = tl.sum(through * E, 1)
    dE += f[:, None] * through
    EE = matmul(E, tl.trans(E), PRECISION)
    dweighted = matmul(dback, tl.trans(A), PRECISION)  # of G ⊙ (E Eᵀ)
    dA = matmul(tl.trans(G * EE), dback, PRECISION)
    dEE = G * dweighted
    dE += matmul(dEE + tl.trans(dEE), E, PRECISION)
    return dA, dE, EE * dweighted, df, dbeta


@triton.jit
def system_backward(
    A, E, G, f, beta, W_at, S_at, dv,
    l: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Through the triangular system, from dv, the derivative of its right-hand side: as above."""
    through = matmul(dv, load_layer(W_at, l, WIDTH, D), PRECISION)
    dbeta = -tl.sum(through * A, 1)
    dA = -beta[:, None] * through
    through = matmul(dv, load_layer(S_at, l, WIDTH, D), PRECISION)
    df = -tl.sum(through * A, 1)
    dA -= f[:, None] * through
    dL = matmul(dv, tl.trans(E), PRECISION)  # minus that of the system's matrix
    dAA = G * dL
    dG = -matmul(A, tl.trans(A), PRECISION) * dL
    dA -= matmul(dAA + tl.trans(dAA), A, PRECISION)
    return dA, dG, df, dbeta
