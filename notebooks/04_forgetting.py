# %% [markdown]
# # Learning to forget
#
# **Question:** a matrix has only so much room. What should a memory do when it is full, or when
# what it knows is no longer true?
#
# **You will build:** a memory that fades, with one more number, `alpha`; a theory of how much it
# should fade, beside measurements; and a test that tells a lasting memory from a dead one.
#
# **Time:** 25 minutes to read, without the optional part; about 20 s to run on 2 cores.
#
# **You need:** [02 Surprise is a gradient](02_surprise.ipynb) for the delta rule, and
# [03 Surprise that lingers](03_momentum.ipynb) for `S`.

# %%
import torch

from minititans import NeuralMemory
from minititans.course import claim
from minititans.memory import Gates, MemoryState, chunked, sequential
from minititans.viz.loop import draw_loop

draw_loop("memory", "forgetting")

# %% [markdown]
# ## A memory overflows
#
# The delta rule corrects the answer to *this* key. But keys are not orthogonal, so every new pair
# also damages the others a little. We write more and more random pairs into a 16 × 16 matrix with
# `theta = 1`, then ask for every one of them
# ([`recall_by_age`](../minititans/experiments/overflow.py)). Values have norm 1, so a memory that
# always answers zero has a squared error of 1. Call that *silence*.
#
# **Predict first.** How wrong is the matrix on average with 16 pairs in it, as many as it has
# dimensions? And with 64: is it as good as silence, better, or worse?

# %% tags=["predict"]
from minititans.experiments.overflow import expected_by_age, recall_by_age
from minititans.viz.forgetting import draw_overflow

counts = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96]
measured = torch.stack([recall_by_age(n).mean(1) for n in counts], 1)  # [seeds, counts]
expected = torch.stack([expected_by_age(n).mean() for n in counts])
draw_overflow(counts, expected, measured, dim=16)

# %% tags=["hide-source"]
# What was checked: eleven numbers of pairs, three seeds
print(f"error with 16 pairs: {measured[:, 5].mean():.1f}, with 64: {measured[:, 9].mean():.1f}")
claim(
    "the error of a full matrix agrees with theory to within 0.06",
    ((measured - expected).abs() < 0.06).all(),
    "equation (34)",
)
claim(
    "with three times as many pairs as dimensions a matrix answers worse than silence",
    (measured[:, 8:] > 1.1).all(),
    "appendix C",
)

# %% [markdown]
# With 64 it is worse than silence. A full memory does not say "I do not know"; it answers with
# something else.
#
# The line is theory. A random key of norm 1 has, on average, the share `1/d` of its squared length
# along any direction. So each new pair takes the share `1/d` away from an old one and puts its own
# value there ([`expected_by_age`](../minititans/experiments/overflow.py) adds that up). After `n`
# more pairs `(1 − 1/d)ⁿ` of a pair is left, and noise has taken the place of the rest.
#
# ## Fading
#
# The paper's answer is a gate that lets everything fade a little at every token, equation (13):
#
# $$M_t = (1 - \alpha_t)\, M_{t-1} + S_t$$
#
# Of what was written `n` tokens ago, the share `(1 − alpha)ⁿ` is left: a half-life of about
# `ln 2 / alpha` tokens. One pair, then tokens that write nothing (`theta = 0`):

# %%
alpha = 0.05
key = value = torch.nn.functional.normalize(torch.ones(4, dtype=torch.float64), dim=0)
k = key.expand(1, 1, 30, 4)  # [batch, heads, time, dim]
gates = Gates.constant(0.0, 0.0, alpha, (1, 1, 30), dtype=torch.float64)
gates.theta[..., 0] = 1.0  # only the first token writes
start = MemoryState.start([torch.zeros(1, 4, 4, dtype=torch.float64)], batch=1)
y, _ = sequential(k, k, k, gates, start, chunk_size=1)
left = y[0, 0] @ value
print("left after 0, 5, 10, 14, 29 tokens:", *(f"{x:.2f}" for x in left[[0, 5, 10, 14, 29]]))

# %% tags=["hide-source"]
# What was checked: the reading after each of 30 tokens
claim(
    "of a pair written n tokens ago (1 − alpha)ⁿ is left",
    torch.allclose(left, 0.95 ** torch.arange(30, dtype=torch.float64)),
    "equation (13)",
)

