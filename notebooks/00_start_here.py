# %% [markdown]
# # Start here
#
# **Question:** what does it mean for a memory to *learn while it reads*?
#
# **You will build:** a memory in three lines of code. It has never seen your sentence; it reads it
# once, and then it knows it.
#
# **Time:** about 10 s to run on 2 cores, 15 minutes to read.
#
# **You need:** a little Python, and an idea of what a vector and a matrix are. No GPU.

# %%
import torch

from minititans.course import claim
from minititans.experiments.sentence import pairs, read_text
from minititans.viz.loop import draw_loop
from minititans.viz.reading import draw_reading, reading_explorer

# %% [markdown]
# ## A sentence no one trained on
#
# A language model is trained once, on a great deal of text. After that its weights are fixed: it
# can look at a new text, but it does not learn from it. Here is the opposite: a memory that starts
# with *nothing* and is given one sentence.
#
# Its task is to guess the next letter from the three letters before it. (For the first three
# letters we go back to the end of the sentence, as if it were written in a ring.)

# %%
text = "to be or not to be, that is the question"
for i in range(3, 8):
    print(f"after {text[i - 3 : i]!r} comes {text[i]!r}")

# %% [markdown]
# A memory works with vectors. Every group of three letters gets its own random direction, the
# **key**; every letter gets one too, the **value**. All of them have length 1. In 128 dimensions
# there is so much room that two random directions are nearly at right angles: their dot product is
# small.

# %%
keys, values = pairs(text, look_back=3)
overlap = (keys @ keys.T).abs()
print("keys:", list(keys.shape), " values:", list(values.shape))  # [letters, dim]
different = overlap[overlap < 0.99]  # some groups, such as "to ", appear twice
print(f"a key with itself: {overlap.diag().mean():.2f}, with another: {different.mean():.2f}")

# %% [markdown]
# ## Three lines that learn
#
# The memory is a matrix `M`, and all it knows is in the numbers of that matrix. For each letter it
# is first asked (`M @ key`), then shown the right answer, and then it corrects itself. The length
# of its `error` is how **surprised** it was.

# %%
M = torch.zeros(128, 128)  # it knows nothing
surprise = []
for key, value in zip(keys.repeat(3, 1), values.repeat(3, 1)):  # three readings
    error = value - M @ key  # ask, and compare
    M = M + torch.outer(error, key)  # write down what was missing
    surprise.append(float(error.norm()))

# %% [markdown]
# That is all. There is no optimiser, no training set, and no second program that trains this one:
# *reading is learning*. The function `read_text` runs the same loop and also keeps what was
# guessed.
#
# **Predict first.** The memory reads the 40 letters three times. How many will it guess correctly
# on the first reading? On the second, and on the third? Is there a letter that it will never get
# right? Write down three numbers, then run the cell. There is one line per reading.

# %% tags=["predict"]
reading = read_text(text, look_back=3, theta=1.0, times=3)
draw_reading(reading, length=len(text))

# %% [markdown]
# Even on the first line, the second "to be" is partly expected: the memory has just met the first
# one. On the second line it expects nearly everything. The letters that stay orange cannot be known
# from the three letters before them: after "` be`" comes a space the first time and a comma the
# second.

# %% tags=["hide-source"]
# What was checked: the counts for five sets of random directions
by_reading = [read_text(text, seed=seed).right().view(3, 40).sum(1) for seed in range(5)]
claim(
    "a sentence seen once is known: on the second reading over 70 % of the letters are expected, "
    "on the first under 20 %",
    all(right[0] < 8 and right[1] > 28 for right in by_reading),
    "equation (8)",
)
claim(
    "the three-line loop gives the surprises that the picture shows",
    torch.allclose(torch.tensor(surprise), reading.surprise, atol=1e-5),
    "equation (8)",
)

# %% [markdown]
# (The cell above is folded. A line with a ✓ is a *claim*: the notebook checks it each time it runs,
# and stops if it is false. Click on the folded cell to see what was checked.)
#
# **Predict first.** Suppose the memory looks back only *one* letter: after "t", what comes next?
# How many of the 40 letters will it guess on the third reading, and would a hundred readings help?

# %% tags=["predict"]
draw_reading(read_text(text, look_back=1, times=3), length=len(text))

# %% [markdown]
# In this sentence "t" is followed by "o", "h", "i" and a space. They all share one key, so each
# write replaces the one before. The memory is as good as it was; its *keys* are worse. What makes a
# good key is not something it can learn while it reads.

