# %% [markdown]
# # A needle in a haystack
#
# **Question:** one fact, then thousands of tokens of noise, then a question about the fact. Which
# models still know it, and why do the others lose it?
#
# **You will build:** nothing new. You will test trained models on texts 64 times as long as those
# they were trained on, look inside while they read, and take parts away until the needle is lost.
#
# **Time:** about 45 s to run on 2 cores, 25 minutes to read.
#
# **You need:** [04 Learning to forget](04_forgetting.ipynb) for `alpha`, [05 A deeper
# memory](05_depth.ipynb) for layers, and the models of [08](08_variants.ipynb).

# %%
import torch

from minititans.course import claim, does_not_reproduce
from minititans.experiments import needle_models, needle_readings
from minititans.experiments.needle_fading import (
    by_depth,
    fade_everywhere,
    new_needles,
    old_needles,
    plant,
)
from minititans.experiments.needle_inside import half_lives, traces, with_alpha
from minititans.experiments.results import found_at, load_all, summary
from minititans.tasks.needle import Needle, accuracy, generator
from minititans.viz.loop import draw_loop
from minititans.viz.needle import draw_depths, draw_haystacks, draw_inside, draw_losing
from minititans.viz.needle_found import TRAINED, chosen, draw_found, found_tables
from minititans.viz.needle_widget import fading_explorer

torch.set_num_threads(1)  # these models are small: a second thread would only be in the way

# %% [markdown]
# ## The haystack
#
# Take a text of noise, and hide a note in it, the *needle*: a key and its value. The text ends with
# a question about that key, and only the answer counts. This is a small version of the paper's
# S-NIAH test ("single needle in a haystack", section 5.3), with its three kinds of needle.

# %%
kinds = {
    "pk": "A passkey (pk): one token, in a sentence that repeats",
    "n": "A number (n): two tokens, in noise that never repeats",
    "w": "A word (w): four tokens, in noise that never repeats",
}
rows = {}
for kind, title in kinds.items():
    tokens, targets = Needle(kind, needles=1).batch(1, 56, generator(seed=3, step=0))
    rows[title] = tokens[0], targets[0]
draw_haystacks(rows)

# %% [markdown]
# A model cannot know in advance which words matter or what will be asked. It has to notice the
# note, keep it, and find it again. (The words are only for these pictures. To the models, tokens
# are numbers from 0 to 63.)
#
# Our models have about 130,000 parameters and two layers. They were trained on haystacks of at most
# **256** tokens, with up to eight needles each. Now they read **16,384**, which is 64 times as
# long.
#
# **Predict first.** The LMM, which has no attention and only its long-term memory, reads 8
# haystacks of 16,384 tokens. How many passkeys does it find? (Guessing finds one in 16.) And how
# much of such a haystack could two layers of *attention with a window* of 32 tokens see?

# %% tags=["predict"]
lmm = needle_models.load("lmm")
share = accuracy(lmm, Needle("pk"), length=16384, samples=8, batch=8, block=256)
print(f"the LMM finds {8 * share:.0f} of 8")
reach = lmm.config.layers * 32 / 16384
print(f"two layers with a window of 32 see the last {reach:.1%} of the haystack")

# %%
claim(
    "trained on 256 tokens at most, the LMM finds at least 7 of 8 passkeys in 16,384",
    share >= 7 / 8,
    "section 5.3",
)

# %% [markdown]
# ## Who finds it?
#
# Eight haystacks read by one trained model are an anecdote. The stored results have at least three
# trainings of each model, from different seeds, and 128 haystacks per length (32 of the longest for
# the slow Transformer, 16 beyond 16,384 tokens). Every model has about the same number of
# parameters and was trained by the same rules. Besides the variants of notebook 08 there are a
# Transformer, a sliding window alone, and three *relatives*: recurrent models whose memory is a
# matrix. DeltaNet is the delta rule of notebook 02; Gated DeltaNet adds forgetting; Mamba-2 has
# forgetting, but writes without comparing first. The upper row is table 2 of the paper, the lower
# row shows our means over the seeds; the bars are one standard error.

