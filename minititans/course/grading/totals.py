"""Each student's total: points for each lab and over all labs, in words and as a table.

A task is worth one point, or what a points file says: a line `02.3,2` for each task that differs.
A lab that was not handed in has no number, which is not the same as 0.
"""

import csv
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minititans.course.grading.grade import NOT_HANDED_IN, UNREADABLE, Row, safe_cell
from minititans.course.grading.submissions import LeftOut
from minititans.files import write_whole


@dataclass(frozen=True)
class Total:
    """labs: points by lab, None where nothing was handed in; of: the most points possible;
    not_graded: files of this student that could not be placed or read."""

    student: str
    labs: dict[str, float | None]
    of: float
    not_graded: list[str]

    @property
    def points(self) -> float:
        return sum(points for points in self.labs.values() if points is not None)


def add_up(
    rows: Sequence[Row], points: Mapping[str, float], left_out: Sequence[LeftOut] = ()
) -> list[Total]:
    worth = {row.task: points.get(row.task, 1.0) for row in rows}
    labs = sorted({row.lab for row in rows})
    found = []
    for student in sorted({row.student for row in rows}):
        own = [row for row in rows if row.student == student]
        handed_in = {row.lab for row in own if row.diagnosis != NOT_HANDED_IN}
        by_lab = {
            lab: sum(worth[row.task] for row in own if row.lab == lab and row.right)
            if lab in handed_in
            else None
            for lab in labs
        }
        files = [each.file for each in left_out if safe_cell(each.student) == student]
        files += sorted({row.file for row in own if row.diagnosis == UNREADABLE})
        found.append(Total(student, by_lab, sum(worth.values()), files))
    return found


def table(totals: Sequence[Total]) -> list[list[str]]:
    """The header, then a line for each student; numbers without needless zeros."""
    labs = [f"lab {lab}" for lab in totals[0].labs]
    lines = [["student", *labs, "total", "of", "files not graded"]]
    for total in totals:
        by_lab = ["" if points is None else f"{points:g}" for points in total.labs.values()]
        files = safe_cell("; ".join(total.not_graded))
        lines.append([total.student, *by_lab, f"{total.points:g}", f"{total.of:g}", files])
    return lines


def in_columns(totals: Sequence[Total]) -> str:
    """The table for a terminal: names on the left, numbers on the right, - for what is missing."""
    lines = [[cell or "-" for cell in line[:-1]] for line in table(totals)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = []
    for line, total in zip(lines, [None, *totals]):
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))]
        many = len(total.not_graded) if total else 0
        note = f"  and {many} file{'s'[: many > 1]} not graded" if many else ""
        text.append("  ".join(cells).rstrip() + note)
    return "\n".join(text)


def write_csv(totals: Sequence[Total], path: Path) -> None:
    with (
        write_whole(path) as temporary,
        open(temporary, "w", encoding="utf-8-sig", newline="") as file,
    ):
        csv.writer(file).writerows(table(totals))


def read_points(path: Path, tasks: Collection[str]) -> dict[str, float]:
    """Points by task from lines `02.3,2`; ValueError says which line is not like that."""
    found: dict[str, float] = {}
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [[cell.strip() for cell in line] for line in csv.reader(file)]
    for number, line in enumerate(lines, start=1):
        if not any(line) or (number == 1 and line == ["task", "points"]):
            continue
        task, worth = line if len(line) == 2 else ("", "")
        try:
            points = float(worth)
        except ValueError:
            points = math.nan
        if not 0 <= points < math.inf:
            raise ValueError(f"line {number}: expected a task and its points, as in 02.3,2; "
                             f"got {','.join(line)}")  # fmt: skip
        if task not in tasks:
            raise ValueError(f"line {number}: there is no task {task}")
        if task in found:
            raise ValueError(f"line {number}: {task} is there twice")
        found[task] = points
    return found
