"""Lab 05: a deeper memory. Read it, differentiate it by hand, and write to all its layers."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import func

from minititans.course.labs.rule import factors, loss, read, rule
from minititans.course.labs.task import Lab
from minititans.memory import MemoryState

LAB = Lab("05", "A deeper memory")


def layers(draw, d_key: int, d_value: int, depth: int) -> list:
    widths = [d_key, *(draw.size("hidden") for _ in range(depth - 1)), d_value]
    return [draw.normal(d_out, d_in) for d_in, d_out in pairwise(widths)]


def weights_and_input(draw):
    d_key, d_value = draw.size("d_key"), draw.size("d_value")
    weights = layers(draw, d_key, d_value, draw.number("depth", 1, 5))
    return {"weights": weights, "x": draw.normal(d_key)}


@LAB.task(
    "05.1",
    "Read through layers",
    inputs=weights_and_input,
    returns="y [d_value]",
    hints=(
        "Follow x through the list of weights. What happens after each layer? After which layer "
        "does it not happen?",
        "A layer is W x. SiLU comes between layers: after every one except the last.",
        "Loop over weights[:-1] with F.silu, then multiply by weights[-1] alone.",
    ),
)
def read_deep(weights, x):
    return read(weights, x)


@read_deep.mistake(
    "no activation",
    "Without SiLU between them, all layers together are one matrix: depth would be useless.",
)
def _(weights, x):
    for W in weights:
        x = W @ x
    return x


@read_deep.mistake(
    "activation after the last layer",
    "The answer goes through SiLU as well. Then a memory could hardly answer with a negative "
    "number.",
)
def _(weights, x):
    for W in weights:
        x = F.silu(W @ x)
    return x


@read_deep.mistake(
    "activation on the input",
    "You apply SiLU to what goes into the first layer. It belongs between layers: x goes into the "
    "first one as it is.",
)
def _(weights, x):
    for W in weights:
        x = W @ F.silu(x)
    return x


@read_deep.mistake(
    "ReLU for SiLU", "This is ReLU: it cuts off negative numbers. SiLU lets a little through."
)
def _(weights, x):
    for W in weights[:-1]:
        x = F.relu(W @ x)
    return weights[-1] @ x


@LAB.task(
    "05.2",
    "The slope of SiLU",
    inputs=lambda draw: {"z": 3 * draw.normal(draw.size("hidden", 1, 6))},
    returns="slope [hidden]",
    corners=({"z": 30.0}, {"z": -30.0}),  # where σ is 1 or 0, nearly
    hints=(
        "silu(z) = z · σ(z) is a product of two functions of z. How is a product differentiated?",
        "σ′ = σ (1 − σ). Put it into (z σ)′ = 1 · σ + z · σ′.",
        "With σ = torch.sigmoid(z) there are two terms: σ itself, and z times the slope of σ.",
    ),
    forbids=("autograd",),
)
def silu_slope(z):
    return func.vmap(func.grad(F.silu))(z)


@silu_slope.mistake(
    "slope of the sigmoid", "This is the slope of σ alone. The z in front of it matters too."
)
def _(z):
    sigma = torch.sigmoid(z)
    return sigma * (1 - sigma)


@silu_slope.mistake(
    "half of the product rule",
    "One of the two terms of the product rule is missing: σ changes with z as well.",
)
def _(z):
    return torch.sigmoid(z)


@silu_slope.mistake(
    "half of the product rule, the other",
    "One of the two terms of the product rule is missing: the z in front changes as well.",
)
def _(z):
    sigma = torch.sigmoid(z)
    return z * sigma * (1 - sigma)


@silu_slope.mistake("ReLU for SiLU", "This is the slope of ReLU, a step from 0 to 1.")
def _(z):
    return (z > 0).to(z.dtype)


@silu_slope.mistake("SiLU itself", "This is SiLU, not its slope.")
def _(z):
    return F.silu(z)


def two_layers_and_pair(draw):
    d_key, hidden, d_value = (draw.size(name) for name in ("d_key", "hidden", "d_value"))
    return {
        "W1": draw.normal(hidden, d_key),
        "W2": draw.normal(d_value, hidden),
        "key": draw.normal(d_key),
        "value": draw.normal(d_value),
    }


@LAB.task(
    "05.3",
    "The error, propagated back",
    inputs=two_layers_and_pair,
    returns=("e1 [hidden]", "e2 [d_value]"),
    hints=(
        "e2 says how the answer should have been different. Through which numbers does the first "
        "layer reach the answer?",
        "Back through W2 (from its outputs to its inputs), then back through SiLU: multiply by its "
        "slope, number by number. Where is the slope taken?",
        "e1 = (W2ᵀ e2) ⊙ silu_slope(z) with z = W1 key.",
    ),
)
def layer_errors(W1, W2, key, value):
    _, errors = factors([W1[None], W2[None]], key[None, None], value[None, None])
    return tuple(error[0, 0] for error in errors)


@layer_errors.mistake(
    "sign of the error",
    "Both errors have the wrong sign. Here an error says which way to go: value minus answer.",
)
def _(W1, W2, key, value):
    return tuple(-e for e in layer_errors(W1, W2, key, value))


@layer_errors.mistake(
    "slope forgotten",
    "e2 is right. On the way back to the first layer there is SiLU: where it is flat, little "
    "comes through.",
)
def _(W1, W2, key, value):
    e2 = layer_errors(W1, W2, key, value)[1]
    return W2.T @ e2, e2


@layer_errors.mistake(
    "slope at the wrong place",
    "You take the slope at what comes out of SiLU. Take it at what goes in.",
)
def _(W1, W2, key, value):
    e2 = layer_errors(W1, W2, key, value)[1]
    return (W2.T @ e2) * silu_slope(F.silu(W1 @ key)), e2


@layer_errors.mistake(
    "transposed matrix",
    "Going forward, W2 maps hidden to value. Going back, value must be mapped to hidden.",
)
def _(W1, W2, key, value):
    e2 = layer_errors(W1, W2, key, value)[1]
    return (W2 @ e2) * silu_slope(W1 @ key), e2


@layer_errors.mistake(
    "answer without activation",
    "e2 is wrong already: there is a SiLU between the layers on the way to the answer.",
)
def _(W1, W2, key, value):
    e2 = value - W2 @ W1 @ key
    return (W2.T @ e2) * silu_slope(W1 @ key), e2


@LAB.task(
    "05.4",
    "The surprise of every layer",
    inputs=two_layers_and_pair,
    returns=("u1 [hidden, d_key]", "u2 [d_value, hidden]"),
    hints=(
        "In lab 02 the gradient was an outer product: the error at the output times what went in. "
        "What are the two for each of these layers?",
        "The key goes into layer 1, the output of SiLU into layer 2. The errors are those of your "
        "layer_errors, up to a sign.",
        "Two outer products, each with minus an error along the rows. Along the columns u1 has the "
        "key, and u2 what went into the second layer.",
    ),
    forbids=("autograd",),
)
def deep_surprise(W1, W2, key, value):
    return func.grad(lambda W1, W2: loss([W1, W2], key, value), argnums=(0, 1))(W1, W2)


def _by_hand(W1, W2, key, value):
    """The same without autograd, which answers to this task may not use."""
    e1, e2 = layer_errors(W1, W2, key, value)
    return -torch.outer(e1, key), -torch.outer(e2, F.silu(W1 @ key))


@deep_surprise.mistake(
    "sign of the gradient",
    "Both point the other way: error ⊗ input is minus the gradient, and u is the gradient.",
)
def _(W1, W2, key, value):
    return tuple(-u for u in _by_hand(W1, W2, key, value))


@deep_surprise.mistake(
    "input before the activation",
    "The second layer never sees W1 key. What really goes into it?",
)
def _(W1, W2, key, value):
    e2 = layer_errors(W1, W2, key, value)[1]
    return _by_hand(W1, W2, key, value)[0], -torch.outer(e2, W1 @ key)


@deep_surprise.mistake(
    "key enters every layer",
    "The key goes into the first layer only. What goes into the second?",
)
def _(W1, W2, key, value):
    e2 = layer_errors(W1, W2, key, value)[1]
    return _by_hand(W1, W2, key, value)[0], -torch.outer(e2, key)


@deep_surprise.mistake(
    "transposed outer product",
    "Rows and columns are swapped: a surprise has the shape of its layer's weights.",
)
def _(W1, W2, key, value):
    return tuple(u.T for u in _by_hand(W1, W2, key, value))


@deep_surprise.mistake(
    "slope forgotten", "SiLU's slope is missing from the first layer's surprise."
)
def _(W1, W2, key, value):
    e2 = layer_errors(W1, W2, key, value)[1]
    return -torch.outer(W2.T @ e2, key), _by_hand(W1, W2, key, value)[1]


def deep_memory_and_pair(draw):
    d_key, d_value = draw.size("d_key"), draw.size("d_value")
    weights = layers(draw, d_key, d_value, draw.number("depth", 1, 5))
    return {
        "weights": weights,
        "momentum": [draw.normal(*W.shape) for W in weights],
        "key": draw.normal(d_key),
        "value": draw.normal(d_value),
        "theta": draw.gate(),
        "eta": draw.gate(),
        "alpha": draw.gate(),
    }


@LAB.task(
    "05.5",
    "A deep memory's update",
    inputs=deep_memory_and_pair,
    returns=("weights [layer][d_out, d_in]", "momentum [layer][d_out, d_in]"),
    hints=(
        "The rule of lab 04 works for any weights. It needs a surprise for each layer; after that "
        "every layer is updated on its own.",
        "All surprises first, at the weights as they came in. torch.func.grad takes a whole list "
        "of weights at once and returns a list of gradients.",
        "u = grad(loss)(weights) with loss(weights) = ½‖read_deep(weights, key) − value‖²; then "
        "(14) and (13) in a loop over zip(weights, momentum, u).",
    ),
)
def deep_step(weights, momentum, key, value, theta, eta, alpha):
    start = [W[None, None] for W in weights]
    state = MemoryState(start, [S[None, None] for S in momentum], chunk_start=start)
    gates = (gate.reshape(1, 1, 1) for gate in (theta, eta, alpha))
    _, state = rule(*(x[None, None, None] for x in (key, key, value)), *gates, state)
    return [W[0, 0] for W in state.weights], [S[0, 0] for S in state.momentum]


def _surprises(weights, key, value):
    return func.grad(lambda weights: loss(weights, key, value))(list(weights))


@deep_step.mistake(
    "one layer after another",
    "By the time the second surprise is measured, the first layer has already changed. All "
    "surprises belong to the same moment.",
)
def _(weights, momentum, key, value, theta, eta, alpha):
    weights, momentum = list(weights), list(momentum)
    for layer in range(len(weights)):
        u = _surprises(weights, key, value)[layer]
        momentum[layer] = eta * momentum[layer] - theta * u
        weights[layer] = (1 - alpha) * weights[layer] + momentum[layer]
    return weights, momentum


@deep_step.mistake(
    "only the last layer", "Only the last layer learns. The others hold the memory too."
)
def _(weights, momentum, key, value, theta, eta, alpha):
    W, S = deep_step(weights, momentum, key, value, theta, eta, alpha)
    return [*weights[:-1], W[-1]], [*momentum[:-1], S[-1]]


@deep_step.mistake(
    "alpha for 1 − alpha", "You keep the share alpha of every layer. It is the share to forget."
)
def _(weights, momentum, key, value, theta, eta, alpha):
    return deep_step(weights, momentum, key, value, theta, eta, 1 - alpha)


@deep_step.mistake(
    "sign of the gradient", "The gradient comes in with a plus: this memory learns to be wrong."
)
def _(weights, momentum, key, value, theta, eta, alpha):
    return deep_step(weights, momentum, key, value, -theta, eta, alpha)


@deep_step.mistake(
    "decay after the write",
    "What was just written is forgotten too: the decay comes after the write.",
)
def _(weights, momentum, key, value, theta, eta, alpha):
    _, S = deep_step(weights, momentum, key, value, theta, eta, alpha)
    return [(1 - alpha) * (W + new) for W, new in zip(weights, S)], S


@deep_step.mistake("old momentum written", "You add the momentum of the token before.")
def _(weights, momentum, key, value, theta, eta, alpha):
    _, S = deep_step(weights, momentum, key, value, theta, eta, alpha)
    return [(1 - alpha) * W + old for W, old in zip(weights, momentum)], S
