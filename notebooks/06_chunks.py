# %% [markdown]
# # Training in parallel
#
# **Question:** the memory changes with every token, so each token seems to have to wait for the
# one before it. How can the same numbers come out of a few matrix products?
#
# **You will build:** the chunked form of the memory, step by step: three small matrices of gates,
# one line that reads a whole chunk, and the check that nothing was lost on the way.
#
# **Time:** about 15 s on 2 cores.
#
# **You need:** [03 Surprise that lingers](03_momentum.ipynb) for `eta`, [04 Learning to
# forget](04_forgetting.ipynb) for `alpha`.

# %%
import torch
import torch.nn.functional as F

from minititans.course import claim
from minititans.memory import Gates, MemoryState, chunked, segment_products, sequential

torch.set_default_dtype(torch.float64)  # so that "equal" can mean equal to ten digits
torch.set_num_threads(1)  # these matrices are small: a second thread would only be in the way
_ = torch.manual_seed(0)

# %% [markdown]
# ## The chain
#
# Eight tokens, a matrix for a memory, and gates of their own for each token. In this notebook a
# capital letter holds all tokens of a chunk, one a row.

# %%
b, dim = 8, 4
K = F.normalize(torch.randn(b, dim), dim=-1)  # keys
Q = F.normalize(torch.randn(b, dim), dim=-1)  # queries
V = torch.randn(b, dim)  # values
theta, eta, alpha = 0.3 * torch.rand(b), torch.rand(b), 0.3 * torch.rand(b)
W0 = torch.randn(dim, dim) / dim**0.5  # the memory before the first token

# %% [markdown]
# The rule, token by token: equations (13) and (14), and a reading (15) after each write. One
# argument decides *where the gradient is taken*: at the weights of the token before, as (14)
# says, or at the weights with which the chunk began.


# %%
def loop(frozen):
    W, S, readings = W0, torch.zeros(dim, dim), []
    for t in range(b):
        at = W0 if frozen else W
        u = torch.outer(at @ K[t] - V[t], K[t])  # the gradient: momentary surprise
        S = eta[t] * S - theta[t] * u
        W = (1 - alpha[t]) * W + S
        readings.append(W @ Q[t])
    return torch.stack(readings), W, S


chained, frozen = loop(frozen=False)[0], loop(frozen=True)[0]
difference = (chained - frozen).norm(dim=1) / chained.norm(dim=1)  # of each token's reading
print([f"{share:.0%}" for share in difference])

# %% [markdown]
# The first reading is the same, because the first gradient is. Then the two drift apart. That is
# the price, and we will measure it. What it buys is the whole rest of this notebook: **frozen
# gradients do not wait for each other.** This is equation (16): the gradient of token t is taken
# at $M_{t'}$, the memory at the start of its chunk.

# %% [markdown]
# ## All surprises at once
#
# With the weights fixed, one product gives the error of every token. The gradient of token $i$ is
# minus an outer product, $-\delta_i k_i^\top$ with $\delta_i = v_i - W_0 k_i$. We keep the two
# factors and never write the matrices down.

# %%
Delta = V - K @ W0.T  # [b, dim]: row i is the error of token i

i = 5
gradient = torch.outer(W0 @ K[i] - V[i], K[i])
claim(
    "row i of Delta and row i of K are the factors of minus the gradient of token i",
    torch.allclose(torch.outer(Delta[i], K[i]), -gradient),
    "equation (17)",
)

# %% [markdown]
# ## Momentum is a matrix: H
#
# Unroll $S_t = \eta_t S_{t-1} + \theta_t \delta_t k_t^\top$. Surprise $i$ enters with $\theta_i$
# and then shrinks by one $\eta$ for each token that passes:
#
# $$S_t = \sum_{i \le t} H_{ti}\, \delta_i k_i^\top,
# \qquad H_{ti} = \theta_i\, \eta_{i+1} \cdots \eta_t$$

# %%
H = torch.zeros(b, b)
for t in range(b):
    for i in range(t + 1):
        H[t, i] = theta[i] * eta[i + 1 : t + 1].prod()

