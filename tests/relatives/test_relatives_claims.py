"""Appendix C's claims: Titans' memory with the right settings is its relatives.

Every oracle is the relative's own recurrence from `test_relatives`. The memory is one matrix
that begins at zero, and the rule is the library's, not a formula written for the occasion.
"""

import pytest
import torch
import torch.nn.functional as F
from cases import assert_same
from test_relatives import (
    KEY,
    TIME,
    VALUE,
    delta_rule,
    gated_delta_rule,
    generalised_delta_rule,
    head_by_head,
    implicit_online_learning,
    inputs,
    state_space_duality,
)
from test_relatives_rule import rand, randn, values_and_gradients

from minititans.memory import Gates, MemoryState, chunked, sequential
from minititans.relatives.ttt import ttt

both_forms = pytest.mark.parametrize("rule", [sequential, chunked])


def memory(rule, q, k, v, theta, forget, chunk_size=1, **options):
    """What a matrix memory without momentum reads."""
    gates = Gates(theta, torch.zeros_like(theta), forget)
    start = MemoryState.start([torch.zeros(3, v.shape[-1], k.shape[-1], dtype=v.dtype)], len(q))
    return rule(q, k, v, gates, start, chunk_size, exact=False, **options)[0]


def assert_same_with_gradients(y, expected, arguments):
    assert_same(
        values_and_gradients(y, None, arguments), values_and_gradients(expected, None, arguments)
    )


@both_forms
def test_the_memory_without_momentum_and_forgetting_is_deltanet(rule):
    """(34), with theta = β."""
    arguments = inputs(delta_rule)
    q, k, v, beta = arguments.values()
    y = memory(rule, q, k, v, theta=beta, forget=torch.zeros_like(beta))
    assert_same_with_gradients(y, head_by_head(delta_rule, arguments), arguments)


def gated_inputs(forget):
    """Gated DeltaNet's inputs with decays of `1 − forget` (at 0 one cannot divide by them)."""
    arguments = inputs(gated_delta_rule)
    arguments["alpha"] = (1 - forget).requires_grad_()
    return arguments


@both_forms
def test_the_memory_without_momentum_is_gated_deltanet_after_a_substitution(rule):
    """theta = (1 − alpha) β and v / (1 − alpha): Gated DeltaNet forgets before it predicts."""
    arguments = gated_inputs(forget=0.5 * rand(2, 3, TIME))
    q, k, v, keep, beta = arguments.values()
    y = memory(rule, q, k, v / keep[..., None], theta=keep * beta, forget=1 - keep)
    assert_same_with_gradients(y, head_by_head(gated_delta_rule, arguments), arguments)


@pytest.mark.parametrize("forget, size", [("up to one half", 0.097), ("one percent", 0.011)])
def test_without_the_substitution_gated_deltanet_is_something_else(forget, size):
    """The numbers of docs/relatives.md: the largest difference of a reading; values are about 1."""
    torch.manual_seed(1)
    fraction = 0.5 * rand(2, 3, TIME) if forget == "up to one half" else 0.01
    arguments = gated_inputs(torch.zeros(2, 3, TIME, dtype=torch.float64) + fraction)
    q, k, v, keep, beta = (x.detach() for x in arguments.values())
    q = F.normalize(q, dim=-1)
    y = memory(chunked, q, k, v, theta=beta, forget=1 - keep)
    expected = head_by_head(gated_delta_rule, {"q": q, "k": k, "v": v, "alpha": keep, "beta": beta})
    assert (y - expected).abs().max().item() == pytest.approx(size, rel=0.05)


@both_forms
def test_the_memory_with_the_implicit_step_is_longhorn(rule):
    """(35), for keys of any norm: theta = β / (1 + β k·k)."""
    arguments = inputs(implicit_online_learning)
    q, k, v, beta = arguments.values()
    theta = beta / (1 + beta * (k * k).sum(-1))
    y = memory(rule, q, k, v, theta, forget=torch.zeros_like(beta))
    assert_same_with_gradients(y, head_by_head(implicit_online_learning, arguments), arguments)


def plain_linear_attention(q, k, v):
    """(4) and (5): the sum of all v kᵀ so far, asked with q."""
    S, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
    for t in range(len(q)):
        S = S + torch.outer(v[t], k[t])
        readings.append(S @ q[t])
    return torch.stack(readings)


