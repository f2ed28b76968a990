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


def errors_with_tanh(W1, W2, key, value):
    z = W1 @ key
    sigma = 0.5 * (1 + torch.tanh(z / 2))
    e2 = value - W2 @ (z * sigma)
    return (e2 @ W2) * sigma * (1 + z * (1 - sigma)), e2


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


def errors_token_by_token(W, S, keys, values, theta, eta, alpha):
    """No system at all: the loop that it replaces."""
    E = []
    for k, v, th, e, a in zip(keys, values, theta, eta, alpha):
        E.append(v - W @ k)
        S = e * S + th * torch.outer(E[-1], k)
        W = W - a * W + S
    return stack(E)


def system_of_errors(W, S, keys, values, theta, eta, alpha):
    """I + G⁻ ⊙ (K Kᵀ), and the right-hand side, with the shift by a matrix."""
    down = torch.diag(torch.ones(len(keys) - 1, dtype=keys.dtype), -1)
    _, f, beta = carried_by_loop(eta, alpha)
    f, beta = down @ f, down @ beta + (torch.arange(len(keys)) == 0)
    left = (down @ matrices_by_sums(theta, eta, alpha)[2]) * einsum("tk,ik->ti", keys, keys)
    right = values - einsum("t,tk,vk->tv", beta, keys, W) - einsum("t,tk,vk->tv", f, keys, S)
    return torch.eye(len(keys), dtype=keys.dtype) + left, right


def errors_row_by_row(*inputs):
    left, right = system_of_errors(*inputs)
    E = []
    for t in range(len(right)):
        E.append(right[t] - sum(left[t, i] * E[i] for i in range(t)))
    return stack(E)


def errors_by_a_triangle(*inputs):
    return torch.linalg.solve_triangular(*system_of_errors(*inputs), upper=False)


def errors_by_a_unit_triangle(*inputs):
    left, right = system_of_errors(*inputs)
    return torch.linalg.solve_triangular(left, right, upper=False, unitriangular=True)


def errors_by_doubling(*inputs):
    """(I + L)⁻¹ = (I − L)(I + L²)(I + L⁴) ⋯, as L to the power of the tokens is zero."""
    left, E = system_of_errors(*inputs)
    L = left - torch.eye(len(left), dtype=left.dtype)
    E, power, reach = E - L @ E, L @ L, 2
    while reach < len(left):
        E, power, reach = E + power @ E, power @ power, 2 * reach
    return E


def write_by_loop(W, S, W_start, keys, values, theta, eta, alpha):
    state = (W, S, W_start, 0)
    return token_by_token(state, keys, keys, values, theta, eta, alpha, len(keys) + 1)[1][:2]


def step(W, S, key, value, theta, eta, alpha):
    new = eta * S + theta * torch.outer(value - W @ key, key)
    return torch.lerp(W, torch.zeros_like(W), alpha) + new, new


def causal_by_rows(scores):
    """One softmax per row, over what it sees; the rest is filled up with zeros."""
    rows = [
        F.pad(row[: i + 1].softmax(0), (0, len(scores) - i - 1)) for i, row in enumerate(scores)
    ]
    return stack(rows)


def causal_by_exp(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp().tril()
    return e / e.sum(-1, keepdim=True)


def window_by_rows(scores, window, prefix):
    rows = []
    for i, row in enumerate(scores):
        seen = [*range(prefix), *range(prefix + max(0, i - window + 1), prefix + i + 1)]
        weights = row[seen].softmax(0)
        rows.append(torch.zeros_like(row).index_put((torch.tensor(seen),), weights))
    return stack(rows)


def rotate_as_complex(a, b, first):
    speed = torch.exp(-math.log(10_000) * torch.arange(a.shape[1], dtype=a.dtype) / a.shape[1])
    angle = torch.outer(torch.arange(first, first + len(a), dtype=a.dtype), speed)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    return turned.real, turned.imag


def rotate_by_matrices(a, b, first):
    new = []
    for t in range(len(a)):
        for j in range(a.shape[1]):
            angle = torch.tensor((first + t) * 10_000.0 ** (-j / a.shape[1]), dtype=a.dtype)
            turn = torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])
            new.append(turn.to(a.dtype) @ stack([a[t, j], b[t, j]]))
    return tuple(each.reshape(a.shape) for each in stack(new).unbind(1))


