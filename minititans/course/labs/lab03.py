"""Lab 03: surprise that lingers. Momentum in one step, in a write, over time, and in the sum."""

import torch

from minititans.course.labs.inputs import memory_and_pair, sequences
from minititans.course.labs.rule import library, one_token, walk
from minititans.course.labs.task import Lab
from minititans.memory.scan import linear_recurrence

LAB = Lab("03", "Surprise that lingers")


def past_and_present(draw):
    shape = draw.size("d_value"), draw.size("d_key")
    S, u = draw.normal(*shape), draw.normal(*shape)
    return {"S": S, "u": u, "theta": draw.gate(), "eta": draw.gate()}


@LAB.task(
    "03.1",
    "Past and momentary surprise",
    inputs=past_and_present,
    returns="S [d_value, d_key]",
    hints=(
        "Two things are added: what is left of the past surprise, and what this token brings.",
        "eta says how much of S lives on, theta how much of u comes in. One of them has a minus.",
        "Read (10) from left to right: the past keeps its sign, the gradient gets a minus, because "
        "S is added to M later.",
    ),
)
def lingering_surprise(S, u, theta, eta):
    # Each column of S is a memory by itself, for keys of one number: the key 1. An empty memory
    # that should have answered −u is surprised by u.
    columns = u.shape[1]
    key = u.new_ones(columns, 1, 1)
    gates = (gate.expand(columns, 1) for gate in (theta, eta, torch.zeros_like(eta)))
    empty, old = u.new_zeros(len(u), 1), S.T[:, None, :, None]
    _, _, S = library(key, key, -u.T[:, None], *gates, empty, old)
    return S[..., 0].T


@lingering_surprise.mistake(
    "sign of the gradient",
    "The gradient comes in with a plus. S will be added to M, and a gradient points uphill.",
)
def _(S, u, theta, eta):
    return eta * S + theta * u


@lingering_surprise.mistake(
    "eta and theta swapped", "The two gates are swapped: which one belongs to the past?"
)
def _(S, u, theta, eta):
    return theta * S - eta * u


@lingering_surprise.mistake(
    "eta on the wrong side",
    "eta dampens the new surprise as well. What has just happened is not past yet.",
)
def _(S, u, theta, eta):
    return eta * (S - theta * u)


@lingering_surprise.mistake(
    "running average",
    "This is a running average: the more of the past you keep, the less of the present comes in. "
    "In (10) the two gates are independent of each other.",
)
def _(S, u, theta, eta):
    return eta * S - (1 - eta) * theta * u


@lingering_surprise.mistake(
    "theta on the past too",
    "theta scales the past too, so an old surprise is scaled again with every token.",
)
def _(S, u, theta, eta):
    return theta * (eta * S - u)


@lingering_surprise.mistake(
    "1 − eta for eta",
    "You keep 1 − eta of the past. With eta = 1 the past surprise should live on in full.",
)
def _(S, u, theta, eta):
    return (1 - eta) * S - theta * u


@LAB.task(
    "03.2",
    "A write with momentum",
    inputs=memory_and_pair("theta", "eta"),
    returns=("M [d_value, d_key]", "S [d_value, d_key]"),
    hints=(
        "Three lines: the surprise of this pair, the new momentum, the new memory. In which order "
        "do they depend on each other?",
        "The surprise is measured at M as it comes in. The momentum is 03.1. Then (9).",
        "M_t = M_{t−1} + S_t: it is S_t, not S_{t−1}. Return both, M first.",
    ),
)
def momentum_write(M, S, key, value, theta, eta):
    return one_token(M, S, key, value, theta, eta, torch.zeros_like(eta))


@momentum_write.mistake(
    "old momentum written",
    "You add the momentum of the token before to M. This token's surprise comes one step too late.",
)
def _(M, S, key, value, theta, eta):
    return M + S, momentum_write(M, S, key, value, theta, eta)[1]


@momentum_write.mistake(
    "results swapped", "Both are right, but in the wrong order: M comes first, then S."
)
def _(M, S, key, value, theta, eta):
    return momentum_write(M, S, key, value, theta, eta)[::-1]


