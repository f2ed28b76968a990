# %% [markdown]
# # Learning to forget
#
# **Question:** a matrix has only so much room. What should a memory do when it is full, or when
# what it knows is no longer true?
#
# **You will build:** a memory that fades, from one more number, `alpha`; a theory for how much it
# should fade, held against measurements; and a gate that learns when to clear the memory.
#
# **Time:** about 18 s on 2 cores.
#
# **You need:** [02 Surprise is a gradient](02_surprise.ipynb) for the delta rule, and
# [03 Surprise that lingers](03_momentum.ipynb) for `S`.

# %%
import math

import torch

from minititans.course import claim
from minititans.experiments.overflow import expected_by_age, recall_by_age
from minititans.memory import Gates, MemoryState, chunked, sequential
from minititans.viz.forgetting import draw_overflow

# %% [markdown]
# ## A memory overflows
#
# The delta rule overwrites what is wrong about *this* key. But keys are not orthogonal: every new
# pair also damages the others a little. Write more and more random pairs into a 16 × 16 matrix with
# `theta = 1`, then ask for every one of them
# ([`recall_by_age`](../minititans/experiments/overflow.py)). Values have norm 1, so a memory
# that answers nothing has a squared error of 1: call that *silence*.

# %%
counts = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96]
measured = torch.stack([recall_by_age(n).mean(1) for n in counts], 1)  # [seeds, counts]
expected = torch.stack([expected_by_age(n).mean() for n in counts])
draw_overflow(counts, expected, measured, dim=16)

# %% [markdown]
# The line is theory. Along any direction a random key of norm 1 has, on average, `1/d` of its
# squared length. So each new pair takes the share `1/d` away from an old one and puts its own
# value in the place. Both can be added up
# ([`expected_by_age`](../minititans/experiments/overflow.py)).

# %%
print(f"error with 16 pairs: {measured[:, 5].mean():.1f}, with 64: {measured[:, 9].mean():.1f}")
claim(
    "the error of a full matrix is the theory's, within 0.06",
    bool(((measured - expected).abs() < 0.06).all()),
    "equation (34)",
)
claim(
    "with three times as many pairs as dimensions a matrix answers worse than silence",
    bool((measured[:, 8:] > 1.1).all()),
    "appendix C",
)

# %% [markdown]
# Worse than silence: a full memory does not say "I do not know". It answers with something else.
# Which pairs are lost? Look at the error by *age*, with 64 pairs in the matrix.

# %%
from minititans.viz.forgetting import draw_by_age

by_age = {"alpha = 0": recall_by_age(64)}  # [seeds, ages]
theory = {"alpha = 0": expected_by_age(64)}
draw_by_age(theory, by_age)

# %% [markdown]
# The newest pair is perfect. After `n` more pairs `(1 − 1/d)ⁿ` of it is left, and the rest is noise
# of the same size: the error passes 1 at age `d · ln 2`, here 11, and ends at 2, the distance
# between two unrelated values.

# %%
turning = 16 * math.log(2)
mean = by_age["alpha = 0"].mean(0)
print(f"error passes 1 near age {turning:.0f}; the oldest pairs have {mean[-16:].mean():.1f}")
claim(
    "pairs much younger than d ln 2 are remembered, pairs much older are worse than silence",
    bool((mean[:8] < 0.9).all()) and bool((mean[16:] > 1.1).all()),
    "ours",
)

# %% [markdown]
# ## Fading
#
# The paper's answer is a gate that lets everything fade a little at every token, equation (13):
#
# $$M_t = (1 - \alpha_t)\, M_{t-1} + S_t$$
#
# (For a matrix, with the gradient in `S` written out, the appendix calls this (32) and (33). On its
# right side (32) has $M_t$ where $M_{t-1}$ is meant.)
#
# What was written `n` tokens ago is left at `(1 − alpha)ⁿ`: a half-life of about `ln 2 / alpha`
# tokens. One pair, then tokens that write nothing (`theta = 0`):

