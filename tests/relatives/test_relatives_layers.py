"""The relatives as layers: what every user of one relies on, for each of them."""

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_relatives_rule import randn

from minititans import NeuralMemory
from minititans.instruments import switch_memory
from minititans.relatives import RELATIVES, Relative, RelativeState
from minititans.relatives.ttt import ttt
from minititans.state import State

every_relative = pytest.mark.parametrize("name", RELATIVES)
every_linear_relative = pytest.mark.parametrize(
    "name", [name for name in RELATIVES if not name.startswith("ttt")]
)


def make(name, dim=12, seed=0, **switches):
    torch.manual_seed(seed)
    return RELATIVES[name](**({"dim": dim, "heads": 2, "chunk_size": 4} | switches)).double()


def tensors(state: State) -> list[torch.Tensor]:
    found = []
    state.map(lambda tensor: found.append(tensor) or tensor)
    return found


def test_the_table_has_every_relative():
    names = (
        "linear_attention, retnet, gla, hgrn2, mamba2, deltanet, gated_deltanet, longhorn, "
        "ttt_linear, ttt_mlp, rwkv7"
    )
    assert ", ".join(RELATIVES) == names


@every_relative
@pytest.mark.parametrize("conv", [0, 4])
def test_a_token_changes_nothing_before_it(name, conv):
    layer = make(name, conv=conv)
    x = randn(2, 11, 12)
    y, _ = layer(x)
    for t in range(11):
        changed = x.clone()
        changed[:, t] += 1
        difference = (layer(changed)[0] - y).abs().amax((0, 2))
        assert (difference[:t] == 0).all(), t
        assert difference[t] > 1e-9, f"token {t} does not matter even to itself"


@every_relative
def test_a_token_is_remembered_by_later_ones(name):
    layer = make(name, conv=0)
    x = randn(1, 14, 12)
    changed = x.clone()
    changed[:, 1] += 1
    assert (layer(changed)[0] - layer(x)[0])[:, -1].abs().max() > 1e-6


@every_relative
def test_batch_rows_do_not_see_each_other(name):
    layer = make(name)
    x = randn(3, 9, 12)
    y, state = layer(x)
    for row in range(3):
        alone, alone_state = layer(x[row : row + 1])
        torch.testing.assert_close(y[row : row + 1], alone)
        for ours, theirs in zip(tensors(state), tensors(alone_state), strict=True):
            torch.testing.assert_close(ours[row], theirs[0])


@every_relative
def test_every_parameter_gets_a_gradient(name):
    layer = make(name)
    y, _ = layer(randn(2, 11, 12))
    y.square().sum().backward()
    for parameter_name, parameter in layer.named_parameters():
        assert parameter.grad is not None, f"{parameter_name} is not used"
        assert parameter.grad.abs().max() > 0, f"{parameter_name} has no influence"


@every_relative
def test_the_same_call_twice_gives_the_same_result(name):
    layer = make(name)
    x = randn(2, 7, 12)
    before = x.clone()
    _, state = layer(x)
    kept = state.clone()
    assert torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(layer(x, state)[0], layer(x, state)[0])
    assert torch.equal(x, before)
    assert all(torch.equal(a, b) for a, b in zip(tensors(state), tensors(kept), strict=True))


@every_relative
@pytest.mark.parametrize("conv", [0, 1, 4])
def test_single_tokens_give_the_reading_of_the_whole(name, conv):
    layer = make(name, conv=conv)
    x = randn(2, 10, 12)
    expected, expected_state = layer(x)
    state, parts = None, []
    for token in x.unbind(1):
        y, state = layer(token[:, None], state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(tensors(state), tensors(expected_state), strict=True):
        torch.testing.assert_close(ours, theirs)


@every_relative
@settings(max_examples=12, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 24), max_size=5),
    conv=st.integers(0, 5),
    chunk_size=st.integers(1, 9),
)
def test_any_split_gives_the_reading_and_the_gradients_of_the_whole(name, cuts, **switches):
    layer = make(name, **switches)
    x = randn(2, 25, 12)
    wave = torch.arange(25 * 12, dtype=torch.float64).sin().view(25, 12)

    def gradients(y):
        return torch.autograd.grad((y * wave).sum(), list(layer.parameters()))

    expected, _ = layer(x)
    state, parts = None, []
    for part in torch.tensor_split(x, sorted(set(cuts)), dim=1):
        y, state = layer(part, state)
        parts.append(y)
    y = torch.cat(parts, 1)
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients(y), gradients(expected), rtol=1e-8, atol=1e-8)