# %% [markdown]
# Now the full matrix again, 64 pairs, with and without forgetting. We look at the error by *age*:
# the pair written last has age 0.
#
# **Predict first.** Fading must hurt the old pairs, since less of them is left. Or must it? And
# what will it do to the newest ones?

# %% tags=["predict"]
from minititans.viz.forgetting import draw_by_age

by_age = {f"alpha = {alpha:g}": recall_by_age(64, alpha=alpha) for alpha in (0.0, 0.05)}
theory = {f"alpha = {alpha:g}": expected_by_age(64, alpha=alpha) for alpha in (0.0, 0.05)}
draw_by_age(theory, by_age)  # by_age: [seeds, ages] each

# %% tags=["hide-source"]
# What was checked: three seeds with 64 pairs, and with only 8
newest, newest_fading = (errors[:, :16].mean(1) for errors in by_age.values())  # [seeds]
oldest, oldest_fading = (errors[:, 32:].mean(1) for errors in by_age.values())
roomy, roomy_fading = (recall_by_age(8, alpha=alpha).mean(1) for alpha in (0.0, 0.05))
print(f"16 newest: {newest.mean():.2f}, with forgetting {newest_fading.mean():.2f}")
print(f"32 oldest: {oldest.mean():.2f}, with forgetting {oldest_fading.mean():.2f}")
print(f"8 pairs only: {roomy.mean():.2f}, with forgetting {roomy_fading.mean():.2f}")
claim(
    "a full memory that forgets remembers the newest pairs better, and its answers to old "
    "questions are nearer to silence",
    (newest_fading < 0.95 * newest).all() and (oldest_fading < 0.85 * oldest).all(),
    "equation (13)",
)
claim(
    "while there is room, forgetting only costs",
    (roomy_fading > 1.05 * roomy).all(),
    "equation (13)",
)

# %% [markdown]
# Both get better. Old questions get fainter answers, nearer to "I do not know"; and because there
# is less old noise in the matrix, the newest pairs come back cleaner. That is not free: with only
# eight pairs there is nothing to make room for, and forgetting only does harm.
#
# ## When the world changes
#
# A memory can also be wrong because the world has moved on. Now the values follow a rule: `v = A k`
# with a random matrix `A`. After 32 tokens another `A` takes over, then a third. Before each token
# is written, the memory predicts its value
# ([`drift_error`](../minititans/experiments/forgetting.py)).

# %%
from minititans.experiments.forgetting import Drift, drift_error, expected_drift
from minititans.viz.forgetting import draw_drift

drift = Drift(length=32, contexts=3, dim=8, theta=1.0)
alphas = {"alpha = 0": torch.zeros(1, 1), "alpha = 0.05": torch.full((1, 1), 0.05)}
expected = {name: expected_drift(alpha, drift)[0] for name, alpha in alphas.items()}
measured = {name: drift_error(alpha, drift, streams=64)[:, 0] for name, alpha in alphas.items()}
draw_drift(expected, measured, drift)

# %% tags=["hide-source"]
# What was checked: three seeds, after each of two changes
keeps, forgets = (errors.view(3, 3, 32)[:, 1:].mean(1) for errors in measured.values())
claim(
    "after a change of context a memory that forgets has the smaller error",
    (forgets[:, :12].mean(1) < 0.8 * keeps[:, :12].mean(1)).all(),
    "section 3.1",
)
claim(
    "while a context lasts, forgetting costs: over its last tokens the memory that keeps "
    "everything has the smaller error",
    (keeps[:, -12:].mean(1) < 0.6 * forgets[:, -12:].mean(1)).all(),
    "section 3.1",
)
distance = [(measured[name].mean(0) - expected[name]).abs().max() for name in measured]
claim(
    "errors under drift follow the theory, token by token, within 0.2",
    max(distance) < 0.2,
    "equation (13)",
)

# %% [markdown]
# ## How much to forget
#
# It is a trade-off: forget for the sake of the next context, or keep for the sake of this one.
# Which matters more depends on how long a context lasts. We try 16 alphas on contexts of 4 to 128
# tokens, with three seeds, and draw the mean error after the first context.

# %%
from minititans.experiments.forgetting import after_the_first, best_alpha
from minititans.viz.forgetting import draw_valleys