# %%
found = {kind: load_all(f"../results/needle/{kind}") for kind in kinds}
found = {kind: results for kind, results in found.items() if results}
names = ("mac", "mag", "mal", "lmm", "deltanet", "gated_deltanet", "mamba2", "transformer", "swa")
draw_found(found, names)

# %% [markdown]
# Look at the axis first. The paper's models were trained on texts of 4 K tokens, so its 16 K is
# *four* times that; our 16,384 is *64* times our 256. On the other hand, the paper's noise is real
# text, its models know a language, and they are over a thousand times larger. So compare the
# shapes, not the heights.
#
# Here are our numbers, in per cent. The columns on the right are lengths, as multiples of the
# longest text in training; "paper, 4 ×" is the paper's result at four times its own training
# length, where it has one.

# %%
found_tables(found, names)

# %% tags=["hide-source"]
at_4, at_64 = found_at(found["pk"], 4 * TRAINED), found_at(found["pk"], 64 * TRAINED)
claim(
    "LMM and MAC find over 90 % of the passkeys at 64 times their training length",
    at_64["lmm"][0] > 0.9 and at_64["mac"][0] > 0.9,
    "table 2",
)
if "swa" in at_4:
    claim(
        "a sliding window alone finds under a quarter of the passkeys at four times its "
        "training length",
        at_4["swa"][0] < 0.25,
        "section 5.3",
    )
if "transformer" in at_64:
    claim(
        "a Transformer of this size, whose attention sees everything, finds fewer passkeys than "
        "LMM and MAC at 64 times its training length",
        at_64["transformer"][0] < min(at_64["lmm"][0], at_64["mac"][0]),
        "section 5.3",
    )

# %% [markdown]
# The Transformer sees every token, and still loses the needle, probably because it has never met a
# distance beyond 256. Not everything comes out as in the paper, though: compare the columns
# "paper, 4 ×" and "4 ×". In the paper, the relatives have lost passkeys there. Ours keep them for
# longer:

# %% tags=["hide-source"]
if "deltanet" in at_4:
    does_not_reproduce(
        "DeltaNet loses passkeys at four times its training length (71 % against the LMM's 96 %)",
        at_4["deltanet"][0] > 0.9,
        "table 2",
        because=f"our DeltaNet, a matrix with the delta rule, still finds "
        f"{at_4['deltanet'][0]:.0%} there, and {at_64['deltanet'][0]:.0%} at 64 times; perhaps "
        "noise of eight words leaves room enough in a matrix",
    )
if "mamba2" in at_4:
    does_not_reproduce(
        "Mamba-2 has lost nearly all passkeys at four times its training length (5 %)",
        at_4["mamba2"][0] > 0.25,
        "table 2",
        because=f"ours still finds {at_4['mamba2'][0]:.0%} there; at 64 times it finds "
        f"{at_64['mamba2'][0]:.0%}",
    )

# %% [markdown]
# Numbers and words are harder to keep, because their noise never repeats. On words MAC and MAG,
# with attention beside their memories, keep more than the memory alone and more than the relatives,
# as in the paper. Not everything is as there: MAL finds more words than the LMM in the paper, and
# fewer here, and both find fewer than Gated DeltaNet, which table 2 does not have. On numbers, MAC
# and LMM are ahead of the relatives on average, but the trainings of one model differ so widely
# that more seeds are needed to say who is ahead. (On numbers MAC was trained six times. A failure
# in one of the first three led us to change the training, so the second claim counts only the other
# three.)

