"""Tensors in one safetensors file, whose header says what kind of file it is."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from minititans.files import write_whole

# What reading a damaged file may raise.
DAMAGE = (safetensors.SafetensorError, ValueError, TypeError, LookupError, AttributeError)


def save_tensors(
    path: str | os.PathLike, tensors: dict[str, Tensor], header: dict[str, str]
) -> None:
    """Write tensors and header to `path`, whole or not at all."""
    with write_whole(path) as temporary:
        write_tensors(temporary, tensors, header)


def write_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    """Let safetensors write; its errors about the disk become an OSError, as usual in Python."""
    try:
        safetensors.torch.save_file(tensors, path, header)
    except safetensors.SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code)) from error


@contextmanager
def open_tensors(
    path: str | os.PathLike, kind: str, format: str, device: Any = "cpu",
    advice: str = "Use another copy, or save it again",
) -> Iterator[tuple[Any, dict[str, str]]]:  # fmt: skip
    """Yield a safetensors file and its header, if its format is `format`.

    kind:   what the file should be, in words
    advice: what to do if it is damaged

    Whatever goes wrong inside the `with` is blamed on the file, in an error that names it.
    """
    name = os.fspath(path)
    if Path(path).is_dir():
        raise IsADirectoryError(f"path: {name} is a folder, expected the file of {kind}")
    try:
        with safetensors.safe_open(path, framework="pt", device=str(device)) as file:
            header = file.metadata() or {}
            if header.get("format") != format:
                raise ValueError(f"its format is {header.get('format')!r}, expected {format!r}")
            yield file, header
    except OSError as error:
        if name in str(error):
            raise
        raise type(error)(f"path: {name} cannot be read: {error}") from error
    except DAMAGE as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"path: {name} is not {kind}, or it is damaged ({reason}). {advice}."
        ) from error
