"""Find what was handed in: a folder for each student, or files that begin with the student's name.

    submissions/ada/02_surprise.ipynb          the folder is the student, the number is the lab
    submissions/ada/week 2/02_surprise.ipynb   deeper is fine: the first folder is the student
    submissions/ada_02_surprise.ipynb          no folders: the student's name, then the lab

A notebook (.ipynb) or a script in the percent format (.py). Links are not followed.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = (".ipynb", ".py")  # of two files for one lab the notebook counts
SKIPPED = ("__pycache__", "__MACOSX")  # and every name that begins with a dot


@dataclass(frozen=True)
class Submission:
    student: str
    lab: str
    path: Path


@dataclass(frozen=True)
class Found:
    """students: also those who have a folder with nothing in it; left_out: a sentence a file."""

    submissions: list[Submission]
    students: list[str]
    left_out: list[str]


def find(folder: Path, labs: Collection[str]) -> Found:
    """Every submission for one of the labs, and why the other files are none."""
    found: dict[tuple[str, str], list[Path]] = {}
    notes = []
    for path in files(folder):
        student, lab = owner(path.relative_to(folder), labs)
        if path.is_symlink() or not path.is_file():
            notes.append(f"{shown(path, folder)}: a link or no ordinary file, not followed")
        elif path.suffix == ".zip":
            notes.append(f"{shown(path, folder)}: unpack it first")
        elif path.suffix not in KINDS:
            notes.append(f"{shown(path, folder)}: neither .ipynb nor .py")
        elif lab is None:
            there = ", ".join(labs)
            notes.append(f"{shown(path, folder)}: no lab's number in its name, expected {there}")
        elif not student:
            notes.append(
                f"{shown(path, folder)}: whose is it? Put it into a folder with the student's "
                f"name, or call it NAME_{path.name}"
            )
        else:
            found.setdefault((student, lab), []).append(path)
    submissions = []
    for (student, lab), paths in sorted(found.items()):
        first, *others = sorted(paths, key=preference)
        submissions.append(Submission(student, lab, first))
        for other in others:
            notes.append(f"{shown(other, folder)}: not graded, {shown(first, folder)} is")
    folders = {path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()}
    names = {name for name in folders if not is_skipped(name)} | {name for name, _ in found}
    return Found(submissions, sorted(names), notes)


def files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        folders[:] = sorted(n for n in folders if n not in links and not is_skipped(n))
        yield from (Path(here) / name for name in sorted(names + links) if not is_skipped(name))


def is_skipped(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED


def owner(path: Path, labs: Collection[str]) -> tuple[str, str | None]:
    """Whose file this is, and for which lab, from its place below the submissions' folder.

    >>> owner(Path("ada/02_surprise.ipynb"), ["01", "02"])
    ('ada', '02')
    >>> owner(Path("van_den_Berg_02_surprise.py"), ["01", "02"])
    ('van_den_Berg', '02')
    """
    marks = [m for m in re.finditer(r"(?:^|_)(\d\d)(?![^\W_])", path.stem) if m[1] in labs]
    if not marks:
        return path.parts[0] if len(path.parts) > 1 else "", None
    mark = marks[0] if len(path.parts) > 1 else marks[-1]
    return path.parts[0] if len(path.parts) > 1 else path.stem[: mark.start()], mark[1]


def preference(path: Path) -> tuple[int, int, str]:
    """Notebooks before scripts, then the shorter name: `02_surprise (1).ipynb` is the copy."""
    return KINDS.index(path.suffix), len(path.name), str(path)


def shown(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)).encode(errors="replace").decode()
