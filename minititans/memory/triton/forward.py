"""The chunked memory as one kernel: the formulas of `chunked`, with the weights kept on chip.

One program handles one memory: one head of one batch row. It walks over the chunks; it reads a
chunk's q, k, v and gates, and writes its y. W and S stay in the multiprocessor's cache and are
changed in place; every step loads the layer it needs. (Kept in registers from chunk to chunk, W
and S of two layers of 64 would leave no room to work in.)

If there will be a backward pass, it also stores W and S at the start of every few chunks
(`KEEP`). The backward pass has it walk from one of these to the next again (`AGAIN`): it then
reads nothing, and stores what each chunk's derivative needs.
"""

import triton
import triton.language as tl

from minititans.memory.triton.gates import after_tokens, before_tokens, load_gates
from minititans.memory.triton.reading import read
from minititans.memory.triton.surprise import surprise
from minititans.memory.triton.tiles import copy_layers, load_tokens, store_tokens
from minititans.memory.triton.writing import write


# Numbers that change from call to call: without this, the kernel would be compiled for each kind of
# them (1, a multiple of 16, any other).
@triton.jit(do_not_specialize=("kept", "time", "first_chunk", "chunks", "every"))
def forward_kernel(
    q_at, k_at, v_at,  # [rows, time, WIDTH]
    theta_at, eta_at, alpha_at,  # [rows, time]
    W_at, S_at,  # [rows, SIZE]   before these chunks; becomes that after them
    y_at,  # [rows, time, WIDTH]
    W_open_at,  # [rows, SIZE]   W with which an open chunk started
    kept_at, kept,  # [rows, kept, 2, SIZE]   W and S at the start of every `every`-th chunk
    found_at,  # [rows, kept, FOUND]   what `store_found` stores of each chunk
    time, first_chunk, chunks, every,
    WIDTH: tl.constexpr, D: tl.constexpr, SIZE: tl.constexpr, FOUND: tl.constexpr,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr, PRECISION: tl.constexpr,
    KEEP: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    DTYPE: tl.constexpr = W_at.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    W_at, S_at = W_at + row * SIZE, S_at + row * SIZE

    for n in range(chunks):
        start = (first_chunk + n) * CHUNK
        count = tl.minimum(time - start, CHUNK)  # fewer tokens in a chunk that stays open
        first = row * time + start
        if KEEP:  # decided when the kernel is compiled, the rest when it runs
            if n % every == 0:
                slot = kept_at + (row * kept + n // every) * 2 * SIZE
                copy_layers(W_at, slot, DEPTH, WIDTH, D)
                copy_layers(S_at, slot + SIZE, DEPTH, WIDTH, D)

        # What does not depend on the weights: the tokens, and the products of their gates.
        k = load_tokens(k_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
        v = load_tokens(v_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
        theta, eta, keep, eta_before, keep_before = load_gates(
            theta_at + first, eta_at + first, alpha_at + first, count, DTYPE, B
        )
        G, f, beta, H, m = before_tokens(theta, eta, eta_before, keep_before, B, PRECISION)

        A, E, solve, back = surprise(
            k, v, W_at, S_at, G, f, beta, DEPTH, CHUNK, B, WIDTH, D, PRECISION
        )
        G, f, beta = after_tokens(G, f, beta, H, m, keep)
        if AGAIN:
            found = found_at + (row * kept + n) * FOUND
            store_found(found, A, E, solve, back, count, DEPTH, CHUNK, B, WIDTH, D)
        else:
            q = load_tokens(q_at + first * WIDTH, count, DTYPE, B, WIDTH, D)
            y = read(q, W_at, S_at, A, E, G, f, beta, DEPTH, WIDTH, D, PRECISION)
            store_tokens(y_at + first * WIDTH, y, count, B, WIDTH, D)
            if count < CHUNK:  # the state of an open chunk has the weights it started with
                copy_layers(W_at, W_open_at + row * SIZE, DEPTH, WIDTH, D)
        write(W_at, S_at, A, E, G, f, beta, H, m, count, B, DEPTH, WIDTH, D, PRECISION)


@triton.jit
def store_found(
    at, A, E, solve, back, count,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, B: tl.constexpr,
    WIDTH: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The system's inverse, A and E of the last layer, and, with two layers, E of the other and
    `back`."""
    store_tokens(at, solve, B, B, B, B)
    at += B * B
    TILE: tl.constexpr = CHUNK * WIDTH
    store_tokens(at, A[DEPTH - 1], count, B, WIDTH, D)
    store_tokens(at + TILE, E[DEPTH - 1], count, B, WIDTH, D)
    if DEPTH == 2:
        store_tokens(at + 2 * TILE, E[0], count, B, WIDTH, D)
        store_tokens(at + 3 * TILE, back, count, B, WIDTH, D)
