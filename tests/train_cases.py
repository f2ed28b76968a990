"""A run so small that tests can have many of it."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import safetensors.torch
import torch

from minititans.config import TitansConfig
from minititans.training import loop
from minititans.training.config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent
TINY = TitansConfig(dim=16, layers=2, heads=2, ff=16, window=8, segment=8, chunk_size=4)


def tiny(folder: Path, name: str = "run", **changes) -> TrainConfig:
    """Eight steps of a model of 12,000 parameters."""
    model = replace(TINY, **changes.pop("model", {}))
    options = {"steps": 8, "batch": 4, "lengths": (12, 24), "warmup": 2, "eval_every": 3}
    options |= {"carry": 2, "save_every": 2, "eval_bytes": 100}
    options |= {"sample": 8, "quiet": True}
    options |= {"runs": str(folder), "name": name}
    if not changes.keys() & {"task", "dataset", "data"}:
        options["data"] = str(a_text(folder))
    return TrainConfig(model=model, **(options | changes))


def a_text(folder: Path) -> Path:
    """A file of 4,000 bytes in which there is something to learn."""
    path = folder / "text.txt"
    if not path.exists():
        path.write_text("".join(f"{n} and {n + 1} make {2 * n + 1}.\n" for n in range(170)))
    return path


def arguments(config: TrainConfig) -> list[str]:
    """The command line of a configuration that `tiny` made."""
    flags = [f"--{name}={getattr(config.model, name)}" for name in ("variant", "dim", "layers")]
    flags += [f"--heads={config.model.heads}"]
    for name in ("ff", "window", "segment", "chunk_size", "depth", "forgetting"):
        flags += ["--set", f"{name}={getattr(config.model, name)}"]
    for name in (
        *("steps", "batch", "warmup", "carry", "accumulate", "seed", "lr", "sample"),
        *("eval_every", "eval_bytes", "save_every", "data", "task", "dataset", "runs", "name"),
    ):
        if getattr(config, name) is not None:
            flags += [f"--{name.replace('_', '-')}", str(getattr(config, name))]
    flags += ["--lengths", ",".join(map(str, config.lengths))]
    return [*flags, "--quiet"] if config.quiet else flags


def start(*command: str, **environment: str) -> subprocess.Popen:
    """Start a command of this Python in the root folder."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen, seconds: float = 300) -> tuple[str, str]:
    """What a process printed; it must end in time, and well."""
    with process:
        try:
            out, error = process.communicate(timeout=seconds)
        finally:
            process.kill()
    assert process.returncode == 0, error
    return out, error


IN_TIME = 120  # seconds that no process of `start_processes` may exceed


def start_processes(config: TrainConfig, size: int, before=None) -> list:
    """The processes of a run, as torchrun would start them; the first calls `before`, if any."""
    context = get_context("forkserver")  # torch is imported once
    context.set_forkserver_preload(["minititans.training.loop", "matplotlib.figure"])
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    processes = [
        context.Process(target=_run, args=(config, rank, size, port, before), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    return processes


def _run(config: TrainConfig, rank: int, size: int, port: int, before) -> None:
    torch.set_num_threads(1)
    if rank == 0 and before is not None:
        before()
    if size > 1:  # what torchrun would say
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
        os.environ.update({name: str(number) for name, number in numbers.items()})
        os.environ["MASTER_ADDR"] = "127.0.0.1"
    loop.train(config)


def ended(processes: list) -> list[int]:
    """Their exit codes; what has not ended in time is killed."""
    for process in processes:
        process.join(IN_TIME)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def weights(config: TrainConfig) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(config.folder / "model.safetensors")


def assert_same_weights(one: TrainConfig, other: TrainConfig) -> None:
    """Equal to the last bit."""
    mine, others = weights(one), weights(other)
    assert mine.keys() == others.keys()
    assert [name for name in mine if not torch.equal(mine[name], others[name])] == []


def damaged(content: bytes) -> dict[str, bytes]:
    """A file cut at its beginning, in between and near its end, and junk in its place."""
    cuts = {f"{tenth} tenths": content[: len(content) * tenth // 10] for tenth in (0, 2, 5, 9)}
    junk = {"junk": b"\x93\x07" * 500, "zeros": bytes(len(content)), "text": b"hello"}
    return cuts | junk | {"no header": (2).to_bytes(8, "little") + b"{}"}
