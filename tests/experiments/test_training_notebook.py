"""What notebook 09 measures: a trained model's reading, its gates, what its memory is worth."""

import math

import pytest
import torch
import torch.nn.functional as F

from minititans import TitansConfig, TitansLM
from minititans.experiments import models
from minititans.experiments.live_training import SMALL, optimiser_for, stored_curve
from minititans.experiments.memory_worth import (
    Worth,
    bits_of,
    in_one_stream,
    memory_worth,
    read_again,
)
from minititans.experiments.text_reading import (
    BEFORE,
    by_kind,
    kinds,
    likeness,
    read_text,
    state_after,
)
from minititans.instruments import switch_memory, watch_memory
from minititans.memory import NeuralMemory, Trace
from minititans.training.evaluate import bits_per_byte

TINY = TitansConfig(variant="mac", dim=16, layers=2, heads=2, segment=8, chunk_size=4)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = TitansLM(TINY)
    with torch.no_grad():  # memories that start with something, and gates that differ
        for name, parameter in model.named_parameters():
            if "start_weights" in name or "to_gates.weight" in name:
                parameter.normal_(std=0.5)
    return model.eval()


@pytest.fixture(scope="module")
def text():
    return torch.randint(256, (500,), generator=torch.Generator().manual_seed(1)).to(torch.uint8)


# The trace of every memory.


def test_watching_changes_nothing_and_sees_what_a_memory_itself_would_tell():
    torch.manual_seed(0)
    memory, x = NeuralMemory(dim=8, heads=2), torch.randn(3, 10, 8)
    y, state, trace = memory(x, trace=True)
    with watch_memory(torch.nn.Sequential(memory)) as seen:
        watched, watched_state = memory(x)
    assert torch.equal(y, watched) and torch.equal(state.weights[-1], watched_state.weights[-1])
    assert all(torch.equal(vars(trace)[name], vars(seen["0"][0])[name]) for name in vars(trace))
    assert len(memory(x)) == 2, "it is still being watched"


def test_a_model_is_watched_segment_by_segment(model):
    tokens = torch.randint(256, (2, 20))
    with watch_memory(model) as seen:
        watched, _ = model(tokens)
    torch.testing.assert_close(watched, model(tokens)[0])  # traced by the plain form
    assert list(seen) == ["blocks.0.mixer.memory", "blocks.1.mixer.memory"]
    assert [trace.theta.shape[-1] for trace in seen["blocks.0.mixer.memory"]] == [8, 8, 4]
    joined = Trace.join(seen["blocks.0.mixer.memory"])
    assert joined.surprise.shape == (2, 2, 20)


# A text, letter by letter.


def test_expectations_are_the_models_and_their_bits_are_bits_per_byte(model):
    said = b"a rose is a rose"
    reading = read_text(model, said)
    with torch.no_grad():
        logits, _ = model(torch.tensor([list(BEFORE + said)]))
    torch.testing.assert_close(reading.expected, logits[0, 1:].softmax(-1))
    nats = F.cross_entropy(logits[0, 1:-1], torch.tensor(list(said)))
    assert float(reading.bits.mean()) == pytest.approx(float(nats) / math.log(2), rel=1e-5)
    assert reading.expected.shape == (len(said) + 1, 256)


def test_gates_are_those_of_the_letters_and_not_of_what_comes_before_them(model):
    said = b"a rose is a rose"
    reading = read_text(model, said)
    seen = []
    memory = model.blocks[0].mixer.memory
    hook = memory.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(torch.tensor([list(BEFORE + said)]))
    hook.remove()
    gates = memory._gates_of(torch.cat(seen, 1))  # [1, heads, time]
    for name in ("theta", "eta", "alpha"):
        torch.testing.assert_close(getattr(reading, name)[0], getattr(gates, name)[0, :, 2:])


def test_without_writes_a_memory_stays_at_its_start(model):
    said = b"a rose is a rose"
    with switch_memory(model, writing=False):
        logits, _ = model(torch.tensor([list(BEFORE + said)]))
    reading = read_text(model, said, writing=False)
    torch.testing.assert_close(reading.expected, logits[0, 1:].softmax(-1))
    assert not torch.allclose(reading.expected, read_text(model, said).expected)


def test_a_state_ends_with_a_segment(model):
    state = state_after(model, b"a rose")
    assert state.tokens == 8 and all(block.position == 0 for block in state.blocks)
    again = read_text(model, b"a rose", state=state)
    assert not torch.allclose(again.expected, read_text(model, b"a rose").expected)
    with pytest.raises(ValueError, match="text: got no bytes"):
        read_text(model, b"")


