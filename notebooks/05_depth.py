# %% [markdown]
# # A deeper memory
#
# **Question:** so far the memory has been a matrix. When is a matrix not enough, how does a memory
# of several layers learn, and when is it worth its price?
#
# **You will build:** the surprise of a two-layer memory by hand; layers that keep learning when
# others fade; and a race between memories of one to four layers, on maps that a matrix can follow
# and on maps that it cannot.
#
# **Time:** 25 minutes to read, without the optional part; about 25 s to run on 2 cores.
#
# **You need:** [04 Learning to forget](04_forgetting.ipynb), and from [02](02_surprise.ipynb)
# that surprise is a gradient.

# %%
from itertools import pairwise

import torch
import torch.nn.functional as F

from minititans.course import claim, does_not_reproduce
from minititans.memory import Gates, MemoryState, chunked
from minititans.memory.network import read
from minititans.viz.loop import draw_loop

torch.set_num_threads(1)  # these matrices are tiny: a second thread would only be in the way
_ = torch.manual_seed(0)
draw_loop("memory", "depth")

# %% [markdown]
# ## A matrix can draw one kind of curve
#
# Take keys on a circle, $k = (\cos\varphi, \sin\varphi)$, and one number as a value. Whatever a
# matrix $M$ has learned, its answer is $M k = M_{11} \cos\varphi + M_{12} \sin\varphi$: one wave
# around the circle. Let the values make *two* waves.

# %%
angles = 2 * torch.pi * torch.rand(3, 512)  # three seeds
k = torch.stack([angles.cos(), angles.sin()], dim=-1)[None]  # [batch, heads, time, dim]
two, three = (torch.sin(waves * angles)[None, :, :, None] for waves in (2, 3))
k.shape, two.shape  # each seed is a head: a memory of its own

# %% [markdown]
# Now let the memory be a network: layers $Wx$ with SiLU between them, none after the last. From
# here on $M$ is the whole network, $M(k)$ its answer, and $W_1, W_2, \dots$ are the weights of its
# layers. The rule of the earlier notebooks does not change at all, because a surprise is still a
# gradient, now with respect to the weights of *every* layer. (12) to (14) stay as they are, and
# reading is (15) ([`read`](../minititans/memory/network.py),
# [`chunked`](../minititans/memory/chunked.py)).


# %%
def learn(v, *widths):
    """Start with random layers of these widths, read all pairs eight times, return the weights."""
    weights = [torch.randn(3, d_out, d_in) / d_in**0.5 for d_in, d_out in pairwise(widths)]
    gates = Gates.constant(theta=0.01, eta=0.9, alpha=0.0, shape=(1, 3, 8 * 512))
    keys, values = k.repeat(1, 1, 8, 1), v.repeat(1, 1, 8, 1)
    start = MemoryState.start(weights, batch=1)
    plain = {"exact": False, "residual": False}  # the plainest deep memory
    return chunked(keys, keys, values, gates, start, chunk_size=8, **plain)[1].weights


grid = torch.linspace(0, 2 * torch.pi, 181)
circle = torch.stack([grid.cos(), grid.sin()], dim=-1)


def ask(weights):
    return read(weights, circle, residual=False)[0, :, :, 0]  # [seeds, angles]


# %% [markdown]
# **Predict first:** a matrix and a memory of two layers read the two waves eight times. Sketch what
# each then answers around the circle.

# %% tags=["predict"]
from minititans.viz.depth import draw_fit

answers = {1: ask(learn(two, 2, 1)), 2: ask(learn(two, 2, 32, 1))}
first = {depth: y[0] for depth, y in answers.items()}  # of the first seed
draw_fit(angles[0, :150], two[0, 0, :150, 0], grid, first, "Two waves around the circle")


# %% tags=["hide-source"]
# What was checked: the errors on a fine grid of angles, three seeds
def wrong(answer, waves):  # as a share of what answering zero costs
    return (answer - torch.sin(waves * grid)).square().mean(-1) / 0.5