# %%
alpha = 0.05
key = value = torch.nn.functional.normalize(torch.ones(4, dtype=torch.float64), dim=0)
k = key.expand(1, 1, 30, 4)  # [batch, heads, time, dim]
gates = Gates.constant(0.0, 0.0, alpha, (1, 1, 30), dtype=torch.float64)
gates.theta[..., 0] = 1.0  # only the first token writes
start = MemoryState.start([torch.zeros(1, 4, 4, dtype=torch.float64)], batch=1)
y, _ = sequential(k, k, k, gates, start, chunk_size=1)
left = (y[0, 0] @ value)[[0, 5, 10, 14, 29]]
print("left after 0, 5, 10, 14, 29 tokens:", *(f"{share:.2f}" for share in left))
claim(
    "of a pair written n tokens ago (1 − alpha)ⁿ is left",
    torch.allclose(y[0, 0] @ value, 0.95 ** torch.arange(30, dtype=torch.float64)),
    "equation (13)",
)

# %% [markdown]
# Now the full matrix again, with and without forgetting:

# %%
by_age["alpha = 0.05"] = recall_by_age(64, alpha=0.05)
theory["alpha = 0.05"] = expected_by_age(64, alpha=0.05)
draw_by_age(theory, by_age)

# %%
keeps, fades = (errors[:, :16].mean(1) for errors in by_age.values())  # the 16 newest, [seeds]
old_keeps, old_fades = (errors[:, 32:].mean(1) for errors in by_age.values())
print(f"16 newest: {keeps.mean():.2f}, with forgetting {fades.mean():.2f}")
print(f"32 oldest: {old_keeps.mean():.2f}, with forgetting {old_fades.mean():.2f}")
claim(
    "a memory that forgets old pairs remembers the newest sixteen better",
    bool((fades < 0.95 * keeps).all()),
    "equation (13)",
)
claim(
    "forgetting brings the answers to old questions nearer to silence",
    bool((old_fades < 0.85 * old_keeps).all()),
    "equation (13)",
)

# %% [markdown]
# Both at once: old questions get fainter answers, nearer to "I do not know", and because
# there is less old noise in the matrix, the newest pairs come back cleaner. Is that free? Only
# because the matrix was full. With eight pairs in it there is nothing to make room for:

# %%
roomy, faded = recall_by_age(8).mean(1), recall_by_age(8, alpha=0.05).mean(1)  # [seeds]
print(f"8 pairs: {roomy.mean():.2f}, with forgetting {faded.mean():.2f}")
claim(
    "while there is room, forgetting only costs",
    bool((faded > 1.05 * roomy).all()),
    "equation (13)",
)

# %% [markdown]
# ## It is weight decay
#
# The memory learns by gradient descent, so `alpha` must have a name there too. Train a plain
# matrix with PyTorch's own SGD, one pair at a time. `decay` shrinks the weights at each step,
# beside what the optimiser does.

# %%
from minititans.experiments.overflow import random_units


def train_with_sgd(k, v, decay=0.0, **options):
    W = torch.nn.Parameter(torch.zeros(8, 8, dtype=torch.float64))
    optimiser = torch.optim.SGD([W], **options)
    for key, value in zip(k, v):
        optimiser.zero_grad()
        ((W @ key - value).square().sum() / 2).backward()  # (12)
        W.data.mul_(1 - decay)
        optimiser.step()
    return W.detach()


# %% [markdown]
# And the memory, on the same 40 pairs:


# %%
def memory_after(k, v, theta, eta, alpha):
    gates = Gates.constant(theta, eta, alpha, (1, 1, len(k)), dtype=torch.float64)
    start = MemoryState.start([torch.zeros(1, 8, 8, dtype=torch.float64)], batch=1)
    _, state = sequential(k[None, None], k[None, None], v[None, None], gates, start, chunk_size=1)
    return state.weights[0][0, 0]


