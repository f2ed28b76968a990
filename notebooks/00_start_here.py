# %% [markdown]
# # Start here
#
# **The question:** what does it mean that a model *learns while it reads*?
#
# **You will see** a memory that has never met your sequence learn it in front of you, and be
# surprised when the sequence changes. Nothing is trained beforehand.
#
# **Time:** about ten seconds on a laptop. **You need:** nothing but this notebook.

# %%
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from minititans.memory import Gates, MemoryState, chunked

_ = torch.manual_seed(0)

# %% [markdown]
# ## A melody, again and again
#
# Think of a melody of eight notes. Each note is a pair: a *key*, where we are in the melody, and a
# *value*, what sounds there. Here both are random vectors of 16 numbers; the keys have length 1.
#
# The melody is played ten times, then another melody takes its place, on the same keys.

# %%
notes, times, dim = 8, 10, 16
keys = F.normalize(torch.randn(notes, dim), dim=-1)
melody = F.normalize(torch.randn(notes, dim), dim=-1)
another = F.normalize(torch.randn(notes, dim), dim=-1)

k = keys.repeat(2 * times, 1)[None, None]  # [batch, heads, time, dim]
v = torch.cat([melody.repeat(times, 1), another.repeat(times, 1)])[None, None]
k.shape

# %% [markdown]
# ## A memory that knows nothing
#
# The memory is a small neural network, and what it remembers is in its weights. We begin with
# small random ones. For each note it is asked: *given this key, which value?* Its answer is wrong
# at first, and **how the weights would have to change to make it right is its surprise**: the
# gradient of the squared error.
#
# Three numbers say what it does with a surprise. `theta` is how much of it is written, `eta` how
# long it lingers, `alpha` how fast everything fades.

# %%
weights = [torch.randn(1, dim, dim) / dim**0.5 for _ in range(2)]  # two layers
start = MemoryState.start(weights, batch=1)
gates = Gates.constant(theta=0.3, eta=0.3, alpha=0.001, shape=k.shape[:3])

y, state, trace = chunked(k, k, v, gates, start, chunk_size=1, trace=True)
surprise = trace.surprise[0, 0]

# %% [markdown]
# That one call *read* 160 notes and *learned* from each. Here is how surprised it was:

# %%
plt.figure(figsize=(9, 3.5))
plt.plot(surprise, color="#0072B2")
plt.axvline(notes * times, color="#D55E00", linestyle="--", label="the melody changes")
plt.xlabel("note")
plt.ylabel("surprise (norm of the gradient)")
plt.ylim(bottom=0)
plt.legend()
plt.tight_layout()
plt.show()

# %%
rounds = surprise.view(2 * times, notes).mean(1)
first, last, change = rounds[0], rounds[times - 1], rounds[times]
print("less surprised by the tenth time than by the first:", bool(last < 0.5 * first))
print("surprised again when the melody changes:", bool(change > 2 * last))
print("and calm again in the end:", bool(rounds[-1] < 0.5 * change))

# %% [markdown]
# Surprise falls while the melody repeats, jumps when it changes, and falls again. No optimiser ran,
# no training set was seen: the memory's own rule did it, one note at a time, while reading.
#
# ## What to take away
#
# - The memory's *weights are its state*. They change with every token it reads.
# - Surprise is a gradient: big for what the memory got wrong, small for what it knows.
# - Asking it is a plain forward pass, so what it learned can be had at any time.
#
# The paper says this in section 3.1 of [Titans: Learning to Memorize at Test
# Time](https://arxiv.org/abs/2501.00663). In this library the rule stands in
# `minititans/memory/sequential.py`, line by line as in the paper, and in
# `minititans/memory/chunked.py`, fast.
#
# **Is my machine ready?** Run `minititans doctor` in a terminal.
