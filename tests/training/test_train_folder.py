"""A run's folder: only what the run itself wrote is ever removed, and only one process is there."""

import os
import shutil
import sys

import pytest
from train_cases import assert_same_weights, tiny

from minititans import cli
from minititans.files import UNFINISHED
from minititans.training import folder, loop
from minititans.training.command import config_from


def contents(place) -> dict[str, bytes]:
    """Every file below a folder, by its path, but locks."""
    files = (each for each in place.rglob("*") if each.is_file() and each.suffix != ".lock")
    return {str(each.relative_to(place)): each.read_bytes() for each in files}


FOREIGN = {
    "mine": {"thesis.tmp": "years of work", "notes.txt": "n"},
    "another model": {"config.json": '{"hidden_size": 768}', "model.safetensors": "weights"},
    "another train": {"config.json": '{"train": {}, "epochs": 3}'},
    "a damaged run": {"config.json": '{"train": {"model"', "checkpoint.safetensors": "c"},
    "a look-alike": {"config.json.12.tmp": "x", ".tmpab12cd": "y"},
}


@pytest.mark.parametrize("fresh", [False, True], ids=["", "fresh"])
@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN)
def test_nothing_in_a_folder_that_is_not_a_run_is_touched(tmp_path, files, fresh):
    config = tiny(tmp_path, steps=1)
    config.folder.mkdir()
    for name, text in files.items():
        (config.folder / name).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"choose another --name"):
        loop.train(config, fresh=fresh)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["..", ".", "../other"])
def test_no_name_leads_out_of_the_folder_of_runs(tmp_path, monkeypatch, capsys, name):
    (tmp_path / "runs").mkdir()
    (tmp_path / "work.tmp").write_text("years of work")
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    assert cli.main(["train", "--name", name, "--steps=1", "--quiet", "--fresh"]) == 2
    assert f"name: got {name!r}" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_fresh_removes_the_files_of_the_run_and_keeps_all_others(tmp_path):
    first, second = tiny(tmp_path, steps=1, seed=1), tiny(tmp_path, steps=1, seed=2)
    loop.train(first)
    mine = {
        "notes.txt": b"n",
        "work.tmp": b"w",
        "figures/a.png": b"p",
        "model.safetensors.bak": b"b",
    }
    (first.folder / "figures").mkdir()
    for name, content in mine.items():
        (first.folder / name).write_bytes(content)
    (tmp_path / ".run.old").mkdir()
    (tmp_path / ".run.old" / "thesis.txt").write_text("years of work")
    loop.train(second, fresh=True)
    found = contents(first.folder)
    assert mine.items() <= found.items()
    assert found.keys() - mine.keys() == set(folder.OWN) - {folder.PREVIOUS}  # one step, one save
    assert (tmp_path / ".run.old" / "thesis.txt").exists()
    other = tiny(tmp_path, "other", steps=1, seed=2)
    loop.train(other)
    assert_same_weights(second, other)


def test_what_a_killed_writer_left_behind_is_removed_and_nothing_like_it(tmp_path):
    config = tiny(tmp_path, steps=1)
    loop.train(config)
    ours = config.folder / f".model.safetensors.ab12cd34{UNFINISHED}"
    ours.mkdir()
    (ours / ".tmpx81jdk").write_text("half of a model")
    others = [
        config.folder / name for name in (f"thesis{UNFINISHED}", ".tmpx81jdk", "log.jsonl.tmp")
    ]
    for other in others:
        other.write_text("years of work")
    loop.train(config)
    assert not ours.exists() and all(other.exists() for other in others)


def test_a_run_that_was_killed_before_its_first_file_was_whole_starts_over(tmp_path):
    config = tiny(tmp_path, steps=1)
    (config.folder / f".config.json.ab12cd34{UNFINISHED}").mkdir(parents=True)
    loop.train(config)
    assert {each.name for each in config.folder.iterdir()} <= set(folder.OWN)


@pytest.mark.skipif(folder.fcntl is None, reason="locks need fcntl, which Windows has not")
@pytest.mark.parametrize("what", ["the run", "the folder of runs"])
def test_a_symbolic_link_does_not_pass_the_lock(tmp_path, what):
    real = tiny(tmp_path, runs=str(tmp_path / "runs"))
    real.folder.mkdir(parents=True)
    if what == "the run":
        linked = tiny(tmp_path, "link")
        os.symlink(real.folder, linked.folder)
    else:
        linked = tiny(tmp_path, runs=str(tmp_path / "link"))
        os.symlink(tmp_path / "runs", tmp_path / "link")
    with folder.alone_in(real.folder), pytest.raises(ValueError, match="another process is train"):
        loop.train(linked)


def test_a_lock_does_not_empty_a_file_of_its_name(tmp_path):
    (tmp_path / ".run.lock").write_text("mine")
    with folder.alone_in(tmp_path / "run"):
        pass
    assert (tmp_path / ".run.lock").read_text() == "mine"


def from_command_line(*flags: str):
    return config_from(cli.build_parser().parse_args(["train", *flags]))


def test_resume_looks_where_the_same_command_began(tmp_path):
    text = tiny(tmp_path).data
    begun = from_command_line("--runs", str(tmp_path), "--data", text, "--lr", "0.001")
    assert begun.folder.name == "mac-text"
    folder.prepare_folder(begun, None, fresh=False)
    resumed = from_command_line("--runs", str(tmp_path), "--data", text, "--resume")
    assert resumed == begun
    with pytest.raises(ValueError, match=r"no run in .*mac; .* or --name one of mac-text"):
        from_command_line("--runs", str(tmp_path), "--resume")


def test_resume_trains_where_the_run_lies_now(tmp_path):
    config = tiny(tmp_path, runs=str(tmp_path / "there"))
    folder.prepare_folder(config, None, fresh=False)
    shutil.move(config.folder, tmp_path / "moved")
    resumed = from_command_line("--runs", str(tmp_path), "--name", "moved", "--resume")
    assert resumed.folder == tmp_path / "moved"


def test_a_missing_matplotlib_is_noticed_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(loop, "take_step", None)
    with pytest.raises(ValueError, match="pip install matplotlib"):
        loop.train(tiny(tmp_path))
    assert not tiny(tmp_path).folder.exists()
