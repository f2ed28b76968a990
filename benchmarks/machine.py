"""What a result depends on besides our code: versions, processor, threads."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import minititans


def machine() -> dict[str, str | int | None]:
    """Enough to interpret the numbers; nothing that identifies a machine or its owner."""
    return {
        "minititans": minititans.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "titans-pytorch": _version("titans-pytorch"),
        "system": platform.system(),
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
    }


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name where the system gives it, else its kind."""
    if cpuinfo.exists():
        for row in cpuinfo.read_text(errors="replace").splitlines():
            key, _, value = row.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
