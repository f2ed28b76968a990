"""Lab 02: surprise is a gradient. The loss, its gradient twice, the delta rule."""

import torch
import torch.nn.functional as F
from torch import func

from minititans.course.labs.inputs import pair, sequences
from minititans.course.labs.rule import factors, library, loss, walk
from minititans.course.labs.task import Lab

LAB = Lab("02", "Surprise is a gradient")


@LAB.task(
    "02.1",
    "The loss",
    inputs=pair,
    returns="loss []",
    hints=(
        "How wrong is the answer M key, if value is right? First the error, then its size.",
        "‖x‖² is the sum of the squares of x's numbers. And there is a factor in front.",
        "Square the error, .sum() it, halve it. The result is a tensor without axes.",
    ),
)
def associative_loss(M, key, value):
    return loss([M], key, value)


@associative_loss.mistake(
    "factor of one half missing",
    "There is a factor ½ in front of the square. It is there for the sake of the next task.",
)
def _(M, key, value):
    return (M @ key - value).square().sum()


@associative_loss.mistake(
    "mean for sum",
    "You average the squared errors. ‖·‖² is their sum: a longer value may be more wrong.",
)
def _(M, key, value):
    return (M @ key - value).square().mean() / 2


@associative_loss.mistake(
    "mean squared error", "This is the mean squared error. The loss (12) is a sum, with ½ here."
)
def _(M, key, value):
    return (M @ key - value).square().mean()


@associative_loss.mistake(
    "length not squared", "This uses the length of the error. The loss uses its square."
)
def _(M, key, value):
    return (M @ key - value).square().sum().sqrt() / 2


@associative_loss.mistake(
    "square of the sum",
    "You add the errors first and square the sum: errors of opposite sign cancel each other.",
)
def _(M, key, value):
    return (M @ key - value).sum().square() / 2


@LAB.task(
    "02.2",
    "Surprise by autograd",
    inputs=pair,
    returns="u [d_value, d_key]",
    hints=(
        "PyTorch can differentiate your loss. With respect to which of its arguments?",
        "torch.func.grad(associative_loss) is a function: it takes what the loss takes and returns "
        "the gradient with respect to the first argument.",
        "With torch.autograd.grad instead, pass create_graph=True: the answer must stay "
        "differentiable, because training will differentiate through it.",
    ),
)
def surprise_by_autograd(M, key, value):
    return func.grad(lambda M: loss([M], key, value))(M)


@surprise_by_autograd.mistake(
    "cut off from the graph",
    "Training will differentiate this surprise once more, so the graph must be kept.",
)
def _(M, key, value):
    return surprise_by_autograd(M, key, value).detach()


@surprise_by_autograd.mistake(
    "gradient with respect to the key",
    "This is the gradient with respect to the key. The memory can change its weights, not what it "
    "is asked.",
)
def _(M, key, value):
    return func.grad(lambda key: loss([M], key, value))(key)


@surprise_by_autograd.mistake(
    "sign of the gradient",
    "This is the direction in which the loss falls. The surprise u is the gradient itself; the "
    "minus comes later, in the write.",
)
def _(M, key, value):
    return -surprise_by_autograd(M, key, value)


@surprise_by_autograd.mistake(
    "factor of two",
    "Everything is twice as large as it should be: did you differentiate the loss with the ½?",
)
def _(M, key, value):
    return 2 * surprise_by_autograd(M, key, value)


@LAB.task(
    "02.3",
    "Surprise by hand",
    inputs=pair,
    returns="u [d_value, d_key]",
    hints=(
        "How does the loss change when the single entry M[i, j] grows a little? Only one number "
        "of the answer depends on it.",
        "∂loss/∂M[i, j] = error[i] · key[j], with error = M key − value. Which product is that for "
        "all i and j?",
        "It is an outer product with the error along the rows and the key along the columns.",
    ),
    forbids=("autograd",),
)
def surprise(M, key, value):
    (a,), (error,) = factors([M[None]], key[None, None], value[None, None])
    return -torch.outer(error[0, 0], a[0, 0])


@surprise.mistake(
    "sign of the gradient",
    "Your answer points exactly the other way. A gradient points uphill, towards a larger error: "
    "which is subtracted from which, answer and value?",
)
def _(M, key, value):
    return -surprise(M, key, value)


@surprise.mistake(
    "transposed outer product",
    "Rows and columns are swapped. A change of M has the shape of M: the error belongs to what "
    "comes out of M, the key to what goes in.",
)
def _(M, key, value):
    return surprise(M, key, value).T


@surprise.mistake(
    "factor of two",
    "Everything is twice as large as it should be: what does the ½ in the loss do to the 2?",
)
def _(M, key, value):
    return 2 * surprise(M, key, value)


@surprise.mistake(
    "value for error",
    "This contains the value whatever the memory answers: that is Hebb's rule. Only what the "
    "memory got wrong is surprising.",
)
def _(M, key, value):
    return torch.outer(value, key)


@surprise.mistake(
    "value for error, with a minus",
    "This contains the value, with a minus, where the error should be: that is Hebb's rule.",
)
def _(M, key, value):
    return -torch.outer(value, key)


@surprise.mistake(
    "key missing", "This is the error alone. Which entries of M are to blame? The key knows."
)
def _(M, key, value):
    return M @ key - value


def pair_and_theta(draw):
    return pair(draw) | {"theta": draw.gate()}


