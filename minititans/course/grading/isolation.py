"""Start a submission apart from everything else, in one of three ways, and end all of it.

bwrap   it sees a few read-only folders, no network, no other process (see sandbox.py)
user    it runs as a user of its own, who may read what anyone may and owns nothing; needs root
none    it runs as the person who runs the grader, with limits only: for submissions that you trust
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from minititans.course.grading import sandbox

WAYS = ("bwrap", "user", "none")
# If root grades, submissions run under user ids that nobody has, so that they own nothing.
FIRST_USER, USERS = 62_000, 3_000
WAITING = 3  # how much longer than its processor time a submission may take by the clock
LOADING = 10  # seconds by the clock for loading torch
OUT_OF_TIME = 10  # an exit code
OUTCOMES = {0: "done", OUT_OF_TIME: "out of time", None: "out of time"}  # None: still running
# What a submission can read of the grader's environment: nothing private belongs here.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class CannotLockIn(OSError):
    """Submissions cannot be isolated here, at least not in the way asked for."""


@dataclass(frozen=True)
class Limits:
    """seconds: of processor time; memory: bytes beyond what Python and torch take; both for each
    process. disk: bytes that it can write; processes: at the same time, threads included."""

    seconds: float = 60.0
    memory: int = 1 << 30
    disk: int = 64 << 20
    processes: int = 16


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Request:
    """source: a copy of the submission; box: an empty folder for it; answers: an empty file
    for what it says; seed: of the random inputs for its functions."""

    source: Path
    lab: str
    seed: int
    box: Path
    answers: Path
    limits: Limits


@dataclass(frozen=True)
class Running:
    """user: its own user id, if it has one; deadline: when it must have ended, by the clock."""

    request: Request
    process: subprocess.Popen
    user: int | None
    deadline: float

    def is_over(self) -> bool:
        return self.process.poll() is not None or time.monotonic() > self.deadline

    def end(self) -> str:
        """Kill whatever is left of it, and say how it ended."""
        outcome = OUTCOMES.get(self.process.poll(), "died")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.user is not None:  # as this user, kill everything that this user may kill
            kill = ["sh", "-c", "kill -KILL -1"]
            subprocess.run(kill, cwd="/", user=self.user, group=self.user, extra_groups=[])
        return outcome


def start(number: int, request: Request, way: str, log: Path) -> Running:
    """number: one that no other submission has at the same time; log: a file for our own errors"""
    user = None
    if way != "none" and os.getuid() == 0:
        user = FIRST_USER + (64 * os.getpid() + number) % USERS  # other graders take other ones
        os.chown(request.box, user, user)
    python = [sys.executable, "-P", "-m", "minititans.course.grading.inside"]
    about = json.dumps({"request": asdict(request), "way": way, "user": user}, default=str)
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= ONE_THREAD | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with open(request.source) as read, open(request.answers, "a+") as say, open(log, "a") as err:
        process = subprocess.Popen(
            [*prefix(way, request.limits.disk), *python, about], stdin=read, stdout=say, stderr=err,
            cwd=request.box, env=environment, umask=0o022, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + LOADING + WAITING * request.limits.seconds
    return Running(request, process, user, deadline)


def prefix(way: str, disk: int) -> list[str]:
    """The beginning of a command that runs the rest of it isolated."""
    if way == "none":
        return []
    if way == "user" and os.getuid() != 0:
        raise CannotLockIn("only root can run a process as another user")
    program, package = ("bwrap", "bubblewrap") if way == "bwrap" else ("setpriv", "util-linux")
    if shutil.which(program) is None:
        raise CannotLockIn(f"{package} is not installed")
    # setpriv: otherwise the submission could start programs that run as root, such as su
    return sandbox.bwrap(disk) if way == "bwrap" else ["setpriv", "--no-new-privs"]
