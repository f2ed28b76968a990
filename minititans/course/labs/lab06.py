"""Lab 06: training in parallel. Products of gates, a chunk read and written, exact errors."""

import torch

from minititans.course.labs.corners import are_the_same_at_every_token
from minititans.course.labs.rule import rule
from minititans.course.labs.task import Lab
from minititans.memory import MemoryState
from minititans.memory import segment_products as library_products
from minititans.memory.chunked import surprise
from minititans.memory.gates import chunk_products
from minititans.memory.scan import linear_recurrence

LAB = Lab("06", "Training in parallel")


def tokens(draw) -> int:
    return draw.tokens(5)


@LAB.task(
    "06.1",
    "Products over a segment",
    inputs=lambda draw: {"gate": draw.gate(tokens(draw))},
    returns="P [t, i]",
    corners=({"gate": 0.01, "time": 12},),
    hints=(
        "Write P for three tokens on paper. What is in row t that is not in row t − 1?",
        "Row t is row t − 1 times gate[t], with a 1 added on the diagonal. Above the diagonal "
        "everything is zero: a later write is not in an earlier memory.",
        "Build it row by row and torch.stack. Or: a matrix that holds gate[t] below the diagonal "
        "and 1 elsewhere, cumprod down the columns, tril. Do not divide: a gate may be 0.",
    ),
)
def segment_products(gate):
    return library_products(gate)


def _products(gate, first, last):
    """`Π gate[first(t, i):last(t, i)]` for i <= t, by two plain loops."""
    n = len(gate)
    rows = [
        torch.stack(
            [
                gate[first(t, i) : last(t, i)].prod() if i <= t else gate.new_zeros(())
                for i in range(n)
            ]
        )
        for t in range(n)
    ]
    return torch.stack(rows)


@segment_products.mistake(
    "off by one at the beginning",
    "Off by one: P[t, i] counts the gate of token i itself. What token i writes fades only with "
    "the tokens after it.",
)
def _(gate):
    return _products(gate, lambda t, i: i, lambda t, i: t + 1)


@segment_products.mistake(
    "off by one at the end",
    "Off by one: the gate of token t itself is missing. By the time token t reads, the write has "
    "faded once more.",
)
def _(gate):
    return _products(gate, lambda t, i: i + 1, lambda t, i: t)


@segment_products.mistake(
    "something above the diagonal",
    "Below the diagonal all is well. Above it everything must be 0: what is written later is not "
    "there yet.",
)
def _(gate):
    P = library_products(gate)
    return P + torch.ones_like(P).triu(1)


@segment_products.mistake(
    "nothing on the diagonal",
    "The diagonal is empty: when a token reads, its own write is there and has not faded at all.",
)
def _(gate):
    return library_products(gate).tril(-1)


@segment_products.mistake(
    "divides by zero",
    "You divide cumulative products by one another (or subtract their logarithms). If a gate is "
    "exactly 0, that is zero divided by zero.",
)
def _(gate):
    total = gate.cumprod(0)
    return (total[:, None] / total[None, :]).tril()


@segment_products.mistake(
    "rows and columns swapped",
    "Rows and columns are swapped: row t says what the memory of token t is made of.",
)
def _(gate):
    return library_products(gate).T


def three_gates(draw) -> dict:
    time = tokens(draw)
    return {name: draw.gate(time) for name in ("theta", "eta", "alpha")}


