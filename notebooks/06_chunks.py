# %% [markdown]
# # Training in parallel
#
# **Question:** the memory changes with every token, so each token seems to wait for the one before
# it. How can the same numbers come out of a few matrix products?
#
# **You will build:** a chunk of tokens that is read at once. First with frozen gradients, as in the
# paper, and what they cost; then a small triangular system that gives back exactly the numbers of
# the loop, for any chunk size.
#
# **Time:** 25 minutes to read, without the optional part; about 15 s to run on 2 cores.
#
# **You need:** [03 Surprise that lingers](03_momentum.ipynb) for `eta`, [04 Learning to
# forget](04_forgetting.ipynb) for `alpha`.

# %%
import torch
import torch.nn.functional as F

from minititans.course import claim
from minititans.memory import Gates, MemoryState, chunked, segment_products, sequential
from minititans.viz.loop import draw_loop

torch.set_default_dtype(torch.float64)  # so that "equal" can mean equal to ten digits
torch.set_num_threads(1)  # these matrices are small: a second thread would only be in the way
_ = torch.manual_seed(0)
draw_loop("chunks")

# %% [markdown]
# ## The chain
#
# We have eight tokens, a matrix $M$ as the memory, and separate gates for each token. The keys $K$,
# queries $Q$, values $V$ and, soon, errors $E$ of a chunk are matrices with one row per token.

# %%
b, dim = 8, 4
K = F.normalize(torch.randn(b, dim), dim=-1)  # keys
Q = F.normalize(torch.randn(b, dim), dim=-1)  # queries
V = torch.randn(b, dim)  # values
theta, eta, alpha = torch.rand(b), 0.7 * torch.rand(b), 0.3 * torch.rand(b)
M0 = torch.randn(dim, dim) / dim**0.5  # the memory before the first token

# %% [markdown]
# Here is the rule token by token: equations (13) and (14), and a reading (15) after each write. One
# argument decides *where the error is measured*: at the memory just before the token, as (14) says,
# or at the memory with which the chunk began.


# %%
def loop(frozen):
    M, S = M0, torch.zeros(dim, dim)
    errors, readings = [], []
    for t in range(b):
        at = M0 if frozen else M
        e = V[t] - at @ K[t]  # the error; the gradient, or surprise, is −e kᵀ
        S = eta[t] * S + theta[t] * torch.outer(e, K[t])
        M = (1 - alpha[t]) * M + S
        errors.append(e)
        readings.append(M @ Q[t])
    return torch.stack(errors), torch.stack(readings), M, S


# %% [markdown]
# **Predict first:** which of the eight readings are the same in both versions? Do the others
# drift apart, or do they differ by about the same amount?

# %% tags=["predict"]
E_loop, Y_loop, _, _ = loop(frozen=False)
E_frozen, Y_frozen, M_frozen, S_frozen = loop(frozen=True)
difference = (Y_loop - Y_frozen).norm(dim=1) / Y_loop.norm(dim=1)  # for each token's reading
print([f"{share:.1%}" for share in difference])

# %% [markdown]
# The first reading is the same, because the first error is. After that the two versions drift
# apart. That is the price of freezing, and we will measure it. What it buys is that **frozen errors
# do not wait for each other.** This is equation (16): the gradient of token $t$ is taken at
# $M_{t'}$, the memory at the start of its chunk.
#
# ## All surprises at once
#
# With the memory fixed, one product gives the error of every token. Minus the gradient of token
# $i$ is an outer product, $e_i k_i^\top$ with $e_i = v_i - M_0 k_i$. We keep the two factors and
# never build the matrix.

# %%
E = V - K @ M0.T  # [b, dim]: row i is the error of token i
claim(
    "one product gives the frozen errors of all tokens",
    torch.allclose(E, E_frozen),
    "equation (17)",
)

# %% [markdown]
# ## Momentum and forgetting are matrices
#
# Unroll $S_t = \eta_t S_{t-1} + \theta_t e_t k_t^\top$. Surprise $i$ enters with $\theta_i$ and
# then shrinks by one $\eta$ for each token that passes. Unroll $M_t = (1-\alpha_t) M_{t-1} + S_t$
# in the same way: what was written at $s$ fades by one $1-\alpha$ for each token that passes, and
# so does $M_0$.
#
# $$S_t = \sum_{i \le t} H_{ti}\, e_i k_i^\top,
# \qquad H_{ti} = \theta_i\, \eta_{i+1} \cdots \eta_t$$
#
# $$M_t = \beta_t M_0 + \sum_{s \le t} D_{ts} S_s,
# \qquad D_{ts} = (1-\alpha_{s+1}) \cdots (1-\alpha_t),
# \qquad \beta_t = (1-\alpha_1) \cdots (1-\alpha_t)$$
#
# Put the first sum into the second, and two sums over tokens become a product of two matrices,
# $G = D H$. Entry $G_{ti}$ says how much of the surprise of token $i$ is in the memory when token
# $t$ reads it.

