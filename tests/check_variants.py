"""Unusual right answers and sly wrong ones, by task: what a check must accept, what it must not.

The right ones take other ways through the arithmetic, so that they round differently. The wrong
ones are right almost everywhere: they go wrong in a corner.
"""

import math

import torch
import torch.nn.functional as F
from torch import einsum, stack

from minititans.course.labs import find_task


def hebbian_by_place(M, key, value):
    M = M.clone()
    for i in range(len(value)):
        for j in range(len(key)):
            M[i, j] = M[i, j] + value[i] * key[j]
    return M


def interference_in_place(keys, values):
    noise = torch.zeros_like(values)
    for i in range(len(keys)):
        for j in range(len(keys)):
            if i != j:
                noise[i] = noise[i] + (keys[i] @ keys[j]) * values[j]
    return noise


def by_marked_weights(W, key, value):
    W = W if W.requires_grad else W.clone().requires_grad_()
    loss = 0.5 * (W @ key - value).pow(2).sum()
    return torch.autograd.grad(loss, W, create_graph=True)[0]


def whole_rule(W, queries, keys, values, theta, eta, alpha):
    """Every row of the batch at once; the surprise in another order."""
    W, S, y = W.expand(len(keys), -1, -1), torch.zeros(len(keys), *W.shape, dtype=W.dtype), []
    for t in range(keys.shape[1]):
        k, v = keys[:, t], values[:, t]
        u = einsum("bvk,bk,bj->bvj", W, k, k) - einsum("bv,bk->bvk", v, k)
        S = eta[:, t, None, None] * S - theta[:, t, None, None] * u
        W = W - alpha[:, t, None, None] * W + S
        y.append(einsum("bvk,bk->bv", W, queries[:, t]))
    return stack(y, 1), W, S


def zeros(theta):
    return torch.zeros_like(theta)


def momentum_by_powers(shocks, eta):
    n = shocks.shape[1]
    return stack(
        [sum(eta[:, i + 1 : t + 1].prod(1) * shocks[:, i] for i in range(t + 1)) for t in range(n)],
        1,
    )


def horner(theta, eta, tokens):
    total = torch.zeros_like(theta)
    for _ in range(tokens):
        total = eta * total + theta
    return total


def left_from_the_end(alpha):
    left, found = torch.ones_like(alpha[:, 0]), []
    for t in reversed(range(alpha.shape[1])):
        found.insert(0, left)
        left = left * (1 - alpha[:, t])
    return stack(found, 1)


def deltas_with_tanh(W1, W2, key, value):
    z = W1 @ key
    sigma = 0.5 * (1 + torch.tanh(z / 2))
    delta2 = value - W2 @ (z * sigma)
    return (delta2 @ W2) * sigma * (1 + z * (1 - sigma)), delta2


def deep_by_hand(weights, momentum, key, value, theta, eta, alpha):
    inputs, zs = [key], []
    for W in weights[:-1]:
        zs.append(W @ inputs[-1])
        inputs.append(F.silu(zs[-1]))
    delta, us = weights[-1] @ inputs[-1] - value, []
    for n in reversed(range(len(weights))):
        us.insert(0, torch.outer(delta, inputs[n]))
        if n:
            s = torch.sigmoid(zs[n - 1])
            delta = (weights[n].T @ delta) * (s + zs[n - 1] * s * (1 - s))
    S = [eta * old - theta * u for old, u in zip(momentum, us)]
    return [W - alpha * W + new for W, new in zip(weights, S)], S


def products_by_cumprod(gate):
    n = len(gate)
    below = torch.ones(n, n).tril(-1).bool()
    return torch.where(below, gate[:, None], torch.ones(n, n, dtype=gate.dtype)).cumprod(0).tril()


def products_one_by_one(gate):
    n = len(gate)
    rows = [
        stack([gate[i + 1 : t + 1].prod() if i <= t else 0 * gate[0] for i in range(n)])
        for t in range(n)
    ]
    return stack(rows)


def matrices_by_sums(theta, eta, alpha):
    H, D = products_by_cumprod(eta) @ torch.diag(theta), products_one_by_one(1 - alpha)
    return H, D, einsum("ts,si->ti", D, H)


def carried_by_loop(eta, alpha):
    m, f, beta, found = torch.ones_like(eta[0]), torch.zeros_like(eta[0]), 1 + 0 * eta[0], []
    for e, a in zip(eta, alpha):
        m, beta = e * m, beta - a * beta
        f = f - a * f + m
        found.append(stack([m, f, beta]))
    return tuple(stack(found).unbind(1))