@LAB.task(
    "06.2",
    "H, D and G",
    inputs=three_gates,
    returns=("H [t, i]", "D [t, s]", "G [t, i]"),
    corners=({"eta": 0.01, "alpha": 0.99, "time": 12},),
    hints=(
        "Follow surprise i: how much of it enters S_i, and what happens to it until S_t? Then "
        "follow one write from token s to token t.",
        "H holds the segment products of eta, with theta_i on column i. D holds those of what is "
        "not forgotten. G joins them: surprise i is in S_s, S_s is written, and part of that write "
        "is left.",
        "Check two numbers on paper. H[1, 0] has theta of token 0 in it, not of token 1. G[1, 0] "
        "holds surprise 0 twice: as token 0 wrote it, faded once, and as token 1 wrote it again.",
    ),
)
def chunk_matrices(theta, eta, alpha):
    # The library's scan, for each token i a sequence in which only that token brings anything.
    one_each, nothing = torch.eye(len(eta), dtype=eta.dtype), torch.zeros_like(eta)
    lingering = linear_recurrence(eta.expand_as(one_each), one_each * theta, nothing)
    keep = (1 - alpha).expand_as(one_each)
    left, written = (linear_recurrence(keep, x, nothing) for x in (one_each, lingering))
    return lingering.T, left.T, written.T  # row t, column i


@chunk_matrices.mistake(
    "theta of the reading token",
    "H has theta on its rows. A surprise is scaled once, by the theta of the token where it "
    "happened.",
)
def _(theta, eta, alpha):
    H, D = library_products(eta) * theta[:, None], library_products(1 - alpha)
    return H, D, D @ H


@chunk_matrices.mistake("alpha for 1 − alpha", "D is made of alpha, the share that is forgotten.")
def _(theta, eta, alpha):
    return chunk_matrices(theta, eta, 1 - alpha)


@chunk_matrices.mistake(
    "order of the product",
    "H and D are right. In G a surprise first lingers (H) and is then written and forgotten (D): "
    "what acts first goes on the right.",
)
def _(theta, eta, alpha):
    H, D, _ = chunk_matrices(theta, eta, alpha)
    return H, D, H @ D


@chunk_matrices.mistake(
    "number by number",
    "H and D are right. For G, sum over all tokens s between i and t: each of them writes what is "
    "left of surprise i once more.",
)
def _(theta, eta, alpha):
    H, D, _ = chunk_matrices(theta, eta, alpha)
    return H, D, D * H


@chunk_matrices.mistake("theta missing", "Surprises come in at full strength: where is theta in H?")
def _(theta, eta, alpha):
    return chunk_matrices(torch.ones_like(theta), eta, alpha)


@LAB.task(
    "06.3",
    "What the chunk begins with",
    inputs=lambda draw: {k: v for k, v in three_gates(draw).items() if k != "theta"},
    returns=("m [time]", "f [time]", "beta [time]"),
    corners=({"eta": 0.01, "alpha": 0.99, "time": 12},),
    hints=(
        "Set all surprises to zero. What is left of S₀ in S_t, of M₀ in M_t, and of S₀ in M_t?",
        "m and beta are products from the first token on, its own gate included. For f: token s "
        "writes m_s S₀, and D[t, s] of that is left at t.",
        "torch.cumprod twice, and f = D @ m.",
    ),
)
def carried_over(eta, alpha):
    # The library's scan without surprises, once from 1 and once from 0.
    one, zero, keep = eta.new_ones(1), eta.new_zeros(1), (1 - alpha)[None]
    m = linear_recurrence(eta[None], torch.zeros_like(keep), one)
    f = linear_recurrence(keep, m, zero)
    beta = linear_recurrence(keep, torch.zeros_like(keep), one)
    return m[0], f[0], beta[0]


@carried_over.mistake(
    "off by one",
    "Off by one: in your answer nothing has faded at the first token. But S₀ and M₀ pass that "
    "token's gates too.",
)
def _(eta, alpha):
    E, D = library_products(eta), library_products(1 - alpha)
    return E[:, 0], D @ E[:, 0], D[:, 0]


@carried_over.mistake(
    "f is beta times m",
    "m and beta are right. S₀ is written not once but at every token, each time as much as is left "
    "of it: f is a sum.",
)
def _(eta, alpha):
    m, _, beta = carried_over(eta, alpha)
    return m, beta * m, beta


@carried_over.mistake(
    "sum without forgetting",
    "m and beta are right. f adds up what was written of S₀, but what was written earlier has "
    "faded since.",
)
def _(eta, alpha):
    m, _, beta = carried_over(eta, alpha)
    return m, m.cumsum(0), beta