@momentum_write.mistake(
    "momentum not written",
    "Only this token's own surprise reaches M. The momentum is kept, but never written.",
)
def _(M, S, key, value, theta, eta):
    u = torch.outer(M @ key - value, key)
    return M - theta * u, eta * S - theta * u


@momentum_write.mistake(
    "surprise measured ahead",
    "The surprise is measured after the old momentum was written: that is Nesterov's look-ahead. "
    "The paper measures it at M_{t−1}.",
)
def _(M, S, key, value, theta, eta):
    u = torch.outer((M + eta * S) @ key - value, key)
    new = eta * S - theta * u
    return M + new, new


@momentum_write.mistake(
    "momentum subtracted",
    "The momentum is subtracted from M. The minus is already inside it, in front of theta.",
)
def _(M, S, key, value, theta, eta):
    new = momentum_write(M, S, key, value, theta, eta)[1]
    return M - new, new


def shocks_and_eta(draw):
    batch, time = draw.size("batch"), draw.tokens(6)
    return {"shocks": draw.normal(batch, time), "eta": draw.gate(batch, time)}


@LAB.task(
    "03.3",
    "Momentum over time",
    inputs=shocks_and_eta,
    returns="S [batch, time]",
    corners=({"eta": 0.01, "time": 12},),
    hints=(
        "What does token t need from token t − 1? Carry that, and nothing else, through a loop.",
        "S_t = eta_t · S_{t−1} + shock_t. For all rows of the batch at once S is a vector.",
        "Start with S = zeros of shape [batch]; in the loop take column t of both inputs; "
        "torch.stack the results along the last axis.",
    ),
)
def momentum_over_time(shocks, eta):
    return linear_recurrence(eta, shocks, shocks.new_zeros(len(shocks)))


def _recur(shocks, eta):
    S, steps = torch.zeros_like(shocks[:, 0]), []
    for t in range(shocks.shape[1]):
        S = eta[:, t] * S + shocks[:, t]
        steps.append(S)
    return torch.stack(steps, 1)


@momentum_over_time.mistake(
    "off by one",
    "Each step fades with the gate of the token before it. eta_t says what token t lets through "
    "of the past.",
)
def _(shocks, eta):
    return _recur(shocks, eta.roll(1, dims=1))


@momentum_over_time.mistake(
    "nothing fades", "Nothing fades: this is the plain sum of all shocks so far."
)
def _(shocks, eta):
    return shocks.cumsum(1)


@momentum_over_time.mistake(
    "eta on the wrong side",
    "A shock is dampened in the very step in which it happens. eta acts on the past alone.",
)
def _(shocks, eta):
    S, steps = torch.zeros_like(shocks[:, 0]), []
    for t in range(shocks.shape[1]):
        S = eta[:, t] * (S + shocks[:, t])
        steps.append(S)
    return torch.stack(steps, 1)


@momentum_over_time.mistake(
    "batch rows mixed",
    "A row of the batch starts with what the row before it left behind. Every row starts at zero.",
)
def _(shocks, eta):
    S, rows = shocks.new_zeros(()), []
    for of_row, gates in zip(shocks, eta):
        steps = []
        for shock, gate in zip(of_row, gates):
            S = gate * S + shock
            steps.append(S)
        rows.append(torch.stack(steps))
    return torch.stack(rows)


@momentum_over_time.mistake(
    "one step back only",
    "You use only the shock just before. S_{t−1} contains all earlier ones: carry S instead.",
)
def _(shocks, eta):
    before = torch.cat([torch.zeros_like(shocks[:, :1]), shocks[:, :-1]], 1)
    return eta * before + shocks


def step_and_tokens(draw):
    return {"theta": draw.gate(), "eta": draw.gate(), "tokens": draw.tokens(7)}


