# %% [markdown]
# # Three ways to add a memory
#
# **Question:** attention sees the last few tokens exactly, and the memory keeps the rest in its
# weights. How do you build one layer out of the two?
#
# **You will build:** the paper's four answers, LMM, MAL, MAG and MAC, in a few lines each, and
# check them against the library. Then you will catch one of them, taken to the letter, looking into
# the future.
#
# **Time:** 25 minutes to read, without the optional part; about 30 s to run on 2 cores.
#
# **You need:** [07 Attention with a past](07_attention.ipynb): attention in a sliding window and in
# segments, and persistent tokens.

# %%
import torch

from minititans.course import claim
from minititans.experiments.dataflow import SENTENCE, flows, follow, sentence_vectors, variants
from minititans.viz.diagrams import draw_variant
from minititans.viz.loop import draw_loop
from minititans.viz.variants import draw_flow, variant_explorer

torch.set_num_threads(1)  # these layers are small: a second thread would only be in the way
draw_loop("token", "memory", "reading")

# %% [markdown]
# ## The parts
#
# From here on, this whole picture is one box, $M$: tokens go in, readings come out. We can use it
# in two ways, and the paper marks the second with a star:
#
# - $M(x)$ reads a sequence and **writes** it: every token changes the memory. In code,
#   `y, M = memory(x, M)`.
# - $M^*(x)$ only **asks**: the memory stays as it is. In code, `h = memory.read(x, M.weights)`.
#
# The other parts are attention, and a few persistent tokens $p$ that are the same for every text.
# As in notebook 07, $p \,\|\, x$ means $p$ followed by $x$.
#
# We need a text to watch. This one says two things twice: after *red* comes *fox*, and after *grey*
# comes *owl*.

# %%
x = sentence_vectors(SENTENCE)  # [1, 16, 96]: a random vector for every different word
layers = variants()  # the library's four, around the same memory and the same p
memory = layers["LMM"].memory
p = layers["LMM"].persistent.tokens[None]  # [1, 2, 96]: two persistent tokens
print(*SENTENCE)

# %% [markdown]
# None of these layers is trained. So that we can understand what the memory recalls, three things
# in it are set by hand ([`readable_memory`](../minititans/experiments/dataflow.py)): the key is the
# word *before*, the value is the word itself, and asking *red* uses the key that *red* has when the
# next word is written. Asked *red*, it answers with whatever came after *red*.
#
# ## LMM: the memory alone

# %%
draw_variant("LMM")

# %% [markdown]
# The simplest answer is to leave attention out. The persistent tokens go before the text, and the
# memory reads all of it:
#
# $$y = M(p \,\|\, x)$$


# %%
def lmm(x):
    y, _ = memory(torch.cat([p, x], dim=1))
    return y[:, 2:]  # what it answers to p itself is not needed


claim(
    "LMM in two lines is the library's LMM",
    torch.allclose(lmm(x), layers["LMM"](x)[0]),
    "section 4.3",
)

# %% [markdown]
# ## MAL: memory as a layer

# %%
draw_variant("MAL")

# %% [markdown]
# Put attention after the memory. It looks, in a sliding window of four, at what the memory
# answered. Equations (29) to (31):
#
# $$\tilde x = p \,\|\, x, \qquad y = M(\tilde x), \qquad o = \text{SW-Attn}(y)$$
#
# "In all blocks, we use residual connections", says section 4.4, without saying where. A residual
# connection adds what goes into a part to what comes out of it. Ours go around the memory
# (attention sees $\tilde x + y$) and around attention ($y$ is added to what it finds). `norm`
# divides each token by the root of its mean square, so that attention gets numbers of a usual size.


# %%
norm, window = layers["MAL"].norm, layers["MAL"].attention


def mal(x):
    px = torch.cat([p, x], dim=1)  # (29)
    y, _ = memory(px)  # (30)
    a, _ = window(norm(px + y))  # (31)
    return (y + a)[:, 2:]


claim(
    "MAL in four lines is the library's MAL",
    torch.allclose(mal(x), layers["MAL"](x)[0]),
    "equations (29) to (31)",
)

# %% [markdown]
# ## MAG: memory as a gate

# %%
draw_variant("MAG")

