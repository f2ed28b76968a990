# %% [markdown]
# # Attention with a past
#
# **Question:** we have a memory that reads texts of any length. Why keep attention beside it, and
# how far back should attention see?
#
# **You will build:** the masks of causal, sliding-window and segmented attention; persistent
# tokens, and the feed-forward layer hidden in them. Then you will look into two trained
# Transformers.
#
# **Time:** about 10 s to run on 2 cores, 25 minutes to read.
#
# **You need:** [01 A matrix that remembers](01_matrix_memory.ipynb) and
# [02 Surprise is a gradient](02_surprise.ipynb); what a softmax is.

# %%
import torch
import torch.nn.functional as F

from minititans.attention import WindowAttention, segment_mask, watch_attention, window_mask
from minititans.course import claim, does_not_reproduce
from minititans.experiments import models
from minititans.experiments.attention_cost import CostConfig, numbers_kept, reading_seconds
from minititans.experiments.hebbian import random_pairs
from minititans.experiments.sink import bits_per_byte, looks, unseen_texts
from minititans.experiments.writing import delta_error
from minititans.viz.attention import draw_cost, draw_looks, draw_masks, draw_turns, draw_weights
from minititans.viz.loop import draw_loop
from minititans.viz.views import view_explorer

# %% [markdown]
# ## Two kinds of memory
#
# Part one was about one picture: a token comes in, surprises the memory, and is written into it.

# %%
draw_loop("memory", "reading")

# %% [markdown]
# What the memory answers is a *reconstruction*. It has a fixed size, so everything it reads shares
# the same numbers, and each new pair disturbs those stored before it. Attention, which we met in
# notebook 01, is the opposite: it keeps every key and every value, and looks them up. Let both read
# more and more pairs in 32 dimensions, then ask for every value again and print the mean squared
# error. An answer of zero, *silence*, has an error of 1. (A `sharpness` of 60 makes the softmax
# pick almost a single key.)


# %%
def attention_error(pairs, dim, sharpness=60):
    keys, values = random_pairs(pairs, dim)
    weights = torch.softmax(sharpness * keys @ keys.T, dim=-1)  # every key asks for its own value
    return float((weights @ values - values).square().sum(-1).mean())


exact, blurred = {}, {}
for pairs in (8, 16, 32, 64):
    exact[pairs], blurred[pairs] = attention_error(pairs, 32), delta_error(pairs, 32, passes=1)
    print(f"{pairs:2d} pairs: attention {exact[pairs]:.2f}, delta rule {blurred[pairs]:.2f}")

# %%
claim(
    "attention recalls 64 pairs in 32 dimensions exactly, where the delta rule, after one reading, "
    "answers about as badly as silence",
    exact[64] < 0.01 and blurred[64] > 0.8,
    "section 2",
)

# %% [markdown]
# With twice as many pairs as dimensions, the memory's squared error is as large as that of silence
# (though almost half of its answers are still nearest to the right value), and attention's answers
# are exact. In Titans, attention is therefore the **short-term memory**: exact, and for what is
# near. The neural memory is the **long-term memory**: approximate, and for everything. The paper
# combines the two in three ways, called MAC, MAG and MAL; the next notebook builds them. But why
# not use attention for everything?
#
# ## What exactness costs
#
# To read a text of $n$ tokens, attention compares each token with itself and all tokens before it.
# That is $n(n+1)/2$ scores: twice the text, four times the work. And it keeps a key and a value for
# every token. We compare one layer of each kind, with 64 dimensions that are divided among four
# **heads**: a head is a small attention, or a small memory, of its own, here of 16 dimensions.

# %%
config = CostConfig()  # 64 dimensions, 4 heads; a memory of depth 2 that reads chunks of 64
for length in (256, 512, 1024):
    kept = numbers_kept(config, length)
    scores = length * (length + 1) // 2
    print(f"{length:5,} tokens: {scores:8,} scores, {kept['attention']:7,} numbers kept;", end=" ")
    print(f"the memory keeps {kept['memory']:,}")