def read_by_weights(W, S, W_start, queries, keys, values, theta, eta, alpha):
    G = matrices_by_sums(theta, eta, alpha)[2]
    _, f, beta = carried_by_loop(eta, alpha)
    writes = einsum("ti,iv,ik->tvk", G, values - keys @ W_start.T, keys)
    return einsum("tvk,tk->tv", beta[:, None, None] * W + f[:, None, None] * S + writes, queries)


def token_by_token(state, queries, keys, values, theta, eta, alpha, chunk_size):
    (W, S, W_start, position), y = state, []
    for q, k, v, th, e, a in zip(queries, keys, values, theta, eta, alpha):
        S = e * S - th * torch.outer(W_start @ k - v, k)
        W = (1 - a) * W + S
        y.append(W @ q)
        position += 1
        if position == chunk_size:
            W_start, position = W, 0
    return stack(y), (W, S, W_start, position)


def write_by_loop(W, S, W_start, keys, values, theta, eta, alpha):
    state = (W, S, W_start, 0)
    return token_by_token(state, keys, keys, values, theta, eta, alpha, len(keys) + 1)[1][:2]


def step(W, S, key, value, theta, eta, alpha):
    new = eta * S + theta * torch.outer(value - W @ key, key)
    return torch.lerp(W, torch.zeros_like(W), alpha) + new, new


RIGHT = {
    "01.1": [hebbian_by_place, lambda M, k, v: torch.addr(M, v, k)],
    "01.2": [lambda M, q: (M * q).sum(-1), lambda M, q: stack([row @ q for row in M])],
    "01.3": [
        lambda k, v: einsum("tk,tv->vk", k, v),
        lambda k, v: (v[:, :, None] * k[:, None]).sum(0),
    ],
    "01.4": [
        lambda q, k, v: einsum(
            "btk,bsk,bsv,ts->btv", q, k, v, torch.ones(k.shape[1], k.shape[1], dtype=k.dtype).tril()
        )
    ],
    "01.5": [
        interference_in_place,
        lambda k, v: ((k @ k.T) * (1 - torch.eye(len(k), dtype=k.dtype))) @ v,
        lambda k, v: k @ (v.T @ k).T - (k * k).sum(1)[:, None] * v,
        lambda k, v: (k @ k.T).fill_diagonal_(0) @ v,
    ],
    "02.1": [
        lambda W, k, v: (W @ k - v) @ (W @ k - v) / 2,
        lambda W, k, v: torch.linalg.norm(v - W @ k) ** 2 * 0.5,
        lambda W, k, v: F.mse_loss(W @ k, v, reduction="sum") / 2,
    ],
    "02.2": [
        by_marked_weights,
        lambda W, k, v: torch.func.jacrev(lambda W: ((W @ k - v) ** 2).sum() / 2)(W),
    ],
    "02.3": [
        lambda W, k, v: (W @ k - v)[:, None] * k,
        lambda W, k, v: W @ torch.outer(k, k) - torch.outer(v, k),
    ],
    "02.4": [
        lambda W, k, v, th: (
            W @ (torch.eye(len(k), dtype=W.dtype) - th * torch.outer(k, k)) + th * torch.outer(v, k)
        )
    ],
    "02.5": [
        lambda k: (k @ k).reciprocal(),
        lambda k: k.norm() ** -2,
        lambda k: torch.exp(-torch.log((k * k).sum())),
    ],
    "02.6": [lambda W, q, k, v, th: whole_rule(W, q, k, v, th, zeros(th), zeros(th))[0]],
    "03.1": [
        lambda S, u, th, e: torch.lerp(torch.zeros_like(S), S, e) - th * u,
        lambda S, u, th, e: -(th * u - S * e),
    ],
    "03.2": [lambda W, S, k, v, th, e: step(W, S, k, v, th, e, torch.zeros_like(e))],
    "03.3": [momentum_by_powers],
    "03.4": [
        horner,
        lambda th, e, n: sum(th * e**i for i in range(n)),
        lambda th, e, n: th * e.expand(n).cumprod(0)[: n - 1].sum() + th,
    ],
    "03.5": [lambda W, q, k, v, th, e: whole_rule(W, q, k, v, th, e, zeros(th))[0]],
    "04.1": [
        lambda W, S, a: W - a * W + S,
        lambda W, S, a: torch.lerp(W, torch.zeros_like(W), a) + S,
    ],
    "04.2": [step],
    "04.3": [
        left_from_the_end,
        lambda a: F.pad(1 - a[:, 1:], (0, 1), value=1.0).flip(1).cumprod(1).flip(1),
    ],
    "04.4": [
        lambda n: 1 - 2 ** (-1 / n),
        lambda n: -torch.expm1(-math.log(2) / n),
        lambda n: 1 - torch.exp(math.log(0.5) / n),
    ],
    "04.5": [whole_rule],
    "05.1": [
        lambda Ws, x: Ws[0] @ x if len(Ws) == 1 else find_task("05.1")(Ws[1:], F.silu(Ws[0] @ x))
    ],
    "05.2": [
        lambda z: torch.sigmoid(z) * (1 + z * torch.sigmoid(-z)),
        lambda z: (1 + torch.exp(-z) + z * torch.exp(-z)) / (1 + torch.exp(-z)) ** 2,
    ],
    "05.3": [deltas_with_tanh],
    "05.4": [
        lambda W1, W2, k, v: (lambda d: (-d[0][:, None] * k, -d[1][:, None] * F.silu(W1 @ k)))(
            deltas_with_tanh(W1, W2, k, v)
        )
    ],
    "05.5": [deep_by_hand],
    "06.1": [products_by_cumprod, products_one_by_one],
    "06.2": [matrices_by_sums],
    "06.3": [carried_by_loop],
    "06.4": [read_by_weights],
    "06.5": [write_by_loop],
    "06.6": [token_by_token],
}


