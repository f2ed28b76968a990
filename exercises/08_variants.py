# %% [markdown]
# # Lab 08: three ways to add a memory
#
# You have attention and you have a memory. Here you put them together: one after the other (MAL),
# side by side (MAG), one around the other (MAC). At the end you get a MAC that somebody else wrote,
# and find out where it looks into the future. The lab goes with the notebook
# [Three ways to add a memory](../notebooks/08_variants.ipynb). Five tasks; plan 75 minutes.
#
# `check`, `hint("08.1")`, `example("08.1")` and `progress()` work as before.

# %% [markdown]
# ## What you are given
#
# Both parts are here in their simplest form: one sequence, no batch, no projections. Tokens are
# their own queries, keys and values, `[time, dim]`, and the memory is a matrix `M`. Read these few
# lines before you start: all five tasks are put together from them.

# %%
import torch

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)


def unit(x):
    """Every token with length 1."""
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def ask(M, x):
    """M*(x): what the memory answers to each token of x. Nothing is written."""
    return unit(x) @ M.T


def write(M, x, theta):
    """M(x): write token after token. Returns the answer after each write, and M after the last."""
    answers = []
    for token in x:
        key = unit(token)
        M = M + theta * torch.outer(token - M @ key, key)
        answers.append(M @ key)
    return torch.stack(answers), M


def attend(x, context, visible):
    """Attention from x to context. visible: a row per token of x, a column per token of context."""
    scores = x @ context.T / x.shape[-1] ** 0.5
    return scores.masked_fill(~visible, -torch.inf).softmax(-1) @ context


def sees(time, window):
    """A sliding window: each token sees itself and those before it, `window` of them at most."""
    distance = torch.arange(time)[:, None] - torch.arange(time)
    return (distance >= 0) & (distance < window)


# %% [markdown]
# ## 08.1 MAL: one after the other
#
# Equations (29) to (31), without residual connections:
#
# $$\tilde x = p \,\|\, x, \qquad y = M(\tilde x), \qquad o = \text{SW-Attn}(y)$$
#
# The memory writes $p$ like any other tokens, and attention's window slides over its answers, those
# to $p$ included. Only the answers to $x$ are returned.


# %%
def mal(M, p, x, theta, window):
    """Return what MAL answers to each token of x.

    M: [dim, dim]; p: [persistent, dim]; x: [time, dim]; theta: one number; window: whole number.
    Returns [time, dim].
    """
    # Replace the next line with your code.
    raise NotImplementedError("08.1: Return what MAL answers to each token of x.")


# %%
check("08.1", mal)

# %% [markdown]
# ## 08.2 The gate
#
# Where two branches meet, the paper has "any non-linear gating", $\otimes$, after normalising both
# sides "using learnable vector-valued weights". The library's:
#
# $$y \otimes m = 2\,\sigma\!\left(w_y \odot \frac{y}{\sqrt{\text{mean}(y^2) + 10^{-6}}}\right)
# \odot \left(w_m \odot \frac{m}{\sqrt{\text{mean}(m^2) + 1}}\right)$$
#
# Each mean is over the numbers of one token. Because of the 1 on the memory's side, a short answer
# stays short: a memory with nothing to say should not be heard.


# %%
def gate(y, m, weight_y, weight_m):
    """Return y ⊗ m: what the memory knows, gated by what attention found.

    y, m: [time, dim]; weight_y, weight_m: [dim]. Returns [time, dim].
    """

    # Replace the next line with your code.
    raise NotImplementedError(
        "08.2: Return y ⊗ m: what the memory knows, gated by what attention found."
    )


# %%
check("08.2", gate)

# %% [markdown]
# This is how far the gate opens when one number of $y$ goes from −6 to 6 and the four others stay
# at ±1. The norm keeps it within bounds. The library begins with weights of 0.1, at which every
# number passes nearly as it is, whatever attention says.

# %%
number = torch.linspace(-6, 6, 61)
y = torch.stack([number, *(sign * torch.ones(61) for sign in (1, -1, 1, -1))], 1)  # [61, 5]
m, ones = 1e3 * torch.ones(61, 5), torch.ones(5)  # so long that its norm makes ones of it
curves = {f"weight {w:g}": gate(y, m, w * ones, ones)[:, 0] for w in (0.1, 1.0)}
lines(curves, "the number of y", "the gate", x=number)

# %% [markdown]
# ## 08.3 MAG: side by side
#
# $$\tilde x = p \,\|\, x, \qquad y = \text{SW-Attn}^*(\tilde x), \qquad o = y \otimes M(\tilde x)$$
#
# The star means that every token of $x$ sees all of $p$; within $x$ it sees itself and the tokens
# before it, at most `window` in all. Both branches read the words, and neither waits for the other.