claim(
    "on two waves a matrix stays as wrong as an answer of zero, however often it reads them",
    (wrong(answers[1], 2) > 0.95).all(),
    "section 3.1",
)
claim(
    "two layers learn the two waves to an error under 0.05, by the same rule",
    (wrong(answers[2], 2) < 0.05).all(),
    "section 3.1",
)

# %% [markdown]
# No single wave resembles two, so the best a matrix can do is answer with almost nothing. The paper
# puts it like this: a matrix memory *is* online linear regression, so it assumes that the past is
# linear.
#
# ## Backpropagation through two layers
#
# How does the surprise reach the first layer? Follow one pair through a memory of two layers, with
# the shapes beside each symbol. Forward:
#
# $$z = W_1 k \;\,[h], \qquad a = \mathrm{silu}(z) \;\,[h], \qquad M(k) = W_2\, a \;\,[d_v],
# \qquad \ell = \tfrac12 \|M(k) - v\|^2$$
#
# And back from the end, asking the same question at every step: *if this number grew a little, by
# how much would the loss fall?*
#
# 1. **The answer.** For $M(k)$ itself, that is the plain error, $e_2 = v - M(k)$, of shape $[d_v]$.
# 2. **The last layer.** The weight in row $i$ and column $j$ multiplies $a_j$ and adds to output
#    $i$, so the loss falls by $e_{2,i}\, a_j$. All of them at once: $e_2 a^\top$, of shape
#    $[d_v, h]$, the shape of $W_2$. That is notebook 02's rule, with $a$ where the key was.
# 3. **What entered it.** $a_j$ goes to every output $i$ with the weight $W_{2,ij}$. Sum over the
#    outputs: $g = W_2^\top e_2$, of shape $[h]$. On the way forward $W_2$ maps $h$ numbers to
#    $d_v$; on the way back its transpose maps $d_v$ to $h$.
# 4. **Before SiLU.** $z_j$ changes only $a_j$, by the slope of SiLU at $z_j$. So, number by number,
#    $e_1 = \mathrm{silu}'(z) \odot g$, of shape $[h]$: the error at the first layer's output.
# 5. **The first layer.** As in step 2, with what entered *this* layer: $e_1 k^\top$, of shape
#    $[h, d_k]$.
#
# The surprise is the gradient, which points uphill, hence the minus:
# $u_2 = -e_2\, a^\top$ and $u_1 = -e_1\, k^\top$. As a picture:

# %%
from minititans.viz.network import draw_network

draw_network()

# %% [markdown]
# And as code, checked against autograd. The slope of SiLU is a task in the lab; here PyTorch
# computes it.

# %%
W1, W2 = torch.randn(16, 6), torch.randn(4, 16) / 4  # [hidden, d_key], [d_value, hidden]
key, value = F.normalize(torch.randn(6), dim=0), torch.randn(4)
silu_slope = torch.func.vmap(torch.func.grad(F.silu))  # silu′ of each number of a vector

z = W1 @ key
a = F.silu(z)
e2 = value - W2 @ a
g = W2.T @ e2
e1 = silu_slope(z) * g
u1, u2 = -torch.outer(e1, key), -torch.outer(e2, a)

# %% tags=["hide-source"]
# What was checked: every number of both surprises, against torch.func.grad
from minititans.memory.network import loss


def by_autograd(residual):
    gradient = torch.func.grad(lambda weights: loss(weights, key, value, residual))
    return gradient([W1, W2])


claim(
    "the surprises of both layers of a plain memory, by hand, are autograd's",
    all(torch.allclose(*pair, atol=1e-6) for pair in zip((u1, u2), by_autograd(residual=False))),
    "equation (12)",
)