@carried_over.mistake(
    "f and beta swapped", "All three are right, but in the wrong order: first m, then f, then beta."
)
def _(eta, alpha):
    m, f, beta = carried_over(eta, alpha)
    return m, beta, f


@carried_over.mistake("alpha for 1 − alpha", "You keep the share alpha. That is what is forgotten.")
def _(eta, alpha):
    return carried_over(eta, 1 - alpha)


def open_chunk(draw) -> dict:
    time, d_value, d_key = tokens(draw), draw.size("d_value"), draw.size("d_key")
    shape = d_value, d_key
    return {
        "M": draw.normal(*shape),
        "S": draw.normal(*shape),
        "M_start": draw.normal(*shape),
        "queries": draw.unit(time, d_key),
        "keys": draw.unit(time, d_key),
        "values": draw.normal(time, d_value),
        "theta": draw.gate(time),
        "eta": draw.gate(time),
        "alpha": draw.gate(time),
    }


def library(M, S, M_start, position, queries, keys, values, theta, eta, alpha, chunk_size):
    """The library's rule, entered in the middle of a chunk; one sequence, one head."""
    state = MemoryState(
        [M[None, None]], [S[None, None]], [M_start[None, None]], position, chunk_size
    )
    tokens = (x[None, None] for x in (queries, keys, values, theta, eta, alpha))
    y, state = rule(*tokens, state, chunk_size)
    parts = (state.weights, state.momentum, state.chunk_start)
    return y[0, 0], *(part[0][0, 0] for part in parts), state.position


@LAB.task(
    "06.4",
    "Read a chunk",
    inputs=open_chunk,
    returns="y [time, d_value]",
    hints=(
        "M_t is a sum of three things: what is left of M, what came from S, and the surprises so "
        "far. Read each with the query and add.",
        "All errors at once: E = values − keys @ M_start.T, one row per token. The third part is "
        "(G ⊙ (Q Kᵀ)) E.",
        "M and S are read with all queries at once, queries @ M.T. beta and f scale the rows of "
        "that, so they need [:, None]. Then the three parts are added.",
    ),
    forbids=("loop",),
)
def read_chunk(M, S, M_start, queries, keys, values, theta, eta, alpha):
    n = len(keys)
    return library(M, S, M_start, 1, queries, keys, values, theta, eta, alpha, n + 1)[0]


def _read(M, S, M_start, queries, keys, values, theta, eta, alpha, G=None, overlaps=None):
    """The same by matmuls, with places where something else can be put in."""
    _, f, beta = carried_over(eta, alpha)
    G = chunk_matrices(theta, eta, alpha)[2] if G is None else G
    overlaps = queries @ keys.T if overlaps is None else overlaps
    errors = values - keys @ M_start.T
    from_start = beta[:, None] * (queries @ M.T) + f[:, None] * (queries @ S.T)
    return from_start + (G * overlaps) @ errors


@read_chunk.mistake(
    "chunk-start weights forgotten",
    "You measure the errors at M. Inside a chunk every surprise is measured at M_start, the memory "
    "with which the chunk began.",
)
def _(M, S, M_start, *rest):
    return read_chunk(M, S, M, *rest)


@read_chunk.mistake(
    "old momentum forgotten",
    "The momentum S from before goes on writing in this chunk, and your answer leaves it out.",
)
def _(M, S, *rest):
    return read_chunk(M, torch.zeros_like(S), *rest)


@read_chunk.mistake(
    "old weights do not fade",
    "What M held before the chunk is there, but it should fade from token to token.",
)
def _(M, S, M_start, queries, keys, values, theta, eta, alpha):
    y = read_chunk(M, S, M_start, queries, keys, values, theta, eta, alpha)
    _, _, beta = carried_over(eta, alpha)
    return y + (1 - beta)[:, None] * (queries @ M.T)


@read_chunk.mistake(
    "read before write",
    "A token does not see its own pair: the diagonal of G is missing. y_t comes from M_t.",
)
def _(M, S, M_start, queries, keys, values, theta, eta, alpha):
    G = chunk_matrices(theta, eta, alpha)[2].tril(-1)
    return _read(M, S, M_start, queries, keys, values, theta, eta, alpha, G=G)


