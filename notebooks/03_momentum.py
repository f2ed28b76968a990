# %% [markdown]
# # Surprise that lingers
#
# **Question:** a surprising event lasts one token. Should a memory's attention end with it?
#
# **You will build:** momentum for a memory, in one line; a ruler for what it does to an event, to
# what follows it and to a key that comes again and again; and gates that learn by themselves
# when to let a surprise go.
#
# **Time:** about 11 s on 2 cores.
#
# **You need:** [02 Surprise is a gradient](02_surprise.ipynb): the memory is a matrix
# `M`, its surprise `u` is the gradient of its error, and it writes `−theta · u`.

# %%
import torch

from minititans.course import claim, does_not_reproduce
from minititans.experiments.momentum import orthogonal_pairs
from minititans.memory import Gates, MemoryState, sequential

# %% [markdown]
# ## Two kinds of surprise
#
# The rule of notebook 02 has a weakness, the paper says: after a big surprise the gradient may
# soon be small, and what comes next is hardly written. People stay alert for a while. So
# the paper splits surprise in two (equation (10), and with forgetting (14)):
#
# $$S_t = \underbrace{\eta_t\, S_{t-1}}_{\text{past surprise}} -
# \underbrace{\theta_t \nabla \ell(M_{t-1}; x_t)}_{\text{momentary surprise}},
# \qquad M_t = M_{t-1} + S_t$$
#
# A calm stream shows them apart. The memory knows seven pairs and reads them in turn. Once, at
# token 15, an eighth pair comes that it has never seen: the event.

# %%
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
# In the library these lines are the loop of [`sequential`](../minititans/memory/sequential.py).
# The same stream through it:

# %%
k, v = keys[order][None, None], values[order][None, None]  # [batch, heads, time, dim]
gates = Gates.constant(theta, eta, alpha=0.0, shape=(1, 1, 60), dtype=torch.float64)
start = MemoryState.start([(values[:7].T @ keys[:7])[None]], batch=1)
y, state = sequential(k, k, v, gates, start, chunk_size=1)
claim(
    "three lines of Python give the library's memory with momentum",
    torch.allclose(state.weights[0][0, 0], M, atol=1e-12),
    "equations (9) and (10)",
)

# %% [markdown]
# [`read_event`](../minititans/experiments/momentum.py) is the loop above with notes taken. What is
# written at each token, and from which of the two surprises?

# %%
from minititans.experiments.momentum import read_event
from minititans.viz.momentum import draw_event

trace = read_event(theta=0.1, eta=0.8, event=15)
draw_event(trace, {"same theta, eta = 0": read_event(theta=0.1, eta=0.0, event=15)})

# %% [markdown]
# The momentary surprise is one spike. The past surprise begins one token later and dies away: each
# token keeps the fraction `eta` of it. So `eta` is a half-life, `log 0.5 / log eta` tokens.

# %%
tail = trace.past[16:40]
half_life = torch.log(torch.tensor(0.5)) / torch.log(torch.tensor(0.8))
print(f"past surprise after the event: {[round(x, 3) for x in tail[:5].tolist()]} …")
print(f"it halves every {half_life:.1f} tokens")
claim(
    "while nothing new comes, past surprise falls by the factor eta at every token",
    torch.allclose(tail[1:] / tail[:-1], torch.tensor(0.8).double()),
    "equation (10)",
)

# %% [markdown]
# ## What lingers is a direction
#
# The lower chart is the point. `S` does not hold "be alert"; it holds the *gradient of the event*,
# and every later token writes a bit more of that gradient. After `n` tokens the
# event, seen once, is in the memory to
#
# $$\theta\,(1 + \eta + \dots + \eta^{n-1}) \;\longrightarrow\; \frac{\theta}{1-\eta}.$$
#
# Call `theta / (1 − eta)` the **total step**. A fair comparison has to say which of the two is held
# equal: theta, or the total step.

# %%
from minititans.experiments.momentum import share_written

ways = {
    "eta = 0, same theta": (0.1, 0.0),
    "with momentum": (0.1, 0.8),
    "eta = 0, same total step": (0.5, 0.0),
}
print("of the event is written after…     1      2      5     40 tokens")
for name, (theta, eta) in ways.items():
    written = read_event(theta, eta, event=15).written[[15, 16, 19, 54]]
    print(f"{name:28}", *(f"{share:6.0%}" for share in written))

