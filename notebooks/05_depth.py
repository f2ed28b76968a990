# %% [markdown]
# # A deeper memory
#
# **Question:** so far the memory was a matrix. When is a matrix not enough, what does a deeper
# memory do better, and where does it lose?
#
# **You will build:** memories of one to four layers that have learned how to learn, a race
# between them on maps that a matrix can and cannot follow, and the bill: what each layer costs in
# time.
#
# **Time:** about 30 s on 2 cores.
#
# **You need:** [04 Learning to forget](04_forgetting.ipynb), and from [02](02_surprise.ipynb)
# that surprise is a gradient.

# %%
from itertools import pairwise

import torch

from minititans.course import claim, does_not_reproduce
from minititans.memory import Gates, MemoryState, chunked
from minititans.memory.network import read

torch.set_num_threads(1)  # these matrices are tiny: a second thread would only be in the way
_ = torch.manual_seed(0)

# %% [markdown]
# ## A matrix can draw one kind of curve
#
# Keys on a circle, $k = (\cos\varphi, \sin\varphi)$, and one number as a value. Whatever a matrix
# $W$ has learned, it answers $W k = w_1 \cos\varphi + w_2 \sin\varphi$: one wave around the
# circle. Here the values make two waves, and later three.

# %%
angles = 2 * torch.pi * torch.rand(3, 512)  # three seeds
k = torch.stack([angles.cos(), angles.sin()], dim=-1)[None]  # [batch, heads, time, dim]
two, three = (torch.sin(waves * angles)[None, :, :, None] for waves in (2, 3))
k.shape, two.shape  # each seed is a head: a memory of its own

# %% [markdown]
# The memory is a network now: layers $y = Wx$ with SiLU between them, none after the last. The
# rule of the notebooks before does not change at all, because a surprise is still a gradient: now
# by *all* weights. (12) to (14) stay as they are, and reading is (15)
# ([`read`](../minititans/memory/network.py), [`chunked`](../minititans/memory/chunked.py)). By
# default the library's layers add to their input (`residual`), and its last layer is measured at
# its current weights (`exact`); for now both are off, for the plainest deep memory.


# %%
def learn(v, *widths):
    """Begin with random layers of these widths, read all pairs eight times, return the weights."""
    weights = [torch.randn(3, d_out, d_in) / d_in**0.5 for d_in, d_out in pairwise(widths)]
    gates = Gates.constant(theta=0.01, eta=0.9, alpha=0.0, shape=(1, 3, 8 * 512))
    keys, values = k.repeat(1, 1, 8, 1), v.repeat(1, 1, 8, 1)
    start = MemoryState.start(weights, batch=1)
    plain = {"exact": False, "residual": False}
    return chunked(keys, keys, values, gates, start, chunk_size=8, **plain)[1].weights


def ask(weights, keys):
    return read(weights, keys, residual=False)


# %%
from minititans.viz.depth import draw_fit

grid = torch.linspace(0, 2 * torch.pi, 181)
circle = torch.stack([grid.cos(), grid.sin()], dim=-1)
answers = {
    1: ask(learn(two, 2, 1), circle)[0, :, :, 0],  # [seeds, angles]
    2: ask(learn(two, 2, 32, 1), circle)[0, :, :, 0],
}
first = {depth: y[0] for depth, y in answers.items()}  # of the first seed
draw_fit(angles[0, :150], two[0, 0, :150, 0], grid, first, "Two waves")


# %%
def error(answer, waves):  # as a share of what answering zero costs
    return (answer - torch.sin(waves * grid)).square().mean(-1) / 0.5


claim(
    "on two waves a matrix stays as wrong as an answer of zero, however often it reads them",
    (error(answers[1], 2) > 0.95).all(),
    "section 3.1",
)
claim(
    "two layers learn the two waves to an error under 0.05, by the same rule",
    (error(answers[2], 2) < 0.05).all(),
    "section 3.1",
)

# %% [markdown]
# ## What two layers cannot do
#
# Three waves look hardly harder. But $\mathrm{SiLU}(x) - \mathrm{SiLU}(-x) = x$, for every $x$.
# So in a memory of two layers without offsets, $M(k) - M(-k) = W_2 W_1 k$: seen from opposite
# sides, it is *still a matrix*. Three waves change their sign on the opposite side. A third layer
# breaks the symmetry.