# %% [markdown]
# In MAL, attention gets everything second-hand. MAG puts the two side by side, and both read the
# words. Equations (26) to (28):
#
# $$\tilde x = p \,\|\, x, \qquad y = \text{SW-Attn}^*(\tilde x), \qquad o = y \otimes M(\tilde x)$$
#
# The star on the attention means *with a prefix*: every word sees $p$, however far away it is.
#
# The paper leaves $\otimes$ open: "any non-linear gating", after both sides have been normalised.
# Ours turns attention's side into a gate between 0 and 2, and the memory's side goes through it:
#
# $$y \otimes m = 2\,\sigma(\text{norm}_y(y)) \odot \text{norm}_m(m)$$
#
# Here $\sigma$ is the sigmoid, and $\odot$ multiplies number by number. The first norm is MAL's: it
# divides a token by the root of its mean square. The second divides by
# $\sqrt{\text{mean}(m^2) + 1}$: long answers get shorter, and short ones stay as they are, so that
# a memory with nothing to say stays silent.


# %%
def gate(y, m, norms):
    return 2 * torch.sigmoid(norms.norm_y(y)) * norms.norm_m(m)


def mag(x):
    y, _ = layers["MAG"].attention(x, prefix=p[0])  # (26), (27)
    m = lmm(x)
    return gate(y, m, layers["MAG"].combine)  # (28)


claim(
    "MAG in three lines and a gate is the library's MAG",
    torch.allclose(mag(x), layers["MAG"](x)[0]),
    "equations (26) to (28)",
)

# %% [markdown]
# ## MAC: memory as a context

# %%
draw_variant("MAC")

# %% [markdown]
# In MAG, neither side knows what the other has found. MAC goes furthest: it asks the memory
# *before* attention looks, and writes to it *after* attention has looked. The text comes in
# segments $S$ (not the momentum), here of four words. For each of them, equations (21) to (25):
#
# | | | |
# | --- | --- | --- |
# | (21) | $h = M^*(S)$ | ask the memory, as earlier segments have left it |
# | (22), (23) | $y = S + \text{Attn}(p \,\|\, h \,\|\, S)$ | attend to $p$, $h$ and the words |
# | (24) | $M \leftarrow M(y)$ | write what came out of that |
# | (25) | $o = y \otimes M^*(y)$ | ask again, and gate |


# %%
attention, norms = layers["MAC"].attention, layers["MAC"].combine


def mac(x):
    M, outputs = memory.start(1), []
    for S in x.split(4, dim=1):
        h = memory.read(S, M.weights)  # (21)
        y = S + attention(p[0], h, S)[0]  # (22), (23)
        m, M = memory(y, M)  # (24), and the answers along the way
        outputs.append(gate(y, m, norms))  # (25)
    return torch.cat(outputs, dim=1)


claim(
    "MAC in a loop of four lines is the library's MAC",
    torch.allclose(mac(x), layers["MAC"](x)[0]),
    "equations (21) to (25)",
)

# %% [markdown]
# ## Word by word
#
# Now let us watch. [`follow`](../minititans/experiments/dataflow.py) reads the sentence with a
# layer and keeps what each part gave.
#
# > **Predict first.** Word 10 is *red*, for the second time. Attention sees four words at most.
# > What will the memory of MAG recall?

# %% tags=["predict"]
draw_flow(flows()["MAG"], word=10)

# %% [markdown]
# Read it from the top. *Written*: how much each word surprised the memory. *Attended*: where
# attention looked, at two persistent tokens (green) and at four words, nearly evenly, since nobody
# has trained it. *Recalled*: what the memory answers to *red*, taken apart into the values of all
# words. It is mostly *fox*, which followed the first *red*, far outside the window. The diagram at
# the bottom is MAG's from above; the stripes in its boxes are the vectors themselves, one stripe
# per number, and "times 0.85 to 1.11" is what the gate multiplies by.
#
# > **Predict first.** The next word is *fox*. How high will its bar be, compared with that of the
# > first *fox*? And what will the memory recall?

# %% tags=["predict"]
draw_flow(flows()["MAG"], word=11)

# %% [markdown]
# About half as high: *red* had announced it, and what is known is not written again. Asked *fox*,
# the memory answers *and*, which came next the first time. This time it is wrong: *ran* comes, and
# its bar will be high.

# %% tags=["hide-source"]
# What was checked: five sets of random weights and words
runs = [
    {name: follow(layer, seed=seed) for name, layer in variants(seed=seed).items()}
    for seed in range(5)
]
fox = runs[0]["MAC"].vocabulary.index("fox")
recalled = torch.stack([next(iter(f.recalled.values()))[9] for run in runs for f in run.values()])
claim(
    "asked “red” a second time, the memory recalls mostly “fox”, in all four variants",
    bool((recalled.argmax(1) == fox).all() and (recalled[:, fox] > 0.5).all()),
    "section 4",
)
attended = [run[name].attended[9, -16:] for run in runs for name in ("MAC", "MAG", "MAL")]
claim(
    "attention could not have known: in none of the three does it see the first “red fox”",
    not torch.stack(attended)[:, :2].any(),
    "section 4",
)
surprise = torch.stack([run["LMM"].surprise for run in runs])  # [seeds, words]
claim(
    "“fox”, “grey” and “owl” surprise the memory under three quarters as much the second time",
    bool((surprise[:, [10, 13, 14]] < 0.75 * surprise[:, [1, 3, 4]]).all()),
    "section 3.1",
)

