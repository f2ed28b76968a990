"""A run so small that tests can have many of it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import safetensors.torch
import torch

from minititans.config import TitansConfig
from minititans.training.config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent
TINY = TitansConfig(dim=16, layers=2, heads=2, ff=16, window=8, segment=8, chunk_size=4)


def tiny(folder: Path, name: str = "run", **changes) -> TrainConfig:
    """Eight steps of a model of 12,000 parameters."""
    model = replace(TINY, **changes.pop("model", {}))
    options = {"steps": 8, "batch": 4, "lengths": (12, 24), "warmup": 2, "eval_every": 3}
    options |= {"carry": 2, "carry_from": 0.0, "save_every": 2, "eval_bytes": 300}
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
        *("steps", "batch", "warmup", "carry", "carry_from", "accumulate", "seed", "lr", "sample"),
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


def weights(config: TrainConfig) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(config.folder / "model.safetensors")


def assert_same_weights(one: TrainConfig, other: TrainConfig) -> None:
    """Equal to the last bit."""
    mine, others = weights(one), weights(other)
    assert mine.keys() == others.keys()
    assert [name for name in mine if not torch.equal(mine[name], others[name])] == []


def damaged(content: bytes) -> dict[str, bytes]:
    """A file cut at every tenth of its length, and junk in its place."""
    cuts = {f"{tenth} tenths": content[: len(content) * tenth // 10] for tenth in range(10)}
    junk = {"junk": b"\x93\x07" * 500, "zeros": bytes(len(content)), "text": b"hello"}
    return cuts | junk | {"no header": (2).to_bytes(8, "little") + b"{}"}