# %% [markdown]
# Every layer's surprise is an outer product: **the error at its output times what entered it.** Two
# vectors, however large the layer. Notebook 06 builds on that.
#
# ## Layers that add
#
# Forgetting (13) shrinks the weights of *all* layers, towards zero. Look at the two surprises
# again. $u_2$ contains $a = \mathrm{silu}(W_1 k)$, which is small when $W_1$ is. $u_1$ contains
# $W_2^\top e_2$, which is small when $W_2$ is. Once both have faded, neither gets much of a
# gradient, and at zero none at all: a memory of plain layers can die, and notebook 04 showed one
# that did.
#
# So in the library a layer *adds* to what it reads, and passes on a vector of length 1:
#
# $$a_1 = k, \qquad a_{l+1} = \mathrm{unit}\bigl(a_l + \mathrm{silu}(W_l\, a_l)\bigr),
# \qquad M(k) = W_L\, a_L, \qquad \mathrm{unit}(x) = x / \|x\|$$
#
# If $W_1$ fades, $a_2$ becomes the key itself: **a memory of two layers turns into a matrix, not
# into nothing.** And the last layer's surprise, $-e\, a^\top$, is as large as the error, whatever
# happens below, because $a$ has length 1. (The paper says only "an MLP", and that it uses residual
# connections "in all blocks"; how to add is our choice.)
#
# The way back has one more step. Let $x = k + \mathrm{silu}(z)$, so that $a = x/\|x\|$. Making $x$
# longer does not change $a$, so the part of $g$ that points along $a$ has no effect. What is left
# is scaled by $1/\|x\|$, because the longer $x$ is, the less a small change turns it:
#
# $$g' = \frac{g - a\,(a \cdot g)}{\|x\|}, \qquad e_1 = \mathrm{silu}'(z) \odot g'$$

# %%
draw_network(residual=True)

# %%
W1, W2 = torch.randn(6, 6), torch.randn(4, 6)  # hidden = d_key: the key is added
z = W1 @ key
x = key + F.silu(z)
a = x / x.norm()
e2 = value - W2 @ a
g = W2.T @ e2
g_unit = (g - a * (a @ g)) / x.norm()  # g′
u1, u2 = -torch.outer(silu_slope(z) * g_unit, key), -torch.outer(e2, a)

# %% tags=["hide-source"]
# What was checked: the same for the library's layers
claim(
    "the surprises of layers that add to a vector of length 1, by hand, are autograd's too",
    all(torch.allclose(*pair, atol=1e-5) for pair in zip((u1, u2), by_autograd(residual=True))),
    "equation (12)",
)

# %% [markdown]
# In a deeper memory $g'$ also goes straight down to the layer below, along the path of the sum:
# that layer receives $g' + W_l^\top e_l$ ([`errors_below`](../minititans/memory/network.py)).
#
# Now let us fade a memory on purpose. Its lower layers start with only a share of their random
# weights, its last layer is empty, and it reads 256 pairs of a map that a matrix could learn
# ([`fading`](../minititans/experiments/fading.py)).
#
# **Predict first:** a tenth of the lower layers is left. What happens to the error with plain
# layers, and with layers that add? Does depth 3 suffer more than depth 2?

# %% tags=["predict"]
from minititans.experiments.fading import ADDING, PLAIN, FadingConfig, fading
from minititans.viz.depth import draw_fading

faded = fading(FadingConfig())
draw_fading(faded)

# %% tags=["hide-source"]
# What was checked: three seeds, eight maps each
claim(
    "with a hundredth of its lower layers left, a memory of plain layers learns almost nothing",
    all(bool((faded.at(PLAIN, depth, 0.01) > 0.9).all()) for depth in (2, 3)),
    "ours",
)
claim(
    "a memory whose layers add has then become a matrix: it has a matrix's error, within 0.002",
    all(bool(((faded.at(ADDING, d, 0.01) - faded.matrix).abs() < 2e-3).all()) for d in (2, 3)),
    "ours",
)

