"""A verdict does not depend on the seed: fixed cases decide, for right answers and for wrong ones.

`MINITITANS_SEEDS=200 pytest tests/course/test_checks_seeds.py` tries more seeds than the usual
few.
"""

import os

import pytest
from check_variants import RIGHT, WRONG
from test_checks import SOLUTIONS, TASKS

from minititans.course.checks import examine

SEEDS = range(int(os.environ.get("MINITITANS_SEEDS", "5")))
# Random inputs come on top of the fixed ones, which tell wrong answers by themselves.
FEW = SEEDS if "MINITITANS_SEEDS" in os.environ else SEEDS[-1:]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)


def test_every_task_has_a_right_answer_that_is_not_its_solution():
    assert RIGHT.keys() == SOLUTIONS.keys() and WRONG.keys() <= RIGHT.keys()


@each_task
def test_fixed_cases_alone_tell_right_from_wrong_and_name_the_mistake(task):
    for answer in (SOLUTIONS[task.id], *RIGHT[task.id]):
        result = examine(task.id, answer, seed=None)
        assert result.passed, result.message
    for mistake in task.mistakes:
        assert examine(task.id, mistake.answer, seed=None).mistake == mistake.name
    for answer in WRONG.get(task.id, ()):
        assert not examine(task.id, answer, seed=None).passed


@pytest.mark.slow
@each_task
def test_no_seed_makes_a_right_answer_wrong(task):
    for seed in SEEDS:
        for answer in (SOLUTIONS[task.id], *RIGHT[task.id]):
            result = examine(task.id, answer, seed)
            assert result.passed, f"seed {seed}: {result.message}"


@pytest.mark.slow
@each_task
def test_no_seed_makes_a_wrong_answer_right_or_gives_a_mistake_another_name(task):
    for seed in FEW:
        for mistake in task.mistakes:
            assert examine(task.id, mistake.answer, seed).mistake == mistake.name, seed
        for answer in WRONG.get(task.id, ()):
            assert not examine(task.id, answer, seed).passed, seed
