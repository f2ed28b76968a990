# %% [markdown]
# # Start here
#
# **Question:** what does it mean that a memory *learns while it reads*?
#
# **You will build:** a memory in three lines of code. It has never seen your sentence, reads it
# once, and knows it when it comes again.
#
# **Time:** about 10 s on 2 cores.
#
# **You need:** a little Python, and an idea of what a vector and a matrix are. No GPU.

# %%
import torch

from minititans.course import claim
from minititans.viz.reading import draw_reading, pairs, read_text, reading_explorer

# %% [markdown]
# ## A sentence that nobody trained on
#
# A language model is trained once, on a great many texts. After that its weights are fixed, and a
# new text is something it can look at but not learn. Here is the opposite: a memory that begins
# with *nothing* and is given one sentence.
#
# Its task is to guess the next letter from the three letters before it.

# %%
text = "to be or not to be, that is the question"
for i in range(3, 8):
    print(f"after {text[i - 3 : i]!r} comes {text[i]!r}")

# %% [markdown]
# A memory works with vectors. Every stretch of three letters gets a random direction of its own,
# its **key**, and every letter gets one too, its **value**. They have length 1. Two different ones
# are nearly at right angles, because 128 dimensions have a lot of room: their dot product is small.

# %%
keys, values = pairs(text, look_back=3)
likeness = (keys @ keys.T).abs()
print("keys:", list(keys.shape), " values:", list(values.shape))  # [letters, dim]
different = likeness[likeness < 0.99]  # of two different keys: some, as "to ", come twice
print(f"a key with itself: {likeness.diag().mean():.2f}, with another: {different.mean():.2f}")

# %% [markdown]
# ## Three lines that learn
#
# The memory is a matrix `M`, and what it knows is in its weights. For every letter it is asked
# first (`M @ key`), then shown the truth, and then it corrects itself. The length of its `error`
# is how **surprised** it was.

# %%
M = torch.zeros(128, 128)  # it knows nothing
surprise = []
for key, value in zip(keys.repeat(3, 1), values.repeat(3, 1)):  # three readings
    error = value - M @ key  # ask, and compare
    M = M + torch.outer(error, key)  # write down what was missing
    surprise.append(float(error.norm()))

# %% [markdown]
# That is all. There is no optimiser, no training set and no second program that trains this one:
# *reading is learning*. `read_text` is the same loop, and remembers what was guessed. Each line
# below is one reading.

# %%
reading = read_text(text, look_back=3, theta=1.0, times=3)
draw_reading(reading, length=len(text))

# %% [markdown]
# Look at the first line. Already there the second "to be" is partly expected, because the first
# one was a moment ago. In the second line nearly everything is. What stays orange can not be known
# from three letters: after "`be`" comes a blank the first time and a comma the second.

# %%
read_again = [read_text(text, seed=seed).right().view(3, 40) for seed in range(5)]
claim(
    "a sentence seen once is known: on the second reading over 70 % of the letters are expected, "
    "on the first under 20 %",
    all(right[0].sum() < 8 and right[1].sum() > 28 for right in read_again),
    "equation (8)",
)
claim(
    "the loop of three lines is what the picture shows",
    torch.allclose(torch.tensor(surprise), reading.surprise, atol=1e-5),
    "equation (8)",
)

# %% [markdown]
# ## The same thing with the library
#
# Your three lines are the simplest case of the memory in
# [Titans](https://arxiv.org/abs/2501.00663). The full rule has three gates: `theta`, how much of a
# surprise is written; `eta`, how long a surprise lingers; `alpha`, how fast the memory fades. With
# `theta = 1` and the others zero, [`sequential`](../minititans/memory/sequential.py) does what you
# did.

# %%
from minititans.memory import Gates, MemoryState, sequential

k = keys.repeat(3, 1)[None, None]  # [batch, heads, time, dim]
v = values.repeat(3, 1)[None, None]
gates = Gates.constant(theta=1.0, eta=0.0, alpha=0.0, shape=k.shape[:3])
start = MemoryState.start([torch.zeros(1, 128, 128)], batch=1)
y, state, trace = sequential(k, k, v, gates, start, chunk_size=1, trace=True)

claim(
    "the library's memory feels the same surprise as the three lines",
    torch.allclose(trace.surprise.flatten(), torch.tensor(surprise), atol=1e-4),
    "equation (8)",
)

# %% [markdown]
# Its surprise is the norm of a *gradient*. That a gradient and your `error` have the same length is
# what notebook 02 is about.
#
# ## Your turn
#
# Type your own sentence. Press play to watch the memory read. With fewer letters to look back it
# mixes things up; with a smaller `theta` it needs more readings; above 1 it overshoots.

# %%
reading_explorer()

# %% [markdown]
# ## The map
#
# - **01** [A matrix that remembers](01_matrix_memory.ipynb):
#   how much fits into a matrix, and what happens when it is full?
# - **02** [Surprise is a gradient](02_surprise.ipynb):
#   why is the right correction a gradient, and why is it called surprise?
# - **03** [Surprise that lingers](03_momentum.ipynb):
#   what follows a surprise matters too. Momentum.
# - **04** [Learning to forget](04_forgetting.ipynb):
#   a memory that only adds overflows. Forgetting.
# - **05** [A deeper memory](05_depth.ipynb):
#   when is a matrix not enough?
# - **06** [Training in parallel](06_chunks.ipynb):
#   how does a loop over tokens become a few matrix products?
#
# Each opens with its question and ends with an exercise. Lines with a ✓ are *claims*: the notebook
# checks them when it runs, and stops if one is false. All of them are listed in
# [claims.md](../docs/claims.md).
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
# - Surprise is the distance between what the memory expected and what came. What surprises is
#   written; what is known changes nothing.
# - Asking it is a plain multiplication, so what it learned can be had at any time.
#
# **Exercise:** the first one, [a matrix memory](../exercises/01_matrix_memory.ipynb), comes after
# notebook 01.
#
# **In the paper:** sections 1 and 3.1 of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In the library: the rule to the letter is
# [`sequential`](../minititans/memory/sequential.py), and the same rule fast is
# [`chunked`](../minititans/memory/chunked.py).
#
# **Next:** [A matrix that remembers](01_matrix_memory.ipynb)