def unit_rows(x):
    return x * (x * x).sum(-1, keepdim=True).add(1e-6).rsqrt()


def delta_rule(W, x, theta):
    """Written with the keys on the other side: W (I − theta k kᵀ) + theta x kᵀ."""
    answers = []
    for token, key in zip(x, unit_rows(x)):
        W = W - theta * torch.outer(W @ key, key) + theta * torch.outer(token, key)
        answers.append(W @ key)
    return stack(answers), W


def one_by_one(x, context, sees):
    """Attention token by token, over what it sees and nothing else."""
    rows = []
    for i, token in enumerate(x):
        seen = context[sees(i)]
        weights = torch.exp(seen @ token / math.sqrt(len(token)))
        rows.append((weights / weights.sum()) @ seen)
    return stack(rows)


def mal_one_by_one(W, p, x, theta, window):
    y, _ = delta_rule(W, torch.cat([p, x]), theta)
    o = one_by_one(y, y, lambda i: list(range(max(0, i - window + 1), i + 1)))
    return o[len(p) :]


def gate_by_tanh(y, m, weight_y, weight_m):
    y, m = (
        x * (x * x).mean(-1, keepdim=True).add(least).rsqrt() for x, least in ((y, 1e-6), (m, 1.0))
    )
    return (1 + torch.tanh(weight_y * y / 2)) * m * weight_m


def mag_one_by_one(W, p, x, theta, window, weight_y, weight_m):
    first = len(p)
    _, W = delta_rule(W, p, theta)  # p alone, and then x
    m, _ = delta_rule(W, x, theta)
    own = lambda i: range(first + max(0, i - window + 1), first + i + 1)  # noqa: E731
    y = one_by_one(x, torch.cat([p, x]), lambda i: [*range(first), *own(i)])
    return gate_by_tanh(y, m, weight_y, weight_m)


def mac_token_by_token(W, p, S, theta, weight_y, weight_m):
    before, outputs = W, []
    for i in range(len(S)):
        so_far = S[: i + 1]
        context = torch.cat([so_far, unit_rows(so_far) @ before.T, p])  # in another order
        y = S[i : i + 1] + one_by_one(S[i : i + 1], context, lambda _: slice(None))
        m, W = delta_rule(W, y, theta)
        outputs.append(gate_by_tanh(y, m, weight_y, weight_m))
    return torch.cat(outputs), W


def mac_by_segments(W, p, x, theta, segment, weight_y, weight_m):
    outputs = []
    while len(x):
        o, W = mac_token_by_token(W, p, x[:segment], theta, weight_y, weight_m)
        outputs.append(o)
        x = x[segment:]
    return torch.cat(outputs)


def asked_by_answers(W, keys, values, theta, query, target):
    """Without a matrix but the first: what the memory says to the keys to come and to the query."""
    asked = torch.cat([keys, query[None]])
    answers = asked @ W.T
    for t in range(len(keys)):
        error = values[t] - answers[t]
        answers = answers + theta[t] * torch.outer(asked @ keys[t], error)
    return ((answers[-1] - target) ** 2).sum() * 0.5


def gradient_by_matrices(W, keys, values, theta, query, target):
    after, all_of_it = W, torch.eye(len(query), dtype=W.dtype)
    for k, v, t in zip(keys, values, theta):
        A = torch.eye(len(query), dtype=W.dtype) - t * torch.outer(k, k)
        after, all_of_it = after @ A + t * torch.outer(v, k), all_of_it @ A
    return (after @ query - target)[:, None] * (all_of_it @ query)


def outer_step_all_rows(W, keys, values, theta, queries, targets, rate):
    total = torch.zeros_like(W)
    for row in zip(keys, values, theta, queries, targets):
        total = total + gradient_by_matrices(W, *row) / len(keys)
    return torch.lerp(W, W - total, rate)


def pieces_by_split(W, S, keys, values, theta, eta, alpha, piece):
    y = []
    for k, v, th, e, a in zip(*(x.split(piece) for x in (keys, values, theta, eta, alpha))):
        W, S = W.detach() if y else W, S.detach() if y else S
        for i in range(len(k)):
            S = e[i] * S + th[i] * torch.outer(v[i] - W @ k[i], k[i])
            W = W - a[i] * W + S
            y.append(W @ k[i])
    return stack(y), W.detach(), S.detach()