@LAB.task(
    "03.4",
    "How much of one surprise is written",
    inputs=step_and_tokens,
    returns="total []",
    corners=({"eta": 1.0, "time": 1}, {"eta": 1.0, "time": 7}, {"eta": 0.0, "time": 7}),
    hints=(
        "Follow one surprise. At its own token theta of it is written; how much at the next, where "
        "eta of the momentum is left? And at the one after?",
        "theta + theta·eta + theta·eta² + …: as many terms as tokens. A geometric series.",
        "theta (1 − etaⁿ)/(1 − eta) is the sum, but not at eta = 1. Adding the powers of eta, "
        "eta ** torch.arange(n), needs no division.",
    ),
)
def effect_of_one_surprise(theta, eta, tokens):
    powers = eta ** torch.arange(tokens, dtype=eta.dtype)
    return theta * powers.sum()


@effect_of_one_surprise.mistake(
    "off by one, too many", "One term too many. With a single token only theta is written, once."
)
def _(theta, eta, tokens):
    return effect_of_one_surprise(theta, eta, tokens + 1)


@effect_of_one_surprise.mistake(
    "off by one, too few", "One term too few: the surprise's own token counts as well."
)
def _(theta, eta, tokens):
    return theta * (eta ** torch.arange(1, tokens, dtype=eta.dtype)).sum()


@effect_of_one_surprise.mistake(
    "last write only",
    "This is what the last token writes. How much have all tokens written together?",
)
def _(theta, eta, tokens):
    return theta * eta ** (tokens - 1)


@effect_of_one_surprise.mistake(
    "infinite sum",
    "This is the sum of infinitely many terms. Here there are only `tokens` of them.",
)
def _(theta, eta, tokens):
    return theta / (1 - eta)


@effect_of_one_surprise.mistake(
    "divides by zero",
    "The formula is right except at eta = 1, where it divides zero by zero. What is the sum if "
    "nothing fades?",
)
def _(theta, eta, tokens):
    return theta * (1 - eta**tokens) / (1 - eta)


@LAB.task(
    "03.5",
    "A memory with momentum",
    inputs=sequences("theta", "eta"),
    returns="y [batch, time, d_value]",
    hints=(
        "It is lab 02's loop over a sequence, with one more thing carried from token to token.",
        "Each row of the batch starts with the same M and with a momentum of zeros. After each "
        "write, read.",
        "M, S = momentum_write(M, S, ...) in the inner loop; both are reset where a row starts.",
    ),
)
def momentum_memory(M, queries, keys, values, theta, eta):
    return library(queries, keys, values, theta, eta, torch.zeros_like(eta), M)[0]


def _walk(M, queries, keys, values, theta, eta, **switches):
    return walk(M, queries, keys, values, theta, eta, torch.zeros_like(eta), **switches)[0]


@momentum_memory.mistake(
    "read before write",
    "Every answer is one token behind: you read before you write. y_t comes from M_t.",
)
def _(*inputs):
    return _walk(*inputs, read_first=True)


@momentum_memory.mistake(
    "momentum starts over",
    "The momentum starts at zero for every token, so nothing lingers. What must be set before "
    "the loop over tokens?",
)
def _(*inputs):
    return _walk(*inputs, new_momentum=True)


@momentum_memory.mistake(
    "surprise at the first weights",
    "Every surprise is measured at the first M. The memory has learned since.",
)
def _(*inputs):
    return _walk(*inputs, frozen=True)


@momentum_memory.mistake(
    "batch rows mixed",
    "A row of the batch starts with the memory or the momentum that the row before it left. Each "
    "row starts with M and with a momentum of zeros.",
)
def _(*inputs):
    return _walk(*inputs, rows_mixed=True)


@momentum_memory.mistake(
    "momentum crosses rows",
    "The memory starts over with each row, but the momentum of the row before lives on.",
)
def _(M, queries, keys, values, theta, eta):
    S, readings = torch.zeros_like(M), []
    for row in range(len(keys)):
        M_row, of_row = M, []
        for t in range(keys.shape[1]):
            u = torch.outer(M_row @ keys[row, t] - values[row, t], keys[row, t])
            S = eta[row, t] * S - theta[row, t] * u
            M_row = M_row + S
            of_row.append(M_row @ queries[row, t])
        readings.append(torch.stack(of_row))
    return torch.stack(readings)
