# %% [markdown]
# # Lab 06: training in parallel
#
# So far your rule takes one token after another. Here you turn a whole chunk of tokens into a few
# matrix products, let a sequence arrive in pieces, and finally get back exactly the numbers of the
# loop. It goes with the notebook [Training in parallel](../notebooks/06_chunks.ipynb). Seven tasks;
# plan two hours.
#
# The memory is a matrix $M$. The trick of tasks 06.1 to 06.6: inside a chunk every surprise is
# measured at $M_{start}$, the memory with which the chunk began, equation (16). Then all surprises
# are known at once, and what remains are products of gates. Task 06.7 does without the trick. There
# is one sequence and no batch: `keys` is `[time, d_key]`, a gate is `[time]`.
#
# `check`, `hint("06.1")`, `example("06.1")` and `progress()` work as before.

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)

# %% [markdown]
# ## 06.1 Products over a segment
#
# What is written at token $i$ has faded by token $t$: it has been multiplied by the gates of all
# tokens after $i$, up to and including $t$. Its own gate does not count, and what is written later
# than $t$ is not there at all.
#
# $$P_{t,i} = \prod_{j=i+1}^{t} \text{gate}_j \quad (i \le t), \qquad P_{t,i} = 0 \quad (i > t)$$
#
# An empty product is 1. The paper writes this as $\beta_t / \beta_i$, but a gate may be exactly 0.


# %%
def segment_products(gate):
    """Return the matrix of products of the gates between two tokens.

    gate: [time]. Returns [time, time]: row t, column i.
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "06.1: Return the matrix of products of the gates between two tokens."
    )


# %%
check("06.1", segment_products)

# %%
gates = {"gate = 0.9": torch.full((12,), 0.9), "0.9, and 0 at token 6": torch.full((12,), 0.9)}
gates["0.9, and 0 at token 6"][6] = 0.0
matrices({name: segment_products(gate) for name, gate in gates.items()}, "token t", "token i")

# %% [markdown]
# ## 06.2 H, D and G
#
# Follow surprise $i$ through a chunk. It enters the momentum with $\theta_i$ and shrinks by $\eta$
# at every later token: $H$ says how much of it is in $S_t$. Each momentum $S_s$ is written to the
# memory, where forgetting wears it down: $D$ says how much of the write at $s$ is left in $M_t$.
# Together, $G$ says how much of surprise $i$ is in $M_t$.
#
# $$H_{t,i} = \theta_i \prod_{j=i+1}^{t} \eta_j, \qquad
# D_{t,s} = \prod_{j=s+1}^{t} (1-\alpha_j), \qquad G = D H$$


# %%
def chunk_matrices(theta, eta, alpha):
    """Return H, D and G of a chunk.

    theta, eta, alpha: [time]. Returns three [time, time].
    """
    # Replace the next line with your code.
    raise NotImplementedError("06.2: Return H, D and G of a chunk.")


# %%
check("06.2", chunk_matrices)

# %%
theta, eta, alpha = torch.full((16,), 0.3), torch.full((16,), 0.7), torch.full((16,), 0.1)
H, D, G = chunk_matrices(theta, eta, alpha)
matrices({"H": H, "D": D, "G = D H": G}, "token t", "token i")

# %% [markdown]
# ## 06.3 What the chunk begins with
#
# A chunk does not begin from nothing: there is a memory $M_0$ and a momentum $S_0$. Three vectors
# say what becomes of them: $m_t$ is how much of $S_0$ is left in $S_t$, $f_t$ how much of $S_0$ has
# gone into $M_t$, and $\beta_t$ how much of $M_0$ is left in $M_t$. Set all surprises to zero and
# unroll the rule. For $f$, note that token $s$ writes $m_s S_0$. Return them in this order: $m$,
# $f$, $\beta$.


# %%
def carried_over(eta, alpha):
    """Return m, f and beta: what is left of S₀ in S_t, of S₀ in M_t, of M₀ in M_t.

    eta, alpha: [time]. Returns three [time].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "06.3: Return m, f and beta: what is left of S₀ in S_t, of S₀ in M_t, of M₀ in M_t."
    )