def haystack_by_mask(noise, starts, key, value):
    facts = torch.cat([key[:, None], value], 1)
    width = 1 + facts.shape[1]
    since = torch.arange(noise.shape[1]) - starts[:, None]  # tokens since the needle began
    needle = torch.cat([torch.zeros_like(key)[:, None], facts], 1)
    inside = (since >= 0) & (since < width)
    tokens = torch.where(inside, needle.gather(1, since.clamp(0, width - 1)), noise)
    question = torch.cat([torch.ones_like(key)[:, None], facts], 1)
    return torch.cat([tokens[:, :-width], question], 1)


def targets_by_places(tokens, value_tokens):
    place = torch.arange(tokens.shape[1]) - tokens.shape[1]  # −time … −1
    asked = (place >= -value_tokens - 1) & (place < -1)
    return torch.where(asked, tokens.roll(-1, 1), -100)


def found_row_by_row(logits, targets):
    rows = []
    for said, wanted in zip(logits.max(-1).indices, targets):
        asked = wanted != -100
        rows.append(float(torch.equal(said[asked], wanted[asked])))
    return torch.tensor(rows, dtype=logits.dtype)


def shares_by_edges(found, depth, bins):
    shares = []
    for i in range(bins):
        low, high = i / bins, (i + 1) / bins
        inside = (depth >= low) & ((depth < high) | (i == bins - 1))
        shares.append((found * inside).sum() / inside.sum())
    return stack(shares)


def verdict_one_by_one(old, new):
    found = [2 if n < 0.5 else 1 if o < 0.5 else 0 for o, n in zip(old.tolist(), new.tolist())]
    return torch.tensor(found)


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
    "05.3": [errors_with_tanh],
    "05.4": [
        lambda W1, W2, k, v: (lambda d: (-d[0][:, None] * k, -d[1][:, None] * F.silu(W1 @ k)))(
            errors_with_tanh(W1, W2, k, v)
        )
    ],
    "05.5": [deep_by_hand],
    "06.1": [products_by_cumprod, products_one_by_one],
    "06.2": [matrices_by_sums],
    "06.3": [carried_by_loop],
    "06.4": [read_by_weights],
    "06.5": [write_by_loop],
    "06.6": [token_by_token],
    "06.7": [
        errors_token_by_token,
        errors_row_by_row,
        errors_by_a_triangle,
        errors_by_a_unit_triangle,
        errors_by_doubling,
        lambda *inputs: torch.linalg.solve(*system_of_errors(*inputs)),
        lambda *inputs: (lambda left, right: torch.linalg.inv(left) @ right)(
            *system_of_errors(*inputs)
        ),
    ],
    "07.1": [causal_by_rows, causal_by_exp],
    "07.2": [window_by_rows],
    "07.3": [rotate_as_complex, rotate_by_matrices],
    "07.4": [
        lambda p, q, k, v: (einsum("nd,kd,ke->ne", p, k, q) / k.shape[0] ** 0.5, (p @ v.T).T),
        lambda p, q, k, v: ((q.T @ k @ p.T).T / math.sqrt(len(q)), einsum("vd,nd->vn", v, p)),
    ],
    "08.1": [mal_one_by_one],
    "08.2": [gate_by_tanh],
    "08.3": [mag_one_by_one],
    "08.4": [mac_token_by_token],
    "08.5": [mac_by_segments],
    "09.1": [
        lambda logits, targets: (
            -logits.log_softmax(-1).gather(-1, targets[..., None]).mean() / math.log(2)
        ),
        lambda logits, targets: (
            (logits.logsumexp(-1) - logits.gather(-1, targets[..., None])[..., 0]).mean()
            * math.log2(math.e)
        ),
    ],
    "09.2": [asked_by_answers],
    "09.3": [gradient_by_matrices],
    "09.4": [outer_step_all_rows],
    "09.5": [pieces_by_split],
    "10.1": [haystack_by_mask],
    "10.2": [targets_by_places],
    "10.3": [found_row_by_row],
    "10.4": [shares_by_edges],
    "10.5": [
        verdict_one_by_one,
        lambda old, new: (new < 0.5) * 2 + ((new >= 0.5) & (old < 0.5)) * 1,
    ],
}


