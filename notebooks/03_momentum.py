# %% [markdown]
# # Surprise that lingers
#
# **Question:** a surprising event lasts one token. Should the memory move on as soon as the token
# has passed?
#
# **You will build:** momentum for a memory, in one line; a way to hand out each surprise in shares,
# so that it is written once and not many times; and a test that shows what momentum is good for.
#
# **Time:** 25 minutes to read, without the optional part; about 12 s to run on 2 cores.
#
# **You need:** [02 Surprise is a gradient](02_surprise.ipynb): the memory is a matrix
# `M`, its surprise `u` is the gradient of its error, and it writes `−theta · u`.

# %%
import torch

from minititans.course import claim, does_not_reproduce
from minititans.viz.loop import draw_loop

draw_loop("momentum")

# %% [markdown]
# ## Two kinds of surprise
#
# According to the paper, the rule of notebook 02 has a weakness: right after a big surprise the
# gradient may be small, so what comes next is hardly written at all. People stay alert for a while.
# So the paper splits surprise in two, equation (10):
#
# $$S_t = \underbrace{\eta_t\, S_{t-1}}_{\text{past surprise}} -
# \underbrace{\theta_t\, u_t}_{\text{momentary surprise}},
# \qquad M_t = M_{t-1} + S_t$$
#
# A calm stream lets us watch both. The memory knows seven pairs and reads them in turn. Only once,
# at token 15, an eighth pair appears that it has never seen: the event.

# %%
from minititans.experiments.momentum import orthogonal_pairs

keys, values = orthogonal_pairs(8, seed=0)  # [8, 8] each: eight keys, eight values
order = torch.arange(60) % 7
order[15] = 7  # the event

# %% [markdown]
# Momentum costs one line and one more matrix, `S`. With `eta = 0` this is notebook 02.

# %%
theta, eta = 0.1, 0.8
M = values[:7].T @ keys[:7]  # knows the seven
S = torch.zeros_like(M)
for key, value in zip(keys[order], values[order]):
    u = torch.outer(M @ key - value, key)  # momentary surprise
    S = eta * S - theta * u  # (10)
    M = M + S  # (9)

# %% [markdown]
# **Predict first.** At token 16 the memory reads a pair that it knows perfectly. What does it
# write there without momentum? What does it write with `eta = 0.8`? And at token 17?
#
# [`read_event`](../minititans/experiments/momentum.py) reads the same stream with the library's
# rule and takes notes.

# %% tags=["predict"]
from minititans.experiments.momentum import read_event
from minititans.viz.momentum import draw_event

trace = read_event(theta=0.1, eta=0.8)
draw_event(trace, {"same theta, eta = 0": read_event(theta=0.1, eta=0.0)})

# %% tags=["hide-source"]
# What was checked: the last reading, and the past surprise of 23 tokens
claim(
    "three lines of Python give the library's memory with momentum",
    torch.isclose(values[7] @ M @ keys[7], trace.written[-1]),
    "equations (9) and (10)",
)
claim(
    "while nothing new comes, past surprise falls by the factor eta at every token",
    torch.allclose(trace.past[17:40] / trace.past[16:39], torch.tensor(0.8).double()),
    "equation (10)",
)

# %% [markdown]
# The momentary surprise is a single spike. The past surprise starts one token later and dies away:
# each token leaves the fraction `eta` of it. With `eta = 0.8` it halves every
# `log 0.5 / log 0.8 = 3.1` tokens.
#
# ## What lingers is a direction
#
# The lower chart shows what matters. `S` does not say "be alert". It holds the *gradient of the
# event*, and every later token writes a bit more of that gradient. The event was seen once, and
# after `n` tokens the share of it that has been written is
#
# $$\theta\,(1 + \eta + \dots + \eta^{n-1}) \;\longrightarrow\; \frac{\theta}{1-\eta}.$$
#
# So `eta = 0.8` writes every surprise five times. If we compare a memory with momentum to one
# without, we must say what we hold equal: theta, or the total `theta / (1 − eta)`.

# %%
from minititans.experiments.momentum import share_written

