"""Inside the sandbox: the keeper, which runs a submission in a fork of itself, within limits.

    bwrap ── keeper ── submission ── a process for each task, and whatever else it starts

The keeper loads torch and waits; it runs nothing of the submission's. So it is still there when a
cell has ended the submission's process, and runs the notebook again without that cell.
"""

import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minititans.course.grading import notebook
from minititans.course.grading.isolation import OUT_OF_TIME, Limits

MOST_SKIPPED = 3  # how many times a submission runs again without the cell that ended its process


def main(request: dict[str, Any], way: str, user: int | None) -> int:
    """Read the submission from the standard input and write its answers to the standard output.

    request: what a `Request` is made of; user: whom to run it as, None if as the grader
    """
    source, handle = sys.stdin.buffer.read(), os.dup(1)
    skipped: list[int] = []  # cells
    name, lab, limits = Path(request["source"]).name, request["lab"], Limits(**request["limits"])
    notebook.warm_up(lab)

    def submission() -> None:
        lock_in(limits, way, user)
        Path(name).write_bytes(source)  # a copy that it may do anything with
        notebook.run(source, name, lab, request["seed"], limits.seconds, handle, skipped)

    while True:
        status, used = run_apart(submission)
        if os.WIFSIGNALED(status) and used > 0.9 * limits.seconds:
            return OUT_OF_TIME
        cells = re.findall(rb'^{"cell": (\d+)}$', os.pread(handle, 1 << 20, 0), re.MULTILINE)
        if not cells or int(cells[-1]) == 0 or len(skipped) == MOST_SKIPPED:
            return int(status != 0)
        skipped.append(int(cells[-1]))
        os.ftruncate(handle, 0)


def run_apart(act: Callable[[], None]) -> tuple[int, float]:
    """Call `act` in a fork: how that ended, and how much processor time it took."""
    process, ended = os.fork(), 0
    if process == 0:
        try:
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()  # nobody hears it once a submission's code runs
        finally:
            os._exit(1)
    while ended != process:  # the first process of a sandbox also has to wait for its orphans
        ended, status, used = os.wait4(-1, 0)
    return status, used.ru_utime + used.ru_stime


def lock_in(limits: Limits, way: str, user: int | None) -> None:
    """Limit this process and all that it will start; nothing that runs in it can undo this."""
    import resource  # Windows has nothing of the kind

    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)  # this gives up what privileges are left
    if not os.access(sys.base_prefix, os.R_OK | os.X_OK):
        raise PermissionError(f"other users cannot read Python in {sys.base_prefix}")
    wanted = {"CORE": 0, "CPU": math.ceil(limits.seconds), "FSIZE": limits.disk}
    if way != "none":  # there the grader's own processes would count
        wanted["NPROC"] = limits.processes
    if sys.platform == "linux":  # elsewhere nobody says how much Python and torch have taken
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        wanted["AS"] = pages * resource.getpagesize() + limits.memory
    for name, value in wanted.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


if __name__ == "__main__":
    os._exit(main(**json.loads(sys.argv[1])))
