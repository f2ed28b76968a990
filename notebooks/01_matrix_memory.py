# %% [markdown]
# # A matrix that remembers
#
# **Question:** how much can a memory of fixed size hold, and what happens when it is full?
#
# **You will build:** attention as a memory that keeps everything, a matrix that compresses, and the
# law by which its contents disturb one another, theory beside measurement.
#
# **Time:** about 5 s to run on 2 cores, 25 minutes to read.
#
# **You need:** [00 Start here](00_start_here.ipynb); what a dot product and a matrix product are.

# %%
import torch

from minititans.course import claim
from minititans.experiments.hebbian import (
    crosstalk,
    hebbian_recall,
    mean_error,
    pairs_held,
    random_pairs,
)
from minititans.viz.loop import draw_loop
from minititans.viz.recall import draw_crosstalk, draw_scores, draw_sizes, recall_explorer

# %% [markdown]
# ## Pairs
#
# A memory holds pairs: a **key** to search with and a **value** to find. Asked with a key, it
# should answer with that key's value. In the picture of the whole, this notebook is about the
# memory itself and how it is read.

# %%
draw_loop("memory", "reading")

# %% [markdown]
# In a model, keys, values and queries are projections of a token, (1) and (11). (Numbers in
# brackets are the paper's equations; [a page](../docs/equations.md) lists them.) Here we draw them
# at random: 64 pairs of directions in 64 dimensions, all of length 1.

# %%
n, d = 64, 64
keys, values = random_pairs(n, d, seed=0)
keys.shape, values.shape  # [pairs, dim]

# %% [markdown]
# ## Attention keeps everything
#
# Attention stores every key and every value as they are. Asked with a query, it compares the query
# with all keys, turns the overlaps into weights that sum to one, and returns the weighted sum of
# the values. That is equation (2) for one query. `sharpness` says how strongly the best match is
# preferred.


# %%
def attention(query, keys, values, sharpness):
    overlaps = keys @ query  # [pairs]
    weights = torch.softmax(sharpness * overlaps, dim=0)
    return weights @ values  # [dim]


for sharpness in (1, 4, 20):
    answers = torch.stack([attention(key, keys, values, sharpness) for key in keys])
    error = (answers - values).square().sum(-1).mean()
    print(f"sharpness {sharpness:2d}: squared error {error:.1f}")

# %% [markdown]
# Flat weights blend all values. Sharp weights pick one, and recall is exact. The price is size:
# attention keeps all $2nd$ numbers, and compares each query with all $n$ keys.

# %% tags=["hide-source"]
# What was checked: every pair of three sets
claim(
    "sharp attention recalls every one of 64 and of 512 pairs exactly",
    all(
        torch.allclose(attention(k[i], k, v, 200), v[i], atol=1e-3)
        for k, v in (random_pairs(64, 64, 1), random_pairs(512, 64, 2), random_pairs(512, 64, 3))
        for i in range(len(k))
    ),
    "equation (2)",
)

# %% [markdown]
# **Predict first.** The alternative is a single matrix of $d \times d$ numbers, however many pairs
# there are. With $d = 64$, how many pairs does it take for attention to keep more numbers than the
# matrix?

# %% tags=["predict"]
draw_sizes(dim=64, longest=256)

# %% [markdown]
# More than $d/2$, here 32. A text has thousands of tokens, and an attention head, one of several
# small attentions that work side by side, has 64 or 128 dimensions, so the matrix is almost always
# smaller.
#
# ## A matrix compresses
#
# How does a matrix $M$ hold a pair? We write the pair by adding the outer product of value and key,
#
# $$M \leftarrow M + v\,k^\top$$
#
# and ask with a product, $M k$. For a single pair $M k = v\,(k^\top k) = v$, because the key has
# length 1.

# %%
M = torch.zeros(d, d)
M = M + torch.outer(values[0], keys[0])  # write one pair
answer = M @ keys[0]  # ask for it
print("squared error with one pair:", round(float((answer - values[0]).square().sum()), 6))

