"""Run a module of this package in a process of its own, where nothing else has left its traces."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measurement import Unavailable

ROOT = Path(__file__).resolve().parent.parent
CANNOT = 3  # exit code of a child that found out it cannot measure here


def lines_of(module: str, *arguments: object) -> Iterator[str]:
    """The lines that `python -m module arguments...` prints, as they come."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    # Complaints go to a file, not a pipe: nobody reads while the child writes.
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield from process.stdout
        except BaseException:  # we are interrupted, or nobody wants the rest
            process.kill()
            raise
        process.wait()
        errors.seek(0)
        complaint = errors.read().strip()
    if process.returncode == CANNOT:
        raise Unavailable(complaint)
    if process.returncode != 0:
        raise RuntimeError(f"python -m {module} failed:\n{complaint}")


def answer(measure, *arguments) -> None:
    """The child's side: measure, or say on stderr why not."""
    try:
        measure(*arguments)
    except Unavailable as why:
        print(why, file=sys.stderr)
        sys.exit(CANNOT)
