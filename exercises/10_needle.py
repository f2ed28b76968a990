# %% [markdown]
# # Lab 10: a needle in a haystack
#
# A test is only as good as its targets. Here you make the haystacks of the notebook [A needle in a
# haystack](../notebooks/10_needle.ipynb) yourself, decide what counts as found, draw accuracy
# against depth, and judge four memories that differ in one decision each. Five tasks; plan 60
# minutes.
#
# Tokens are whole numbers. `MARK` announces a needle, `ASK` a question; keys are 2 to 15, values 16
# to 31, noise 32 to 63. `IGNORE` is a target that does not count.
#
# `check`, `hint("10.1")`, `example("10.1")` and `progress()` work as before.

# %%
import torch

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices
from minititans.tasks import IGNORE
from minititans.tasks.needle import ASK, MARK, Needle, generator

_ = torch.set_num_threads(1)

# %% [markdown]
# ## 10.1 A needle in every row
#
# Turn rows of noise into haystacks. In row $b$ the needle `MARK key value…` *replaces* the noise
# from place `starts[b]` on. The question `ASK key value…` replaces the last tokens of the row. So a
# row stays as long as it was:
#
# `noise … MARK key value … noise … ASK key value`
#
# A value may have several tokens. Do not change `noise` itself.


# %%
def haystack(noise, starts, key, value):
    """Return the noise with a needle and a question in every row.

    noise: [batch, time]; starts, key: [batch]; value: [batch, value_tokens]; whole numbers.
    Returns [batch, time].
    """
    # Replace the next line with your code.
    raise NotImplementedError("10.1: Return the noise with a needle and a question in every row.")


# %%
check("10.1", haystack)

# %% [markdown]
# Here are eight haystacks of 40 tokens. Noise is bright, the needle and the question are dark:

# %%
rng = torch.Generator().manual_seed(0)
noise = torch.randint(32, 64, (8, 40), generator=rng)
starts, key = torch.randint(0, 32, (8,), generator=rng), torch.randint(2, 16, (8,), generator=rng)
tokens = haystack(noise, starts, key, torch.randint(16, 32, (8, 2), generator=rng))
matrices({"tokens": (tokens < 32).double()}, "haystack", "place")

# %% [markdown]
# ## 10.2 What counts
#
# A language model says at each place what comes *next*. So the target at place $t$ is the token at
# $t + 1$. Noise cannot be predicted, so nearly all targets are `IGNORE`: only the tokens of the
# value after the question count. They are the last `value_tokens` tokens of the row.


# %%
def targets_of(tokens, value_tokens):
    """Return what the model must say at each place, and IGNORE where nothing is asked.

    tokens: [batch, time], whole numbers; value_tokens: a whole number. Returns [batch, time].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "10.2: Return what the model must say at each place, and IGNORE where nothing is asked."
    )


# %%
check("10.2", targets_of)

# %% [markdown]
# The library makes its haystacks at random. Its targets are yours:

# %%
for kind, value_tokens in {"pk": 1, "n": 2, "w": 4}.items():
    tokens, targets = Needle(kind, needles=1).batch(100, 64, generator(seed=0, step=0))
    print(kind, "the same targets:", torch.equal(targets_of(tokens, value_tokens), targets))

# %% [markdown]
# ## 10.3 Found or not
#
# A model answers with logits, `[batch, time, vocab]`, and says the token with the largest. A needle
# is found when *every* token of its value is right. Places with the target `IGNORE` do not count.
# Return 1 for each row that was found and 0 for each that was not, with the dtype of the logits.


# %%
def found(logits, targets):
    """Return which needles were found: 1 or 0 for each row.

    logits: [batch, time, vocab]; targets: [batch, time], whole numbers. Returns [batch].
    """
    # Replace the next line with your code.
    raise NotImplementedError("10.3: Return which needles were found: 1 or 0 for each row.")


# %%
check("10.3", found)

# %% [markdown]
# ## 10.4 Accuracy by depth
#
# Is a needle at the beginning harder to find than one near the end? Depth says where it lies, from
# 0, the beginning, to 1, the end. Divide the haystack into `bins` parts of equal length and return,
# for each part, the share of its needles that were found. A depth of exactly 1 belongs to the last
# part. Where no needle lies nothing is known: 0/0, which is NaN.


# %%
def by_depth(found, depth, bins):
    """Return the share of needles found in each part of the haystack.

    found: [samples], 1 or 0; depth: [samples], from 0 to 1; bins: a whole number. Returns [bins].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "10.4: Return the share of needles found in each part of the haystack."
    )