ways = {
    "eta = 0, same theta": (0.1, 0.0),
    "with momentum": (0.1, 0.8),
    "eta = 0, same total": (0.5, 0.0),
}
traces = {name: read_event(*gates) for name, gates in ways.items()}
print("share written after…             1      2      5     40 tokens")
for name, trace in traces.items():
    print(f"{name:26}", *(f"{share:6.0%}" for share in trace.written[[15, 16, 19, 54]]))

# %% tags=["hide-source"]
# What was checked: three ways to write, 40 tokens each
claim(
    "of an event seen once, the share theta (1 − eta^n) / (1 − eta) is written after n tokens",
    all(
        abs(traces[name].written[14 + n] - share_written(*ways[name], n)) < 1e-9
        for name in ways
        for n in range(1, 41)
    ),
    "equation (10)",
)

# %% [markdown]
# ## Is what follows remembered better?
#
# That is the paper's promise. But `S` knows only the event's key. A later token gains only to the
# extent that its own key points the same way: only if it belongs to the same scene.
#
# So let twelve tokens follow the event. Their keys and values share an `overlap` with the event's,
# and the rest is their own. They are read with `theta = 0`, so whatever is recalled of them comes
# from the event ([`aftermath`](../minititans/experiments/momentum.py)).
#
# **Predict first.** A recall of 1 is perfect, a recall of 0 is silence. Which of the three ways
# above will be best at an overlap of 0.9? And which at an overlap of 0?

# %% tags=["predict"]
from minititans.experiments.momentum import aftermath
from minititans.viz.momentum import draw_aftermath

overlaps = [0.0, 0.3, 0.5, 0.7, 0.9]
recall = {
    name: torch.stack([aftermath(overlap, *gates, weak=0.0) for overlap in overlaps])
    for name, gates in ways.items()
}  # [overlaps, seeds] each
draw_aftermath(overlaps, recall)

# %% tags=["hide-source"]
# What was checked: five overlaps and three seeds
plain, momentum, larger_theta = recall.values()
print("recall at overlap 0.9:", *(f"{name} {r[-1].mean():.2f};" for name, r in recall.items()))
claim(
    "what shares something with the event is recalled over three times as well with momentum, "
    "at equal theta",
    (momentum[1:] > 3 * plain[1:]).all(),
    "section 3.1",
)
claim(
    "tokens that share nothing with the event gain nothing from it, with or without momentum",
    all((found[0].abs() < 1e-5).all() for found in recall.values()),
    "section 3.1",
)
does_not_reproduce(
    "momentum remembers what comes after a surprising event, which a memory without it misses",
    (momentum < larger_theta + 1e-5).all(),
    "section 3.1",
    because="that holds at equal theta only: a larger theta without momentum does the same, sooner",
)

# %% [markdown]
# At equal theta momentum helps a lot, but only because it writes more in the end. If that were all,
# we could raise theta and save a matrix. To see what momentum adds, we must first stop it from
# writing more.
#
# ## Written once, in shares
#
# The remedy is to scale it down. Write each surprise in the shares
#
# $$(1-\eta),\quad (1-\eta)\,\eta,\quad (1-\eta)\,\eta^2,\quad \dots$$
#
# which add up to 1. Now theta says *how much* of a surprise is written, and eta says *over how many
# tokens*. That is what [`NeuralMemory`](../minititans/memory/neural_memory.py) does, with `eta` up
# to 0.7.

# %%
from minititans.experiments.shares import jump, written
from minititans.viz.shares import draw_shares, draw_totals

draw_shares({f"eta = {eta:g}": written(torch.full((60,), eta)) for eta in (0.0, 0.35, 0.7)})

# %% [markdown]
# With a constant `eta` it would be enough to scale theta by `1 − eta` as a surprise comes in. But
# the gates depend on the token, and eta may jump.
#
# **Predict first.** A surprise comes in while `eta = 0`, so its theta is not scaled down. Then
# eta jumps to 0.9 and stays there. How many times is this surprise written in the end?

