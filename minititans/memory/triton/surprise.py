"""The surprise of a chunk's tokens at the weights it began with, and the gradient of that.

Forward is `network.surprise_factors`: through the layers for what enters each (`a`), back
through them for the error at each one's output (`δ`), and a clip on the norm of the whole. It
is a backward pass itself, so its gradient goes through the layers twice more.
"""

import triton
import triton.language as tl

from minititans.memory.triton.tiles import matmul, matmul_t, silu_and_slope


@triton.jit
def surprise_factors(
    W, k, v, clip, CLIP: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr
):
    """`a` and `δ` of each layer, tuples of `[B, block]`, and what the gradient needs of the way.

    Returns a, δ, δ before the clip, the slopes and bends of the SiLUs, and four `[B]`: the
    squared norm of the gradient, the clip's factor, the scale both are in, and the loss.
    """
    # Forward: what enters each layer.
    hidden, a, slopes, bends = k, (k,), (), ()
    for l in tl.static_range(DEPTH - 1):
        hidden, slope, bend = silu_and_slope(matmul_t(hidden, W[l], PRECISION))
        a, slopes, bends = a + (hidden,), slopes + (slope,), bends + (bend,)
    error = v - matmul_t(hidden, W[DEPTH - 1], PRECISION)
    loss = tl.sum(error * error, 1) / 2

    # With a clip, a huge error is brought down to about 1 before anything is squared.
    size = loss * 0 + 1
    if CLIP:
        size = tl.maximum(tl.max(tl.abs(error), 1), 1.0)

    # Back: the error at each layer's output.
    one = error / size[:, None]
    raw = (one,)
    for l in tl.static_range(DEPTH - 1, 0, -1):
        one = matmul(one, W[l], PRECISION) * slopes[l - 1]
        raw = (one,) + raw

    # The norm of the gradient, all layers together: ‖δ aᵀ‖ = ‖δ‖ ‖a‖.
    energy = size * 0
    for l in tl.static_range(DEPTH):
        energy += tl.sum(a[l] * a[l], 1) * tl.sum(raw[l] * raw[l], 1)

    delta, shrink = raw, size
    if CLIP:
        shrink = clip / tl.sqrt(tl.maximum(energy, clip_floor(clip, size)))
        delta = ()
        for l in tl.static_range(DEPTH):
            delta = delta + (shrink[:, None] * raw[l],)
    return a, delta, raw, slopes, bends, energy, shrink, size, loss


@triton.jit
def clip_floor(clip, size):
    """Below this squared norm nothing is clipped; and a key of zeros divides by 1e-12."""
    return tl.maximum((clip / size) * (clip / size), 1e-24)


@triton.jit
def surprise_backward(
    da, ddelta, W, a, raw, slopes, bends, energy, shrink, size, clip,
    CLIP: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From the gradients by a and δ to those by k, v and W."""
    # The clip: δ = shrink · raw, and where it acts, shrink = clip / √energy.
    if CLIP:
        dshrink = size * 0
        for l in tl.static_range(DEPTH):
            dshrink += tl.sum(ddelta[l] * raw[l], 1)
        floor = clip_floor(clip, size)
        denergy = tl.where(energy > floor, -shrink / tl.maximum(energy, floor) * dshrink, 0.0) / 2
        da_too, draw = (), ()
        for l in tl.static_range(DEPTH):
            by_raw = 2 * denergy * tl.sum(a[l] * a[l], 1)
            by_a = 2 * denergy * tl.sum(raw[l] * raw[l], 1)
            draw = draw + (shrink[:, None] * ddelta[l] + by_raw[:, None] * raw[l],)
            da_too = da_too + (da[l] + by_a[:, None] * a[l],)
    else:
        da_too, draw = da, ddelta

    # The way back: raw[l − 1] = (raw[l] W[l]) ⊙ slope, from the first layer up.
    one = draw[0]
    dW, dslopes = (W[0] * 0,), ()
    for l in tl.static_range(1, DEPTH):
        dslopes = dslopes + (one * matmul(raw[l], W[l], PRECISION),)
        through = one * slopes[l - 1]
        dW = dW + (matmul(tl.trans(raw[l]), through, PRECISION),)
        one = draw[l] + matmul_t(through, W[l], PRECISION)
    derror = one / size[:, None]

    # The way forward: error = v − W a, a = silu(W a) of the layer below, from the last down.
    dz, dW_after = -derror, ()
    dk = dz
    for l in tl.static_range(DEPTH - 1, -1, -1):
        dW_after = (dW[l] + matmul(tl.trans(dz), a[l], PRECISION),) + dW_after
        dhidden = da_too[l] + matmul(dz, W[l], PRECISION)
        if l > 0:
            dz = dhidden * slopes[l - 1] + dslopes[l - 1] * bends[l - 1]
        else:
            dk = dhidden
    return dk, derror, dW_after
