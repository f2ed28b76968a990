"""Lab 04: learning to forget. alpha in one write, in the whole rule, over time, as a half-life."""

import torch

from minititans.course.labs.inputs import memory_and_pair, sequences
from minititans.course.labs.rule import library, one_token, walk
from minititans.course.labs.task import Lab
from minititans.memory import segment_products

LAB = Lab("04", "Learning to forget")


def weights_and_alpha(draw):
    shape = draw.size("d_value"), draw.size("d_key")
    return {"M": draw.normal(*shape), "S": draw.normal(*shape), "alpha": draw.gate()}


@LAB.task(
    "04.1",
    "Forget, then write",
    inputs=weights_and_alpha,
    returns="M [d_value, d_key]",
    hints=(
        "alpha is the share that is forgotten. Which share stays, and of what?",
        "Forgetting acts on the old memory only. S is new: it is added whole.",
        "(13): scale M by what stays, then add S.",
    ),
)
def forget_and_write(M, S, alpha):
    # A token that brings no surprise, and a momentum that does not fade: S is what is written.
    silence = M.new_zeros(M.shape[1]), M.new_zeros(M.shape[0])
    return one_token(M, S, *silence, torch.zeros_like(alpha), torch.ones_like(alpha), alpha)[0]


@forget_and_write.mistake(
    "alpha for 1 − alpha",
    "You keep the share alpha. alpha = 1 should clear the memory, and here it keeps everything.",
)
def _(M, S, alpha):
    return alpha * M + S


@forget_and_write.mistake(
    "decay after the write",
    "What was just written is forgotten too: the decay comes after the write. With alpha = 1 "
    "nothing would ever be stored.",
)
def _(M, S, alpha):
    return (1 - alpha) * (M + S)


@forget_and_write.mistake(
    "running average",
    "This is a running average: S is multiplied by alpha. In (13) forgetting and writing are "
    "independent of each other.",
)
def _(M, S, alpha):
    return (1 - alpha) * M + alpha * S


@forget_and_write.mistake("nothing forgotten", "Nothing is forgotten: alpha has no effect.")
def _(M, S, alpha):
    return M + S


@forget_and_write.mistake(
    "decay on the new", "You forget the new and keep the old. Which of the two is in the past?"
)
def _(M, S, alpha):
    return M + (1 - alpha) * S


@LAB.task(
    "04.2",
    "The whole rule, one token",
    inputs=memory_and_pair("theta", "eta", "alpha"),
    returns=("M [d_value, d_key]", "S [d_value, d_key]"),
    hints=(
        "Three lines, as in lab 03: surprise, momentum, memory. Only the last one is new.",
        "The surprise is measured at M as it comes in, before anything is forgotten.",
        "u at M; S from (14); then forget_and_write. alpha touches M and nothing else.",
    ),
)
def titans_step(M, S, key, value, theta, eta, alpha):
    return one_token(M, S, key, value, theta, eta, alpha)


@titans_step.mistake(
    "surprise after forgetting",
    "The surprise is measured after forgetting, at (1 − alpha) M. That is a different memory "
    "(Gated DeltaNet's); here the gradient is taken at M_{t−1}.",
)
def _(M, S, key, value, theta, eta, alpha):
    kept = (1 - alpha) * M
    new = eta * S - theta * torch.outer(kept @ key - value, key)
    return kept + new, new


@titans_step.mistake(
    "momentum forgets too",
    "The momentum is forgotten along with M. It has a gate of its own for that: eta.",
)
def _(M, S, key, value, theta, eta, alpha):
    u = torch.outer(M @ key - value, key)
    new = (1 - alpha) * eta * S - theta * u
    return (1 - alpha) * M + new, new


@titans_step.mistake(
    "decay after the write",
    "What was just written is forgotten too: the decay comes after the write.",
)
def _(M, S, key, value, theta, eta, alpha):
    new = titans_step(M, S, key, value, theta, eta, alpha)[1]
    return (1 - alpha) * (M + new), new


@titans_step.mistake(
    "alpha for 1 − alpha", "You keep the share alpha of M. alpha is the share that is forgotten."
)
def _(M, S, key, value, theta, eta, alpha):
    new = titans_step(M, S, key, value, theta, eta, alpha)[1]
    return alpha * M + new, new


@titans_step.mistake(
    "sign of the gradient", "The gradient comes in with a plus: this memory learns to be wrong."
)
def _(M, S, key, value, theta, eta, alpha):
    return titans_step(M, S, key, value, -theta, eta, alpha)


@titans_step.mistake("old momentum written", "You add the momentum of the token before to M.")
def _(M, S, key, value, theta, eta, alpha):
    return (1 - alpha) * M + S, titans_step(M, S, key, value, theta, eta, alpha)[1]