def test_kinds_of_letters():
    assert kinds(b"It is\n(x1).") == [
        "first letter", "inside a word", "space", "first letter", "inside a word", "newline",
        "other", "first letter", "other", "other", "other",
    ]  # fmt: skip
    assert kinds("é".encode()) == ["other", "other"]


def test_means_by_kind_and_likeness_are_what_they_say(model):
    reading = read_text(model, b"a be see\n.")
    found, which = by_kind(reading, "theta"), kinds(reading.text)
    for kind, means in found.items():
        places = [i for i, each in enumerate(which) if each == kind]
        torch.testing.assert_close(means, reading.theta[..., places].mean(-1))
    pairs = torch.stack([reading.surprise[1, 0], reading.bits])
    torch.testing.assert_close(likeness(reading)[1, 0], torch.corrcoef(pairs)[0, 1])


# What the memory is worth.


def test_bits_of_a_carried_text_are_the_librarys_score(model, text):
    bits = bits_of(model, text[None].long(), piece=24)
    assert bits.shape == (1, 499)
    assert float(bits.mean()) == pytest.approx(bits_per_byte(model, text), rel=1e-5)
    model.eval()
    torch.testing.assert_close(in_one_stream(model, text, 499), bits[0], atol=1e-4, rtol=1e-4)


def test_a_dropped_state_is_no_state(model, text):
    worth = memory_worth(model, text, stretches=3, length=40)
    rows = [text[40 * n : 40 * n + 41].long() for n in range(3)]
    for row, found in zip(rows, worth.bits["dropped"]):
        parts = [bits_of(model, row[None, i : i + 9], 8)[0] for i in range(0, 40, 8)]
        torch.testing.assert_close(torch.cat(parts), found, atol=1e-4, rtol=1e-4)
    first = slice(0, 8)  # in the first segment there is nothing to drop
    for way in ("as trained", "dropped"):
        torch.testing.assert_close(worth.bits[way][:, first], worth.bits["dropped"][:, first])
    assert worth.gain("dropped", first=8)[0] != 0


def test_ways_switch_what_they_say(model, text):
    worth = memory_worth(model, text, stretches=2, length=32)
    rows = torch.stack([text[:33], text[32:65]]).long()
    for way, switch in (("no writes", {"writing": False}), ("no memory", {"reading": False})):
        with switch_memory(model, **switch):
            torch.testing.assert_close(worth.bits[way], bits_of(model, rows, 8))
    with pytest.raises(ValueError, match="got 500 bytes, expected more than 16 times 2,048"):
        memory_worth(model, text)


def test_gains_are_means_of_paired_differences():
    trained = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]])
    worth = Worth({"as trained": trained, "dropped": trained + torch.tensor([[1.0], [3.0]])})
    assert worth.gain("dropped") == pytest.approx((2.0, 1.0))
    assert worth.by_position("as trained", 2) == ([1.0, 3.0], [3.25, 4.25])
    assert worth.mean("as trained") == pytest.approx(3.75)


def test_a_second_reading_goes_on_from_the_first(model, text):
    first, again = read_again(model, text, passages=4)
    passage = text[:8].long()
    bits = bits_of(model, torch.cat([passage, passage, passage[:1]])[None], 16)[0]
    assert float(first[0]) == pytest.approx(float(bits[:7].mean()), rel=1e-4)
    assert float(again[0]) == pytest.approx(float(bits[8:15].mean()), rel=1e-4)


# Training.


def test_a_stored_curve_has_its_first_losses_and_then_its_means():
    record = models.Record("", 0, 1, [1.0] * 20, [9.0, 0.5, 0.25], {}, {}, 1)
    steps, bits = stored_curve(record)
    assert steps == [*range(1, 21), 75, 125]
    assert bits == pytest.approx([x / math.log(2) for x in [1.0] * 20 + [0.5, 0.25]])


def test_the_small_model_is_small_and_its_rate_rises_and_falls():
    model = TitansLM(SMALL)
    assert sum(p.numel() for p in model.parameters()) < 200_000
    optimiser, schedule = optimiser_for(model, steps=20)
    rates = []
    for _ in range(20):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    assert max(rates) == pytest.approx(8e-3) and rates.index(max(rates)) in (1, 2)
    assert rates[-1] < 1e-4
