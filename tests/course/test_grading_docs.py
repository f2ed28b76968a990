"""What docs/teaching.md says of mistakes, minutes, options and limits is so; its example works."""

import argparse
import re
import runpy
from pathlib import Path

import pytest

from minititans.course.checking.attempt import run_all
from minititans.course.checking.judge import judge
from minititans.course.grading import command, isolation, notebook, submissions
from minititans.course.grading.isolation import DEFAULT_LIMITS
from minititans.course.labs import all_labs, find_task
from minititans.course.making.exercises import exercise_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/teaching.md").read_text(encoding="utf-8")
PARTS = re.split(r"^### Session ", PAGE.split("## Adapting a lab")[0], flags=re.MULTILINE)[1:]
SESSIONS = {f"{int(part.split(':')[0]):02d}": part for part in PARTS}


def test_every_lab_has_a_session_of_ninety_minutes_with_its_notebook():
    assert [*SESSIONS] == [*all_labs()]
    for number, session in SESSIONS.items():
        assert sum(map(int, re.findall(r"^\| (\d+) \|", session, re.MULTILINE))) == 90
        assert f"(../notebooks/{number}_" in session and f"(../exercises/{number}_" in session


@pytest.mark.parametrize("task, mistake", re.findall(r"^\| (\d\d\.\d) \| (.+?) \|", PAGE, re.M))
def test_a_typical_mistake_is_in_the_bank(task, mistake):
    assert mistake in {known.name for known in find_task(task).mistakes}


def test_every_session_names_mistakes_of_its_own_lab():
    for number, session in SESSIONS.items():
        tasks = re.findall(r"^\| (\d\d)\.\d \|", session, re.MULTILINE)
        assert len(tasks) >= 3 and set(tasks) == {number}


def test_the_page_counts_the_tasks_rightly():
    assert f"{sum(len(lab.tasks) for lab in all_labs().values())} functions to write" in PAGE


def test_the_page_counts_the_random_inputs_of_a_check_rightly():
    task = find_task("02.3")
    assert len(task.cases(0)) - len(task.cases(None)) == 6 and "Six random inputs follow" in PAGE


def test_every_option_that_is_named_exists():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    there = {option for action in parser._actions for option in action.option_strings}
    grading = PAGE.split("## Grading a class")[1]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", grading))
    assert named and named <= there


def test_the_limits_are_those_that_apply():
    limits = PAGE.split("**Limits.**")[1].split("\n\n")[0]
    assert f"use {DEFAULT_LIMITS.seconds:g} s of processor time (`--time-limit`)" in limits
    assert "a twelfth" in limits and notebook.SHARE == 12
    assert "three times" in limits and isolation.WAITING == 3
    assert "ten seconds" in limits and isolation.LOADING == 10
    assert f"{DEFAULT_LIMITS.memory >> 20:,} MB of memory" in limits
    assert (
        f"{DEFAULT_LIMITS.disk >> 20} MB of disk; and {DEFAULT_LIMITS.processes} processes"
        in limits
    )
    assert f"over {submissions.LARGEST >> 20} MB" in limits


def test_the_example_of_a_new_task_is_checked_as_it_says():
    part = PAGE.split("## Adding a task with its mistakes")[1].split("## Grading a class")[0]
    declaration, solution = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    lab = runpy.run_path(str(ROOT / "minititans/course/labs/lab01.py"))
    exec(declaration, lab)
    task = lab["LAB"].tasks[-1]
    assert task.id == "01.6" and task.function == "recall_error" and len(task.mistakes) == 3

    written = {"check": lambda id, function: None, "hebbian_memory": lab["hebbian_memory"]}
    exec(solution, written)
    hole = {"check": lambda id, function: None}
    exec(exercise_text(solution), hole)
    for seed in range(3):
        assert judge(task, run_all(task, written["recall_error"], seed), seed).passed
        result = judge(task, run_all(task, hole["recall_error"], seed), seed)
        assert result.kind == "not written" and "how far each answer is" in result.message
        for mistake in task.mistakes:
            result = judge(task, run_all(task, mistake.answer, seed), seed)
            assert result.mistake == mistake.name and mistake.says in result.message
