"""Progress and hints: written whole, never lost, shown in bars."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from minititans.cli import main
from minititans.course import check, hint, progress
from minititans.course.labs import all_labs, find_task
from minititans.course.progress_file import (
    NAME,
    Progress,
    course_folder,
    is_kept,
    load,
    report,
    reset,
    update,
)

TASKS = [task for lab in all_labs().values() for task in lab.tasks]


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course folder, and we are in its exercises."""
    (tmp_path / "exercises").mkdir()
    (tmp_path / "solutions").mkdir()
    monkeypatch.chdir(tmp_path / "exercises")
    return tmp_path


def solve(progress: Progress, id: str) -> None:
    progress.passed.append(id)


def flat(text: str) -> str:
    """Without the breaks between lines."""
    return " ".join(text.split())


def right(W, key, value):
    return torch.outer(W @ key - value, key)


def test_a_passed_check_is_kept_in_the_course_folder_and_shown(course, capsys):
    check("02.3", right)
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "✓ 02.3 surprise: right."
    assert "lab 02  □□■□□□  1 of 6, next: 02.1 The loss" in out
    assert load(course).passed == ["02.3"]
    check("02.3", right)  # again: still once
    assert load(course).passed == ["02.3"]
    capsys.readouterr()
    progress()
    shown = capsys.readouterr().out
    assert "□□■□□□  1 of 6" in shown and "Next: 01.1 Write" in shown
    assert len(shown.splitlines()) == len(all_labs()) + 2


def test_a_failed_check_is_not_kept(course):
    with pytest.raises(SystemExit):
        check("02.3", lambda W, key, value: W)
    assert not (course / NAME).exists()


def test_nothing_is_kept_in_solutions_nor_when_switched_off(course, monkeypatch, capsys):
    monkeypatch.setenv("MINITITANS_PROGRESS", "off")
    check("02.3", right)
    hint("02.3")
    monkeypatch.delenv("MINITITANS_PROGRESS")
    monkeypatch.chdir(course / "solutions")
    assert not is_kept()
    check("02.3", right)
    progress()
    assert "not here" in capsys.readouterr().out
    assert not (course / NAME).exists()


def test_the_course_folder_is_the_nearest_with_exercises(tmp_path):
    (tmp_path / "exercises" / "deep" / "er").mkdir(parents=True)
    assert course_folder(tmp_path / "exercises" / "deep" / "er") == tmp_path
    assert course_folder(tmp_path) == tmp_path


def test_hints_come_one_at_a_time_and_survive_a_new_session(course, capsys):
    hints = find_task("02.3").hints
    for number in range(3):
        hint("02.3")
        out = capsys.readouterr().out
        assert out.splitlines()[0] == f"Hint {number + 1} of 3 for 02.3 surprise:"
        assert hints[number] in flat(out) and load(course).hints == {"02.3": number + 1}
    hint("02.3")
    out = capsys.readouterr().out
    assert hints[2] in flat(out) and "the last one" in out
    hint("01.1")
    assert "Hint 1 of 3" in capsys.readouterr().out
    hint("no.1")
    assert "there is no task 'no.1'" in capsys.readouterr().out


def test_bars_for_all_labs_and_what_is_next():
    shown = report(Progress(passed=[task.id for task in TASKS]))
    assert "All solved." in shown and "□" not in shown
    for lab in all_labs().values():
        assert f"{lab.number}  {lab.title}" in shown
    shown = report(Progress(passed=["01.1"]), "ascii")
    shown.encode("ascii")
    assert "#....  " in shown and "Next: 01.2 Read" in shown


def test_the_command_shows_the_same_and_resets(course, capsys):
    update(course, lambda p: solve(p, "04.4"))
    assert main(["progress"]) == 0
    assert capsys.readouterr().out == report(Progress(["04.4"])) + "\n"
    assert main(["progress", "--folder", str(course)]) == 0
    assert "■" in capsys.readouterr().out
    assert main(["progress", "--reset"]) == 0
    assert "progress.old.json" in capsys.readouterr().out
    assert load(course) == Progress() and not (course / NAME).exists()
    assert json.loads((course / "progress.old.json").read_text())["passed"] == ["04.4"]
    assert main(["progress", "--reset"]) == 0
    assert "No progress to reset." in capsys.readouterr().out
    assert main(["progress", "--folder", str(course / "nowhere")]) == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"passed": 3}', '{"passed": [], "hints": {"a": "b"}}']
)
def test_a_broken_file_is_put_aside_and_progress_begins_anew(course, text, capsys):
    (course / NAME).write_text(text)
    check("02.3", right)
    assert load(course).passed == ["02.3"]
    assert (course / "progress.broken.json").read_text() == text
    assert "could not be read" in capsys.readouterr().out


def test_a_task_that_is_no_longer_there_does_no_harm(course, capsys):
    update(course, lambda p: solve(p, "99.9"))
    progress()
    assert "Next: 01.1" in capsys.readouterr().out


def test_a_write_that_fails_in_the_middle_leaves_the_old_file(course, monkeypatch):
    update(course, lambda p: solve(p, "01.1"))
    before = (course / NAME).read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        update(course, lambda p: solve(p, "01.2"))
    assert (course / NAME).read_bytes() == before
    assert [p.name for p in course.iterdir() if p.name.endswith("unfinished")] == []


def test_a_check_whose_progress_cannot_be_stored_still_says_right(course, monkeypatch, capsys):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    check("02.3", right)
    out = capsys.readouterr().out
    assert out.startswith("✓ 02.3") and "could not be stored" in out and "No space left" in out


WRITER = """
import sys
from pathlib import Path
from minititans.course.progress_file import update
folder = Path(sys.argv[1])
print("ready", flush=True)
n = 0
while True:
    n += 1
    update(folder, lambda p: (p.passed.clear(), p.passed.extend(f"x{i}" for i in range(n % 4000))))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is Unix")
def test_killing_a_writer_at_any_moment_leaves_a_whole_file(course):
    update(course, lambda p: solve(p, "01.1"))
    for number in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(course)], stdout=subprocess.PIPE, text=True
        )
        writer.stdout.readline()
        time.sleep(0.2 + 0.13 * number)
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
        writer.stdout.close()
        stored = json.loads((course / NAME).read_text())
        assert stored["passed"] == [f"x{i}" for i in range(len(stored["passed"]))] or (
            stored["passed"] == ["01.1"]
        )
    assert load(course).passed  # and the lock is free again
    update(course, lambda p: solve(p, "01.2"))
    assert "01.2" in load(course).passed


def test_two_notebooks_that_store_at_once_lose_nothing(course):
    names = [[f"{letter}{number}" for number in range(25)] for letter in "abcd"]

    def work(mine):
        for name in mine:
            update(course, lambda p, name=name: solve(p, name))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert sorted(load(course).passed) == sorted(name for mine in names for name in mine)


def test_resetting_nothing_is_nothing(tmp_path):
    assert reset(Path(tmp_path)) is None