# %% tags=["hide-source"]
others = ("deltanet", "gated_deltanet", "mamba2")
words = {name: share for name, (share, _) in found_at(found["w"], 64 * TRAINED).items()}
claim(
    "at 64 times its training length, MAC finds over 90 % of the words; LMM, DeltaNet, "
    "Gated DeltaNet and Mamba-2 find fewer",
    words["mac"] > 0.9 > max(words[name] for name in ("lmm", *others)),
    "table 2",
)
untouched = [run for run in found["n"] if run.variant != "mac" or run.seed > 12]
numbers = {name: share for name, (share, _) in found_at(untouched, 64 * TRAINED).items()}
claim(
    "at 64 times their training length, MAC and LMM find more numbers than DeltaNet, Gated "
    "DeltaNet and Mamba-2 do",
    min(numbers["mac"], numbers["lmm"]) > max(numbers[name] for name in others),
    "table 2",
)

# %% [markdown]
# And further? A memory of fixed size can read on for as long as you like; a million tokens is about
# 4,096 times the longest text in training. For each model, this is the longest haystack that it has
# been given:

# %%
for kind, results in found.items():
    for name, runs in chosen(results, names).items():
        length, share, error = summary(runs)[-1]
        print(f"{kind:3} {name:15} {length:9,} tokens: {share:4.0%} ± {error:.0%}")

# %% [markdown]
# In a million tokens it is forgetting that loses needles: MAG finds about half of them, and all of
# them if its alphas are held at $10^{-12}$ ([results/needle](../results/needle/README.md)).
#
# ## Why it stays: surprise and the gates
#
# An LMM has nothing but its memory. So the needle must be *written*, and thousands of tokens of
# noise must *not* overwrite it. Three things decide that: how surprised the memory is, what share
# of a surprise is written (`theta`), and what share of the memory is forgotten (`alpha`).

# %%
draw_loop("surprise", "gates", "forgetting", "memory")

# %% [markdown]
# Let us watch the memory in the second of the LMM's two layers read 300 tokens of the sentence,
# then the needle, then the sentence again. It has two heads, each with a memory of its own.
#
# **Predict first.** Sketch the surprise: at the first words, at the thirtieth repetition of the
# sentence, at the needle, and just after it. Should `theta` be higher or lower at the needle? How
# large may `alpha` be if a needle is to last for 16,384 tokens?

# %% tags=["predict"]
place = 300
tokens, _ = plant(Needle("pk"), length=400, places=[place], seed=1)
memory = traces(lmm, tokens)[1]  # of the second layer
draw_inside(memory, tokens[0], place, "The second memory of the LMM reads a haystack")

# %% [markdown]
# This is notebook 02 in a trained model. At first, the sentence surprises the memory. After a few
# dozen tokens head 2 knows it, and hardly writes any more; head 1 stays a little surprised and goes
# on writing. Then comes the needle, and the surprise leaps up. The heads divide the work. Head 1
# has a large `theta`, follows whatever comes, and closes at the needle. Head 2 is cautious and
# learns slowly, but opens its `theta` about three times as far at the needle's key.
#
# What is written at a token is `theta` times its surprise: for head 1 hardly anything at the
# needle, and most at the first word *after* it. And `alpha` is so small that its axis needs powers
# of ten (1e-6 is 0.000001).

# %%
written = (memory.theta * memory.surprise)[0]  # [heads, time]
needle = written[:, place : place + 3].amax(1)  # a needle has three tokens
noise = written[:, 200:place].mean(1)
for head in range(2):
    print(f"head {head + 1} writes {needle[head]:.3f} at the needle, {noise[head]:.3f} at noise")
lives = half_lives(lmm)  # [layers, heads]
about = [f"{float(f'{n:.1g}'):,.0f}" for n in lives[1]]  # one digit is enough
print("half of a write is forgotten after about", " and ".join(about), "tokens")

