"""What experiments leave behind: JSON with all that a number depends on, and tables of them."""

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from minititans.files import write_json


def store(file: Path, content: dict[str, Any]) -> None:
    """One file of results, in a folder that is made where it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, content)


def made_with() -> dict[str, Any]:
    """What a number was computed with: the versions, and how many threads."""
    versions = {name: metadata.version(name) for name in ("minititans", "torch", "numpy")}
    versions["python"] = platform.python_version()
    return {"versions": versions, "threads": torch.get_num_threads()}


def markdown(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table.

    >>> print(markdown(["depth", "error"], [[1, "0.50"], [2, "0.25"]]))
    | depth | error |
    | --- | --- |
    | 1 | 0.50 |
    | 2 | 0.25 |
    """
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
