"""Needles lie where the task says, reading counts them, and the memory learns to find them."""

import json
import re
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from minititans.cli import main
from minititans.config import TitansConfig
from minititans.experiments import needle as experiment
from minititans.experiments import needle_training as training
from minititans.experiments.needle import NeedleConfig
from minititans.experiments.results import Attempt, Reading, Result, check_folder, save
from minititans.experiments.storing import as_json
from minititans.tasks import IGNORE
from minititans.tasks.needle import (
    ASK,
    KEYS,
    MARK,
    NOISE,
    SENTENCE,
    VALUES,
    Needle,
    accuracy,
    generator,
)
from minititans.viz.results import needle_figure

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["pk", "n", "w"]

TINY = NeedleConfig(
    model=TitansConfig(vocab_size=64, dim=16, layers=1, heads=2, window=8, segment=8),
    parameters=9_000,
    steps=2,
    most_steps=2,
    lengths=(32, 48),
    tokens=96,
    needles=2,
    read_at=((32, 4), (64, 2)),
)


def result(variant: str, *readings: Reading) -> Result:
    return Result(variant, 0, 9000, 4e-3, [Attempt(2, 0.1)], 1.0, [], list(readings))


def facts_of(row: list[int], value_tokens: int) -> dict[int, list[int]]:
    """What a reader with pen and paper notes: the value after each marked key."""
    notes = {}
    for place, token in enumerate(row):
        if token == MARK:
            assert row[place + 1] not in notes, "a key is marked twice"
            notes[row[place + 1]] = row[place + 2 : place + 2 + value_tokens]
    return notes


# The task


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_follows_from_seed_and_step_alone(kind):
    def batch(seed, step, stream=0):
        return Needle(kind).batch(3, 80, generator(seed, step, stream))

    for first, second in zip(batch(5, 7), batch(5, 7)):
        assert torch.equal(first, second)
    for other in (batch(5, 8), batch(6, 7), batch(7, 5), batch(5, 7, stream=1)):
        assert not torch.equal(batch(5, 7)[0], other[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("needles", [1, 4, 14])
@pytest.mark.parametrize("extra", [0, 1, 50])
def test_every_target_is_what_the_haystack_said_about_the_key(kind, needles, extra):
    task = Needle(kind, needles)
    length = task.shortest + extra
    tokens, targets = task.batch(8, length, generator(0, 0))
    assert tokens.shape == targets.shape == (8, length)
    assert tokens.dtype == targets.dtype == torch.long
    for row, wanted in zip(tokens.tolist(), targets.tolist()):
        questions = [place for place, token in enumerate(row) if token == ASK]
        notes = facts_of(row[: questions[0]], task.value_tokens)
        assert len(notes) == len(questions) == needles
        expected = [IGNORE] * length
        for place in questions:
            key = row[place + 1]
            expected[place + 1 : place + 1 + task.value_tokens] = notes[key]
        assert wanted == expected
        assert {row[place + 1] for place in questions} == set(notes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_stands_only_once_before_the_question(kind):
    task = Needle(kind, needles=1)
    tokens, targets = task.batch(64, 200, generator(1, 0))
    for row, wanted in zip(tokens.tolist(), targets.tolist()):
        haystack = row[: row.index(ASK)]
        answer = [token for token in wanted if token != IGNORE]
        assert [token for token in haystack if token in VALUES] == answer
        assert [token for token in haystack if token in KEYS] == [row[row.index(ASK) + 1]]


@pytest.mark.parametrize("kind", KINDS)
def test_needles_lie_at_every_depth(kind):
    task = Needle(kind, needles=1)
    tokens, _ = task.batch(4000, 40, generator(2, 0))
    depth = (tokens == MARK).int().argmax(1)
    places = 40 - task.shortest + 1
    counts = torch.bincount(depth, minlength=places)
    assert len(counts) == places
    assert (counts - 4000 / places).abs().max() < 5 * (4000 / places) ** 0.5


def test_the_noise_of_a_passkey_repeats_and_the_others_does_not():
    def noise(kind):
        row = Needle(kind, needles=1).batch(1, 300, generator(3, 0))[0][0]
        before = row[: int((row == MARK).nonzero())]
        assert all(token in NOISE for token in before.tolist())
        return before

    passkey, number = noise("pk"), noise("n")
    assert torch.equal(passkey[SENTENCE:], passkey[:-SENTENCE])
    assert len(number.unique()) > SENTENCE


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: Needle("x"), "kind"),
        (lambda: Needle(needles=0), "needles"),
        (lambda: Needle(needles=15), "needles"),
        (lambda: Needle("w", 4).batch(1, 47, generator(0, 0)), "length"),
    ],
)
def test_a_task_that_cannot_be_is_refused_by_name(make, named):
    with pytest.raises(ValueError, match=f"^{named}: got"):
        make()


