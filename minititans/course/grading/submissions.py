"""Find what was handed in: a folder for each student, or files that begin with the student's name.

A notebook (.ipynb) or a script in the percent format (.py); placing.py says where it belongs.
Links are not followed. Whatever is not graded is kept with the reason.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from minititans.course.grading.placing import LARGEST, lab_by_contents, lab_by_name, student_of

KINDS = (".ipynb", ".py")  # of two files for one lab the notebook counts
SKIPPED = ("__pycache__", "__MACOSX")  # and every name that begins with a dot


@dataclass(frozen=True)
class Submission:
    student: str
    lab: str
    path: Path


@dataclass(frozen=True)
class LeftOut:
    """A file that is not graded. student: empty where nothing says whose it is."""

    student: str
    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """students: also those who have a folder with nothing in it, or nothing that is graded."""

    submissions: list[Submission]
    students: list[str]
    left_out: list[LeftOut]


def find(folder: Path, labs: Mapping[str, Collection[str]]) -> Found:
    """Every submission for one of the labs, and why the other files are not.

    labs: the names of each lab's functions, by which a file is recognised
    """
    found: dict[tuple[str, str], list[Path]] = {}
    left_out = []
    for path in files(folder):
        below = path.relative_to(folder)
        reason = why_not(path)
        lab = None if reason else lab_by_contents(path, labs)
        student = student_of(below, labs, lab)
        if not reason:
            lab = lab or lab_by_name(below, labs)
            reason = why_unplaced(path, student, lab)
        if reason:
            left_out.append(LeftOut(student, shown(path, folder), reason))
        else:
            found.setdefault((student, lab), []).append(path)
    submissions = []
    for (student, lab), paths in sorted(found.items()):
        first, *others = sorted(paths, key=preference)
        submissions.append(Submission(student, lab, first))
        reason = f"a second file for lab {lab}; {shown(first, folder)} is graded"
        left_out += [LeftOut(student, shown(other, folder), reason) for other in others]
    folders = {path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()}
    names = {name for name in folders if not is_skipped(name)} | {name for name, _ in found}
    names |= {each.student for each in left_out if each.student}
    return Found(submissions, sorted(names), left_out)


def read(path: Path) -> bytes:
    """The bytes of an ordinary file, if it is not too large; a link could lead anywhere."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not an ordinary file")
        if about.st_size > LARGEST:
            raise ValueError(f"it has {about.st_size:,} bytes, more than {LARGEST:,}")
        return file.read(LARGEST)


def why_not(path: Path) -> str:
    """Why a file cannot be a submission, whatever is in it."""
    if path.is_symlink() or not path.is_file():
        return "a link or not an ordinary file, not followed"
    if path.suffix == ".zip":
        return "unpack it first"
    return "" if path.suffix in KINDS else "neither .ipynb nor .py"


def why_unplaced(path: Path, student: str, lab: str | None) -> str:
    if lab is None:
        return "neither its contents nor its name say which lab it is; put the number in its name"
    if not student:
        return f"whose is it? Put it into the student's folder, or call it NAME_{path.name}"
    return ""


def files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        folders[:] = sorted(n for n in folders if n not in links and not is_skipped(n))
        yield from (Path(here) / name for name in sorted(names + links) if not is_skipped(name))


def is_skipped(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED


def preference(path: Path) -> tuple[int, int, str]:
    """Notebooks before scripts, then the shorter name: `02_surprise (1).ipynb` is the copy."""
    return KINDS.index(path.suffix), len(path.name), str(path)


def shown(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)).encode(errors="replace").decode()