@read_chunk.mistake(
    "overlaps transposed",
    "The overlaps are transposed. Row t is the query of token t, column i the key of token i, "
    "as in G.",
)
def _(M, S, M_start, queries, keys, *rest):
    return _read(M, S, M_start, queries, keys, *rest, overlaps=keys @ queries.T)


@read_chunk.mistake(
    "sign of the error",
    "The errors are subtracted instead of being added. What should be added to an answer that is "
    "too small?",
)
def _(M, S, M_start, queries, keys, values, theta, eta, alpha):
    return read_chunk(M, S, M_start, queries, keys, values, -theta, eta, alpha)


@read_chunk.mistake(
    "H for G",
    "You weight the surprises with H: that gives the momentum of token t. Its memory is the sum of "
    "all momenta so far, each a little faded.",
)
def _(M, S, M_start, queries, keys, values, theta, eta, alpha):
    H = chunk_matrices(theta, eta, alpha)[0]
    return _read(M, S, M_start, queries, keys, values, theta, eta, alpha, G=H)


@read_chunk.mistake(
    "no mask",
    "The overlaps are not weighted by G: every token sees every pair, later ones included.",
)
def _(M, S, M_start, queries, keys, *rest):
    return _read(M, S, M_start, queries, keys, *rest, G=torch.ones_like(keys @ keys.T))


def open_chunk_to_write(draw):
    return {name: value for name, value in open_chunk(draw).items() if name != "queries"}


@LAB.task(
    "06.5",
    "Write a chunk",
    inputs=open_chunk_to_write,
    returns=("M [d_value, d_key]", "S [d_value, d_key]"),
    hints=(
        "After the chunk only one M_t is needed. Which row of G, which entry of beta, of f, of m?",
        "M = beta M + f S + Σ_i G[last, i] error_i key_iᵀ, and S likewise with m and H.",
        "Σ_i g_i error_i key_iᵀ is a matrix product: errors.T @ (g[:, None] * keys).",
    ),
)
def write_chunk(M, S, M_start, keys, values, theta, eta, alpha):
    n = len(keys)
    return library(M, S, M_start, 1, keys, keys, values, theta, eta, alpha, n + 1)[1:3]


def _write(M, S, M_start, keys, values, theta, eta, alpha, into_M=None, into_S=None):
    m, f, beta = carried_over(eta, alpha)
    H, _, G = chunk_matrices(theta, eta, alpha)
    into_M, into_S = (G[-1] if into_M is None else into_M), (H[-1] if into_S is None else into_S)
    errors = values - keys @ M_start.T
    return (
        beta[-1] * M + f[-1] * S + errors.T @ (into_M[:, None] * keys),
        m[-1] * S + errors.T @ (into_S[:, None] * keys),
    )


@write_chunk.mistake(
    "chunk-start weights forgotten",
    "You measure the errors at M. Inside a chunk every surprise is measured at M_start, the memory "
    "with which the chunk began.",
)
def _(M, S, M_start, *rest):
    return write_chunk(M, S, M, *rest)


@write_chunk.mistake(
    "all rows for the last",
    "You add up the rows of G and H. Row t gives the whole memory after token t: for the end of "
    "the chunk only the last one counts.",
)
def _(M, S, M_start, keys, values, theta, eta, alpha):
    H, _, G = chunk_matrices(theta, eta, alpha)
    return _write(M, S, M_start, keys, values, theta, eta, alpha, G.sum(0), H.sum(0))


@write_chunk.mistake(
    "G for H",
    "M is right. You use G for the momentum S as well, but in S nothing is forgotten or summed.",
)
def _(M, S, M_start, keys, values, theta, eta, alpha):
    G = chunk_matrices(theta, eta, alpha)[2]
    return _write(M, S, M_start, keys, values, theta, eta, alpha, into_S=G[-1])