# %%
weights = {2: learn(three, 2, 32, 1), 3: learn(three, 2, 32, 32, 1)}
answers = {depth: ask(w, circle)[0, :, :, 0] for depth, w in weights.items()}
first = {depth: y[0] for depth, y in answers.items()}
draw_fit(angles[0, :150], three[0, 0, :150, 0], grid, first, "Three waves")

# %%
W1, W2 = weights[2]
opposite = ask(weights[2], circle) - ask(weights[2], -circle)
claim(
    "a memory of two layers is a matrix in disguise for opposite keys: M(k) - M(-k) = W2 W1 k",
    torch.allclose(opposite, circle @ (W2 @ W1).mT, atol=1e-4),
    "ours",
)
claim(
    "so on three waves two layers stay as wrong as zero, and three layers get under 0.1",
    bool((error(answers[2], 3) > 0.9).all() and (error(answers[3], 3) < 0.1).all()),
    "section 3.1",
)

# %% [markdown]
# The paper says it so: a matrix memory *is* online linear regression, so it assumes that the past
# is linear.
#
# ## Maps with a bend
#
# Now a family of tasks. Each sequence has a random map $v = B\,\phi(A k)$, and $\phi$ is bent at
# zero: $x$ above, `slope` times $x$ below ([`Maps`](../minititans/tasks/maps.py)). One number
# goes from straight (slope 1) through bent (0, the ReLU) to folded (−1, the absolute value). For a
# long list of pairs (1,000) we can compute the best of all matrices: least squares. On average over
# new pairs no memory that is a matrix can go below its error.

# %%
from minititans.experiments.depth import DepthConfig, best_matrix_error

config = DepthConfig()  # keys and values of 4 numbers, sequences of 128 pairs, seeds 0, 1, 2
straight, bent, folded = (best_matrix_error(config, slope) for slope in (1.0, 0.0, -1.0))
for name, error in {"straight": straight, "bent": bent, "folded": folded}.items():
    print(f"{name:9} the best matrix is left with {error.mean():.1f} of 1")
claim(
    "the best matrix has no error on straight maps, over 0.15 on bent and over 0.95 on folded ones",
    bool((straight < 0.01).all() and (bent > 0.15).all() and (folded > 0.95).all()),
    "section 3.1",
)

# %% [markdown]
# ## Learning to learn
#
# Reading 128 pairs once is little for a network that starts from random weights. So the start is
# *learned*, as in the paper: an outer loop (Adam) chooses the weights with which every sequence
# begins, and the three gates, such that a map never met before is predicted well. Each pair is
# predicted *before* it is written ([`prediction_errors`](../minititans/experiments/depth.py)).
#
# From here on the memory is the library's own. Each layer *adds* to what it is given and passes on
# a vector of length 1, and the last layer's surprise is exact: plain layers, several deep, are
# easily driven to explode by a long sequence. Here is the outer loop, for ten steps.

# %%
from minititans.experiments.depth import draw, learning_curve, new_learner, prediction_errors
from minititans.tasks.maps import generators

learner = new_learner(config, depth=3)
parameters = [*learner.weights, learner.raw]  # start weights, and the gates before the sigmoid
before = learning_curve(learner, slope=0.0, pairs=128).mean(1)  # the error on 64 bent maps

# %%
optimiser = torch.optim.Adam([p.requires_grad_() for p in parameters], lr=0.03)
sources = generators("ten steps", config.seeds)
for _ in range(10):
    keys, values = draw(config.maps, 4, config.pairs, sources)  # four new maps for each seed
    loss = prediction_errors(learner, keys, values).mean()
    optimiser.zero_grad()
    loss.backward()  # through all 128 writes of the memory
    optimiser.step()
after = learning_curve(learner, slope=0.0, pairs=128).mean(1)
claim(
    "after ten steps of the outer loop new maps are learned with a tenth less error",
    (after < 0.9 * before).all(),
    "section 3.1",
)

# %% [markdown]
# Gradients flow through the memory's own learning: that is what reading in chunks is for (notebook
# 06). Now for real: depth 1 to 4, 100 steps each, three seeds side by side. In training the slope
# is random, so no memory knows beforehand what kind of map it will meet. These two cells take the
# longest ([`meta_train`](../minititans/experiments/depth.py)).

# %%
from minititans.experiments.depth import meta_train

learners = {depth: meta_train(config, depth) for depth in (1, 2)}

# %%
learners |= {depth: meta_train(config, depth) for depth in (3, 4)}

# %% [markdown]
# ## Error against the number of pairs
#
# New maps, 64 of each kind. The dotted line is the best of all matrices. We read four times
# further than in training, to 512 pairs.

