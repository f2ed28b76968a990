"""What a machine has: packages, versions, GPUs, cores. Imports nothing by itself."""

import os
import sys
from collections.abc import Callable
from types import ModuleType

Importer = Callable[[str], ModuleType]


def try_import(name: str, importer: Importer) -> tuple[ModuleType | None, str]:
    """Import a package; instead of an exception, return None and what went wrong, in one line."""
    try:
        return importer(name), ""
    except ModuleNotFoundError as error:
        if error.name in (None, name):
            return None, "not installed"
        return None, f"installed, but needs {error.name}, which is not"
    except Exception as error:  # a broken binary package can raise anything while it is imported
        first_line = (str(error).strip() or "no message").splitlines()[0]
        return None, f"installed, but cannot be imported: {type(error).__name__}: {first_line}"


def torch_build(torch: ModuleType) -> str:
    if torch.version.cuda:
        return f"built for CUDA {torch.version.cuda}"
    if getattr(torch.version, "hip", None):
        return f"built for ROCm {torch.version.hip}"
    return "built for the CPU and Apple GPUs" if sys.platform == "darwin" else "built for the CPU"


def gpu_names(torch: ModuleType) -> str:
    """The GPUs that torch can use, as text; empty if there are none."""
    if torch.cuda.is_available():
        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        return ", ".join(f"{gpu.name} ({gpu.total_memory / 1e9:.1f} GB)" for gpu in gpus)
    if torch.backends.mps.is_available():
        return "Apple GPU (MPS)"
    return ""


def usable_cores() -> int:
    """Cores this process may run on, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "core"), count(2, "core")
    ('1 core', '2 cores')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def leading_numbers(version: str) -> tuple[int, ...]:
    """The dotted numbers that a version begins with.

    >>> leading_numbers("2.13.0+cpu"), leading_numbers("2.6.0a0+git1234")
    ((2, 13, 0), (2, 6, 0))
    """
    numbers = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
