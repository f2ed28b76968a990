"""Judge what a student's function did: right, or what differs, and which mistake it looks like."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from minititans.course.checking.attempt import run_all, run_each, run_one
from minititans.course.checking.limit import Budget
from minititans.course.checking.patterns import where_it_differs
from minititans.course.checking.record import Attempt
from minititans.course.checking.rules import loops
from minititans.course.checking.words import (
    KINDS,
    TOLERANCE,
    gradient_difference,
    named,
    problem_words,
    structure_difference,
    value_difference,
)
from minititans.course.labs.task import Mistake, Task

PATIENCE = 60.0  # seconds for a reference or a mistake, which need far less
NO_MISTAKE = (
    "not written", "not a function", "signature", "forbidden", "stopped", "too slow", "unsteady",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A verdict on one task.

    kind:      "passed", or what is wrong in a word: the keys of `KINDS`
    mistake:   the typical mistake that the function behaves like, if it does
    message:   what the student reads
    arguments: the inputs on which it went wrong
    """

    task: str
    passed: bool
    kind: str
    mistake: str | None
    message: str
    arguments: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def diagnosis(self) -> str:
        """A few words for a table: the mistake's name, or what kind of problem it is."""
        return self.mistake or KINDS[self.kind]


def judge(task: Task, attempts: list[Attempt], seed: int | None = 0) -> Result:
    """Compare a function's attempts with the reference's, then with those of the mistakes."""
    expected = right_answers(task, seed)
    wrong = [
        (case, *found)
        for case, (attempt, right) in enumerate(zip(attempts, expected))
        if (found := difference(task, attempt, right))
    ]
    printed = next((attempt.printed for attempt in attempts if attempt.printed), "")
    if not wrong and len(attempts) == len(expected) and (words := _broken_rule(task, attempts)):
        wrong = [(len(expected) - 1, "forbidden", words)]
    if not wrong and len(attempts) == len(expected):
        note = "\n  It prints while it works, which does no harm." if printed else ""
        return Result(task.id, True, "passed", None, f"✓ {task.id} {task.function}: right.{note}")
    if not wrong:  # incomplete, as only a hostile process would send it
        wrong = [(0, "stopped", "It was interrupted before it had answered.")]

    # "The numbers are right, but the gradient …" is said only if all numbers are right.
    case, kind, words = next((each for each in wrong if each[1] != "gradients"), wrong[0])
    if kind in ("values", "gradients") and len(attempts) == len(expected) and _unsteady(attempts):
        kind = "unsteady"
        words = (
            "Asked the same question twice, it gave two answers. Does it use random numbers, or "
            "keep something in a variable outside?"
        )
    lines = [words]
    mistake = find_mistake(task, attempts, kind, seed)
    if mistake:
        lines.append(mistake.says)
    elif kind in ("values", "gradients", "not finite", "raised"):
        numbers = [case, *(number for number, *_ in wrong if number != case)]
        lines += where_it_differs(task, attempts, expected, numbers, task.draws(seed))
    if attempts and attempts[case].printed:
        lines.append("It printed: " + "\n".join(attempts[case].printed.splitlines()[:10]))
    first = {"not written": f"○ {task.id} {task.function}: not written yet."}
    message = "\n".join(
        [
            first.get(kind, f"✗ {task.id} {task.function}: not right yet."),
            *("  " + line.replace("\n", "\n  ") for line in lines),
        ]
    )
    arguments = task.cases(seed)[case] if case < len(expected) - 1 else task.cases(seed)[0]
    return Result(task.id, False, kind, mistake.name if mistake else None, message, arguments)


