"""Writing results: a reader finds the old file or the new one, never half of one."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the file first, then rename: the rename is atomic."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