# %%
H, D = torch.zeros(b, b), torch.zeros(b, b)
for t in range(b):
    for i in range(t + 1):
        H[t, i] = theta[i] * eta[i + 1 : t + 1].prod()
        D[t, i] = (1 - alpha[i + 1 : t + 1]).prod()
G = D @ H
beta = (1 - alpha).cumprod(0)

# %% [markdown]
# **Predict first:** read a column from top to bottom: one surprise, as time passes. In $H$ and in
# $D$ the numbers can only fall. In $G$ too?

# %% tags=["predict"]
from minititans.viz.chunks import draw_gate_matrices

draw_gate_matrices(H, D, G)

# %% [markdown]
# In $G$ a surprise may first *grow*: with momentum it goes on being written for a while, until
# forgetting wins. All three are empty above the diagonal: nothing comes from the future.
#
# The last rows of $H$ and $G$ give the momentum and the memory after the chunk, each as one
# product. (With `eta = 0`, $H$ is diag(θ) and $G_{ti} = \theta_i\,\beta_t/\beta_i$: that is (16).
# In (17) the paper writes $W_0$ for our $M_0$ and $x$ for both $k$ and $v$, and its two diagonal
# matrices belong between the factors.)

# %%
S_end = E.T @ (H[-1, :, None] * K)  # the sum over i of H[b,i] e_i k_iᵀ
M_end = beta[-1] * M0 + E.T @ (G[-1, :, None] * K)
claim(
    "the last row of H gives the momentum after the chunk",
    torch.allclose(S_end, S_frozen),
    "equation (18)",
)
claim(
    "the last row of G gives the memory after the chunk",
    torch.allclose(M_end, M_frozen),
    "equation (16)",
)

# %% [markdown]
# ## A reading without the memory
#
# Every token reads with *its own* $M_t$. We could build all of them. But put the formula for
# $M_t$ into $y_t = M_t q_t$ and look at what is left of the outer product:
# $e_i k_i^\top q_t$ is $e_i$ times a plain number, $k_i \cdot q_t$. Those numbers are the matrix
# $Q K^\top$.

# %%
Y = beta[:, None] * (Q @ M0.T) + (G * (Q @ K.T)) @ E
claim(
    "one line of matrix products reads what the loop reads",
    torch.allclose(Y, Y_frozen),
    "equation (17)",
)

# %% [markdown]
# The loop is gone. What took its place looks like attention: queries against keys, a causal matrix
# $G$ in place of the mask, no softmax, and in place of the values the *errors*: what is already
# known is not written again. Together, momentum and forgetting cost one $b \times b$ matrix.
#
# ## From chunk to chunk
#
# The next chunk begins with the momentum $S_0$ that the last one left. By token $t$ the share
# $m_t = \eta_1 \cdots \eta_t$ of it is left (a small $m$, for momentum), and on its way it has
# written $f = D\,m$. That is all we need for a chunk. The code leaves open how the errors are
# measured; for now they are frozen.


# %%
def products(theta, eta, alpha):
    D = segment_products(1 - alpha)  # the double loop from above
    H = segment_products(eta) * theta
    m, beta = eta.cumprod(0), (1 - alpha).cumprod(0)
    return H, D @ H, m, D @ m, beta  # H, G, m, f, beta


def frozen(K, V, G, f, beta, M0, S0):
    return V - K @ M0.T


def one_chunk(errors, Q, K, V, theta, eta, alpha, M0, S0):
    H, G, m, f, beta = products(theta, eta, alpha)
    E = errors(K, V, G, f, beta, M0, S0)
    Y = beta[:, None] * (Q @ M0.T) + f[:, None] * (Q @ S0.T) + (G * (Q @ K.T)) @ E
    M = beta[-1] * M0 + f[-1] * S0 + E.T @ (G[-1, :, None] * K)
    S = m[-1] * S0 + E.T @ (H[-1, :, None] * K)
    return Y, M, S