lengths = [4, 8, 16, 32, 64, 128]
fine, alphas = torch.logspace(-3, 0, 121), torch.logspace(-3, 0, 16)
expected, measured = {}, {}
for length in lengths:
    drift = Drift(length, contexts=3, dim=8)
    expected[length] = after_the_first(expected_drift(fine[:, None], drift), drift)
    measured[length] = after_the_first(drift_error(alphas[:, None], drift), drift)
best = best_alpha(lengths)  # in theory
grid = torch.stack([alphas[found.argmin(1)] for found in measured.values()], 1)  # [seeds, lengths]
draw_valleys(fine, expected, alphas, measured)

# %% tags=["hide-source"]
# What was checked: six lengths, in theory and for three seeds
products = best * torch.tensor(lengths)
print("best alpha · length, in theory:", *(f"{p:.1f}" for p in products))
claim(
    "contexts twice as long want an alpha at least a third smaller: in theory and in every seed",
    (grid[:, 1:] < grid[:, :-1] / 1.5).all() and (best[1:] < best[:-1] / 1.5).all(),
    "section 3.1",
)
claim(
    "the best alpha is one to two times one over the context's length",
    ((products > 1) & (products < 2.1)).all(),
    "ours",
)

# %% [markdown]
# Each length has a valley, and the longer the context, the further left the valley. A rule of
# thumb: the best constant alpha is one to two times one over the length of a context.
#
# ## Clearing
#
# One alpha for all tokens is a compromise. The paper makes it a function of the token: keep
# everything while the context lasts (`alpha → 0`), clear the memory when it ends (`alpha → 1`).

# %%
drift = Drift(length=16, contexts=3, dim=8)
at_first = torch.where(drift.first, 1.0, 0.0)[None]  # [1, time]
constant = best_alpha([16])[:, None]
ways = {
    "never forgets": torch.zeros(1, 1),
    f"best constant alpha, {constant.item():.2f}": constant,
    "clears at a context's first token": at_first,
    "clears one token earlier": at_first.roll(-1, 1),
}
errors = [after_the_first(expected_drift(alpha, drift), drift).item() for alpha in ways.values()]
for name, error in zip(ways, errors):
    print(f"{name:36} {error:.2f}")

# %% [markdown]
# Clearing one token earlier would be better still: then the memory meets the new context with
# silence instead of the old rule. But a gate cannot know of a change before it sees it.
#
# A detail: the error is measured at the memory *before* it is cleared. With `theta = alpha = 1` the
# memory is left with `(v − M k) kᵀ`: it corrects an answer that is already gone, and what it knew
# comes back with the opposite sign. So the library's layer multiplies theta by `1 − alpha`
# ([`Gates.in_shares`](../minititans/memory/gates.py)): what is forgotten need not be corrected too.
#
# Does `alpha = 1` clear everything? Then two memories with different pasts must be the same
# afterwards, to the last bit.

# %%
from minititans.experiments.overflow import random_units

pasts = random_units(2, 1, 20, 8, seed=1)  # [batch, heads, time, dim]: two pasts…
future = random_units(1, 1, 20, 8, seed=2).expand(2, 1, 20, 8)  # …and one future
k = torch.cat([pasts, future], 2)
gates = Gates.constant(0.5, 0.8, 0.01, k.shape[:3])
gates.theta[..., 20], gates.eta[..., 20], gates.alpha[..., 20] = 0.0, 0.0, 1.0
start = MemoryState.start([torch.zeros(1, 8, 8)], batch=2)
y, state = chunked(k, k, k.roll(1, -1), gates, start, chunk_size=1)

# %% tags=["hide-source"]
# What was checked: the errors above, and every bit of the two memories
claim(
    "clearing at the change beats every constant alpha",
    errors[2] < 0.95 * expected[16].min().item(),
    "section 3.1",
)
claim(
    "alpha = 1 with eta = theta = 0 clears exactly: after that, different pasts leave the same "
    "memory, bit for bit",
    torch.equal(state.weights[0][0], state.weights[0][1])
    and not torch.equal(y[0, :, 19], y[1, :, 19]),
    "equation (13)",
)

# %% [markdown]
# ## Forgetting nothing
#
# The other extreme matters just as much. A layer does not know how long its text will be, and a
# memory that is meant to last must be able to forget *nothing*. How small an alpha is small enough?

# %%
from minititans.experiments.forgetting import share_left
from minititans.viz.lasting import draw_left

