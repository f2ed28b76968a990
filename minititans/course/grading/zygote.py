"""A process that has torch loaded and forks one process for each submission.

Importing torch takes seconds, forking takes milliseconds. The zygote never runs a line of a
submission itself; it reads requests, lines of JSON, and says of each how it ended.

    zygote ─┬─ bwrap ── the sandbox's first process, which only waits
            └─ keeper ── submission ── whatever that starts, in the sandbox as well
"""

import json
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from minititans.course.grading import isolation, sandbox
from minititans.course.grading.isolation import DEFAULT_LIMITS, Limits
from minititans.course.grading.sandbox import Sandbox

WAITING = 3  # how much longer than its processor time a submission may take by the clock
MOST_SKIPPED = 3  # how many times a submission runs again without the cell that ended its process
OUT_OF_TIME = 10  # exit code of a keeper
OUTCOMES = {0: "done", OUT_OF_TIME: "out of time", -signal.SIGALRM: "out of time"}


@dataclass(frozen=True)
class Request:
    """source: a copy of the submission; box: an empty folder for it; answers: an empty file
    for what it says; seed: of the random inputs for its functions."""

    source: str
    lab: str
    seed: int
    box: str
    answers: str
    limits: Limits


@dataclass(frozen=True)
class Running:
    """number: the request's, for the grader; keeper: a process; room: where there is a sandbox."""

    number: int
    slot: int
    keeper: int
    room: Sandbox | None


def main(way: str, jobs: int) -> None:
    isolation.stop_with_parent(signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps what a package prints while it is imported out of the replies
    slots = [64 * os.getpid() + job for job in range(jobs)]  # no other grader has them either
    if sys.platform == "linux":  # on macOS a process that has torch loaded must not fork
        preload()
    try_out(way, slots[0])
    print("ready", file=replies, flush=True)
    waiting = [json.loads(line) for line in sys.stdin]
    running: dict[int, Running] = {}  # by keeper
    try:
        while waiting or running:
            while waiting and slots:
                number, plain = waiting.pop(0)
                request = Request(**plain | {"limits": Limits(**plain["limits"])})
                started = start(way, number, slots.pop(), request)
                running[started.keeper] = started
            process, status = os.wait()
            if process in running:  # else it is a bwrap
                ended = running.pop(process)
                isolation.end(way, ended.slot, ended.keeper, ended.room)
                slots.append(ended.slot)
                outcome = OUTCOMES.get(os.waitstatus_to_exitcode(status), "died")
                print(json.dumps([ended.number, outcome]), file=replies, flush=True)
    finally:
        for each in running.values():
            isolation.end(way, each.slot, each.keeper, each.room)


def try_out(way: str, slot: int) -> None:
    """Run a submission that does nothing: if it cannot, this process ends, and the log says why."""
    with tempfile.TemporaryDirectory() as own:
        Path(own).chmod(0o711)
        source, box, answers = (Path(own) / name for name in ("nothing.py", "box", "answers"))
        source.write_text("def read(M, query): ...")
        box.mkdir()
        answers.touch()
        request = Request(str(source), "01", 0, str(box), str(answers), DEFAULT_LIMITS)
        started = start(way, 0, slot, request)
        _, status = os.waitpid(started.keeper, 0)
        isolation.end(way, slot, started.keeper, started.room)
    if status:
        sys.exit(1)


def start(way: str, number: int, slot: int, request: Request) -> Running:
    room = sandbox.build(request.limits.disk) if way == "bwrap" else None
    return Running(number, slot, fork(lambda: keep(way, slot, request, room)), room)


def keep(way: str, slot: int, request: Request, room: Sandbox | None) -> None:
    """In the keeper: fork the submission's process and wait for it, but not too long."""
    os.setsid()
    isolation.stop_with_parent(signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    seconds, skipped = request.limits.seconds, []
    signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)  # after that SIGALRM ends the keeper
    source = Path(request.source).read_bytes()
    handle = os.open(request.answers, os.O_RDWR | os.O_TRUNC | os.O_APPEND)
    size = isolation.address_space()
    if room is not None:
        room.enter()

    def submission() -> None:
        from minititans.course.grading import notebook

        isolation.lock_in(way, slot, request.box, request.limits, size)
        name = Path(request.source).name
        Path(name).write_bytes(source)  # a copy that it may do anything with
        notebook.run(source, name, request.lab, request.seed, seconds, handle, skipped)

    while True:
        _, status, used = os.wait4(fork(submission), 0)
        if os.WIFSIGNALED(status) and used.ru_utime + used.ru_stime > 0.9 * seconds:
            os._exit(OUT_OF_TIME)
        cells = re.findall(rb'^{"cell": (\d+)}$', os.pread(handle, 1 << 20, 0), re.MULTILINE)
        if not cells or int(cells[-1]) == 0 or len(skipped) == MOST_SKIPPED:
            os._exit(int(status != 0))
        skipped.append(int(cells[-1]))
        os.ftruncate(handle, 0)


def fork(act: Callable[[], object]) -> int:
    """A process that calls `act` and nothing else; it ends with 1 if that raises."""
    process = os.fork()
    if process == 0:
        try:
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()  # nobody hears it once a submission's code runs
        finally:
            os._exit(1)
    return process


def preload() -> None:
    """Load what the labs need, once; the first derivative loads another hundred modules."""
    import torch

    for name in ("matplotlib.pyplot", "minititans.course.grading.notebook"):
        import_module(name)
    torch.set_num_threads(1)
    torch.func.grad(torch.sum)(torch.ones(2, 2).double() @ torch.ones(2, 2).double())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