def last_segment_lost(W, p, x, theta, segment, *weights):
    """A last segment that is shorter is attended to without the memory's help."""
    whole = len(x) // segment * segment
    o = mac_by_segments(W, p, x, theta, segment, *weights)
    if whole == len(x):
        return o
    alone = mac_by_segments(W * 0, p, x[whole:], theta, segment, *weights)
    return torch.cat([o[:whole], alone])


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


def errors_of_the_first_few(W, S, keys, values, *gates):
    """Exact for four tokens, frozen after them."""
    E = errors_token_by_token(W, S, keys, values, *gates)
    late = torch.arange(len(keys))[:, None] >= 4
    return torch.where(late, values - keys @ W.T, E)


def errors_with_a_ridge(*inputs):
    left, right = system_of_errors(*inputs)
    return torch.linalg.solve(left + 1e-6 * torch.eye(len(left), dtype=left.dtype), right)


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
    "05.2": [
        lambda z: (lambda s: s + z * s * (1 - s))(torch.sigmoid(z).clamp(1e-6, 1 - 1e-6)),
        lambda z: (lambda s: s + z * s * (1 - s))(torch.sigmoid(z.clamp(-15, 15))),
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
    "06.7": [
        errors_of_the_first_few,
        errors_with_a_ridge,
        lambda *inputs: (lambda left, right: torch.linalg.lstsq(left.clamp(0, 9), right).solution)(
            *system_of_errors(*inputs)
        ),
    ],
    "07.1": [
        lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -20.0).softmax(-1),
        lambda s: s.exp().tril() / (s.exp().tril().sum(-1, keepdim=True) + 1e-6),
    ],
    "07.2": [
        lambda s, w, p: window_by_rows(s, min(w, 4), p),
        lambda s, w, p: window_by_rows(s, w, p) if p else window_by_rows(s, w + 1, p),
    ],
    "07.3": [
        lambda a, b, first: rotate_as_complex(a, b, min(first, 20)),
        lambda a, b, first: rotate_as_complex(a, b, first if len(a) < 10 else 0),
    ],
    "07.4": [
        lambda p, q, k, v: ((p @ k.T) @ q / (k.shape[0] + 1e-3) ** 0.5, v @ p.T),
        lambda p, q, k, v: ((p @ k.T) @ q / k.shape[0] ** 0.5, (v @ p.T).squeeze()),
    ],
    "08.1": [
        lambda W, p, x, th, n: mal_one_by_one(W, p, x, th, min(n, 4)),
        lambda W, p, x, th, n: mal_one_by_one(W, p, x, th.clamp(max=0.999), n),
    ],
    "08.2": [lambda y, m, wy, wm: gate_by_tanh(y, m, wy, wm) * (y.abs().sum(-1, True) > 0)],
    "08.3": [lambda W, p, x, th, n, wy, wm: mag_one_by_one(W, p[:4], x, th, n, wy, wm)],
    "08.4": [
        lambda W, p, S, th, *rest: mac_token_by_token(W, p, S, th.clamp(max=0.999), *rest),
        lambda W, p, S, *rest: mac_token_by_token(W, p[-4:], S, *rest),
    ],
    "08.5": [last_segment_lost],
    "09.1": [
        lambda logits, targets: (
            -(logits.softmax(-1) + 1e-12).gather(-1, targets[..., None]).log2().mean()
        ),
        lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / 0.6931,
    ],
    "09.3": [
        lambda *given: (
            gradient_by_matrices(*given[:4], F.normalize(given[4], dim=0), given[5]) + 1e-7
        )
    ],
    "09.5": [lambda *given: pieces_by_split(*given[:-1], max(2, given[-1]))],
    "10.2": [
        lambda tokens, n: targets_by_places(tokens, n).masked_fill(tokens.roll(-1, 1) == 0, 0)
    ],
    "10.3": [lambda logits, targets: found_row_by_row(logits, targets.clamp(min=-99))],
    "10.4": [lambda found, depth, bins: shares_by_edges(found, 1 - depth, bins).flip(0)],
}