# %%
check("06.3", carried_over)

# %%
m, f, beta = carried_over(torch.full((24,), 0.8), torch.full((24,), 0.1))
lines({"m: S₀ in S_t": m, "f: S₀ in M_t": f, "beta: M₀ in M_t": beta}, "token t", "share")

# %% [markdown]
# ## 06.4 Read a chunk
#
# With the errors $e_i = v_i - M_{start} k_i$, all measured at the memory with which the chunk
# began, the memory of token $t$ is
#
# $$M_t = \beta_t M + f_t S + \sum_{i \le t} G_{t,i}\, e_i k_i^\top$$
#
# Token $t$ reads with its own $M_t$. Multiply the formula by $q_t$ from the right, and you will see
# that no $M_t$ ever needs to be built: derive the readings of all tokens as matrix products. No
# loop over tokens.
#
# `M` and `S` are the memory and the momentum now. `M_start` may differ from `M`: the chunk may have
# begun earlier.


# %%
def read_chunk(M, S, M_start, queries, keys, values, theta, eta, alpha):
    """Return what each token of the chunk reads from its own memory.

    M, S, M_start: [d_value, d_key]; queries, keys: [time, d_key]; values: [time, d_value];
    theta, eta, alpha: [time]. Returns [time, d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "06.4: Return what each token of the chunk reads from its own memory."
    )


# %%
check("06.4", read_chunk)

# %% [markdown]
# ## 06.5 Write a chunk
#
# The next chunk needs the memory and the momentum after the last token, and only those. They are
# matrix products too, with the last rows of $G$ and $H$.
#
# $$S_t = m_t S + \sum_{i \le t} H_{t,i}\, e_i k_i^\top$$


# %%
def write_chunk(M, S, M_start, keys, values, theta, eta, alpha):
    """Return the memory and the momentum after the last token of the chunk: M, S.

    M, S, M_start: [d_value, d_key]; keys: [time, d_key]; values: [time, d_value];
    theta, eta, alpha: [time]. Returns two [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "06.5: Return the memory and the momentum after the last token of the chunk: M, S."
    )


# %%
check("06.5", write_chunk)

# %% [markdown]
# ## 06.6 Streaming
#
# Text arrives in pieces of any length, and a piece may end in the middle of a chunk. The result
# must not depend on where the text was cut. So the state carries four things: the memory now, the
# momentum, the memory with which the open chunk began, and how many of its tokens have been read.
#
# Read the tokens that the open chunk still has room for, then whole chunks, then the beginning of
# the next one. When a chunk is full, the next one begins immediately: `position` is 0 again and
# `M_start` is the `M` of that moment.


