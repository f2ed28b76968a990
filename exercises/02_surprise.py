# %% [markdown]
# # Lab 02: surprise is a gradient
#
# The matrix of lab 01 adds every pair, whether it already knows it or not. Here you build a memory
# that writes only what surprises it. It goes with the notebook [Surprise is a
# gradient](../notebooks/02_surprise.ipynb). Six tasks; plan an hour.
#
# `check` tells you what is right and what differs, `hint("02.1")` helps, `progress()` shows where
# you are, and `surprise(**example("02.3"))` runs your function on an example.
#
# As in lab 01 the memory is a matrix `M`, `[d_value, d_key]`. Since it learns by gradient descent,
# its numbers are also called its *weights*.

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)

# %% [markdown]
# ## 02.1 The loss
#
# How wrong is the memory about a pair? Ask it with the key and compare with the value. This is
# the associative loss, equation (12), with the factor ½ of the paper's appendix:
#
# $$\ell(M; k, v) = \tfrac12\,\|M k - v\|^2$$
#
# One line is missing.


# %%
def associative_loss(M, key, value):
    """Return the loss of the memory on one pair, a tensor without axes.

    M: [d_value, d_key]; key: [d_key]; value: [d_value]. Returns [].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "02.1: Return the loss of the memory on one pair, a tensor without axes."
    )


# %%
check("02.1", associative_loss)

# %% [markdown]
# ## 02.2 Surprise, by autograd
#
# The surprise of a pair is the gradient of the loss with respect to $M$: how much each weight
# contributed to the wrong answer. Let PyTorch find it, from your loss. Later the whole model is
# trained *through* this gradient, so it must itself be differentiable. With `torch.func.grad` it
# is; with `torch.autograd.grad` it is if you pass `create_graph=True`.
#
# $$u = \nabla_M\, \ell(M; k, v)$$


# %%
def surprise_by_autograd(M, key, value):
    """Return the gradient of `associative_loss` with respect to M, found by PyTorch.

    M: [d_value, d_key]; key: [d_key]; value: [d_value]. Returns [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "02.2: Return the gradient of `associative_loss` with respect to M, found by PyTorch."
    )


# %%
check("02.2", surprise_by_autograd)

# %% [markdown]
# ## 02.3 Surprise, by hand
#
# For a matrix the gradient has a closed form. Derive $\partial \ell / \partial M_{ij}$ on paper
# first, then write it for all $i, j$ at once, without autograd. In the paper it is part of equation
# (17).


# %%
def surprise(M, key, value):
    """Return the gradient of the loss with respect to M, in closed form.

    M: [d_value, d_key]; key: [d_key]; value: [d_value]. Returns [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "02.3: Return the gradient of the loss with respect to M, in closed form."
    )


# %%
check("02.3", surprise)

# %% [markdown]
# Both ways side by side. The surprise has rank one: an error times a key.

# %%
M, key, value = torch.randn(5, 6), F.normalize(torch.randn(6), dim=0), torch.randn(5)
by_hand, by_autograd = surprise(M, key, value), surprise_by_autograd(M, key, value)
matrices({"by hand": by_hand, "by autograd": by_autograd}, rows="value", columns="key")
print("the same:", torch.allclose(by_hand, by_autograd, atol=1e-5))

# %% [markdown]
# ## 02.4 The delta rule
#
# Now write: one step of gradient descent on the loss. `theta` is the size of the step, a number.
# This is equation (8). It is called the delta rule after the difference, delta, between the value
# and the answer. It takes the old answer out and puts the new one in.
#
# $$M_t = M_{t-1} - \theta_t\, \nabla \ell(M_{t-1}; k_t, v_t)$$


# %%
def delta_write(M, key, value, theta):
    """Return the memory after one step of gradient descent on this pair.

    M: [d_value, d_key]; key: [d_key]; value: [d_value]; theta: []. Returns [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "02.4: Return the memory after one step of gradient descent on this pair."
    )


# %%
check("02.4", delta_write)

# %% [markdown]
# One key comes first with one value, then with another. Hebb's rule blends them; the delta rule
# overwrites. How far is each answer from the value that is true at that moment?

# %%
key = F.normalize(torch.randn(8), dim=0)
first, second = F.normalize(torch.randn(2, 8), dim=-1)
hebb, delta = torch.zeros(8, 8), torch.zeros(8, 8)
hebb_error, delta_error = [], []
for value in [first] * 10 + [second] * 10:
    hebb = hebb + 0.3 * torch.outer(value, key)
    delta = delta_write(delta, key, value, torch.tensor(0.3))
    hebb_error.append((hebb @ key - value).norm())
    delta_error.append((delta @ key - value).norm())
errors = {"Hebb": torch.stack(hebb_error), "delta rule": torch.stack(delta_error)}
lines(errors, "write", "distance from the true value", mark=(9.5, "the value changes"))

# %% [markdown]
# ## 02.5 The exact step
#
# How large should `theta` be? There is one value at which a single write makes the memory answer
# this key exactly: $M_t k = v$, whatever $M_{t-1}$ was. Derive it. It depends on the key alone.


# %%
def exact_step(key):
    """Return the theta with which one delta write recalls the value exactly.

    key: [d_key], not zero. Returns [].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "02.5: Return the theta with which one delta write recalls the value exactly."
    )


# %%
check("02.5", exact_step)

# %% [markdown]
# The error after a write, for steps up to twice the exact one. Beyond that a write leaves a larger
# error than before, and repeated writes diverge.

# %%
M, key, value = torch.randn(4, 6), torch.randn(6), torch.randn(4)
shares = torch.linspace(0, 2.2, 45)
left = [
    (delta_write(M, key, value, share * exact_step(key)) @ key - value).norm() for share in shares
]
before = (M @ key - value).norm().expand(len(shares))
series = {"error after the write": torch.stack(left), "before": before}
lines(series, "theta, in exact steps", "error", x=shares)

# %% [markdown]
# ## 02.6 A memory over a sequence
#
# Put it together: a batch of sequences, each row with its own memory, starting from the same `M`.
# Every token writes its pair and then reads with its own query, so $y_t$ comes from $M_t$. Loops
# are fine; lab 06 gets rid of them.


# %%
def delta_memory(M, queries, keys, values, theta):
    """Return what the memory answers at each token, after that token was written.

    M: [d_value, d_key], the start of every row; queries, keys: [batch, time, d_key];
    values: [batch, time, d_value]; theta: [batch, time]. Returns [batch, time, d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "02.6: Return what the memory answers at each token, after that token was written."
    )


# %%
check("02.6", delta_memory)

# %% [markdown]
# How surprised is your memory just before each write? Four pairs are repeated again and again, and
# halfway through their values change.

# %%
keys = F.normalize(torch.randn(4, 16), dim=-1).repeat(12, 1)
values = torch.cat([torch.randn(4, 16).repeat(6, 1), torch.randn(4, 16).repeat(6, 1)])
M, shock = torch.zeros(16, 16), []
for key, value in zip(keys, values):
    shock.append(surprise(M, key, value).norm())
    M = delta_write(M, key, value, torch.tensor(0.7))
shock = torch.stack(shock)
lines({"surprise": shock}, "token", "norm of the gradient", mark=(24, "the values change"))
print("calm after six rounds:", bool(shock[20:24].mean() < 0.1 * shock[:4].mean()))
print("surprised by the change:", bool(shock[24:28].mean() > 5 * shock[20:24].mean()))

# %% [markdown]
# **What you have:** a memory that learns from its errors while it reads. The paper calls the
# gradient *momentary surprise*, because it is gone by the next token. Lab 03 lets it linger.

# %%
progress()
