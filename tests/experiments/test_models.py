"""Stored models: what is written comes back, and their commands still make their losses."""

import json
import shlex
import time
from dataclasses import replace

import pytest
import torch

from minititans import TitansConfig, TitansLM
from minititans.cli import build_parser
from minititans.experiments import models, needle_models
from minititans.experiments.needle import NeedleConfig, run
from minititans.experiments.needle_models import first_losses
from minititans.training.command import command_of, config_from
from minititans.training.config import TrainConfig
from minititans.training.loop import begin, fit_to, make_task, train
from minititans.training.parallel import world
from minititans.training.step import passage, take_step

SMALL = TitansConfig(variant="swa", dim=16, layers=1, heads=2, window=8)


def parsed(command):
    return build_parser().parse_args(shlex.split(command)[1:])


def losses_of_training(command, count):
    """The first losses of a `minititans train` command, with nothing written."""
    config = config_from(parsed(command))
    task, losses = make_task(config), []
    with world("cpu") as here:
        run, _ = begin(fit_to(task, config, here), task, here)
        while len(losses) < count:
            states, start = None, len(losses)
            for step, batch in enumerate(passage(run.config, task, start), start + 1):
                about, states = take_step(run, step, *batch, states)
                losses.append(about["loss"])
    return losses[:count]


def losses_of_needles(command, count):
    """The first losses of a `minititans experiment needle` command."""
    given = parsed(command)
    (variant,), (seed,) = given.variants, given.seeds
    return first_losses(NeedleConfig(kind=given.kind), variant, seed, count)


REPLAY = {"train": losses_of_training, "experiment": losses_of_needles}


@pytest.mark.slow
@pytest.mark.parametrize("name", models.names())
def test_the_command_of_a_stored_model_gives_its_first_losses(name, tmp_path, monkeypatch):
    stored = models.record(name)
    monkeypatch.chdir(tmp_path)  # where there is no run to go on from
    replay = REPLAY[shlex.split(stored.command)[1]]
    expected = torch.tensor(stored.first_losses)
    found = torch.tensor(replay(stored.command, len(expected)))
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", models.names())
def test_stored_models_are_small_and_whole(name):
    began = time.process_time()
    stored, model = models.record(name), models.load(name)
    model(torch.zeros(1, 128, dtype=torch.long))
    assert time.process_time() - began < 2, "a notebook waits for it"
    assert stored.parameters == sum(p.numel() for p in model.parameters())
    assert len(stored.first_losses) == models.FIRST
    assert stored.losses[-1] < 0.7 * stored.losses[0]
    limit = 1e6 if name.startswith("needle-") else 3e6
    assert models.path_of(name, "safetensors", None).stat().st_size < limit


def test_the_page_names_every_stored_model_and_no_other():
    page = (models.models_folder() / "README.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1] for row in rows) == models.names()


def test_what_is_stored_comes_back(tmp_path):
    torch.manual_seed(0)
    model, losses = TitansLM(SMALL), [float(step) for step in range(120)]
    models.store("one", model, "minititans train", 3, losses, {"loss": 0.5}, tmp_path)
    stored, again = models.record("one", tmp_path), models.load("one", tmp_path)
    assert stored.first_losses == losses[:20] and stored.losses == [24.5, 74.5, 109.5]
    assert (stored.seed, stored.scores) == (3, {"loss": 0.5})
    tokens = torch.randint(256, (1, 30))
    assert torch.equal(again(tokens)[0], model(tokens)[0])
    assert models.names(tmp_path) == ["one"]
    with pytest.raises(FileNotFoundError, match=r"got 'two', expected a model in .*: one"):
        models.load("two", tmp_path)
    (tmp_path / "one.json").write_text(json.dumps({"seed": 0}))
    with pytest.raises(ValueError, match="does not describe a stored model"):
        models.record("one", tmp_path)


def test_a_run_is_stored_with_a_command_that_makes_it_again(tmp_path, monkeypatch):
    config = TrainConfig(
        SMALL, runs=str(tmp_path), name="it", steps=22, batch=2, lengths=(16,), carry=4,
        eval_bytes=1000, sample=0, quiet=True, seed=5,
    )  # fmt: skip
    train(config)
    stored = models.store_run(tmp_path / "it", "it", tmp_path / "models")
    anywhere = replace(config_from(parsed(stored.command)), runs=config.runs, name="it", quiet=True)
    assert anywhere == config and str(tmp_path) not in stored.command
    assert stored.seed == 5 and "bits_per_byte" in stored.scores
    monkeypatch.chdir(tmp_path)
    assert losses_of_training(stored.command, 20) == pytest.approx(stored.first_losses, abs=1e-6)
    model = TitansLM.load(tmp_path / "it" / "model.safetensors")
    tokens = torch.randint(256, (1, 30))
    assert torch.equal(models.load("it", tmp_path / "models")(tokens)[0], model(tokens)[0])


def test_the_command_of_a_run_asks_for_that_run():
    given = replace(TrainConfig().model, variant="mal", depth=1, exact=False, ff=48, gates="chunk")
    config = TrainConfig(given, lengths=(8, 32), lr=1e-3, quiet=True, name="a name", carry=3)
    assert config_from(parsed(shlex.join(["minititans", "train", *command_of(config)]))) == config


def test_a_model_of_the_needle_experiment_is_stored_with_its_losses_and_scores(tmp_path):
    config = replace(
        NeedleConfig(), model=replace(SMALL, vocab_size=64, tie=False), parameters=9_000, steps=24,
        most_steps=24, lengths=(32, 64), tokens=64, read_at=((32, 4), (64, 4)),
    )  # fmt: skip
    (result,) = run(config, ["lmm"], [10], tmp_path / "found", False, tmp_path / "trained")
    stored = needle_models.store(
        "lmm", tmp_path / "trained", tmp_path / "found", config, folder=tmp_path / "models"
    )
    assert stored.command == "minititans experiment needle --variants lmm --seeds 10"
    assert parsed(stored.command).variants == ("lmm",) and parsed(stored.command).seeds == (10,)
    all_of_them = first_losses(config, "lmm", 10, 24)
    assert stored.first_losses == all_of_them[:20]
    assert sum(all_of_them) / 24 == pytest.approx(result.losses[0], abs=1e-4)
    assert stored.scores == {f"found at {r.length}": r.accuracy for r in result.readings}
    tokens = torch.randint(64, (1, 30))
    trained = TitansLM.load(tmp_path / "trained" / "lmm-seed10.safetensors")
    again = models.load("needle-lmm", tmp_path / "models")
    assert torch.equal(again(tokens)[0], trained(tokens)[0])