@every_linear_relative
def test_the_chunk_size_changes_nothing(name):
    x = randn(2, 30, 12)
    expected, _ = make(name, chunk_size=1)(x)
    for chunk_size in (3, 16, 64):
        y, _ = make(name, chunk_size=chunk_size)(x)
        torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-9)


@every_relative
@pytest.mark.parametrize("dim, heads", [(64, 2), (256, 4)])
def test_a_layer_has_about_as_many_parameters_as_a_memory(name, dim, heads):
    """So that experiments compare like with like."""

    def count(module):
        return sum(p.numel() for p in module.parameters())

    memory = count(NeuralMemory(dim, heads=heads, depth=2 if name == "ttt_mlp" else 1))
    assert count(RELATIVES[name](dim=dim, heads=heads)) == pytest.approx(memory, rel=0.12)


@every_relative
def test_a_long_hostile_input_leaves_it_finite(name):
    """Huge vectors, one of them repeated, a thousand times over."""
    torch.manual_seed(0)
    layer = RELATIVES[name](dim=16, heads=2)
    state = None
    with torch.no_grad():
        for _ in range(10):
            x = 100 * torch.randn(1, 500, 16)
            x[:, 100:400] = x[:, 100:101]
            y, state = layer(x, state)
    assert torch.isfinite(y).all()
    assert all(torch.isfinite(tensor).all() for tensor in tensors(state))


@every_linear_relative
def test_bfloat16_and_autocast_keep_the_memory_in_float32(name):
    torch.manual_seed(0)
    layer = RELATIVES[name](dim=16, heads=2)
    x = torch.randn(2, 9, 16)
    expected, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = layer(x)
    assert state.S.dtype == torch.float32
    assert (y - expected).abs().mean() < 0.02  # the norm magnifies a reading that is near zero
    y, state = layer.bfloat16()(x.bfloat16())
    assert y.dtype == torch.bfloat16 and state.S.dtype == torch.float32
    assert (y - expected).abs().mean() < 0.02  # the norm magnifies a reading that is near zero


@every_relative
def test_a_saved_state_carries_on(name, tmp_path):
    layer = make(name)
    x = randn(2, 10, 12)
    expected, _ = layer(x)
    _, state = layer(x[:, :6])
    state.save(tmp_path / "state.safetensors")
    y, _ = layer(x[:, 6:], type(state).load(tmp_path / "state.safetensors"))
    torch.testing.assert_close(y, expected[:, 6:], rtol=1e-9, atol=1e-9)


@every_relative
def test_a_saved_layer_loads_into_another(name):
    first, second = make(name, seed=1), make(name, seed=2)
    x = randn(1, 6, 12)
    assert not torch.equal(first(x)[0], second(x)[0])
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x)[0], second(x)[0])


@every_linear_relative
def test_a_state_does_not_grow_with_the_sequence(name):
    layer = make(name)
    sizes = []
    for time in (5, 500):
        _, state = layer(randn(1, time, 12))
        assert state.position == time
        sizes.append([tensor.shape for tensor in tensors(state)])
    assert sizes[0] == sizes[1]
    assert [field.name for field in fields(state)] == ["S", "position", "conv"]


@every_relative
@pytest.mark.parametrize(
    "switches, message",
    [
        ({"dim": 0}, "dim: got 0"),
        ({"heads": -1}, "heads: got -1"),
        ({"heads": 5}, "dim: got 12, expected a multiple of heads, 5"),
        ({"chunk_size": 2.5}, "chunk_size: got 2.5"),
        ({"conv": -1}, "conv: got -1"),
    ],
)
def test_bad_settings_are_refused_by_name(name, switches, message):
    with pytest.raises(ValueError, match=message):
        make(name, **switches)


