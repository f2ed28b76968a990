# %% [markdown]
# # Lab 07: attention with a past
#
# You decide who sees whom: hide the future, put the past in a window, show learned tokens to all.
# You tell attention where a token is, and find the feed-forward layer in persistent tokens. The lab
# goes with the notebook [Attention with a past](../notebooks/07_attention.ipynb). Four tasks; plan
# 40 minutes.
#
# - `hint("07.1")` gives a hint, and each further call another one, three in all
# - `example("07.1")` gives inputs to try: `causal_weights(**example("07.1"))`
# - `progress()` shows what you have solved and what is next

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)

# %% [markdown]
# ## 07.1 A causal mask
#
# `scores[i, j]` says how well query $i$ fits key $j$. Turn each row into weights that add up to 1,
# equation (2), such that no token gives any weight to a later one.


# %%
def causal_weights(scores):
    """Return the attention weights of each token over itself and what came before it.

    scores: [time, time], queries in rows. Returns [time, time]; each row adds up to 1.
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "07.1: Return the attention weights of each token over itself and what came before it."
    )


# %%
check("07.1", causal_weights)

# %%
scores = torch.randn(8, 8)
matrices({"scores": scores, "weights": causal_weights(scores)}, "who looks", "at whom")

# %% [markdown]
# ## 07.2 A window with a prefix
#
# Now every token sees itself and the tokens before it, `window` tokens in all. And before the text
# there are `prefix` learned tokens, which every token sees. Their columns come first, so `scores`
# is `[time, prefix + time]`. This is the attention of MAG, (26) and (27).


# %%
def window_weights(scores, window, prefix):
    """Return the weights of each token over the prefix and the last `window` tokens.

    scores: [time, prefix + time]; window, prefix: whole numbers. Returns [time, prefix + time].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "07.2: Return the weights of each token over the prefix and the last `window` tokens."
    )


# %%
check("07.2", window_weights)

# %%
scores = torch.randn(10, 12)
windows = {f"window {w}": window_weights(scores, w, prefix=2) for w in (1, 3, 10)}
matrices(windows, "who looks", "at whom")

# %% [markdown]
# ## 07.3 Rotary positions
#
# Turn each pair of numbers like a point in the plane. A query or key has an even number of
# channels: `a` is the first half of them, `b` the second, and pair $j$ is $(a_j, b_j)$. The token
# in row $t$ is at place $s = \texttt{first} + t$, and its pair $j$ turns by the angle $\varphi$:
#
# $$\varphi = s \cdot 10000^{-j / \text{pairs}} \qquad
# (a_j, b_j) \to (a_j \cos\varphi - b_j \sin\varphi,\; a_j \sin\varphi + b_j \cos\varphi)$$


# %%
def rotate(a, b, first):
    """Return both sides of the pairs, each pair turned by its place in the text.

    a, b: [time, pairs]; first: the place of the first row. Returns two tensors [time, pairs].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "07.3: Return both sides of the pairs, each pair turned by its place in the text."
    )


# %%
check("07.3", rotate)

# %% [markdown]
# Take a query at place 50, and the same vector as a key at every place from 0 on. The score is
# highest where they meet, and depends on nothing but the distance.

# %%
one = torch.full((100, 16), 32**-0.5, dtype=torch.float64)  # half of a vector of length 1
key = torch.cat(rotate(one, one, 0), -1)  # [100, 32]
query = torch.cat(rotate(one[:1], one[:1], 50), -1)[0]
lines({"score": key @ query}, "place of the key", "score", mark=(50, "the query"))

# %% [markdown]
# ## 07.4 Persistent tokens as a feed-forward layer
#
# Persistent tokens $p_1 \dots p_N$ are the same for every text. What a token $x$ gets from them is
# attention with one query and $N$ fixed keys and values, so it is a function of $x$ alone. Write it
# as equation (20):
#
# $$\mathrm{FFN}(x) = W_V\,\mathrm{softmax}(W_K\, x)$$
#
# The projections of the layer are given: the query of $x$ is `to_query @ x`, the key and the value
# of $p_n$ are `to_key @ p[n]` and `to_value @ p[n]`. Scores are divided by $\sqrt{d_{\text{key}}}$.
# What are $W_K$ and $W_V$?


# %%
def feed_forward(p, to_query, to_key, to_value):
    """Return W_K and W_V of the feed-forward layer that attention to p amounts to.

    p: [tokens, dim]; to_query, to_key: [d_key, dim]; to_value: [d_value, dim].
    Returns W_K [tokens, dim] and W_V [d_value, tokens].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "07.4: Return W_K and W_V of the feed-forward layer that attention to p amounts to."
    )


# %%
check("07.4", feed_forward)

# %% [markdown]
# With your $W_K$ and $W_V$, the feed-forward layer gives the same as attention to four persistent
# tokens:

# %%
p, x = torch.randn(4, 16), torch.randn(16)
to_query, to_key, to_value = torch.randn(3, 8, 16)
W_K, W_V = feed_forward(p, to_query, to_key, to_value)
weights = torch.softmax((p @ to_key.T) @ (to_query @ x) / 8**0.5, dim=0)
print(
    "equal:", torch.allclose(weights @ (p @ to_value.T), W_V @ torch.softmax(W_K @ x, 0), atol=1e-4)
)

# %% [markdown]
# **What you have:** the attention that MAC, MAG and MAL combine with their memory, and the third
# kind of memory, which is learned in training and never written. In lab 08 they come together.

# %%
progress()