@LAB.task(
    "02.4",
    "The delta rule",
    inputs=pair_and_theta,
    returns="M [d_value, d_key]",
    hints=(
        "You have the direction in which the error grows. Where should M go, and how far?",
        "It is one step of gradient descent, (8): theta is the length of the step.",
        "Subtract theta times your surprise from M.",
    ),
)
def delta_write(M, key, value, theta):
    one = theta.reshape(1, 1)
    nothing = torch.zeros_like(one)
    args = (key[None, None], key[None, None], value[None, None], one, nothing, nothing)
    return library(*args, M)[1][0]


@delta_write.mistake(
    "sign of the gradient", "The step goes uphill: after it the memory is more wrong than before."
)
def _(M, key, value, theta):
    return M + theta * surprise(M, key, value)


@delta_write.mistake("theta forgotten", "theta is not used: every step has full length.")
def _(M, key, value, theta):
    return M - surprise(M, key, value)


@delta_write.mistake(
    "old value not removed",
    "The new value is added, but the old answer stays: this is Hebb's rule with a step size. What "
    "the memory answers so far must be removed.",
)
def _(M, key, value, theta):
    return M + theta * torch.outer(value, key)


@delta_write.mistake(
    "theta on one half only",
    "theta acts on the new value only; the old one is removed in full. A small theta should do "
    "little of both.",
)
def _(M, key, value, theta):
    return M - torch.outer(M @ key, key) + theta * torch.outer(value, key)


@LAB.task(
    "02.5",
    "The exact step",
    inputs=lambda draw: {"key": draw.normal(draw.size("d_key"))},
    never_zero=("key",),
    returns="theta []",
    hints=(
        "After the write the memory should answer the key with exactly the value. Write down that "
        "equation with theta in it.",
        "(M − theta · error · keyᵀ) key = value. Multiply out: keyᵀ key is a number.",
        "error · (1 − theta ‖key‖²) = 0 must hold for every error.",
    ),
)
def exact_step(key):
    return 1 / key.square().sum()


@exact_step.mistake(
    "length not squared", "Nearly: you divide by the key's length. But the key appears twice."
)
def _(key):
    return 1 / key.norm()


@exact_step.mistake(
    "step upside down",
    "This is upside down: a long key needs a small step, a short one a large one.",
)
def _(key):
    return key.square().sum()


@exact_step.mistake(
    "twice too far",
    "With this step the error is as large afterwards as before, on the other side: it is the edge "
    "beyond which the memory diverges.",
)
def _(key):
    return 2 / key.square().sum()


@exact_step.mistake("keys taken to have length one", "That is right for keys of length 1 only.")
def _(key):
    return key.square().sum() ** 0


@exact_step.mistake(
    "implicit step",
    "This is a careful step (Longhorn's) that never quite arrives. Here the answer should be exact "
    "after one write.",
)
def _(key):
    return 1 / (1 + key.square().sum())


@LAB.task(
    "02.6",
    "A memory over a sequence",
    inputs=sequences("theta"),
    returns="y [batch, time, d_value]",
    hints=(
        "Every row of the batch has a memory of its own, and all start with the same M. What "
        "must be carried from token to token?",
        "Two loops are fine: rows, then tokens. In the inner one: write the pair, then read with "
        "the query, then keep the answer.",
        "delta_write gives the next M of this row. torch.stack puts the readings together, first "
        "along time, then along batch.",
    ),
)
def delta_memory(M, queries, keys, values, theta):
    nothing = torch.zeros_like(theta)
    return library(queries, keys, values, theta, nothing, nothing, M)[0]


def _walk(M, queries, keys, values, theta, **switches):
    nothing = torch.zeros_like(theta)
    return walk(M, queries, keys, values, theta, nothing, nothing, **switches)[0]


@delta_memory.mistake(
    "read before write",
    "Every answer is one token behind: you read before you write. y_t comes from M_t.",
)
def _(M, queries, keys, values, theta):
    return _walk(M, queries, keys, values, theta, read_first=True)


@delta_memory.mistake(
    "surprise at the first weights",
    "Every surprise is measured at the M from the very beginning. By the second token the memory "
    "knows more than that.",
)
def _(M, queries, keys, values, theta):
    return _walk(M, queries, keys, values, theta, frozen=True)


@delta_memory.mistake(
    "nothing carried",
    "Every token starts again from the first M: nothing is carried from token to token.",
)
def _(M, queries, keys, values, theta):
    readings = [
        _walk(M, *(x[:, t : t + 1] for x in (queries, keys, values, theta)))
        for t in range(keys.shape[1])
    ]
    return torch.cat(readings, 1)


@delta_memory.mistake(
    "batch rows mixed",
    "The second row of the batch starts with what the first one has learned. Every row should "
    "start with M.",
)
def _(M, queries, keys, values, theta):
    return _walk(M, queries, keys, values, theta, rows_mixed=True)


@delta_memory.mistake(
    "one memory for the batch",
    "All rows of the batch write into one memory and read from it. Each needs its own.",
)
def _(M, queries, keys, values, theta):
    readings = []
    for t in range(keys.shape[1]):
        errors = F.linear(keys[:, t], M) - values[:, t]  # [batch, d_value]
        M = M - torch.einsum("b,bv,bk->vk", theta[:, t], errors, keys[:, t])
        readings.append(F.linear(queries[:, t], M))
    return torch.stack(readings, 1)
