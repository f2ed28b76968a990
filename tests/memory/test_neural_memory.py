"""The layer: what every user of it relies on, for each backend and switch."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from minititans import NeuralMemory
from minititans.memory import Gates, MemoryState, chunked, network, sequential
from minititans.memory.neural_memory import BACKENDS

SWITCHES = [
    {},
    {"momentum": False},
    {"forgetting": False},
    {"momentum": False, "forgetting": False},
    {"gates": "chunk"},
    {"conv": 0},
    {"conv": 1},
    {"residual": False},
    {"exact": False},
    {"depth": 1},
    {"depth": 4, "expansion": 2},
    {"heads": 1, "chunk_size": 1},
    {"backend": "scan", "gates": "chunk", "exact": False},
    {"backend": "sequential"},
    {"backend": "chunked"},
]
every_switch = pytest.mark.parametrize("switches", SWITCHES, ids=str)


def make(dim=12, seed=0, **switches) -> NeuralMemory:
    """With a memory that does not begin empty, so that all its layers matter."""
    torch.manual_seed(seed)
    memory = NeuralMemory(dim, **({"heads": 2, "chunk_size": 4} | switches)).double()
    for W in memory.start_weights:
        torch.nn.init.normal_(W, std=W.shape[-1] ** -0.5)
    return memory


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@every_switch
def test_a_token_changes_nothing_before_it(switches):
    memory = make(**switches)
    x = randn(2, 11, 12)
    y, _ = memory(x)
    for t in range(11):
        changed = x.clone()
        changed[:, t] += 1
        difference = (memory(changed)[0] - y).abs().amax((0, 2))
        # The FFT behind shared gates mixes all tokens and undoes it, to the last rounding error.
        assert (difference[:t] <= (1e-14 if memory.backend == "scan" else 0)).all(), t
        assert difference[t] > 1e-9, f"token {t} does not matter even to itself"


@every_switch
def test_a_token_is_remembered_by_later_ones(switches):
    """The state carries information: the last output depends on a token chunks ago."""
    memory = make(**switches)
    x = randn(1, 14, 12)
    changed = x.clone()
    changed[:, 1] += 1
    assert (memory(changed)[0] - memory(x)[0])[:, -1].abs().max() > 1e-12


@every_switch
def test_batch_rows_do_not_see_each_other(switches):
    memory = make(**switches)
    x = randn(3, 9, 12)
    y, state = memory(x)
    for row in range(3):
        alone, alone_state = memory(x[row : row + 1])
        torch.testing.assert_close(y[row : row + 1], alone)
        torch.testing.assert_close(state.weights[0][row], alone_state.weights[0][0])


@every_switch
def test_a_head_keeps_its_memory_to_itself(switches):
    """Other start weights in the last head change that head's memory and no other's."""
    memory = make(**switches)
    x = randn(1, 9, 12)
    _, before = memory(x)
    with torch.no_grad():
        memory.start_weights[0][-1] += 1
    _, after = memory(x)
    changed = (after.weights[0] - before.weights[0]).abs().amax((0, 2, 3))  # [heads]
    assert changed[:-1].eq(0).all() and changed[-1] > 1e-6


@every_switch
def test_every_parameter_gets_a_gradient(switches):
    memory = make(**switches)
    y, _ = memory(randn(2, 11, 12))
    y.square().sum().backward()
    for name, parameter in memory.named_parameters():
        assert parameter.grad is not None, f"{name} is not used"
        assert parameter.grad.abs().max() > 0, f"{name} has no influence"


@every_switch
def test_the_same_call_twice_gives_the_same_result(switches):
    memory = make(**switches)
    x = randn(2, 7, 12)
    before = x.clone()
    _, state = memory(x)
    assert torch.equal(memory(x)[0], memory(x)[0])
    assert torch.equal(memory(x, state)[0], memory(x, state)[0])
    assert torch.equal(x, before)


@every_switch
def test_single_tokens_give_the_reading_of_the_whole(switches):
    memory = make(**switches)
    x = randn(2, 10, 12)
    expected, expected_state = memory(x)
    state, parts = None, []
    for token in x.unbind(1):
        y, state = memory(token[:, None], state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(state.weights, expected_state.weights)


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 24), max_size=5),
    gates=st.sampled_from(["token", "chunk"]),
    conv=st.integers(0, 5),
    depth=st.integers(1, 3),
    chunk_size=st.integers(1, 9),
)
def test_any_split_gives_the_reading_of_the_whole(cuts, **switches):
    memory = make(**switches)
    x = randn(2, 25, 12)
    expected, _ = memory(x)
    state, parts = None, []
    for part in torch.tensor_split(x, sorted(set(cuts)), dim=1):
        y, state = memory(part, state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gates", ["token", "chunk"])
@pytest.mark.parametrize("exact", [True, False])
def test_backends_agree(gates, exact):
    readings = []
    for backend in ("sequential", "chunked", "scan", "auto"):
        if backend == "scan" and exact:
            continue
        memory = make(backend=backend, gates=gates, exact=exact)
        x = torch.linspace(-2, 2, 2 * 11 * 12, dtype=torch.float64).sin().view(2, 11, 12)
        readings.append(memory(x)[0])
    for other in readings[1:]:
        torch.testing.assert_close(other, readings[0], rtol=1e-10, atol=1e-10)
    assert memory.backend == "auto" and memory.backend_in_use == "fast"


def test_the_layer_is_its_parts_one_after_the_other():
    """Sections 3.1 and 4.4 by hand, for each row and head, down to the projections."""
    memory = make(dim=12, heads=2, depth=2, chunk_size=3, conv=3)
    x, heads, size = randn(2, 7, 12), 2, 6
    W_Q, W_K, W_V = memory.to_qkv.weight.split(12)
    taps = memory.conv.taps.split(12, dim=1)
    gate_weights, gate_biases = memory.to_gates.weight, memory.to_gates.bias

    def project(W, own_taps):  # [batch, time, dim]: projection, causal convolution, SiLU
        padded = F.pad((x @ W.mT).mT, (2, 0))  # [batch, dim, 2 + time]
        return F.silu(F.conv1d(padded, own_taps.mT[:, None], groups=12)).mT

    q, k, v = (project(W, own) for W, own in zip((W_Q, W_K, W_V), taps))
    expected = torch.zeros_like(x)
    for head in range(heads):
        mine = slice(head * size, (head + 1) * size)
        raw = [x @ gate_weights[i] + gate_biases[i] for i in range(head, 3 * heads, heads)]
        theta, eta, alpha = (r.sigmoid()[:, None] for r in raw)
        theta, eta, alpha = theta**4, 0.7 * eta, alpha**4
        before = F.pad(eta, (1, 0))[..., :-1]  # of the token before
        theta = theta * (1 - eta) * (1 - alpha)
        gates = Gates(theta, eta * (1 - eta) / (1 - before), alpha)
        unit = [z[..., mine] / z[..., mine].norm(dim=-1, keepdim=True) for z in (q, k)]
        start = MemoryState.start([w[head : head + 1] for w in memory.start_weights], 2)
        v_mine = v[..., mine] / v[..., mine].norm(dim=-1, keepdim=True).clamp(min=1)
        q_k_v = unit[0][:, None], unit[1][:, None], v_mine[:, None]
        y, _ = sequential(*q_k_v, gates, start, 3)
        y = y[:, 0] * (y[:, 0].square().mean(-1, keepdim=True) + torch.finfo(y.dtype).eps).rsqrt()
        expected[..., mine] = y * memory.out_norm.weight
    expected = (expected * F.silu(x @ memory.out_gate.weight.mT)) @ memory.to_out.weight.mT
    torch.testing.assert_close(memory(x)[0], expected, rtol=1e-8, atol=1e-8)


def test_gates_stay_inside_their_bounds_and_switches_make_them_zero():
    x = 100 * randn(2, 30, 12)
    for momentum, forgetting in ((True, True), (False, True), (True, False)):
        memory = make(momentum=momentum, forgetting=forgetting)
        _, _, trace = memory(x, trace=True)
        for gate, most in ((trace.theta, 1), (trace.eta, 0.7), (trace.alpha, 1)):
            assert ((gate >= 0) & (gate <= most)).all()
        assert trace.eta.ne(0).any() == momentum and trace.alpha.ne(0).any() == forgetting


def test_the_gates_begin_where_they_should():
    torch.manual_seed(0)
    for start in ({}, {"theta_start": 0.5, "eta_start": 0.6, "alpha_start": 1e-3}):
        memory = NeuralMemory(32, heads=2, chunk_size=4, **start)
        _, _, trace = memory(torch.randn(4, 50, 32), trace=True)
        expected = {"theta_start": 0.12, "eta_start": 0.35, "alpha_start": 1e-5} | start
        assert trace.theta.median() == pytest.approx(expected["theta_start"], rel=0.2)
        assert trace.eta.median() == pytest.approx(expected["eta_start"], rel=0.1)
        assert trace.alpha.median() == pytest.approx(expected["alpha_start"], rel=0.3)


def test_untrained_gates_hardly_depend_on_the_token():
    """`nn.Linear` starts with weights of variance 1 / (3 dim), and these are a tenth as large."""
    torch.manual_seed(0)
    _, _, trace = NeuralMemory(256, chunk_size=16)(torch.randn(1, 200, 256), trace=True)
    slope = 0.7 / 4  # of 0.7 σ at 0.35, its middle
    assert trace.eta.std().item() == pytest.approx(slope * 0.1 / 3**0.5, rel=0.1)


def test_the_convolution_starts_at_random_and_sees_all_its_tokens_alike():
    """An output has the size of an input, and each of four tokens has the same part in it."""
    torch.manual_seed(0)
    taps = NeuralMemory(64, conv=4).conv.taps  # [4, channels]
    assert taps.square().mean(1).tolist() == pytest.approx([1 / 4] * 4, rel=0.25)
    assert taps.mean(1).abs().max() < 0.15


def test_a_memory_begins_empty_unless_it_would_stay_so():
    for switches, empty in (({}, True), ({"residual": False}, False), ({"depth": 1}, True)):
        weights = NeuralMemory(16, heads=2, **switches).start_weights
        assert all(w.any() != empty for w in weights)


def test_the_traces_gates_are_those_the_layer_computed_and_the_rules_are_shares_of_them():
    memory = make(backend="sequential")
    x, seen = randn(1, 9, 12), []

    def recorded(q, k, v, gates, *arguments, **options):
        seen.append(gates)
        return sequential(q, k, v, gates, *arguments, **options)

    memory.rules = {"sequential": recorded}
    _, state, first = memory(x[:, :5], trace=True)
    _, _, second = memory(x[:, 5:], state, trace=True)
    theta, eta = torch.cat([first.theta, second.theta], -1), torch.cat([first.eta, second.eta], -1)
    used = [torch.cat([getattr(g, name) for g in seen], -1) for name in ("theta", "eta")]
    alpha = torch.cat([first.alpha, second.alpha], -1)
    torch.testing.assert_close(used[0], theta * (1 - eta) * (1 - alpha))
    rest = 1 - eta
    torch.testing.assert_close(used[1][..., 1:], eta[..., 1:] * rest[..., 1:] / rest[..., :-1])


def test_huge_values_are_shortened_before_they_are_written():
    memory = make(conv=0).float()
    _, _, trace = memory(1e15 * randn(1, 9, 12).float(), trace=True)
    assert trace.loss.max() <= 2


def test_a_chunk_shares_its_gates_across_calls():
    memory = make(gates="chunk", chunk_size=4)
    x = randn(1, 8, 12)
    _, state, first = memory(x[:, :3], trace=True)
    _, _, second = memory(x[:, 3:], state, trace=True)
    assert second.eta[..., 0].equal(first.eta[..., -1])
    assert second.eta[..., 1].ne(first.eta[..., -1]).all()


def test_a_sequence_shorter_than_a_chunk_is_stored():
    memory = make(chunk_size=64)
    _, state = memory(randn(1, 3, 12))
    for layer, before in zip(state.weights, memory.start(1).weights, strict=True):
        assert (layer - before).abs().max() > 1e-6


def test_gates_near_one_are_not_rounded_to_one_under_autocast():
    memory, x = make().float(), randn(1, 9, 12).float()
    with torch.no_grad():
        memory.to_gates.bias.view(3, -1)[0] = 7.0  # theta = 0.9991
    with torch.autocast("cpu", torch.bfloat16):
        _, _, trace = memory(x, trace=True)
    assert (trace.theta < 1).all()


def test_queries_keys_and_values_have_autocasts_precision(monkeypatch):
    """By which `backend_in_use` decides whether the kernels fit."""
    seen = []

    def recorded(q, k, v, *arguments, **options):
        seen.extend(x.dtype for x in (q, k, v))
        return chunked(q, k, v, *arguments, **options)

    monkeypatch.setitem(BACKENDS, "fast", recorded)
    for conv in (0, 4):
        with torch.autocast("cpu", torch.bfloat16):
            NeuralMemory(16, heads=2, conv=conv)(torch.randn(2, 9, 16))
    assert set(seen) == {torch.bfloat16}


def test_a_layer_on_the_meta_device_tells_shapes():
    with torch.device("meta"):
        memory = NeuralMemory(16, heads=2, chunk_size=4)
        y, state = memory(torch.empty(3, 9, 16))
    assert y.shape == (3, 9, 16) and state.weights[0].shape == (3, 2, 8, 8)


@pytest.mark.parametrize("backend", ["chunked", "fast", "scan"])
def test_the_way_back_may_run_under_autocast(backend):
    memory, x = make(backend=backend, exact=backend != "scan").float(), randn(2, 9, 12).float()
    gradients = []
    for enabled in (False, True):
        memory.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            memory(x)[0].float().square().sum().backward()
        gradients.append(memory.start_weights[0].grad.clone())
    assert (gradients[0] - gradients[1]).norm() < 0.05 * gradients[0].norm()


def test_bfloat16_and_autocast_keep_the_memory_in_float32():
    torch.manual_seed(0)
    memory = NeuralMemory(16, heads=2, chunk_size=4)
    x = torch.randn(2, 9, 16)
    expected, _ = memory(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = memory(x)
    assert state.weights[0].dtype == torch.float32
    assert (y - expected).abs().max() < 0.05
    y, state = memory.bfloat16()(x.bfloat16())
    assert y.dtype == torch.bfloat16 and state.weights[0].dtype == torch.float32
    assert (y - expected).abs().max() < 0.1


def test_asking_without_writing_computes_in_float32_under_autocast():
    memory, x = make().float(), randn(2, 9, 12).float()
    _, state = memory(x)
    with torch.autocast("cpu", torch.bfloat16):
        q = F.silu(F.linear(x, memory.to_qkv.weight[:12])).unflatten(-1, (2, 6)).transpose(1, 2)
        with torch.autocast("cpu", enabled=False):
            answers = network.read(state.weights, network.unit(q).float())
        assert torch.equal(memory.read(x, state.weights), memory.answer(x, answers))


def test_asking_without_writing_refuses_what_does_not_fit():
    memory, x = make(), randn(2, 9, 12)
    _, state = memory(x)
    with pytest.raises(TypeError, match="weights: got MemoryState, expected a list of tensors"):
        memory.read(x, state)
    with pytest.raises(ValueError, match="state: made for batch 2 and 2 heads, expected batch 1"):
        memory.read(x[:1], state.weights)
    with pytest.raises(ValueError, match="x: got 11 for the axis 'dim'"):
        memory.read(x[..., 1:], state.weights)


def test_a_state_whose_memory_was_rounded_is_refused():
    memory, x = make().float(), randn(2, 9, 12).float()
    _, state = memory(x)
    with pytest.raises(TypeError, match=r"weights are bfloat16, .*use state.to\(torch.float32\)"):
        memory(x, state.to(torch.bfloat16))
    memory(x, state.to(torch.bfloat16).to(torch.float32))


def test_a_state_that_the_layer_did_not_make_is_refused():
    memory, x = make(), randn(2, 9, 12)
    _, state = memory(x)
    with pytest.raises(
        ValueError, match=r"state.conv: got shape \[2, 3, 9\], expected \[2, 3, 36\]"
    ):
        memory(x, replace(state, conv=state.conv[..., :9]))
    shared = make(gates="chunk", conv=0)
    _, state = shared(x)
    with pytest.raises(ValueError, match="state: has no gates for its open chunk"):
        shared(x, replace(state, gates=None))


def test_a_saved_layer_loads_into_another():
    first, second = make(seed=1), make(seed=2)
    second.load_state_dict(first.state_dict())
    x = randn(1, 6, 12)
    assert torch.equal(first(x)[0], second(x)[0])


@pytest.mark.slow
def test_it_can_be_trained_to_recall():
    """Pairs in, then a key alone: the outer loop learns to use the memory (three seeds)."""
    for seed in range(3):
        torch.manual_seed(seed)
        memory = NeuralMemory(32, heads=1, depth=1, chunk_size=1, conv=2)
        codes = torch.nn.functional.normalize(torch.randn(40, 16), dim=-1)
        optimiser = torch.optim.AdamW(memory.parameters(), 5e-3)
        losses = []
        for _ in range(600):
            order = torch.stack([torch.randperm(40)[:8] for _ in range(16)])
            keys, values = codes[order[:, :4]], codes[order[:, 4:]]
            pairs = torch.cat([keys, values], -1)
            question = torch.cat([keys[:, :1], torch.zeros(16, 1, 16)], -1)
            y, _ = memory(torch.cat([pairs, question], 1))
            loss = (y[:, -1, :16] - values[:, 0]).square().sum(-1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert sum(losses[-20:]) / 20 < 0.5, f"seed {seed}: {losses[-1]}"  # a guess costs 1
