"""Moving tiles between global memory and the chip, and the few formulas that all kernels share.

A tile's sides are powers of two, at least 16 (the smallest that `tl.dot` multiplies), so what is
smaller or crooked is padded: what a load finds outside its array is 0, and no store goes there.
All tiles are in the precision of the state, whatever the inputs came in.

The layers of a row's memory lie behind one another in memory: layer l is
`[WIDTHS[l + 1], WIDTHS[l]]`, its tile `[BLOCKS[l + 1], BLOCKS[l]]`. In a kernel they are a tuple
of tiles, as they are a list of tensors in `chunked`.
"""

import triton
import triton.language as tl


@triton.jit
def load_tokens(
    at, count, DTYPE: tl.constexpr, B: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """The vectors of a chunk's `count` tokens, `[B, BLOCK]`."""
    t, d = tl.arange(0, B)[:, None], tl.arange(0, BLOCK)[None, :]
    return tl.load(at + t * WIDTH + d, mask=(t < count) & (d < WIDTH), other=0.0).to(DTYPE)


@triton.jit
def store_tokens(at, X, count, B: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    t, d = tl.arange(0, B)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(at + t * WIDTH + d, X.to(at.dtype.element_ty), mask=(t < count) & (d < WIDTH))


@triton.jit
def load_numbers(at, first, count, DTYPE: tl.constexpr, B: tl.constexpr):
    """One number a token, `[B]`, for the tokens from `first` up to `count`."""
    t = tl.arange(0, B)
    return tl.load(at + t, mask=(t >= first) & (t < count), other=0.0).to(DTYPE)


@triton.jit
def store_numbers(at, x, count, B: tl.constexpr):
    t = tl.arange(0, B)
    tl.store(at + t, x.to(at.dtype.element_ty), mask=t < count)


@triton.jit
def load_layers(at, WIDTHS: tl.constexpr, BLOCKS: tl.constexpr, DEPTH: tl.constexpr):
    """All layers of a row's weights (or momentum, or their gradients), a tuple of tiles."""
    layers = ()
    for l in tl.static_range(DEPTH):
        layers = layers + (load_layer(at, l, WIDTHS, BLOCKS),)
    return layers


@triton.jit
def store_layers(at, layers, WIDTHS: tl.constexpr, BLOCKS: tl.constexpr, DEPTH: tl.constexpr):
    for l in tl.static_range(DEPTH):
        store_layer(at, layers[l], l, WIDTHS, BLOCKS)


@triton.jit
def load_layer(at, l: tl.constexpr, WIDTHS: tl.constexpr, BLOCKS: tl.constexpr):
    """Layer l of the layers that begin at `at`, one tile."""
    for below in tl.static_range(l):
        at += WIDTHS[below + 1] * WIDTHS[below]
    i, j = tl.arange(0, BLOCKS[l + 1])[:, None], tl.arange(0, BLOCKS[l])[None, :]
    inside = (i < WIDTHS[l + 1]) & (j < WIDTHS[l])
    return tl.load(at + i * WIDTHS[l] + j, mask=inside, other=0.0)


@triton.jit
def load_layer_anew(at, l: tl.constexpr, WIDTHS: tl.constexpr, BLOCKS: tl.constexpr):
    """Layer l once more. Without the barrier the compiler would notice that it has this tile
    already, and keep it in shared memory from the first use to the last; so others have room."""
    tl.debug_barrier()
    return load_layer(at, l, WIDTHS, BLOCKS)


@triton.jit
def store_layer(at, layer, l: tl.constexpr, WIDTHS: tl.constexpr, BLOCKS: tl.constexpr):
    for below in tl.static_range(l):
        at += WIDTHS[below + 1] * WIDTHS[below]
    i, j = tl.arange(0, BLOCKS[l + 1])[:, None], tl.arange(0, BLOCKS[l])[None, :]
    inside = (i < WIDTHS[l + 1]) & (j < WIDTHS[l])
    tl.store(at + i * WIDTHS[l] + j, layer, mask=inside)


@triton.jit
def matmul(X, Y, PRECISION: tl.constexpr):
    """`X Y`; PRECISION says what the multiplications may round (see `budget.precision`)."""
    return tl.dot(X, Y, input_precision=PRECISION, out_dtype=X.dtype)


@triton.jit
def matmul_t(X, W, PRECISION: tl.constexpr):
    """`X Wᵀ`, as `(W Xᵀ)ᵀ`: a left operand stays in registers, spread over the warps, while the
    compiler would copy all of a transposed right one into each of them."""
    return tl.trans(matmul(W, tl.trans(X), PRECISION))


@triton.jit
def add_layers(first, second, DEPTH: tl.constexpr):
    total = ()
    for l in tl.static_range(DEPTH):
        total = total + (first[l] + second[l],)
    return total


@triton.jit
def silu_and_slope(z):
    """`silu(z) = z σ(z)`, its derivative `σ + silu (1 − σ)`, and the derivative of that."""
    sigma = 1 / (1 + tl.exp(-z))
    silu = z * sigma
    return silu, sigma + silu * (1 - sigma), sigma * (1 - sigma) * (2 + z * (1 - 2 * sigma))


@triton.jit
def at_last(x, count, B: tl.constexpr):
    """The number of the chunk's last token."""
    return tl.sum(tl.where(tl.arange(0, B) == count - 1, x, 0.0), 0)


@triton.jit
def row_of_last(X, count, B: tl.constexpr):
    """The row of the chunk's last token."""
    return tl.sum(tl.where(tl.arange(0, B)[:, None] == count - 1, X, 0.0), 0)