@write_chunk.mistake(
    "old momentum forgotten",
    "The momentum S from before is missing from both results: f and m say how much of it is there.",
)
def _(M, S, *rest):
    return write_chunk(M, torch.zeros_like(S), *rest)


@write_chunk.mistake("sign of the error", "The errors are subtracted instead of being added.")
def _(M, S, M_start, keys, values, theta, eta, alpha):
    return write_chunk(M, S, M_start, keys, values, -theta, eta, alpha)


@write_chunk.mistake(
    "first column for the last row",
    "You take a column of G and H, which follows one surprise through time. The end of the chunk "
    "is a row.",
)
def _(M, S, M_start, keys, values, theta, eta, alpha):
    H, _, G = chunk_matrices(theta, eta, alpha)
    return _write(M, S, M_start, keys, values, theta, eta, alpha, G[:, 0], H[:, 0])


def stream_inputs(draw):
    time, d_value, d_key = draw.tokens(9), draw.size("d_value"), draw.size("d_key")
    chunk_size = draw.size("chunk_size")
    position = draw.number("position", 0, chunk_size - 1)
    M, S, M_start = (draw.normal(d_value, d_key) for _ in range(3))
    if position == 0:
        M_start = M  # a chunk begins here
    return {
        "state": (M, S, M_start, position),
        "queries": draw.unit(time, d_key),
        "keys": draw.unit(time, d_key),
        "values": draw.normal(time, d_value),
        "theta": draw.gate(time),
        "eta": draw.gate(time),
        "alpha": draw.gate(time),
        "chunk_size": chunk_size,
    }


@LAB.task(
    "06.6",
    "Streaming",
    inputs=stream_inputs,
    returns=("y [time, d_value]", "state (M, S, M_start, position)"),
    corners=(
        {"chunk_size": 4, "position": 1, "time": 1},  # one token, and the chunk stays open
        {"chunk_size": 5, "position": 2, "time": 2},
        {"chunk_size": 5, "position": 4, "time": 1},  # one token fills it
        {"chunk_size": 5, "position": 2, "time": 3},
        {"chunk_size": 5, "position": 0, "time": 3},  # a chunk is begun
        {"chunk_size": 3, "position": 0, "time": 3},  # a whole one
        {"chunk_size": 3, "position": 2, "time": 9},  # the end of one, two whole, a beginning
    ),
    hints=(
        "How many tokens does the open chunk still take? Read those, then the next chunk, until "
        "no token is left.",
        "Each round: n = min(tokens left, chunk_size − position); read and write those n tokens; "
        "position moves on by n. When it reaches chunk_size, a new chunk begins.",
        "A new chunk means position = 0 and M_start = M, the memory as it was just written. Inside "
        "a chunk M_start stays what it was, even between two calls.",
    ),
)
def stream(state, queries, keys, values, theta, eta, alpha, chunk_size):
    y, *state = library(*state, queries, keys, values, theta, eta, alpha, chunk_size)
    return y, tuple(state)


def _stream(state, *sequences, chunk_size, enter=None, leave=None):
    """Chunk by chunk; `enter` and `leave` change the state where something can go wrong."""
    (M, S, M_start, position), readings, done = state, [], 0
    while done < len(sequences[0]):
        n = min(len(sequences[0]) - done, chunk_size - position)
        queries, *rest = (x[done : done + n] for x in sequences)
        if enter is not None:
            M, S, M_start = enter(M, S, M_start)
        readings.append(_read(M, S, M_start, queries, *rest))
        M, S = _write(M, S, M_start, *rest)
        done, position = done + n, position + n
        if position == chunk_size:
            position, M_start = 0, (M if leave is None else leave(M, M_start))
    return torch.cat(readings), (M, S, M_start, position)


@stream.mistake(
    "every call begins a chunk",
    "Each call begins a new chunk, though one was still open. Then the result depends on how the "
    "text was cut.",
)
def _(state, *sequences_and_size):
    *sequences, chunk_size = sequences_and_size
    M, S, _, _ = state
    return _stream((M, S, M, 0), *sequences, chunk_size=chunk_size)