S_end = Delta.T @ (H[-1, :, None] * K)  # the sum over i of H[b,i] δ_i k_iᵀ, as one product
_, W_loop, S_loop = loop(frozen=True)
claim(
    "the last row of H gives the momentum after the chunk",
    torch.allclose(S_end, S_loop),
    "equation (18)",
)

# %% [markdown]
# ## Forgetting is a matrix: D
#
# Unroll $W_t = (1-\alpha_t) W_{t-1} + S_t$ in the same way. What was written at $s$ fades by one
# $1-\alpha$ for each token that passes, and so does the memory that we began with:
#
# $$W_t = \beta_t W_0 + \sum_{s \le t} D_{ts} S_s,
# \qquad D_{ts} = (1-\alpha_{s+1}) \cdots (1-\alpha_t),
# \qquad \beta_t = (1-\alpha_1) \cdots (1-\alpha_t)$$

# %%
D = torch.zeros(b, b)
for t in range(b):
    for s in range(t + 1):
        D[t, s] = (1 - alpha[s + 1 : t + 1]).prod()
beta = (1 - alpha).cumprod(0)

# %% [markdown]
# ## Both together: G
#
# Put the sum for $S_s$ into the sum for $W_t$, and two sums over tokens become a product of two
# matrices: $G = D H$. Entry $G_{ti}$ says how much of the surprise of token $i$ is in the memory
# when token $t$ reads it.

# %%
from minititans.viz.chunks import draw_gate_matrices

G = D @ H
draw_gate_matrices(H, D, G)

# %% [markdown]
# Read a column from top to bottom. In $H$ a surprise starts at $\theta_i$ and fades. In $G$ it
# first *grows*: with momentum a surprise goes on writing for a while, until forgetting wins. All
# three are empty above the diagonal: nothing comes from the future.
#
# With `eta = 0`, $H$ is diag(θ) and $G_{ti} = \theta_i\,\beta_t/\beta_i$: that is (16). In (17)
# the paper writes $x$ for both $k$ and $v$, and the two diagonal matrices belong between the
# factors.

# %%
W_end = beta[-1] * W0 + Delta.T @ (G[-1, :, None] * K)
claim(
    "the last row of G gives the memory after the chunk, momentum and forgetting included",
    torch.allclose(W_end, W_loop),
    "equations (16) and (18)",
)

# %% [markdown]
# ## A reading without the memory
#
# Every token reads with *its own* $W_t$. We could build all of them. But put the formula for
# $W_t$ into $y_t = W_t q_t$ and look at what is left of the outer product:
# $\delta_i k_i^\top q_t$ is $\delta_i$ times a plain number, $k_i \cdot q_t$. Those numbers are
# the matrix $Q K^\top$.

# %%
Y = beta[:, None] * (Q @ W0.T) + (G * (Q @ K.T)) @ Delta

claim(
    "one line of matrix products reads what the loop reads, for all tokens of a chunk",
    bool((Y - frozen).abs().max() < 1e-10),
    "equations (15) and (17)",
)

# %% [markdown]
# The loop is gone. What took its place looks like attention: queries against keys, a causal
# matrix $G$ in place of the mask, no softmax, and in place of the values the *errors*: what is
# already known is not written again. Momentum and forgetting together cost one $b \times b$
# matrix.
#
# ## From chunk to chunk
#
# The next chunk begins with the momentum $S_0$ that the last one left. It fades by
# $m_t = \eta_1 \cdots \eta_t$, and on its way it writes $f = D\,m$. That is all; here is the
# chunk.


# %%
def one_chunk(Q, K, V, theta, eta, alpha, W0, S0):
    E, D = segment_products(eta), segment_products(1 - alpha)  # the two double loops from above
    H = E * theta
    G = D @ H
    m, beta = eta.cumprod(0), (1 - alpha).cumprod(0)
    f = D @ m
    Delta = V - K @ W0.T
    Y = beta[:, None] * (Q @ W0.T) + f[:, None] * (Q @ S0.T) + (G * (Q @ K.T)) @ Delta
    W = beta[-1] * W0 + f[-1] * S0 + Delta.T @ (G[-1, :, None] * K)
    S = m[-1] * S0 + Delta.T @ (H[-1, :, None] * K)
    return Y, W, S


