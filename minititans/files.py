"""Files that are written whole or not at all, and errors that say what is wrong with one."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNFINISHED = ".minititans-unfinished"  # how the name of a temporary folder ends


@contextmanager
def write_whole(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary file name; what is written there becomes `path` at the end.

    Whenever the writer, the process or the machine fails, `path` is either the whole old file or
    the whole new one. The temporary file has a folder of its own beside `path`, so any number of
    threads and processes may write to one path; the last one wins. A failure inside the `with`
    removes that folder. Only a killed process leaves it behind; `left_behind` finds it.

    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with write_whole(path) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    path, folder = Path(path), None
    try:
        folder = Path(tempfile.mkdtemp(UNFINISHED, f".{path.name}.", path.parent))
        yield folder / path.name
        _sync(folder / path.name)
        os.replace(folder / path.name, path)
        if os.name != "nt":  # Windows cannot open a folder
            _sync(path.parent)
    except OSError as error:
        if folder is None or error.filename is None or str(folder) in str(error.filename):
            raise cannot_write(path, error) from error
        raise  # about some other file
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """A text, written whole or not at all."""
    with write_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, content: Any, indent: int = 1) -> None:
    """Plain data as JSON, written whole or not at all."""
    write_text(path, json.dumps(content, indent=indent) + "\n")


def left_behind(path: str | os.PathLike) -> list[Path]:
    """The temporary folders of processes that were killed while they wrote `path`."""
    path = Path(path)
    return [
        each
        for each in path.parent.iterdir()
        if each.name.startswith(f".{path.name}.") and each.name.endswith(UNFINISHED)
        if each.is_dir() and not each.is_symlink()
    ]


def cannot_write(path: str | os.PathLike, error: OSError) -> OSError:
    """The same kind of error, with a message that names the file and says what to do."""
    reason = error.strerror or str(error)
    advice = "Choose another place, or try again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason, advice = f"the disk is full ({reason})", "Free some space and try again"
    elif error.errno == errno.EFBIG:
        reason = f"it would be larger than this system allows ({reason})"
        advice = "Raise the limit (see `ulimit -f`) and try again"
    elif error.errno == errno.ENOENT:
        reason, advice = "its folder does not exist", "Make the folder and try again"
    words = (
        f"{os.fspath(path)} could not be written: {reason}. {advice}; "
        "what was there before is unchanged."
    )
    told = type(error)(words)
    told.strerror = words
    return told


def read_json(path: str | os.PathLike, advice: str) -> dict[str, Any]:
    """The object in a JSON file; if it is damaged, raise an error that ends with `advice`."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        reason = f"is not valid JSON (line {error.lineno}: {error.msg})"
        raise ValueError(f"{os.fspath(path)} {reason}. {advice}") from None
    except (UnicodeDecodeError, RecursionError):
        raise ValueError(f"{os.fspath(path)} is not valid JSON. {advice}") from None
    if not isinstance(found, dict):
        raise ValueError(
            f"{os.fspath(path)} holds a {type(found).__name__}, expected an object. {advice}"
        )
    return found


def _sync(path: Path) -> None:
    """Wait until what was written is on the disk."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