# %% [markdown]
# Now all four. The widget starts with MAC at word 10. Move `variant` to compare, then press play.
# Look for three things:
#
# - In MAC's first segment $h$ is empty: nothing has been written yet. Later it holds only what
#   *earlier segments* wrote. Attention looks at $h$ (orange) and at the words (blue), within one
#   segment.
# - In MAG and MAL the window slides. In MAL it slides over the memory's answers, and $p$ soon drops
#   out of it; in MAG $p$ stays in sight.
# - MAG, MAL and LMM recall the same things. Their memories read the same words; they differ in what
#   is done with the answer. MAC's memory reads $y$, which attention has already worked on.

# %%
variant_explorer()

# %% tags=["hide-source"]
# What was checked: the same five sets
claim(
    "in MAC's first segment the memory recalls nothing at all",
    not any(run["MAC"].parts["h"][:4].any() for run in runs),
    "equation (21)",
)
claim(
    "MAG, MAL and LMM write the same to their memory",
    all(torch.equal(run[n].surprise, run["LMM"].surprise) for run in runs for n in ("MAG", "MAL")),
    "section 4",
)
claim(
    "MAC writes something else: its memory reads what attention made of the words",
    not any(torch.allclose(run["MAC"].surprise, run["LMM"].surprise) for run in runs),
    "equation (24)",
)

# %% [markdown]
# ## MAC to the letter
#
# We were not quite honest with MAC. Look at its equations again, as a token in the *middle* of a
# segment:
#
# - (23) attends over $p \,\|\, h \,\|\, S$. The mask of notebook 07 hides later words of $S$. But
#   it does not hide $h$, and $h_j$ is the memory's answer *to word $j$*: it reveals something about
#   a word that is still to come.
# - (25) asks $M_t$, the memory after the *whole* segment was written, later words included.
#
# Our `mac` avoids both. Its attention lets token $i$ see only those $h_j$ with $j \le i$, and each
# token is answered by the memory as it was after *its own* write. Here is MAC again, with a switch
# for each of the two leaks.

# %%
from minititans.variants import MAC

to_the_letter = MAC(memory.dim, 1, memory, segment=4, persistent=2, literal=True).double()
to_the_letter.load_state_dict(layers["MAC"].state_dict())


def mac_with(x, all_of_h=False, last_M=False):
    attend = to_the_letter.attention if all_of_h else attention
    M, outputs = memory.start(1), []
    for S in x.split(4, dim=1):
        h = memory.read(S, M.weights)
        y = S + attend(p[0], h, S)[0]
        m, M = memory(y, M)
        if last_M:
            m = memory.read(y, M.weights)  # from the memory at the segment's end
        outputs.append(gate(y, m, norms))
    return torch.cat(outputs, dim=1)


# %% [markdown]
# How do you find a leak? Change one word, and see whose answer moves.
# [`influence`](../minititans/experiments/leak.py) does it for each word in turn.
#
# > **Predict first.** Draw a square: one row per word that is changed, one column per answer, 16 of
# > each. Which cells can be filled in a causal layer? Which others are filled when all of $h$ is in
# > sight, and which when the last $M$ is asked? (The segments have four words.)

# %% tags=["predict"]
from functools import partial

from minititans.experiments.leak import influence
from minititans.viz.leak import draw_influence

switches = {
    "causal": {}, "all of h": {"all_of_h": True},
    "the last M": {"last_M": True}, "both: to the letter": {"all_of_h": True, "last_M": True},
}  # fmt: skip
moved = {name: influence(partial(mac_with, **on), x) for name, on in switches.items()}
draw_influence(moved)

# %% [markdown]
# The darker a cell, the more the answer moved; small moves are exaggerated. Causal means empty
# below the diagonal. Each of the two leaks fills the triangle below the diagonal inside every
# segment: a word moves the answers of the words before it. The leak through $h$ is pale, because
# attention starts small (its output projection at a tenth of the usual size), and it is missing in
# the first segment, where $h$ is empty. (The first cell is white because the first answer is always
# 0: no word comes before it, so it has no key and nothing is written.)