@both_forms
def test_one_chunk_as_long_as_the_sequence_is_linear_attention(rule):
    """At a start of zero the memory predicts nothing, so every token's surprise is −v kᵀ."""
    arguments = inputs(plain_linear_attention)
    q, k, v = arguments.values()
    one = torch.ones(2, 3, TIME, dtype=torch.float64)
    y = memory(rule, q, k, v, theta=one, forget=0 * one, chunk_size=TIME)
    assert_same_with_gradients(y, head_by_head(plain_linear_attention, arguments), arguments)
    chunks = memory(rule, q, k, v, theta=one, forget=0 * one, chunk_size=TIME // 2)
    assert (chunks - y).abs().max() > 0.1, "with more than one chunk the memory does predict"


@both_forms
def test_one_chunk_with_forgetting_is_mamba2(rule):
    """And so RetNet, whose decay is a constant: alpha = 1 − e^{ΔA}, theta = Δ; D x is added."""
    arguments = inputs(state_space_duality)
    C, B, x, dt, A, D = arguments.values()
    forget = 1 - torch.exp(dt * A[:, None])
    y = memory(rule, C, B, x, theta=dt, forget=forget, chunk_size=TIME) + D[:, None, None] * x
    assert_same_with_gradients(y, head_by_head(state_space_duality, arguments), arguments)


def test_token_by_token_linear_attention_is_a_limit():
    """theta → 0 with values v / theta: the difference is proportional to theta."""
    arguments = {name: x.detach() for name, x in inputs(plain_linear_attention).items()}
    q, k, v = arguments.values()
    expected, one = head_by_head(plain_linear_attention, arguments), torch.ones(2, 3, TIME).double()
    differences = [
        (memory(chunked, q, k, v / theta, theta * one, 0 * one) - expected).abs().max().item()
        for theta in (1e-4, 1e-5, 1e-6)
    ]
    assert differences[0] == pytest.approx(10 * differences[1], rel=0.05)
    assert differences[1] == pytest.approx(10 * differences[2], rel=0.05)


def test_with_another_loss_gradient_descent_is_linear_attention():
    """−⟨M k, v⟩ in place of ½‖M k − v‖²: no prediction in it, so nothing is ever erased."""
    arguments = {name: x.detach() for name, x in inputs(plain_linear_attention).items()}
    expected = head_by_head(plain_linear_attention, arguments)

    def one_head(q, k, v):
        M, readings = torch.zeros(VALUE, KEY, dtype=torch.float64), []
        for t in range(TIME):
            M = M.requires_grad_()
            (u,) = torch.autograd.grad(-(M @ k[t]) @ v[t], M)
            M = (M - u).detach()  # theta = 1
            readings.append(M @ q[t])
        return torch.stack(readings)

    torch.testing.assert_close(head_by_head(one_head, arguments), expected)


def test_rwkv7_is_the_memory_only_where_its_vectors_are_numbers():
    """Its decay w and its rate a are one number per head; one key is both erased and written."""
    arguments = {name: x.detach() for name, x in inputs(generalised_delta_rule).items()}
    w, a = arguments["w"][..., 0], arguments["a"][..., 0] + 0.1
    r, kappa, v = arguments["r"], arguments["kappa"], arguments["v"]
    length = 0.5 + rand(2, 3, TIME)  # of the key that is written
    arguments |= {"k": length[..., None] * kappa}
    arguments |= {"w": w[..., None].expand_as(r), "a": a[..., None].expand_as(r)}
    expected = head_by_head(generalised_delta_rule, arguments)
    y = memory(chunked, r, kappa, v * (length / a)[..., None], theta=a, forget=1 - w)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)


def test_time_training(q, k, v, rate, *start, size):
    """Sun et al.: f(x) = x + LayerNorm(W x), gradients at the mini-batch's first weights.

    With two matrices, an MLP with SiLU between them. Autograd takes the gradients.
    """

    def f(W, x):
        hidden = x
        for layer in W[:-1]:
            hidden = F.silu(layer @ hidden)
        return x + F.layer_norm(W[-1] @ hidden, x.shape)

    W, readings = list(start), []
    for t in range(len(q)):
        if t % size == 0:
            W_batch = W
        error = 0.5 * (f(W_batch, k[t]) - v[t]).pow(2).sum()
        gradients = torch.autograd.grad(error, W_batch, create_graph=True)
        W = [w - rate[t] * g for w, g in zip(W, gradients)]
        readings.append(f(W, q[t]))
    return torch.stack(readings)


test_time_training.__test__ = False  # an oracle, in spite of its name


@pytest.mark.parametrize("layers", [1, 2], ids=["linear", "MLP"])
def test_the_memory_without_momentum_and_forgetting_and_with_a_norm_is_ttt(layers):
    torch.manual_seed(0)
    q, k = (F.normalize(randn(2, 3, TIME, KEY), dim=-1) for _ in range(2))
    v, rate = randn(2, 3, TIME, KEY), 0.1 * rand(2, 3, TIME)
    start = [randn(3, KEY, KEY) for _ in range(layers)]
    names = ["q", "k", "v", "rate", *(f"layer {n}" for n in range(layers))]
    leaves = {n: x.requires_grad_() for n, x in zip(names, (q, k, v, rate, *start), strict=True)}

    rows = []
    for b in range(2):
        heads = [
            test_time_training(*(x[b, h] for x in (q, k, v, rate)), *(w[h] for w in start), size=4)
            for h in range(3)
        ]
        rows.append(torch.stack(heads))
    gates = Gates(rate, torch.zeros_like(rate), torch.zeros_like(rate))
    y, _ = ttt(q, k, v, gates, MemoryState.start(start, 2), 4)
    assert_same_with_gradients(y, torch.stack(rows), leaves)