@stream.mistake(
    "chunk-start weights forgotten",
    "Where a call enters an open chunk, surprises are measured at M. They belong at M_start, which "
    "the state carries for that.",
)
def _(state, *sequences_and_size):
    *sequences, chunk_size = sequences_and_size
    return _stream(state, *sequences, chunk_size=chunk_size, enter=lambda M, S, _: (M, S, M))


@stream.mistake(
    "start weights never renewed",
    "When a chunk is full, the next one begins with the memory of that moment. Here the old "
    "M_start is never replaced.",
)
def _(state, *sequences_and_size):
    *sequences, chunk_size = sequences_and_size
    return _stream(state, *sequences, chunk_size=chunk_size, leave=lambda M, M_start: M_start)


@stream.mistake(
    "momentum not carried",
    "The momentum starts at zero in every chunk. It should live on from chunk to chunk.",
)
def _(state, *sequences_and_size):
    *sequences, chunk_size = sequences_and_size
    forget = lambda M, S, M_start: (M, torch.zeros_like(S), M_start)  # noqa: E731
    return _stream(state, *sequences, chunk_size=chunk_size, enter=forget)


@stream.mistake(
    "position not counted on",
    "The answers are right, but the position is not: it says how many tokens of the open chunk "
    "have been read.",
)
def _(state, *sequences_and_size):
    y, new = stream(state, *sequences_and_size)
    return y, (*new[:3], state[3])


def closed_chunk(draw):
    """A chunk that begins here: M is also the memory with which it begins."""
    return {name: x for name, x in open_chunk_to_write(draw).items() if name != "M_start"}


@LAB.task(
    "06.7",
    "Exact errors",
    inputs=closed_chunk,
    returns="E [time, d_value]",
    corners=({"eta": 1.0, "time": 6}, {"keys": are_the_same_at_every_token, "time": 6}),
    hints=(
        "Write out e_1, e_2 and e_3 on paper. e_1 is v_1 − M k_1: nothing has been written yet. "
        "Which earlier errors do e_2 and e_3 contain, and what multiplies them?",
        "(Σ_i G⁻[t,i] e_i k_iᵀ) k_t is Σ_i G⁻[t,i] (k_i · k_t) e_i: the overlaps K Kᵀ again. Move "
        "that sum to the left, where e_t is: (I + G⁻ ⊙ (K Kᵀ)) E = what is left on the right.",
        "One row earlier: torch.cat of a first row (1 for beta, 0 for f and G) and all rows but "
        "the last. Then torch.linalg.solve_triangular(left, right, upper=False), or row by row.",
    ),
)
def chunk_errors(M, S, keys, values, theta, eta, alpha):
    before = chunk_products(theta, eta, alpha).before()
    return surprise(keys, values, before, [M], [S], [M], residual=False)[2]


def _system(M, S, keys, values, theta, eta, alpha, shift=("G", "f", "beta")):
    """G⁻, the overlaps and the right-hand side; what `shift` does not name keeps its rows."""
    P = chunk_products(theta, eta, alpha)
    G, f, beta = (getattr(P.before() if x in shift else P, x) for x in ("G", "f", "beta"))
    return G, keys @ keys.T, values - beta * (keys @ M.T) - f * (keys @ S.T)


def _solve(left, right, upper=False):
    """The triangle on one side of the diagonal of `left`, with ones on the diagonal."""
    return torch.linalg.solve_triangular(left, right, upper=upper, unitriangular=True)


@chunk_errors.mistake(
    "rows not shifted",
    "You take the rows of token t itself, from after its write. Its error is measured before: at "
    "M_{t−1}, one row earlier in G, f and beta.",
)
def _(*inputs):
    G, overlaps, right = _system(*inputs, shift=())
    return torch.linalg.solve(torch.eye(len(G), dtype=G.dtype) + G * overlaps, right)