# %% tags=["hide-source"]
surprise = memory.surprise[0]
claim(
    "when the sentence is known, the needle surprises head 2 of the LMM's second memory more than "
    "10 times as much as noise",
    surprise[1, place : place + 3].max() > 10 * surprise[1, 200:place].mean(),
    "section 3.1",
)
claim(
    "head 2 of the second memory writes more than 10 times as much at the needle as at noise",
    needle[1] > 10 * noise[1],
    "equation (14)",
)
claim(
    "training on 256 tokens closed alpha so far that in 16,384 tokens of noise the second memory "
    "forgets less than 2 % of a write",
    (0.5 ** (16384 / lives[1]) > 0.98).all(),
    "equation (13)",
)

# %% [markdown]
# Nobody told `alpha` to close. In a haystack of 256 tokens, a half-life of a few thousand would
# have been enough. But a little less forgetting was always a little better, and this gate *can*
# come close to zero: it is the fourth power of a sigmoid, and starts at 0.00001.
#
# ## Three ways to take it apart
#
# Where the paper leaves something open, we made choices that help a memory last
# ([choices.md](../docs/choices.md)). Here are three models that undo one choice each, and are
# otherwise trained like the LMM:
#
# - **plain layers**: $M(k) = W_2\,\text{silu}(W_1 k)$, with nothing that goes around a layer
#   (notebook 05);
# - **alpha from 0.001**: before training, half of a write is gone after 693 tokens;
# - **frozen chunks**: every surprise in a chunk is measured with the memory as it was at the
#   chunk's start, as in (16) (notebook 06).
#
# A fourth one is simpler: it has **a matrix** in place of two layers.

# %%
variants = ("lmm", "lmm-plain", "lmm-forgets", "lmm-frozen", "lmm-matrix")
found_tables({"pk": found["pk"]}, variants)

# %% [markdown]
# The last row is the memory of notebooks 01 to 04, with everything else as in the LMM. Does one
# passkey need a deep memory at all?
#
# To see *how* the others lose the needle, take one training of each (seed 10) and ask two
# questions. Is an **old** needle, from the beginning of the text, still there? And after much
# noise, is a **new** needle still learned?
#
# We also take the LMM itself, unchanged except that its `alpha` is held at 0.001.

# %%
models = {name: needle_models.load(name) for name in variants[:4]}
held = "LMM, α held at 0.001"
models[held] = with_alpha(lmm, 0.001)
after = (16, 64, 256, 1024, 2048, 4096)  # tokens of noise before a new needle
lives = {name: half_lives(model) for name, model in models.items()}
new = {name: (after, new_needles(model, after)) for name, model in models.items()}
fadings = {"lmm": fade_everywhere(lmm)}

# %% [markdown]
# The old needles take longer: each of three models reads 24 haystacks of 16,384 tokens, with
# needles in 12 places, and is asked after every 512 tokens. A state is a value that can be kept:
# ask from it as often as you like, and the model reads on from it as if nothing had happened. The
# other two have read the same haystacks beforehand, and their answers are stored.
#
# **Predict first.** Plain layers, and an alpha that is held at 0.001: both will lose old needles.
# Which of the two will also fail to learn new ones? (The third panel shows how long a write lasts,
# from the alphas of all four heads: two memories with two heads each.)

# %% tags=["predict"]
fadings |= {name: fade_everywhere(models[name]) for name in ("lmm-plain", held)}
readings = needle_readings.load_all() | fadings  # those of the stored models, and these
old = {name: old_needles(readings[name]) for name in models}
draw_losing(lives, old, new)