# %%
def mag(M, p, x, theta, window, weight_y, weight_m):
    """Return what MAG answers to each token of x.

    M: [dim, dim]; p: [persistent, dim]; x: [time, dim]; theta: one number; window: whole number;
    weight_y, weight_m: [dim]. Returns [time, dim].
    """
    # Replace the next line with your code.
    raise NotImplementedError("08.3: Return what MAG answers to each token of x.")


# %%
check("08.3", mag)

# %% [markdown]
# Who sees whom, for three persistent tokens and ten words, a window of four: in MAL the persistent
# tokens drop out of the window, in MAG they stay.

# %%
in_mal = sees(13, 4)[3:]  # the rows of the words
in_mag = torch.cat([torch.ones(10, 3, dtype=torch.bool), sees(10, 4)], 1)
matrices({"MAL": in_mal.float(), "MAG": in_mag.float()}, "word", "p, then the words")

# %% [markdown]
# ## 08.4 MAC: one segment
#
# | | | |
# | --- | --- | --- |
# | (21) | $h = M^*(S)$ | ask the memory as it was before the segment |
# | (22), (23) | $y = S + \text{Attn}(p \,\|\, h \,\|\, S)$ | the queries are the tokens of $S$ |
# | (24) | $M \leftarrow M(y)$ | write |
# | (25) | $o = y \otimes m$ | $m_i$ is the answer right after $y_i$ was written |
#
# No token may see the future: token $i$ sees all of $p$, $h_j$ for $j \le i$, and $S_j$ for
# $j \le i$.


# %%
def mac_segment(M, p, S, theta, weight_y, weight_m):
    """Return what MAC answers to each token of one segment, and the memory after it: o, M.

    M: [dim, dim]; p: [persistent, dim]; S: [time, dim]; theta: one number;
    weight_y, weight_m: [dim]. Returns [time, dim] and [dim, dim].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "08.4: Return what MAC answers to each token of one segment, and the memory after it: o, M."
    )


# %%
check("08.4", mac_segment)

# %% [markdown]
# Read the same segment again and again, starting from an empty memory. At first there is nothing to
# recall; after one reading, what is recalled already points in nearly the same direction.

# %%
S, p, ones = torch.randn(4, 16), torch.randn(2, 16), torch.ones(16)
M, alike = torch.zeros(16, 16), []
for _ in range(8):
    alike.append(torch.cosine_similarity(ask(M, S), S).mean())
    _, M = mac_segment(M, p, S, torch.tensor(0.5), ones, ones)
lines({"recalled h and words S": torch.stack(alike)}, "readings before", "cosine")

# %% [markdown]
# ## A MAC by somebody else
#
# Somebody else has written MAC for a whole text. Its loss is wonderful. It should not be: in
# **three places** this code lets a token see what comes after it.


# %%
def leaking_mac(M, p, x, theta, segment, weight_y, weight_m):
    outputs = []
    for S in x.split(segment):
        n = len(S)
        h = ask(M, S)
        words = torch.ones(n, n).tril(1)
        visible = torch.cat([torch.ones(n, len(p) + n), words], 1).bool()
        y = S + attend(S, torch.cat([p, h, S]), visible)
        _, M = write(M, y, theta)
        outputs.append(gate(y, ask(M, y), weight_y, weight_m))
    return torch.cat(outputs)


# %% [markdown]
# Use the detector of the notebook: change each token in turn and see which answers move. A row is
# the token that was changed, a column the answer; blue is an answer that came *before* the change.

# %%
from minititans.experiments.leak import influence
from minititans.viz.leak import draw_influence

dim, theta = 8, torch.tensor(0.5)
M, p, x = (torch.randn(n, dim, dtype=torch.float64) for n in (dim, 2, 12))
ones = torch.ones(dim, dtype=torch.float64)


def moves(mac):
    return influence(lambda x: mac(M, p, x[0], theta, 4, ones, ones)[None], x[None])


draw_influence({"somebody else's": moves(leaking_mac)})

# %% [markdown]
# ## 08.5 Find the leak
#
# Write `leaking_mac` again without its three leaks. Everything else stays: segments of `segment`
# tokens, the last one perhaps shorter, and a memory that is handed on from each to the next. Run
# the detector on half-repaired versions: it shows whether anything blue is left, and where.


# %%
def causal_mac(M, p, x, theta, segment, weight_y, weight_m):
    """Return what a MAC without a leak answers to each token of x.

    M: [dim, dim]; p: [persistent, dim]; x: [time, dim]; theta: one number; segment: whole number;
    weight_y, weight_m: [dim]. Returns [time, dim].
    """
    # Replace the next line with your code.
    raise NotImplementedError("08.5: Return what a MAC without a leak answers to each token of x.")


# %%
check("08.5", causal_mac)

# %%
draw_influence({"somebody else's": moves(leaking_mac), "yours": moves(causal_mac)})

# %% [markdown]
# **What you have:** the three files `mal.py`, `mag.py` and `mac.py` of `minititans/variants/`,
# without projections, heads and batch; and a test for leaks that works on any model.

# %%
progress()
