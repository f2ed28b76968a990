# %% [markdown]
# # Lab 05: a deeper memory
#
# A matrix can only follow linear maps. The paper's memory is a small network: layers with SiLU
# between them, and all their weights change while it reads. Here you differentiate such a memory by
# hand and write to all of its layers. It goes with the notebook [A deeper
# memory](../notebooks/05_depth.ipynb). Five tasks; plan an hour.
#
# $M$ is now the whole network, and its layers have the weights $W_1, W_2, \dots$ The layers here
# are plain, $\mathrm{silu}(W x)$. The library's layers add to their input; the notebook shows what
# that changes. `check`, `hint("05.1")`, `example("05.1")` and `progress()` work as before.

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)

# %% [markdown]
# ## 05.1 Read through layers
#
# The weights are now a list, one matrix per layer. A layer is $W x$; SiLU comes between two layers,
# and nothing follows the last. Reading changes nothing: it is a plain forward pass, equation (15).
#
# $$M(x) = W_L\, \mathrm{silu}(W_{L-1} \cdots \mathrm{silu}(W_1 x))$$
#
# It must work for any number of layers, including one.


# %%
def read_deep(weights, x):
    """Return the memory's answer to x.

    weights: a list with one [d_out, d_in] per layer; x: [d_in of the first]. Returns
    [d_out of the last].
    """
    # Replace the next line with your code.
    raise NotImplementedError("05.1: Return the memory's answer to x.")


# %%
check("05.1", read_deep)

# %% [markdown]
# ## 05.2 The slope of SiLU
#
# To carry an error back through the network you need the slope of the function between its layers.
# Derive it, and write it without autograd:
#
# $$\mathrm{silu}(z) = z\,\sigma(z), \qquad \mathrm{silu}'(z) = \;?$$


# %%
def silu_slope(z):
    """Return the derivative of SiLU at each number of z.

    z: [hidden]. Returns [hidden].
    """
    # Replace the next line with your code.
    raise NotImplementedError("05.2: Return the derivative of SiLU at each number of z.")


# %%
check("05.2", silu_slope)

# %%
z = torch.linspace(-6, 6, 121)
lines({"silu": F.silu(z), "its slope": silu_slope(z)}, "z", "height and slope", x=z)

# %% [markdown]
# ## 05.3 The error, carried back
#
# Two layers. At the last one the error is simply what should have come out minus what did. What
# change in the *first* layer's output, before SiLU, would have helped? Carry the error back through
# $W_2$ and through SiLU. The notebook does it in two lines; check that the shapes fit.
#
# $$e_2 = v - M(k), \qquad e_1 = \;? \qquad \text{with } z = W_1 k$$


# %%
def layer_errors(W1, W2, key, value):
    """Return the error at each layer's output, pointing the way that helps: e1, e2.

    W1: [hidden, d_key]; W2: [d_value, hidden]; key: [d_key]; value: [d_value].
    Returns [hidden] and [d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "05.3: Return the error at each layer's output, pointing the way that helps: e1, e2."
    )


# %%
check("05.3", layer_errors)

# %% [markdown]
# ## 05.4 The surprise of every layer
#
# In lab 02 the surprise of a matrix was an error at its output times what entered it. The same
# holds for every layer of a deep memory. Use your `layer_errors`, without autograd, and mind the
# sign: a surprise is a gradient, so it points uphill.


# %%
def deep_surprise(W1, W2, key, value):
    """Return the gradient of ½‖M(key) − value‖² with respect to each layer: u1, u2.

    W1: [hidden, d_key]; W2: [d_value, hidden]; key: [d_key]; value: [d_value].
    Returns [hidden, d_key] and [d_value, hidden].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "05.4: Return the gradient of ½‖M(key) − value‖² with respect to each layer: u1, u2."
    )


# %%
check("05.4", deep_surprise)

# %%
W1, W2 = torch.randn(8, 5), torch.randn(5, 8) / 8**0.5
key, value = F.normalize(torch.randn(5), dim=0), torch.randn(5)
u1, u2 = deep_surprise(W1, W2, key, value)
matrices({"u1 [8, 5]": u1, "u2 [5, 8]": u2}, rows="output", columns="input")

# %% [markdown]
# Each is an outer product, of rank one. Lab 06 builds on that: a token's surprise in a layer is two
# vectors, however large the layer is.
#
# ## 05.5 A deep memory's update
#
# Now write the rule of lab 04 for a memory of any depth. All surprises are measured at the same
# moment, at the weights as they come in; then each layer has its own momentum and its own write.
# Compute the surprises as you like: `torch.func.grad` differentiates with respect to a whole list
# at once, and the result can itself be differentiated.


# %%
def deep_step(weights, momentum, key, value, theta, eta, alpha):
    """Return the weights and the momentum after one pair, two lists: weights, momentum.

    weights, momentum: lists with one [d_out, d_in] per layer; key: [d_key]; value: [d_value];
    theta, eta, alpha: []. Returns two new lists of the same shapes.
    """

    # Replace the next line with your code.
    raise NotImplementedError(
        "05.5: Return the weights and the momentum after one pair, two lists: weights, momentum."
    )


# %%
check("05.5", deep_step)

# %% [markdown]
# Two memories read the same pairs, once each: a matrix and a network. The values come from a random
# nonlinear map of the keys. The network is wider inside, and each memory has a step size that suits
# it. How wrong are they about the *next* pair?


# %%
def follow(weights, theta, tokens=1500):
    rng = torch.Generator().manual_seed(3)
    inner, outer = torch.randn(32, 6, generator=rng), torch.randn(6, 32, generator=rng) / 8
    momentum = [torch.zeros_like(W) for W in weights]
    gates = torch.tensor(theta), torch.tensor(0.5), torch.tensor(0.0)
    errors = []
    for _ in range(tokens):
        key = F.normalize(torch.randn(6, generator=rng), dim=0)
        value = outer @ F.relu(inner @ key)
        errors.append((read_deep(weights, key) - value).square().sum())
        weights, momentum = deep_step(weights, momentum, key, value, *gates)
    return torch.stack(errors).view(-1, 100).mean(1)


shallow = follow([torch.zeros(6, 6)], theta=0.03)
deep = follow([2 * torch.randn(48, 6), torch.zeros(6, 48)], theta=0.005)
hundreds = range(100, 1501, 100)
lines({"matrix": shallow, "two layers": deep}, "pairs seen", "squared error", x=hundreds)
print("the deep memory ends below the matrix:", bool(deep[-3:].mean() < shallow[-3:].mean()))

# %% [markdown]
# **What you have:** the paper's memory, of any depth, one token at a time. One token at a time is
# slow. Lab 06 does a whole chunk with matrix products.

# %%
progress()
