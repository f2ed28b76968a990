"""What a submission's process may do: its limits, and the three forms of isolation.

bwrap   it sees a few read-only folders, no network, no other process (see sandbox.py)
user    it runs as a user of its own, who may read what anyone may and owns nothing; needs root
none    it runs as the person who runs the grader, with limits only: for submissions that you trust
"""

import contextlib
import ctypes
import math
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from minititans.course.grading import sandbox
from minititans.course.grading.sandbox import Sandbox

try:
    import resource
except ImportError:  # Windows, which has nothing of the kind
    resource = None

WAYS = ("bwrap", "user", "none")
# If root grades, submissions run under user ids that nobody has, so that they own nothing.
FIRST_USER, USERS = 62_000, 3_000
SET_PARENT_DEATH_SIGNAL, NO_NEW_PRIVILEGES = 1, 38  # of prctl


@dataclass(frozen=True)
class Limits:
    """seconds: of processor time; memory: bytes beyond what Python and torch take; both for each
    process. disk: bytes that it can write; processes: at the same time, threads included."""

    seconds: float = 60.0
    memory: int = 1 << 30
    disk: int = 64 << 20
    processes: int = 16


DEFAULT_LIMITS = Limits()


def lock_in(way: str, slot: int, box: str, limits: Limits, size: int | None) -> None:
    """In the submission's process, before its code runs; its code cannot undo this.

    slot: a number that no other submission has at the same time; box: the folder to work in where
    there is no sandbox; size: what `address_space` was before it moved into one
    """
    os.umask(0o022)  # the submission must be able to read what is made for it
    os.chdir(sandbox.WORK if way == "bwrap" else box)
    if way != "none" and os.getuid() == 0:
        become(user_of(slot))
    elif way == "user":
        raise PermissionError("only root can run a process as another user")
    elif way == "bwrap":
        sandbox.drop_capabilities()
    prctl(NO_NEW_PRIVILEGES, 1)
    stop_with_parent(signal.SIGKILL)
    wanted = {"CORE": 0, "CPU": math.ceil(limits.seconds), "FSIZE": limits.disk}
    if size is not None:
        wanted["AS"] = size + limits.memory
    if way != "none":
        wanted["NPROC"] = limits.processes
    for name, value in wanted.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def user_of(slot: int) -> int:
    return FIRST_USER + slot % USERS


def become(user: int) -> None:
    os.chown(".", user, user)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if not os.access(sys.base_prefix, os.R_OK | os.X_OK):
        raise PermissionError(f"other users cannot read Python in {sys.base_prefix}")


def limit_processor(seconds: int) -> None:
    """Less processor time than before, for a process that runs one task."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def address_space() -> int | None:
    """Bytes of address space that this process uses; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def end(way: str, slot: int, group: int, room: Sandbox | None) -> None:
    """Kill whatever is left of a submission."""
    if room is not None:
        room.end()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    if way == "user":  # as this user, kill everything that this user may kill
        killer = os.fork()
        if killer == 0:
            with contextlib.suppress(BaseException):
                os.setresuid(*3 * [user_of(slot)])
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(killer, 0)


def stop_with_parent(number: int) -> None:
    """When the process that waits for this one is gone, this one gets a signal."""
    prctl(SET_PARENT_DEATH_SIGNAL, number)


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        sandbox.call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)