@LAB.task(
    "04.3",
    "What is left of a write",
    inputs=lambda draw: {"alpha": draw.gate(draw.size("batch"), draw.tokens(6))},
    returns="left [batch, time]",
    corners=({"alpha": 0.99, "time": 12},),
    hints=(
        "Something is written at token s. Which tokens make it fade: s itself, those before, those "
        "after?",
        "left[s] = (1 − alpha_{s+1}) · … · (1 − alpha_T). For the last token the product is empty: "
        "1.",
        "Walk from the end: left[s] = left[s+1] · (1 − alpha_{s+1}). Or flip, cumprod, flip. No "
        "division: alpha may be 1.",
    ),
)
def what_is_left(alpha):
    return segment_products(1 - alpha)[:, -1]


@what_is_left.mistake(
    "off by one",
    "Off by one: in your answer a write already fades at its own token. But that token forgets "
    "first, then writes.",
)
def _(alpha):
    return (1 - alpha).flip(1).cumprod(1).flip(1)


@what_is_left.mistake(
    "from the beginning",
    "This is what is left of the first memory at each token. The question is what is left of each "
    "token's write at the end.",
)
def _(alpha):
    return (1 - alpha).cumprod(1)


@what_is_left.mistake(
    "alpha for 1 − alpha", "These are products of alpha, the share that is lost. Which share stays?"
)
def _(alpha):
    return segment_products(alpha)[:, -1]


@what_is_left.mistake(
    "divides by zero",
    "You divide one cumulative product by another. If an alpha is exactly 1, that is zero divided "
    "by zero, and clearing the memory must work.",
)
def _(alpha):
    beta = (1 - alpha).cumprod(1)
    return beta[:, -1:] / beta


@what_is_left.mistake(
    "sum for product",
    "You add up the alphas. Forgetting half twice leaves a quarter, not nothing.",
)
def _(alpha):
    return 1 - (alpha.sum(1, keepdim=True) - alpha.cumsum(1))


@LAB.task(
    "04.4",
    "A half-life",
    inputs=lambda draw: {"tokens": draw.gate(draw.size("gates"), low=1.0, high=40.0)},
    corners=({"tokens": 1.0}, {"tokens": 1000.0}),
    never_zero=("tokens",),
    returns="alpha [gates]",
    hints=(
        "With one alpha for all tokens, how much of a write is left after n of them?",
        "(1 − alpha)ⁿ = ½. Solve for alpha.",
        "Take the n-th root on both sides: 1 − alpha = ½ to the power 1/n.",
    ),
)
def alpha_for_half_life(tokens):
    return 1 - 0.5 ** (1 / tokens)


@alpha_for_half_life.mistake(
    "1 − alpha for alpha", "This is the share that each token keeps, 1 − alpha."
)
def _(tokens):
    return 0.5 ** (1 / tokens)


@alpha_for_half_life.mistake(
    "straight line",
    "This forgets the same amount at every token, along a straight line. Forgetting multiplies.",
)
def _(tokens):
    return 0.5 / tokens


@alpha_for_half_life.mistake(
    "base e", "After that many tokens 1/e is left, about 37 %. It should be a half."
)
def _(tokens):
    return 1 - torch.exp(-1 / tokens)


@alpha_for_half_life.mistake(
    "approximation for small alpha",
    "A good approximation for small alpha, but not exact: for one token alpha must be ½.",
)
def _(tokens):
    return 0.6931471805599453 / tokens


@LAB.task(
    "04.5",
    "The whole memory",
    inputs=sequences("theta", "eta", "alpha"),
    returns=("y [batch, time, d_value]", "M [batch, d_value, d_key]", "S [batch, d_value, d_key]"),
    hints=(
        "The loop of lab 03 with this lab's step. What is new: the end state is returned as well, "
        "so that a later call can carry on from there.",
        "Every row: M as given, S zeros; every token: step, then read. Keep each row's last M and "
        "S.",
        "torch.stack the readings along time, then along batch; torch.stack the last M and the "
        "last S of all rows along batch.",
    ),
)
def titans_memory(M, queries, keys, values, theta, eta, alpha):
    return library(queries, keys, values, theta, eta, alpha, M)


@titans_memory.mistake(
    "read before write",
    "Every answer is one token behind: you read before you write. y_t comes from M_t.",
)
def _(*inputs):
    return walk(*inputs, read_first=True)


@titans_memory.mistake(
    "decay after the write",
    "What was just written is forgotten too: the decay comes after the write.",
)
def _(*inputs):
    return walk(*inputs, decay_after=True)


@titans_memory.mistake(
    "surprise at the first weights",
    "Every surprise is measured at the first M. The memory has changed since.",
)
def _(*inputs):
    return walk(*inputs, frozen=True)


@titans_memory.mistake(
    "batch rows mixed",
    "A row of the batch starts with what the row before it left. Each starts with M and zeros.",
)
def _(*inputs):
    return walk(*inputs, rows_mixed=True)


@titans_memory.mistake(
    "momentum starts over", "The momentum starts at zero for every token, so nothing lingers."
)
def _(*inputs):
    return walk(*inputs, new_momentum=True)