# Reading


class Reader:
    """Notes every marked value and repeats it when asked: the right answer, without learning.

    `knows` is how many tokens of a value it gets right. Its state is all that it has read.
    """

    def __init__(self, task: Needle, knows: int):
        self.task, self.knows, self.longest_call = task, knows, 0

    def __call__(self, tokens, state):
        before = 0 if state is None else state.shape[1]
        read = tokens if state is None else torch.cat([state, tokens], 1)
        self.longest_call = max(self.longest_call, tokens.shape[1])
        said = torch.full_like(read, NOISE.start)
        for row, out in zip(read.tolist(), said):
            if ASK in row:
                place = row.index(ASK)
                notes = facts_of(row[:place], self.task.value_tokens)
                if place + 1 < len(row):
                    answer = notes[row[place + 1]][: self.knows]
                    out[place + 1 : place + 1 + len(answer)] = torch.tensor(
                        answer[: len(row) - place - 1], dtype=torch.long
                    )
        return F.one_hot(said[:, before:], self.task.vocab_size).float(), read


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [7, 50, 1024])
def test_one_who_knows_the_answer_hits_always_however_it_is_cut(kind, block):
    task = Needle(kind)
    reader = Reader(task, knows=task.value_tokens)
    assert accuracy(reader, task, 50, samples=10, batch=4, block=block) == 1.0
    assert reader.longest_call == min(block, 50)


def test_a_value_with_one_wrong_token_is_no_hit():
    task = Needle("w")
    assert accuracy(Reader(task, knows=3), task, 40, samples=8) == 0.0


@pytest.mark.parametrize("kind", ["pk", "n"])
def test_one_who_guesses_hits_as_often_as_chance(kind):
    rng, task, samples = torch.Generator().manual_seed(0), Needle(kind), 4000

    def guess(tokens, state):
        said = torch.randint(VALUES.start, VALUES.stop, tokens.shape, generator=rng)
        return F.one_hot(said, task.vocab_size), None

    found = accuracy(guess, task, 32, samples, batch=500)
    error = (task.chance * (1 - task.chance) / samples) ** 0.5
    assert abs(found - task.chance) < 4 * error


def test_a_real_model_scores_the_same_in_one_piece_and_in_blocks():
    model, _ = training.train(TINY, "mac", seed=0, progress=False)
    task = Needle("pk")
    tokens, _ = task.batch(2, 100, generator(0, 0, 1))
    whole, _ = model(tokens)
    first, state = model(tokens[:, :33])
    rest, _ = model(tokens[:, 33:], state)
    torch.testing.assert_close(torch.cat([first, rest], 1), whole, rtol=1e-4, atol=1e-4)
    assert accuracy(model, task, 100, 20, block=33) == accuracy(model, task, 100, 20, block=100)


# The experiment


def test_every_model_has_the_same_number_of_parameters():
    config = NeedleConfig()
    for variant in (*experiment.EVERYONE, *training.ABLATIONS):
        size = experiment.count_parameters(experiment.model_config(config, variant))
        assert abs(size / config.parameters - 1) < 0.01