# %%
def stream(state, queries, keys, values, theta, eta, alpha, chunk_size):
    """Return the readings of a piece of text, and the state after it: y, state.

    state: (M, S, M_start, position), three [d_value, d_key] and a whole number below chunk_size;
    queries, keys: [time, d_key]; values: [time, d_value]; theta, eta, alpha: [time].
    Returns [time, d_value] and a state of the same form.
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "06.6: Return the readings of a piece of text, and the state after it: y, state."
    )


# %%
check("06.6", stream)

# %% [markdown]
# One text of 100 tokens, read whole and read in pieces:

# %%
time, dim, chunk_size = 100, 8, 16
queries, keys = F.normalize(torch.randn(2, time, dim, dtype=torch.float64), dim=-1)
values = torch.randn(time, dim, dtype=torch.float64)
theta, eta, alpha = 0.05 * torch.ones(time), 0.5 * torch.ones(time), 0.01 * torch.ones(time)
text = (queries, keys, values, *(gate.double() for gate in (theta, eta, alpha)))

zeros = torch.zeros(dim, dim, dtype=torch.float64)
whole, _ = stream((zeros, zeros, zeros, 0), *text, chunk_size)
state, pieces = (zeros, zeros, zeros, 0), []
for first, last in [(0, 1), (1, 30), (30, 31), (31, 77), (77, 100)]:
    y, state = stream(state, *(x[first:last] for x in text), chunk_size)
    pieces.append(y)
print("the same, however it is cut:", torch.allclose(torch.cat(pieces), whole, atol=1e-12))

# %% [markdown]
# And the library agrees:

# %%
from minititans.memory import Gates, MemoryState, chunked


def library(chunk_size, exact):
    start = MemoryState.start([zeros[None]], batch=1)
    q, k, v, *gates = (x[None, None] for x in text)
    return chunked(q, k, v, Gates(*gates), start, chunk_size, exact=exact)[0][0, 0]


frozen = library(chunk_size, exact=False)  # every surprise at the chunk's first memory
print("minititans.memory.chunked gives the same:", torch.allclose(frozen, whole, atol=1e-12))

# %% [markdown]
# ## 06.7 Exact errors
#
# Freezing has a price: inside a chunk, no token learns from the one before it. For a matrix there
# is a way around it. Measure each error just before its token is written:
#
# $$e_t = v_t - M_{t-1} k_t, \qquad
# M_{t-1} = \beta^-_t M + f^-_t S + \sum_{i < t} G^-_{t,i}\, e_i k_i^\top$$
#
# The minus means *one row earlier*: row $t$ of $G^-$ is row $t-1$ of $G$, and so on. What is in the
# first row, before anything has been written? Put the second formula into the first and move
# everything with an $e$ in it to the left. The result is a system of linear equations for the rows
# of $E$. Row $t$ needs only rows before it: the system is lower triangular, with ones on its
# diagonal. Derive it and solve it, row by row or with `torch.linalg.solve_triangular`.


# %%
def chunk_errors(M, S, keys, values, theta, eta, alpha):
    """Return the errors of all tokens, each measured just before its token is written.

    M, S: [d_value, d_key], as the chunk begins; keys: [time, d_key]; values: [time, d_value];
    theta, eta, alpha: [time]. Returns [time, d_value]: row t is v_t − M_{t−1} k_t.
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "06.7: Return the errors of all tokens, each measured just before its token is written."
    )


# %%
check("06.7", chunk_errors)

# %% [markdown]
# Now read the whole text with exact errors, in chunks of any size. You can use your `read_chunk`
# and `write_chunk` as they are. With `M_start` zero, the error they compute is simply the value
# they are given: so we give them $E$ in place of the values.


# %%
def read_exactly(chunk_size):
    M = S = zeros
    readings = []
    for q, k, v, *gates in zip(*(x.split(chunk_size) for x in text)):
        E = chunk_errors(M, S, k, v, *gates)
        readings.append(read_chunk(M, S, zeros, q, k, E, *gates))
        M, S = write_chunk(M, S, zeros, k, E, *gates)
    return torch.cat(readings)


by_token = read_exactly(1)  # one token at a time: equations (13) and (14) to the letter
for size in (2, 16, 64, 100):
    same = torch.allclose(read_exactly(size), by_token, atol=1e-12)
    as_library = torch.allclose(library(size, exact=True), by_token, atol=1e-12)
    print(f"chunks of {size}: the same as token by token: {same}; the library too: {as_library}")
print("frozen errors give the same:", torch.allclose(whole, by_token, atol=1e-12))

# %% [markdown]
# **What you have:** [`chunked`](../minititans/memory/chunked.py), for a matrix. In a deeper memory
# every layer is read and written like this, with what enters the layer in place of the keys. The
# last layer's errors are exact; the layers below it use the errors of lab 05, frozen. The memory of
# a single token is never built.

# %%
progress()
