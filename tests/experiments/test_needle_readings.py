"""Stored readings are what the stored models answer, and are refused when a model has changed."""

import pytest
import torch

from minititans import TitansConfig, TitansLM
from minititans.experiments import needle_models, needle_readings
from minititans.experiments.needle_fading import BLOCK, MOMENTS, PLACES, ask, fade, plant
from minititans.tasks.needle import Needle

SMALL = {"vocab_size": 64, "dim": 16, "layers": 1, "heads": 2}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place of its own for models, with two that know passkeys and one that knows words."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "models").mkdir(parents=True)
    for seed, name in enumerate(("lmm", "mac", "w-lmm")):
        small(name, seed)
    return tmp_path


def small(name, seed):
    torch.manual_seed(seed)
    model = TitansLM(TitansConfig(variant="lmm", **SMALL))
    model.save(f"results/models/needle-{name}.safetensors")
    return model


def test_what_was_stored_comes_back_for_every_model_that_has_a_reading(folder):
    assert needle_readings.known() == ["lmm", "mac"]
    assert needle_readings.load_all() == {}
    fading = fade(needle_models.load("mac"), [0, 5], [16, 32])
    needle_readings.store("mac", fading)
    found = needle_readings.load_all()
    assert list(found) == ["mac"]
    for part in ("places", "moments", "facts"):
        assert torch.equal(getattr(found["mac"], part), getattr(fading, part))
    torch.testing.assert_close(found["mac"].said, fading.said, atol=1e-3, rtol=0)


def test_a_reading_of_another_training_is_refused_with_the_command_to_repeat_it(folder):
    needle_readings.store("lmm", fade(needle_models.load("lmm"), [0], [16]))
    small("lmm", seed=7)
    with pytest.raises(ValueError, match=r"the model has changed.*needle_readings lmm"):
        needle_readings.load_all()
    assert needle_readings.is_missing("lmm") and needle_readings.is_missing("mac")


@pytest.mark.parametrize("name", list(needle_readings.load_all()))
@torch.no_grad()
def test_a_stored_reading_is_what_the_stored_model_answers(name):
    """At its first moment; the others follow from the same reading."""
    stored, model = needle_readings.load(name), needle_models.load(name)
    places = [place for place in PLACES for _ in range(2)]
    tokens, facts = plant(Needle("pk"), MOMENTS[-1], places)
    state = None
    for part in tokens[:, : MOMENTS[0]].split(BLOCK, 1):
        _, state = model(part, state)
    assert stored.places.tolist() == places and stored.moments.tolist() == list(MOMENTS)
    assert torch.equal(stored.facts, facts)
    torch.testing.assert_close(stored.said[:, 0], ask(model, state, facts), atol=5e-3, rtol=0)
