"""The chunked memory as one kernel: the formulas of `chunked`, with the weights kept on chip.

One program has one memory: one head of one batch row. It loads the weights and the momentum
once, walks over the chunks, and stores them once; from chunk to chunk they stay in registers.
Of a chunk it reads q, k, v and the gates, and it writes y. Only for a backward pass it also
stores W and S at every few chunks' start (`KEEP`), and the backward pass has it fill the gaps
between those: the same walk over a few chunks, storing every start and reading nothing.
"""

import triton
import triton.language as tl

from minititans.memory.triton.gates import load_gates, prepare
from minititans.memory.triton.surprise import surprise_factors
from minititans.memory.triton.tiles import (
    at_last,
    load_layers,
    load_tokens,
    matmul,
    matmul_t,
    silu_and_slope,
    store_layers,
    store_numbers,
    store_tokens,
)


# Numbers that change from call to call: without this, each kind of them (1, a multiple of 16, any
# other) would be compiled for.
@triton.jit(do_not_specialize=("row_step", "kept", "time", "first_chunk", "chunks", "every"))
def forward_kernel(
    q_at, k_at, v_at,  # [rows, time, WIDTHS[0]], the same, [rows, time, WIDTHS[DEPTH]]
    theta_at, eta_at, alpha_at,  # [rows, time]
    W_at, S_at, row_step,  # a row's layers behind one another, rows `row_step` numbers apart
    y_at,  # [rows, time, WIDTHS[DEPTH]]
    W_after_at, S_after_at, W_open_at,  # [rows, SIZE]
    kept_at, kept,  # [rows, kept, 2, SIZE]   W and S at every `every`-th chunk's start
    trace_at,  # [4, rows, time]
    time, first_chunk, chunks, every, clip,
    WIDTHS: tl.constexpr, BLOCKS: tl.constexpr, SIZE: tl.constexpr, DEPTH: tl.constexpr,
    CHUNK: tl.constexpr, B: tl.constexpr, CLIP: tl.constexpr, PRECISION: tl.constexpr,
    READ: tl.constexpr, KEEP: tl.constexpr, TRACE: tl.constexpr,
):  # fmt: skip
    DTYPE: tl.constexpr = W_at.dtype.element_ty
    row, rows = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    W = load_layers(W_at + row * row_step, WIDTHS, BLOCKS, DEPTH)
    S = load_layers(S_at + row * row_step, WIDTHS, BLOCKS, DEPTH)

    for n in range(chunks):
        start = (first_chunk + n) * CHUNK
        count = tl.minimum(time - start, CHUNK)  # fewer tokens in a chunk that stays open
        first = row * time + start
        if KEEP:  # decided when the kernel is compiled, the rest when it runs
            if n % every == 0:
                slot = kept_at + (row * kept + n // every) * 2 * SIZE
                store_layers(slot, W, WIDTHS, BLOCKS, DEPTH)
                store_layers(slot + SIZE, S, WIDTHS, BLOCKS, DEPTH)

        # What the weights do not change: the tokens, and the products of their gates.
        k = load_tokens(k_at + first * WIDTHS[0], count, DTYPE, B, WIDTHS[0], BLOCKS[0])
        v = load_tokens(v_at + first * WIDTHS[DEPTH], count, DTYPE, B, WIDTHS[DEPTH], BLOCKS[DEPTH])
        theta, eta, decay = load_gates(
            theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
        )
        _, _, H, G, m, f, beta, into_W, into_S = prepare(theta, eta, decay, count, B, PRECISION)

        # The surprise of every token, at the weights the chunk began with.
        a, delta, _, _, _, energy, _, size, loss = surprise_factors(
            W, k, v, clip, CLIP, DEPTH, PRECISION
        )
        if READ:
            q = load_tokens(q_at + first * WIDTHS[0], count, DTYPE, B, WIDTHS[0], BLOCKS[0])
            y = read(q, W, S, a, delta, G, f, beta, DEPTH, PRECISION)
            store_tokens(y_at + first * WIDTHS[DEPTH], y, count, B, WIDTHS[DEPTH], BLOCKS[DEPTH])
            if count < CHUNK:  # the state of an open chunk has the weights it began with
                store_layers(W_open_at + row * SIZE, W, WIDTHS, BLOCKS, DEPTH)
        if TRACE:
            momentum, memory = chunk_norms(W, S, a, delta, H, G, m, f, beta, DEPTH, PRECISION)
            series = rows.to(tl.int64) * time
            store_numbers(trace_at + first, size * tl.sqrt(energy), count, B)
            store_numbers(trace_at + series + first, momentum, count, B)
            store_numbers(trace_at + 2 * series + first, memory, count, B)
            store_numbers(trace_at + 3 * series + first, loss, count, B)
        W, S = write(W, S, a, delta, into_W, into_S, m, f, beta, count, B, DEPTH, PRECISION)

    if READ:
        store_layers(W_after_at + row * SIZE, W, WIDTHS, BLOCKS, DEPTH)
        store_layers(S_after_at + row * SIZE, S, WIDTHS, BLOCKS, DEPTH)


@triton.jit
def read(q, W, S, a, delta, G, f, beta, DEPTH: tl.constexpr, PRECISION: tl.constexpr):
    """Every token's query answered by its own W_t, layer by layer: `[B, block]`."""
    X = q
    for l in tl.static_range(DEPTH):
        X = read_layer(X, W[l], S[l], a[l], delta[l], G, f, beta, PRECISION)
        if l < DEPTH - 1:
            X, _, _ = silu_and_slope(X)
    return X


@triton.jit
def read_layer(X, W, S, a, delta, G, f, beta, PRECISION: tl.constexpr):
    """`(β ⊙ X) Wᵀ + (f ⊙ X) Sᵀ + (G ⊙ (X Aᵀ)) Δ`."""
    overlap = G * matmul(X, tl.trans(a), PRECISION)
    from_W = matmul_t(beta[:, None] * X, W, PRECISION)
    from_both = from_W + matmul_t(f[:, None] * X, S, PRECISION)
    return from_both + matmul(overlap, delta, PRECISION)


@triton.jit
def write(
    W, S, a, delta, into_W, into_S, m, f, beta, count,
    B: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """W and S after the chunk's last token."""
    m, f, beta = at_last(m, count, B), at_last(f, count, B), at_last(beta, count, B)
    W_after, S_after = (), ()
    for l in tl.static_range(DEPTH):
        to_W = matmul(tl.trans(delta[l]), into_W[:, None] * a[l], PRECISION)
        to_S = matmul(tl.trans(delta[l]), into_S[:, None] * a[l], PRECISION)
        W_after = W_after + (beta * W[l] + f * S[l] + to_W,)
        S_after = S_after + (m * S[l] + to_S,)
    return W_after, S_after


@triton.jit
def chunk_norms(W, S, a, delta, H, G, m, f, beta, DEPTH: tl.constexpr, PRECISION: tl.constexpr):
    """`‖S_t‖` and `‖W_t‖` of every token, `[B]`: quadratic forms, as in `trace.chunk_norms`."""
    momentum, memory = m * 0, m * 0
    for l in tl.static_range(DEPTH):
        pairs = matmul(delta[l], tl.trans(delta[l]), PRECISION)
        pairs *= matmul(a[l], tl.trans(a[l]), PRECISION)  # [B, B]
        with_W = tl.sum(matmul_t(a[l], W[l], PRECISION) * delta[l], 1)  # ⟨W₀, δ_i a_iᵀ⟩
        with_S = tl.sum(matmul_t(a[l], S[l], PRECISION) * delta[l], 1)
        WW, WS, SS = tl.sum(W[l] * W[l]), tl.sum(W[l] * S[l]), tl.sum(S[l] * S[l])
        momentum += m * m * SS + 2 * m * tl.sum(H * with_S[None, :], 1)
        momentum += tl.sum(matmul(H, pairs, PRECISION) * H, 1)
        memory += beta * beta * WW + f * f * SS + 2 * beta * f * WS
        memory += 2 * beta * tl.sum(G * with_W[None, :], 1)
        memory += 2 * f * tl.sum(G * with_S[None, :], 1)
        memory += tl.sum(matmul(G, pairs, PRECISION) * G, 1)
    # Rounding can leave a square just below zero.
    return tl.sqrt(tl.maximum(momentum, 0.0)), tl.sqrt(tl.maximum(memory, 0.0))
