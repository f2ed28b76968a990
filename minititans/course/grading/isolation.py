"""What a submission's process may do: its limits, and the three ways to lock it in.

namespaces   it sees a few read-only folders, no network, no other process (see namespaces.py)
user         it runs as a user of its own, who may read what anyone may and owns nothing; needs root
none         it runs as whoever runs the grader, with limits only: for submissions that you trust

Everything here happens in a process that was forked for one submission, before its code runs.
"""

import contextlib
import ctypes
import math
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from minititans.course.grading import namespaces

try:
    import resource
except ImportError:  # Windows, where nothing can be locked in this way
    resource = None

WAYS = ("namespaces", "user", "none")
# Submissions run as users that nobody has, so that nothing belongs to them.
FIRST_USER, USERS = 62_000, 3_000
SET_PARENT_DEATH_SIGNAL, NO_NEW_PRIVILEGES = 1, 38  # of prctl


@dataclass(frozen=True)
class Limits:
    """seconds: of the processor's time; memory: bytes beyond what Python and torch take; both for
    each process. disk: bytes that it can write; processes: at one moment, threads included."""

    seconds: float = 60.0
    memory: int = 1 << 30
    disk: int = 64 << 20
    processes: int = 16


DEFAULT_LIMITS = Limits()


class CannotLockIn(OSError):
    """This system offers no way to keep a submission from doing harm."""


def choose(wanted: str = "auto") -> str:
    """The strongest way that works here, or the wanted one; `CannotLockIn` if that fails."""
    reasons = []
    for way in ("namespaces", "user") if wanted == "auto" else (wanted,):
        reason = try_out(way)
        if not reason:
            return way
        reasons.append(f"{way}: {reason}")
    raise CannotLockIn("; ".join(reasons))


def try_out(way: str) -> str:
    """Lock a process in that does nothing: why that fails, or an empty text."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="minititans-grade-") as folder:
        keeper = os.fork()
        if keeper == 0:
            with contextlib.suppress(BaseException), os.fdopen(writing, "w") as report:
                try:
                    separate(way)
                    inner = os.fork()
                    if inner == 0:
                        lock_in(way, Path(folder), DEFAULT_LIMITS, slot=0)
                        report.write("works")
                    else:
                        os.waitpid(inner, 0)
                except Exception as error:
                    report.write(str(error))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as report:
            said = report.read()
        os.waitpid(keeper, 0)
    return "" if said == "works" else said or "it died without a word"


def separate(way: str) -> None:
    """In the parent of the process that is to be locked in."""
    if way == "namespaces":
        namespaces.separate()
    stop_with_parent()


def stop_with_parent(number: int = signal.SIGTERM) -> None:
    """When whoever waits for this process is gone, it should be gone too."""
    if sys.platform == "linux":
        prctl(SET_PARENT_DEATH_SIGNAL, number)


def lock_in(way: str, box: Path, limits: Limits, slot: int) -> None:
    """In the process itself: afterwards nothing in it can undo this. It then works in `box`.

    slot: a number that no other submission has at the same time.
    """
    os.setsid()
    os.umask(0o022)  # what is made for the submission, it has to be able to read
    size = address_space()
    if way == "namespaces":
        namespaces.enter(box, limits.disk, namespaces.python_folders())
    else:
        os.chdir(box)
    if way != "none" and os.getuid() == 0:
        become(user_of(slot))
    elif way == "user":
        raise PermissionError("only root can run a process as another user")
    elif way == "namespaces":
        namespaces.drop_capabilities()
    if sys.platform == "linux":
        prctl(NO_NEW_PRIVILEGES, 1)
    stop_with_parent(signal.SIGKILL)
    set_limits(limits, size, count_processes=way != "none")


def user_of(slot: int) -> int:
    return FIRST_USER + slot % USERS


def become(user: int) -> None:
    os.chown(".", user, user)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if not os.access(sys.base_prefix, os.R_OK | os.X_OK):
        raise PermissionError(f"Python in {sys.base_prefix} is closed to other users")


def set_limits(limits: Limits, size: int | None, count_processes: bool) -> None:
    seconds = math.ceil(limits.seconds)
    wanted = {"RLIMIT_CORE": 0, "RLIMIT_CPU": seconds, "RLIMIT_FSIZE": limits.disk}
    if size is not None:
        wanted["RLIMIT_AS"] = size + limits.memory
    if count_processes:
        wanted["RLIMIT_NPROC"] = limits.processes
    for name, value in wanted.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def limit_processor(seconds: int) -> None:
    """Less of the processor's time than before, for a process that runs one task."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def address_space() -> int | None:
    """Bytes of addresses that this process has in use; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def end(way: str, process: int, slot: int) -> None:
    """Kill whatever is left of a submission: with `namespaces`, its first process is enough."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    if way == "user":  # as this user, kill all that this user may kill
        killer = os.fork()
        if killer == 0:
            with contextlib.suppress(BaseException):
                os.setresuid(*3 * [user_of(slot)])
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(killer, 0)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
