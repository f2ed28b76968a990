# %% [markdown]
# # Training a Titan
#
# **Question:** a Titan learns while it reads. What does it have to learn before it reads, and what
# is the memory worth once it has?
#
# **You will build:** the outer loop, and watch it train a small Titan. Then you will open up one
# that was trained for longer, and see what its gates do at every letter and what happens when parts
# of its memory are switched off.
#
# **Time:** about 50 s to run on 2 cores, 25 minutes to read.
#
# **You need:** [02 Surprise is a gradient](02_surprise.ipynb) for the two loops,
# [08 Three ways to add a memory](08_variants.ipynb) for MAC.

# %%
import math
from copy import deepcopy

import torch
import torch.nn.functional as F

from minititans import TitansLM
from minititans.course import claim, does_not_reproduce
from minititans.experiments import models
from minititans.experiments.live_training import BATCH, LENGTH, SMALL, STEPS, optimiser_for
from minititans.experiments.memory_worth import in_one_stream, memory_worth, read_again
from minititans.experiments.needle_inside import with_alpha
from minititans.experiments.text_reading import by_kind, likeness, read_text
from minititans.tasks.text import Text
from minititans.viz.two_loops import draw_loops

torch.set_num_threads(1)  # these matrices are small: a second thread would only be in the way

# %% [markdown]
# ## Two loops
#
# Here is the picture that you know, with the rest of the model around it. Blue changes with every
# *token*: that is reading. Orange changes with every *batch of texts*: that is training.

# %%
draw_loops()

# %% [markdown]
# Follow the orange arrows. What is read from the memory helps the model predict the next letter.
# The loss says how far off the prediction was. Its gradient goes *back through every write* to the
# three things that reading cannot change: how keys, values and queries are made, how the gates are
# set, and where $M$ starts.
#
# Do the two loops really stay apart? A trained Titan comes with this course. Let it read.

# %%
titan, about = models.load("text"), models.record("text")
print(f"made by `{about.command}`, seed {about.seed}: {about.parameters:,} parameters")

sentence = b"The import statement finds a module, and binds its name."
tokens = torch.tensor([list(sentence)])  # [batch, time]: one token per byte
before = [parameter.clone() for parameter in titan.parameters()]
with torch.no_grad():
    _, state = titan(tokens)

# %%
start = titan.blocks[0].mixer.memory.start_weights[-1].detach()  # [heads, d_out, d_in]
after = state.blocks[0].memory.weights[-1][0]  # what the first block's M is after the sentence
unchanged = all(torch.equal(old, new) for old, new in zip(before, titan.parameters()))
claim(
    "reading a sentence changes M, and not one of the model's parameters",
    unchanged and float((after - start).norm()) > 0.1,
    "section 3.1",
)

# %% [markdown]
# ## The gradient goes through the writes
#
# Now the other direction. Let a copy of the Titan read the sentence, and ask for the gradient of
# its loss. Nothing special is needed: every write is made of ordinary differentiable operations, so
# `backward` goes through all of them, as it did in notebook 02 for a single `theta`.

# %%
twin = deepcopy(titan).double()
logits, _ = twin(tokens[:, :-1])
loss = F.cross_entropy(logits.flatten(0, 1), tokens[0, 1:])
loss.backward()
memory = twin.blocks[0].mixer.memory
orange = [memory.to_qkv.weight, memory.to_gates.weight, memory.start_weights[-1]]
reached = [bool(part.grad.norm() > 0) for part in orange]
print("the gradient reaches projections, gates, start:", reached)


# %% tags=["hide-source"]
# What was checked: the gradient at the start of M against a small push of it, in float64
@torch.no_grad()
def loss_after_push(size):
    start, direction = orange[2], orange[2].grad / orange[2].grad.norm()
    start.add_(size * direction)
    logits, _ = twin(tokens[:, :-1])
    start.sub_(size * direction)
    return float(F.cross_entropy(logits.flatten(0, 1), tokens[0, 1:]))


slope = (loss_after_push(1e-4) - loss_after_push(-1e-4)) / 2e-4
claim(
    "the gradient with respect to where M starts, through all 55 writes, agrees with the effect "
    "of a small push to that start",
    abs(slope / float(orange[2].grad.norm()) - 1) < 1e-4,
    "section 3.1",
)

# %% [markdown]
# ## Train one
#
# The corpus is the language reference that comes with every Python: 0.37 million bytes, the last
# tenth of which is held out: no training sees it. The score is **bits per byte**, as in notebook
# 07: a byte that the model gave probability $q$ costs $-\log_2 q$ bits. A model that knows nothing
# gives each of the 256 bytes the same probability, and pays 8 bits every time.
#
# The model is a MAC of two *blocks*; a block is one layer of notebook 08 and a feed-forward layer.
# Remember what MAC means: attention sees one segment, here of 64 bytes, and whatever came before it
# reaches the model only through the memory. The cell below has the whole outer loop; the inner one
# runs inside `model(tokens)`. Every row of the batch is a text of its own, with a memory of its
# own.
#
# **Predict first.** After about half a minute, 160 steps of 8 × 128 bytes, how many bits will a
# byte cost? The dashed curve is the stored Titan's, which has almost four times as many parameters
# and was trained for 1,500 steps.