# %% tags=["predict"]
eta = jump(low=0.0, high=0.9, time=40)  # 0 at the surprise, 0.9 at every later token
ways_to_scale = {
    "theta scaled when the surprise comes in": written(eta, "intake").cumsum(0),
    "in shares: scaled when a share goes out": written(eta, "shares").cumsum(0),
}
draw_totals(ways_to_scale)

# %% [markdown]
# Ten times. So the library scales by the `1 − eta` of the token at which a share goes *out*: the
# surprise of token `i` is written at token `t` in the share
#
# $$(1-\eta_t)\;\eta_{i+1} \cdots \eta_t.$$
#
# The first share is at most 1, and all later ones together are below 1, whatever the gates do
# ([`largest_total`](../minititans/experiments/shares.py) has the proof in three lines). Equation
# (10) keeps its form; only the gates it is given change
# ([`Gates.in_shares`](../minititans/memory/gates.py)).

# %% tags=["hide-source"]
# What was checked: four steady etas, and 500 sequences of etas that jump
from minititans.experiments.shares import largest_total

claim(
    "shares add up to 1 when eta is steady",
    all(abs(written(torch.full((400,), eta)).sum() - 1) < 1e-4 for eta in (0.0, 0.35, 0.7, 0.9)),
    "ours",
)
claim(
    "when eta jumps, a surprise in shares is written less than twice; if theta is scaled when "
    "the surprise comes in, over five times",
    largest_total("shares", eta_max=0.9) < 2 and largest_total("intake", eta_max=0.9) > 5,
    "ours",
)

# %% [markdown]
# ## What spreading is good for
#
# From here on a surprise is written in shares, and theta means the same with and without momentum.
# Why, then, spread a surprise over several tokens?
#
# Because the world is blurred. Let the scene last: sixteen tokens each show the same fact, every
# time with fresh noise of half its size. The best possible answer is the mean of the sixteen
# glimpses. The memory answers with some weighted sum of them. To read off the weights, we make
# glimpse `i` the `i`-th unit vector and look at the answer.
#
# **Predict first.** Which glimpse counts most without momentum? What will `eta = 0.7` do to that?

# %% tags=["predict"]
from minititans.experiments.glimpses import Story, constant, glimpse_weights
from minititans.viz.glimpses import draw_weights

story = Story(glimpses=16, blur=0.5)
weights = {
    f"theta = 0.15, eta = {eta:g}": glimpse_weights(*constant(0.15, eta, story))[0]
    for eta in (0.0, 0.7)
}
draw_weights(weights)

# %% [markdown]
# Without momentum the last glimpse counts most and the first ones fade. With momentum a fresh
# glimpse takes time to have its effect, so the last ones count for less, the middle ones for more,
# and the curve stays closer to the plain mean. Momentum turns a memory that believes what it saw
# last into one that *averages*.
#
# How much is that worth? In theory the error depends only on the weights: `(1 − Σ w)²` for what is
# missing, plus `blur² Σ w²` for the noise that is left
# ([`expected_error`](../minititans/experiments/glimpses.py)). Each eta may use the theta that suits
# it best.

# %%
from minititans.experiments.glimpses import expected_error, measured_error
from minititans.viz.glimpses import draw_by_theta

etas, fine, thetas = (0.0, 0.5, 0.7), torch.logspace(-1.5, 0, 91), torch.logspace(-1.5, 0, 13)
expected, measured = {}, {}
for eta in etas:
    expected[eta] = expected_error(glimpse_weights(*constant(fine, eta, story)), story)
    measured[eta] = measured_error(*constant(thetas, eta, story), story)[..., -1]
draw_by_theta(fine, expected, thetas, measured)