# %% [markdown]
# "Neurons that fire together wire together": $M_{ij}$ grows where number $i$ of a value and number
# $j$ of its key are large together. This is Hebb's rule, and $M$ is a **Hebbian memory**. Two pairs
# stay out of each other's way if their keys are at right angles, and $d$ dimensions have room for
# $d$ such keys.

# %%
at_right_angles = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(0)))[0]
M = values.T @ at_right_angles  # all 64 pairs at once: the sum of their outer products
answers = at_right_angles @ M.T
claim(
    "a d × d matrix recalls d pairs exactly if their keys are at right angles",
    torch.allclose(answers, values, atol=1e-5),
    "equation (4)",
)

# %% [markdown]
# ## It is attention, without the softmax
#
# Leave the softmax out of attention, and the answer is a sum whose order can be changed:
#
# $$\sum_i (q \cdot k_i)\, v_i \;=\; \Big(\sum_i v_i k_i^\top\Big)\, q \;=\; M q$$
#
# On the left all pairs are kept; on the right there is only $M$. This is **linear attention**: (4)
# writes a token into $M$, and (5) reads it. Every memory in this course has these two parts, and so
# does every recurrent network: one that writes (6) and one that reads (7). (The paper's vectors are
# rows, so its $M$ is the transpose of ours.)

# %%
M, y = torch.zeros(d, d), []
for k, v in zip(keys, values):
    M = M + torch.outer(v, k)  # write (4)
    y.append(M @ k)  # read, here with the key as query (5)

causal = torch.tril(keys @ keys.T)  # who sees whom, without a softmax
claim(
    "reading it is attention without the softmax, each token seeing itself and what came before",
    torch.allclose(torch.stack(y), causal @ values, atol=1e-5),
    "equations (3) and (5)",
)

# %% [markdown]
# ## Cross-talk
#
# Real keys are not at right angles. Ask the matrix for pair $j$, and the other pairs answer too:
#
# $$M k_j = v_j + \underbrace{\textstyle\sum_{i \ne j} (k_i \cdot k_j)\, v_i}_{\text{cross-talk}}$$
#
# The next picture has one row per answer and one column per value. With perfect recall only the
# diagonal is coloured; everything else is cross-talk.
#
# **Predict first.** The matrix has 64 × 64 numbers, and we write 16, then 64, then 256 pairs into
# it. In which of the three can you still see the diagonal? In each of them, what share of the
# answers is nearer to the right value than to any other?

# %% tags=["predict"]
draw_scores(*(hebbian_recall(pairs, dim=64) for pairs in (16, 64, 256)))

# %% [markdown]
# ## How much, exactly?
#
# Let the keys be random directions. How large is $(k_i \cdot k_j)^2$ on average? Rotate the space
# so that $k_j$ is the first axis: then it is the square of the first coordinate of $k_i$. The $d$
# squared coordinates sum to 1 and none of them is special, so each is $1/d$ on average.

# %%
for dim in (16, 64, 256):
    k, _ = random_pairs(1000, dim, seed=0)
    overlap = (k @ k.T)[~torch.eye(1000, dtype=torch.bool)]
    print(f"d = {dim:3d}: mean squared overlap × d = {overlap.square().mean() * dim:.1f}")

# %% [markdown]
# There are $n - 1$ other values in the sum. Their directions are independent, so their squares add
# up and the mixed terms are zero on average:
#
# $$\mathbb{E}\,\|\text{cross-talk}\|^2 \;=\; \frac{n - 1}{d}\,\|v\|^2$$
#
# That is the whole theory: the error grows linearly with the number of pairs, and twice the
# dimension halves it. Now the measurement: the dots come from matrices that really hold the pairs,
# the lines from the formula.

# %%
seeds = (0, 1, 2, 3, 4)
draw_crosstalk(dims=(16, 32, 64, 128), counts=tuple(range(1, 257, 15)), seeds=seeds)