# %% [markdown]
# Now a longer sequence, 64 tokens, in chunks of every size. The referee is the library's literal
# loop, [`sequential`](../minititans/memory/sequential.py), which takes its gradients from autograd
# and knows nothing of H, D and G. With `exact=False` it freezes them as we do.

# %%
time = 64
long = [F.normalize(torch.randn(time, dim), dim=-1) for _ in range(2)]  # queries, keys
long += [torch.randn(time, dim), 0.1 * torch.rand(time), torch.rand(time), 0.1 * torch.rand(time)]


def in_chunks(b, errors):
    M, S, readings = M0, torch.zeros(dim, dim), []
    for chunk in zip(*(x.split(b) for x in long)):
        Y, M, S = one_chunk(errors, *chunk, M, S)
        readings.append(Y)
    return torch.cat(readings)


def by_the_loop(b, exact):
    q, k, v, *gates = (x[None, None] for x in long)  # the library has a batch and heads
    start = MemoryState.start([M0[None]], batch=1)
    return sequential(q, k, v, Gates(*gates), start, b, exact=exact)[0][0, 0]


# %% tags=["hide-source"]
# What was checked: every reading, in four chunk sizes
sizes = (1, 4, 16, 64)
differences = [(in_chunks(b, frozen) - by_the_loop(b, exact=False)).abs().max() for b in sizes]
claim(
    "our chunks of 1, 4, 16 and 64 tokens agree with the literal loop, frozen like them, to 1e-10",
    max(differences) < 1e-10,
    "equation (16)",
)

# %% [markdown]
# With `b = 1` nothing is frozen for longer than one token: that is (13) and (14) to the letter.
#
# ## What freezing costs
#
# First the worst case, which we can work out. The *same* pair fills the sequence, with
# `theta = 0.5` and `eta = alpha = 0`. Token by token, each write halves the error. In a chunk all
# $b$ gradients ask for the same step, and none knows about the others, so a chunk multiplies the
# error by $1 - b\,\theta$.
#
# **Predict first:** what is left of the error after 64 tokens, in chunks of 1, 2, 4 and 8?

# %% tags=["predict"]
pair = torch.ones(1, 1, 64, 1)  # a key of 1, a value of 1
gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 64))
left = {}
for b in (1, 2, 4, 8):
    start = MemoryState.start([torch.zeros(1, 1, 1)], batch=1)
    y, _ = chunked(pair, pair, pair, gates, start, chunk_size=b, exact=False)
    left[b] = abs(1 - y[0, 0, -1, 0].item())
    print(f"chunks of {b}: times {1 - b * 0.5:+.1f} per chunk, {left[b]:.2g} in the end")

