"""Moving tiles between global memory and the chip, and the few formulas that all kernels share.

The sides of a tile are powers of two, at least 16, the smallest that `tl.dot` multiplies: B for a
chunk of CHUNK tokens, D for a head of WIDTH numbers. Loads pad with zeros, which stay zeros in
every formula, and no store goes outside its array. All tiles are in the precision of the state,
whatever the precision of the inputs.

There is a barrier before every load and store of a tile, for two reasons. Kernels pass tiles from
one step to the next through global memory, that is, through the cache, and must wait for all
threads. And without it the compiler would notice that a tile is loaded twice, and keep it in shared
memory from its first use to its last; many tiles do not fit there.

The layers of a memory are stored one after another, `[DEPTH, WIDTH, WIDTH]`.
"""

import triton
import triton.language as tl

from minititans.memory import network

EPS = tl.constexpr(network.EPS)


@triton.jit
def load_tokens(
    at, count, DTYPE: tl.constexpr, B: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr
):
    """The vectors of a chunk's `count` tokens, `[B, D]`."""
    tl.debug_barrier()
    t, d = tl.arange(0, B)[:, None], tl.arange(0, D)[None, :]
    return tl.load(at + t * WIDTH + d, mask=(t < count) & (d < WIDTH), other=0.0).to(DTYPE)


@triton.jit
def store_tokens(at, X, count, B: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
    tl.debug_barrier()
    t, d = tl.arange(0, B)[:, None], tl.arange(0, D)[None, :]
    tl.store(at + t * WIDTH + d, X.to(at.dtype.element_ty), mask=(t < count) & (d < WIDTH))


@triton.jit
def add_tokens(
    at, X, count, DTYPE: tl.constexpr, B: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr
):
    store_tokens(at, load_tokens(at, count, DTYPE, B, WIDTH, D) + X, count, B, WIDTH, D)


@triton.jit
def load_numbers(at, first, count, DTYPE: tl.constexpr, B: tl.constexpr):
    """One number per token, `[B]`, for the tokens from `first` up to `count`."""
    t = tl.arange(0, B)
    return tl.load(at + t, mask=(t >= first) & (t < count), other=0.0).to(DTYPE)


@triton.jit
def store_numbers(at, x, first, count, B: tl.constexpr):
    t = tl.arange(0, B)
    tl.store(at + t, x.to(at.dtype.element_ty), mask=(t >= first) & (t < count))


@triton.jit
def load_layer(at, l: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
    """Layer l of the layers that start at `at`: `[D, D]`."""
    tl.debug_barrier()
    i, j = tl.arange(0, D)[:, None], tl.arange(0, D)[None, :]
    at += l * WIDTH * WIDTH
    return tl.load(at + i * WIDTH + j, mask=(i < WIDTH) & (j < WIDTH), other=0.0)


@triton.jit
def store_layer(at, layer, l: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
    tl.debug_barrier()
    i, j = tl.arange(0, D)[:, None], tl.arange(0, D)[None, :]
    at += l * WIDTH * WIDTH
    tl.store(at + i * WIDTH + j, layer, mask=(i < WIDTH) & (j < WIDTH))


@triton.jit
def add_layer(at, layer, l: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
    store_layer(at, load_layer(at, l, WIDTH, D) + layer, l, WIDTH, D)


@triton.jit
def copy_layers(at, to, DEPTH: tl.constexpr, WIDTH: tl.constexpr, D: tl.constexpr):
    for l in tl.static_range(DEPTH):
        store_layer(to, load_layer(at, l, WIDTH, D), l, WIDTH, D)


@triton.jit
def matmul(X, Y, PRECISION: tl.constexpr):
    """`X Y`; PRECISION says how the factors may be rounded (see `budget.precision`)."""
    return tl.dot(X, Y, input_precision=PRECISION, out_dtype=X.dtype)


@triton.jit
def matmul_t(X, W, PRECISION: tl.constexpr):
    """`X Wᵀ`, as `(W Xᵀ)ᵀ`: a left operand stays in registers, spread over the warps, while the
    compiler would copy all of a transposed right one into each of them."""
    return tl.trans(matmul(W, tl.trans(X), PRECISION))


@triton.jit
def dot(X, Y):
    """The inner product of each row of X with the same row of Y, `[B, 1]`."""
    return tl.sum(X * Y, 1)[:, None]


@triton.jit
def step_up(x, y):
    """What enters the next layer, `a = unit(x + silu(y))`, the length that it was divided by, and
    the first and second derivative of silu."""
    sigma = 1 / (1 + tl.exp(-y))
    silu = y * sigma
    slope = sigma + silu * (1 - sigma)
    bend = (1 - sigma) * (slope + sigma - silu * sigma)
    total = x + silu
    length = tl.sqrt(dot(total, total) + EPS * EPS)
    return total / length, length, slope, bend


@triton.jit
def through_unit(d_a, a, length):
    """From the derivative with respect to `a = x / length` to that with respect to x."""
    return (d_a - a * dot(a, d_a)) / length