# %% tags=["hide-source"]
# What was checked: 13 thetas and three seeds for each eta
found = torch.stack(list(measured.values()), 1)  # [seeds, etas, thetas]
best = found.amin(-1)  # [seeds, etas]: each eta with the theta that suits it best
theory = [expected_error(glimpse_weights(*constant(thetas, eta, story)), story) for eta in etas]
print("best error at eta = 0, 0.5, 0.7:", *(f"{x:.3f}" for x in best.mean(0)))
print(f"the mean of all glimpses: {story.blur**2 / 16:.3f}")
claim(
    "errors over blurred glimpses lie within a fifth of theory",
    ((found / torch.stack(theory) - 1).abs() < 0.2).all(),
    "equations (9) and (10)",
)
claim(
    "with noise, momentum beats every constant theta without it: the error falls by a fifth or "
    "more",
    (best[:, 2] < 0.8 * best[:, 0]).all(),
    "section 3.1",
)
claim(
    "at a very small theta momentum only delays, and loses",
    (found[:, 2, 0] > 1.05 * found[:, 0, 0]).all(),
    "equation (10)",
)

# %% [markdown]
# So this is where momentum earns its matrix: not with one clean event, but with a fact that shows
# itself again and again through noise.
#
# ## Try it
#
# The explorer starts with `theta = 0.1`, `eta = 0.8` and 40 tokens read, 25 of them since the event
# (the green band). Press play to read on, or go back to token 15 and step. The line below the
# picture says whether a repeated pair is learned with *ringing*, that is, with answers that swing
# around the right one.
#
# 1. Set eta to 0.9. How much of the event is written in the end? Which theta writes all of it, and
#    no more? Then switch to *in shares* and answer again.
# 2. Let the event last 30 tokens. Where does the memory overshoot? Find an eta that does not.
# 3. Keep the event at 30 tokens and raise theta to 3. What happens, and what does *in shares*
#    change?

# %%
from minititans.viz.momentum import event_explorer

event_explorer()

# %% [markdown]
# The main path ends here. The summary is at the very bottom, and notebook 04 needs nothing in
# between.
#
# ## Deeper (optional)
#
# Four questions remain: why a memory with momentum overshoots, how large theta may be, how much
# harm jumping gates can do, and when momentum should let go.
#
# ### Why it rings
#
# A pendulum has momentum too. Show the memory one pair again and again, and its error can swing
# through zero and out the other side. A memory of a single number is enough to show it.

# %%
from minititans.experiments.ringing import repeat_key
from minititans.viz.momentum import draw_ringing

etas = torch.tensor([0.0, 0.4675, 0.9])
errors = repeat_key(torch.full_like(etas, 0.1), etas, chunks=50)  # [etas, tokens], theta = 0.1
draw_ringing({f"eta = {eta:.2g}": error for eta, error in zip(etas, errors)})

# %% [markdown]
# Write `e` for the error and `s` for the momentum on this key. One token makes
# `s' = eta s + theta e` and `e' = e − s'`. That is a 2 × 2 matrix, and its eigenvalues tell the
# rest.
#
# $$\begin{pmatrix} e' \\ s' \end{pmatrix} = \begin{pmatrix} 1-\theta & -\eta \\ \theta & \eta
# \end{pmatrix} \begin{pmatrix} e \\ s \end{pmatrix}, \qquad
# \det = \eta, \quad \operatorname{tr} = 1 + \eta - \theta$$
#
# The eigenvalues are complex, which means ringing, when `(1 − √eta)² < theta < (1 + √eta)²`; they
# leave the unit circle, which means disaster, when `theta > 2 (1 + eta)`. (Here theta and eta are
# what (10) is given. In shares, that theta is `(1 − eta) theta`: the swings are smaller, but they
# are still swings.)

# %% tags=["hide-source"]
# What was checked: 50 powers of the matrix, and a grid of 144 thetas and etas
from minititans.experiments.ringing import chunk_matrix

A = chunk_matrix(theta=0.1, eta=0.9)
powers = torch.stack([torch.linalg.matrix_power(A, n)[0, 0] for n in range(50)])
print("eigenvalues:", *(f"{x:.3f}" for x in torch.linalg.eigvals(A).tolist()))
claim(
    "a repeated key's error is a power of a 2 × 2 matrix",
    torch.allclose(errors[2], powers),
    "equations (9) and (10)",
)
theta, eta = torch.meshgrid(torch.linspace(0.01, 1, 12), torch.linspace(0, 0.95, 12), indexing="ij")
swings = (repeat_key(theta.flatten(), eta.flatten(), chunks=400) < -1e-12).any(1)
claim(
    "a repeated key overshoots exactly when theta is above (1 − √eta)²",
    torch.equal(swings, (theta > (1 - eta.sqrt()) ** 2).flatten()),
    "equations (9) and (10)",
)

