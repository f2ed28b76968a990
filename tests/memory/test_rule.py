"""Sequential against the paper's formulas by hand; the parallel forms against sequential."""

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import pairwise

import pytest
import torch
from cases import EXACT, assert_same, everything, random_case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from minititans.memory import Gates, MemoryState, chunked, fast, scan, sequential

PLAIN = {"exact": False, "residual": False}  # the paper to the letter, in chunks
SWITCHES = [{"exact": e, "residual": r} for e in (True, False) for r in (True, False)]


def knows(rule, options):
    return rule is not scan or not options["exact"]


def bounded_case(chunk_size: int, exact: bool, residual: bool, **shape):
    """A case whose numbers stay moderate: plain layers are unstable, and need small steps.

    Where no layer is exact, the tokens of a chunk may all write the same error, so each writes its
    share of it, as in `NeuralMemory`. If the numbers grew without bound, two right forms would
    differ: first by rounding, then by infinity less infinity.
    """
    case = random_case(**shape)
    if not residual:
        with torch.no_grad():
            case.gates.theta.mul_(0.3 if exact else 0.3 / chunk_size)
    return case


FORMS = [(rule, each) for rule in (chunked, fast, scan) for each in SWITCHES if knows(rule, each)]


def test_sequential_with_a_matrix_is_the_closed_form_of_the_paper():
    """(32), (33): S = eta S − theta (M k − v) kᵀ, M = (1 − alpha) M + S, written with loops."""
    case = random_case(depth=1, limits=True)
    y, state = case.run(sequential, 1)
    theta, eta, alpha = case.gates.theta, case.gates.eta, case.gates.alpha
    for b in range(2):
        for h in range(2):
            M, S = case.weights[0][h], torch.zeros(5, 5, dtype=torch.float64)
            for t in range(10):
                k, v, q = case.k[b, h, t], case.v[b, h, t], case.q[b, h, t]
                S = eta[b, h, t] * S - theta[b, h, t] * torch.outer(M @ k - v, k)
                M = (1 - alpha[b, h, t]) * M + S
                torch.testing.assert_close(y[b, h, t], M @ q)
            torch.testing.assert_close(state.weights[0][b, h], M)
            torch.testing.assert_close(state.momentum[0][b, h], S)


def matrices(case, chunk_size=1, **gates):
    """One head's matrix after every token, with some gates set to a constant; and its inputs."""
    with torch.no_grad():
        for name, value in gates.items():
            getattr(case.gates, name).fill_(value)
    state, found = case.start(), []
    for t in range(case.q.shape[2]):
        _, state = sequential(*case.part(t, t + 1), state, chunk_size, **PLAIN)
        found.append(state.weights[0][0, 0])
    return found, case.weights[0][0], case.k[0, 0], case.v[0, 0], case.gates.theta[0, 0]


def test_eta_and_alpha_of_zero_is_plain_gradient_descent():
    """(8) for a matrix."""
    found, M, k, v, theta = matrices(random_case(depth=1), eta=0.0, alpha=0.0)
    for t, expected in enumerate(found):
        M = M - theta[t] * torch.outer(M @ k[t] - v[t], k[t])
        torch.testing.assert_close(M, expected)


def test_alpha_of_zero_is_gradient_descent_with_momentum():
    """(9) and (10): torch.optim.SGD with momentum, which keeps buf = eta buf + gradient."""
    case = random_case(batch=1, heads=1, depth=2)
    found, *_ = matrices(case, alpha=0.0, eta=0.9, theta=0.05)
    layers = [nn.Parameter(w[0].detach().clone()) for w in case.weights]
    optimiser = torch.optim.SGD(layers, lr=0.05, momentum=0.9)
    for t, expected in enumerate(found):
        k, v = case.k[0, 0, t].detach(), case.v[0, 0, t].detach()
        optimiser.zero_grad()
        (layers[1] @ nn.functional.silu(layers[0] @ k) - v).square().sum().div(2).backward()
        optimiser.step()
        torch.testing.assert_close(layers[0], expected)