# %% [markdown]
# Now a longer sequence, 64 tokens, in chunks of every size. The judge is the library's literal
# loop, [`sequential`](../minititans/memory/sequential.py), which takes its gradients from
# autograd and knows nothing of H, D and G. With `exact=False` it freezes them as we do.

# %%
time = 64
K, Q = (F.normalize(torch.randn(time, dim), dim=-1) for _ in range(2))
V = torch.randn(time, dim)
theta, eta, alpha = 0.1 * torch.rand(time), torch.rand(time), 0.1 * torch.rand(time)


def in_chunks(b):
    W, S, readings = W0, torch.zeros(dim, dim), []
    for chunk in zip(*(x.split(b) for x in (Q, K, V, theta, eta, alpha))):
        Y, W, S = one_chunk(*chunk, W, S)
        readings.append(Y)
    return torch.cat(readings)


# %%
def rows(*tensors):  # the library has a batch and heads: [batch, heads, time, ...]
    return [x[None, None] for x in tensors]


def by_the_loop(b):
    start = MemoryState.start([W0[None]], batch=1)
    args = (*rows(Q, K, V), Gates(*rows(theta, eta, alpha)), start, b)
    return sequential(*args, exact=False)[0][0, 0]


largest = max((in_chunks(b) - by_the_loop(b)).abs().max() for b in (1, 4, 16, 64))
claim(
    "our chunks of 1, 4, 16 and 64 tokens agree with the literal loop to 1e-10",
    bool(largest < 1e-10),
    "equation (16)",
)

# %% [markdown]
# With `b = 1` nothing is frozen for longer than a token: that is (13) and (14) to the letter.
#
# ## Any depth
#
# Nothing above needed the memory to be a matrix, only each layer's gradient to be an outer
# product. It is: $\delta_i a_i^\top$, with $a_i$ what entered the layer for key $i$ and
# $\delta_i$ the error carried back to its output
# ([`errors_below`](../minititans/memory/network.py)). $G$ is the same for all layers. So
# [`chunked`](../minititans/memory/chunked.py) reads layer by layer with the line above.

# %%
differences = []
for depth in (1, 2, 3, 4):
    weights = [torch.randn(1, dim, dim) / dim**0.5 for _ in range(depth)]
    for b in (1, 5, 16):
        args = (*rows(Q, K, V), Gates(*rows(theta, eta, alpha)), MemoryState.start(weights, 1), b)
        for plain in (True, False):  # as built here, and as the library does it by default
            options = {"exact": not plain, "residual": not plain}
            difference = chunked(*args, **options)[0] - sequential(*args, **options)[0]
            differences.append(difference.abs().max())
claim(
    "the library's chunks equal the loop to 1e-10 for memories of depth 1 to 4",
    bool(max(differences) < 1e-10),
    "section 3.2",
)

# %% [markdown]
# ## Products without division
#
# The paper writes the weights of old writes as $\beta_t/\beta_i$, and it is tempting to compute
# them so: one cumulative product, one division. Let one token clear the memory, `alpha = 1`, as
# notebook 04 did.

# %%
alpha_clear = torch.tensor([0.1, 0.2, 1.0, 0.5])  # the third token forgets everything
beta = (1 - alpha_clear).cumprod(0)
print(beta[:, None] / beta[None, :])  # row t, column i

# %% [markdown]
# After the third token $\beta$ is 0, and 0/0 is not a number. But what we want is well known: the
# last entry of the last row is an empty product, 1, whatever happened before.
# [`segment_products`](../minititans/memory/gates.py) multiplies the gates *between* and divides
# nothing.

# %%
products = segment_products(1 - alpha_clear)
print(products)
quotients = beta[:, None] / beta[None, :]
claim(
    "dividing cumulative products gives NaN when alpha is 1",
    quotients.isnan().any(),
    "equation (16)",
)
claim(
    "products of the gates between are exact when alpha is 1: all before is gone, all after stays",
    bool((products[2:, :2] == 0).all() and products[3, 2] == 0.5 and products.isfinite().all()),
    "equation (16)",
)