# %% tags=["hide-source"]
# What was checked: every change of a word that comes after the answer
later = {name: table.tril(-1) for name, table in moved.items()}  # answers before the change
claim(
    "causal MAC: a changed word moves no earlier answer, not even in the last digit",
    not later["causal"].any(),
    "section 4.1",
)
claim(
    "each of the two leaks alone moves earlier answers of its segment",
    all(later[name][4:].any() for name in ("all of h", "the last M")),
    "equations (23) and (25)",
)
claim(
    "the library's MAC with literal=True has both leaks",
    torch.allclose(mac_with(x, True, True), to_the_letter(x)[0]),
    "section 4.1",
)
claim(
    "no other variant leaks",
    not any(influence(variant, x).tril(-1).any() for variant in (lmm, mal, mag)),
    "section 4",
)

# %% [markdown]
# ## What a leak is worth
#
# Does it matter? Train both to predict random digits. Nobody can: the best guess gives each digit a
# probability of 1/10, a loss of $\ln 10 = 2.30$ nats. (Losses that use the natural logarithm are
# counted in *nats*.) There are two trainings of each, with different seeds
# ([`learn_noise`](../minititans/experiments/leak.py)).
#
# > **Predict first.** Where does the loss of causal MAC go, and where does that of MAC to the
# > letter?

# %% tags=["predict"]
from minititans.experiments.leak import CAUSAL, LITERAL, NoiseConfig, learn_noise
from minititans.viz.leak import draw_noise

noise = learn_noise(NoiseConfig())
draw_noise(noise)

# %% [markdown]
# A wonderful loss, and worth nothing. When such a model is used, the next digit does not exist yet.
# The table on the right imitates that: it gives the loss at one place in the middle of a segment,
# once with the true digits after that place, and once with other digits there. The leaking model
# trusts them, and is worse than guessing.

# %% tags=["hide-source"]
# What was checked: both seeds
claim(
    "causal MAC does not learn noise: its last losses are within 0.05 of the best guess",
    bool(((noise.losses[CAUSAL][:, -20:].mean(1) - noise.guessing).abs() < 0.05).all()),
    "section 4.1",
)
claim(
    "MAC to the letter does: after 70 steps its loss is under 1.9 where 2.3 is the best guess",
    bool((noise.losses[LITERAL][:, -10:].mean(1) < 1.9).all()),
    "equations (23) and (25)",
)
claim(
    "with the future taken away it is worse than guessing, by over half a nat",
    bool((noise.hidden[LITERAL] > noise.guessing + 0.5).all()),
    "equations (23) and (25)",
)

# %% [markdown]
# Whenever a new architecture reports a loss that is too good, change a later token and watch an
# earlier answer. It takes a few lines.
#
# ## What each costs
#
# One layer of each, of the sizes of notebook 07: 64 numbers per token, four heads, a memory of
# depth 2 that reads chunks of 64. Windows and segments have 64 tokens. For comparison, notebook
# 07's attention over the whole text, timed in the same way: in one thread, with torch's own fast
# kernel ([`variant_costs`](../minititans/experiments/variant_costs.py)).
#
# > **Predict first.** Which of the four is slowest? Which keeps most from one token to the next?
# > In notebook 07 the memory overtook attention at several thousand tokens. Which of the
# > four will overtake it, and where?

# %% tags=["predict"]
from minititans.experiments.variant_costs import ATTENTION, VariantCostConfig, variant_costs
from minititans.viz.variant_costs import draw_variant_costs

cost = variant_costs(VariantCostConfig())
draw_variant_costs(cost)

# %%
print("after 16,383 tokens:")
for name, parameters in cost.parameters.items():
    print(f"{name:16}{parameters:7,} parameters, {cost.state[name][-1]:9,} numbers to keep")

# %% tags=["hide-source"]
# What was checked: the numbers and times of the figure
seconds, state = cost.seconds, cost.state
four = ("MAC", "MAG", "MAL", "LMM")
claim(
    "the four keep as much after 16,384 tokens as after 256; attention keeps 64 times as much",
    all(state[name][0] == state[name][-1] for name in four)
    and state[ATTENTION][-1] > 63 * state[ATTENTION][0],
    "section 4",
)
claim(
    "MAC is the slowest of the four",
    all(seconds["MAC"][-1] > 1.2 * seconds[name][-1] for name in four[1:]),
    "section 5",
)

