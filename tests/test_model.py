"""Every variant of the model: what its users rely on."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minititans import TitansConfig, TitansLM
from minititans.config import ATTENTIONS, PRESETS, VARIANTS
from minititans.model import ModelState, count_parameters
from minititans.relatives import RELATIVES

ALL = [*VARIANTS, *ATTENTIONS, *RELATIVES, "gated_deltanet+swa"]
every_variant = pytest.mark.parametrize("variant", ALL)
SMALL = {"vocab_size": 11, "dim": 8, "layers": 2, "heads": 2, "window": 5, "segment": 6}


def make(variant="mac", seed=0, **changes) -> TitansLM:
    torch.manual_seed(seed)
    settings = SMALL | {"chunk_size": 4, "persistent": 2} | changes
    return TitansLM(TitansConfig(variant, **settings)).double().eval()


def tokens(batch=2, time=21, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(11, (batch, time), generator=rng)


@every_variant
def test_a_token_changes_nothing_before_it(variant):
    model, x = make(variant), tokens(1)
    logits, _ = model(x)
    for t in range(21):
        changed = x.clone()
        changed[:, t] = (changed[:, t] + 1) % 11
        difference = (model(changed)[0] - logits).abs().amax((0, 2))
        assert difference[:t].eq(0).all(), f"token {t} reaches back"
        assert difference[t] > 1e-9


@pytest.mark.parametrize(
    "variant",
    [*VARIANTS, "transformer", "persistent_transformer", *RELATIVES, "gated_deltanet+swa"],
)
def test_a_token_reaches_beyond_the_window(variant):
    """Further back than any window or segment of attention: only a memory carries it."""
    model, x = make(variant, layers=1 if "+" not in variant else 2), tokens(1, 40)
    changed = x.clone()
    changed[:, 2] = (changed[:, 2] + 1) % 11
    assert (model(changed)[0] - model(x)[0])[:, -1].abs().max() > 1e-12


def test_a_sliding_window_alone_sees_no_further():
    model, x = make("swa", layers=1), tokens(1, 40)
    changed = x.clone()
    changed[:, 2] = (changed[:, 2] + 1) % 11
    assert (model(changed)[0] - model(x)[0])[:, 7:].abs().max() == 0


@pytest.mark.parametrize("variant", ["transformer", "swa"])
def test_the_plain_baselines_have_no_persistent_tokens(variant):
    """Asking for some changes nothing, unless it is asked for by name."""
    x, plain = tokens(), make(variant, persistent=0)
    assert torch.equal(make(variant, persistent=3)(x)[0], plain(x)[0])
    with_p = make(f"persistent_{variant}", persistent=3).config
    assert count_parameters(with_p) == count_parameters(plain.config) + 2 * 3 * 8  # layers, p, dim


def test_mac_to_the_letter_sees_the_future():
    model, x = make("mac", literal=True), tokens(1, 12)
    changed = x.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 11
    difference = (model(changed)[0] - model(x)[0]).abs().amax((0, 2))
    assert difference[:5].max() > 1e-6
    causal = make("mac")
    assert (causal(changed)[0] - causal(x)[0])[:, :5].abs().max() == 0


def test_mac_to_the_letter_refuses_half_a_segment():
    model = make("mac", literal=True)
    segment = model.config.segment
    _, state = model(tokens(1, segment))
    _, state = model(tokens(1, segment + 1), state)  # ends one token into the next
    with pytest.raises(ValueError, match=f"state: ended 1 tokens into a segment of {segment}"):
        model(tokens(1, 3), state)


def test_mac_to_the_letter_refuses_to_generate_before_it_reads():
    model, read = make("mac", literal=True), []
    model.embed.register_forward_hook(lambda *_: read.append(True))
    for time in (model.config.segment, 3):
        with pytest.raises(ValueError, match=r"^literal: got a model with literal=True"):
            model.generate(tokens(1, time), 2)
    assert not read


@every_variant
def test_batch_rows_do_not_see_each_other(variant):
    model, x = make(variant), tokens(3)
    together, _ = model(x)
    for row in range(3):
        torch.testing.assert_close(model(x[row : row + 1])[0], together[row : row + 1])


@every_variant
@pytest.mark.parametrize("tie", [True, False])
def test_every_parameter_gets_a_gradient(variant, tie):
    model = make(variant, tie=tie)
    model(tokens())[0].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@every_variant
@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(1, 20), max_size=5))
def test_any_split_equals_the_whole(variant, cuts):
    model, x = make(variant), tokens()
    expected, _ = model(x)
    state, parts = None, []
    for part in torch.tensor_split(x, sorted(set(cuts)), dim=1):
        logits, state = model(part, state)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-9, atol=1e-9)
    assert state.tokens == 21


@every_variant
def test_generation_token_by_token_equals_one_pass(variant):
    model, prompt = make(variant), tokens(2, 9)
    out = model.generate(prompt, 13, temperature=0)
    assert out.shape == (2, 22) and torch.equal(out[:, :9], prompt)
    logits, _ = model(out[:, :-1])
    assert torch.equal(logits[:, 8:].argmax(-1), out[:, 9:])


@every_variant
def test_the_same_call_twice_gives_the_same_result(variant):
    model, x = make(variant), tokens()
    first, state = model(x)
    assert torch.equal(model(x)[0], first)
    assert torch.equal(model(x, state)[0], model(x, state)[0])


@every_variant
def test_saved_and_loaded_model_and_state_carry_on(variant, tmp_path):
    model, x = make(variant), tokens()
    _, state = model(x[:, :10])
    model.save(tmp_path / "model.safetensors")
    state.save(tmp_path / "state.safetensors")
    loaded = TitansLM.load(tmp_path / "model.safetensors").double()
    loaded_state = ModelState.load(tmp_path / "state.safetensors")
    assert loaded.config == model.config
    expected, _ = model(x[:, 10:], state)
    assert torch.equal(loaded(x[:, 10:], loaded_state)[0], expected)


@every_variant
def test_checkpointing_changes_no_gradient(variant):
    grads = []
    for checkpoint in (False, True):
        model = make(variant, checkpoint=checkpoint)
        model(tokens())[0].square().sum().backward()
        grads.append({name: p.grad for name, p in model.named_parameters()})
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad)


@pytest.mark.parametrize("variant", [*VARIANTS, "swa", *RELATIVES])
def test_the_state_does_not_grow(variant):
    model = make(variant)

    def size(state):  # what is kept alive: a view keeps all that it is a view of
        storages = {}

        def add(tensor):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        state.map(add)
        return sum(storages.values())

    with torch.no_grad():
        _, state = model(tokens(1, 120))
        once = size(state)
        _, state = model(tokens(1, 480), state)
    assert size(state) == once


def test_generation_is_repeatable_with_a_seed_and_keeps_to_top_k():
    model, prompt = make(), tokens(1, 4)
    a, b = (model.generate(prompt, 20, temperature=1.5, seed=3) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, model.generate(prompt, 20, temperature=1.5, seed=4))
    greedy = model.generate(prompt, 20, temperature=0)
    assert torch.equal(greedy, model.generate(prompt, 20, temperature=5.0, top_k=1))


def test_generation_goes_on_from_a_state():
    model, x = make(), tokens(1, 12)
    _, state = model(x[:, :7])
    whole = model.generate(x, 6, temperature=0)
    assert torch.equal(model.generate(x[:, 7:], 6, temperature=0, state=state), whole[:, 7:])


@pytest.mark.parametrize("name, variant", list(itertools.product(PRESETS, VARIANTS)))
def test_presets_have_the_size_of_their_name(name, variant):
    config = TitansConfig.preset(name, variant)
    size = float(name[:-1]) * 1e6
    assert config.vocab_size == 32_000
    assert abs(count_parameters(config) / size - 1) < 0.05


def test_models_can_be_compared_at_equal_parameters():
    for variant in ALL:
        size = count_parameters(TitansConfig(variant).with_parameters(200_000))
        assert abs(size / 200_000 - 1) < 0.01, variant


def test_persistent_tokens_can_be_left_out():
    for variant in VARIANTS:
        model = make(variant, persistent=0)
        assert not any("persistent" in name for name, _ in model.named_parameters())
        model(tokens())


def test_detaching_a_model_state_stops_gradients():
    model, x = make("mag"), tokens()
    _, state = model(x[:, :9])
    model.zero_grad()
    logits, _ = model(x[:, 9:], state.detach())
    logits.sum().backward()
    starts = [p.grad for n, p in model.named_parameters() if "start_weights" in n]
    assert all(grad is None or grad.abs().max() == 0 for grad in starts)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"variant": "mamba9"}, "variant: got 'mamba9', expected one of 'mac'"),
        ({"dim": 0}, "dim: got 0"),
        ({"layers": 1.5}, "layers: got 1.5"),
        ({"persistent": -1}, "persistent: got -1, expected a whole number of at least 0"),
        ({"persistent": True}, "persistent: got True"),
        ({"ff": "abc"}, "ff: got 'abc', expected a whole number of at least 1"),
        ({"variant": 3}, "variant: got 3, expected a string"),
        ({"momentum": 2}, "momentum: got 2, expected True or False"),
        ({"tie": "no"}, "tie: got 'no', expected True or False"),
        ({"depth": 2.0}, "depth: got 2.0, expected a whole number"),
        ({"gates": "word"}, "gates: got 'word', expected one of 'token', 'chunk'"),
        ({"theta_start": -1}, "theta_start: got -1, expected a finite number above 0 and below 1"),
        ({"eta_start": 0.7}, "eta_start: got 0.7, expected a finite number above 0 and below 0.7"),
        (
            {"alpha_start": "1"},
            "alpha_start: got '1', expected a finite number above 0 and below 1",
        ),
        ({"ff": 0}, "ff: got 0"),
        ({"variant": "mag", "literal": True}, "literal: got True, expected False: it is for 'mac'"),
        ({"window": 0}, "window: got 0"),
    ],
    ids=str,
)
def test_a_bad_configuration_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TitansLM(TitansConfig(**(SMALL | change)))


@pytest.mark.parametrize(
    "bad, error, message",
    [
        (torch.zeros(2, 3), TypeError, "tokens: got float32, expected"),
        ([1, 2], TypeError, "tokens: got list"),
        (torch.zeros(3).long(), ValueError, r"tokens: got shape \[3\]"),
        (torch.zeros(2, 0).long(), ValueError, r"tokens: got shape \[2, 0\]"),
        (torch.full((1, 3), 11), ValueError, "tokens: got values from 11 to 11, expected 0 to 10"),
        (torch.full((1, 3), -1), ValueError, "tokens: got values from -1"),
    ],
    ids=range(6),
)
def test_bad_tokens_are_refused(bad, error, message):
    with pytest.raises(error, match=message):
        make()(bad)


def test_a_state_of_another_model_is_refused():
    x = tokens()
    _, state = make("mac", layers=1)(x)
    with pytest.raises(ValueError, match="state: made for 1 layers, expected 2"):
        make("mac")(x, state)
    with pytest.raises(TypeError, match="state: got str"):
        make("mac")(x, "state")
    _, state = make("mag")(x)
    with pytest.raises(TypeError, match="state: got MAGState, expected a MACState"):
        make("mac")(x, state)


@pytest.mark.parametrize("variant", ["mac", "mag", "swa", "transformer"])
def test_a_state_of_another_batch_is_refused(variant):
    model = make(variant)
    _, state = model(tokens(batch=2))
    with pytest.raises(ValueError, match="state: made for batch 2"):
        model(tokens(batch=1), state)


def test_a_state_of_another_segment_or_window_is_refused():
    _, state = make("mac", segment=6)(tokens(time=11))
    with pytest.raises(ValueError, match="state: made with segments of 6, expected 4"):
        make("mac", segment=4)(tokens(), state)
    _, state = make("swa", window=5)(tokens())
    with pytest.raises(ValueError, match="made with a window other than 8"):
        make("swa", window=8)(tokens(), state)


def test_a_long_prompt_is_read_in_parts(monkeypatch):
    model, prompt = make("mac"), tokens(time=23)
    whole = model.generate(prompt, 5, temperature=0)
    monkeypatch.setattr("minititans.model.PART", 7)
    assert torch.equal(model.generate(prompt, 5, temperature=0), whole)
    sizes = []
    model.head.register_forward_hook(lambda _, inputs, __: sizes.append(inputs[0].shape))
    model.generate(prompt, 2, temperature=0)
    assert sizes == [(2, 8), (2, 8)]  # the head sees the last position only


@pytest.mark.parametrize("temperature", [float("nan"), float("inf"), -1.0])
def test_an_impossible_temperature_is_refused_and_a_tiny_one_is_greedy(temperature):
    model, prompt = make("lmm"), tokens()
    with pytest.raises(ValueError, match="temperature: got"):
        model.generate(prompt, 1, temperature=temperature)
    greedy = model.generate(prompt, 5, temperature=0)
    assert torch.equal(model.generate(prompt, 5, temperature=1e-40, seed=0), greedy)
    assert torch.equal(model.generate(prompt.to(torch.uint8), 5, temperature=0), greedy)


def test_too_few_parameters_are_refused_with_the_number():
    with pytest.raises(ValueError, match="target: got 10 parameters, but this mac has"):
        TitansConfig().with_parameters(10)
