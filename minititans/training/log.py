"""The log of a run: one line of JSON per step or evaluation, and the loss curve drawn from it."""

import json
import os
from pathlib import Path
from typing import Any

from minititans.files import cannot_write, write_text, write_whole
from minititans.palette import BLUE, ORANGE


def append(path: Path, record: dict[str, Any]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise cannot_write(path, error) from error


def read(path: Path) -> list[dict[str, Any]]:
    """Every whole line; a process that is killed may leave half a line at the end."""
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            continue
        try:
            records.append(json.loads(line))
            records[-1]["step"] + 0  # a record has a step, and that is a number
        except (ValueError, TypeError, LookupError, RecursionError):
            raise ValueError(
                f"{path} is damaged: line {number} is not a record. {ADVICE}"
            ) from None
    return records


def count_on_disk(path: Path) -> int:
    """The number of lines, once they are all on the disk: a checkpoint relies on it."""
    if not path.exists():
        return 0
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        return sum(1 for _ in file)


def cut(path: Path, step: int, lines: int) -> None:
    """Remove what came after `step`: a run that continues from there will write it again.

    lines: how many lines there were when the checkpoint of that step was written
    """
    if not path.exists():
        return
    kept = [each for each in read(path) if each["step"] <= step]
    if len(kept) < lines:
        raise ValueError(
            f"{path} is damaged: it has {len(kept)} lines up to step {step}, expected {lines}. "
            + ADVICE
        )
    write_text(path, "".join(json.dumps(each) + "\n" for each in kept))


ADVICE = (
    "Move it elsewhere and run the same command again: training continues, and a new log starts at "
    "the last checkpoint."
)


def check_drawing() -> None:
    """Find out before the first step, not after the last, that there is nothing to draw with."""
    try:
        from matplotlib.figure import Figure  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"training draws its loss curve with matplotlib, which cannot be imported ({error}). "
            "Install it: pip install matplotlib"
        ) from None


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """The loss of every step, its running average, and the evaluations, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [each["step"] for each in records if "loss" in each]
    losses = [each["loss"] for each in records if "loss" in each]
    axes.plot(steps, losses, color=BLUE, alpha=0.25, linewidth=0.8)
    axes.plot(steps, running_average(losses), color=BLUE, label="training loss (nats)")
    axes.set(xlabel="step", ylabel="loss")
    for key in ("bits_per_byte", "held_out_loss"):
        points = [(each["step"], each[key]) for each in records if key in each]
        if points:
            label = key.replace("_", " ") + ", held out"
            axes.plot(*zip(*points), "o-", color=ORANGE, label=label)
    axes.legend()
    axes.grid(alpha=0.3)
    with write_whole(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def running_average(values: list[float], memory: float = 0.95) -> list[float]:
    """
    >>> running_average([4.0, 4.0, 4.0])
    [4.0, 4.0, 4.0]
    """
    averages, weighted, weight = [], 0.0, 0.0
    for value in values:
        weighted, weight = memory * weighted + value, memory * weight + 1
        averages.append(weighted / weight)
    return averages