# %%
measured = torch.stack([read_event(*gates, event=15).written[15:55] for gates in ways.values()])
formula = [[share_written(*gates, n) for n in range(1, 41)] for gates in ways.values()]
claim(
    "an event seen once is written to theta (1 − eta^n) / (1 − eta) after n tokens",
    torch.allclose(measured, torch.tensor(formula).double()),
    "equation (10)",
)
claim(
    "at the same theta momentum writes five times as much of it, at the same total step as much",
    bool((measured[1, -1] / measured[0, -1] - 5).abs() < 0.01)
    and bool((measured[1, -1] / measured[2, -1] - 1).abs() < 0.01),
    "equation (10)",
)

# %% [markdown]
# ## Is what follows remembered better?
#
# That is the paper's promise. But `S` only knows the event's key. A token that comes later
# gains from it as far as its key points the same way: as far as it belongs to the same scene.
#
# So let twelve tokens follow the event whose keys and values share an `overlap` with the event's;
# the rest is their own. They are written with `theta = 0`, so whatever is recalled of them comes
# from the event. [`aftermath`](../minititans/experiments/momentum.py) asks for all of them in the
# end. Recall 1 is perfect, 0 is silence.

# %%
from minititans.experiments.momentum import aftermath
from minititans.viz.momentum import draw_aftermath

overlaps = [0.0, 0.3, 0.5, 0.7, 0.9]
recall = {
    name: torch.stack([aftermath(overlap, *gates, weak=0.0) for overlap in overlaps])
    for name, gates in ways.items()
}  # [overlaps, seeds] each
draw_aftermath(overlaps, recall)

# %%
plain, momentum, larger_theta = recall.values()
print("recall at overlap 0.9:", *(f"{name} {r[-1].mean():.2f};" for name, r in recall.items()))
claim(
    "what shares something with the event is recalled over three times as well with momentum, "
    "at equal theta",
    bool((momentum[1:] > 3 * plain[1:]).all()),
    "section 3.1",
)
claim(
    "tokens that share nothing with the event gain nothing from it, with or without momentum",
    all(bool((found[0].abs() < 1e-5).all()) for found in recall.values()),
    "section 3.1",
)
does_not_reproduce(
    "momentum remembers what comes after a surprising event, which a memory without it misses",
    bool((momentum < larger_theta + 1e-5).all()),
    "section 3.1",
    because="that holds at equal theta only: a larger theta without momentum does the same, sooner",
)

# %% [markdown]
# Honest bookkeeping, then: at equal theta momentum helps a lot, mostly because it is a larger
# step in the end. If that were all, one could raise theta and save a matrix.
#
# ## Why not simply a larger theta?
#
# Because the world is blurred. Let the scene last: sixteen tokens after the event each show the
# same fact, every time with fresh noise of half its size. The best possible answer is
# the mean of the sixteen glimpses. What does the memory answer? Some weighted sum of them, and
# we can read the weights off: make glimpse `i` the `i`-th unit vector and look at the answer.

# %%
from minititans.experiments.glimpses import Story, constant, glimpse_weights
from minititans.viz.momentum import draw_weights

story = Story(glimpses=16, blur=0.5)
weights = {
    "theta 0.16, eta 0": glimpse_weights(*constant(0.16, 0.0, story))[0],
    "theta 0.024, eta 0.85": glimpse_weights(*constant(0.024, 0.85, story))[0],
}
draw_weights(weights)

# %% [markdown]
# Both have the total step 0.16. Without momentum the last glimpse weighs most and the first
# are forgotten; with momentum a fresh glimpse has to build up its effect, and the weights are
# far flatter. Momentum turns a memory that believes what it saw last into one that *averages*.
#
# How much is that worth, at every total step? Theory needs only the weights: an error
# `(1 − Σ w)²` for what is missing, and `blur² Σ w²` for the noise that is left
# ([`expected_error`](../minititans/experiments/glimpses.py)).