# %%
short, long = numbers_kept(config, 256), numbers_kept(config, 1024)
claim(
    "after four times the text, attention keeps four times the numbers, and the memory as many as "
    "before",
    long["attention"] == 4 * short["attention"] and long["memory"] == short["memory"],
    "section 1",
)

# %% [markdown]
# What the memory keeps: in each head the two 16 × 16 matrices of $M$ and two more for its momentum
# $S$, 4,096 numbers in all, and a few hundred of its last inputs.
#
# But the memory does much more work per token: it predicts, compares and writes. Attention only
# compares and averages.
#
# **Predict first.** Short texts are faster with attention, long ones with the memory. At what
# length do the two take the same time: 100 tokens, 1,000, 10,000?

# %% tags=["predict"]
seconds = reading_seconds(config)
draw_cost(config, seconds)

# %% [markdown]
# The dots were measured on your machine just now, in one thread, with torch's own fast attention.
# Both scales are logarithmic, so the slope shows how the time grows: on a line of slope 1 it grows
# with the length, on a line of slope 2 with its square. The memory's line keeps a slope of about 1;
# attention's bends upwards towards 2. Where they cross depends on the machine and on the sizes of
# the two; that they cross does not.

# %% tags=["hide-source"]
growth = {side: each[-1] / each[2] for side, each in seconds.items()}  # from 1,024 to 8,192 tokens
claim(
    "from 1,024 to 8,192 tokens, eight times the text, attention's time grows over twice as much "
    "as the memory's",
    growth["attention"] > 2 * growth["memory"],
    "section 1",
)
claim(
    "attention is the faster one at 256 tokens, and the memory's cost per token stays within a "
    "factor of two from 1,024 to 8,192",
    seconds["attention"][0] < seconds["memory"][0] and growth["memory"] < 16,
    "section 1",
)

# %% [markdown]
# ## See less: masks
#
# If attention is for what is near, it need not see everything. What a token may see is a table of
# yes and no, a **mask**: one row for each token that looks, one column for each token it may look
# at. Equation (2) sums over $j \le i$, and that is the first mask. Each of the other two takes one
# more comparison.

# %%
time, window = 12, 4
i, j = torch.arange(time)[:, None], torch.arange(time)  # who looks, and at whom

causal = j <= i
sliding = causal & (i - j < window)
segments = causal & (i // window == j // window)
draw_masks({"causal": causal, "sliding window of 4": sliding, "segments of 4": segments})

# %% [markdown]
# Read a row: the seventh token sees all seven tokens so far, or the last four, or the three that
# its segment has so far; itself included. Read a column: which tokens see the seventh, and for how
# long?
#
# - In a **sliding window** every token sees equally many tokens, once there are enough. MAG and MAL
#   use one.
# - **Segments** forget all at once: the first token of a segment sees only itself. MAC uses them,
#   and gives each segment something of the past to look at: what the memory recalls, put before
#   the segment in equation (22). Notebook 08 builds this.
#
# The library has functions for the same masks. For a long text it never builds such a table: it
# reads in blocks, so that the cost of a window grows with the length and not with its square.

# %%
same = torch.equal(window_mask(time, time, None), causal)
same &= torch.equal(window_mask(time, time, window), sliding)
same &= all(
    torch.equal(segment_mask(4, 4, 0)[:, 4:], segments[s : s + 4, s : s + 4]) for s in (0, 4)
)
claim("these three lines are the masks of the library", same, "equation (2)")

# %% [markdown]
# A window has a price. What is outside it cannot change the answer, not even a little. Here is a
# layer with a window of 4, and a text of 12 tokens in which we replace the third:

# %%
torch.manual_seed(0)
layer = WindowAttention(dim=32, heads=2, window=4)
x = torch.randn(1, 12, 32)
changed = x.clone()
changed[:, 2] = torch.randn(32)
difference = (layer(x)[0] - layer(changed)[0]).norm(dim=-1)[0]
print("how much each token's answer moves:", [round(d, 2) for d in difference.tolist()])

# %%
moves = difference > 1e-6
claim(
    "with a window of 4 a token reaches itself and the three after it, and no others",
    moves.tolist() == [False] * 2 + [True] * 4 + [False] * 6,
    "section 4.2",
)

# %% [markdown]
# More layers help a little: a token reaches three places further through one layer, six through
# two, thirty through ten. To reach back to the beginning of a book takes something else, and that
# is what the memory is for.
#
# ## Where is a token?
#
# A softmax over keys does not know their order. Modern attention adds it with **rotary positions**:
# it takes the numbers of a query or key in pairs, as points in a plane, and turns each pair by an
# angle that grows with its place in the text. A query at place $i$ and a key at place $j$ are then
# turned against each other by the angle of $i - j$, so their product depends on how far apart they
# are, and on nothing else about their places. Here is one query and one key, at three places in the
# text; the distance between them grows from 0 to 59.


# %%
def rotate(x, place):
    half = x.shape[-1] // 2
    angle = place * 10_000.0 ** (-torch.arange(half) / half)  # each pair turns more slowly
    a, b = x[:half], x[half:]  # pair number j is (a[j], b[j])
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()])


