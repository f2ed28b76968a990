"""What experiments leave behind: JSON with all that a number depends on, and tables of them."""

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import torch

from minititans.files import read_json, write_json


def store(file: Path, content: dict[str, Any], config: Any) -> None:
    """One file of results with everything they depend on, written whole or not at all.

    config: a dataclass. A folder that is missing is made.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, content | {"config": asdict(config)} | made_with())


def read(file: str | Path) -> dict[str, Any]:
    """What `store` wrote."""
    return read_json(file, "Delete it and run the experiment again.")


def as_json(config: Any) -> dict[str, Any]:
    """A dataclass as `read` returns it: tuples are lists."""
    return json.loads(json.dumps(asdict(config)))


def from_json(kind: Any, value: Any) -> Any:
    """The other way: a dataclass of the given kind, with the dataclasses and tuples inside it.

    >>> from minititans.tasks.maps import Maps
    >>> from_json(list[Maps], [as_json(Maps(dim=4, units=8))]) == [Maps(dim=4, units=8)]
    True
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: from_json(hint, value[name]) for name, hint in hints.items()})
    if get_origin(kind) in (list, tuple):
        return get_origin(kind)(from_json(get_args(kind)[0], each) for each in value)
    return value


def check_config(file: str | Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to mix results of two configurations."""
    different = [name for name in wanted | stored if stored.get(name) != wanted.get(name)]
    if different:
        raise ValueError(
            f"folder: {file} is a result of another configuration (different: "
            f"{', '.join(different)}); choose another folder, or remove the results in this one"
        )


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
