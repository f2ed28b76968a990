"""`check("02.3", surprise)`: the verdict on a student's function, in the notebook.

check      says what is right and what is not, and records the progress
example    the inputs on which the last check went wrong
examine    the same verdict as an object; prints nothing and records nothing
"""

import contextlib
import secrets
import sys
from typing import Any

from minititans.course import progress_file
from minititans.course.checking.attempt import LIMIT, run_all
from minititans.course.checking.errors import ENDS_THE_NOTEBOOK
from minititans.course.checking.judge import Result, judge, right_answers
from minititans.course.checking.words import wrapped
from minititans.course.labs import find_task

__all__ = ["NotYet", "Result", "check", "examine", "example"]


class NotYet(Exception):
    """Stops a notebook at an unsolved task; shown as its message, without a traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for this
        return str(self).splitlines()


def check(id: str, function: Any) -> None:
    """Check a function against its task, on fixed and on random inputs; say so if it is right.

    If it is not, the notebook stops here and says what is wrong.
    """
    try:
        find_task(id)
    except ValueError as error:
        raise _stop(str(error).removeprefix("id: ")) from None
    result = examine(id, function, seed=secrets.randbelow(10**6))
    _latest[id] = result
    if not result.passed:
        raise _stop(wrapped(f"{result.message}\n\n{_what_now(result)}"))
    _say(result.message)
    if progress_file.is_kept():
        _keep(id)


def examine(id: str, function: Any, seed: int | None = 0, limit: float = LIMIT) -> Result:
    """The verdict as an object. Never raises for anything that the function does.

    seed: of the random inputs; with None only the fixed ones are tried
    """
    task = find_task(id)
    right_answers(task, seed)  # first, while nothing of the student's has run
    return judge(task, run_all(task, function, seed, limit), seed)


def example(id: str) -> dict[str, Any]:
    """Arguments to try a function with: `surprise(**example("02.3"))`.

    Those on which the last check of this session went wrong; before that, small ones.
    """
    task = find_task(id)
    latest = _latest.get(id)
    if latest is not None and latest.arguments is not None:
        return latest.arguments
    return task.cases(seed=None)[0]


_latest: dict[str, Result] = {}  # each task's last verdict in this session, for `example`


def _keep(id: str) -> None:
    def solve(progress):
        if id not in progress.passed:
            progress.passed.append(id)

    folder = progress_file.course_folder()
    try:
        now = progress_file.update(folder, solve)
    except OSError as error:
        _say(f"  (Your progress could not be stored in {folder}: {error.strerror}.)")
        return
    _say("  " + progress_file.lab_line(now, id.split(".")[0], _encoding()))


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _say(text: str) -> None:
    """Print what the terminal can show; if the output was closed, there is nobody to tell."""
    with contextlib.suppress(OSError, ValueError):
        print(text.encode(_encoding(), errors="replace").decode(_encoding()), flush=True)


def _what_now(result: Result) -> str:
    task = find_task(result.task)
    hint = f'hint("{task.id}") gives a hint.'
    if result.kind in ("not written", "not a function", "signature", "forbidden"):
        return hint
    if ENDS_THE_NOTEBOOK in result.message:  # outside a check it would
        return hint
    return f'{hint} {task.function}(**example("{task.id}")) runs the inputs where it went wrong.'


def _stop(message: str) -> BaseException:
    """In a notebook, an exception without a traceback; a script ends, also without one."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        return NotYet(message)
    return SystemExit(message)