# %%
check("10.4", by_depth)

# %% [markdown]
# Now all four together. The model of the notebook reads 48 haystacks of 2,048 tokens, once as it
# is, and once with an `alpha` that is held at 0.003.

# %%
from minititans.experiments import needle_models
from minititans.experiments.needle_inside import with_alpha

rng = torch.Generator().manual_seed(1)
rows, time, longest = 48, 2048, 2048 - 6
starts = torch.linspace(0, longest, rows).long()
noise = 32 + (torch.arange(time) + torch.arange(rows)[:, None]) % 8  # the sentence that repeats
key = torch.randint(2, 16, (rows,), generator=rng)
tokens = haystack(noise, starts, key, torch.randint(16, 32, (rows, 1), generator=rng))
targets = targets_of(tokens, 1)
lmm = needle_models.load("lmm")


# %%
@torch.no_grad()
def shares(model):
    logits, _ = model(tokens)
    return by_depth(found(logits, targets), starts / longest, bins=6)


by_model = {"the LMM": shares(lmm), "alpha held at 0.003": shares(with_alpha(lmm, 0.003))}
lines(by_model, "part of the haystack, from its beginning", "share found")

# %% [markdown]
# ## 10.5 What happened to the memory?
#
# The notebook asked two questions about each memory. How likely is the right value of an **old**
# needle, from the beginning of a long text? And of a **new** one, which came after all that noise?
# Call a needle lost if that probability is *below* one half. Then decide, for each memory:
#
# - `DIES`: the new needle is lost;
# - `FORGETS`: the new needle is learned, but the old one is lost;
# - `KEEPS`: neither is lost.
#
# Mind the order of the questions: what does an old needle tell you about a memory that is dead?

# %%
KEEPS, FORGETS, DIES = 0, 1, 2


def verdict(old, new):
    """Return what happened to each memory: KEEPS, FORGETS or DIES, as whole numbers.

    old, new: [models], probabilities of the right value. Returns [models].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "10.5: Return what happened to each memory: KEEPS, FORGETS or DIES, as whole numbers."
    )


# %%
check("10.5", verdict)

# %% [markdown]
# Before you run the next cells, write down your verdict on each of these five after 4,096 tokens,
# and order the first four by the share of passkeys that you expect them to find at 16,384:
#
# - `lmm`, as in the notebook
# - `lmm-plain`, with plain layers
# - `lmm-forgets`, whose `alpha` began at 0.001 before training
# - `lmm-frozen`, with frozen chunks
# - `held`, the LMM with its `alpha` held at 0.001

# %%
from minititans.experiments.needle_fading import fade, new_needles

models = {name: needle_models.load(name) for name in ("lmm", "lmm-plain", "lmm-forgets")}
models |= {"lmm-frozen": needle_models.load("lmm-frozen"), "held": with_alpha(lmm, 0.001)}
moments = (512, 1024, 2048, 4096)
old = {name: fade(model, [0] * 8, moments).right.mean(0) for name, model in models.items()}
new = {name: new_needles(model, moments) for name, model in models.items()}
lines(new, "tokens of noise before a new needle", "probability of its value", x=moments)

# %%
last = [torch.stack([series[-1] for series in each.values()]) for each in (old, new)]
words = {KEEPS: "keeps", FORGETS: "forgets", DIES: "dies"}
for name, number in zip(models, verdict(*last).tolist()):
    print(f"{name:12} {words[number]}")

# %% [markdown]
# And what the stored results say about the first four, with all their seeds:

# %%
from minititans.experiments.results import found_at, load_all

stored = found_at(load_all("../results/needle/pk"), length=16384)
for name in sorted((n for n in models if n in stored), key=lambda n: -stored[n][0]):
    print(f"{name:12} {stored[name][0]:.0%} ± {stored[name][1]:.0%}")

# %% [markdown]
# Compare this with your order. Which of the three decisions matter for this task, and which does it
# not put to the test? A result like this says something about one task at one size: a model that
# keeps a passkey just as well without a part may need that part elsewhere.
#
# **What you have:** `minititans/tasks/needle.py`, and a way to ask what became of a memory.

# %%
progress()
