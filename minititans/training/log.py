"""The log of a run: one line of JSON a step or evaluation, and the loss curve drawn from it."""

import json
from pathlib import Path
from typing import Any

from minititans.memory.files import write_whole


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Every whole line; a process that is killed may leave half a line at the end."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            records.append(json.loads(line))
    return records


def cut(path: Path, step: int) -> None:
    """Forget what came after `step`: a run that goes on from there will write it again."""
    kept = "".join(json.dumps(each) + "\n" for each in read(path) if each["step"] <= step)
    with write_whole(path) as temporary:
        temporary.write_text(kept, encoding="utf-8")


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """The loss of every step, its running average, and the evaluations, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [each["step"] for each in records if "loss" in each]
    losses = [each["loss"] for each in records if "loss" in each]
    axes.plot(steps, losses, color="tab:blue", alpha=0.25, linewidth=0.8)
    axes.plot(steps, running_average(losses), color="tab:blue", label="training loss (nats)")
    axes.set(xlabel="step", ylabel="loss")
    for key in ("bits_per_byte", "held_out_loss"):
        points = [(each["step"], each[key]) for each in records if key in each]
        if points:
            label = key.replace("_", " ") + ", held out"
            axes.plot(*zip(*points), "o-", color="tab:orange", label=label)
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