q = k = F.normalize(torch.ones(16), dim=0)
scores = {
    f"key at {place}": torch.stack([rotate(q, place + d) @ rotate(k, place) for d in range(60)])
    for place in (0, 7, 1000)
}
draw_turns(scores)

# %% [markdown]
# There are three lines, and they lie on top of each other. (The waves are the pairs turning, each
# at its own speed.)

# %%
first, second, third = scores.values()
claim(
    "a rotated product depends on the distance alone: the same for a key at 0, at 7 and at 1,000",
    torch.allclose(first, second, atol=1e-3) and torch.allclose(first, third, atol=1e-3),
    "section 4.2",
)

# %% [markdown]
# ## A past that was learned: persistent memory
#
# There is a third kind of memory in Titans. Attention and the neural memory hold what is in *this*
# text. Neither holds what is true of *all* texts. **Persistent memory** is the simplest way to add
# that: a few vectors $p_1 \dots p_N$, trained with the model and put before every text, as in
# equation (19):
#
# $$x_{\text{new}} = [\,p_1\; p_2 \dots p_N\,] \;\|\; x$$
#
# The two bars mean "followed by". In a mask these tokens are columns that everyone sees:

# %%
prefix = 3
seen_by_all = torch.ones(time, prefix, dtype=torch.bool)
with_prefix = {
    "sliding window with a prefix": torch.cat([seen_by_all, sliding], 1),
    "segments with a prefix": torch.cat([seen_by_all, segments], 1),
}
from_library = window_mask(time, time, window, prefix)
claim(
    "a prefix adds columns of yes to the window's mask",
    torch.equal(from_library, with_prefix["sliding window with a prefix"]),
    "equation (19)",
)
draw_masks(with_prefix, prefix)

# %% [markdown]
# The paper looks at these tokens from three sides.
#
# **First side: memory.** They belong to the outer loop of notebook 02: training changes them,
# reading does not. What the neural memory learns from a text ends with the text; what they hold
# stays.
#
# **Second side: a feed-forward layer.** Between two layers of attention, a Transformer has a
# *feed-forward layer*, a small network that is applied to each token by itself: two matrices with a
# nonlinearity between them. Now look at $p$. Its keys and values never change, so what a token gets
# from $p$ depends on nothing but the token itself. Write the learned keys as the rows of $W_K$ and
# the learned values as the columns of $W_V$, and what it gets is equation (20):
#
# $$\mathrm{FFN}(x) = W_V\, \mathrm{softmax}(W_K\, x)$$
#
# This is a feed-forward layer, with softmax in place of the usual ReLU. Let us find it in a trained
# model: a small Transformer with four persistent tokens per layer that learned from the help texts
# that come with Python, letter by letter.

# %%
with_p = models.load("text-persistent-transformer")
print(models.record("text-persistent-transformer").command)
layer = with_p.blocks[0].mixer
p, attention = layer.persistent.tokens, layer.attention  # p: [4, 64]

# %% [markdown]
# (In a terminal, `minititans generate text-persistent-transformer --prompt "The "` lets it write.)
#
# Give the layer something to read, and ask it where it looked. `share` is how much of its attention
# each token gave to $p$, for each head.

