"""Lab 09: training a Titan. Bits per byte, one outer step by hand, a state that is handed on."""

import math

import torch
import torch.nn.functional as F
from torch import func

from minititans.course.labs.rule import library
from minititans.course.labs.task import Lab

LAB = Lab("09", "Training a Titan")


def predictions(draw):
    batch, time, vocab = draw.size("batch"), draw.tokens(), draw.size("vocab")
    logits = draw.normal(batch, time, vocab)
    return {"logits": logits, "targets": draw.normal(batch, time, vocab).argmax(-1)}


def are_very_large(x):
    return 500 * x


@LAB.task(
    "09.1",
    "Bits per byte",
    inputs=predictions,
    returns="bits []",
    corners=({"logits": are_very_large},),
    hints=(
        "How many bits does a byte cost if it was expected with probability ½? With ¼? With 1?",
        "Take −log₂ p of the byte that came, and average over all bytes of all rows. A softmax "
        "over the last axis turns logits into probabilities.",
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten()) is the same average with the "
        "natural logarithm. And log₂ p is ln p / ln 2.",
    ),
)
def bits_per_byte(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / math.log(2)


def _nats(logits, targets, dim=-1):
    """`−ln p` of every target, `[batch, time]`."""
    chances = logits.log_softmax(dim)
    return -chances.gather(-1, targets[..., None])[..., 0]


@bits_per_byte.mistake(
    "nats for bits",
    "The natural logarithm counts in nats. One nat is 1 / ln 2 bits, about 1.44.",
)
def _(logits, targets):
    return _nats(logits, targets).mean()


@bits_per_byte.mistake(
    "sum for mean", "This is the cost of the whole text. Bits *per byte* are an average."
)
def _(logits, targets):
    return _nats(logits, targets).sum() / math.log(2)


@bits_per_byte.mistake(
    "the likeliest byte",
    "You count the byte that the model found likeliest. The cost is that of the byte that came.",
)
def _(logits, targets):
    return bits_per_byte(logits, logits.argmax(-1))


@bits_per_byte.mistake(
    "mean of the probabilities",
    "You average the probabilities and then take the logarithm. Every byte has its own cost: first "
    "the logarithm, then the average.",
)
def _(logits, targets):
    return -torch.exp(-_nats(logits, targets)).mean().log2()


@bits_per_byte.mistake(
    "softmax over time",
    "The softmax runs over the tokens. The bytes that might come next compete with each other, and "
    "they are along the last axis.",
)
def _(logits, targets):
    return _nats(logits, targets, dim=1).mean() / math.log(2)


@bits_per_byte.mistake(
    "softmax first, logarithm second",
    "You take the softmax first and the logarithm afterwards: a probability that rounds to 0 then "
    "costs infinitely much. log_softmax does both at once and never rounds to 0.",
)
def _(logits, targets):
    return -logits.softmax(-1).gather(-1, targets[..., None]).log2().mean()


def sequence(draw, *batch):
    """Pairs to read, then a question and its right answer."""
    time, d_value, d_key = draw.tokens(), draw.size("d_value"), draw.size("d_key")
    question, answer = ("queries", "targets") if batch else ("query", "target")
    return {
        "M": draw.normal(d_value, d_key),
        "keys": draw.unit(*batch, time, d_key),
        "values": draw.normal(*batch, time, d_value),
        "theta": draw.gate(*batch, time),
        question: draw.unit(*batch, d_key),
        answer: draw.normal(*batch, d_value),
    }


def after_reading(M, keys, values, theta):
    """The library's memory after all pairs."""
    nothing = torch.zeros_like(theta)[None]
    k, v = keys[None], values[None]
    return library(k, k, v, theta[None], nothing, nothing, M)[1][0]


def _after_all_but_the_last(M, keys, values, theta):
    """A theta of 0 writes nothing."""
    return after_reading(M, keys, values, torch.cat([theta[:-1], torch.zeros_like(theta[-1:])]))


def _asked(M, query, target):
    return (M @ query - target).square().sum() / 2


@LAB.task(
    "09.2",
    "Read, then be asked",
    inputs=sequence,
    returns="loss []",
    hints=(
        "The write of lab 02 for every pair, then a question. What does each write start from?",
        "M after a pair is M − theta · (M key − value) keyᵀ. The loss of the answer is ½ ‖M query "
        "− target‖², with M after the last pair.",
        "for key, value, step in zip(keys, values, theta): M = …; then the loss. Do not cut "
        "anything off: the outer loop will differentiate through every write.",
    ),
)
def outer_loss(M, keys, values, theta, query, target):
    return _asked(after_reading(M, keys, values, theta), query, target)


@outer_loss.mistake(
    "asked too early",
    "The last pair has not been written when the question comes. The memory has read them all.",
)
def _(M, keys, values, theta, query, target):
    return _asked(_after_all_but_the_last(M, keys, values, theta), query, target)


@outer_loss.mistake(
    "surprise at the first weights",
    "Every surprise is measured with the first M. By the second pair, the memory has already read "
    "one.",
)
def _(M, keys, values, theta, query, target):
    errors = values - keys @ M.T
    return _asked(M + errors.T @ (theta[:, None] * keys), query, target)


@outer_loss.mistake(
    "not a word read",
    "This is the loss of the memory as it was at the start: nothing has been read.",
)
def _(M, keys, values, theta, query, target):
    return _asked(M, query, target)


@outer_loss.mistake(
    "loss of the reading",
    "These are the losses of the pairs, which the inner loop makes small. The outer loop has a "
    "loss of its own: how wrong is the answer to the question?",
)
def _(M, keys, values, theta, query, target):
    total = 0
    for t in range(len(keys)):
        before = _after_all_but_the_last(M, keys[: t + 1], values[: t + 1], theta[: t + 1])
        total = total + _asked(before, keys[t], values[t])
    return total


@outer_loss.mistake(
    "starts with zeros", "Your memory starts with zeros. It should start with M, which is learned."
)
def _(M, keys, values, theta, query, target):
    return outer_loss(torch.zeros_like(M), keys, values, theta, query, target)


@outer_loss.mistake(
    "cut off from the start",
    "The numbers are right, but the memory that is asked is cut off from what it started with, so "
    "no gradient reaches the start.",
)
def _(M, keys, values, theta, query, target):
    return _asked(after_reading(M, keys, values, theta).detach(), query, target)


@outer_loss.mistake("factor of one half missing", "There is a factor ½ in front of the square.")
def _(M, keys, values, theta, query, target):
    return 2 * outer_loss(M, keys, values, theta, query, target)


@LAB.task(
    "09.3",
    "The gradient at the start",
    inputs=sequence,
    returns="gradient [d_value, d_key]",
    hints=(
        "Without a write the gradient would be error · queryᵀ, as in lab 02. What does one write "
        "do to the start's answer? M − theta (M key) keyᵀ = M (I − theta key keyᵀ).",
        "After two pairs: M (I − θ₁ k₁ k₁ᵀ) (I − θ₂ k₂ k₂ᵀ) query + what does not depend on M. "
        "The gradient is an outer product of the error and everything to the right of M.",
        "Start with x = query and go backwards through the pairs: x = x − θ (k · x) k, the last "
        "pair first. The gradient is torch.outer(error, x), with the error after all pairs.",
    ),
    forbids=("autograd",),
)
def start_gradient(M, keys, values, theta, query, target):
    return func.grad(outer_loss.reference)(M, keys, values, theta, query, target)


def _gradient(M, keys, values, theta, query, target, through=lambda n: n.flip(0), at=None):
    """By hand, with places where something else can be put in.

    through: from the numbers of all pairs, in order, to those that the gradient passes
    """
    after = after_reading(M, keys, values, theta) if at is None else at
    x = query
    for i in through(torch.arange(len(keys))):
        x = x - theta[i] * (keys[i] @ x) * keys[i]
    return torch.outer(after @ query - target, x)


@start_gradient.mistake(
    "not through the writes",
    "This is the gradient with respect to the memory *after* all writes. To reach the start it "
    "must go back through them: where a write has replaced what the start said, the start no "
    "longer matters.",
)
def _(*given):
    return _gradient(*given, through=lambda n: n[:0])


@start_gradient.mistake(
    "through one write only",
    "The gradient goes back through the last write, but not through those before it.",
)
def _(*given):
    return _gradient(*given, through=lambda n: n[-1:])


@start_gradient.mistake(
    "writes in the wrong order",
    "The gradient passes the writes in the order in which they were read. Backwards, the last one "
    "comes first.",
)
def _(*given):
    return _gradient(*given, through=lambda n: n)


@start_gradient.mistake(
    "error of the start",
    "The error is measured with the start M. The question comes when all pairs have been read.",
)
def _(M, *rest):
    return _gradient(M, *rest, at=M)


@start_gradient.mistake(
    "sign of the gradient",
    "Your answer has the opposite sign: which way round is the difference?",
)
def _(*given):
    return -_gradient(*given)


@start_gradient.mistake(
    "transposed outer product",
    "Rows and columns have changed places: a change of M has M's shape.",
)
def _(*given):
    return _gradient(*given).T


@start_gradient.mistake(
    "writes amplify",
    "The sign inside the write is the wrong way round: what was written takes the start's place, "
    "so x gets smaller along the key.",
)
def _(M, keys, values, theta, query, target):
    x = query
    for i in reversed(range(len(keys))):
        x = x + theta[i] * (keys[i] @ x) * keys[i]
    return torch.outer(after_reading(M, keys, values, theta) @ query - target, x)


def batch_of_sequences(draw):
    return sequence(draw, draw.size("batch")) | {"rate": draw.gate()}


@LAB.task(
    "09.4",
    "One outer step",
    inputs=batch_of_sequences,
    returns="M [d_value, d_key]",
    hints=(
        "Every row of the batch reads its own pairs, and all start with the same M. What do "
        "they have in common that can be changed?",
        "One gradient per row, from start_gradient; their mean; one step against it.",
        "torch.stack([start_gradient(M, k, v, t, q, y) for k, v, t, q, y in zip(…)]).mean(0), and "
        "then M − rate · that. What the rows have written is thrown away.",
    ),
)
def outer_step(M, keys, values, theta, queries, targets, rate):
    rows = (keys, values, theta, queries, targets)
    return M - rate * torch.stack([start_gradient(M, *row) for row in zip(*rows)]).mean(0)


@outer_step.mistake("sign of the gradient", "The step goes uphill: the loss grows.")
def _(M, keys, values, theta, queries, targets, rate):
    return outer_step(M, keys, values, theta, queries, targets, -rate)


@outer_step.mistake(
    "sum for mean",
    "The gradients of the rows are added up. Then a batch twice as large takes a step twice as "
    "long: take their mean.",
)
def _(M, keys, values, theta, queries, targets, rate):
    return outer_step(M, keys, values, theta, queries, targets, rate * len(keys))


@outer_step.mistake("rate forgotten", "The rate is not used: the whole gradient is subtracted.")
def _(M, keys, values, theta, queries, targets, rate):
    return outer_step(M, keys, values, theta, queries, targets, torch.ones_like(rate))


@outer_step.mistake(
    "what was read is kept",
    "The step starts from what the rows have written. What a row has read belongs to that row: the "
    "next batch starts from M, changed by the outer step alone.",
)
def _(M, keys, values, theta, queries, targets, rate):
    written = torch.stack([after_reading(M, *row) for row in zip(keys, values, theta)]).mean(0)
    return written + outer_step(M, keys, values, theta, queries, targets, rate) - M


@outer_step.mistake(
    "one step per row",
    "Each row takes a step of its own, and the next row starts from there. A batch is one step: "
    "all of its rows start from the same M.",
)
def _(M, keys, values, theta, queries, targets, rate):
    for row in zip(keys, values, theta, queries, targets):
        M = M - rate / len(keys) * start_gradient(M, *row)
    return M


@outer_step.mistake(
    "batch rows mixed",
    "The second row reads with the memory that the first one has written. Every row starts with M.",
)
def _(M, keys, values, theta, queries, targets, rate):
    gradients, now = [], M
    for row in zip(keys, values, theta, queries, targets):
        gradients.append(start_gradient(now, *row))
        now = after_reading(now, *row[:3])
    return M - rate * torch.stack(gradients).mean(0)


def long_text(draw):
    time, d_value, d_key = draw.tokens(), draw.size("d_value"), draw.size("d_key")
    return {
        "M": draw.normal(d_value, d_key),
        "S": draw.normal(d_value, d_key),
        "keys": draw.unit(time, d_key),
        "values": draw.normal(time, d_value),
        "theta": draw.gate(time),
        "eta": draw.gate(time),
        "alpha": draw.gate(time),
        "piece": draw.number("piece", 1, time),
    }


def _pieces(M, S, keys, values, theta, eta, alpha, piece, enter, leave=lambda x: x.detach()):
    """Piece by piece; `enter` makes of (M, S) what a piece starts with, `leave` cuts off."""
    readings = []
    for first in range(0, len(keys), piece):
        part = (x[None, first : first + piece] for x in (keys, values, theta, eta, alpha))
        k, v, *gates = part
        y, M, S = library(k, k, v, *gates, *enter(M, S))
        M, S = M[0], S[0]
        readings.append(y[0])
        M, S = leave(M), leave(S)
    return torch.cat(readings), M, S


@LAB.task(
    "09.5",
    "Carry a state, cut the gradient",
    inputs=long_text,
    returns=("y [time, d_value]", "M [d_value, d_key]", "S [d_value, d_key]"),
    corners=({"piece": 3, "time": 7}, {"piece": 4, "time": 4}, {"piece": 5, "time": 3}),
    hints=(
        "The numbers are those of reading the whole text at once. Only gradients know about "
        "pieces: what must a gradient not pass?",
        "Loop over the tokens. At the end of a piece, and at the end of the text, both parts of "
        "the state are cut off: M = M.detach(), and S likewise.",
        "After token t: (t + 1) % piece == 0 or t + 1 == len(keys). Cut off after the reading, so "
        "that the reading still knows where its memory came from in this piece.",
    ),
)
def read_in_pieces(M, S, keys, values, theta, eta, alpha, piece):
    return _pieces(M, S, keys, values, theta, eta, alpha, piece, lambda M, S: (M, S))


@read_in_pieces.mistake(
    "nothing cut off",
    "The numbers are right, but gradients go back through all pieces to the beginning of the text. "
    "For a long text that takes too much time and memory: cut the state off where a piece ends.",
)
def _(*given):
    return _pieces(*given, lambda M, S: (M, S), leave=lambda x: x)


@read_in_pieces.mistake(
    "last state not cut off",
    "The state that you return is still part of the last piece's graph, so the gradients of the "
    "next call would go back into this one. Cut the state off at the end, too.",
)
def _(*given):
    time, piece = len(given[2]), given[-1]
    ends = iter([*[True] * (2 * (math.ceil(time / piece) - 1)), False, False])
    return _pieces(
        *given, lambda M, S: (M, S), leave=lambda x: x.detach() if next(ends) else x
    )  # fmt: skip


@read_in_pieces.mistake(
    "momentum not cut off",
    "M is cut off, but S is not: gradients still go back to earlier pieces through the momentum.",
)
def _(*given):
    kinds = iter("MS" * len(given[2]))
    cut = lambda x: x.detach() if next(kinds) == "M" else x  # noqa: E731
    return _pieces(*given, lambda M, S: (M, S), leave=cut)


@read_in_pieces.mistake(
    "cut off at every token",
    "The gradient is cut off at every token. Inside a piece it must go back through the writes: "
    "that is how gates learn what a write is good for.",
)
def _(*given):
    return _pieces(*given[:-1], 1, lambda M, S: (M, S))


@read_in_pieces.mistake(
    "state dropped",
    "Every piece starts over with the first M and S. Only the gradient is cut; the state is handed "
    "on.",
)
def _(M, S, *rest):
    return _pieces(M, S, *rest, lambda *_: (M, S))


@read_in_pieces.mistake(
    "momentum not carried",
    "M is handed on, but the momentum starts at zero in every piece but the first.",
)
def _(M, S, *rest):
    first = iter([S])
    enter = lambda M, S: (M, next(first, torch.zeros_like(S)))  # noqa: E731
    return _pieces(M, S, *rest, enter)


@read_in_pieces.mistake(
    "readings cut off",
    "The readings themselves are cut off: no gradient comes back from them, and nothing is "
    "learned. Cut off the state that is handed on, after the piece has been read.",
)
def _(*given):
    y, M, S = read_in_pieces(*given)
    return y.detach(), M, S
