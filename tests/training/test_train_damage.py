"""Every file of a run, damaged: it is named with advice that works, or it did not matter."""

import shutil

import pytest
import safetensors.torch
import torch
from train_cases import arguments, damaged, tiny, weights

from minititans import cli
from minititans.files import read_json
from minititans.training import log, loop
from minititans.training.folder import CHECKPOINT, CONFIG, CURVE, LOG, MODEL, OWN, PREVIOUS, RESULT

pytestmark = pytest.mark.slow
HOW = list(damaged(b"0123456789"))
UNDER_WAY = [CHECKPOINT, PREVIOUS, CONFIG, LOG, CURVE]
NEEDED = {"under way": (CHECKPOINT, CONFIG, LOG), "ended": (CONFIG, RESULT)}


class Runs:
    """One run, as it was after six of eight steps, and as it was when it had ended."""

    def __init__(self, place):
        self.config = tiny(place, eval_every=3)
        self.kept = {"under way": place / "kept" / "under way", "ended": place / "kept" / "ended"}

        def six_steps(run, step, *more, take=loop.take_step):
            if step == 7:
                raise KeyboardInterrupt
            return take(run, step, *more)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(loop, "take_step", six_steps)
            loop.train(self.config)
        shutil.copytree(self.config.folder, self.kept["under way"])
        loop.train(self.config)
        shutil.copytree(self.config.folder, self.kept["ended"])
        self.ending = self.outcome()

    def put(self, when: str):
        shutil.rmtree(self.config.folder)
        shutil.copytree(self.kept[when], self.config.folder)

    def train(self, *more: str) -> int:
        return cli.main(["train", *arguments(self.config), *more])

    def contents(self) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in self.config.folder.iterdir()}

    def outcome(self):
        """What must not depend on any mishap."""
        lines = log.read(self.config.folder / LOG)
        result = read_json(self.config.folder / RESULT, "")
        for each in (*lines, result):
            each.pop("tokens_per_second", None), each.pop("seconds", None)
        bits = {name: weight.numpy().tobytes() for name, weight in weights(self.config).items()}
        return bits, result, lines


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


def test_these_are_all_the_files_of_a_run(runs):
    assert {each.name for each in runs.kept["under way"].iterdir()} == set(UNDER_WAY)
    assert {each.name for each in runs.kept["ended"].iterdir()} == {*UNDER_WAY, MODEL, RESULT}
    assert set(OWN) == {*UNDER_WAY, MODEL, RESULT}


CASES = [("under way", name) for name in UNDER_WAY] + [("ended", name) for name in OWN]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("when, name", CASES)
def test_a_damaged_file_is_named_and_all_is_left_as_it_is(runs, capsys, when, name, how):
    runs.put(when)
    path = runs.config.folder / name
    path.write_bytes(damaged(path.read_bytes())[how])
    before = runs.contents()
    status, printed = runs.train(), capsys.readouterr().err
    if name in NEEDED[when]:
        assert status == 2 and str(path) in printed and "Traceback" not in printed
        assert runs.contents() == before
    elif when == "under way":
        assert status == 0 and runs.outcome() == runs.ending
    else:
        assert status == 0 and runs.contents() == before


@pytest.mark.parametrize("how", ["0 tenths", "5 tenths", "junk"])
@pytest.mark.parametrize("when, name", [(when, name) for when in NEEDED for name in NEEDED[when]])
def test_the_advice_helps(runs, capsys, when, name, how):
    runs.put(when)
    path = runs.config.folder / name
    good = path.read_bytes()
    path.write_bytes(damaged(good)[how])
    assert runs.train() == 2
    advice, more = capsys.readouterr().err, []
    if name == CHECKPOINT:
        assert "Pass --previous to continue from the one before it" in advice
        more = ["--previous"]
    elif name == CONFIG:
        assert "Nothing was changed; correct the file, or choose another --name" in advice
        path.write_bytes(good)
    elif name == LOG:
        assert "Move it elsewhere and run the same command again" in advice
        path.rename(path.with_name("old log"))
    else:
        assert "Delete it and run the same command again" in advice
        path.unlink()
    assert runs.train(*more) == 0
    bits, result, lines = runs.outcome()
    assert (bits, result) == runs.ending[:2]
    assert lines == [each for each in runs.ending[2] if name != LOG or each["step"] > 6]
    assert runs.train() == 0  # and the run has ended


INCOMPLETE = {
    "a weight": lambda tensors, header: tensors.pop("weight.norm.weight"),
    "a moment": lambda tensors, header: tensors.pop("exp_avg.norm.weight"),
    "a shape": lambda tensors, header: tensors.update({"weight.norm.weight": torch.ones(1)}),
    "the progress": lambda tensors, header: header.pop("progress"),
    "the step": lambda tensors, header: header.update(progress='{"seconds": 1.0}'),
    "the format": lambda tensors, header: header.update(format="minititans.checkpoint.0"),
}


@pytest.mark.parametrize("change", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_checkpoint_is_named(runs, capsys, change):
    runs.put("under way")
    path = runs.config.folder / CHECKPOINT
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, "pt") as file:
        header = file.metadata()
    change(tensors, header)
    safetensors.torch.save_file(tensors, path, header)
    before = runs.contents()
    assert runs.train() == 2
    printed = capsys.readouterr().err
    assert f"{path} is not a checkpoint" in printed and "Pass --previous" in printed
    assert runs.contents() == before


def test_two_damaged_checkpoints_leave_only_a_fresh_start(runs, capsys):
    runs.put("under way")
    for name in (CHECKPOINT, PREVIOUS):
        (runs.config.folder / name).write_bytes(b"junk")
    assert runs.train("--previous") == 2
    printed = capsys.readouterr().err
    assert PREVIOUS in printed and "Pass --fresh to start the run over" in printed
    assert runs.train("--fresh") == 0
    assert runs.outcome() == runs.ending


def test_a_run_that_has_ended_can_go_back_by_one_checkpoint(runs):
    runs.put("ended")
    assert runs.train("--previous") == 0
    assert runs.outcome() == runs.ending


def test_without_the_last_checkpoint_the_previous_one_serves(runs):
    runs.put("under way")
    (runs.config.folder / CHECKPOINT).unlink()
    assert runs.train() == 0
    assert runs.outcome() == runs.ending


@pytest.mark.parametrize("name", [CHECKPOINT, LOG, MODEL, RESULT, CURVE])
def test_a_disk_that_is_full_while_saving_costs_nothing(runs, capsys, name):
    """As `ulimit -f` does it, which fits one file at a time by its size."""
    resource = pytest.importorskip("resource")
    limit = (runs.kept["ended"] / name).stat().st_size - 10
    runs.put("under way")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        status = runs.train()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    printed = capsys.readouterr().err
    assert status == 2 and "could not be written" in printed and "ulimit -f" in printed
    assert str(runs.config.folder) in printed and "Traceback" not in printed
    assert not (runs.config.folder / RESULT).exists()
    assert runs.train() == 0
    assert runs.outcome() == runs.ending