# %% tags=["predict"]
from minititans.viz.training import LiveCurve

torch.manual_seed(0)
model = TitansLM(SMALL)
optimiser, schedule = optimiser_for(model)
corpus, generator = Text(), torch.Generator().manual_seed(0)
curve = LiveCurve(STEPS, stored=about)
for _ in range(STEPS):  # the outer loop
    tokens, targets = corpus.batch(BATCH, LENGTH, generator)
    logits, _ = model(tokens)  # the inner loop: the memory reads and writes
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimiser.zero_grad()
    loss.backward()  # back through every write
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    schedule.step()
    curve.add(loss.item())

# %% [markdown]
# In the first twenty steps the model learns which bytes are common (from 8 bits down to about 5),
# then which follow each other, and then, more and more slowly, words. The axis is logarithmic: each
# further bit takes several times as many steps as the one before.
#
# Both curves show the bits of the texts that the models *train* on, and the stored Titan has read
# them many times. What counts is text it has never seen. For comparison, an *n-gram model of order
# 3*: a table of what followed the last three bytes in the training text, or the last two or one
# where the three are new.

# %%
claim(
    "160 steps of the outer loop bring the bits per byte from 8 to below 3.2",
    curve.bits[0] > 7.5 and sum(curve.bits[-20:]) / 20 < 3.2,
    "ours",
)
scores = about.scores  # on 37,408 bytes that were held out, read in 16 stretches
ours, table = scores["bits_per_byte"], scores["ngram_bits_per_byte"]
print(f"the stored Titan: {ours:.2f} bits per byte; an order-3 n-gram model: {table:.2f}")
claim(
    "the stored Titan predicts new text better than an order-3 n-gram model does (one seed)",
    ours < table - 0.15,
    "ours",
)

# %% [markdown]
# ## What the gates have learned
#
# Before training, every gate is the same for all letters: $\theta = 0.12$, $\eta = 0.35$,
# $\alpha = 10^{-5}$. From here on we look at the stored Titan. Its segments have 128 bytes, and it
# has eight memories: four heads in each of its two blocks, which the figures call layers.
#
# **Predict first.** A memory can decide for each letter how much to write. Where would *you* write
# most: at the first letter of a word, inside a word, at a space, at a new line? Will the eight
# memories agree?

# %% tags=["predict"]
from minititans.viz.gates import draw_gates, draw_kinds

passage = bytes(corpus.held_out[2000:8000].tolist())
reading = read_text(titan, passage)
draw_kinds(reading, "theta")

# %% [markdown]
# Each number is the mean of $\theta$ over all letters of a kind. The memories do not agree, and
# that is the point of having several. The third head of the first layer writes at spaces and line
# ends, where something new begins, and far less at digits and punctuation. The first head writes
# most inside words. Nobody told them what a space is.

# %% tags=["hide-source"]
# What was checked: the means over 6,000 letters that no training has seen
theta = {kind: means.flatten() for kind, means in by_kind(reading, "theta").items()}
claim(
    "one of the stored Titan's eight memories opens theta over five times as far at spaces as at "
    "digits and punctuation, and another opens it most inside words (one seed)",
    bool(theta["space"][2] > 5 * theta["other"][2])
    and all(
        theta["inside a word"][0] > means[0] for kind, means in theta.items() if kind[:2] != "in"
    ),
    "section 3.1",
)

# %% [markdown]
# Letter by letter, at the beginning of the sentence from above:

# %%
draw_gates(read_text(titan, sentence))

# %% [markdown]
# Look at $\alpha$. It is closed at most letters and opens at a few: in the fourth head of the
# second layer at commas, full stops and line ends, where a thought is over; in other heads at
# single letters. Nothing but the loss has taught it when to forget. How long, then, does a write
# last?

# %%
alpha = reading.alpha.flatten(0, 1)  # [memories, time]
half = math.log(2) / -torch.log1p(-alpha).mean(-1)
print("half of a write is forgotten after", ", ".join(f"{n:.0f}" for n in half), "letters")

# %% tags=["hide-source"]
# What was checked: the median over letters in each memory, and one head at the ends of clauses
ends = torch.tensor([byte in b",.\n" for byte in passage])
claim(
    "training leaves alpha below 0.001 at more than half of all letters in each of the eight "
    "memories, and in one of them it is over three times as open at commas, full stops and line "
    "ends as elsewhere (one seed)",
    bool((alpha.median(-1).values < 1e-3).all())
    and bool(alpha[7, ends].mean() > 3 * alpha[7, ~ends].mean()),
    "equation (13)",
)

