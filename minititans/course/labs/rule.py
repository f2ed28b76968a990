"""The library's rule in the plain form that labs 01 to 06 teach, in the shapes of the labs.

Every reference that calls the library goes through `rule`, `read`, `loss` or `factors`: where the
library offers other forms of the rule, the plain one is chosen here and nowhere else.
"""

import torch
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked, network


def rule(queries, keys, values, theta, eta, alpha, state, chunk_size=1):
    """The one call of the library's rule, (13) to (16), in the library's own shapes."""
    gates = Gates(theta, eta, alpha)
    return chunked(queries, keys, values, gates, state, chunk_size, exact=False, residual=False)


def read(weights, x):
    return network.read(weights, x, residual=False)


def loss(weights, key, value):
    return network.loss(weights, key, value, residual=False)


def factors(weights, keys, values):
    """Surprises as outer products: inputs and errors of each layer, `[rows, time, dim]`."""
    way = network.path(weights, keys, residual=False)
    error = values - way.inputs[-1] @ weights[-1].mT
    return way.inputs, [*network.errors_below(weights, way, error @ weights[-1]), error]


def library(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    theta: Tensor,
    eta: Tensor,
    alpha: Tensor,
    M: Tensor,
    S: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Every surprise at the weights just before it, as equations (13) to (15) say.

    queries, keys, values: `[batch, time, dim]`; gates: `[batch, time]`; M and S `[d_value, d_key]`,
    with which every row begins. Returns all readings, and M and S of every row at the end.
    """
    state = MemoryState.start([M[None]], len(keys))
    if S is not None:
        state = MemoryState(state.weights, [S.expand_as(state.weights[0])], state.weights)
    tokens = (x[:, None] for x in (queries, keys, values, theta, eta, alpha))  # one head
    y, state = rule(*tokens, state)
    return y[:, 0], state.weights[0][:, 0], state.momentum[0][:, 0]


def one_token(M, S, key, value, theta, eta, alpha) -> tuple[Tensor, Tensor]:
    """M and S after a single pair; the gates are numbers."""
    pair = (x[None, None] for x in (key, key, value))
    gates = (x.reshape(1, 1) for x in (theta, eta, alpha))
    _, M, S = library(*pair, *gates, M, S)
    return M[0], S[0]


def walk(
    M: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    theta: Tensor,
    eta: Tensor,
    alpha: Tensor,
    read_first: bool = False,
    frozen: bool = False,
    new_momentum: bool = False,
    decay_after: bool = False,
    rows_mixed: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by a plain loop, with a switch for each thing that can go wrong.

    read_first:   read before the write
    frozen:       every surprise measured at the first weights
    new_momentum: S begins at zero with every token
    decay_after:  what was just written is forgotten too
    rows_mixed:   a row begins with what the row before it has learned
    """
    start, readings, ends = M, [], []
    for row in range(len(keys)):
        if not rows_mixed:
            M = start
        if row == 0 or not rows_mixed:
            S = torch.zeros_like(start)
        of_row = []
        for t in range(keys.shape[1]):
            key, value = keys[row, t], values[row, t]
            u = torch.outer((start if frozen else M) @ key - value, key)
            S = (0 if new_momentum else eta[row, t] * S) - theta[row, t] * u
            before, kept = M, 1 - alpha[row, t]
            M = kept * (M + S) if decay_after else kept * M + S
            of_row.append((before if read_first else M) @ queries[row, t])
        readings.append(torch.stack(of_row))
        ends.append((M, S))
    return torch.stack(readings), *(torch.stack(end) for end in zip(*ends))
