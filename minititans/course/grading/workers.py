"""The grader's side of a zygote: start it, send all requests, take the outcomes as they come."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from minititans.course.grading.sandbox import CannotLockIn
from minititans.course.grading.zygote import Request

# What a zygote inherits. A submission can read it, so nothing private belongs here.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run_all(
    requests: Sequence[Request], way: str, jobs: int, log: Path
) -> Iterator[tuple[Request, str]]:
    """Each request and how it ended, in the order in which they end.

    way: how to isolate submissions; jobs: how many at a time; log: a file for a zygote's errors
    """
    left = dict(enumerate(requests))
    while left:
        with start(way, jobs, log) as zygote:
            try:
                if zygote.stdout.readline() != "ready\n":
                    raise CannotLockIn(last_words(log))
                for number, request in left.items():
                    print(json.dumps([number, asdict(request)]), file=zygote.stdin)
                zygote.stdin.close()
                for line in zygote.stdout:
                    number, outcome = json.loads(line)
                    yield left.pop(number), outcome
            except BaseException:
                zygote.terminate()
                raise
        if left and jobs == 1:  # the zygote was killed, and this is the one that was running
            yield left.pop(min(left)), "died"
        jobs = 1


def start(way: str, jobs: int, log: Path) -> subprocess.Popen:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= ONE_THREAD | {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-P", "-m", "minititans.course.grading.zygote", way, str(jobs)]
    pipe = subprocess.PIPE
    with open(log, "ab") as errors:
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, text=True
        )


def last_words(log: Path) -> str:
    """What stopped a zygote: the end of a traceback, without the name of the exception."""
    line = log.read_text(errors="replace").strip().rpartition("\n")[2]
    return line.partition(": ")[2] or line
