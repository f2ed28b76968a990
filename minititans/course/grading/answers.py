"""What crosses from a submission's process to the grader: lines of JSON, nothing executable.

    {"cell": 3}                              cell 3 begins; 0: all cells are done
    {"task": "02.3", "attempts": [...]}      what this task's function did on each input
    {"unreadable": "..."}                    there were no cells to run

The writer may be hostile: `read` takes what has the right form and ignores the rest.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minititans.course.checking.record import Attempt

LARGEST, LINES = 4 << 20, 10_000  # total bytes and lines; right answers have a twentieth of that
NUMBERS = 10_000  # in one tensor; right answers have fewer than two thousand
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool,
                  torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
}  # fmt: skip


@dataclass
class Answers:
    """cell: the last one that was running; 0 if all have run, None if none has begun.
    attempts: of each task that answered. unreadable: why the file is not a notebook."""

    cell: int | None = None
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    unreadable: str = ""


def write(handle: int, **line: Any) -> None:
    os.write(handle, b"\n" + json.dumps(line).encode() + b"\n")


def read(path: Path) -> Answers:
    """What was said; the first answer to a task counts."""
    found = Answers()
    with open(path, "rb") as file:
        lines = file.read(LARGEST).split(b"\n", LINES)
    for text in lines[:LINES]:
        try:
            line = json.loads(text)
            if isinstance(line.get("cell"), int):
                found.cell = line["cell"]
            elif isinstance(line.get("unreadable"), str):
                found.unreadable = line["unreadable"]
            elif line["task"] not in found.attempts:
                found.attempts[line["task"]] = unpack(line["attempts"])
        except Exception:  # whatever it was, it was not an answer
            continue
    return found


def pack(attempts: list[Attempt]) -> list[dict[str, Any]]:
    plain = [attempt.to_plain() for attempt in attempts]
    for attempt in plain:
        for name in ("values", "gradients"):
            packed = {key: pack_leaf(leaf) for key, leaf in attempt[name].items()}
            attempt[name] = {key: leaf for key, leaf in packed.items() if type(leaf) is not str}
            attempt["odd"] |= {key: leaf for key, leaf in packed.items() if type(leaf) is str}
    return plain


def unpack(plain: list[dict[str, Any]]) -> list[Attempt]:
    """
    >>> [attempt] = unpack(pack([Attempt(values={"y": torch.tensor([0.1, float("nan")])})]))
    >>> attempt.values
    {'y': tensor([0.1000,    nan])}
    """
    for attempt in plain:
        for name in ("values", "gradients"):
            attempt[name] = {key: unpack_leaf(leaf) for key, leaf in attempt[name].items()}
    return [Attempt.from_plain(attempt) for attempt in plain]


def pack_leaf(leaf: Tensor | int | None) -> Any:
    """A tensor as type, shape and numbers; without the numbers if it is too large to be right.

    A text describes anything that cannot be an answer.
    """
    if not isinstance(leaf, Tensor):
        return leaf
    dtype = str(leaf.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        return f"a tensor of {dtype}"
    return [dtype, list(leaf.shape), leaf.flatten().tolist() if leaf.numel() <= NUMBERS else None]


def unpack_leaf(leaf: Any) -> Tensor | int | None:
    if not isinstance(leaf, list):
        return leaf
    dtype, shape, numbers = leaf
    if numbers is None:
        return torch.zeros((), dtype=DTYPES[dtype]).expand(shape)
    return torch.tensor(numbers, dtype=DTYPES[dtype]).reshape(shape)
