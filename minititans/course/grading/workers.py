"""Run all submissions, several at a time, and take their outcomes as they come."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from minititans.course.grading.isolation import (
    DEFAULT_LIMITS,
    CannotLockIn,
    Request,
    Running,
    start,
)


def run_all(
    requests: Sequence[Request], way: str, jobs: int, log: Path
) -> Iterator[tuple[Request, str]]:
    """Each request and how it ended, in the order in which they end.

    way: how to isolate submissions; jobs: how many at a time; log: a file for our own errors
    """
    waiting = [*enumerate(requests)]
    running: list[Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(start(*waiting.pop(0), way, log))
            time.sleep(0.02)
            for each in [each for each in running if each.is_over()]:
                running.remove(each)
                yield each.request, each.end()
    finally:
        for each in running:
            each.end()


def try_out(way: str, log: Path) -> None:
    """Run a submission that does nothing, in the log's folder; it must come to its end."""
    source, box, answers = (log.with_name(name) for name in ("nothing.py", "nobox", "nothing"))
    source.touch()
    box.mkdir()
    request = Request(source, "01", 0, box, answers, DEFAULT_LIMITS)
    [(_, outcome)] = run_all([request], way, 1, log)
    if outcome != "done":
        last = log.read_text(errors="replace").strip().rpartition("\n")[2]
        raise CannotLockIn(last.partition(": ")[2] or last or f"{outcome} in a first test")
