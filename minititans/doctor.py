"""What this machine has for the course, and what to do about anything missing.

`examine` looks and returns findings; `report` turns findings into text. Neither fails when a
package is missing or broken, torch included: finding that out is their job.
"""

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from minititans.machine import (
    Importer,
    count,
    gpu_names,
    leading_numbers,
    torch_build,
    try_import,
    usable_cores,
)

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 6)

# Besides torch, which has its own check: what the library imports, then what opens the course.
LIBRARY_PACKAGES = ("numpy", "einops", "safetensors", "tqdm", "matplotlib")
COURSE_PACKAGES = ("jupyterlab", "ipywidgets", "ipykernel")

INSTALL = (
    "In the folder of this repository run `make setup`, or in your own environment "
    "`pip install -c constraints.txt -e '.[lab,test]'`."
)


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was examined, whether it is there, and what to do if not."""

    name: str
    present: bool
    detail: str
    required: bool = True
    advice: str = ""


def examine(importer: Importer = import_module) -> list[Finding]:
    """Look at everything. `importer` is how packages are imported; tests pass their own.

    >>> examine()[0].name
    'Python'
    """
    torch, torch_finding = look_at_torch(importer)
    return [
        look_at_python(sys.version_info[:3]),
        torch_finding,
        *(look_at_package(name, importer) for name in LIBRARY_PACKAGES),
        *(look_at_package(name, importer) for name in COURSE_PACKAGES),
        look_at_cpu(torch),
        look_at_memory(),
        look_at_gpu(torch),
        look_at_triton(importer),
        look_at_git(),
        look_at_bubblewrap(),
    ]


def exit_code(findings: Sequence[Finding]) -> int:
    """0 when everything required is there, else 1.

    >>> exit_code([Finding("GPU", present=False, detail="none", required=False)])
    0
    >>> exit_code([Finding("torch", present=False, detail="not installed")])
    1
    """
    return int(any(finding.required and not finding.present for finding in findings))


def report(findings: Sequence[Finding], encoding: str = "utf-8") -> str:
    """Write the findings as text that `encoding` can show.

    >>> print(report([Finding("Python", True, "3.12.1")], encoding="ascii"))
    [ok] Python  3.12.1
    <BLANKLINE>
    Everything that is required is here.
    """
    there, missing, optional = marks(encoding)
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        mark = there if finding.present else missing if finding.required else optional
        lines.append(f"{mark} {finding.name:<{width}}  {finding.detail}")
        if finding.advice:
            lines.append(" " * (len(mark) + width + 3) + finding.advice)

    lacking = [finding.name for finding in findings if finding.required and not finding.present]
    if lacking:
        closing = f"Required, but missing or too old: {', '.join(lacking)}."
    else:
        closing = "Everything that is required is here."
    text = "\n".join([*lines, "", closing])
    # Paths and messages come from the machine and may hold any letter: "?" replaces the rest.
    return text.encode(encoding, errors="replace").decode(encoding)


def marks(encoding: str) -> tuple[str, str, str]:
    """The marks for there, missing, and absent but optional: plain ASCII where it must be."""
    symbols = ("✓", "✗", "–")
    try:
        "".join(symbols).encode(encoding)
    except UnicodeEncodeError:
        return "[ok]", "[no]", "[--]"
    return symbols


# One function for each thing that is examined.


def look_at_python(version: tuple[int, int, int]) -> Finding:
    wanted = ".".join(map(str, OLDEST_PYTHON))
    new_enough = version[:2] >= OLDEST_PYTHON
    return Finding(
        "Python",
        present=new_enough,
        detail=f"{'.'.join(map(str, version))} ({sys.executable})",
        advice="" if new_enough else f"Install Python {wanted} or newer and set up again with it.",
    )


def look_at_torch(importer: Importer) -> tuple[ModuleType | None, Finding]:
    """Import torch; the module is None where that fails."""
    torch, problem = try_import("torch", importer)
    if torch is None:
        return None, Finding("torch", present=False, detail=problem, advice=INSTALL)

    version = str(torch.__version__)
    new_enough = leading_numbers(version)[:2] >= OLDEST_TORCH
    oldest = ".".join(map(str, OLDEST_TORCH))
    return torch, Finding(
        "torch",
        present=new_enough,
        detail=f"{version}, {torch_build(torch)}",
        advice="" if new_enough else f"torch {oldest} or newer is needed. {INSTALL}",
    )


def look_at_package(name: str, importer: Importer) -> Finding:
    module, problem = try_import(name, importer)
    if module is None:
        return Finding(name, present=False, detail=problem, advice=INSTALL)
    return Finding(name, present=True, detail=getattr(module, "__version__", "installed"))


def look_at_cpu(torch: ModuleType | None) -> Finding:
    threads = f"torch uses {count(torch.get_num_threads(), 'thread')}" if torch else "no torch"
    cores = count(usable_cores(), "core")
    return Finding("CPU", present=True, detail=f"{platform.machine()}, {cores}, {threads}")


def look_at_memory() -> Finding:
    try:
        gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, others no such key
        return Finding("memory", present=True, detail="size unknown on this system", required=False)
    return Finding("memory", present=True, detail=f"{gigabytes:.1f} GB", required=False)


def look_at_gpu(torch: ModuleType | None) -> Finding:
    detail = gpu_names(torch) if torch else ""
    if detail:
        return Finding("GPU", present=True, detail=detail, required=False)
    return Finding(
        "GPU",
        present=False,
        detail="none that torch can use",
        required=False,
        advice="Nothing to do: everything here runs on the CPU.",
    )


def look_at_triton(importer: Importer) -> Finding:
    triton, problem = try_import("triton", importer)
    if triton is not None:
        return Finding("Triton", present=True, detail=str(triton.__version__), required=False)
    return Finding(
        "Triton",
        present=False,
        detail=problem,
        required=False,
        advice="Only for kernels on NVIDIA GPUs; on Linux `pip install triton` adds it.",
    )


def look_at_git() -> Finding:
    where = shutil.which("git")
    return Finding(
        "git",
        present=where is not None,
        detail=where or "not found",
        required=False,
        advice="" if where else "To fetch updates, install it from https://git-scm.com/downloads.",
    )


def look_at_bubblewrap() -> Finding:
    where = shutil.which("bwrap")
    advice = "Only for `minititans grade`, on Linux: install the package bubblewrap."
    return Finding(
        "bubblewrap",
        present=where is not None,
        detail=where or "not found",
        required=False,
        advice="" if where else advice,
    )
