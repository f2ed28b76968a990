# %% [markdown]
# # Lab 09: training a Titan
#
# Notebook [Training a Titan](../notebooks/09_training.ipynb) calls `loss.backward()` and lets
# PyTorch go back through the reading. Here you do it by hand, for a matrix memory that reads a few
# tokens: how a Titan is scored, what the gradient finds at the start of the memory, one step of the
# outer loop, and how a state is handed on over a long text. Five tasks; plan an hour and a half.
#
# `check` tells you what is right and what differs, `hint("09.1")` helps, `progress()` shows where
# you are, and `outer_loss(**example("09.2"))` runs your function on an example.

# %%
import math

import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)

# %% [markdown]
# ## 09.1 Bits per byte
#
# A model of text is as good as its expectations. If it gave the byte that came a probability $p$,
# that byte costs $-\log_2 p$ bits: none if it was certain, 1 bit at ½, 8 bits if all 256 bytes were
# equally likely. **Bits per byte** are the average over all bytes of all rows.
#
# The model gives logits; a softmax over the last axis turns them into probabilities. Logits can be
# large, so take care where a probability might be rounded to 0.


# %%
def bits_per_byte(logits, targets):
    """Return the average cost of the bytes that came, in bits.

    logits: [batch, time, vocab]; targets: [batch, time], whole numbers below vocab. Returns [].
    """
    ### BEGIN SOLUTION
    nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return nats / math.log(2)
    ### END SOLUTION


# %%
check("09.1", bits_per_byte)

# %% [markdown]
# A model that has no idea pays 8 bits per byte. How sure does it have to be to pay less? Here one
# byte out of 256, the right one, gets a larger logit than all others.

# %%
targets = torch.randint(256, (1, 50))
gaps = torch.linspace(0, 12, 49)
costs = [bits_per_byte(gap * F.one_hot(targets, 256).float(), targets) for gap in gaps]
series = {"right byte favoured": torch.stack(costs)}
lines(series, "logit of the right byte above the others", "bits per byte", x=gaps)

# %% [markdown]
# ## 09.2 Read, then be asked
#
# Now the two loops. A matrix memory starts as `M`, reads a few pairs with the delta rule of
# lab 02, each with its own `theta`, and is then asked a question. The *inner* loop makes the
# memory right about the pairs. The *outer* loss is how wrong the answer is. For two pairs:
#
# $$M_1 = M - \theta_1 (M k_1 - v_1)\, k_1^\top \qquad
# M_2 = M_1 - \theta_2 (M_1 k_2 - v_2)\, k_2^\top \qquad
# L = \tfrac12\, \|M_2\, q - y\|^2$$


# %%
def outer_loss(M, keys, values, theta, query, target):
    """Return the loss of the answer after all pairs have been read.

    M: [d_value, d_key], the start; keys: [time, d_key]; values: [time, d_value]; theta: [time];
    query: [d_key]; target: [d_value]. Returns [].
    """
    ### BEGIN SOLUTION
    for key, value, step in zip(keys, values, theta):  # inner loop
        M = M - step * torch.outer(M @ key - value, key)
    return (M @ query - target).square().sum() / 2
    ### END SOLUTION


# %%
check("09.2", outer_loss)

# %% [markdown]
# ## 09.3 The gradient at the start
#
# How should the *start* change, so that the answer after the writes is better? Write the gradient
# of $L$ with respect to $M$ in closed form, without autograd. Derive it for two pairs on paper; any
# number of them works the same way. A write can be split into what it takes from the memory and
# what it adds:
#
# $$M_1 = M\,(I - \theta_1\, k_1 k_1^\top) + \theta_1\, v_1 k_1^\top$$
#
# Only the first part depends on $M$. Put the second write after it, then the question, and see what
# is to the right of $M$.


# %%
def start_gradient(M, keys, values, theta, query, target):
    """Return the gradient of `outer_loss` with respect to M, in closed form.

    M: [d_value, d_key], the start; keys: [time, d_key]; values: [time, d_value]; theta: [time];
    query: [d_key]; target: [d_value]. Returns [d_value, d_key].
    """
    ### BEGIN SOLUTION
    # L = ½ ‖M A₁ A₂ ⋯ q + … − y‖² with A = I − θ k kᵀ: the gradient is error · (A₁ A₂ ⋯ q)ᵀ.
    after = M
    for key, value, step in zip(keys, values, theta):
        after = after - step * torch.outer(after @ key - value, key)
    x = query
    for key, step in zip(keys.flip(0), theta.flip(0)):  # backwards: the last write first
        x = x - step * (key @ x) * key
    return torch.outer(after @ query - target, x)
    ### END SOLUTION


# %%
check("09.3", start_gradient)

# %% [markdown]
# The gradient is *error times query*, as in lab 02, except that the query has gone back through
# the writes. Where a write with `theta = 1` has replaced what the start said, nothing is left of
# it: the start is not to blame for what has been overwritten.

# %%
M, value, target = torch.randn(4, 6), torch.randn(2, 4), torch.randn(4)
keys = torch.eye(6)[:2]  # the pairs are read along two axes,
query = F.normalize(torch.ones(6), dim=0)  # and the question asks along all six
found = {
    f"theta = {step}": start_gradient(M, keys, value, torch.full((2,), step), query, target)
    for step in (0.0, 0.5, 1.0)
}
matrices(found, rows="value", columns="key")
print("overwritten directions get no gradient:", bool((found["theta = 1.0"][:, :2] == 0).all()))