# %% tags=["hide-source"]
# What was checked: measured over expected, for twelve sizes
ratios = [
    mean_error(n, d, seeds) / crosstalk(n, d) for d in (32, 64, 128) for n in (32, 64, 128, 256)
]
claim(
    "cross-talk is (n − 1)/d of a value's norm²: measured over five seeds, for three values of d, "
    "it is within 10 % of that",
    all(0.9 < ratio < 1.1 for ratio in ratios),
    "section 2",
)

# %% [markdown]
# ## When is it full?
#
# At $n \approx d$ the cross-talk is as large as the value itself. The answer is then far from
# exact, and yet it may be *nearer to the right value* than to any other, like a name heard in a
# noisy room. So there is no hard limit. A matrix does not fill up like a bottle: with every pair,
# *all* answers become a little worse. Attention is the opposite: perfect up to the end of its
# window, then nothing.
#
# **Predict first.** How many pairs can we write before more than one answer in ten is nearest to a
# wrong value, in 32, 64 and 128 dimensions? Does twice the dimension hold twice the pairs? (We try
# counts that grow by a fifth each time, so the numbers are exact to about a fifth, and seeds often
# agree.)

# %% tags=["predict"]
held = {dim: [pairs_held(dim, seed) for seed in seeds] for dim in (32, 64, 128)}
print("pairs with nine answers in ten right, seed by seed")
for dim, counts in held.items():
    print(f"d = {dim:3d}: {counts}")

# %%
claim(
    "at nine right answers in ten, a memory of 64 dimensions holds over 128 pairs, "
    "and a memory of 128 dimensions over 512",
    min(held[64]) > 128 and min(held[128]) > 512,
    "section 2",
)
claim(
    "twice the dimension holds more than three times the pairs, at nine right answers in ten",
    min(held[64]) > 3 * max(held[32]) and min(held[128]) > 3 * max(held[64]),
    "ours",
)

# %% [markdown]
# Try it. At how many pairs do you lose sight of the diagonal? What changes when you double the
# dimension? And how much of it was luck? Choose "another draw" to find out.

# %%
recall_explorer()

# %% [markdown]
# The Hebbian matrix has one more fault. It writes blindly, without asking what it already knows.
# Write the same pair twice, and it answers with twice the value.

# %%
M = 2 * torch.outer(values[0], keys[0])
claim(
    "a Hebbian memory that sees a pair twice answers with twice the value",
    torch.allclose(M @ keys[0], 2 * values[0], atol=1e-6),
    "equation (4)",
)

# %% [markdown]
# ## Deeper (optional): the library's linear attention
#
# The library has linear attention as one of the memory's relatives. Its
# [`loop`](../minititans/relatives/rule.py) ends with the matrix that we built above. The setting
# [`linear_attention`](../minititans/relatives/settings.py) also sends queries and keys through
# $\phi(x) = \mathrm{elu}(x) + 1$, so that no weight is negative: that is the kernel of (3).

# %%
from minititans.relatives import Tokens, loop

k, v = keys[None, None], values[None, None]  # [batch, heads, time, dim]
_, state = loop(Tokens(k, k, v, decay=torch.ones(1, 1, n)))  # nothing fades
claim(
    "linear attention's state is the Hebbian matrix",
    torch.allclose(state[0, 0], values.T @ keys, atol=1e-5),
    "equation (4)",
)

# %% [markdown]
# **What to take away**
#
# - Attention keeps every pair: exact, and growing with the text. A matrix keeps $d^2$ numbers, no
#   matter how many pairs.
# - Linear attention *is* a Hebbian matrix memory: the same sum in another order.
# - The price is cross-talk, $(n-1)/d$. It comes from keys that are not at right angles.
# - A larger matrix helps; so does a better way of writing. That is next.
#
# **Exercise:** [A matrix memory](../exercises/01_matrix_memory.ipynb): write and read one yourself.
#
# **In the paper:** section 2, equations (1) to (5), of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library: [`loop`](../minititans/relatives/rule.py)
# and its settings, such as [`linear_attention`](../minititans/relatives/settings.py).
#
# **Next:** [Surprise is a gradient](02_surprise.ipynb)