# %%
from minititans.experiments.glimpses import expected_error, gates_for, measured_error
from minititans.viz.momentum import draw_total_step

etas, fine, totals = (0.0, 0.5, 0.85), torch.logspace(-1.5, 0, 91), torch.logspace(-1.5, 0, 13)
expected, measured = {}, {}
for eta in etas:
    expected[eta] = expected_error(glimpse_weights(*gates_for(fine, eta, story)), story)
    measured[eta] = measured_error(*gates_for(totals, eta, story), story)[..., -1]
draw_total_step(fine, expected, totals, measured)

# %%
theory = torch.stack(list(expected.values()))  # [etas, 91]
theory = theory[:, (fine[:, None] - totals).abs().argmin(0)]  # [etas, totals]
found = torch.stack(list(measured.values()), 1)  # [seeds, etas, totals]
best = found.amin(-1)  # [seeds, etas]: each eta with the theta that suits it best
print("best error at eta = 0, 0.5, 0.85:", *(f"{x:.3f}" for x in best.mean(0)))
print(f"the mean of all glimpses would have {story.blur**2 / 16:.3f}")
claim(
    "errors over blurred glimpses lie within a fifth of theory",
    ((found / theory - 1).abs() < 0.2).all(),
    "equations (9) and (10)",
)

# %% [markdown]
# Read the picture at one total step, or let each line choose its own: momentum wins both ways,
# but not everywhere. At a very small step it only delays. And `eta = 0.85` is best of all near
# 0.14 and worse than no momentum at 0.3, where it rings: that comes next.

# %%
claim(
    "with noise, momentum beats every theta without it: the error falls by a quarter or more",
    bool((best[:, 2] < 0.75 * best[:, 0]).all()),
    "section 3.1",
)
claim(
    "with noise, eta = 0.5 beats eta = 0 at every total step from 0.1 to 1",
    bool((found[:, 1, totals >= 0.1] < 0.97 * found[:, 0, totals >= 0.1]).all()),
    "section 3.1",
)
claim(
    "at a very small total step momentum only delays, and loses",
    bool((found[:, 2, 0] > 1.1 * found[:, 0, 0]).all()),
    "equation (10)",
)

# %% [markdown]
# So this is where momentum earns its matrix: not for one clean event, but for an event that
# keeps showing itself through noise.
#
# ## When it overshoots
#
# A pendulum has momentum too. Show the memory one pair again and again, and its error can swing
# through zero and out at the other side. A memory of a single number is enough to see it.

# %%
from minititans.experiments.momentum import repeat_key
from minititans.viz.momentum import draw_ringing

etas = torch.tensor([0.0, 0.4675, 0.9])
errors = repeat_key(torch.full_like(etas, 0.1), etas, chunks=50)  # [etas, tokens], theta = 0.1
draw_ringing({f"eta = {eta:.2g}": error for eta, error in zip(etas, errors)})

# %% [markdown]
# Write `e` for the error and `s` for the momentum on this key. One token does
# `s' = eta s + theta e` and `e' = e − s'`: a 2 × 2 matrix, and everything is in its
# eigenvalues.
#
# $$\begin{pmatrix} e' \\ s' \end{pmatrix} = \begin{pmatrix} 1-\theta & -\eta \\ \theta & \eta
# \end{pmatrix} \begin{pmatrix} e \\ s \end{pmatrix}, \qquad
# \det = \eta, \quad \operatorname{tr} = 1 + \eta - \theta$$
#
# They are complex, which means ringing, while `(1 − √eta)² < theta < (1 + √eta)²`; and
# outside the unit circle, which means disaster, once `theta > 2 (1 + eta)`.

# %%
from minititans.experiments.momentum import chunk_matrix

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
# ## A law for theta
#
# For speed a memory reads a *chunk* of `b` tokens with gradients frozen at its start (notebook
# 06). A key that fills the chunk then pulls `b` times before anyone looks how far it went: the
# total step is `b · theta / (1 − eta)`. The matrix of a whole chunk is
# [`chunk_matrix`](../minititans/experiments/momentum.py) with its `chunk_size`, and
# [`stability_limit`](../minititans/experiments/momentum.py) the theta at which it stops
# shrinking errors. We compare it with trying, and with the simple law `theta ≤ (1 − eta) / b`.

