"""Hand requests to zygotes, as many at a time as there are zygotes; replies come in any order."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from minititans.course.grading.zygote import Request

# What a zygote inherits. A submission can read it, so nothing private belongs here.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Zygote:
    """A running zygote. `hello` is what it said first: how it locks in, or that it cannot.

    log: a file for whatever goes wrong in it; ended: it has died and will not answer again
    """

    def __init__(self, wanted: str, slot: int, log: Path):
        self.arguments, self.ended = (wanted, slot, log), False
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= ONE_THREAD | {"PYTHONPATH": str(Path(__file__).parents[3])}
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "minititans.course.grading.zygote", wanted, str(slot)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env=environment, text=True,
            )  # fmt: skip
        self.hello = self.listen()

    def ask(self, request: Request) -> dict:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(asdict(request)) + "\n")
            self.process.stdin.flush()
        return self.listen()

    def listen(self) -> dict:
        line = self.process.stdout.readline()
        self.ended = not line
        return json.loads(line) if line else {"outcome": "died"}

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def ask_all(requests: Sequence[Request], zygotes: list[Zygote]) -> Iterator[tuple[Request, dict]]:
    """Each request with its reply, in the order in which they finish; then zygotes are stopped."""
    idle: queue.Queue[Zygote] = queue.Queue()
    for zygote in zygotes:
        idle.put(zygote)

    def ask(request: Request) -> dict:
        zygote = idle.get()
        reply = zygote.ask(request)
        if zygote.ended and not stopping.is_set():  # somebody killed it: the next one needs another
            zygote = Zygote(*zygote.arguments)
            zygotes.append(zygote)
        idle.put(zygote)
        return reply

    stopping = threading.Event()
    pool = ThreadPoolExecutor(len(zygotes))
    try:
        futures = {pool.submit(ask, request): request for request in requests}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        stopping.set()
        pool.shutdown(wait=False, cancel_futures=True)
        for zygote in zygotes:
            zygote.stop()
        pool.shutdown()