# %% [markdown]
# **Plain layers can die.** One head of this model has a half-life of only hundreds of tokens. Where
# a layer adds to what comes in, fading weights make a deep memory shallower, and it goes on
# learning. With plain layers, what one layer learns must pass through the other: as the weights
# fade, less and less can be learned, and nothing brings them back. So it also loses about half of
# the *new* needles. Once the head has faded, nothing more changes, and the line of the old needles
# stays level. But this is one training. In the models of seeds 11 and 12 no alpha is that large.
# They still learn new needles after 4,096 tokens, but at 16,384 they find 87 % and 54 %; the dying
# one, with 55 %, is no worse. So dying is not the only way in which plain layers lose needles.
#
# **Held at 0.001, the memory forgets** and nothing else: every new needle is learned, and every old
# one fades.
#
# **alpha from 0.001** does not lose it in this training. The gates of its first memory stayed open,
# but those of the second have closed, and that is enough. Where a gate starts matters less than
# whether it can close; still, over three trainings it finds fewer at 16,384 tokens than the LMM.
# **Frozen chunks** of 16 tokens keep a write for as long, and new needles are still learned; the
# table above says what freezing costs. In the left panel both keep the oldest needles even better
# than the LMM does, but with one training of each that may be luck: the table, with three, is the
# better judge.
#
# You can watch a memory die: its weights shrink.

# %%
tokens = Needle("pk").noise(1, 4096, generator(seed=0, step=0))
for name in ("lmm", "lmm-plain"):
    size = traces(models[name], tokens)[1].memory[0]  # the norm of M in each head: [heads, time]
    first, last = (", ".join(f"{x:.1f}" for x in size[:, t]) for t in (15, 4095))
    print(f"{name:10} size of the two heads after 16 tokens: {first}; after 4,096: {last}")

# %% tags=["hide-source"]
early, late = after.index(256), after.index(4096)
claim(
    "with plain layers, a new needle may be learned after 256 tokens of noise (over 0.9), but not "
    "after 4,096 (under 0.6; one seed of three)",
    bool(new["lmm-plain"][1][early] > 0.9 and new["lmm-plain"][1][late] < 0.6),
    "ours",
)
claim(
    "in that training with plain layers, one head of the second memory shrinks to less than half "
    "of its size in 4,096 tokens of noise",
    bool((size[:, 4095] < size[:, 15] / 2).any()),
    "equation (13)",
)
claim(
    "with alpha held at 0.001 a new needle is still learned after 4,096 tokens of noise (over "
    "0.9), while one that is 7,680 tokens old is lost (under 0.2)",
    bool(new[held][1][late] > 0.9 and old[held][1][old[held][0] == 7680] < 0.2),
    "equation (13)",
)

# %% tags=["hide-source"]
claim(
    "an alpha that starts at 0.001 learns to close: in the second memory its half-lives grew from "
    "693 to over 100,000 tokens (one seed)",
    (lives["lmm-forgets"][1] > 100_000).all(),
    "equation (13)",
)
claim(
    "with frozen chunks of 16, new needles are learned after 4,096 tokens of noise, too (over 0.9)",
    bool(new["lmm-frozen"][1][late] > 0.9),
    "equation (16)",
)

# %% [markdown]
# ## Where does the needle lie?
#
# The usual picture of this test is a map: from left to right the length of the haystack, from top
# to bottom the depth at which the needle lies. At depth 0 it is the first thing that is read, and
# therefore the oldest. The map costs nothing extra: we asked at every length while the models read.
# A cell is the mean of only two haystacks, so small differences mean nothing.

# %%
maps = {name: by_depth(fading) for name, fading in fadings.items()}
draw_depths(maps)

# %% tags=["hide-source"]
claim(
    "up to 8,192 tokens the LMM gives the right value a probability over 0.9, wherever the "
    "needle lies",
    (maps["lmm"][:, :4] > 0.9).all(),
    "section 5.3",
)
claim(
    "a memory that forgets loses the needle by age: after 8,192 tokens it gives the right value "
    "a probability under 0.3 at depth 0 and over 0.6 at depth 75 %",
    bool(maps[held][0, 3] < 0.3 and maps[held][3, 3] > 0.6),
    "equation (13)",
)