# %% [markdown]
# Is a memory most surprised where the *text* is surprising? You might expect so, but it hardly is.
# A memory predicts a value from a key, both made by learned projections. It does not predict the
# next letter, and where it is wrong says little about where the model is wrong.

# %%
alike = likeness(reading)  # correlation of surprise and bits, [layers, heads]
does_not_reproduce(
    "a memory is surprised where the text is unexpected",
    bool((alike < 0.25).all()),
    "section 3.1",
    because="surprise and bits per byte hardly go together: the largest of eight correlations "
    f"is {alike.max():.2f} (one seed)",
)

# %% [markdown]
# ## What the memory is worth
#
# Now take parts of the memory away and count bits. The text is 16 stretches of 2,048 bytes that
# the Titan was not trained on. In each, the memory starts from its learned start.
#
# - **as trained**: it reads and writes, and its state is carried from segment to segment
# - **state dropped**: it reads and writes, but starts over after each segment of 128 bytes
# - **no writes**: it stays at its learned start, and learns nothing from the text
# - **no memory**: it answers 0 to everything
#
# **Predict first.** Put the four in order. Will the gap between "as trained" and "state dropped"
# grow along the text? How large is it in the first segment?

# %% tags=["predict"]
from minititans.viz.worth import draw_stream, draw_worth

worth = memory_worth(titan, corpus.held_out)
print("without any memory:", f"{worth.mean('no memory'):.1f} bits per byte")
draw_worth(worth)

# %% [markdown]
# In the first segment "state dropped" is the same thing as "as trained"; from the second on, what
# was carried over saves about 0.2 bits per byte. (Attention sees only its own segment, so the
# saving can come from nowhere else.) Without any writes, the model is worse than the n-gram table:
# it has learned to rely on them. *No memory* is off the chart, and does not show what a memory is
# worth at all: in a MAC the output is $y \otimes M(y)$, so with $M = 0$ nothing is left of the
# layer.
#
# How reliable are these numbers? The same 16 stretches are read in each way, so compare stretch by
# stretch, from the second segment on. The number after the ± is one standard error.

# %%
for way in ("dropped", "no writes"):
    more, error = worth.gain(way, first=128)
    print(f"{way:>10}: {more:.2f} ± {error:.2f} bits per byte more")

# %% tags=["hide-source"]
# What was checked: differences between readings of the same stretches, in standard errors
dropped, no_writes = (worth.gain(way, first=128) for way in ("dropped", "no writes"))
claim(
    "what the stored Titan's memory writes saves over 0.8 bits per byte, and carrying its state "
    "from segment to segment about 0.2, both by over five standard errors of 16 stretches (one "
    "seed)",
    all(more > 5 * error for more, error in (dropped, no_writes))
    and abs(dropped[0] - 0.2) < 0.05
    and no_writes[0] > 0.8,
    "section 4.1",
)
claim(
    "in a MAC the memory cannot be switched off: if it answers 0, over 5 bits per byte are needed",
    worth.mean("no memory") > 5,
    "equation (25)",
)

# %% [markdown]
# ## How long does it last?
#
# A saving at 2,048 bytes says nothing about 20,000. So read all 16 stretches as one stream, with
# one memory, and compare with the memory that starts over every 2,048 bytes.

# %%
stream = in_one_stream(titan, corpus.held_out, 16 * 2048)
draw_stream(stream, worth)

# %% [markdown]
# Zero is the memory that starts over every 2,048 bytes. The one that has read everything is as good
# or better all the way, and dropping its state would still cost 0.2 bits at the end. In training it
# was carried on for 25 steps at a time, some 4,800 bytes; this stream is seven times as long. How
# can it last for so much longer than it was taught to? Because it *forgets*: of what it wrote a few
# thousand letters ago, hardly anything is left. Held closed, as below, its alphas show what they
# were worth: the same memory is worse from the start, and gets worse as it reads. The needles of
# the next notebook need the opposite, gates that never forget. A gate learns what its texts ask
# for.

# %%
hoards = in_one_stream(with_alpha(titan, 1e-12), corpus.held_out, 16 * 2048)
cost = (hoards - stream).view(4, -1).mean(1)  # [quarters]
print("without forgetting, bits per byte more in each quarter:", [f"{c:.2f}" for c in cost])