tokens = [round(2 ** (n / 2)) for n in range(35)]
draw_left(tokens, {alpha: share_left(alpha, tokens) for alpha in (1e-3, 1e-4, 1e-5)})

# %% [markdown]
# An alpha of a thousandth sounds harmless, yet after 16,384 tokens nothing is left. Training uses
# short texts, where a thousandth costs hardly anything, so there is little to push alpha down. And
# a sigmoid comes close to 0 only for very negative inputs. The library's gate is therefore the
# *fourth power* of a sigmoid, and it starts at 1e-5
# ([`NeuralMemory`](../minititans/memory/neural_memory.py)):

# %%
for alpha in (1e-3, 1e-5, 1e-9):
    once, fourth = (torch.logit(torch.tensor(x).double()) for x in (alpha, alpha**0.25))
    print(f"alpha = {alpha:g} needs  sigmoid({once:.1f})  or  sigmoid({fourth:.1f})⁴")

# %% tags=["hide-source"]
# What was checked: the formula, and the gates of an untrained layer over 200 tokens
torch.manual_seed(0)
_, _, trace = NeuralMemory(dim=16, heads=2)(torch.randn(1, 200, 16), trace=True)
far = [16_384]
claim(
    "at alpha = 1e-3 less than a millionth of a write is left after 16,384 tokens, at 1e-5 over "
    "80 %",
    share_left(1e-3, far).item() < 1e-6 and share_left(1e-5, far).item() > 0.8,
    "equation (13)",
)
claim(
    "an untrained NeuralMemory forgets between 5e-6 and 2e-5 with every token",
    ((trace.alpha > 5e-6) & (trace.alpha < 2e-5)).all(),
    "ours",
)

# %% [markdown]
# ## What forgetting does to a deep memory
#
# A preview of notebook 05, because it belongs here: the memory `M` may be a network of several
# layers, with weights `W₁`, `W₂` and so on. Then (13) shrinks *every* layer towards zero. A matrix
# that has faded simply starts over. A network of plain layers, `W₂ silu(W₁ k)`, cannot: each
# layer's gradient contains the other layer as a factor, so when both are near zero, both gradients
# are too.
#
# [`read_and_probe`](../minititans/experiments/alive.py) tests that. An untrained memory with
# `alpha = 0.001` reads random tokens, then a new text of 64 tokens, eight times over. By what share
# has its loss on that text fallen?
#
# **Predict first.** Memories of one, two and three plain layers have read 4,096 tokens. Which of
# them can still learn?

# %% tags=["predict"]
from minititans.experiments.alive import AliveConfig, run
from minititans.viz.lasting import draw_alive

small = {"chunk_sizes": (64,), "after": (64, 256, 1024, 4096)}
plain = run(AliveConfig(("plain-fading",), depths=(1, 2, 3), **small), progress=False)
adding = run(AliveConfig(("residual-fading",), depths=(3,), **small), progress=False)
draw_alive([*plain, *adding])

# %% tags=["hide-source"]
# What was checked: the mean of three seeds, after 4,096 tokens
shares = [memory.learned[-1] for memory in (*plain, *adding)]
print("after 4,096 tokens it learns:", *(f"{abs(share):.0%}" for share in shares))
claim(
    "forgetting kills a deep memory of plain layers: with alpha = 0.001, two or three layers learn "
    "under 1 % of a new text after 4,096 tokens, and one layer over 12 %",
    max(shares[1:3]) < 0.01 and shares[0] > 0.12,
    "equation (13)",
)
claim(
    "with layers that add to a vector of length 1, a memory of three layers stays alive",
    shares[3] > 0.12 and shares[3] > 0.8 * adding[0].learned[0],
    "ours",
)

# %% [markdown]
# Two or three plain layers are dead after a thousand tokens: nothing that they read leaves a trace.
# The dashed line, which lies on top of the single layer's, is the library's kind of layer. These
# layers *add* to what passes through them, so a faded layer lets its input pass, and the memory
# goes on learning as a shallower one. Notebook 05 derives them. (`minititans experiment alive` runs
# this up to 131,072 tokens and for more settings.)
#
# ## Try it
#
# The explorer starts with `alpha = 0.05`, `theta = 1` and a rule that changes every 24 tokens.
#
# 1. Let the rule never change (96 tokens): is any alpha better than 0?
# 2. Find the best alpha for a change every 12 tokens by eye. How does it compare with 1/12?
# 3. Set alpha back to 0 and choose unrelated pairs. Theory says that the error passes silence at
#    age `d · ln 2`. Does it, for d = 4 and d = 16?

