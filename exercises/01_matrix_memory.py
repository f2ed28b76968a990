# %% [markdown]
# # Lab 01: a matrix that remembers
#
# You will build the simplest memory there is: a matrix that stores pairs and gives them back. It
# goes with the notebook [A matrix that remembers](../notebooks/01_matrix_memory.ipynb). Five tasks;
# plan 45 minutes.
#
# **How it works.** Each task has a cell with a hole in it, and below it a cell with `check`.
# Write your function and run both. `check` tries your function on many inputs. It tells you
# whether the answers are right and, if not, what differs; if it recognises a typical mistake, it
# says which one. A function that runs for more than ten seconds is stopped.
#
# - `hint("01.1")` gives a hint, and a further one each time you call it, three in all
# - `example("01.1")` gives you inputs to try: `hebbian_write(**example("01.1"))`
# - `progress()` shows what you have solved and what is next
#
# **Vectors and shapes.** A key is a vector `[d_key]`, a value `[d_value]`. The memory is a matrix
# that turns a key into a value, so it is `[d_value, d_key]`. (The paper writes vectors as rows and
# its matrix the other way round; the numbers are the same.)

# %%
import torch
import torch.nn.functional as F

from minititans.course import check, example, hint, progress
from minititans.course.labs.pictures import lines, matrices

_ = torch.manual_seed(0)

# %% [markdown]
# ## 01.1 Write
#
# To store a pair, add to the memory a matrix that answers `key` with `value`. What was there before
# stays: the memory is a sum of all pairs. This is Hebb's rule, equation (4) of the paper:
#
# $$M_t = M_{t-1} + v_t\, k_t^\top$$
#
# One line is missing.


# %%
def hebbian_write(M, key, value):
    """Return the memory after one more pair.

    M: [d_value, d_key]; key: [d_key]; value: [d_value]. Returns [d_value, d_key], a new tensor.
    """
    # Replace the next line with your code.
    raise NotImplementedError("01.1: Return the memory after one more pair.")


# %%
check("01.1", hebbian_write)

# %% [markdown]
# A pair in an empty memory: one row for each number of the value, and each row is the key times
# that number.

# %%
key, value = F.normalize(torch.randn(6), dim=0), torch.tensor([1.0, -1.0, 0.5, 0.0])
matrices({"M": hebbian_write(torch.zeros(4, 6), key, value)}, rows="value", columns="key")

# %% [markdown]
# ## 01.2 Read
#
# Reading compares the query with the keys and returns the values, each weighted by how well its key
# fits. With the matrix this is a single product, equation (5):
#
# $$y_t = M_t\, q_t$$


# %%
def read(M, query):
    """Return the memory's answer to a query.

    M: [d_value, d_key]; query: [d_key]. Returns [d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError("01.2: Return the memory's answer to a query.")


# %%
check("01.2", read)

# %% [markdown]
# If the key has length 1, asking with the key gives the value back, exactly:

# %%
M = hebbian_write(torch.zeros(4, 6), key, value)
print("written: ", [round(x, 3) for x in value.tolist()])
print("recalled:", [round(x, 3) for x in read(M, key).tolist()])

# %% [markdown]
# ## 01.3 Many pairs at once
#
# Writing pair after pair into an empty memory gives a sum. A sum over pairs is a matrix product:
# write all of them at once, without a loop.
#
# $$M = \sum_t v_t\, k_t^\top$$


# %%
def hebbian_memory(keys, values):
    """Return the memory that holds all pairs, starting from an empty one.

    keys: [time, d_key]; values: [time, d_value]. Returns [d_value, d_key].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "01.3: Return the memory that holds all pairs, starting from an empty one."
    )


# %%
check("01.3", hebbian_memory)

# %% [markdown]
# How well does the memory recall when more and more pairs share one matrix? The keys have 32
# numbers:


# %%
def recall_error(pairs, dim=32):
    keys = F.normalize(torch.randn(pairs, dim), dim=-1)
    values = F.normalize(torch.randn(pairs, dim), dim=-1)
    recalled = keys @ hebbian_memory(keys, values).T
    return (recalled - values).square().sum(-1).mean()


counts = [1, 2, 4, 8, 16, 32, 64]
errors = torch.stack([recall_error(pairs) for pairs in counts])
lines({"error of recall": errors}, "pairs in one 32 × 32 matrix", "squared error", x=counts)

# %% [markdown]
# ## 01.4 Linear attention
#
# Now take a sequence: every token writes its pair, then asks the memory so far with its own query.
# Unroll (4) and (5), and the matrix disappears: what is left is attention without a softmax.
#
# $$y_t = M_t\, q_t = \sum_{i \le t} (q_t \cdot k_i)\, v_i$$
#
# Write it for a batch of sequences, with matrix products and a mask, without a loop over tokens.
# No row of the batch may see another.


# %%
def linear_attention(queries, keys, values):
    """Return each token's answer from the pairs up to and including its own.

    queries, keys: [batch, time, d_key]; values: [batch, time, d_value].
    Returns [batch, time, d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "01.4: Return each token's answer from the pairs up to and including its own."
    )


# %%
check("01.4", linear_attention)

# %%
queries, keys = F.normalize(torch.randn(2, 1, 8, 16), dim=-1)
overlaps = queries[0] @ keys[0].T
matrices({"all overlaps": overlaps, "what token t sees": overlaps.tril()}, "token t", "pair i")

# %% [markdown]
# ## 01.5 Interference
#
# Why does recall get worse? Put $M = \sum_j v_j k_j^\top$ into $M k_i$ and separate what comes from
# pair $i$ itself from what comes from all others. The others are noise:
#
# $$M k_i = \underbrace{v_i\,\|k_i\|^2}_{\text{signal}} + \text{noise}_i$$
#
# Derive the noise of each pair and implement it. Keys may have any length.


# %%
def interference(keys, values):
    """Return, for each pair, what all other pairs add to its recall.

    keys: [time, d_key]; values: [time, d_value]. Returns [time, d_value].
    """
    # Replace the next line with your code.
    raise NotImplementedError(
        "01.5: Return, for each pair, what all other pairs add to its recall."
    )


# %%
check("01.5", interference)

# %% [markdown]
# Two random keys of length 1 overlap by about $1/\sqrt{d}$, so the noise of $n$ pairs should have a
# squared length of about $(n - 1)/d$. Yours:

# %%
dim = 32
keys = F.normalize(torch.randn(64, dim), dim=-1)
values = F.normalize(torch.randn(64, dim), dim=-1)
noise = [interference(keys[:n], values[:n]).square().sum(-1).mean() for n in counts]
theory = torch.tensor([(n - 1) / dim for n in counts])
lines({"noise": torch.stack(noise), "(n − 1) / d": theory}, "pairs n", "squared length", x=counts)

# %% [markdown]
# **What you have:** a memory with a write and a read, its form without a loop, and the reason why
# it overflows: it adds without looking. In lab 02 it looks first.

# %%
progress()