# %%
x = torch.randn(1, 40, 64)
with torch.no_grad():
    y, _, weights = attention(x, prefix=p, weights=True)  # [1, heads, 40, 4 + 40]
    share = weights[..., :4].sum(-1, keepdim=True)  # [1, heads, 40, 1]
share.shape

# %% [markdown]
# Now rebuild the same answer from two parts: a feed-forward layer for each token by itself, and
# attention that has never heard of $p$. Mix the two according to the share. (`split` makes queries,
# keys and values for every head, and `join` puts the heads' answers together. As in (2), scores are
# divided by $\sqrt{16}$, the root of a head's dimensions.)

# %%
with torch.no_grad():
    q, _, v = attention.split(x)  # [1, heads, 40, 16]
    _, W_K, W_V = attention.split(p[None])  # [1, heads, 4, 16]: the same for every text
    ffn = torch.softmax(q @ W_K.mT / 16**0.5, dim=-1) @ W_V
    _, _, alone = attention(x, weights=True)
    mixed = attention.join(share * ffn + (1 - share) * (alone @ v))

claim(
    "attention over p || x is a mixture: a feed-forward layer of each token alone, and attention "
    "without p",
    torch.allclose(mixed, y, atol=1e-5),
    "equation (20)",
)

# %% [markdown]
# So persistent tokens give each head a small feed-forward layer, and a say in how much of it to
# use.
#
# **Third side: somewhere to look.** The weights of a softmax add up to one. A head that has nothing
# to look for cannot look away; it must put its weight somewhere. In large Transformers it ends up
# on the first token, which every token sees: the **attention sink**. The paper says that persistent
# tokens can take that weight.
#
# We also have the same small Transformer without persistent tokens, trained with the same command
# except for `--variant`. In the second half of a text of 128 letters a token sees about 96 others,
# so with no preference at all each of them would get about 1 % of its attention.
#
# **Predict first.** How much does the first token get, in the Transformer without $p$? And how much
# do four persistent tokens get together, in the one that has them?

# %% tags=["predict"]
plain = models.load("text-transformer")
texts = unseen_texts(32, 128)
found = {
    "without persistent tokens": looks(plain, texts),
    "with four of them": looks(with_p, texts),
}
draw_looks(found)

# %% [markdown]
# Each bar is one head, and its colours show where its attention goes. There is no sink on the first
# token: the black part is too thin to see. But give the heads a place to rest, and nearly all of
# them use it. The weight comes mostly from the two blues: the token itself and the letter before
# it.

# %%
without, having = found.values()
for name, each in found.items():
    print(f"{name}: first token {each.first.mean():.1%}, itself {each.own.mean():.0%},", end=" ")
    print(f"the letter before {each.before.mean():.0%}, p {each.persistent.mean():.0%}")

# %% tags=["hide-source"]
more = [
    (looks(plain, each), looks(with_p, each)) for each in (unseen_texts(16, 128, s) for s in (1, 2))
]
pairs = [(without, having), *more]
does_not_reproduce(
    "attention with a causal mask is almost always highly active for initial tokens",
    all(a.first.max() < a.equal for a, _ in pairs),
    "section 3.3",
    because="in a Transformer of 167,000 parameters that reads letters, no head gives the first "
    "token even an equal share; they rest on the letters next to them",
)
claim(
    "four persistent tokens draw 15 to 25 % of all attention, and one head gives them over 40 %",
    all(0.15 < b.persistent.mean() < 0.25 and b.persistent.max() > 0.4 for _, b in pairs),
    "section 3.3",
)
claim(
    "with persistent tokens, tokens look at themselves less than two thirds as much as without",
    all(b.own.mean() < 0.67 * a.own.mean() for a, b in pairs),
    "section 3.3",
)

# %% [markdown]
# Here is one head of each, reading the same text. A row is a letter that looks, a column a letter
# it looks at (a dot is a space), and the darker a cell, the more weight. On the right, the columns
# before the green line are $p$.