def difference(task: Task, attempt: Attempt, right: Attempt) -> tuple[str, str] | None:
    """What is wrong with one attempt: its kind and a sentence; None if nothing is."""
    if attempt.problem:
        return attempt.problem, problem_words(task, attempt)
    if attempt.changed:
        names = " and ".join(attempt.changed)
        return "changed inputs", (
            f"It changes its own input {names}. The caller still needs {names} as it was: "
            "make something new instead of +=, [...] = , or a method that ends in _."
        )
    if found := structure_difference(task, attempt, right):
        return found
    for name, wanted in right.values.items():
        value = attempt.values[name]
        if not _same(value, wanted):
            if isinstance(value, Tensor) and (wanted.isfinite() & ~value.isfinite()).any():
                return "not finite", f"{named(task, name)} holds NaN or infinite numbers."
            return "values", value_difference(named(task, name), value, wanted)
    for name, wanted in right.gradients.items():
        if not _same(attempt.gradients.get(name), wanted):
            return "gradients", gradient_difference(name, attempt.gradients.get(name), wanted)
    return None


def find_mistake(
    task: Task, attempts: list[Attempt], kind: str, seed: int | None
) -> Mistake | None:
    """The first mistake in the bank that does what this function did, on every input."""
    if kind in NO_MISTAKE:
        return None
    asked = replace(task, gradients=kind == "gradients")  # half of the work, where it is enough
    for mistake in task.mistakes:
        theirs = run_each(asked, mistake.answer, seed, PATIENCE, rules=False)
        pairs = zip_longest(attempts, theirs)  # ends at the first difference
        if all(_behaves_like(*pair, gradients=kind == "gradients") for pair in pairs):
            return mistake
    return None


@lru_cache(maxsize=128)
def right_answers(task: Task, seed: int | None) -> list[Attempt]:
    """What the reference does, kept: a class of students is judged on the same inputs."""
    if seed is None:
        return run_all(task, task.reference, None, PATIENCE, rules=False)
    *fixed, again = right_answers(task, None)
    budget, fresh = Budget(PATIENCE), task.cases(seed)[len(fixed) :]
    random = [run_one(task, task.reference, case, budget, rules=False) for case in fresh]
    return [*fixed, *random, again]


def _behaves_like(attempt: Attempt | None, other: Attempt | None, gradients: bool) -> bool:
    if attempt is None or other is None:
        return False  # one of them stopped earlier
    if attempt.problem or other.problem:
        return attempt.problem == other.problem
    if (attempt.values.keys(), attempt.odd, attempt.changed) != (
        other.values.keys(),
        other.odd,
        other.changed,
    ):
        return False
    if not all(_same(value, other.values[name]) for name, value in attempt.values.items()):
        return False
    return not gradients or all(
        _same(grad, other.gradients.get(name)) for name, grad in attempt.gradients.items()
    )


def _same(found: Tensor | int | None, wanted: Tensor | int | None) -> bool:
    """Equal up to rounding; NaN equals NaN, so that a mistake that makes NaN can be recognised."""
    if not isinstance(found, Tensor) or not isinstance(wanted, Tensor):
        # A derivative that is zero up to rounding may be missing: nothing depends on it.
        tensor = found if isinstance(found, Tensor) else wanted
        if isinstance(tensor, Tensor) and (found is None or wanted is None):
            return bool((tensor.abs() <= TOLERANCE).all())
        return type(found) is type(wanted) and found == wanted
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    finite = wanted[torch.isfinite(wanted)]
    scale = finite.abs().max().item() if finite.numel() else 0.0
    return torch.allclose(found, wanted, rtol=0, atol=TOLERANCE * max(1.0, scale), equal_nan=True)


def _unsteady(attempts: list[Attempt]) -> bool:
    """Did the same question, the first and the last, get two answers?"""
    first, again = attempts[0], attempts[-1]
    pairs = ((first.values, again.values), (first.gradients, again.gradients))
    return any(not _same(old[name], new.get(name)) for old, new in pairs for name in old)


def _broken_rule(task: Task, attempts: list[Attempt]) -> str | None:
    """What to say about an answer that is right, but not in the way that its task asks for."""
    if "loop" in task.forbids and loops(attempts[-1].counts):
        return (
            f"The numbers are right, but {task.id} asks for matrix products. The more tokens there "
            "are, the more operations your answer takes: it goes through them one by one."
        )
    return None