def closes_the_open_chunk(state, *sequences_and_size):
    """The first piece always fills the chunk that was open."""
    *sequences, chunk_size = sequences_and_size
    position = state[3]
    y, (W, S, W_start, end) = token_by_token(state, *sequences_and_size)
    inside = position > 0 and position + len(sequences[0]) < chunk_size
    return y, (W, S, W if inside else W_start, 0 if inside else end)


def position_is_the_length(state, *sequences_and_size):
    y, (W, S, W_start, end) = token_by_token(state, *sequences_and_size)
    inside = state[3] + len(sequences_and_size[0]) < sequences_and_size[-1]
    return y, (W, S, W_start, len(sequences_and_size[0]) if inside else end)


def momentum_zeroed_inside(state, *sequences_and_size):
    y, (W, S, W_start, end) = token_by_token(state, *sequences_and_size)
    inside = state[3] > 0 and state[3] + len(sequences_and_size[0]) < sequences_and_size[-1]
    return y, (W, 0 * S if inside else S, W_start, end)


def ratio(product, least):
    return (product[:, None] / product[None, :].clamp(min=least)).tril()


def left_by_ratio(alpha, least):
    beta = (1 - alpha).cumprod(1)
    return beta[:, -1:] / beta.clamp(min=least)


WRONG = {
    "01.1": [lambda M, k, v: M + torch.outer(v, F.normalize(k, dim=0) * k.norm() + 1e-7)],
    "01.2": [lambda M, q: (M @ q).squeeze()],
    "01.4": [lambda q, k, v: ((q @ k.mT).tril() @ v).squeeze(0)],
    "02.5": [lambda k: 1 / (k @ k + 1e-6), lambda k: 1 / (k @ k).clamp(min=1)],
    "03.3": [lambda s, e: (s / e.cumprod(1).clamp(min=1e-12)).cumsum(1) * e.cumprod(1)],
    "03.4": [
        lambda th, e, n: th * n if e == 1 else th * (1 - e**n) / (1 - e),
        lambda th, e, n: (lambda e: th * (1 - e**n) / (1 - e))(e.clamp(max=1 - 1e-6)),
        lambda th, e, n: (lambda e: th * (1 - e**n) / (1 - e))(e.clamp(max=1 - 1e-9)),
        lambda th, e, n: th * (1 - e**n) / (1 - e + 1e-12),
    ],
    "04.3": [
        lambda a: left_by_ratio(a, 1e-6),
        lambda a: left_by_ratio(a, 1e-12),
        lambda a: left_by_ratio(a, 1e-30),
    ],
    "04.4": [lambda n: 1 - 2 ** (-1 / n.clamp(min=1.01)), lambda n: 1 - torch.exp(-0.6931 / n)],
    "05.1": [
        lambda Ws, x: (
            Ws[-1] @ F.silu(Ws[0] @ x) if len(Ws) == 2 else find_task("05.1")(Ws, x) * (len(Ws) > 1)
        )
    ],
    "06.1": [
        lambda g: ratio(g.cumprod(0), 1e-6),
        lambda g: ratio(g.cumprod(0), 1e-12),
        lambda g: ratio(g.clamp(min=1e-6).cumprod(0), 0.0),
        lambda g: ratio(g.clamp(min=1e-12).cumprod(0), 0.0),
        lambda g: (lambda L: torch.exp(L[:, None] - L[None, :]).tril())(
            torch.log(g + 1e-12).cumsum(0)
        ),
    ],
    "06.6": [closes_the_open_chunk, position_is_the_length, momentum_zeroed_inside],
}