# %% [markdown]
# Read the columns on the right. With a held alpha the map fades from the top: only *age* counts.
# With plain layers it fails in no such order: the oldest needles were learned and then lost; of the
# later ones some are never learned, and some are kept to the end. Two haystacks per cell do not
# tell what decides it. The LMM itself is not perfect either: at 16,384 tokens it is no longer sure
# of some answers. (Why is a good question. Its head 1 never stops writing, as you saw.)
#
# ## Put the needle where you like
#
# Choose a place and two models, then press play: the noise goes on, and both models are asked after
# every 512 tokens. The bars are their answers; the blue one is right. The menus hold the models
# from above and all others whose answers are stored
# ([`load_all`](../minititans/experiments/needle_readings.py)).
#
# 1. It starts with the LMM beside the one with plain layers, and the needle at token 2,048, asked
#    for after 8,192. Go back to the beginning: the needle has not been read yet. Where do the
#    answers come from?
# 2. Put the needle at 256, and play. Which model loses it, and how: all at once, or step by step?
# 3. Now try the later places. With plain layers some needles are still learned. Which?
# 4. Choose the model with the held alpha on the left, and find the age at which it loses the
#    needle. Does that age depend on the place?
# 5. Choose MAC on the right. Its attention sees segments of 32 tokens and cannot reach back to the
#    needle. Does its memory keep it as the LMM's does?
# 6. Choose the Transformer. Its attention reaches every token there is. How long does that help?

# %%
fading_explorer(readings, left="lmm", right="lmm-plain", place=2048, moment=8192)

# %% [markdown]
# ## Deeper (optional): noise that never repeats
#
# A sentence of eight words is soon known, and then it is hardly written. Numbers and words lie in
# noise that is always new. What does our LMM, which was trained on the sentence alone, make of
# that? These are means over 200 tokens, after 200 others, for head 1 and head 2:

# %%
felt = {}
for words, kind in (("a sentence that repeats", "pk"), ("noise that never repeats", "n")):
    trace = traces(lmm, Needle(kind).noise(4, 400, generator(seed=0, step=0)))[1]
    felt[kind] = trace.surprise[..., 200:].mean((0, 2))  # [heads]
    write = (trace.theta * trace.surprise)[..., 200:].mean((0, 2))
    print(f"{words}: surprise {felt[kind][0]:.2f} and {felt[kind][1]:.2f},", end=" ")
    print(f"written {write[0]:.3f} and {write[1]:.3f}")

# %%
claim(
    "noise that never repeats surprises head 2 of the LMM's second memory more than five times "
    "as much as a sentence that does",
    bool(felt["n"][1] > 5 * felt["pk"][1]),
    "section 3.1",
)

# %% [markdown]
# In such noise surprise alone cannot protect a needle: `theta` has to close at noise, and open at a
# note. Models that are trained on numbers and words must learn that as well. The tables under "Who
# finds it?" show how far each got.
#
# **What to take away**
#
# - A needle stays if it is written when it comes, and if what follows neither overwrites it
#   (surprise and `theta`) nor makes it fade (`alpha`).
# - Trained on up to 256 tokens, LMM and MAC keep a passkey for 64 times as long. In the LMM you saw
#   why: the noise no longer surprises one of its heads, and its alphas have closed.
# - There are several ways to lose a needle, and two questions tell them apart: is the old needle
#   gone, and is a new one still learned? Forgetting takes the old ones. In a dying memory many new
#   ones are not even learned.
# - One training is an anecdote. To say who finds more needles takes several seeds, and the same
#   training for all.
#
# **Exercise:** [A needle in a haystack](../exercises/10_needle.ipynb): make the test yourself, and
# judge an ablation.
#
# **In the paper:** section 5.3 and table 2 of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library:
# [`Needle`](../minititans/tasks/needle.py), [`run`](../minititans/experiments/needle.py),
# [`fade`](../minititans/experiments/needle_fading.py) and
# [`half_lives`](../minititans/experiments/needle_inside.py). All stored results:
# [results/needle](../results/needle/README.md).
