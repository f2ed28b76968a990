"""Each relative against its own paper: a plain recurrence that shares no code with the rule.

The oracles take one head of one row: vectors are `[time, dim]`, gates `[time]`. They keep the
state as their papers do, `[dim_key, dim_value]` in some and its transpose in others.
"""

import inspect

import pytest
import torch
import torch.nn.functional as F
from cases import assert_same
from test_relatives_rule import rand, randn, values_and_gradients

from minititans.relatives import chunked, loop, settings

TIME, KEY, VALUE = 19, 6, 4


def softmax_free_attention(q, k, v):
    """Katharopoulos et al., equations 8 and 9: weights φ(q)·φ(k), divided by their sum."""
    readings = []
    for t in range(len(q)):
        phi_q = torch.where(q[t] > 0, q[t] + 1, q[t].exp())
        phi_k = torch.where(k[: t + 1] > 0, k[: t + 1] + 1, k[: t + 1].exp())
        weights = phi_k @ phi_q
        readings.append(weights @ v[: t + 1] / weights.sum())
    return torch.stack(readings)


def retention(q, k, v, gamma):
    """Sun et al., equation 3: S ← γ e^{iθ} S + K* V with complex numbers, read Re(Q S)."""
    q, k = (torch.complex(x[:, 0::2], x[:, 1::2]) for x in (q, k))
    theta = 10000.0 ** (-torch.arange(0, KEY, 2, dtype=torch.float64) / KEY)
    turn = torch.polar(torch.ones_like(theta), theta)
    S, readings = torch.zeros(KEY // 2, VALUE, dtype=torch.complex128), []
    for t in range(len(q)):
        S = gamma * turn[:, None] * S + torch.outer(k[t].conj(), v[t].to(S.dtype))
        readings.append((q[t] @ S).real)
    return torch.stack(readings)


def gated_linear_attention(q, k, v, alpha):
    """Yang et al., equation 3: S ← (αᵀ 1) ⊙ S + kᵀ v."""
    S, readings = torch.zeros(KEY, VALUE, dtype=torch.float64), []
    for t in range(len(q)):
        S = torch.outer(alpha[t], torch.ones(VALUE, dtype=torch.float64)) * S
        S = S + torch.outer(k[t], v[t])
        readings.append(q[t] @ S)
    return torch.stack(readings)


def state_expansion(o, f, i):
    """Qin et al. (HGRN2): H ← Diag(f) H + (1 − f) ⊗ i, read o H."""
    H, readings = torch.zeros(KEY, VALUE, dtype=torch.float64), []
    for t in range(len(o)):
        H = torch.diag(f[t]) @ H + torch.outer(1 - f[t], i[t])
        readings.append(o[t] @ H)
    return torch.stack(readings)


def state_space_duality(C, B, x, dt, A, D):
    """Dao and Gu: the quadratic form, (L ⊙ C Bᵀ) Δx + D x, L[t, s] = exp(A Σ_{s<j≤t} Δ_j)."""
    readings = []
    for t in range(len(C)):
        y = D * x[t]
        for s in range(t + 1):
            y = y + torch.exp(A * dt[s + 1 : t + 1].sum()) * (C[t] @ B[s]) * dt[s] * x[s]
        readings.append(y)
    return torch.stack(readings)


def delta_rule(q, k, v, beta):
    """Schlag et al., equations 23 to 25: fetch the old value, move it by β to the new one."""
    W, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
    for t in range(len(q)):
        old = W @ k[t]
        new = beta[t] * v[t] + (1 - beta[t]) * old
        W = W - torch.outer(old, k[t]) + torch.outer(new, k[t])
        readings.append(W @ q[t])
    return torch.stack(readings)


def gated_delta_rule(q, k, v, alpha, beta):
    """Yang et al. (Gated DeltaNet), equation 10, with whole matrices."""
    S, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
    one = torch.eye(KEY, dtype=torch.float64)
    for t in range(len(q)):
        S = S @ (alpha[t] * (one - beta[t] * torch.outer(k[t], k[t])))
        S = S + beta[t] * torch.outer(v[t], k[t])
        readings.append(S @ q[t])
    return torch.stack(readings)


def implicit_online_learning(q, k, v, beta):
    """Liu et al., the problem itself: argmin ‖S − S_{t−1}‖² + β ‖S k − v‖², solved directly."""
    S, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
    one = torch.eye(KEY, dtype=torch.float64)
    for t in range(len(q)):
        right = S + beta[t] * torch.outer(v[t], k[t])
        S = torch.linalg.solve(one + beta[t] * torch.outer(k[t], k[t]), right, left=False)
        readings.append(S @ q[t])
    return torch.stack(readings)


def diagonal_longhorn(q, k, v, beta):
    """Liu et al., algorithm 1, with one β per head: S ← (1 − Δ k²) ⊙ S + Δ v ⊗ k."""
    S, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
    for t in range(len(q)):
        step = beta[t] / (1 + beta[t] * (k[t] ** 2).sum())
        S = (1 - step * k[t] ** 2)[None, :] * S + step * torch.outer(v[t], k[t])
        readings.append(S @ q[t])
    return torch.stack(readings)


def generalised_delta_rule(r, k, v, w, kappa, a):
    """Peng et al. (RWKV-7), the evolution of its state, with whole matrices."""
    S, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
    for t in range(len(r)):
        G = torch.diag(w[t]) - torch.outer(kappa[t], a[t] * kappa[t])
        S = S @ G + torch.outer(v[t], k[t])
        readings.append(S @ r[t])
    return torch.stack(readings)


def inputs(oracle) -> dict[str, torch.Tensor]:
    """Random arguments for an oracle, by name, with axes batch and heads in front."""
    torch.manual_seed(0)
    lead = 2, 3, TIME
    vectors = {name: randn(*lead, KEY) for name in ("q", "k", "r", "o", "C", "B")}
    numbers = {name: rand(*lead) for name in ("alpha", "beta", "dt")}
    columns = {name: rand(*lead, KEY) for name in ("f", "w", "a")}
    fixed = {"gamma": rand(3), "A": -rand(3), "D": randn(3)}
    all_of_them = vectors | numbers | columns | fixed
    all_of_them |= {name: randn(*lead, VALUE) for name in ("v", "x", "i")}
    all_of_them["kappa"] = F.normalize(randn(*lead, KEY), dim=-1)
    if oracle is gated_linear_attention:
        all_of_them["alpha"] = rand(*lead, KEY)
    if oracle in (delta_rule, gated_delta_rule):
        all_of_them["k"] = F.normalize(all_of_them["k"], dim=-1)
    if oracle is gated_delta_rule:
        all_of_them["alpha"][:, :, ::4] = 0.0
    names = inspect.signature(oracle).parameters
    return {name: all_of_them[name].requires_grad_() for name in names}


def head_by_head(oracle, arguments):
    """An oracle for one head, applied to every head of every row."""
    rows = []
    for row in range(2):
        heads = []
        for head in range(3):
            at = lambda x, b=row, h=head: x[h] if x.dim() == 1 else x[b, h]  # noqa: E731
            heads.append(oracle(*(at(x) for x in arguments.values())))
        rows.append(torch.stack(heads))
    return torch.stack(rows)


def diagonal(*arguments):
    return settings.longhorn(*arguments, diagonal=True)


SETTINGS = [
    (settings.retnet, retention),
    (settings.gla, gated_linear_attention),
    (settings.hgrn2, state_expansion),
    (settings.mamba2, state_space_duality),
    (settings.deltanet, delta_rule),
    (settings.gated_deltanet, gated_delta_rule),
    (settings.longhorn, implicit_online_learning),
    (diagonal, diagonal_longhorn),
    (settings.rwkv7, generalised_delta_rule),
]


@pytest.mark.parametrize("rule", [loop, chunked])
@pytest.mark.parametrize("setting, oracle", SETTINGS, ids=lambda x: x.__name__)
def test_a_setting_of_the_rule_is_the_recurrence_of_its_paper(rule, setting, oracle):
    """Values, and gradients with respect to everything the paper's recurrence takes."""
    arguments = inputs(oracle)
    expected = values_and_gradients(head_by_head(oracle, arguments), None, arguments)
    y, _ = rule(setting(*arguments.values()))
    assert_same(values_and_gradients(y, None, arguments), expected)


@pytest.mark.parametrize("rule", [loop, chunked])
def test_linear_attention_with_its_denominator(rule):
    arguments = inputs(softmax_free_attention)
    expected = head_by_head(softmax_free_attention, arguments)
    q, k, v = arguments.values()
    y, _ = rule(settings.linear_attention(q, k, settings.attention_weights_sum_to_one(v)))
    y = y[..., :-1] / y[..., -1:]
    assert_same(
        values_and_gradients(y, None, arguments), values_and_gradients(expected, None, arguments)
    )


def test_the_norm_after_a_layer_divides_by_the_denominator_anyway():
    """Why the layer does without: RMSNorm of y and of y / c are the same for any c > 0."""
    q, k, v = (x.detach() for x in inputs(softmax_free_attention).values())
    y, _ = chunked(settings.linear_attention(q, k, v))
    divided = head_by_head(softmax_free_attention, {"q": q, "k": k, "v": v})
    norm = torch.nn.RMSNorm(VALUE, eps=1e-12).double()
    torch.testing.assert_close(norm(y), norm(divided), rtol=1e-8, atol=1e-8)


def test_retnet_depends_only_on_how_far_apart_tokens_are():
    q, k, v, gamma = inputs(retention).values()
    here, _ = chunked(settings.retnet(q, k, v, gamma))
    there, _ = chunked(settings.retnet(q, k, v, gamma, position=2_000_000))
    torch.testing.assert_close(here, there, rtol=1e-8, atol=1e-8)


def test_retnet_goes_on_turning_where_it_stopped():
    q, k, v, gamma = inputs(retention).values()
    whole, _ = chunked(settings.retnet(q, k, v, gamma))
    first, second = (
        [x[:, :, part] for x in (q, k, v)] for part in (slice(None, 7), slice(7, None))
    )
    _, S = chunked(settings.retnet(*first, gamma))
    y, _ = chunked(settings.retnet(*second, gamma, position=7), S)
    torch.testing.assert_close(y, whole[:, :, 7:])


def test_longhorns_step_never_overshoots():
    """However long the key and strong the gate, S k moves towards v and never past it."""
    k, v = 1e3 * randn(1, 1, 1, KEY), randn(1, 1, 1, VALUE)
    for beta in (0.1, 10.0, 1e6):
        y, _ = loop(settings.longhorn(k, k, v, torch.full((1, 1, 1), beta, dtype=torch.float64)))
        fraction = y / v
        assert ((fraction > 0) & (fraction < 1)).all()


def published(name):
    """A module of flash-linear-attention, whose plain-torch references also run on a CPU."""
    return pytest.importorskip(f"fla.ops.{name}", exc_type=ImportError)


def assert_published(setting, arguments, theirs):
    """They compute in float32 and divide queries by √dim."""
    y, _ = chunked(setting(*arguments))
    difference = (y / KEY**0.5 - theirs).abs().max()
    assert difference < 2e-6 * max(1.0, theirs.abs().max().item())


def turned(*tensors):
    """`[batch, heads, time, ...]` to `[batch, time, heads, ...]`."""
    return [x.transpose(1, 2) for x in tensors]


def test_deltanet_is_the_published_one():
    naive = published("delta_rule.naive")
    q, k, v, beta = (x.detach() for x in inputs(delta_rule).values())
    theirs, _ = naive.delta_rule_recurrence(q, k, v, beta)
    assert_published(settings.deltanet, (q, k, v, beta), theirs)


def test_gated_deltanet_is_the_published_one():
    naive = published("gated_delta_rule.naive")
    q, k, v, alpha, beta = (x.detach() for x in inputs(gated_delta_rule).values())
    theirs, _ = naive.naive_recurrent_gated_delta_rule(*turned(q, k, v, beta, alpha.log()))
    assert_published(settings.gated_deltanet, (q, k, v, alpha, beta), theirs.transpose(1, 2))


def test_gla_is_the_published_one():
    naive = published("gla.naive")
    q, k, v, alpha = (x.detach() for x in inputs(gated_linear_attention).values())
    theirs, _ = naive.naive_recurrent_gla(*turned(q, k, v, alpha.log()))
    assert_published(settings.gla, (q, k, v, alpha), theirs.transpose(1, 2))


def test_mamba2_is_the_published_one():
    """There it is a linear attention with one decay per head, without the term D x."""
    naive = published("simple_gla.naive")
    C, B, x, dt, A, _ = (x.detach() for x in inputs(state_space_duality).values())
    log_decay = dt * A[:, None]
    theirs, _ = naive.naive_recurrent_simple_gla(*turned(C, dt[..., None] * B, x, log_decay))
    none = torch.zeros(3, dtype=torch.float64)
    assert_published(settings.mamba2, (C, B, x, dt, A, none), theirs.transpose(1, 2))


def test_rwkv7_is_the_published_one():
    naive = published("generalized_delta_rule.dplr.naive")
    r, k, v, w, kappa, a = (x.detach() for x in inputs(generalised_delta_rule).values())
    theirs, _ = naive.dplr_recurrence(r, k, v, -kappa.float(), a * kappa, w.log())
    assert_published(settings.rwkv7, (r, k, v, w, kappa, a), theirs)
