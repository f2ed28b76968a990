"""Lab 01: a matrix that remembers. Write, read, many pairs, linear attention, interference."""

import torch

from minititans.course.labs.inputs import pair
from minititans.course.labs.task import Lab
from minititans.relatives.rule import Tokens, loop

LAB = Lab("01", "A matrix that remembers")


def library(queries, keys, values, M=None):
    """The library's additive memory, `[batch, time, dim]` each: all readings, and M at the end."""
    q, k, v = (x[:, None] for x in (queries, keys, values))  # one head
    decay = torch.ones_like(q[..., 0])
    y, M = loop(Tokens(q, k, v, decay), None if M is None else M[:, None])
    return y[:, 0], M[:, 0]


@LAB.task(
    "01.1",
    "Write",
    inputs=pair,
    returns="M [d_value, d_key]",
    hints=(
        "One pair becomes one matrix: a row for each number of the value, a column for each "
        "number of the key. Which product of two vectors is a matrix?",
        "Number [i, j] of that matrix is value[i] · key[j]. It is added to what M holds.",
        "torch.outer(a, b) has a's numbers along its rows and b's along its columns. Compare its "
        "shape with M's before you add.",
    ),
)
def hebbian_write(M, key, value):
    return library(key[None, None], key[None, None], value[None, None], M[None])[1][0]


@hebbian_write.mistake(
    "transposed outer product",
    "Rows and columns are swapped. M answers with a value when it is multiplied by a key: which of "
    "the two must run along its rows?",
)
def _(M, key, value):
    return M + torch.outer(key, value)


@hebbian_write.mistake(
    "old contents lost", "The new pair is there, but everything that M held before is gone."
)
def _(M, key, value):
    return torch.outer(value, key)


@hebbian_write.mistake(
    "sign of the write", "The pair is subtracted from the memory instead of being added."
)
def _(M, key, value):
    return M - torch.outer(value, key)


@hebbian_write.mistake(
    "number by number",
    "Here value and key are multiplied number by number. Every number of the value must be "
    "multiplied by every number of the key.",
)
def _(M, key, value):
    return M + value * key


def matrix_and_query(draw):
    d_value, d_key = draw.size("d_value"), draw.size("d_key")
    return {"M": draw.normal(d_value, d_key), "query": draw.normal(d_key)}


@LAB.task(
    "01.2",
    "Read",
    inputs=matrix_and_query,
    returns="y [d_value]",
    hints=(
        "Reading compares the query with each key that was written and adds up the values, each "
        "as strongly as its key fits. The matrix has done most of that work already.",
        "If M is value · keyᵀ, then M times the query is value · (key · query).",
        "It is one matrix-vector product. M has d_key columns, and the query has d_key numbers.",
    ),
)
def read(M, query):
    zeros = torch.zeros_like(query), M.new_zeros(M.shape[0])
    y, _ = library(query[None, None], *(x[None, None] for x in zeros), M[None])
    return y[0, 0]


@read.mistake(
    "transposed matrix",
    "You multiply from the wrong side: your query runs along the values' axis of M.",
)
def _(M, query):
    return query @ M


@read.mistake(
    "products not summed",
    "The products are right, but each row of them must become one number: add them up.",
)
def _(M, query):
    return M * query


@read.mistake(
    "mean for sum",
    "You take means where sums belong: the longer the key, the weaker your answer.",
)
def _(M, query):
    return (M * query).mean(-1)


def pairs(draw):
    time, d_value, d_key = draw.tokens(), draw.size("d_value"), draw.size("d_key")
    return {"keys": draw.normal(time, d_key), "values": draw.normal(time, d_value)}


@LAB.task(
    "01.3",
    "Many pairs at once",
    inputs=pairs,
    returns="M [d_value, d_key]",
    hints=(
        "Start with a matrix of zeros and write one pair after another. Which sum do you end with?",
        "M = Σ_t value_t key_tᵀ. A sum over a shared index is what a matrix product does.",
        "The shared index is time, so time belongs in the middle: [d_value, time] times "
        "[time, d_key].",
    ),
    forbids=("loop",),
)
def hebbian_memory(keys, values):
    return library(keys[None], keys[None], values[None])[1][0]


@hebbian_memory.mistake(
    "transposed outer product",
    "This is the memory turned on its side: given a value, it answers with a key. Which axis "
    "should a query be summed over?",
)
def _(keys, values):
    return keys.T @ values


@hebbian_memory.mistake(
    "mean for sum",
    "The more pairs there are, the more weakly each is written: is there a mean instead of a sum?",
)
def _(keys, values):
    return values.T @ keys / len(keys)