# %% [markdown]
# Each plain layer multiplies what passes through it by its own small size, so three layers fare
# worse than two. From here on the memory is the library's own: its layers add.
#
# ## Maps with a bend
#
# When does a deeper memory pay off? Take a family of tasks. Each sequence has a random map
# $v = B\,\phi(A k)$, and $\phi$ is bent at zero: $x$ above, `slope` times $x$ below
# ([`Maps`](../minititans/tasks/maps.py)). One number leads from *straight* maps (slope 1) to *bent*
# ones (0, the ReLU) and *folded* ones (−1, the absolute value). For each kind we can compute the
# best of all matrices by least squares, from 1,000 pairs. On average over new pairs, no memory that
# is a matrix can have a smaller error.

# %%
from minititans.experiments.depth import DepthConfig, best_matrix_error

config = DepthConfig()  # keys and values of 4 numbers, sequences of 128 pairs, seeds 0, 1, 2
for name, slope in {"straight": 1.0, "bent": 0.0, "folded": -1.0}.items():
    print(f"{name:9} error of the best matrix: {best_matrix_error(config, slope).mean():.2f}")

# %% [markdown]
# Reading 128 pairs once is not much for a network that starts from random weights. So the start is
# *learned*, as in the paper: the outer loop (Adam) chooses the weights with which every sequence
# begins, and the three gates, so that new maps are predicted well. Each pair is predicted *before*
# it is written. The gradient flows through all 128 writes of the memory; notebook 06 shows how that
# is done fast. We train depths 1 to 4 for 100 steps each, three seeds side by side
# ([`meta_train`](../minititans/experiments/depth.py)). In training the slope is random, so no
# memory knows in advance what kind of map it will meet.

# %%
from minititans.experiments.depth import meta_train

learners = {depth: meta_train(config, depth) for depth in (1, 2)}

# %%
learners |= {depth: meta_train(config, depth) for depth in (3, 4)}

# %% [markdown]
# Now the race, on new maps, 64 of each kind. We read four times further than in training, to 512
# pairs ([`race`](../minititans/experiments/depth_maps.py)); a dashed line marks the length used in
# training.
#
# **Predict first:** on which of the three kinds of map do two layers beat one? After how many
# pairs: ten, a hundred, or five hundred? And does a fourth layer help?

# %% tags=["predict"]
from minititans.experiments.depth_maps import race
from minititans.viz.depth import draw_curves

result = race(learners, pairs=512)
draw_curves(result)

# %% tags=["hide-source"]
# What was checked: three seeds, 64 maps each, the pairs 96 to 128
late, best = result.late, result.best  # errors in the last quarter of 128 pairs, [seeds]
claim(
    "on bent maps two, three and four layers get below the best matrix's error within 128 pairs",
    all(bool((late("bent", depth) < 0.9 * best["bent"]).all()) for depth in (2, 3, 4)),
    "section 3.1",
)
claim(
    "on bent maps three layers have less than a third of a matrix's error",
    (late("bent", 3) < late("bent", 1) / 3).all(),
    "figure 7",
)
claim(
    "on folded maps a matrix learns nothing, and three layers remove two thirds of the error",
    bool((late("folded", 1) > 0.95).all() and (late("folded", 3) < 0.33).all()),
    "section 3.1",
)

# %% [markdown]
# That is what depth is for. But what if a matrix would do, or if there are few pairs?

# %% tags=["hide-source"]
# What was checked: the same on straight maps, and the pairs 4 to 16 on bent ones
claim(
    "on straight maps, which a matrix can follow, the error of two to four layers is at most a "
    "fifth larger",
    all(bool((late("straight", depth) < 1.2 * late("straight", 1)).all()) for depth in (2, 3, 4)),
    "figure 7",
)
early = {depth: result.early("bent", depth) for depth in learners}
claim(
    "before the 16th pair depth hardly helps, even on bent maps: at most a quarter less error",
    all(bool((early[depth] > 0.75 * early[1]).all()) for depth in learners),
    "figure 7",
)