# %% tags=["hide-source"]
# What was checked: each of the 16 stretches, and the second half of the stream
more = (stream.view(16, 2048) - worth.bits["as trained"]).mean(1)  # [stretches]
kept = (worth.bits["dropped"] - stream.view(16, 2048)).mean(1)
claim(
    "in one stream of 32,768 bytes, seven times as long as its state was carried in training, the "
    "stored Titan's memory is nowhere worse than one that starts over every 2,048 bytes, and in "
    "the second half still saves over 0.15 bits per byte over dropping its state (one seed)",
    bool((more < 0.02).all() and more.mean() < 0) and bool(kept[8:].mean() > 0.15),
    "section 1",
)
claim(
    "with its alphas held at zero, the stored Titan's memory needs over 0.08 bits per byte more in "
    "every quarter of that stream, and most in the last (one seed)",
    bool((cost > 0.08).all() and cost.argmax() == 3),
    "equation (13)",
)

# %% [markdown]
# And a memory that was never taught to last? The model you have just trained has only ever seen 128
# bytes at a time. It does better to drop its state than to carry it on:

# %%
untaught = memory_worth(model, corpus.held_out, ways=("as trained", "dropped"))
claim(
    "a model trained on 128 bytes at a time is better off dropping its state than carrying it on "
    "for 2,048 bytes",
    untaught.gain("dropped", first=1024)[0] < 0,
    "ours",
)

# %% [markdown]
# That is what `--carry` in `minititans train` is for: consecutive steps read consecutive pieces of
# the same text, each starting with the state that the one before has left. The state is handed on
# *detached*, so that gradients stop where the piece begins. You will write this in the lab. And it
# has to begin early: with the state carried only in the last 40 % of the steps, when the learning
# rate is already low, alpha stays closed, and a stream of text costs up to 0.2 bits per byte more
# than stretches ([results/train](../results/train/README.md)).
#
# ## Your text
#
# Type or paste something: English, Python, nonsense. Under every letter are the surprise and the
# gates, averaged over the eight memories or for one of them. Below is what the model expected at
# the letter in the red frame (or next, after what you have just typed), with its memory and with
# one that writes nothing; in brackets is the mean over the whole text.
#
# 1. It starts at the "s" of "finds". How likely was it, with and without the writes?
# 2. Press play, and watch the colours: where do the bits go, to the first letters of words or to
#    the last?
# 3. Choose "layer 1, head 3" as the memory. When does it write? When does it not?
# 4. Set "read before" to "the same text". Does the model know your text now? (The next section
#    counts.)

# %%
from minititans.viz.letters import text_explorer

text_explorer(titan, sentence.decode(), letter=26)

# %% [markdown]
# ## Deeper (optional): does it know what it has just read?
#
# The matrix of notebook 00 read a sentence once and knew it by heart. Does the Titan? Each of 32
# passages fills a whole segment and is then read a second time. The second reading is in another
# segment, so attention cannot help.

# %%
first, again = read_again(titan, corpus.held_out)  # [passages] each
print(f"first reading {first.mean():.2f}, second reading {again.mean():.2f} bits per byte")

# %% tags=["hide-source"]
# What was checked: the mean of 32 differences, and its standard error
saved = first - again
claim(
    "a passage that has just been read is predicted better when it comes again, by more than three "
    "standard errors of 32 passages (one seed)",
    bool(saved.mean() > 3 * saved.std() / len(saved) ** 0.5),
    "section 3",
)

# %% [markdown]
# A little: it saves about a tenth of a bit, and is far from knowing the passage by heart. A memory
# could hold a passage; but the outer loop decides what is worth holding, and in this corpus a
# passage hardly ever comes twice. What the memory keeps must be something more general, perhaps the
# words and the layout that a document goes on using. A model that is trained to remember does
# remember: that is the subject of notebook 10.
#
# ## Deeper (optional): let it write
#
# In a terminal, with and without its memory's writes:
#
#     minititans generate text --prompt "The import statement " --seed 0
#     minititans generate text --prompt "The import statement " --seed 0 --no-memory
#
# And `minititans train` makes a model like the stored one in several minutes. With
# `minititans train --data my/texts` it learns from texts of your own.
#
# **What to take away**
#
# - Two loops: reading changes $M$ and $S$. Training changes projections, gates and where $M$
#   starts, by a gradient that goes back through every write.
# - The gates learn when to write and when to forget from nothing but the loss: some heads write at
#   every space, one forgets at every full stop.
# - In the stored Titan, carrying the state from segment to segment is worth about 0.2 bits per
#   byte, and it lasts far beyond the length it was trained on, because it has learned to forget.
# - A memory keeps only what training made worth keeping.
#
# **Exercise:** [Training a Titan](../exercises/09_training.ipynb): one outer step by hand.
#
# **In the paper:** sections 3.1, 4.1 and 4.4 of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library:
# [`take_step`](../minititans/training/step.py),
# [`bits_per_byte`](../minititans/training/evaluate.py),
# [`switch_memory`](../minititans/instruments.py) and
# [`MAC`](../minititans/variants/mac.py).
#
# **Next:** [A needle in a haystack](10_needle.ipynb)