# %%
from minititans.viz.forgetting import forgetting_explorer

forgetting_explorer()

# %% [markdown]
# The main path ends here. The summary is at the very bottom, and notebook 05 needs nothing in
# between.
#
# ## Deeper (optional)
#
# Three questions remain: what an optimiser would call alpha, whether a gate can learn all this, and
# how large a memory can get.
#
# ### It is weight decay
#
# The memory learns by gradient descent, so `alpha` must have a name there too. Train a plain matrix
# with PyTorch's own SGD, one pair at a time. `decay` shrinks the weights at each step, on top of
# what the optimiser does.


# %%
def train_with_sgd(k, v, decay=0.0, **options):
    M = torch.nn.Parameter(torch.zeros(8, 8, dtype=torch.float64))
    optimiser = torch.optim.SGD([M], **options)
    for key, value in zip(k, v):
        optimiser.zero_grad()
        ((M @ key - value).square().sum() / 2).backward()  # (12)
        M.data.mul_(1 - decay)
        optimiser.step()
    return M.detach()


def memory_after(k, v, theta, eta, alpha):
    gates = Gates.constant(theta, eta, alpha, (1, 1, len(k)), dtype=torch.float64)
    start = MemoryState.start([torch.zeros(1, 8, 8, dtype=torch.float64)], batch=1)
    _, state = sequential(k[None, None], k[None, None], v[None, None], gates, start, chunk_size=1)
    return state.weights[0][0, 0]


# %%
k, v = random_units(2, 40, 8, seed=0).double()
memory = memory_after(k, v, theta=0.5, eta=0.0, alpha=0.1)
trained = train_with_sgd(k, v, lr=0.5, weight_decay=0.1 / 0.5)
claim("forgetting is SGD's weight decay", torch.allclose(memory, trained), "equation (13)")

# %% [markdown]
# With momentum we must look more closely. PyTorch's SGD adds the decay to the gradient, so the
# decay passes through the momentum too. The paper's (13) shrinks the weights directly and leaves
# the momentum alone. That is *decoupled* weight decay, the kind that AdamW made popular.

# %%
memory = memory_after(k, v, theta=0.1, eta=0.8, alpha=0.1)
coupled = train_with_sgd(k, v, lr=0.1, momentum=0.8, weight_decay=0.1 / 0.5)
decoupled = train_with_sgd(k, v, decay=0.1, lr=0.1, momentum=0.8)
print(f"distance from SGD's decay: {(memory - coupled).norm():.1f}")
print(f"from decoupled decay: {(memory - decoupled).norm():.1f}")

# %% tags=["hide-source"]
# What was checked: all 64 weights after 40 pairs
claim(
    "with momentum it is decoupled weight decay, not SGD's",
    torch.allclose(memory, decoupled) and (memory - coupled).norm() > 0.1,
    "equation (13)",
)

# %% [markdown]
# ### A gate that learns to forget
#
# Theory and a grid of trials gave us the best alpha. In Titans the outer loop *learns* it, by
# gradient descent through the memory. Here alpha starts at 0.12, with no knowledge of the grid
# ([`learn_alpha`](../minititans/experiments/forgetting.py)).

# %%
from minititans.experiments.forgetting import learn_alpha
from minititans.viz.forgetting import draw_best_alpha

courses = {length: learn_alpha(Drift(length, contexts=3, dim=8)) for length in (8, 16)}
learned = {length: course.alpha[-10:].mean(0) for length, course in courses.items()}  # [seeds]
draw_best_alpha(lengths, best, grid, learned)

# %% [markdown]
# Now give the gate one bit, "this is the first token of a context", and two numbers to learn: alpha
# there and alpha elsewhere.

# %%
from minititans.viz.forgetting import draw_learned_alpha

course = learn_alpha(drift, sees_the_change=True)
draw_learned_alpha(course)