# %% tags=["hide-source"]
# What was checked: the formula for each chunk size
expected = {b: abs(1 - b * 0.5) ** (64 // b) for b in left}
claim(
    "a pair that fills its chunk has its error multiplied by 1 − b theta in each chunk",
    all(abs(left[b] - expected[b]) < 1e-9 * max(1, expected[b]) for b in left),
    "equation (16)",
)
claim(
    "so a step that is safe token by token explodes in chunks of 8",
    left[8] > 1000 > left[1],
    "equation (16)",
)

# %% [markdown]
# Now an ordinary case. A memory learns random linear maps from 256 pairs and predicts each value
# before it is written. To be fair, every chunk size may use the `theta` that suits it best
# ([`freezing_cost`](../minititans/experiments/chunks.py), three seeds).

# %%
from minititans.experiments.chunks import FreezingConfig, freezing_cost
from minititans.viz.chunks import draw_freezing

cost = freezing_cost(FreezingConfig())
draw_freezing(cost)

# %% tags=["hide-source"]
# What was checked: three seeds
claim(
    "even with the best theta for each size, chunks of 64 have over twice the error of chunks of 1",
    (cost.error_at(64) > 2 * cost.error_at(1)).all(),
    "equation (16)",
)
claim(
    "the error with chunks of 4 is less than a fifth larger than with chunks of 1",
    (cost.error_at(4) < 1.2 * cost.error_at(1)).all(),
    "equation (16)",
)
claim(
    "the best theta for chunks of 64 is less than a quarter of that for single tokens",
    (cost.theta_at(64) < cost.theta_at(1) / 4).all(),
    "equation (16)",
)

# %% [markdown]
# So with frozen gradients the chunk size is a compromise: larger chunks are faster but learn less
# well. A memory that was trained without freezing pays as well: a small model with nothing but such
# a memory finds every number that notebook 10 hides in a text of 1,024 tokens, and only 12 % of
# them when it is read in frozen chunks of 64. Trained frozen, it finds them all
# ([results/chunk](../results/chunk/README.md), three seeds). Can we avoid the compromise?
#
# ## The triangle
#
# Go back to the exact error, $e_t = v_t - M_{t-1} k_t$. Our formula for the memory does not care
# how the errors were measured, so it holds for $M_{t-1}$ too, with row $t - 1$ of everything. Write
# a small minus for *one row earlier*. Before the first token, all of $M_0$ is there
# ($\beta^- = 1$), nothing of $S_0$ has been written ($f^- = 0$), and neither has any surprise
# ($G^- = 0$):
#
# $$e_t = v_t - \beta^-_t M_0 k_t - f^-_t S_0 k_t - \sum_{i<t} G^-_{ti}\,(k_i \cdot k_t)\, e_i$$
#
# The unknown errors appear on both sides, but only *linearly*, and each needs only those before it.
# Move them to the left:
#
# $$\bigl(I + G^- \odot (K K^\top)\bigr)\, E
# = V - \beta^- \odot (K M_0^\top) - f^- \odot (K S_0^\top)$$
#
# That is one system of linear equations for all errors of a chunk. Its matrix is a triangle with
# ones on the diagonal.


# %%
def one_row_earlier(x, first):
    return torch.cat([torch.full_like(x[:1], first), x[:-1]])


def exact(K, V, G, f, beta, M0, S0):
    G, f, beta = one_row_earlier(G, 0), one_row_earlier(f, 0), one_row_earlier(beta, 1)
    left = torch.eye(len(K)) + G * (K @ K.T)
    right = V - beta[:, None] * (K @ M0.T) - f[:, None] * (K @ S0.T)
    return torch.linalg.solve_triangular(left, right, upper=False)


# %% [markdown]
# Here is the system for the eight tokens from the beginning, beside the loop that it replaces.
# (There $S_0$ was zero, so its term is missing.)
#
# **Predict first:** row 5 of the system will be framed. Which of its entries can be nonzero, and
# what must be known before it can be solved for $e_5$?

# %% tags=["predict"]
from minititans.viz.triangle import draw_triangle

_, G, _, f, beta = products(theta, eta, alpha)
E = exact(K, V, G, f, beta, M0, torch.zeros(dim, dim))
left = torch.eye(len(K)) + one_row_earlier(G, 0) * (K @ K.T)
draw_triangle(left, E, left @ E, row=5)

# %% [markdown]
# Row 5 holds a 1 for $e_5$ and one number for each earlier error: how much of that surprise is in
# the memory, times how much the two keys overlap. To its right there are only zeros. Solving from
# top to bottom takes the tokens one by one, just like the loop. But a step of the loop updates a
# whole matrix, while a row of the triangle only adds up errors that are already known, and a single
# call solves all rows.

# %%
claim(
    "row t of the solution is v_t − M_{t−1} k_t, as in the loop",
    torch.allclose(E, E_loop),
    "equation (14)",
)

# %% tags=["hide-source"]
# What was checked: every reading, in seven chunk sizes
literal = by_the_loop(1, exact=False)  # chunks of one token: (13) and (14) to the letter
differences = [(in_chunks(b, exact) - literal).abs().max() for b in (1, 2, 4, 8, 16, 32, 64)]
claim(
    "with the triangle, chunks of 1 to 64 tokens give the same numbers as the loop, to 1e-10",
    max(differences) < 1e-10,
    "equations (13) to (15)",
)

# %% [markdown]
# **The same numbers as the loop, for any chunk size.** Nothing is frozen, nothing is approximated;
# how many tokens go into a chunk is now a question of speed alone. (With `eta = alpha = 0` this is
# what DeltaNet does.) Here is the experiment from above again, with exact errors:

# %%
exact_cost = freezing_cost(FreezingConfig(sizes=(1, 16, 128)), exact=True)
draw_freezing(cost, exact_cost)

# %%
same = torch.allclose(exact_cost.errors, cost.errors[:, :1], atol=1e-9)
claim(
    "exact chunks of any size learn as well as single tokens, at every theta", same, "equation (14)"
)

# %% [markdown]
# ## Deeper memories
#
# In a memory of several layers (notebook 05) each layer's surprise is still an outer product, an
# error times what enters the layer, and $G$ is the same for all layers. So each layer in turn is
# read with the same line of matrix products. The last layer's errors depend linearly on its own
# weights, and they are exact. The layers below act through SiLU. Their errors are frozen, as in
# (16), and because they are frozen for $b$ tokens, these layers take steps of $\theta/b$. That is
# the library's default ([`chunked`](../minititans/memory/chunked.py)); `exact=False` freezes all
# layers.


# %% tags=["hide-source"]
# What was checked: four depths, three chunk sizes, two forms of the layers
def difference(depth, b, exact, residual):
    """Between the library's chunks and its literal loop."""
    q, k, v, *gates = (x[None, None] for x in long)
    weights = [torch.randn(1, dim, dim) / dim**0.5 for _ in range(depth)]
    args = (q, k, v, Gates(*gates), MemoryState.start(weights, 1), b)
    form = {"exact": exact, "residual": residual}
    return (chunked(*args, **form)[0] - sequential(*args, **form)[0]).abs().max()


cases = [(depth, b, *form) for depth in (1, 2, 3, 4) for b in (1, 5, 16)
         for form in ((True, True), (False, False))]  # fmt: skip
claim(
    "the library's chunks equal its loop to 1e-10 for memories of depth 1 to 4, exact and frozen",
    max(difference(*case) for case in cases) < 1e-10,
    "section 3.2",
)

# %% [markdown]
# ## What it buys
#
# We measure a training step, forward and back, of a memory with two layers and a sequence of 64
# tokens. Besides exact and frozen chunks there is a version that does build the weights after every
# token ([`scan`](../minititans/memory/scan.py)). Memory is counted, not sampled: the bytes that
# autograd keeps for the backward pass ([`chunk_costs`](../minititans/experiments/chunk_costs.py)).
#
# **Predict first:** how many times as fast as single tokens is one chunk of 64? And how much time
# does the triangle add?

# %% tags=["predict"]
from minititans.experiments.chunk_costs import EXACT, FROZEN, PER_TOKEN, CostConfig, chunk_costs
from minititans.viz.chunks import draw_costs

costs = chunk_costs(CostConfig())
draw_costs(costs)

# %% tags=["hide-source"]
# What was checked: the fastest of several steps each, and bytes counted
claim(
    "exact chunks of 64 train more than 10 times as fast as chunks of 1",
    costs.speedup(EXACT, 64, over=(EXACT, 1)) > 10,
    "section 3.2",
)
claim(
    "chunks of 64 with a triangle take less than three times as long as frozen ones",
    costs.speedup(FROZEN, 64, over=(EXACT, 64)) < 3,
    "ours",
)
claim(
    "with exact chunks of 64, training is more than twice as fast as with a memory per token",
    costs.speedup(EXACT, 64, over=(PER_TOKEN, 64)) > 2,
    "figure 1",
)
claim(
    "and keeps less than a tenth of the bytes that a memory per token needs for the backward pass",
    costs.share_kept(EXACT, of=PER_TOKEN, size=64) < 0.1,
    "section 3.2",
)

# %% [markdown]
# With "a memory per token", every layer is copied for every token, several times. Chunks keep one
# copy of the layers per *chunk* and a few $b \times b$ matrices. The larger $b$ is, the fewer the
# copies and the larger the matrices. In between, near the size of a key, the least memory is
# needed.
#
# ## The explorer
#
# The explorer reads one sequence of 64 pairs in chunks of the size you choose. It starts with
# chunks of 16 and the same gates for all tokens. The frozen memory is far off; the exact one is
# not. Lower `theta` until they meet. Then give each token its own gates, and try `alpha = 1` and
# `eta = 1`, a momentum that never fades.

# %%
from minititans.viz.chunks import chunk_explorer

chunk_explorer()

# %% [markdown]
# ## Deeper (optional)
#
# The story is complete. What follows is for those who want to know how the paper does it; if that
# is not you, jump to the end.
#
# ### Products without division
#
# The paper writes what is left of an old write as $\beta_t/\beta_i$, and it is tempting to compute
# it like that: one cumulative product, one division. But let one token clear the memory with
# `alpha = 1`, as in notebook 04.

# %%
alpha_clear = torch.tensor([0.1, 0.2, 1.0, 0.5])  # the third token forgets everything
beta = (1 - alpha_clear).cumprod(0)
quotients = beta[:, None] / beta[None, :]  # row t, column i
print(quotients)

# %% [markdown]
# After the third token $\beta$ is 0, and 0/0 is not a number. But we know what the last entry of
# the last row should be: an empty product, 1, whatever happened before.
# [`segment_products`](../minititans/memory/gates.py) multiplies the gates in between and never
# divides.

# %%
kept = segment_products(1 - alpha_clear)
print(kept)
claim(
    "dividing cumulative products gives NaN when alpha is 1",
    quotients.isnan().any(),
    "equation (16)",
)
claim(
    "multiplying the gates between two tokens gives no NaN", kept.isfinite().all(), "equation (16)"
)

# %% [markdown]
# ### The scan
#
# The paper computes the momentum in another way. Equation (18),
# $S_t = \eta_t S_{t-1} - \theta_t u_t$, is a linear recurrence, and *two of its steps make one step
# of the same form*: first $(\eta, x)$, then $(\eta', x')$ is $(\eta'\eta,\ \eta' x + x')$. So
# neighbours can be joined into pairs and pairs into fours: $\log_2 b$ rounds.

# %%
decay, x = torch.rand(64), torch.randn(64)
one_by_one = [x[0]]
for t in range(1, 64):
    one_by_one.append(decay[t] * one_by_one[-1] + x[t])

a, s, reach, rounds = decay, x, 1, 0
while reach < 64:  # (a, s) at t stands for the last `reach` tokens
    s = torch.cat([s[:reach], s[reach:] + a[reach:] * s[:-reach]])
    a = torch.cat([a[:reach], a[reach:] * a[:-reach]])
    reach, rounds = 2 * reach, rounds + 1
print(rounds, "rounds in place of 63 steps")

# %%
from minititans.memory.scan import convolution, linear_recurrence

by_library = linear_recurrence(decay[None], x[None], torch.zeros(1))[0]
claim(
    "a scan of 6 rounds gives what 63 steps give",
    torch.allclose(s, torch.stack(one_by_one)),
    "equation (18)",
)
claim("the library's scan agrees", torch.allclose(by_library, s), "equation (18)")

# %% [markdown]
# The scan needs each $S_t$ as a whole matrix, one per token: that was "a memory per token" above.
# The library keeps it for teaching, and as a second reference in the tests.
#
# ### Gates that a chunk shares
#
# Let all tokens of a chunk have the same gates (section 3.2, last paragraph). Then only the
# *distance* counts: $H_{ti} = \theta\,\eta^{t-i}$. Each diagonal of H holds a single number.

# %%
shared = torch.full((8,), 0.8)
H = 0.3 * segment_products(shared)
D = segment_products(torch.full((8,), 0.9))
draw_gate_matrices(H, D, D @ H)

# %% [markdown]
# Multiplying by a matrix with constant diagonals is a convolution, here of the surprises with
# $1, \eta, \eta^2, \dots$. The fast Fourier transform computes it
# ([`convolution`](../minititans/memory/scan.py)).

# %%
surprise = torch.randn(8)
kernel = 0.8 ** torch.arange(8)
by_hand = torch.stack([(kernel[: t + 1].flip(0) * surprise[: t + 1]).sum() for t in range(8)])
by_fft = convolution(shared[None], surprise[None], torch.zeros(1))[0]
claim(
    "with shared gates the momentum is a convolution",
    torch.allclose(by_hand, by_fft),
    "equation (18)",
)

# %% [markdown]
# **What to take away**
#
# - Momentum and forgetting are fixed mixtures of surprises: the matrices H, D and $G = DH$. A token
#   reads through $G \odot (QK^\top)$; its memory $M_t$ is never built, at any depth.
# - Freezing the errors inside a chunk, (16), breaks the chain at a price: chunks of 64 have about
#   three times the error here, even with the best `theta`.
# - The exact errors of a chunk solve a triangular system. For a matrix that gives the same numbers
#   as the loop, for any chunk size; in a deeper memory it does so for the last layer.
#
# **Exercise:** [06 Chunks](../exercises/06_chunks.ipynb): write H, D and G, a chunk's reading and
# writing, enter a chunk in the middle, and solve the triangle.
#
# **In the paper:** section 3.2, equations (16) to (18) and figure 1 of [Titans: Learning to
# Memorize at Test Time](https://arxiv.org/abs/2501.00663). The triangle is ours, after DeltaNet's.
# In the library: [`chunked`](../minititans/memory/chunked.py),
# [`segment_products`](../minititans/memory/gates.py), [`scan`](../minititans/memory/scan.py).
#
# **Next:** [07 Attention with a past](07_attention.ipynb)
