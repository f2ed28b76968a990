"""What a student has solved, in `progress.json` in the course's folder.

The file is written whole: first beside the old one, which it then replaces in one step. A crash at
any moment leaves the old file or the new one.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from minititans.course.labs import all_labs
from minititans.files import write_whole

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two notebooks from storing at the same moment
    fcntl = None

NAME = "progress.json"
SWITCH = "MINITITANS_PROGRESS"  # "off" in the environment: nothing is kept


@dataclass
class Progress:
    """passed: the tasks that were solved, in order; hints: how many were shown for each task."""

    passed: list[str] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)


def course_folder(start: Path | None = None) -> Path:
    """The nearest folder, from here upwards, that has `exercises` in it; here if there is none."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "exercises").is_dir():
            return folder
    return start


def is_kept(start: Path | None = None) -> bool:
    """Not when switched off, and not in `solutions`: reading solutions solves nothing."""
    here = (start or Path.cwd()).resolve()
    return os.environ.get(SWITCH, "on") != "off" and here.name != "solutions"


def load(folder: Path) -> Progress:
    """What the file says; a file that cannot be read is set aside and counts as none."""
    path = folder / NAME
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        progress = Progress(list(stored["passed"]), dict(stored["hints"]))
        if not all(isinstance(number, int) for number in progress.hints.values()):
            raise ValueError("hints are not numbers")
    except FileNotFoundError:
        return Progress()
    except (ValueError, KeyError, TypeError):
        broken = path.with_suffix(".broken.json")
        os.replace(path, broken)
        print(f"{NAME} could not be read and is now {broken.name}; progress starts over.")
        return Progress()
    return progress


def update(folder: Path, change: Callable[[Progress], None]) -> Progress:
    """Load, change, store; two notebooks that do it at once wait for each other."""
    with _alone(folder):
        progress = load(folder)
        change(progress)
        with write_whole(folder / NAME) as temporary:
            temporary.write_text(json.dumps(asdict(progress), indent=1), encoding="utf-8")
    return progress


def reset(folder: Path) -> Path | None:
    """Start over; the old file is kept beside the new one under another name."""
    path = folder / NAME
    with _alone(folder):
        if not path.exists():
            return None
        old = path.with_suffix(".old.json")
        os.replace(path, old)
    return old


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system releases it if the process dies."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def progress(folder: Path | None = None) -> None:
    """Show a bar for each lab and what is next."""
    if folder is None and not is_kept():
        print("Progress is kept where exercises are solved, not here.")
        return
    print(report(load(folder or course_folder()), sys.stdout.encoding or "utf-8"))


def report(progress: Progress, encoding: str = "utf-8") -> str:
    """The bars as text that `encoding` can show.

    >>> print(report(Progress(passed=["01.1", "01.2"]), "ascii").splitlines()[0])
    01  A matrix that remembers  ##...  2 of 5
    """
    labs = all_labs().values()
    full, empty = _marks(encoding)
    width = max(len(lab.title) for lab in labs)
    lines, left = [], []
    for lab in labs:
        done = [task.id in progress.passed for task in lab.tasks]
        bar = "".join(full if solved else empty for solved in done).ljust(6)
        lines.append(f"{lab.number}  {lab.title:<{width}}  {bar}  {sum(done)} of {len(done)}")
        left += [task for task in lab.tasks if task.id not in progress.passed]
    if left:
        lines.append(f"\nNext: {left[0].id} {left[0].title}")
    else:
        lines.append("\nAll solved.")
    return "\n".join(line.rstrip() for line in lines)


def lab_line(progress: Progress, number: str, encoding: str = "utf-8") -> str:
    """One lab's bar in a line, and its next task.

    >>> lab_line(Progress(passed=["01.1"]), "01", "ascii")
    'lab 01  #....  1 of 5, next: 01.2 Read'
    """
    tasks = all_labs()[number].tasks
    full, empty = _marks(encoding)
    bar = "".join(full if task.id in progress.passed else empty for task in tasks)
    left = [task for task in tasks if task.id not in progress.passed]
    then = f"next: {left[0].id} {left[0].title}" if left else "all solved"
    return f"lab {number}  {bar}  {len(tasks) - len(left)} of {len(tasks)}, {then}"


def _marks(encoding: str) -> tuple[str, str]:
    try:
        "■□".encode(encoding)
    except UnicodeEncodeError:
        return "#", "."
    return "■", "□"