def test_numbers_and_words_are_trained_for_longer():
    configs = [NeedleConfig(kind=kind) for kind in KINDS]
    assert [config.training_steps for config in configs] == [1400, 2800, 2800]
    assert [config.training_lengths[0] for config in configs] == [32, 16, 32]
    assert NeedleConfig(kind="n", steps=7) == replace(NeedleConfig("n"), steps=7)
    assert NeedleConfig(kind="n", steps=7).training_steps == 7
    with pytest.raises(ValueError, match="kind: got 'x', expected"):
        NeedleConfig(kind="x")


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_kind_trains_as_that_kind_does(kind, monkeypatch):
    changed = replace(NeedleConfig(), kind=kind)
    assert changed == NeedleConfig(kind=kind)
    given = replace(NeedleConfig(steps=7, lengths=(48,)), kind=kind)
    assert (given.training_steps, given.training_lengths) == (7, (48,))
    tokens, _ = training.training_batch(changed, 0, 0, first=True)
    assert tokens.shape[1] == {"pk": 32, "n": 16, "w": 32}[kind]
    monkeypatch.setattr(training, "train", lambda *_: (None, [0.0]))
    attempts = training.learn(changed, "lmm", 0)[2]
    assert [attempt.steps for attempt in attempts] == [{"pk": 1400, "n": 2800, "w": 2800}[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_configuration_has_the_steps_and_lengths_of_its_kind(kind, tmp_path):
    config = replace(NeedleConfig(), kind=kind)
    check_folder(ROOT / "results" / "needle" / kind, config)  # as they were always stored
    save(tmp_path / "lmm-seed0.json", result("lmm"), config)
    stored = json.loads((tmp_path / "lmm-seed0.json").read_text(encoding="utf-8"))["config"]
    file = ROOT / "results" / "needle" / kind / "lmm-seed10.json"
    expected = json.loads(file.read_text(encoding="utf-8"))["config"]
    assert stored | {"model": None} == expected | {"model": None}
    check_folder(tmp_path, config)
    with pytest.raises(ValueError, match=r"another configuration \(different: steps\)"):
        check_folder(tmp_path, replace(config, steps=7))


def test_a_run_follows_from_its_configuration_and_seed():
    first, second = (experiment.run_one(TINY, "lmm", 3, progress=False)[0] for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)
    assert first.losses != experiment.run_one(TINY, "lmm", 4, progress=False)[0].losses


@pytest.mark.parametrize(
    "last_losses, steps, counts",
    [
        ([0.05], [2], 0.05),  # learned
        ([0.9, 0.5, 0.04], [2, 4, 8], 0.04),  # more steps help
        ([0.9, 0.5, 0.3, 0.04], [2, 4, 8], 0.3),  # up to the limit
        ([2.7, 2.6, 0.04], [2, 4, 8], 0.04),  # it had not begun to learn
        ([0.5, 0.45, 0.04], [2, 4], 0.45),  # they help too little to go on
        ([0.5, 0.6, 0.04], [2, 4], 0.5),  # they harm: the first counts
    ],
)
def test_a_model_starts_over_with_twice_the_steps_while_that_helps(
    last_losses, steps, counts, monkeypatch
):
    asked = []

    def train(config, variant, seed, progress):
        asked.append(config.steps)
        return config.steps, [9.0, last_losses[len(asked) - 1]]

    monkeypatch.setattr(training, "train", train)
    config = replace(TINY, most_steps=8)
    model, losses, attempts = training.learn(config, "lmm", 0)
    assert asked == steps == [attempt.steps for attempt in attempts]
    assert losses[-1] == counts
    assert model == attempts[[attempt.loss for attempt in attempts].index(counts)].steps


def test_models_are_kept_and_read_further(tmp_path):
    results, models = tmp_path / "results", tmp_path / "models"
    experiment.run(TINY, ("lmm",), (0,), results, False, models)
    experiment.read_further(TINY, ("lmm",), (0,), results, models, (48, 96), 3, progress=False)
    (found,) = experiment.run(TINY, ("lmm",), (0,), results, False, models)
    assert [(r.length, r.samples) for r in found.readings] == [(32, 4), (64, 2), (48, 3), (96, 3)]
    fresh, model = experiment.run_one(TINY, "lmm", 0, progress=False)
    assert found.readings[:2] == fresh.readings
    assert found.readings[2:] == experiment.read(TINY, model, "lmm", 0, ((48, 3), (96, 3)), False)
    kept = (results / "lmm-seed0.json").read_bytes()
    experiment.read_further(TINY, ("lmm",), (0,), results, models, (96,), progress=False)
    assert (results / "lmm-seed0.json").read_bytes() == kept


def test_results_without_their_models_are_not_read_further(tmp_path, monkeypatch, capsys):
    """As in a fresh clone: refused before other models are trained or read, with what to do."""
    out, models = tmp_path / "results", tmp_path / "models"
    experiment.run(TINY, ("swa", "lmm"), (0,), out, False, models)
    (models / "lmm-seed0.safetensors").unlink()
    before = {file: file.read_bytes() for file in out.iterdir()}

    def works(*_, **__):
        raise AssertionError("this is work")

    monkeypatch.setattr(training, "train", works)
    monkeypatch.setattr(experiment, "read", works)
    message = r"there is no \S+lmm-seed0.safetensors, so .* pass --out .*, or delete that result"
    with pytest.raises(ValueError, match=f"^models: {message}"):
        experiment.read_further(TINY, ("swa", "lmm"), (0,), out, models, (96,), progress=False)
    monkeypatch.setattr(experiment, "NeedleConfig", lambda kind: replace(TINY, kind=kind))
    command = ["experiment", "needle", "--variants=mag,lmm", f"--out={out}", f"--models={models}"]
    assert main([*command, "--quiet", "--further=96"]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert {file: file.read_bytes() for file in out.iterdir()} == before
    experiment.read_further(TINY, ("lmm",), (0,), out, models, (64,), progress=False)  # known


def test_a_setting_that_is_newer_than_a_result_does_not_make_it_another_configuration(tmp_path):
    experiment.run(TINY, ("swa",), (0,), tmp_path, progress=False)
    file = tmp_path / "swa-seed0.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    del stored["config"]["model"]["alpha_start"]
    file.write_text(json.dumps(stored), encoding="utf-8")
    experiment.run(TINY, ("swa",), (0,), tmp_path, progress=False)
    stored["config"]["model"]["window"] = 9
    file.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(ValueError, match=r"different: model"):
        experiment.run(TINY, ("swa",), (0,), tmp_path, progress=False)


def test_an_interrupted_run_goes_on_with_what_is_missing(tmp_path, monkeypatch):
    whole = experiment.run(TINY, ("lmm", "swa"), (0, 1), tmp_path / "whole", progress=False)

    trained, train = [], training.train

    def stops_at_the_third(config, variant, seed, progress):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append((variant, seed))
        return train(config, variant, seed, progress)

    folder = tmp_path / "parts"
    monkeypatch.setattr(training, "train", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(TINY, ("lmm", "swa"), (0, 1), folder, progress=False)
    assert trained == [("lmm", 0), ("swa", 0)]
    assert sorted(file.name for file in folder.iterdir()) == ["lmm-seed0.json", "swa-seed0.json"]

    trained.clear()
    parts = experiment.run(TINY, ("lmm", "swa"), (0, 1), folder, progress=False)
    assert trained == [("lmm", 1), ("swa", 1)]
    assert [replace(r, seconds=0) for r in parts] == [replace(r, seconds=0) for r in whole]

    trained.clear()
    trained += [None, None]  # from now on training is an error
    assert experiment.run(TINY, ("lmm", "swa"), (0, 1), folder, progress=False) == parts


def test_results_of_another_configuration_are_refused_and_left_alone(tmp_path):
    experiment.run(TINY, ("swa",), (0,), tmp_path, progress=False)
    before = (tmp_path / "swa-seed0.json").read_bytes()
    with pytest.raises(ValueError, match=r"another configuration \(different: steps\)"):
        experiment.run(replace(TINY, steps=3), ("lmm",), (0,), tmp_path, progress=False)
    assert [file.name for file in tmp_path.iterdir()] == ["swa-seed0.json"]
    assert (tmp_path / "swa-seed0.json").read_bytes() == before


def test_a_wrong_name_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="variant: got 'lmmm'"):
        experiment.run(TINY, ("lmm", "lmmm"), (0,), tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_result_says_all_that_it_depends_on(tmp_path):
    experiment.run(TINY, ("lmm",), (2,), tmp_path, progress=False)
    stored = json.loads((tmp_path / "lmm-seed2.json").read_text(encoding="utf-8"))
    assert stored["seed"] == 2
    assert stored["config"] == as_json(TINY)
    assert stored["versions"]["torch"] == metadata.version("torch")
    assert stored["seconds"] > 0
    assert [(r["length"], r["samples"]) for r in stored["readings"]] == [(32, 4), (64, 2)]
    assert all(r["error"] > 0 for r in stored["readings"])


def test_every_model_looks_different():
    config = replace(TINY, read_at=((256, 100),))
    results = [result(name, Reading(256, 100, 0.5)) for name in experiment.EVERYONE]
    (axes,) = needle_figure(results, config).axes
    looks = {(line[0].get_color(), line[0].get_marker()) for line in axes.containers}
    assert len(looks) == len(experiment.EVERYONE)


def test_the_figure_shows_every_number_and_the_chance_level():
    shares = {"mac": (1.0, 0.75), "swa": (0.5, 0.25), "deltanet": (0.9, 0.8)}
    config = replace(TINY, read_at=((256, 100), (1024, 100)))
    results = [
        result(name, Reading(256, 100, a), Reading(1024, 100, b)) for name, (a, b) in shares.items()
    ]
    (axes,) = needle_figure(results, config).axes
    lines = {line.get_label(): line[0] for line in axes.containers}
    drawn = {name: tuple(line.get_ydata() / 100) for name, line in lines.items()}
    assert drawn == dict(zip(["MAC", "sliding window", "DeltaNet"], shares.values()))
    looks = {(line.get_color(), line.get_marker()) for line in lines.values()}
    assert len({c for c, _ in looks}) == len({m for _, m in looks}) == 3
    for _, _, (bars,) in axes.containers:
        ends = [y for segment in bars.get_segments() for _, y in segment]
        assert min(ends) >= 0 and max(ends) <= 100 + 1e-9
    (some,) = needle_figure(results, config, only=("deltanet", "lmm")).axes
    assert [line.get_label() for line in some.containers] == ["DeltaNet"]
    chance = 100 / len(VALUES)
    assert any(set(line.get_ydata()) == {chance} for line in axes.lines)


def test_the_command_writes_results_table_and_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        experiment, "NeedleConfig", lambda kind, **more: replace(TINY, kind=kind, **more)
    )
    command = ["experiment", "needle", "--kind=n", "--variants=swa,lmm", f"--out={tmp_path}"]
    command += [f"--models={tmp_path / 'models'}"]
    assert main([*command, "--quiet"]) == 0
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {
        "swa-seed0.json",
        "lmm-seed0.json",
        "table.md",
        "needle.png",
        "models",
    }
    assert main([*command, "--quiet", "--further=80"]) == 0
    assert "| 32 | 64 | 80 |" in capsys.readouterr().out
    assert main([*command, "--quiet"]) == 0
    assert "| lmm | 1 |" in capsys.readouterr().out
    assert main([*command, "--quiet", "--steps=3"]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert main([*command, "--quiet", "--read-at=40"]) == 2
    assert "another configuration" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_has_the_first_length_or_one_of_the_others(kind):
    config = replace(TINY, kind=kind, lengths=(48, 96, 192), tokens=192, needles=8)
    batches = [training.training_batch(config, 0, step, step < 20) for step in range(40)]
    shapes = [tuple(tokens.shape) for tokens, _ in batches]
    assert set(shapes[:20]) == {(4, 48)}
    assert set(shapes[20:]) == {(2, 96), (1, 192)}
    tokens, targets = batches[0]
    fits = {"pk": 8, "n": 6, "w": 4}[kind]  # needles with their questions in 48 tokens
    assert ((tokens == ASK).sum(1) == fits).all()
    again = training.training_batch(config, 0, 0, True)
    assert torch.equal(again[0], tokens) and torch.equal(again[1], targets)


@pytest.mark.parametrize("ready, short", [(0.0, 60), (99.0, 50)])
def test_training_begins_short_until_that_is_learned_or_half_is_over(ready, short, monkeypatch):
    seen, batch = [], training.training_batch

    def watched(config, seed, step, first):
        seen.append(first)
        return batch(config, seed, step, first)

    monkeypatch.setattr(training, "training_batch", watched)
    monkeypatch.setattr(training, "READY", ready)
    training.train(replace(TINY, steps=120, tokens=32), "swa", 0, progress=False)
    assert seen == [True] * short + [False] * (120 - short)