# %% tags=["hide-source"]
# What was checked: the times at 1,024, 4,096 and 16,384 tokens
growth = {name: times[-1] / times[-2] for name, times in seconds.items()}
claim(
    "from 4,096 to 16,384 tokens attention's time grows more than eightfold, and that of the "
    "four variants less",
    growth[ATTENTION] > 8 and all(growth[name] < 8 for name in four),
    "section 4",
)
claim(
    "attention alone is the fastest at 1,024 tokens, and slower than MAG, MAL and LMM at 16,384",
    all(seconds[ATTENTION][1] < seconds[name][1] for name in four)
    and all(seconds[ATTENTION][3] > seconds[name][3] for name in four[1:]),
    "section 4",
)

# %% [markdown]
# Time first: on short texts attention wins, and by far. LMM, MAL and MAG overtake it at several
# thousand tokens; MAC has not by 16,384. MAC is the slowest because it asks the memory twice and
# attends to twice as many keys, and because a segment must wait for the one before it: without the
# last write there is nothing to recall. In MAG and MAL attention need not wait, and reads the whole
# text at once.
#
# Then state. MAG and MAL keep the same amount (their lines coincide): a memory, and the keys and
# values of 63 tokens. MAC keeps its open segment twice, once as words and once as $h$, and the
# memory as it was before. The LMM keeps 6,732 numbers where notebook 07 counted 4,684, because this
# text ends in the middle of a chunk: until the chunk is full, the memory also keeps the weights
# that the chunk started with.

# %% [markdown]
# ## Deeper (optional)
#
# ### One token at a time
#
# A model that generates text gets its tokens one by one. Every variant carries what it needs in its
# state: the memory, the window's keys and values, MAC's open segment.

# %%
differences = []
for layer in layers.values():
    state, pieces = None, []
    for word in x.split(1, dim=1):
        o, state = layer(word, state)
        pieces.append(o)
    differences.append((torch.cat(pieces, dim=1) - layer(x)[0]).abs().max())
claim(
    "word by word, every variant answers as it does to the whole sentence",
    bool(max(differences) < 1e-10),
    "section 4",
)

# %% [markdown]
# MAC to the letter cannot do this at all: it needs the segment's last word before it can answer the
# first. The library says so:

# %%
try:
    _, state = to_the_letter(x[:, :1])
    to_the_letter(x[:, 1:2], state)
except ValueError as error:
    print(error)

# %% [markdown]
# ### How far a word reaches
#
# `influence` also shows the two kinds of memory at work. Let the memory answer 0 to everything, and
# only attention is left; then a word reaches its own answer and the next three, as far as the
# window of four allows.

# %%
from minititans.instruments import switch_memory

reach = {"LMM": influence(lmm, x), "MAG": influence(mag, x), "MAL": influence(mal, x)}
with switch_memory(memory, reading=False):
    reach["MAL, memory off"] = influence(mal, x)
draw_influence(reach)

# %% tags=["hide-source"]
# What was checked: every pair of words
claim(
    "without its memory, no word in MAL reaches further than the window of four",
    not reach["MAL, memory off"].triu(4).any(),
    "equation (31)",
)
claim(
    "with it, every word reaches the last answer",
    bool((reach["MAL"][:, -1] > 0).all()),
    "equation (30)",
)

# %% [markdown]
# ### What we added to the equations
#
# Section 4.4 leaves details open, and [what the paper leaves open](../docs/choices.md) lists what
# we chose: where the residual connections go, the form of $\otimes$, and that its gate starts near
# 1. In the widget it reads "times 0.9 to 1.1" or thereabouts: until it is trained, attention
# neither holds the memory back nor adds to it.

# %% [markdown]
# **What to take away**
#
# - One memory, four places: alone (LMM), before attention (MAL), beside it (MAG), around it (MAC).
# - $M(x)$ writes while it reads, $M^*(x)$ only asks. MAC asks the memory as earlier segments have
#   left it.
# - What was written long ago reaches a token through the memory; what is near, also through
#   attention.
# - MAC read to the letter sees the future, in two ways. Change a later token and watch an earlier
#   answer: a leak cannot hide from that.
# - All four keep a state of fixed size. On long texts LMM, MAL and MAG are faster than full
#   attention; MAC was slower up to 16,384 tokens, the longest text we timed. LMM has the fewest
#   parameters.
#
# **Exercise:** [08 Variants](../exercises/08_variants.ipynb): MAL's order, MAG's gate, MAC's
# segment, and somebody else's MAC, which leaks in three places.
#
# **In the paper:** section 4, equations (21) to (31), of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library: [`LMM`](../minititans/variants/lmm.py),
# [`MAL`](../minititans/variants/mal.py), [`MAG`](../minititans/variants/mag.py),
# [`MAC`](../minititans/variants/mac.py).
#
# **Next:** [09 Training a Titan](09_training.ipynb)