# %% tags=["hide-source"]
tokens = texts[3, :36]
text = bytes(tokens.tolist()).decode(errors="replace")
maps = {}
for title, model, head in (("without p", plain, 2), ("with p", with_p, 1)):
    with torch.no_grad(), watch_attention(model) as seen:
        model(tokens[None])
    maps[f"layer 2, head {head + 1}, {title}"] = list(seen.values())[1][0][0, head]
draw_weights(maps, text, prefix=4)

# %% [markdown]
# Does it help? A letter that was expected with probability $q$ costs $-\log_2 q$ bits: the fewer,
# the better the prediction. This is the mean over texts that neither model was trained on:

# %%
bits = {name: bits_per_byte(model, texts) for name, model in (("plain", plain), ("with p", with_p))}
print({name: round(each, 2) for name, each in bits.items()})

# %%
claim(
    "at this size, bits per byte with and without p are within 5 %: no evidence that p helps",
    abs(bits["plain"] / bits["with p"] - 1) < 0.05,
    "section 3.3",
)

# %% [markdown]
# ## Who sees whom
#
# Now put it all together. Each table is a variant, each row a token that looks, and the framed row
# is the token you pick. In MAC the window is the length of a segment. Press play, or pick a token.
#
# 1. It starts at token 16. Which variants see token 1, and through what?
# 2. Go from token 12 to token 13. In one variant attention forgets everything at once. Which one?
# 3. Set the window to 24. Which tables become alike, and what is the memory still good for?
# 4. In MAL the persistent tokens change colour as you go down. Why? (Its attention reads what the
#    memory answers, and $p$ comes first in the text: the window soon leaves it behind.)

# %%
view_explorer()

# %% [markdown]
# ## Deeper (optional): how far do windows reach together?
#
# Each layer with a window of $w$ carries a token $w - 1$ places further, so $L$ layers should carry
# it $L(w-1)$ places. To check, change the first token and see which answers move.

# %%
from minititans import TitansConfig, TitansLM


def reach(layers, window):
    torch.manual_seed(0)
    config = TitansConfig("swa", dim=16, layers=layers, heads=2, window=window)
    model, tokens = TitansLM(config).double(), torch.randint(256, (1, 64))
    changed = tokens.clone()
    changed[0, 0] = (changed[0, 0] + 1) % 256
    return int(((model(tokens)[0] - model(changed)[0]).abs().amax(-1)[0] > 0).nonzero().max())


found = {(layers, window): reach(layers, window) for layers in (1, 2, 4) for window in (4, 8)}
claim(
    "L layers with a window of w carry a token L (w − 1) places, and no further",
    all(places == layers * (window - 1) for (layers, window), places in found.items()),
    "section 4.2",
)

# %% [markdown]
# With a window of 512, a text of a million tokens would take two thousand layers. A memory reaches
# the beginning of the text in its first layer.
#
# **What to take away**
#
# - Attention is exact, and its cost grows with the square of the text. The memory is approximate,
#   and its cost grows with the text. So: attention for what is near, a memory for the rest.
# - A mask says who sees whom. Causal, sliding window, segments: one comparison each.
# - Rotary positions make a score depend on distance alone.
# - Persistent tokens are learned, and the same for every text. Attention to them is a feed-forward
#   layer, mixed in by a share that each head chooses.
# - Our small Transformer has no sink at the first token. Offered persistent tokens, it still gives
#   them a fifth of its attention.
#
# **Exercise:** [Attention](../exercises/07_attention.ipynb): masks, rotary positions and persistent
# tokens.
#
# **In the paper:** sections 2 and 3.3, equations (1), (2), (19) and (20), and the attention of
# sections 4.1 and 4.2, (22) and (26), of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library:
# [`window_mask`](../minititans/attention/masks.py),
# [`WindowAttention`](../minititans/attention/window.py),
# [`SegmentAttention`](../minititans/attention/segment.py),
# [`rotate`](../minititans/attention/rotary.py) and
# [`Persistent`](../minititans/variants/persistent.py).
#
# **Next:** [08 Three ways to add a memory](08_variants.ipynb)