# %% [markdown]
# ### How large may theta be?
#
# The paper reads a *chunk* of `b` tokens with gradients frozen at its start (notebook 06). A key
# that fills the chunk then pulls `b` times before its effect is checked.
# [`stability_limit`](../minititans/experiments/ringing.py) is the theta at which the matrix of a
# whole chunk stops shrinking errors. We compare it with what trial and error finds, and with a
# simple law, `theta ≤ (1 − eta) / b`.

# %%
from minititans.experiments.ringing import measured_limit, stability_limit
from minititans.viz.momentum import draw_limits

fine = torch.linspace(0, 0.98, 50).tolist()
limits = {b: torch.tensor([stability_limit(eta, b) for eta in fine]) for b in (1, 4, 16)}
tried = {b: {eta: measured_limit(eta, b) for eta in (0.0, 0.5, 0.9)} for b in limits}
draw_limits(fine, limits, tried)

# %% tags=["hide-source"]
# What was checked: nine limits by trial, and 200 margins in theory
ratios = [tried[b][eta] / stability_limit(eta, b) for b in tried for eta in tried[b]]
margins = [stability_limit(eta, b) * b / (1 - eta) for b in (1, 4, 16, 64) for eta in fine]
claim(
    "a repeated key's error begins to grow at the theta that theory predicts",
    all(0.98 < ratio < 1.02 for ratio in ratios),
    "equations (16) and (18)",
)
claim(
    "theta ≤ (1 − eta) / b stays a factor of two inside the limit at every eta and chunk size",
    min(margins) > 1.999,
    "ours",
)

# %% [markdown]
# Shares obey this law for `b = 1`: they give (10) a theta of at most `1 − eta`. The library divides
# by `b` only where gradients are frozen. In its last layer each surprise of a chunk is measured at
# the current weights ([`chunked`](../minititans/memory/chunked.py)).
#
# ### Gates that jump
#
# One repeated key is a mild test. What is the worst that gates and keys can do together? Reading a
# cycle of tokens again and again multiplies `M` and `S` by the same matrix each time, and its
# largest eigenvalue says whether the memory grows.
# [`largest_growth`](../minititans/experiments/growth.py) searches for the worst cycle of up to 40
# tokens, with every gate free to jump.

# %%
from minititans.experiments.growth import largest_growth

growth = {rule: largest_growth(rule, eta_max=0.7, tries=300) for rule in ("intake", "shares")}
print(f"theta scaled as a surprise comes in: × {growth['intake']:.2f} per token")
print(f"in shares:                           × {growth['shares']:.2f} per token")
claim(
    "with eta up to 0.7 a search finds gates that make a memory grow, but none when surprise is "
    "written in shares",
    growth["intake"] > 1.05 and growth["shares"] < 1.001,
    "ours",
)

# %% [markdown]
# A search is not a proof. With shares and an eta of up to 0.9 it does find cycles that grow, so the
# layer's eta stays below 0.7.
#
# ### Letting go
#
# Past surprise should count, the paper says, while tokens belong to one context; that is why `eta`
# is a function of the token and can drop to 0 at a change. A story tests this: four chapters of
# sixteen glimpses, each with a different fact under the same key.
#
# Three readers: one without momentum, one with a constant `eta` of 0.85, and one with the same
# `eta`, but 0 at the first token of each chapter. Each has the theta that suits it best in theory
# ([`best_gates`](../minititans/experiments/glimpses.py)).

# %%
from minititans.experiments.glimpses import best_gates, letting_go, within_a_chapter
from minititans.viz.glimpses import draw_chapters

story = Story(chapters=4, glimpses=16, blur=0.5)


def reader(*etas, way=constant):
    error = measured_error(*best_gates(etas, story, way), story, stories=256)[:, 0]
    return within_a_chapter(error, story)  # [seeds, glimpses]


