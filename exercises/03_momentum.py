# %% [markdown]
# # Lab 03: surprise that lingers
#
# A surprise lasts one token, and the memory of lab 02 writes it at that token only. Here you give
# it momentum: the surprise goes on being written while the next tokens are read. (People remember
# what *surrounds* a shock. Notebook 03 shows how far momentum can imitate that: it helps only where
# the keys are alike.)
#
# It goes with the notebook [Surprise that lingers](../notebooks/03_momentum.ipynb). Five tasks;
# plan an hour.
#
# `check`, `hint("03.1")`, `example("03.1")` and `progress()` work as before.

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines

_ = torch.manual_seed(0)

# %% [markdown]
# ## 03.1 Past and momentary surprise
#
# The memory keeps a second matrix $S$, of the same shape as $M$. It holds what is left of past
# surprises. The momentary surprise $u_t$ enters with a minus, because $S$ will be added to $M$.
# This is equation (10):
#
# $$S_t = \eta_t\, S_{t-1} - \theta_t\, u_t$$
#
# `eta` says how much of the past lives on, `theta` how much of the present is added.


# %%
def lingering_surprise(S, u, theta, eta):
    """Return the surprise with momentum, past and momentary together.

    S, u: [d_value, d_key]; theta, eta: []. Returns [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "03.1: Return the surprise with momentum, past and momentary together."
    )


# %%
check("03.1", lingering_surprise)

# %% [markdown]
# ## 03.2 A write with momentum
#
# Now the whole write for one pair: surprise, momentum, memory, in this order. The surprise is that
# of lab 02, measured at the $M$ that comes in. Equation (9):
#
# $$M_t = M_{t-1} + S_t, \qquad S_t \text{ as above with } u_t = (M_{t-1} k_t - v_t)\, k_t^\top$$


# %%
def momentum_write(M, S, key, value, theta, eta):
    """Return the memory and the momentum after one pair: M, S.

    M, S: [d_value, d_key]; key: [d_key]; value: [d_value]; theta, eta: [].
    Returns two tensors [d_value, d_key], the memory first.
    """
    # Replace the next line with your code.
    raise NotImplementedError("03.2: Return the memory and the momentum after one pair: M, S.")


# %%
check("03.2", momentum_write)

# %% [markdown]
# One pair, the event, comes once; before and after it the memory sees only a pair that it already
# knows. What becomes of its answer to the event?


# %%
def follow(eta, tokens=12):
    M, S = torch.zeros(8, 8), torch.zeros(8, 8)
    event, filler = torch.eye(8)[0], torch.eye(8)[1]
    answers = []
    for t in range(tokens):
        key, value = (event, event) if t == 2 else (filler, M @ filler)
        M, S = momentum_write(M, S, key, value, torch.tensor(0.3), torch.tensor(eta))
        answers.append(M[0, 0])
    return torch.stack(answers)


answers = {f"eta = {eta}": follow(eta) for eta in (0.0, 0.5, 0.8)}
lines(answers, "token", "share of the event that is stored", mark=(2, "the event"))

# %% [markdown]
# With momentum an event goes on being written after it has passed. With a large `eta`, more than
# the whole event is written: even an event *seen once* goes too far. Task 03.4 shows when.
#
# ## 03.3 Momentum over time
#
# Forget matrices for a moment: here the momentum is a single number that fades and receives shocks.
# Given all shocks and all gates of a batch of sequences, return it at every token. The gate may
# differ from token to token: $\eta_t = 0$ lets go of the past, as at a change of context.
#
# $$S_t = \eta_t\, S_{t-1} + \text{shock}_t, \qquad S \text{ starts at } 0$$


# %%
def momentum_over_time(shocks, eta):
    """Return the momentum after each token.

    shocks, eta: [batch, time]. Returns [batch, time].
    """
    # Replace the next line with your code.
    raise NotImplementedError("03.3: Return the momentum after each token.")


# %%
check("03.3", momentum_over_time)

# %%
shocks = torch.zeros(3, 40)
shocks[:, [5, 12]] = 1.0
eta = torch.full((3, 40), 0.9)
eta[1] = 0.6
eta[2, 20] = 0.0  # a change of context
names = ["eta = 0.9", "eta = 0.6", "eta = 0.9, and 0 at token 20"]
lines(dict(zip(names, momentum_over_time(shocks, eta))), "token", "momentum")

# %% [markdown]
# ## 03.4 How much of one surprise is written
#
# Take a single surprise of size 1, with constant `eta` and `theta`. At its own token, `theta` of it
# is written to the memory. At the next token, what is left of it in the momentum is written again,
# and so on. How much has been written after `tokens` tokens, counting the first? Derive it. It must
# be right for `eta = 1` too, and differentiable there.


# %%
def effect_of_one_surprise(theta, eta, tokens):
    """Return how much of one surprise is in the memory after this many tokens.

    theta, eta: []; tokens: a whole number, at least 1. Returns [].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "03.4: Return how much of one surprise is in the memory after this many tokens."
    )