# %% [markdown]
# A deep memory needs *pairs*: on straight and bent maps the simple memory does about as well with
# few of them, at a fraction of the cost. (Folded maps a matrix never learns, and after some ten
# pairs three layers are already ahead.)
#
# ## What a layer costs
#
# We time a training step, forward and back, for layers of $64 \times 64$, and take the fastest of
# several runs ([`training_seconds`](../minititans/experiments/depth_speed.py)).

# %%
from minititans.experiments.depth_speed import SpeedConfig, training_seconds
from minititans.experiments.timing import straight_line
from minititans.viz.depth import draw_times

seconds = training_seconds(SpeedConfig())
depths = [1, 2, 3, 4]
measured = [seconds[depth, 512] for depth in depths]  # for 512 tokens
offset, per_layer, _ = straight_line(depths, measured)
draw_times(depths, measured, (offset, per_layer))

# %% tags=["hide-source"]
# What was checked: each layer's share of the time, and 128 against 512 tokens
added = [deeper - shallower for shallower, deeper in pairwise(measured)]  # by each further layer
mean = sum(added) / len(added)
claim(
    "time grows about linearly with depth: what each layer adds is within a factor of 3 of the "
    "mean",
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
# On the left are a memory's answers to keys that it has not read; a point on the line is a right
# answer. It starts with a `folded` map and depth 1: however many pairs it reads, the answers do not
# follow the line. Raise the depth. Then try a `straight` map with depth 4.

# %%
from minititans.viz.depth import depth_explorer

depth_explorer(learners, result)

# %% [markdown]
# ## Deeper (optional)
#
# The story is complete. What follows looks more closely at what depth can and cannot do; if you are
# in a hurry, jump to the end.
#
# ### What two plain layers cannot do
#
# Three waves look hardly more difficult than two. But $\mathrm{SiLU}(x) - \mathrm{SiLU}(-x) = x$,
# for every $x$. So in a memory of two plain layers, $M(k) - M(-k) = W_2 W_1 k$: seen from opposite
# sides, it is *still a matrix*. Three waves change sign on the opposite side, so this difference is
# three waves again, which no matrix can follow. A third layer breaks the symmetry.

# %%
weights = {2: learn(three, 2, 32, 1), 3: learn(three, 2, 32, 32, 1)}
answers = {depth: ask(w) for depth, w in weights.items()}
first = {depth: y[0] for depth, y in answers.items()}
draw_fit(angles[0, :150], three[0, 0, :150, 0], grid, first, "Three waves around the circle")

# %% tags=["hide-source"]
# What was checked: keys all around the circle, three seeds
W1, W2 = weights[2]
here, there = (read(weights[2], sign * circle, residual=False) for sign in (1, -1))
claim(
    "two plain layers are a matrix in disguise for opposite keys: M(k) − M(−k) = W2 W1 k",
    torch.allclose(here - there, circle @ (W2 @ W1).mT, atol=1e-4),
    "ours",
)
claim(
    "so on three waves two layers stay as wrong as zero, and three layers get under 0.1",
    bool((wrong(answers[2], 3) > 0.9).all() and (wrong(answers[3], 3) < 0.1).all()),
    "section 3.1",
)

# %% [markdown]
# ### The outer loop, step by step
#
# Here is what `meta_train` does, for ten steps: it reads four new maps, averages the errors of its
# predictions, and changes the start and the gates.

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
    error = prediction_errors(learner, keys, values).mean()
    optimiser.zero_grad()
    error.backward()  # through all 128 writes of the memory
    optimiser.step()
after = learning_curve(learner, slope=0.0, pairs=128).mean(1)
claim(
    "ten steps of the outer loop remove a tenth of the error",
    (after < 0.9 * before).all(),
    "section 3.1",
)

# %% [markdown]
# ### Further than in training
#
# Look at the figure of the race again, beyond 128 pairs. Two layers still gain: more pairs are what
# they need. Four layers lose some of what they had: gates that suit 128 pairs write too much once
# there is little left to learn.

# %% tags=["hide-source"]
# What was checked: the pairs 384 to 512 against the pairs 96 to 128, three seeds
claim(
    "from 128 to 512 pairs, further than in training, two layers go on improving",
    (late("bent", 2, 512) < 0.95 * late("bent", 2)).all(),
    "figure 7",
)
does_not_reproduce(
    "the longer the sequence, the better a deep memory predicts (tested past its training length)",
    (late("bent", 4, 512) > 1.3 * late("bent", 4)).all(),
    "figure 7",
    because="what four layers learned to do with 128 pairs does not carry over to 512",
)

# %% [markdown]
# ### Capacity
#
# The maps above are rules: the value of a new key can be predicted. Now we read lists of *random*
# pairs, where nothing can be predicted, only remembered. A list is read 16 times, then every key is
# asked for. A matrix of $4 \times 4$ can hold 4 pairs; of $n$ pairs, least squares keeps a share of
# $4/n$. A network with 16 hidden units has more room
# ([`recall_error`](../minititans/experiments/depth.py)).

# %%
from minititans.experiments.depth import recall_error
from minititans.viz.depth import draw_recall

lists = (4, 8, 16, 32, 64)
recall = {d: [recall_error(each, n, passes=16) for n in lists] for d, each in learners.items()}
draw_recall(lists, recall, dim=4)

# %% tags=["hide-source"]
# What was checked: three seeds, 64 lists each
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
    "of 64 pairs no depth recalls anything: depth moves the limit, it does not remove it",
    all(bool((errors[-1] > 0.95).all()) for errors in recall.values()),
    "section 3.1",
)