# %%
from minititans.experiments.momentum import measured_limit, stability_limit
from minititans.viz.momentum import draw_limits

fine = torch.linspace(0, 0.98, 50).tolist()
limits = {b: torch.tensor([stability_limit(eta, b) for eta in fine]) for b in (1, 4, 16)}
tried = {b: {eta: measured_limit(eta, b) for eta in (0.0, 0.5, 0.9)} for b in limits}
draw_limits(fine, limits, tried)

# %%
ratios = [tried[b][eta] / stability_limit(eta, b) for b in tried for eta in tried[b]]
margins = [stability_limit(eta, b) * b / (1 - eta) for b in (1, 4, 16, 64) for eta in fine]
print(f"measured limit / theory: {min(ratios):.2f} to {max(ratios):.2f}")
print(f"limit / law: never below {min(margins):.2f}")
claim(
    "a repeated key's error begins to grow at the theta that theory says",
    all(0.98 < ratio < 1.02 for ratio in ratios),
    "equations (16) and (18)",
)
claim(
    "theta ≤ (1 − eta) / b stays a factor of two inside the limit at every eta and chunk size",
    min(margins) > 1.999,
    "ours",
)

# %% [markdown]
# The law promises that errors shrink; it does not promise that they never ring. With `b = 1` and
# `eta = 0.9` it allows `theta = 0.1`, the line `eta = 0.9` further above.
#
# [`NeuralMemory`](../minititans/memory/neural_memory.py) keeps to it. It hands the rule
# `(1 − eta) · theta`, so that a surprise adds up to `theta` in the end
# ([`Gates.in_shares`](../minititans/memory/gates.py)), and its `eta` stays below 0.7. It divides by
# `b` only where gradients are frozen: in its last layer every surprise of a chunk is measured at
# the current weights ([`chunked`](../minititans/memory/chunked.py)).
#
# ## Letting go
#
# Past surprise should count, the paper says, while tokens belong to one context; that is why its
# `eta` is a function of the token, and can drop to 0 at a change. A story tests this: four
# chapters of sixteen glimpses, and each chapter has another fact on the same key.
#
# Three readers: no momentum, with the theta that suits it best in theory
# ([`best_gates`](../minititans/experiments/glimpses.py)); a constant `eta` of 0.85; and the same
# `eta`, but 0 at the first token of each chapter.

# %%
from minititans.experiments.glimpses import best_gates, letting_go
from minititans.viz.momentum import draw_chapters

story = Story(chapters=4, glimpses=16, blur=0.5)
readers = {
    "no momentum": best_gates([0.0], story),
    "eta 0.85 throughout": constant(0.021, 0.85, story),
    "eta 0.85, 0 at the change": letting_go(0.021, 0.85, story),
}
errors = {name: measured_error(*gates, story, stories=256)[:, 0] for name, gates in readers.items()}
curves = {name: error.view(3, 4, 16)[:, 1:].mean(1) for name, error in errors.items()}
draw_chapters(curves, floor=story.blur**2 / 16)  # a curve is [seeds, glimpses], chapters 2 to 4

# %% [markdown]
# Momentum is slow to turn around: early in a chapter both readers with it are worse than the
# one without. The one that held on has gained nothing at the end. The one that let go ends best.

# %%
none, held, let_go = curves.values()
print("error at the end of a chapter:", *(f"{x[:, -1].mean():.3f}" for x in curves.values()))
claim(
    "a constant eta of 0.85 has gained nothing at the end of a chapter",
    (held > 0.97 * none)[:, -1].all(),
    "section 3.1",
)
claim(
    "an eta that drops to 0 at a change wins: its error is a quarter below that without momentum",
    bool((let_go < 0.75 * none)[:, -1].all()),
    "section 3.1",
)
claim(
    "at every token letting go is better than holding on",
    bool((let_go < 0.98 * held).all()),
    "section 3.1",
)
claim(
    "in the first half of a chapter a memory without momentum is the best of the three",
    bool((none[:, :8] < 0.8 * torch.minimum(held, let_go)[:, :8]).all()),
    "section 3.1",
)