readers = {
    "no momentum": reader(0.0),
    "eta = 0.85 throughout": reader(0.85),
    "eta = 0.85, 0 at the change": reader(0.85, way=letting_go),
}
draw_chapters(readers, floor=story.blur**2 / 16)

# %% [markdown]
# Momentum is slow to turn around: early in a chapter both readers that have it are worse than the
# one without. At the end the reader that held on has hardly gained anything, and the one that let
# go is best. A smaller constant eta, chosen as well as possible, comes close: 0.019 against 0.017.

# %% tags=["hide-source"]
# What was checked: three seeds of 256 stories each
none, held, let_go = readers.values()
careful = reader(0.3, 0.5, 0.6, 0.7, 0.8)[:, -1]
ends = [curve[:, -1].mean() for curve in readers.values()]
print("error at the end of a chapter:", *(f"{x:.3f}" for x in (*ends, careful.mean())))
claim(
    "an eta that drops to 0 at a change wins: its error is a third below that without momentum",
    (let_go < 0.67 * none)[:, -1].all(),
    "section 3.1",
)
claim(
    "at every token letting go is better than holding on to an eta of 0.85",
    (let_go < 0.98 * held).all(),
    "section 3.1",
)
claim(
    "letting go beats the best constant eta, but only by a twentieth to a fifth",
    ((let_go[:, -1] < 0.95 * careful) & (let_go[:, -1] > 0.8 * careful)).all(),
    "section 3.1",
)

# %% [markdown]
# ### A gate that learns it
#
# We chose those etas. In Titans the gates are learned in the outer loop: by gradient descent
# *through* the memory, which is itself descending. Here that takes seconds. Three numbers are
# learned: theta, eta, and the eta of a chapter's first token. None starts above 0.5
# ([`learn_gates`](../minititans/experiments/glimpses.py)).

# %%
from minititans.experiments.glimpses import learn_gates
from minititans.viz.glimpses import draw_learned

learned = learn_gates(Story(chapters=3, glimpses=16, blur=0.5))
draw_learned(learned)

# %% tags=["hide-source"]
# What was checked: the last ten training steps of three seeds
theta, eta, eta_first, error = (part[-10:].mean(0) for part in vars(learned).values())  # [seeds]
print(f"learned eta: {eta.mean():.1f}, at a change: {eta_first.mean():.1f}")
claim(
    "a learned gate keeps surprise inside a chapter and lets go at its first token",
    (eta > 0.7).all() and (eta_first < 0.05).all(),
    "section 3.1",
)
claim(
    "gates found by training are about as good as those found by hand",
    (error < 1.2 * let_go[:, -1].mean()).all(),
    "section 3.1",
)

# %% [markdown]
# **What to take away**
#
# - Momentum keeps a surprise's *direction* and goes on writing it. Left alone, it writes each
#   surprise `1 / (1 − eta)` times.
# - What follows an event gains to the extent that it shares the event's key. A larger theta does
#   the same, sooner.
# - So a surprise is written once, in shares `(1 − eta) · eta ⋯ eta`: theta says how much, eta over
#   how many tokens. Even when the gates jump, it is written less than twice.
# - With noise, momentum beats any *constant* theta: it averages the glimpses instead of believing
#   the last one. (Thetas of 1, 1/2, 1/3, … would give the plain mean without it, for a gate that
#   can count.)
# - *Deeper:* it rings above `theta = (1 − √eta)²`; and at a change of context it is a burden, which
#   a gate that sees the change learns to drop.
#
# **Exercise:** [03 Momentum](../exercises/03_momentum.ipynb): write both surprises, and work out
# how much of one surprise is written altogether.
#
# **In the paper:** section 3.1, equations (9), (10) and (14) of [Titans: Learning to Memorize at
# Test Time](https://arxiv.org/abs/2501.00663). In the library:
# [`sequential`](../minititans/memory/sequential.py), [`Gates`](../minititans/memory/gates.py).
#
# **Next:** [04 Learning to forget](04_forgetting.ipynb)
