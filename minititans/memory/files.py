"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_whole(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what is written there becomes `path` at the end.

    Whenever the writer, the process or the machine fails, `path` is the old file or the new one,
    whole. A failure inside the `with` leaves the old file and no temporary one.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with write_whole(path) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('1 2 3', 1)
    """
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name != "nt":  # Windows cannot open a folder
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Wait until the disk has what was written."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