# %% tags=["hide-source"]
# What was checked: the counts for five sets of random directions
one_letter = [read_text(text, 1, seed=seed).right().view(3, 40).sum(1) for seed in range(5)]
claim(
    "with one letter as its key the memory expects under a quarter of the sentence, on the third "
    "reading just as on the second",
    all(right[2] < 10 and right[1] < 10 for right in one_letter),
    "ours",
)

# %% [markdown]
# ## Your turn
#
# Type your own sentence and press play to watch the memory read it. If it looks back at fewer
# letters, it mixes things up. With a smaller `theta` it writes down only part of each error and
# needs more readings; above 1 it overshoots.

# %%
reading_explorer()

# %% [markdown]
# ## Where this is going
#
# Your three lines are the simplest case of the memory in
# [Titans](https://arxiv.org/abs/2501.00663). Here is the whole memory in one picture. You have
# built the middle: prediction, error, memory. The other parts follow one by one, and the picture
# returns in each notebook with the new part lit.

# %%
draw_loop()

# %% [markdown]
# Two kinds of learning meet in this picture, and most of the course is about telling them apart.
# Blue is what you saw here: it changes with every token that is read. Orange is what an ordinary
# training run learns beforehand, such as *what makes a good key*. Notebook 02 comes back to this.
#
# In the library the whole picture is one layer,
# [`NeuralMemory`](../minititans/memory/neural_memory.py), which fits into a model like any other
# layer. Even without training it learns what it reads. (Its task is another one: it makes a key and
# a value from each letter itself, with random projections. Its values are shorter than ours, so
# compare its surprises only with each other.)

# %%
from minititans.memory import NeuralMemory

torch.manual_seed(0)
memory = NeuralMemory(dim=128, heads=1)
x = values.repeat(3, 1)[None]  # [batch, time, dim]: three readings of the letters
y, state, trace = memory(x, trace=True)
for number, part in enumerate(trace.surprise.flatten().chunk(3), start=1):
    print(f"reading {number}: mean surprise {part.mean():.2f}")

# %% tags=["hide-source"]
# What was checked: five layers with different random weights
means = []
for seed in range(5):
    torch.manual_seed(seed)
    _, _, trace = NeuralMemory(dim=128, heads=1)(x, trace=True)
    means.append(trace.surprise.view(3, -1).mean(1))
claim(
    "the library's layer, untrained, is less surprised each time it reads the sentence again",
    all(first > second > third for first, second, third in means),
    "section 3.1",
)

# %% [markdown]
# ## The map
#
# - **01** [A matrix that remembers](01_matrix_memory.ipynb):
#   how much fits into a matrix, and what happens when it is full?
# - **02** [Surprise is a gradient](02_surprise.ipynb):
#   why is the right correction a gradient, and why is it called surprise?
# - **03** [Surprise that lingers](03_momentum.ipynb): should a surprise last longer than one token?
#   Momentum.
# - **04** [Learning to forget](04_forgetting.ipynb): what should a full memory do? Forgetting.
# - **05** [A deeper memory](05_depth.ipynb):
#   when is a matrix not enough?
# - **06** [Training in parallel](06_chunks.ipynb):
#   how does a loop over tokens become a few matrix products?
# - **07** [Attention with a past](07_attention.ipynb):
#   why have a short-term memory at all?
# - **08** [Three ways to add a memory](08_variants.ipynb):
#   how do attention and memory work together?
# - **09** [Training a Titan](09_training.ipynb):
#   what is learned before the reading starts?
# - **10** [A needle in a haystack](10_needle.ipynb):
#   how far back does it remember?
#
# Each opens with its question and ends with an exercise. A section called "Deeper (optional)" can
# be skipped: nothing later needs it. All claims are listed in [claims.md](../docs/claims.md).
#
# ## Is my machine ready?

# %%
from minititans.doctor import examine

missing = [finding for finding in examine() if finding.required and not finding.present]
for finding in missing:
    print(f"{finding.name}: {finding.detail}. {finding.advice}")
print("Something is missing." if missing else "Yes: everything the course needs is here.")

# %% [markdown]
# **What to take away**
#
# - The memory's *weights are its state*. They change with every token it reads.
# - Surprise is the distance between what the memory expected and what came. What surprises it is
#   written down; what it already knows changes nothing.
# - Asking it is a plain multiplication, so what it has learned is available at any time.
#
# **Exercise:** the first one, [a matrix memory](../exercises/01_matrix_memory.ipynb), comes after
# notebook 01.
#
# **In the paper:** sections 1 and 3.1 of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library:
# [`NeuralMemory`](../minititans/memory/neural_memory.py) is the layer, and
# [`sequential`](../minititans/memory/sequential.py) its rule to the letter.
#
# **Next:** [A matrix that remembers](01_matrix_memory.ipynb)