def test_without_momentum_and_forgetting_a_matrix_is_deltanet():
    """(34)."""
    found, S, k, v, theta = matrices(random_case(depth=1), eta=0.0, alpha=0.0)
    one = torch.eye(5, dtype=torch.float64)
    for t, expected in enumerate(found):
        kk, vk = torch.outer(k[t], k[t]), torch.outer(v[t], k[t])
        S = S @ (one - theta[t] * kk) + theta[t] * vk
        torch.testing.assert_close(S, expected)


def test_with_the_implicit_step_it_is_longhorn():
    """(35): Longhorn's S minimises ‖S − S_{t−1}‖² + theta ‖S k − v‖², here solved directly."""
    case = random_case(depth=1)
    with torch.no_grad():
        case.k.mul_(torch.rand(2, 2, 10, 1) + 0.5)  # keys of any norm
        wanted = case.gates.theta.clone()
        case.gates.theta.copy_(wanted / (1 + wanted * case.k.square().sum(-1)))
    found, S, k, v, _ = matrices(case, eta=0.0, alpha=0.0)
    one = torch.eye(5, dtype=torch.float64)
    for t, expected in enumerate(found):
        theta = wanted[0, 0, t]
        right = S + theta * torch.outer(v[t], k[t])
        S = right @ torch.linalg.inv(one + theta * torch.outer(k[t], k[t]))
        torch.testing.assert_close(S, expected)


def answer(layers, x, residual):
    """A memory of one head, written out again."""
    *below, last = layers
    for W in below:
        hidden = nn.functional.silu(W @ x)
        if residual:
            times = len(hidden) // len(x)
            hidden = hidden + torch.cat([x] * times) / times**0.5
            hidden = hidden / (hidden.square().sum() + 1e-8).sqrt()
        x = hidden
    return last @ x


@pytest.mark.parametrize("options", SWITCHES, ids=str)
@pytest.mark.parametrize("chunk_size", [1, 4])
def test_sequential_with_a_deep_memory_is_gradient_descent_by_autograd(options, chunk_size):
    """(13) and (14) with a torch optimiser's ingredients: parameters, backward, .grad."""
    case = random_case(batch=1, heads=1, depth=3)
    y, _ = case.run(sequential, chunk_size, **options)
    layers = [w[0].detach().clone() for w in case.weights]
    momentum = [torch.zeros_like(w) for w in layers]
    for t in range(10):
        k, v, q = (x[0, 0, t].detach() for x in (case.k, case.v, case.q))
        theta, eta, alpha = (g[0, 0, t].item() for g in vars(case.gates).values())
        if t % chunk_size == 0:
            start = [w.clone() for w in layers]
        at = [*start[:-1], layers[-1]] if options["exact"] else start
        at = [nn.Parameter(w.clone()) for w in at]
        error = 0.5 * (answer(at, k, options["residual"]) - v).pow(2).sum()
        gradients = torch.autograd.grad(error, at)
        below = theta / chunk_size if options["exact"] else theta
        for W, S, u, step in zip(layers, momentum, gradients, (below, below, theta), strict=True):
            S.mul_(eta).sub_(step * u)
            W.mul_(1 - alpha).add_(S)
        torch.testing.assert_close(y[0, 0, t], answer(layers, q, options["residual"]))


@pytest.mark.parametrize("rule", [sequential, chunked, fast])
def test_a_matrix_reads_the_same_in_chunks_of_any_size(rule):
    """The paper's recurrence, token by token, whatever the chunk: (13) to (15)."""
    case = random_case(time=70, depth=1, limits=True)
    expected, after = case.run(sequential, 1)
    for chunk_size in (5, 64):
        y, state = case.run(rule, chunk_size)
        assert (y - expected).abs().max() < 1e-12
        assert (state.weights[0] - after.weights[0]).abs().max() < 1e-12


def test_any_module_can_be_the_memory_of_sequential():
    case = random_case(batch=3, heads=1, dim=4, depth=2, expansion=3)
    module = nn.Sequential(nn.Linear(4, 12, bias=False), nn.SiLU(), nn.Linear(12, 4, bias=False))
    module.double()
    with torch.no_grad():
        for parameter, w in zip(module.parameters(), case.weights, strict=True):
            parameter.copy_(w[0])
    inputs = case.part(0, 10)
    start = MemoryState.start_from(module, batch=3)
    y, state = sequential(*inputs, start, 4, network=module, exact=False)
    expected, expected_state = sequential(*inputs, case.start(), 4, **PLAIN)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(state.weights, expected_state.weights)


