# %% [markdown]
# # Lab 04: learning to forget
#
# A memory of fixed size that only ever adds will overflow. Here it learns to let go, and with that
# the rule of the paper is complete: equations (13) and (14). The lab goes with the notebook
# [Learning to forget](../notebooks/04_forgetting.ipynb). Five tasks; plan 50 minutes.
#
# `check`, `hint("04.1")`, `example("04.1")` and `progress()` work as before.

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines

_ = torch.manual_seed(0)

# %% [markdown]
# ## 04.1 Forget, then write
#
# Before the surprise $S_t$ is written, a share `alpha` of the old memory is forgotten. `alpha = 0`
# keeps everything, `alpha = 1` clears the memory. Equation (13):
#
# $$M_t = (1 - \alpha_t)\, M_{t-1} + S_t$$


# %%
def forget_and_write(M, S, alpha):
    """Return the memory after forgetting and writing.

    M, S: [d_value, d_key]; alpha: []. Returns [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError("04.1: Return the memory after forgetting and writing.")


# %%
check("04.1", forget_and_write)

# %% [markdown]
# ## 04.2 The whole rule, one token
#
# Surprise, momentum, forgetting: the complete rule for one pair. Take care where each gate acts.
# The surprise is measured at the $M$ that comes in, before anything is forgotten. Equations (13)
# and (14):
#
# $$S_t = \eta_t\, S_{t-1} - \theta_t\, \nabla\ell(M_{t-1}; k_t, v_t) \qquad
# M_t = (1 - \alpha_t)\, M_{t-1} + S_t$$


# %%
def titans_step(M, S, key, value, theta, eta, alpha):
    """Return the memory and the momentum after one pair: M, S.

    M, S: [d_value, d_key]; key: [d_key]; value: [d_value]; theta, eta, alpha: [].
    Returns two tensors [d_value, d_key], the memory first.
    """
    # Replace the next line with your code.
    raise NotImplementedError("04.2: Return the memory and the momentum after one pair: M, S.")


# %%
check("04.2", titans_step)

# %% [markdown]
# A stream of new pairs that never repeat: how large does $M$ get? The rule corrects what is wrong,
# so its norm levels off even without forgetting; the more it forgets, the lower the level.


# %%
def sizes(alpha, tokens=300, dim=16):
    rng = torch.Generator().manual_seed(1)
    M, S = torch.zeros(dim, dim), torch.zeros(dim, dim)
    gates = torch.tensor(0.1), torch.tensor(0.9), torch.tensor(alpha)
    found = []
    for _ in range(tokens):
        key, value = F.normalize(torch.randn(2, dim, generator=rng), dim=-1)
        M, S = titans_step(M, S, key, value, *gates)
        found.append(M.norm())
    return torch.stack(found)


lines({f"alpha = {a}": sizes(a) for a in (0.0, 0.02, 0.1)}, "token", "norm of M")

# %% [markdown]
# ## 04.3 What is left of a write
#
# Something is written at token $s$. Every later token forgets its share of it. How much is left
# after the last token, $T$, for each $s$? Note which gates count, and that an `alpha` of exactly 1
# is allowed: it clears what came before, and only that.
#
# $$\text{left}_s = (1 - \alpha_{s+1})\,(1 - \alpha_{s+2}) \cdots (1 - \alpha_T)$$


# %%
def what_is_left(alpha):
    """Return, for each token, the share of its write that is left after the last token.

    alpha: [batch, time]. Returns [batch, time].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "04.3: Return, for each token, the share of its write that is left after the last token."
    )


# %%
check("04.3", what_is_left)

# %%
alpha = torch.full((3, 40), 0.02)
alpha[1] = 0.1
alpha[2, 20] = 1.0  # clears the memory
names = ["alpha = 0.02", "alpha = 0.1", "alpha = 0.02, and 1 at token 20"]
lines(dict(zip(names, what_is_left(alpha))), "token s", "share left at the end")