k, v = random_units(2, 40, 8, seed=0).double()
memory = memory_after(k, v, theta=0.5, eta=0.0, alpha=0.1)
trained = train_with_sgd(k, v, lr=0.5, weight_decay=0.1 / 0.5)
claim("forgetting is SGD's weight decay", torch.allclose(memory, trained), "equation (13)")

# %% [markdown]
# With momentum one must look closer. PyTorch's SGD adds the decay to the gradient, so it goes
# through the momentum too. The paper's (13) shrinks the weights directly, beside the momentum.
# That is *decoupled* weight decay, the kind that AdamW made popular.

# %%
memory = memory_after(k, v, theta=0.1, eta=0.8, alpha=0.1)
coupled = train_with_sgd(k, v, lr=0.1, momentum=0.8, weight_decay=0.1 / 0.5)
decoupled = train_with_sgd(k, v, decay=0.1, lr=0.1, momentum=0.8)
print(f"distance from SGD's decay: {(memory - coupled).norm():.1f}")
print(f"from decoupled decay: {(memory - decoupled).norm():.1f}")
claim(
    "with momentum it is decoupled weight decay, not SGD's",
    torch.allclose(memory, decoupled) and bool((memory - coupled).norm() > 0.1),
    "equation (13)",
)

# %% [markdown]
# ## When the world changes
#
# Now the keys lead to values by a rule: `v = A k` with a random matrix `A`. For 32 tokens that
# is the truth, then another `A` takes its place, and another. Before each token the memory
# predicts its value ([`drift_error`](../minititans/experiments/forgetting.py)). Here theory is
# exact ([`expected_drift`](../minititans/experiments/forgetting.py)): it follows two numbers,
# how far the memory is from the truth, and in which direction.

# %%
from minititans.experiments.forgetting import Drift, drift_error, expected_drift
from minititans.viz.forgetting import draw_drift

drift = Drift(length=32, contexts=3, dim=8, theta=1.0)
alphas = {"alpha = 0": torch.zeros(1, 1), "alpha = 0.05": torch.full((1, 1), 0.05)}
expected = {name: expected_drift(alpha, drift)[0] for name, alpha in alphas.items()}
measured = {name: drift_error(alpha, drift, streams=64)[:, 0] for name, alpha in alphas.items()}
draw_drift(expected, measured, drift)

# %%
keeps, forgets = (errors.view(3, 3, 32)[:, 1:].mean(1) for errors in measured.values())
print(
    f"first 12 tokens of a context: {keeps[:, :12].mean():.1f} against {forgets[:, :12].mean():.1f}"
)
print(f"last 12: {keeps[:, -12:].mean():.2f} against {forgets[:, -12:].mean():.2f}")
claim(
    "after a change of context a memory that forgets errs less",
    bool((forgets[:, :12].mean(1) < 0.8 * keeps[:, :12].mean(1)).all()),
    "section 3.1",
)
claim(
    "while a context lasts forgetting costs: in its last tokens the memory that keeps errs less",
    bool((keeps[:, -12:].mean(1) < 0.6 * forgets[:, -12:].mean(1)).all()),
    "section 3.1",
)
claim(
    "errors under drift follow the theory, token by token, within 0.2",
    all(
        bool(((m.mean(0) - e).abs() < 0.2).all())
        for m, e in zip(measured.values(), expected.values())
    ),
    "equation (13)",
)

# %% [markdown]
# ## How much to forget
#
# A bargain, then: forget for the sake of the next context, keep for the sake of this one. How
# long a context lasts must decide. We try 16 alphas on contexts of 4 to 128 tokens, with three
# seeds, and draw the mean error after the first context.

# %%
from minititans.experiments.forgetting import after_the_first
from minititans.viz.forgetting import draw_valleys

lengths = [4, 8, 16, 32, 64, 128]
fine, alphas = torch.logspace(-3, 0, 121), torch.logspace(-3, 0, 16)
expected, measured = {}, {}
for length in lengths:
    drift = Drift(length, contexts=3, dim=8)
    expected[length] = after_the_first(expected_drift(fine[:, None], drift), drift)
    tried = drift_error(alphas[:, None], drift)  # [seeds, alphas, time]
    measured[length] = after_the_first(tried, drift)