def test_a_module_with_biases_and_norms_learns_as_the_memory():
    torch.manual_seed(0)
    module = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    k = nn.functional.normalize(torch.randn(2, 3, 1, 4), dim=-1).expand(2, 3, 60, 4)
    v = torch.randn(2, 3, 1, 4).expand(2, 3, 60, 4)
    gates = Gates.constant(theta=0.1, eta=0.0, alpha=0.0, shape=(2, 3, 60))
    start = MemoryState.start_from(module, 2, 3)
    y, _ = sequential(k, k, v, gates, start, 1, network=module, exact=False)
    before, after = (y - v).norm(dim=-1)[..., 0], (y - v).norm(dim=-1)[..., -1]
    assert (after < 0.05 * before).all()


@lru_cache(maxsize=len(SWITCHES))
def by_the_loop(chunk_size: int, depth: int, limits: bool, exact: bool, residual: bool):
    """A case of 35 tokens, and everything that the loop finds in it."""
    case = random_case(time=35, depth=depth, limits=limits, seed=depth)
    found = case.run(sequential, chunk_size, exact=exact, residual=residual)
    return case, everything(case, *found)


@pytest.mark.parametrize(
    ("rule", "options"), FORMS, ids=[f"{rule.__name__}-{options}" for rule, options in FORMS]
)
@pytest.mark.parametrize("chunk_size", [1, 3, 16, 64])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("limits", [False, True])
def test_the_parallel_forms_equal_the_loop(rule, options, chunk_size, depth, limits):
    """Values, final state, and gradients with respect to every input and starting weight."""
    case, expected = by_the_loop(chunk_size, depth, limits, **options)
    assert_same(everything(case, *case.run(rule, chunk_size, **options)), expected)


@pytest.mark.parametrize("switch", ["exact", "residual"])
def test_each_switch_changes_what_is_read(switch):
    case = random_case(time=19, depth=2, seed=7)
    assert (case.run(chunked, 5)[0] - case.run(chunked, 5, **{switch: False})[0]).abs().max() > 1e-3