@chunk_errors.mistake(
    "rows not shifted, ones on the diagonal",
    "You take the rows of token t itself, from after its write. Its error is measured before: at "
    "M_{t−1}, one row earlier in G, f and beta.",
)
def _(*inputs):
    G, overlaps, right = _system(*inputs, shift=())
    return _solve(G * overlaps, right)


@chunk_errors.mistake(
    "only G shifted",
    "G is one row earlier, but f and beta are not: the gates of token t act on M and S too soon.",
)
def _(*inputs):
    G, overlaps, right = _system(*inputs, shift=("G",))
    return _solve(G * overlaps, right)


@chunk_errors.mistake(
    "last row at the top",
    "Shifting with torch.roll brings the last row to the top. Before the first token beta is 1, "
    "and f and G are 0.",
)
def _(M, S, keys, values, theta, eta, alpha):
    P = chunk_products(theta, eta, alpha)
    G, f, beta = (x.roll(1, 0) for x in (P.G, P.f, P.beta))
    return _solve(G * (keys @ keys.T), values - beta * (keys @ M.T) - f * (keys @ S.T))


@chunk_errors.mistake(
    "nothing solved",
    "This is the right-hand side alone: no token has learned from those before it in the chunk. "
    "Is the system solved? (With upper=True only its empty half is used.)",
)
def _(*inputs):
    return _system(*inputs)[2]


@chunk_errors.mistake(
    "transposed system",
    "The triangle is upside down: your first token learns from the later ones. Row t needs the "
    "errors before t, so the matrix is zero above its diagonal.",
)
def _(*inputs):
    G, overlaps, right = _system(*inputs)
    return _solve((G * overlaps).T, right, upper=True)


@chunk_errors.mistake(
    "overlaps without G",
    "The overlaps fill the whole matrix, above the diagonal too. G⁻ says how much of an earlier "
    "surprise is there, and that none of a later one is.",
)
def _(*inputs):
    _, overlaps, right = _system(*inputs)
    return torch.linalg.solve(torch.eye(len(overlaps), dtype=overlaps.dtype) + overlaps, right)


@chunk_errors.mistake(
    "sign of the sum",
    "The earlier errors have the wrong sign. The memory answers a pair better once it has been "
    "written: its error becomes smaller, not larger.",
)
def _(*inputs):
    G, overlaps, right = _system(*inputs)
    return _solve(-G * overlaps, right)


@chunk_errors.mistake(
    "multiplied, not solved",
    "You multiply by the triangle. The errors are on both sides of the equation: solve for them.",
)
def _(*inputs):
    G, overlaps, right = _system(*inputs)
    return right - (G * overlaps) @ right


@chunk_errors.mistake(
    "old momentum forgotten",
    "The momentum S from before goes on writing in this chunk: f⁻ of it is missing on the right.",
)
def _(M, S, *rest):
    return chunk_errors(M, torch.zeros_like(S), *rest)


@chunk_errors.mistake(
    "old weights do not fade",
    "What M held before the chunk is there, but it fades from token to token: beta⁻ of it is left.",
)
def _(*inputs):
    M, S, keys, values, theta, eta, alpha = inputs
    G, overlaps, _ = _system(*inputs)
    f = chunk_products(theta, eta, alpha).before().f
    return _solve(G * overlaps, values - keys @ M.T - f * (keys @ S.T))


@chunk_errors.mistake(
    "frozen errors",
    "All errors are measured at the M with which the chunk began. Here each one is measured just "
    "before its token is written.",
)
def _(M, S, keys, values, theta, eta, alpha):
    return values - keys @ M.T


@chunk_errors.mistake(
    "H for G",
    "You weight earlier errors with H: that is what is in the momentum S, not in M.",
)
def _(*inputs):
    _, overlaps, right = _system(*inputs)
    H = chunk_products(*inputs[4:]).H
    return _solve(torch.cat([torch.zeros_like(H[:1]), H[:-1]]) * overlaps, right)


@chunk_errors.mistake(
    "sign of the error", "The errors point the other way: here they are value minus answer."
)
def _(*inputs):
    return -chunk_errors(*inputs)