@every_relative
def test_bad_input_is_refused_by_name(name):
    layer = make(name)
    with pytest.raises(ValueError, match="x: got 10 for the axis 'dim'"):
        layer(randn(2, 5, 10))
    with pytest.raises(ValueError, match="x: got shape"):
        layer(randn(5, 12))
    with pytest.raises(TypeError, match=r"x: got torch\.int64"):
        layer(torch.zeros(2, 5, 12, dtype=torch.int64))
    with pytest.raises(ValueError, match="x: contains NaN"):
        layer(randn(2, 5, 12) * torch.nan)
    with pytest.raises(TypeError, match="state: got dict"):
        layer(randn(2, 5, 12), {})
    _, state = layer(randn(3, 5, 12))
    with pytest.raises(ValueError, match=r"state: .*3"):
        layer(randn(2, 5, 12), state)
    with pytest.raises(ValueError, match=r"state: made by a .* with conv=4, expected conv=0"):
        make(name, conv=0)(randn(3, 5, 12), state)


def test_a_state_of_another_layer_is_refused():
    _, memory_state = make("ttt_linear")(randn(2, 5, 12))
    _, relative_state = make("gla")(randn(2, 5, 12))
    assert isinstance(relative_state, RelativeState)
    with pytest.raises(TypeError, match="state: got MemoryState, expected a RelativeState"):
        make("gla")(randn(2, 5, 12), memory_state)
    with pytest.raises(TypeError, match="state: got RelativeState, expected a MemoryState"):
        make("ttt_linear")(randn(2, 5, 12), relative_state)


def test_retnet_needs_channels_in_pairs():
    with pytest.raises(ValueError, match="heads: got 4 for dim 12, expected an even number"):
        make("retnet", heads=4)


def test_ttt_is_the_memory_with_two_gates_shut():
    for name in ("ttt_linear", "ttt_mlp"):
        layer = make(name)
        *_, trace = layer(randn(1, 9, 12), trace=True)
        assert trace.eta.eq(0).all() and trace.alpha.eq(0).all() and trace.theta.gt(0).all()
        assert list(layer.rules.values()) == [ttt]
        assert layer.depth == (1 if name == "ttt_linear" else 2)


@pytest.mark.parametrize("name", ["ttt_linear", "ttt_mlp"])
def test_a_ttt_that_does_not_write_answers_as_when_it_is_only_asked(name):
    layer, x = make(name, conv=0), randn(2, 11, 12)
    _, state = layer(x[:, :6])
    with switch_memory(layer, writing=False):
        y, _ = layer(x[:, 6:], state)
    torch.testing.assert_close(layer.read(x[:, 6:], state.weights), y)


@every_linear_relative
def test_a_learned_decay_begins_by_forgetting_what_the_memory_forgets(name):
    layer = make(name, dim=32)
    assert isinstance(layer, Relative)
    x, position = randn(2, 20, 32), 0
    q, k, v = 0.1 * randn(3, 2, 2, 20, 16)
    decay = layer.projection(x, q, k, v, position).decay
    if name in ("linear_attention", "deltanet", "longhorn"):
        assert decay.eq(1).all()
    elif name == "retnet":
        torch.testing.assert_close(decay[0, :, 0], 1 - torch.tensor([1 / 32, 1 / 64]).double())
    else:
        forgets = (1 - decay).log().mean().exp().item()  # the geometric mean
        alpha = NeuralMemory(32, heads=2).to_gates.bias[-2:].sigmoid().mean().item() ** 4
        assert forgets == pytest.approx(alpha, rel=0.2)


@pytest.mark.slow
@every_relative
def test_it_can_be_trained_to_recall(name):
    """Four pairs in, then a key alone: the defaults are such that every relative learns it."""
    torch.manual_seed(0)
    layer = RELATIVES[name](dim=32, heads=1, conv=2, chunk_size=1 if "ttt" in name else 16)
    codes = torch.nn.functional.normalize(torch.randn(40, 16), dim=-1)
    optimiser = torch.optim.AdamW(layer.parameters(), 5e-3)
    losses = []
    for _ in range(600):
        order = torch.stack([torch.randperm(40)[:8] for _ in range(16)])
        keys, values = codes[order[:, :4]], codes[order[:, 4:]]
        question = torch.cat([keys[:, :1], torch.zeros(16, 1, 16)], -1)
        y, _ = layer(torch.cat([torch.cat([keys, values], -1), question], 1))
        loss = (y[:, -1, :16] - values[:, 0]).square().sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-20:]) / 20 < 0.6  # a guess costs 1