@pytest.mark.parametrize("rule", [sequential, chunked, fast])
@pytest.mark.parametrize("options", SWITCHES, ids=str)
def test_second_derivatives_are_those_of_finite_differences(rule, options):
    case = random_case(batch=1, heads=1, time=4, dim=2, depth=2, expansion=2, limits=True)
    leaves = list(case.leaves.values())

    def run(q, k, v, theta, eta, alpha, *weights):
        start = MemoryState.start(list(weights), 1)
        y, state = rule(q, k, v, Gates(theta, eta, alpha), start, 3, **options)
        return y, *state.weights, *state.momentum

    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("extreme", ["alpha", "eta", "theta"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_gate_at_its_limit_for_all_tokens_is_exact(extreme, value):
    case = random_case(time=20, depth=2, seed=3)
    with torch.no_grad():
        getattr(case.gates, extreme).fill_(value if extreme != "theta" else value * 0.2)
    for options in SWITCHES:
        expected = everything(case, *case.run(sequential, 8, **options))
        for rule in (chunked, fast, scan):
            if knows(rule, options):
                assert_same(everything(case, *case.run(rule, 8, **options)), expected)


def test_alpha_of_one_clears_the_memory_exactly():
    case = random_case(time=6, depth=2)
    with torch.no_grad():
        case.gates.alpha[:, :, 2], case.gates.eta[:, :, 2] = 1.0, 0.0
        case.gates.theta[:, :, 2] = 0.0
    for rule in (sequential, chunked, fast, scan):
        y, _ = case.run(rule, 6)
        assert y[:, :, 2].eq(0).all(), rule.__name__
        assert y[:, :, 1].ne(0).all()


def shared(case, size, time):
    """The same case with gates that are made of one number per chunk, and those numbers."""
    per_chunk = case.gates.map(lambda g: g[..., ::size].detach().clone().requires_grad_())
    spread = per_chunk.map(lambda g: g.repeat_interleave(size, -1)[..., :time])
    return replace(case, gates=spread), per_chunk


@pytest.mark.parametrize("depth", [1, 3])
def test_gates_that_a_chunk_shares_make_the_momentum_a_convolution(depth):
    results = []
    for rule, options in ((sequential, {"exact": False}), (scan, {"shared_gates": True})):
        case, per_chunk = shared(random_case(time=14, depth=depth, limits=True, seed=5), 4, 14)
        y, state = case.run(rule, 4, **options)
        case.gates = per_chunk  # the gradients are by these
        results.append(everything(case, y, state))
    assert_same(*results)


def test_a_convolution_may_begin_in_the_middle_of_a_chunk():
    case, _ = shared(random_case(time=14, seed=5), 4, 14)
    expected, _ = case.run(sequential, 4, exact=False)
    _, state = scan(*case.part(0, 2), case.start(), 4, shared_gates=True)
    y, _ = scan(*case.part(2, 14), state, 4, shared_gates=True)
    torch.testing.assert_close(y, expected[:, :, 2:])


def test_a_convolution_refuses_gates_that_change_inside_a_chunk():
    with pytest.raises(ValueError, match=r"gates\.theta: changes inside a chunk"):
        random_case(time=8).run(scan, 4, shared_gates=True)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    time=st.integers(1, 20),
    dim=st.integers(1, 5),
    depth=st.integers(1, 4),
    expansion=st.integers(1, 3),
    chunk_size=st.integers(1, 24),
    seed=st.integers(0, 10**6),
    limits=st.booleans(),
    exact=st.booleans(),
    residual=st.booleans(),
)
@example(
    batch=2, heads=1, time=20, dim=1, depth=2, expansion=1, chunk_size=2, seed=143, limits=False,
    exact=False, residual=False,
)  # fmt: skip
def test_all_forms_agree_on_any_shape(chunk_size, exact, residual, **shape):
    options = {"exact": exact, "residual": residual}
    case = bounded_case(chunk_size, **options, **shape)
    expected = everything(case, *case.run(sequential, chunk_size, **options))
    for rule in (chunked, fast, scan):
        if knows(rule, options):
            assert_same(everything(case, *case.run(rule, chunk_size, **options)), expected)


@pytest.mark.parametrize("rule", [sequential, chunked, fast])
def test_between_chunks_a_state_holds_its_weights_once(rule):
    case = random_case(depth=2)  # ten tokens
    _, closed = case.run(rule, 5)
    assert all(map(lambda start, W: start is W, closed.chunk_start, closed.weights))
    _, inside = case.run(rule, 4)
    assert not any(map(torch.equal, inside.chunk_start, inside.weights))


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 29), max_size=6),
    depth=st.integers(1, 3),
    chunk_size=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    exact=st.booleans(),
    residual=st.booleans(),
)
def test_any_split_of_a_sequence_gives_the_same_reading(
    cuts, depth, chunk_size, seed, exact, residual
):
    options = {"exact": exact, "residual": residual}
    case = bounded_case(chunk_size, **options, time=30, depth=depth, seed=seed, limits=True)
    expected = everything(case, *case.run(chunked, chunk_size, **options))
    edges = [0, *sorted(set(cuts)), 30]
    for rule in (sequential, chunked, fast, scan):
        if not knows(rule, options):
            continue
        state, parts = case.start(), []
        for first, last in pairwise(edges):
            y, state = rule(*case.part(first, last), state, chunk_size, **options)
            parts.append(y)
        assert_same(everything(case, torch.cat(parts, 2), state), expected)


@pytest.mark.parametrize("rule", [sequential, chunked, fast, scan])
def test_token_by_token_equals_the_whole(rule):
    case = random_case(time=11, depth=2, seed=9)
    expected, _ = case.run(rule, 4)
    state, parts = case.start(), []
    for t in range(11):
        y, state = rule(*case.part(t, t + 1), state, 4)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 2), expected, rtol=EXACT, atol=EXACT)


