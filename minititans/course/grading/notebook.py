"""Inside the box: run a submission's cells as JupyterLab would, then call its functions.

Whatever the cells did to Python, to torch or to this very module, they did it to their own
process. What leaves is a line for each thing that happened (see answers.py), and the grader
believes none of it: it compares numbers with those that it has calculated itself.
"""

import contextlib
import json
import math
import os
import re
import signal
import tempfile
import time
from collections.abc import Collection
from importlib import import_module
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from minititans.course import checks
from minititans.course.checking.attempt import LIMIT, run_all
from minititans.course.checking.guard import no_way_out
from minititans.course.checking.limit import WAITING, Budget, OutOfTime, call_within
from minititans.course.checking.record import Attempt
from minititans.course.grading import answers
from minititans.course.labs import Task, all_labs

SHARE = 12  # a cell or a task may take this part of the submission's time
GRACE = 3  # seconds after a task's limit until its process is ended from outside


def warm_up(lab: str) -> None:
    """Load what this lab needs: the first figure and the first derivative load much of theirs late.

    Done once, before the processes fork that would each load it again, at a student's expense.
    """
    import_module("minititans.course.labs.pictures")
    torch.set_num_threads(1)
    for task in all_labs()[lab].tasks:
        task.reference(*task.cases(None)[0].values())


def run(
    source: bytes,
    name: str,
    lab: str,
    seed: int,
    seconds: float,
    handle: int,
    skipped: Collection[int] = (),
) -> None:
    """Run every cell, even after one that fails; then let each task's function answer.

    seconds: of processor time, for everything; handle: where the answers are written to;
    skipped: numbers of cells that ended the process when they were run before
    """
    settle_in(handle)
    limit = min(LIMIT, seconds / SHARE)
    try:
        cells = read_cells(source, name)
    except (ValueError, TypeError, RecursionError) as error:
        return answers.write(handle, unreadable=str(error)[:200])
    me, shell = os.getpid(), make_shell()
    failures: dict[int, Attempt] = {}
    for number, cell in enumerate(cells, start=1):
        if number in skipped:
            failures[number] = Attempt("stopped")
            continue
        answers.write(handle, cell=number)
        with no_way_out():  # a function that is called here and exits costs its task, not the lab
            failure = run_cell(shell, cell, limit)
        if failure:
            failures[number] = failure
        if os.getpid() != me:  # a fork of this process that the cell has made
            os._exit(0)
    answers.write(handle, cell=0)
    for task in all_labs()[lab].tasks:
        function = shell.user_ns.get(task.function)
        if function is None:
            attempts = [why_missing(task, cells, failures)]
            answers.write(handle, task=task.id, attempts=answers.pack(attempts))
        else:
            answer_apart(task, function, seed, limit, handle)


def settle_in(handle: int) -> None:
    """Leave `handle` as the only way out: input is empty, and what is printed goes nowhere."""
    here, tempfile.tempdir = os.getcwd(), None  # None: look at TMPDIR again
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, HOME=here, USER="student", TMPDIR=here, MPLBACKEND="agg")
    os.environ.update(MINITITANS_PROGRESS="off", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.closerange(3, handle)
    os.closerange(handle + 1, 65536)


def read_cells(source: bytes, name: str) -> list[str]:
    """The code cells of an .ipynb, or the pieces of a .py between lines that begin with `# %%`.

    >>> read_cells(b"a = 1\\n# %% [markdown]\\n# words\\n# %%\\nb = 2", "02_surprise.py")[2]
    '\\nb = 2'
    """
    text = source.decode("utf-8-sig")
    if name.endswith(".py"):
        return re.split(r"^# *%%.*$", text, flags=re.MULTILINE)
    book = json.loads(text)
    if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
        raise ValueError("it is not a Jupyter notebook: it has no cells")
    cells = [cell for cell in book["cells"] if isinstance(cell, dict)]
    return ["".join(c.get("source", "")) for c in cells if c.get("cell_type") == "code"]


def make_shell() -> InteractiveShell:
    """IPython without history and colours; its `check` accepts everything and stops nothing."""
    checks.examine = lambda id, *_, **__: checks.Result(id, True, "passed", None, "")
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    shell._tee = lambda channel: contextlib.nullcontext()  # or it keeps whatever is printed
    return shell


def run_cell(shell: InteractiveShell, cell: str, seconds: float) -> Attempt | None:
    """None if it ran to its end, else what stopped it."""
    try:
        result = call_within(Budget(seconds), shell.run_cell, cell)
    except OutOfTime:
        return Attempt("too slow")
    except BaseException as error:
        return Attempt("raised", words(error))
    error = result.error_before_exec or result.error_in_exec
    if isinstance(error, OutOfTime):
        return Attempt("too slow")
    return Attempt("raised", words(error)) if error else None


def why_missing(task: Task, cells: list[str], failures: dict[int, Attempt]) -> Attempt:
    """There is no such function: did the cell that should define it fail?"""
    makes_it = re.compile(rf"^\s*(def\s+{task.function}\b|{task.function}\s*=)", re.MULTILINE)
    for number, failure in failures.items():
        if makes_it.search(cells[number - 1]):
            return failure
    return Attempt("not a function", "None")


def answer_apart(task: Task, function: Any, seed: int, limit: float, handle: int) -> None:
    """Call a function in a process of its own: one that never returns keeps only itself waiting."""
    process = fork()
    if process == 0:
        try:
            import resource  # Windows does not have it

            most = math.ceil(limit) + GRACE
            resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
            torch.set_num_threads(1)  # more would wait for threads that a fork does not copy
            attempts = run_all(task, function, seed, limit)
            answers.write(handle, task=task.id, attempts=answers.pack(attempts))
            os._exit(0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + WAITING * limit + GRACE
    ended, status = 0, 0
    while not ended and time.monotonic() < deadline:
        time.sleep(0.005)
        ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    # Of two answers the first counts: this one if the function ended the process, perhaps in C.
    too_slow = not ended or os.WTERMSIG(status) == signal.SIGXCPU
    attempts = [Attempt("too slow" if too_slow else "stopped")]
    answers.write(handle, task=task.id, attempts=answers.pack(attempts))


def fork() -> int:
    """`os.fork`, repeated for a while: the cells may have left processes behind that count."""
    for _ in range(50):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended still count
                pass
        with contextlib.suppress(BlockingIOError):
            return os.fork()
        time.sleep(0.02)
    return os.fork()


def words(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