# %% [markdown]
# Was 0.85 a bad choice for a constant? Give the constant eta its own best: it is more careful,
# and comes close.

# %%
theta, eta = best_gates((0.3, 0.5, 0.6, 0.7, 0.8), story)
careful = measured_error(theta, eta, story, stories=256)[:, 0].view(3, 4, 16)[:, 1:, -1].mean(1)
print(f"best constant: theta {theta[0, 0]:.2f}, eta {eta[0, 0]:.1f}, error {careful.mean():.3f}")
claim(
    "letting go beats the best constant eta, but only by a twentieth to a fifth",
    bool(((let_go[:, -1] < 0.95 * careful) & (let_go[:, -1] > 0.8 * careful)).all()),
    "section 3.1",
)

# %% [markdown]
# ## Can a gate learn this?
#
# We chose those etas. In Titans the gates are learned, from outside: by gradient descent
# *through* the memory that is itself descending. Here that takes seconds. Three numbers are
# learned, theta, eta, and the eta of a chapter's first token; all begin at 0.5 or below
# ([`learn_gates`](../minititans/experiments/glimpses.py), Adam through
# [`chunked`](../minititans/memory/chunked.py)).

# %%
from minititans.experiments.glimpses import learn_gates
from minititans.viz.momentum import draw_learned

learned = learn_gates(Story(chapters=3, glimpses=16, blur=0.5))
draw_learned(learned)

# %%
theta, eta, eta_first, error = (part[-10:].mean(0) for part in vars(learned).values())  # [seeds]
print("learned eta:", *(f"{x:.1f}" for x in eta), " at a change:", *(f"{x:.1f}" for x in eta_first))
claim(
    "a learned gate keeps surprise inside a chapter and lets go at its first token",
    bool((eta > 0.7).all()) and bool((eta_first < 0.05).all()),
    "section 3.1",
)
claim(
    "gates found by training are about as good as those found by hand",
    bool((error < 1.2 * let_go[:, -1].mean()).all()),
    "section 3.1",
)

# %% [markdown]
# One last check, against enthusiasm. Letting go needs something to let go of: in a long chapter
# the memory has settled before the next one begins, and there is hardly any momentum left.

# %%
change = {}
for glimpses in (8, 16, 64):
    tale = Story(chapters=4, glimpses=glimpses, blur=0.5)
    gates = [way(0.021, 0.85, tale) for way in (constant, letting_go)]
    kept, dropped = (expected_error(glimpse_weights(*pair), tale).item() for pair in gates)
    change[glimpses] = round(100 * (dropped / kept - 1))
    print(f"chapters of {glimpses:2}: letting go changes the error by {change[glimpses]} %")
claim("in long chapters letting go changes nothing", abs(change[64]) <= 1, "section 3.1")

# %% [markdown]
# ## Try it
#
# The event explorer. Where does ringing begin when the event lasts 30 tokens? Can you set theta and
# eta so that an event seen once is written in full, and not more? What happens at `theta = 3`?

# %%
from minititans.viz.momentum import event_explorer

event_explorer()

# %% [markdown]
# **What to take away**
#
# - Momentum keeps a surprise's *direction* and goes on writing it: `theta / (1 − eta)` in total.
# - What follows an event gains as far as it shares the event's key. At equal theta that is much;
#   at equal total step a larger theta does the same, sooner.
# - With noise momentum wins outright: it averages glimpses instead of believing the last.
# - It rings above `theta = (1 − √eta)²`; `theta ≤ (1 − eta) / b` keeps chunks of b tokens safe.
# - At a change of context momentum is a burden, and a gate that sees the change learns to drop it.
#
# **Exercise:** [03 Momentum](../exercises/03_momentum.ipynb): write both surprises, and
# work out what one surprise writes in all.
#
# **In the paper:** section 3.1, equations (9), (10) and (14) of [Titans: Learning to Memorize at
# Test Time](https://arxiv.org/abs/2501.00663). In the library:
# [`sequential`](../minititans/memory/sequential.py), [`Gates`](../minititans/memory/gates.py).
#
# **Next:** [04 Learning to forget](04_forgetting.ipynb)