draw_valleys(fine, expected, alphas, measured)

# %% [markdown]
# Each length has a valley, and the valleys move to the left. Where is the bottom? Before looking,
# one more way to find it: *learn* alpha, by gradient descent through the memory, as
# Titans does. It starts at 0.12 and knows nothing of the grid
# ([`learn_alpha`](../minititans/experiments/forgetting.py)).

# %%
from minititans.experiments.forgetting import learn_alpha

learned = {}
for length in (8, 16):
    course = learn_alpha(Drift(length, contexts=3, dim=8))
    learned[length] = course.alpha[-10:].mean(0)  # [seeds]
    print(f"contexts of {length} tokens: learned alpha", *(f"{a:.2f}" for a in learned[length]))

# %%
from minititans.viz.forgetting import draw_best_alpha

theory = torch.stack([fine[expected[length].argmin()] for length in lengths])
bottoms = [alphas[measured[length].argmin(1)] for length in lengths]
grid = torch.stack(bottoms, 1)  # [seeds, lengths]
draw_best_alpha(lengths, theory, grid, learned)

# %%
products = theory * torch.tensor(lengths)
print("best alpha · length, in theory:", *(f"{p:.1f}" for p in products))
claim(
    "contexts twice as long want an alpha at least a third smaller: in theory and in every seed",
    bool((grid[:, 1:] < grid[:, :-1] / 1.5).all()) and bool((theory[1:] < theory[:-1] / 1.5).all()),
    "section 3.1",
)
claim(
    "the best alpha is one to two times one over the context's length",
    bool(((products > 1) & (products < 2.1)).all()),
    "ours",
)
claim(
    "learned through the memory, alpha ends within a fifth of the best",
    all(bool(((learned[n] / theory[lengths.index(n)] - 1).abs() < 0.2).all()) for n in learned),
    "section 3.1",
)

# %% [markdown]
# ## Clearing
#
# One alpha for all tokens is a compromise. The paper makes it a function of the token: keep
# everything while the context lasts (`alpha → 0`), clear the memory when it ends (`alpha → 1`).
# Does `alpha = 1` really clear? Then two memories with different pasts must be the same afterwards,
# to the last bit, if nothing is written at that token: `theta = 0`, and `eta = 0`, or the old
# momentum would come in again.

# %%
pasts = random_units(2, 1, 20, 8, seed=1)  # [batch, heads, time, dim]: two pasts…
future = random_units(1, 1, 20, 8, seed=2).expand(2, 1, 20, 8)  # …and one future
k = torch.cat([pasts, future], 2)
v = k.roll(1, -1)
gates = Gates.constant(0.5, 0.8, 0.01, k.shape[:3])
gates.theta[..., 20], gates.eta[..., 20], gates.alpha[..., 20] = 0.0, 0.0, 1.0
start = MemoryState.start([torch.zeros(1, 8, 8)], batch=2)
y, state = chunked(k, k, v, gates, start, chunk_size=1)
claim(
    "alpha = 1 with eta = theta = 0 clears exactly: after it, different pasts leave bit for bit "
    "the same memory",
    torch.equal(state.weights[0][0], state.weights[0][1])
    and not torch.equal(y[0, :, 19], y[1, :, 19]),
    "equation (13)",
)

# %% [markdown]
# And if that token does write? Then (13) leaves exactly its `S`, and nothing else:

# %%
gates.theta[..., 20], gates.eta[..., 20] = 0.5, 0.8
until = gates.map(lambda gate: gate[..., :21])
_, state = chunked(k[:, :, :21], k[:, :, :21], v[:, :, :21], until, start, chunk_size=1)
claim(
    "where alpha is 1 the memory is the token's S, bit for bit",
    torch.equal(state.weights[0], state.momentum[0]),
    "equation (13)",
)