# %% [markdown]
# ## What freezing costs
#
# First the worst case, where we can do the sum. The *same* pair fills the sequence,
# `eta = alpha = 0`. In a chunk all $b$ gradients say the same, "go there by `theta`", and none
# knows of the others. After the chunk the error is not $(1-\theta)^b$ but $1 - b\,\theta$ times
# what it was.

# %%
pair = torch.ones(1, 1, 64, 1)  # a key of 1, a value of 1
gates = Gates.constant(theta=0.5, eta=0.0, alpha=0.0, shape=(1, 1, 64))
left = {}
for b in (1, 2, 4, 8):
    start = MemoryState.start([torch.zeros(1, 1, 1)], batch=1)
    y, _ = chunked(pair, pair, pair, gates, start, chunk_size=b, exact=False)
    left[b] = abs(1 - y[0, 0, -1, 0].item())  # the error after 64 tokens
    print(f"chunks of {b}: error times {1 - b * 0.5:+.1f} a chunk, {left[b]:.2g} in the end")

# %%
expected = {b: abs(1 - b * 0.5) ** (64 // b) for b in left}
claim(
    "a pair that fills its chunk has its error multiplied by 1 - b theta in each chunk",
    all(abs(left[b] - expected[b]) < 1e-9 * max(1, expected[b]) for b in left),
    "equation (16)",
)
claim(
    "so a step that is safe token by token explodes in chunks of 8",
    left[8] > 1000 > left[1],
    "equation (16)",
)

# %% [markdown]
# So where gradients are frozen, larger chunks must take smaller steps. `NeuralMemory` does not
# freeze its last layer: by default it is `exact`, its surprises are measured at the current weights
# and found together by solving a triangular system
# ([`chunked`](../minititans/memory/chunked.py)). The layers below stay frozen, and take a step of
# $\theta/b$.
#
# Now an ordinary case. A memory learns random linear maps from 256 pairs and predicts each value
# before it is written. To be fair, every chunk size may choose the `theta` that suits it
# ([`freezing_cost`](../minititans/experiments/chunks.py), three seeds).

# %%
from minititans.experiments.chunks import FreezingConfig, freezing_cost
from minititans.viz.chunks import draw_freezing

freezing = freezing_cost(FreezingConfig())
draw_freezing(freezing)

# %%
sizes = list(freezing.config.sizes)
at = {b: freezing.best[:, sizes.index(b)] for b in sizes}  # [seeds]
claim(
    "even with the best theta for each size, chunks of 64 make over twice the error of chunks of 1",
    (at[64] > 2 * at[1]).all(),
    "equation (16)",
)
claim(
    "chunks of 4 make less than a fifth more error than chunks of 1",
    (at[4] < 1.2 * at[1]).all(),
    "equation (16)",
)
theta_at = {b: freezing.best_theta[:, sizes.index(b)] for b in sizes}
claim(
    "the best theta for chunks of 64 is less than a quarter of that for single tokens",
    (theta_at[64] < theta_at[1] / 4).all(),
    "equation (16)",
)

# %% [markdown]
# ## What it buys
#
# A training step, forward and back, of a memory with two layers. Beside ours stands a version
# that does build the weights of every token ([`scan`](../minititans/memory/scan.py)). Memory is
# counted, not sampled: the bytes that autograd keeps for the way back
# ([`chunk_costs`](../minititans/experiments/chunks.py)).

# %%
from minititans.experiments.chunks import CostConfig, chunk_costs
from minititans.viz.chunks import draw_costs

cost = chunk_costs(CostConfig())
draw_costs(cost)

# %%
ours, theirs = cost.seconds["matmuls"], cost.seconds["a weight per token"]
kept, kept_theirs = cost.kept["matmuls"], cost.kept["a weight per token"]
small, large = cost.config.sizes.index(1), cost.config.sizes.index(64)
claim(
    "chunks of 64 train more than 5 times as fast as chunks of 1",
    ours[large] < ours[small] / 5,
    "section 3.2",
)
claim(
    "at 64 tokens a chunk, matmuls are more than twice as fast as a weight per token",
    ours[large] < theirs[large] / 2,
    "figure 1",
)
claim(
    "and keep less than a tenth of the bytes for the backward pass",
    kept[large] < kept_theirs[large] / 10,
    "section 3.2",
)

# %% [markdown]
# With a weight per token, each round of the scan keeps another copy of every layer for every
# token. Matmuls keep one copy of the layers a *chunk*, and a few matrices of $b \times b$: the
# first shrink with $b$, the second grow. In between lies the least memory, near the size of a
# key.
#
# So the chunk size is a dial between learning well and running fast, and the figures say where to
# leave it, here at 8 to 32: small enough that the memory still corrects itself, large enough that
# the hardware has something to do.

# %% [markdown]
# ## The scan
#
# The paper computes the momentum in another way. Equation (18),
# $S_t = \eta_t S_{t-1} - \theta_t u_t$, is a linear recurrence, and *two of its steps make one
# step of the same form*: first $(\eta, x)$, then $(\eta', x')$ is $(\eta'\eta,\ \eta' x + x')$.
# So neighbours can be joined in pairs, pairs in fours: $\log_2 b$ rounds.

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

claim(
    "a scan of 6 rounds gives the momentum of 64 tokens that the recurrence gives step by step",
    bool(rounds == 6 and (s - torch.stack(one_by_one)).abs().max() < 1e-10),
    "equation (18)",
)
library = linear_recurrence(decay[None], x[None], torch.zeros(1))[0]
claim("the library's scan agrees", torch.allclose(library, s), "equation (18)")

# %% [markdown]
# The scan needs each $S_t$ as a whole matrix, one a token: that was "a weight per token" above. It
# is in the library to be understood, and as a second witness in the tests.
#
# ## Gates that a chunk shares
#
# Let all tokens of a chunk have the same gates (section 3.2, last paragraph). Then only the
# *distance* counts: $H_{ti} = \theta\,\eta^{t-i}$. Each diagonal of H is one number.

# %%
shared = torch.full((8,), 0.8)
H = 0.3 * segment_products(shared)
D = segment_products(torch.full((8,), 0.9))
draw_gate_matrices(H, D, D @ H)

# %% [markdown]
# A matrix with constant diagonals is a convolution: the surprises, folded with
# $1, \eta, \eta^2, \dots$. For that there is the fast Fourier transform
# ([`convolution`](../minititans/memory/scan.py)).

# %%
surprise = torch.randn(8)
kernel = 0.8 ** torch.arange(8)
by_hand = torch.stack([(kernel[: t + 1].flip(0) * surprise[: t + 1]).sum() for t in range(8)])
by_fft = convolution(shared[None], surprise[None], torch.zeros(1))[0]
by_scan = linear_recurrence(shared[None], surprise[None], torch.zeros(1))[0]
claim(
    "with gates that a chunk shares, the momentum is a convolution with the powers of eta",
    torch.allclose(by_hand, by_fft) and torch.allclose(by_fft, by_scan),
    "equation (18)",
)

# %% [markdown]
# ## The explorer
#
# One sequence of 64 pairs, read in chunks of the size that you choose. Try `alpha = 1` with the
# same gates for all; `eta = 1`, a momentum that never fades; and a large `theta` while you raise
# the chunk size.

# %%
from minititans.viz.chunks import chunk_explorer

chunk_explorer()

# %% [markdown]
# **What to take away**
#
# - Freezing the gradient inside a chunk breaks the chain: all surprises are known at once.
# - Momentum and forgetting are then fixed mixtures of those surprises: the matrices H, D and
#   $G = DH$.
# - A token reads through $G \odot (QK^\top)$. Its memory $W_t$ is never built, at any depth.
# - Larger chunks are faster. Chunks of 4 learn almost as well as single tokens; chunks of 64 make
#   about three times the error here, even with a smaller `theta`.
#
# **Exercise:** [06 Chunks](../exercises/06_chunks.ipynb): write H, D and G, a chunk's reading and
# writing, and enter a chunk in the middle.
#
# **In the paper:** section 3.2, equations (16) to (18) and figure 1 of [Titans: Learning to
# Memorize at Test Time](https://arxiv.org/abs/2501.00663). In the library:
# [`chunked`](../minititans/memory/chunked.py),
# [`segment_products`](../minititans/memory/gates.py), [`scan`](../minititans/memory/scan.py).
#
# **Next:** attention and this memory in one model, the paper's section 4.