# %% [markdown]
# ## 04.4 A half-life
#
# An `alpha` of 0.02: is that a long memory or a short one? The half-life tells you, in tokens.
# Which constant `alpha` leaves exactly half of a write after $n$ more tokens? Use the same $\alpha$
# for every factor in the product of 04.3, and solve:
#
# $$\text{left after } n \text{ tokens} = \tfrac12 \quad\Rightarrow\quad \alpha = \;?$$


# %%
def alpha_for_half_life(tokens):
    """Return the alpha with which half of a write is left after this many tokens.

    tokens: [gates], positive numbers, not necessarily whole. Returns [gates].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "04.4: Return the alpha with which half of a write is left after this many tokens."
    )


# %%
check("04.4", alpha_for_half_life)

# %% [markdown]
# Your two functions agree:

# %%
alpha = alpha_for_half_life(torch.tensor([10.0])).expand(1, 11)
print("left after 10 tokens:", round(what_is_left(alpha)[0, 0].item(), 4))

# %% [markdown]
# A memory that is meant to last needs a very small alpha. The gate of `NeuralMemory` is the fourth
# power of a sigmoid, so that it can close, and it starts near 1e-5. What half-life is that?

# %%
for n in (70, 700, 70_000):
    alpha = alpha_for_half_life(torch.tensor([float(n)], dtype=torch.float64))
    print(f"half-life of {n} tokens: alpha = {alpha.item():.0e}")

# %% [markdown]
# ## 04.5 The whole memory
#
# Read a batch of sequences with the complete rule. Return the readings, and also the last memory
# and momentum, so that a later call could carry on from there. Each row starts with the memory `M`
# and a momentum of zeros; every token writes its pair, then reads with its query.
#
# This is what `minititans.memory.sequential` does. The check compares your answer with it.


# %%
def titans_memory(M, queries, keys, values, theta, eta, alpha):
    """Return all readings, and the last memory and momentum of every row: y, M, S.

    M: [d_value, d_key], the start of every row; queries, keys: [batch, time, d_key];
    values: [batch, time, d_value]; theta, eta, alpha: [batch, time].
    Returns [batch, time, d_value], [batch, d_value, d_key], [batch, d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "04.5: Return all readings, and the last memory and momentum of every row: y, M, S."
    )


# %%
check("04.5", titans_memory)

# %% [markdown]
# Now let contexts change: twelve new pairs, repeated for a while, then twelve others, and so on.
# Each query is the *next* token's key, so $y_t$ is what the memory expects before it is told. How
# much should it forget if a context lasts two rounds? And if it lasts six?


# %%
def expectation_error(alpha, rounds, contexts=8, pairs=12, dim=16):
    rng = torch.Generator().manual_seed(2)
    keys = F.normalize(torch.randn(contexts, 1, pairs, dim, generator=rng), dim=-1)
    values = F.normalize(torch.randn(contexts, 1, pairs, dim, generator=rng), dim=-1)
    keys, values = (x.expand(-1, rounds, -1, -1).reshape(1, -1, dim) for x in (keys, values))
    theta = torch.full(keys.shape[:2], 0.5)
    gates = theta, torch.zeros_like(theta), torch.full_like(theta, alpha)
    y, _, _ = titans_memory(torch.zeros(dim, dim), keys.roll(-1, dims=1), keys, values, *gates)
    return (y[:, :-1] - values[:, 1:]).norm(dim=-1).mean()


alphas = [0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16]
errors = {
    f"{rounds} rounds": torch.stack([expectation_error(alpha, rounds) for alpha in alphas])
    for rounds in (2, 6)
}
lines(errors, "alpha", "mean error", x=alphas)
best = [alphas[int(each.argmin())] for each in errors.values()]
print("some forgetting is best in both:", min(best) > 0)
print("the longer a context lasts, the less should be forgotten:", best[1] < best[0])

# %% [markdown]
# **What you have:** the memory of the paper, token by token, for a matrix $M$. Lab 05 gives it
# depth; lab 06 makes it fast.

# %%
progress()
