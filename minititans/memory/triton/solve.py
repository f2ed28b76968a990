"""The inverse of a unit lower triangular matrix, in tiles of 16.

With `I + L = T⁻¹ + R`, where T⁻¹ has the tiles on the diagonal and R those below it, the inverse X
satisfies

    X = T − T R X

T comes from forward substitution inside the tiles, all of them at once. Then the equation is
iterated: a row of tiles on its right depends only on the rows above, so each time it is applied
one more row of X is final. This is substitution, tile by tile, and as accurate; squaring `T R`, or
L itself, would make large numbers that must cancel.
"""

import triton
import triton.language as tl

from minititans.memory.triton.tiles import matmul


@triton.jit
def inverse(L, B: tl.constexpr, PRECISION: tl.constexpr):
    """`(I + L)⁻¹` of a strictly lower triangular `[B, B]`."""
    TILES: tl.constexpr = B // 16
    tiled = tl.reshape(L, [TILES, 16, TILES, 16])
    number = tl.arange(0, TILES)
    diagonal = number[:, None, None, None] == number[None, None, :, None]
    T = diagonal_inverses(tl.sum(tl.where(diagonal, tiled, 0.0), 2))
    X = tl.reshape(tl.where(diagonal, T[:, :, None, :], 0.0), [B, B])
    if TILES > 1:
        T = X
        R = tl.reshape(tl.where(diagonal, 0.0, tiled), [B, B])
        TR = matmul(T, R, PRECISION)
        for _ in tl.static_range(TILES - 1):
            X = T - matmul(TR, X, PRECISION)
    return X


@triton.jit
def diagonal_inverses(L):
    """`(I + L)⁻¹` of strictly lower triangular `[tiles, 16, 16]`, row after row."""
    t, i = tl.arange(0, 16)[None, :, None], tl.arange(0, 16)[None, None, :]
    X = tl.where(t == i, 1.0, 0.0 * L)
    for row in range(1, 16):
        L_row = tl.sum(tl.where(t == row, L, 0.0), 1)  # [tiles, 16]
        X -= tl.where(t == row, tl.sum(L_row[:, :, None] * X, 1)[:, None, :], 0.0)
    return X