def test_values_may_have_another_size_than_keys():
    case = random_case(time=9, depth=2)
    case.v = torch.randn(2, 2, 9, 3, dtype=torch.float64, requires_grad=True)
    last = torch.randn(2, 3, 10, dtype=torch.float64, requires_grad=True)
    case.weights = [case.weights[0], last]
    expected = everything(case, *case.run(sequential, 4))
    for rule in (chunked, fast):
        assert_same(everything(case, *case.run(rule, 4)), expected)


@pytest.mark.parametrize("rule", [sequential, chunked, fast, scan])
def test_half_precision_inputs_are_read_in_the_states_precision(rule):
    case = random_case(time=12, dtype=torch.float32)
    exact, _ = case.run(rule, 4)
    q, k, v, gates = case.part(0, 12)
    y, state = rule(q.bfloat16(), k.bfloat16(), v.bfloat16(), gates, case.start(), 4)
    assert y.dtype == torch.bfloat16 and state.weights[0].dtype == torch.float32
    assert (y - exact).abs().max() < 0.05


@pytest.mark.parametrize("rule", [sequential, chunked, fast, scan])
def test_a_rule_may_be_called_under_autocast(rule):
    case = random_case(time=9, depth=2, dtype=torch.float32)
    expected, _ = case.run(rule, 4)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = case.run(rule, 4)
    assert torch.equal(y, expected)


@pytest.mark.parametrize("options", SWITCHES, ids=str)
def test_chunked_compiles_in_one_graph(options):
    case = random_case(time=10, depth=2)
    expected = everything(case, *case.run(chunked, 4, **options))
    compiled = torch.compile(chunked, backend="eager", fullgraph=True)
    assert_same(everything(case, *case.run(compiled, 4, **options)), expected)


@pytest.mark.parametrize("rule", [sequential, chunked, fast, scan])
def test_a_rule_may_be_called_inside_vmap(rule):
    case = random_case(batch=3, time=7)
    expected, _ = case.run(rule, 4)

    def one(q, k, v, theta, eta, alpha):
        gates = Gates(theta, eta, alpha).map(lambda gate: gate[None])
        return rule(q[None], k[None], v[None], gates, MemoryState.start(case.weights, 1), 4)[0][0]

    y = torch.func.vmap(one)(case.q, case.k, case.v, *vars(case.gates).values())
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("rule", [sequential, chunked, fast, scan])
def test_a_kept_state_does_not_change_with_the_weights_it_began_with(rule):
    case = random_case(batch=1, heads=1, time=6)
    _, state = rule(*case.part(0, 3), case.start(), 4)  # inside the first chunk
    expected, _ = rule(*case.part(3, 6), state, 4)
    with torch.no_grad():
        for w in case.weights:
            w += 1
    y, _ = rule(*case.part(3, 6), state, 4)
    assert torch.equal(y, expected)


def test_a_long_call_holds_a_bounded_number_of_weights_at_once(monkeypatch):
    """However short the chunks: a chunk has weights of its own, whatever its length."""
    module, held = import_module("minititans.memory.fast.rule"), []
    write_chunks = module.write_chunks

    def recorded(rule, k, v, P, W, *arguments):
        held.append(rule.chunks * W[0].numel())
        return write_chunks(rule, k, v, P, W, *arguments)

    monkeypatch.setattr(module, "write_chunks", recorded)
    case = random_case(time=40, depth=1, dim=16)
    monkeypatch.setattr(module, "AT_ONCE", 4 * case.weights[0].numel() * len(case.q))
    case.run(fast, 1)
    assert len(held) == 10 and max(held) <= module.AT_ONCE


@pytest.mark.parametrize("rule", [chunked, fast])
def test_gradients_of_many_directions_at_once(rule):
    case = random_case(batch=1, heads=1, time=5, depth=1)
    _, state = case.run(rule, 2)
    S = state.momentum[0].flatten()
    directions = torch.eye(len(S), dtype=S.dtype)
    (together,) = torch.autograd.grad(
        S, case.weights[0], directions, is_grads_batched=True, retain_graph=True
    )
    for direction, found in zip(directions, together):
        (alone,) = torch.autograd.grad(S, case.weights[0], direction, retain_graph=True)
        torch.testing.assert_close(found, alone)
