"""A process with torch loaded that forks one process for each submission.

Importing torch takes seconds, forking takes milliseconds. The zygote never runs a line of a
submission itself; it talks with the grader in lines of JSON, a request in and a reply out.

    zygote ── keeper ── submission ── whatever that starts
                │
                └ waits, ends them all when the time is over, and exits with how it went
"""

import json
import os
import signal
import stat
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from minititans.course.grading import isolation
from minititans.course.grading.isolation import Limits

WAITING = 3  # how much longer than its processor time a submission may take by the clock
LARGEST = 20 << 20  # bytes of a submitted file
DONE, OUT_OF_TIME, DIED = 0, 10, 11  # how it went: exit codes of a keeper
OUTCOMES = {DONE: "done", OUT_OF_TIME: "out of time", DIED: "died"}


@dataclass(frozen=True)
class Request:
    """path: the submission; box: an empty folder for it; answers: a file to be made for what it
    says; seed: of the random inputs that its functions meet."""

    path: str
    lab: str
    seed: int
    box: str
    answers: str
    limits: Limits


def main(wanted: str, slot: int) -> None:
    """wanted: the way to lock in, or "auto"; slot: a number that no other zygote has."""
    isolation.stop_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that a package prints while it is imported gets between the replies

    def say(**reply: str | int) -> None:
        print(json.dumps(reply), file=replies, flush=True)

    try:
        way = isolation.choose(wanted)
    except isolation.CannotLockIn as error:
        return say(problem=str(error))
    say(way=way)
    if sys.platform == "linux":  # on macOS a process that has torch loaded must not fork
        preload()
    for line in sys.stdin:
        plain = json.loads(line)
        request = Request(**plain | {"limits": Limits(**plain["limits"])})
        try:
            source = read(Path(request.path))
        except (OSError, ValueError) as error:
            say(outcome="cannot be read", detail=str(error))
            continue
        code = run(request, source, way, slot)
        say(outcome=OUTCOMES.get(code, "died"), seed=request.seed)


def read(path: Path) -> bytes:
    """The bytes of an ordinary file, not too many; a link could lead to anybody's."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not an ordinary file")
        if about.st_size > LARGEST:
            raise ValueError(f"it has {about.st_size:,} bytes, more than {LARGEST:,}")
        return file.read(LARGEST)


def run(request: Request, source: bytes, way: str, slot: int) -> int:
    """Fork a keeper and wait for it: its exit code."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
    answers = os.open(request.answers, flags, 0o600)
    keeper = os.fork()
    if keeper == 0:
        try:
            os._exit(keep(request, source, way, slot, answers))
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(DIED)
    os.close(answers)
    return os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1])


def keep(request: Request, source: bytes, way: str, slot: int, answers: int) -> int:
    """Fork the submission's process and see to it that it ends."""
    seconds = request.limits.seconds
    deadline = time.monotonic() + WAITING * seconds
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(DIED))
    isolation.separate(way)
    process = os.fork()
    if process == 0:
        submission(request, source, way, slot, answers)
    ended, status, used = 0, 0, None
    try:
        while not ended and time.monotonic() < deadline:
            time.sleep(0.02)
            ended, status, used = os.wait4(process, os.WNOHANG)
    finally:
        if not ended:
            os.kill(process, signal.SIGKILL)
        isolation.end(way, process, slot)
    if not ended:
        os.waitpid(process, 0)
        return OUT_OF_TIME
    if os.WIFSIGNALED(status) and used.ru_utime + used.ru_stime > 0.9 * seconds:
        return OUT_OF_TIME  # the kernel was quicker: processor time was over first
    return DONE if status == 0 else DIED


def submission(request: Request, source: bytes, way: str, slot: int, answers: int) -> None:
    """Everything that happens in the submission's process; it does not return."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        isolation.lock_in(way, Path(request.box), request.limits, slot)
        set_environment()
        name = Path(request.path).name
        Path(name).write_bytes(source)  # its copy, to do with as it likes
        from minititans.course.grading import notebook

        only_keep(answers)
        notebook.run(source, name, request.lab, request.seed, request.limits.seconds, answers)
        os._exit(0)
    except BaseException:
        traceback.print_exc()  # nobody hears it once the submission's code runs
    finally:
        os._exit(1)


def only_keep(handle: int) -> None:
    """No way to speak but this one: input is empty, what is printed goes nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.closerange(3, handle)
    os.closerange(handle + 1, 65536)


def set_environment() -> None:
    here, tempfile.tempdir = os.getcwd(), None  # None: look at TMPDIR again
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, HOME=here, USER="student", TMPDIR=here, MPLBACKEND="agg")
    os.environ.update(MINITITANS_PROGRESS="off", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")


def preload() -> None:
    """Load what the labs need, once; the first derivative loads another hundred modules."""
    import torch

    for name in ("matplotlib.pyplot", "minititans.course.grading.notebook"):
        import_module(name)
    torch.set_num_threads(1)
    torch.func.grad(torch.sum)(torch.ones(2, 2).double() @ torch.ones(2, 2).double())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