@hebbian_memory.mistake(
    "only the last pair",
    "Only the last pair is left. Does every write start from an empty matrix?",
)
def _(keys, values):
    return torch.outer(values[-1], keys[-1])


@hebbian_memory.mistake(
    "every key with every value",
    "Every key is paired with every value. Pair t belongs together: the same t on both sides.",
)
def _(keys, values):
    return torch.outer(values.sum(0), keys.sum(0))


def sequences(draw):
    batch, time = draw.size("batch"), draw.tokens()
    d_value, d_key = draw.size("d_value"), draw.size("d_key")
    return {
        "queries": draw.normal(batch, time, d_key),
        "keys": draw.normal(batch, time, d_key),
        "values": draw.normal(batch, time, d_value),
    }


@LAB.task(
    "01.4",
    "Linear attention",
    inputs=sequences,
    returns="y [batch, time, d_value]",
    hints=(
        "M_t holds the pairs up to token t. Write y_t = M_t q_t as a sum over those pairs: which "
        "number multiplies each value?",
        "y_t = Σ_{i ≤ t} (q_t · k_i) v_i. All dot products together are one matrix, [time, time], "
        "and i ≤ t is a mask on it.",
        "queries @ keys.mT is [batch, time, time]; .tril() keeps i ≤ t; one more product with the "
        "values does the sum.",
    ),
    forbids=("loop",),
)
def linear_attention(queries, keys, values):
    return library(queries, keys, values)[0]


@linear_attention.mistake(
    "sees the future", "A token is answered with pairs that come after it: it sees the future."
)
def _(queries, keys, values):
    return queries @ keys.mT @ values


@linear_attention.mistake(
    "read before write",
    "A token does not see its own pair: you read before you write. The paper writes first.",
)
def _(queries, keys, values):
    return (queries @ keys.mT).tril(-1) @ values


@linear_attention.mistake(
    "mask the wrong way round",
    "The mask is the wrong way round: the first token sees all pairs, the last only its own.",
)
def _(queries, keys, values):
    return (queries @ keys.mT).triu() @ values


@linear_attention.mistake(
    "batch rows mixed",
    "The rows of the batch share one memory: what one sequence writes, another reads.",
)
def _(queries, keys, values):
    overlaps = torch.einsum("atd,bsd->abts", queries, keys).tril()
    return torch.einsum("abts,bsv->atv", overlaps, values)


@linear_attention.mistake(
    "softmax attention", "This is softmax attention. Linear attention leaves the softmax out."
)
def _(queries, keys, values):
    scores = queries @ keys.mT
    later = torch.ones_like(scores).triu(1).bool()
    return scores.masked_fill(later, float("-inf")).softmax(-1) @ values


@linear_attention.mistake(
    "mean for sum",
    "Each answer is divided by the number of pairs so far. In (5) it is a plain sum.",
)
def _(queries, keys, values):
    counts = torch.arange(1, keys.shape[1] + 1, dtype=keys.dtype)
    return linear_attention(queries, keys, values) / counts[:, None]


@LAB.task(
    "01.5",
    "Interference",
    inputs=pairs,
    returns="noise [time, d_value]",
    hints=(
        "Put M = Σ_j v_j k_jᵀ into M k_i and take the term j = i out of the sum. What is left?",
        "noise_i = Σ_{j ≠ i} (k_j · k_i) v_j: a [time, time] matrix of overlaps without its "
        "diagonal, times the values.",
        "keys @ keys.T holds every overlap. What is on its diagonal is not noise: subtract "
        "torch.diag(overlaps.diagonal()).",
    ),
)
def interference(keys, values):
    M = hebbian_memory(keys, values)
    return keys @ M.T - keys.square().sum(-1, keepdim=True) * values


@interference.mistake(
    "own pair counted",
    "This is the whole answer M k_i. The part that comes from pair i itself is signal, not noise.",
)
def _(keys, values):
    return keys @ hebbian_memory(keys, values).T


@interference.mistake(
    "keys taken to have length one",
    "You subtract v_i, which is right for keys of length 1. How strongly does pair i come back if "
    "its key is longer?",
)
def _(keys, values):
    return keys @ hebbian_memory(keys, values).T - values


@interference.mistake(
    "earlier pairs only",
    "Here only earlier pairs disturb the recall. All pairs are in M, the later ones too.",
)
def _(keys, values):
    return (keys @ keys.T).tril(-1) @ values


@interference.mistake(
    "sign of the overlap lost",
    "The overlaps have lost their signs. Two disturbances can cancel each other.",
)
def _(keys, values):
    overlaps = (keys @ keys.T).abs()
    return (overlaps - torch.diag(overlaps.diagonal())) @ values