# %% [markdown]
# There is a small print. `S` was measured against the memory *before* it was cleared: the first
# token of the new context corrects an error that the clearing has already removed. So
# clearing one token earlier is better, if only the gate could know.

# %%
drift = Drift(length=16, contexts=3, dim=8)
at_first = torch.where(drift.first, 1.0, 0.0)[None]  # [1, time]
best = float(theory[lengths.index(16)])
ways = {
    "never forgets": torch.zeros(1, 1),
    f"best constant alpha, {best:.2f}": torch.full((1, 1), best),
    "clears at a context's first token": at_first,
    "clears one token earlier": at_first.roll(-1, 1),
}
errors = {
    name: after_the_first(expected_drift(alpha, drift), drift).item()
    for name, alpha in ways.items()
}
for name, error in errors.items():
    print(f"{name:36} {error:.2f}")
claim(
    "clearing at the change beats every constant alpha",
    errors["clears at a context's first token"] < 0.95 * expected[16].min().item(),
    "section 3.1",
)

# %% [markdown]
# ## A gate that learns to clear
#
# Give the gate one bit, "this is the first token of a context", and two numbers to learn: alpha
# there and alpha elsewhere. Both start at 0.12.

# %%
from minititans.viz.forgetting import draw_learned_alpha

course = learn_alpha(drift, sees_the_change=True)
draw_learned_alpha(course)

# %%
alpha, alpha_first, error = (part[-10:].mean(0) for part in vars(course).values())  # [seeds]
print("alpha at a change:", *(f"{a:.1f}" for a in alpha_first))
print(f"error: {error.mean():.2f}, with the best constant alpha {expected[16].min():.2f}")
claim(
    "a gate that sees the change learns to clear there and to keep elsewhere",
    bool((alpha_first > 0.9).all()) and bool((alpha < 0.5 * best).all()),
    "section 3.1",
)
claim(
    "a gate that sees the change errs a tenth less than the best constant alpha, or better",
    bool((error < 0.9 * expected[16].min()).all()),
    "section 3.1",
)

# %% [markdown]
# ## A bound forever
#
# Forgetting has one more use. Take norms in (13): if `‖S‖` never exceeds `s` and alpha is constant,
#
# $$\|M_t\| \le (1-\alpha)\,\|M_{t-1}\| + s \quad\Longrightarrow\quad
# \|M_t\| \le (1-\alpha)^t\|M_0\| + \frac{s}{\alpha}.$$
#
# And `s`? With `theta = 1 − eta`, (14) says `‖S'‖ ≤ eta ‖S‖ + (1 − eta) ‖u‖`: `S`, which starts at
# zero, never gets past the largest surprise. However long the stream, the memory stays below
# `s / alpha`.
#
# Three streams: random pairs, and a worst case, with and without forgetting. There a single key
# comes forever, and its value is always 1 more than the memory's answer, so that the surprise
# has length 1 and the same direction at every token.


# %%
def always_one_more(alpha, time=300):
    answer, S, values = 0.0, 0.0, []
    for _ in range(time):
        values.append(answer + 1)
        S = 0.5 * S + 0.5  # (14), with a surprise of 1
        answer = (1 - alpha) * answer + S  # (13)
    return torch.tensor(values)[:, None]  # [time, 1]


k = random_units(1, 1, 300, 8, seed=0)
one = k[:, :, :1].expand_as(k)
v = torch.cat([k.roll(1, 2), always_one_more(0.02) * one, always_one_more(0.0) * one])
k = torch.cat([k, one, one])

# %%
gates = Gates.constant(0.5, 0.5, 0.02, k.shape[:3])  # theta = 1 − eta
gates.alpha[2] = 0.0
start = MemoryState.start([torch.zeros(1, 8, 8)], batch=3)
_, _, trace = chunked(k, k, v, gates, start, chunk_size=1, trace=True)
norms, s = trace.memory[:, 0], trace.surprise[:, 0].amax(-1)  # [streams, time], [streams]