# %%
from minititans.viz.depth import draw_curves

kinds = {"straight": 1.0, "bent": 0.0, "folded": -1.0}
curves = {
    kind: {depth: learning_curve(each, slope, pairs=512) for depth, each in learners.items()}
    for kind, slope in kinds.items()
}
floors = {"straight": straight, "bent": bent, "folded": folded}
draw_curves(curves, {kind: floor.mean().item() for kind, floor in floors.items()}, trained=128)


# %%
def late(kind, depth, last=128):
    return curves[kind][depth][:, 3 * last // 4 : last].mean(1)  # [seeds], the last quarter


claim(
    "on bent maps two, three and four layers get below the best of all matrices within 128 pairs",
    all(bool((late("bent", depth) < 0.9 * bent).all()) for depth in (2, 3, 4)),
    "section 3.1",
)
claim(
    "on bent maps three layers make less than a third of a matrix's error",
    (late("bent", 3) < late("bent", 1) / 3).all(),
    "figure 7",
)
claim(
    "on folded maps a matrix learns nothing, and three layers remove two thirds of the error",
    bool((late("folded", 1) > 0.95).all() and (late("folded", 3) < 0.33).all()),
    "section 3.1",
)

# %% [markdown]
# That is what depth is for. What does it cost where a matrix would do? The paper's figure 7 shows
# perplexity on text, where more layers were always better; random maps are not text.

# %%
claim(
    "on straight maps, which a matrix can follow, two to four layers err at most a fifth more",
    all(bool((late("straight", depth) < 1.2 * late("straight", 1)).all()) for depth in (2, 3, 4)),
    "figure 7",
)
few = {depth: curves["bent"][depth][:, 4:16].mean(1) for depth in learners}
claim(
    "before the 16th pair depth hardly helps, even on bent maps: at most a quarter less error",
    all(bool((few[depth] > 0.75 * few[1]).all()) for depth in learners),
    "figure 7",
)

# %% [markdown]
# Reading on beyond the 128 pairs of the training, two layers still gain: more pairs are what they
# need. Four layers lose again some of what they had: gates that suit 128 pairs write too much when
# there is little left to learn.

# %%
claim(
    "from 128 to 512 pairs, further than in training, two layers go on improving",
    (late("bent", 2, 512) < 0.95 * late("bent", 2)).all(),
    "figure 7",
)
does_not_reproduce(
    "the longer the sequence, the better a deep memory predicts: looked for beyond its training",
    (late("bent", 4, 512) > 1.3 * late("bent", 4)).all(),
    "figure 7",
    because="what four layers learned to do with 128 pairs does not carry over to 512",
)

# %% [markdown]
# ## Capacity
#
# The maps above are rules: a new key can be predicted. Now lists of *random* pairs, where nothing
# can be predicted, only remembered. A list is read 16 times, then every key is asked. A matrix of
# $4 \times 4$ can hold 4 pairs; of more, least squares keeps a share of $4/n$. A network with 16
# hidden units has more room ([`recall_error`](../minititans/experiments/depth.py)).

# %%
from minititans.experiments.depth import recall_error
from minititans.viz.depth import draw_recall

lists = (4, 8, 16, 32, 64)
recall = {d: [recall_error(each, n, passes=16) for n in lists] for d, each in learners.items()}
draw_recall(lists, recall, dim=4)

# %%
eight = {depth: recall[depth][lists.index(8)] for depth in recall}
claim(
    "of 8 pairs, twice its dimension, a matrix loses half, as theory says (0.5 to within 0.06)",
    ((eight[1] - 0.5).abs() < 0.06).all(),
    "section 3.1",
)
claim(
    "two layers lose less than a quarter of 8 pairs, three and four less than a tenth",
    bool((eight[2] < 0.25).all() and (eight[3] < 0.1).all() and (eight[4] < 0.1).all()),
    "section 3.1",
)
claim(
    "of 64 pairs no depth recalls anything: depth moves the limit, it does not lift it",
    all(bool((errors[-1] > 0.95).all()) for errors in recall.values()),
    "section 3.1",
)

# %% [markdown]
# ## Longer sequences, larger keys
#
# For the paper's figure 7 each length needs memories that were trained for it: some minutes. So
# these numbers were made beforehand, by `minititans experiment depth` (three seeds, 300 steps),
# and are read from `results/depth/`. The error is the mean over the whole sequence, as a
# perplexity is.

# %%
from pathlib import Path

from minititans.experiments.depth_grid import load_all
from minititans.viz.depth import draw_grid

results = load_all(Path("../results/depth"))
draw_grid(results, "bent")

# %%
stored = {(r.dim, r.pairs, r.depth): torch.tensor(r.errors["bent"]) for r in results}  # [seeds]
share = {n: stored[4, n, 3] / stored[4, n, 1] for n in (32, 128, 512)}
claim(
    "the longer the sequence, the more three layers gain on a matrix: they are left with over "
    "three quarters of its error at 32 pairs, with under a half at 128 and under a quarter at 512",
    bool((share[32] > 0.75).all() and (share[128] < 0.5).all() and (share[512] < 0.25).all()),
    "figure 7",
)
claim(
    "from 64 pairs on, the second and the third layer each lower the error, by a tenth or more",
    all(
        bool((stored[4, n, depth + 1] < 0.9 * stored[4, n, depth]).all())
        for n in (64, 128, 256, 512)
        for depth in (1, 2)
    ),
    "figure 7",
)
does_not_reproduce(
    "the deeper the memory, the better it predicts: looked for at every length, up to four layers",
    all(bool((stored[4, n, 4] > 0.95 * stored[4, n, 3]).all()) for n in (32, 64, 128, 256, 512)),
    "figure 7",
    because="a fourth layer lowers the error by less than 5 %, if at all",
)

# %%
does_not_reproduce(
    "the deeper the memory, the better it predicts: looked for with keys of 16 numbers",
    all(bool((stored[16, 128, depth] > 0.98 * stored[16, 128, 1]).all()) for depth in (2, 3, 4)),
    "figure 7",
    because="128 pairs are too few for such keys: there no depth is better than a matrix",
)

# %% [markdown]
# All of this says the same: a deep memory needs *pairs*. A map of 16 dimensions has many more
# directions to bend in, and 128 pairs show too few of them. Give it more and it wins; give it less
# and the simple memory does as well, at a fraction of the cost.
#
# ## What a layer costs
#
# A training step, forward and back, for layers of $64 \times 64$: the fastest of several runs
# that take turns ([`training_seconds`](../minititans/experiments/depth_speed.py)).

# %%
from minititans.experiments.depth_speed import SpeedConfig, training_seconds
from minititans.experiments.timing import straight_line
from minititans.viz.depth import draw_times

seconds = training_seconds(SpeedConfig())
depths, longest = [1, 2, 3, 4], 512
measured = [seconds[depth, longest] for depth in depths]
offset, per_layer, _ = straight_line(depths, measured)
draw_times(depths, measured, (offset, per_layer))

# %%
added = [deeper - shallower for shallower, deeper in pairwise(measured)]  # by each further layer
mean = sum(added) / len(added)
claim(
    "time grows about linearly with depth: what a layer adds is the mean within a factor of 3",
    all(mean / 3 < each < 3 * mean for each in added),
    "figure 8",
)
per_token = {time: seconds[2, time] / time for time in (128, 512)}
claim(
    "the time for a token does not depend on the sequence's length (within a factor of 2)",
    0.5 < per_token[512] / per_token[128] < 2,
    "figure 8",
)

# %% [markdown]
# ## The explorer
#
# Choose a map and a depth, then let the memory read more and more pairs. Left: its answers for
# keys that it has not read; on the line they are right. Begin with `folded` and depth 1: however
# many pairs, the answers do not follow the line. Then `straight` with depth 4.

# %%
from minititans.viz.depth import depth_explorer

depth_explorer(learners)

# %% [markdown]
# **What to take away**
#
# - A matrix memory is linear regression. What is not linear, it cannot hold, however long it
#   reads.
# - A deeper memory is the same rule with more layers, and it beats *every* matrix where the map
#   is bent and there are enough pairs.
# - It gains little where the map is straight, the pairs are few or the keys are large, and it
#   costs the same there. Depth is a choice, not a gift.
# - Time grows about linearly with depth. Where to begin must be learned.
#
# **Exercise:** [05 Depth](../exercises/05_depth.ipynb): carry the error back through the layers
# yourself, and write a deep memory's update.
#
# **In the paper:** section 3.1 (deep memory), section 5.5, figures 7 and 8 of [Titans: Learning
# to Memorize at Test Time](https://arxiv.org/abs/2501.00663). In the library:
# [`read`](../minititans/memory/network.py),
# [`errors_below`](../minititans/memory/network.py).
#
# **Next:** [06 Training in parallel](06_chunks.ipynb)