# %%
check("03.4", effect_of_one_surprise)

# %% [markdown]
# After many tokens this is $\theta/(1-\eta)$: (10) writes each surprise $1/(1-\eta)$ times. If that
# is more than the exact step of lab 02, an event *seen once* is written too far. (A key that is
# read again and again overshoots even sooner, above $\theta = (1-\sqrt\eta)^2$: see notebook 03.)
#
# `NeuralMemory` writes each surprise once. It gives the rule $(1-\eta)\,\theta$, so that the
# surprise is written in shares that add up to $\theta$.

# %%
tokens, theta = range(1, 31), torch.tensor(0.1)
grown = {}
for eta in map(torch.tensor, (0.5, 0.9)):
    sums = [effect_of_one_surprise(theta, eta, n) for n in tokens]
    shares = [effect_of_one_surprise((1 - eta) * theta, eta, n) for n in tokens]
    grown[f"eta = {eta:.1f}"] = torch.stack(sums)
    grown[f"eta = {eta:.1f}, in shares"] = torch.stack(shares)
lines(grown, "tokens", "written so far, theta = 0.1", x=tokens)

# %% [markdown]
# ## 03.5 A memory with momentum
#
# The sequence of lab 02 again, with your new write. Each row of the batch starts with the memory
# `M` and a momentum of zeros; every token writes its pair, then reads with its query.


# %%
def momentum_memory(M, queries, keys, values, theta, eta):
    """Return what the memory answers at each token, after that token was written.

    M: [d_value, d_key], the start of every row; queries, keys: [batch, time, d_key];
    values: [batch, time, d_value]; theta, eta: [batch, time]. Returns [batch, time, d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "03.5: Return what the memory answers at each token, after that token was written."
    )


# %%
check("03.5", momentum_memory)

# %% [markdown]
# Sixteen pairs come again and again. Which memory has learned them after a few rounds? With a small
# `theta`, momentum helps; the error is measured right after each write.

# %%
keys = F.normalize(torch.randn(16, 16), dim=-1).repeat(12, 1)[None]
values = torch.randn(16, 16).repeat(12, 1)[None]
theta = torch.full(keys.shape[:2], 0.1)
errors = {}
for eta in (0.0, 0.5, 0.8):
    y = momentum_memory(torch.zeros(16, 16), keys, keys, values, theta, torch.full_like(theta, eta))
    errors[f"eta = {eta}"] = (y - values).norm(dim=-1)[0].view(12, 16).mean(1)
lines(errors, "round", "mean error")
print(
    "eta = 0.8 learns faster than eta = 0:", bool(errors["eta = 0.8"][5] < errors["eta = 0.0"][5])
)

# %% [markdown]
# **What you have:** equations (9) and (10), gradient descent with momentum along the text. Nothing
# is forgotten yet. That is lab 04.

# %%
progress()