# %%
from minititans.viz.forgetting import draw_norms

names = ("random pairs", "the same surprise forever", "the same, alpha = 0")
draw_norms(dict(zip(names, norms)), {"bound s / alpha = 50": 1.0 / 0.02})

# %%
print("norm after 300 tokens:", *(f"{norm:.0f}" for norm in norms[:, -1]))
claim(
    "the norm of a memory that forgets stays below s / alpha",
    bool((norms[:2] <= 1.001 * s[:2, None] / 0.02).all()),
    "equation (13)",
)
claim(
    "the bound s / alpha is tight: one surprise forever comes within a hundredth of it",
    bool(norms[1, -1] > 0.99 * 50),
    "equation (13)",
)
claim(
    "without forgetting nothing holds the norm: after 300 tokens it is over five times that bound",
    bool(norms[2, -1] > 5 * 50),
    "equation (13)",
)

# %% [markdown]
# The library's layer, [`NeuralMemory`](../minititans/memory/neural_memory.py), has gates of its
# own, another alpha for every token. The inequality holds step by step, but alpha starts near
# 1e-5, because this memory is meant to last, and `s / alpha` is then large. What keeps its weights
# small is that it writes *errors*: what has been learned is no surprise any more. We read one
# token again and again, and a stream a thousand times too loud, whose values it shortens to 100.

# %%
from minititans import NeuralMemory

torch.manual_seed(0)
memory = NeuralMemory(dim=16, heads=2, depth=1)
x = torch.cat([torch.randn(1, 1, 16).expand(1, 200, 16), 1000 * torch.randn(1, 200, 16)])
_, _, trace = memory(x, trace=True)  # each [batch, heads, time]

before = torch.nn.functional.pad(trace.memory[..., :-1], (1, 0))  # the memory starts empty
within = trace.memory <= 1.001 * ((1 - trace.alpha) * before + trace.momentum) + 1e-6
claim(
    "NeuralMemory obeys this inequality at every token, with gates of its own",
    within.all(),
    "equation (13)",
)

# %%
again, loud = trace.surprise[0], trace.memory[1]  # [heads, time]
claim(
    "a token read again and again surprises NeuralMemory less than a hundredth as much",
    (again[:, -1] < again.amax(1) / 100).all(),
    "equation (14)",
)
claim("with values of length 100 its matrix stays below a norm of 300", (loud < 300).all(), "ours")

# %% [markdown]
# ## Try it
#
# The capacity and drift explorer. Let the rule never change (96 tokens): is any alpha better than
# 0? Find the best alpha for a change every 12 tokens by eye. Then read unrelated pairs: does the
# error pass silence at age `d · ln 2` for d = 4 and d = 32 too?

# %%
from minititans.viz.forgetting import forgetting_explorer

forgetting_explorer()

# %% [markdown]
# **What to take away**
#
# - A full matrix answers old questions with noise, worse than silence. Forgetting makes those
#   answers faint and the newest ones better.
# - Alpha is weight decay; with momentum, the decoupled kind.
# - The best constant alpha is about one over the length of a context.
# - Best is an alpha that depends on the token: near 0 inside a context, 1 at its end. A gate that
#   sees the change learns it. `alpha = 1` leaves nothing but the token's own `S`.
# - With a bounded surprise, forgetting bounds the memory forever: `‖M‖ ≤ s / alpha`. And as a
#   surprise is an error, a memory that learns is surprised less and less.
#
# **Exercise:** [04 Forgetting](../exercises/04_forgetting.ipynb): write the whole rule, find
# what is left of a write, and set a half-life.
#
# **In the paper:** section 3.1, "Forgetting Mechanism", equations (13) and (14) of [Titans:
# Learning to Memorize at Test Time](https://arxiv.org/abs/2501.00663). In the library:
# [`sequential`](../minititans/memory/sequential.py),
# [`segment_products`](../minititans/memory/gates.py).
#
# **Next:** [05 A deeper memory](05_depth.ipynb)