# %% [markdown]
# ## 09.4 One outer step
#
# Training takes a batch of such sequences. Each row reads its own pairs and gets its own
# question, and all of them start with the same `M`. One step of the outer loop moves `M` against
# the *mean* of their gradients; `rate` is the length of the step. What the rows have written while
# they read is thrown away.


# %%
def outer_step(M, keys, values, theta, queries, targets, rate):
    """Return where M starts after one step of gradient descent on the mean outer loss.

    M: [d_value, d_key]; keys: [batch, time, d_key]; values: [batch, time, d_value];
    theta: [batch, time]; queries: [batch, d_key]; targets: [batch, d_value]; rate: [].
    Returns [d_value, d_key].
    """
    ### BEGIN SOLUTION
    rows = zip(keys, values, theta, queries, targets)
    gradients = torch.stack([start_gradient(M, *row) for row in rows])
    return M - rate * gradients.mean(0)
    ### END SOLUTION


# %%
check("09.4", outer_step)

# %% [markdown]
# Sixty steps. The answers follow a rule that is the same in every sequence, `target = R query`, but
# each sequence shows only two pairs of it. What the pairs do not show has to come from the start.

# %%
R = torch.randn(4, 6) / 6**0.5  # the rule
M, untrained, curve = torch.zeros(4, 6), torch.zeros(4, 6), {"trained start": [], "zeros": []}
for _step in range(60):
    keys, queries = F.normalize(torch.randn(16, 3, 6), dim=-1).split([2, 1], 1)
    batch = keys, keys @ R.T, torch.full((16, 2), 0.8), queries[:, 0], queries[:, 0] @ R.T
    for name, start in (("trained start", M), ("zeros", untrained)):
        curve[name].append(torch.stack([outer_loss(start, *row) for row in zip(*batch)]).mean())
    M = outer_step(M, *batch, rate=torch.tensor(1.0))
curve = {name: torch.stack(losses) for name, losses in curve.items()}
lines(curve, "outer step", "outer loss")
print("a trained start answers better:", bool(curve["trained start"][-1] < curve["zeros"][-1] / 5))
matrices({"the rule R": R, "the start it learned": M}, rows="value", columns="key")

# %% [markdown]
# What all sequences have in common moves into the start. What is special about one sequence
# is left to the inner loop. That division of labour is what meta-learning means here.
#
# ## 09.5 Carry a state, cut the gradient
#
# A Titan is trained on long texts piece by piece: every piece starts with the memory that the piece
# before it has left, but its gradient does not go back there. Do this for the full rule of lab 04:
#
# $$S_t = \eta_t S_{t-1} - \theta_t u_t \qquad M_t = (1 - \alpha_t)\, M_{t-1} + S_t \qquad
# y_t = M_t\, k_t$$
#
# The numbers are those of reading the whole text at once. But whenever a piece of `piece` tokens
# ends, both parts of the state are cut off from the graph before they are handed on, and so is the
# state that you return. The last piece may be shorter. (Each token is read with its own key.)


# %%
def read_in_pieces(M, S, keys, values, theta, eta, alpha, piece):
    """Return all readings and the state to hand on; gradients stay inside a piece.

    M, S: [d_value, d_key], the state before; keys: [time, d_key]; values: [time, d_value];
    theta, eta, alpha: [time]; piece: a whole number. Returns y [time, d_value], M and S, the last
    two cut off.
    """
    ### BEGIN SOLUTION
    readings = []
    for t, (key, value) in enumerate(zip(keys, values)):
        S = eta[t] * S - theta[t] * torch.outer(M @ key - value, key)
        M = (1 - alpha[t]) * M + S
        readings.append(M @ key)
        if (t + 1) % piece == 0:
            M, S = M.detach(), S.detach()
    return torch.stack(readings), M.detach(), S.detach()
    ### END SOLUTION


# %%
check("09.5", read_in_pieces)

# %% [markdown]
# How far back does the gradient of the last reading go? Here is its size with respect to each
# token's value, for three sizes of piece. The reading itself is the same for all.

# %%
time, series, answers = 24, {}, []
keys = F.normalize(torch.randn(time, 8), dim=-1)
gates = [torch.full((time,), gate) for gate in (0.6, 0.5, 0.02)]
for piece in (4, 12, 24):
    values = torch.ones(time, 8).requires_grad_()
    y, *_ = read_in_pieces(torch.zeros(8, 8), torch.zeros(8, 8), keys, values, *gates, piece)
    y[-1].sum().backward()
    series[f"pieces of {piece}"] = values.grad.norm(dim=1)
    answers.append(y[-1].detach())
lines(series, "token", "gradient of the last reading")
print("the same reading:", all(torch.allclose(y, answers[0]) for y in answers))

# %% [markdown]
# **What you have:** a small version of everything that `minititans train` does. Its score is your
# `bits_per_byte`, its gradient goes back through every write of a piece, one step changes what all
# texts share, and the state is carried on, cut off, for 25 pieces of the same text.

# %%
progress()