# %% [markdown]
# ### Longer sequences, larger keys
#
# For the paper's figure 7 each length needs memories trained for it, which takes several minutes.
# So these numbers were computed beforehand with `minititans experiment depth` (three seeds, 300
# steps) and are read from `results/depth/`. The error is the mean over the whole sequence, just as
# perplexity is.

# %%
from pathlib import Path

from minititans.experiments.depth_grid import load_all
from minititans.viz.depth import draw_grid

results = load_all(Path("../results/depth"))
draw_grid(results, "bent")

# %% tags=["hide-source"]
# What was checked: stored results, three seeds each
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

# %% tags=["hide-source"]
# What was checked: the same results
does_not_reproduce(
    "the deeper the memory, the better it predicts (tested at every length, up to four layers)",
    all(bool((stored[4, n, 4] > 0.95 * stored[4, n, 3]).all()) for n in (32, 64, 128, 256, 512)),
    "figure 7",
    because="a fourth layer lowers the error by less than 5 %, if at all",
)
does_not_reproduce(
    "the deeper the memory, the better it predicts (tested with keys of 16 numbers)",
    all(bool((stored[16, 128, depth] > 0.98 * stored[16, 128, 1]).all()) for depth in (2, 3, 4)),
    "figure 7",
    because="128 pairs are too few for such keys: there no depth is better than a matrix",
)

# %% [markdown]
# All of this says the same thing: a deep memory needs pairs. A map of 16 dimensions has many more
# directions to bend in, and 128 pairs show too few of them. The paper's figure 7 shows perplexity
# on text, where more layers were always better; random maps are not text.

# %% [markdown]
# **What to take away**
#
# - A matrix memory is linear regression. It cannot follow a nonlinear rule, however long it reads.
# - In a deeper memory every layer's surprise is the error at its output times what entered it; the
#   error comes down by backpropagation. The rule is the same.
# - Layers that add to a vector of length 1 make a deep memory safe to fade: it becomes a shallower
#   one and goes on learning. Plain layers die.
# - Depth pays off where the map is bent and there are enough pairs. Where the map is straight, the
#   pairs few or the keys large, it gains little and costs just as much: time grows about linearly
#   with depth.
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