# %% tags=["hide-source"]
# What was checked: the last ten training steps of three seeds
alpha, alpha_first, error = (part[-10:].mean(0) for part in vars(course).values())  # [seeds]
claim(
    "learned through the memory, alpha ends within a fifth of the best",
    all(((found / best[lengths.index(n)] - 1).abs() < 0.2).all() for n, found in learned.items()),
    "section 3.1",
)
claim(
    "a gate that sees the change learns to clear there and to keep elsewhere",
    (alpha_first > 0.9).all() and (alpha < 0.5 * constant).all(),
    "section 3.1",
)
claim(
    "with a gate that sees the change, the error is at least a tenth smaller than with the best "
    "constant alpha",
    (error < 0.9 * expected[16].min()).all(),
    "section 3.1",
)

# %% [markdown]
# ### A bound that holds forever
#
# Forgetting has one more use. Take norms in (13): if `‖S‖` never exceeds `s` and alpha is constant,
#
# $$\|M_t\| \le (1-\alpha)\,\|M_{t-1}\| + s \quad\Longrightarrow\quad
# \|M_t\| \le (1-\alpha)^t\|M_0\| + \frac{s}{\alpha}.$$
#
# And `s`? With `theta = 1 − eta`, `S` never gets longer than the largest surprise
# ([`norms_of_streams`](../minititans/experiments/bound.py)). We try three streams: random pairs,
# and a worst case with and without forgetting. In the worst case one key is repeated forever and
# its value is always 1 more than the memory's answer, so the surprise never gets smaller.

# %%
from minititans.experiments.bound import norms_of_streams
from minititans.viz.lasting import draw_norms

norms, s = norms_of_streams(alpha=0.02)  # [streams, time], [streams]
names = ("random pairs", "the same surprise forever", "the same, alpha = 0")
draw_norms(dict(zip(names, norms)), {"bound s / alpha = 50": 1.0 / 0.02})

# %% tags=["hide-source"]
# What was checked: 300 tokens of each stream
print("norm after 300 tokens:", *(f"{norm:.0f}" for norm in norms[:, -1]))
claim(
    "the norm of a memory that forgets stays below s / alpha, and if the same surprise goes on "
    "forever, it comes within a hundredth of that bound",
    (norms[:2] <= 1.001 * s[:2, None] / 0.02).all() and norms[1, -1] > 0.99 * 50,
    "equation (13)",
)
claim(
    "without forgetting nothing holds the norm: after 300 tokens it is over five times that bound",
    norms[2, -1] > 5 * 50,
    "equation (13)",
)

# %% [markdown]
# With an alpha of 1e-5 that bound is far away. What keeps the weights of a
# [`NeuralMemory`](../minititans/memory/neural_memory.py) small is that it writes *errors*: what has
# been learned is no longer a surprise.

# %%
torch.manual_seed(0)
same_token = torch.randn(1, 1, 16).expand(1, 200, 16)
_, _, trace = NeuralMemory(dim=16, heads=2, depth=1)(same_token, trace=True)
surprise = trace.surprise[0]  # [heads, time]
claim(
    "in a NeuralMemory the surprise of a token read again and again falls below a hundredth of "
    "its peak",
    (surprise[:, -1] < surprise.amax(1) / 100).all(),
    "equation (14)",
)

# %% [markdown]
# **What to take away**
#
# - A full matrix answers old questions with noise, worse than silence. Forgetting makes those
#   answers faint and the newest ones better.
# - The best constant alpha is one to two times one over the length of a context. An alpha that
#   depends on the token is better: near 0 inside a context, 1 at its end.
# - A gate must be able to close: at `alpha = 0.001` nothing is left after 16,384 tokens. The
#   library starts at 1e-5, with the fourth power of a sigmoid.
# - Forgetting shrinks every layer towards zero. A deep memory of plain layers dies of it; layers
#   that add to what passes through them stay alive.
# - *Deeper:* alpha is weight decay (the decoupled kind), a gate can learn it, and it bounds the
#   memory: `‖M‖ ≤ s / alpha`.
#
# **Exercise:** [04 Forgetting](../exercises/04_forgetting.ipynb): write the whole rule, find
# what is left of a write, and set a half-life.
#
# **In the paper:** section 3.1, "Forgetting Mechanism", equations (13) and (14) of [Titans:
# Learning to Memorize at Test Time](https://arxiv.org/abs/2501.00663). (For a matrix the appendix
# writes them as (32) and (33); on its right side (32) has $M_t$ where $M_{t-1}$ is meant.) In the
# library: [`sequential`](../minititans/memory/sequential.py),
# [`segment_products`](../minititans/memory/gates.py).
#
# **Next:** [05 A deeper memory](05_depth.ipynb)
