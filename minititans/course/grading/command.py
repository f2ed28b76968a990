"""`minititans grade`: its options, and what it says. Nothing here imports torch before it runs."""

import argparse
import os
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from minititans.course.grading import isolation, submissions
from minititans.course.grading.isolation import DEFAULT_LIMITS, CannotLockIn, Limits
from minititans.machine import usable_cores

DESCRIPTION = {
    "description": "Run what students handed in and write a row for each student and task: right,\n"
    "or what went wrong. A figure beside the table shows which mistakes the class made.",
    "epilog": """\
what the folder should contain:
  NAME/02_surprise.ipynb      a folder for each student; files may be called anything, as long as
                              the functions in them, or else the name, say which lab it is
  NAME_02_surprise.ipynb      or, without folders, the student's name before the lab's number
  These may be notebooks (.ipynb) or scripts in the percent format (.py). Files that cannot be
  assigned to a lab and a student are listed at the end and in the table.

how submissions are isolated:
  bubblewrap (the program bwrap) builds a sandbox for each: it sees a few read-only folders, no
  network, no other submission and no other process, and at its limit it is ended together with
  everything it started. Where this is impossible, nothing is run unless you choose a weaker
  --isolation. docs/teaching.md says what this protects against and what it does not.
""",
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}
NO_LOCK = """\
Submissions cannot be isolated here with --isolation {way}, so none was run:
  {reason}
{advice}"""
GET_BWRAP = """\
The sandbox needs Linux and bubblewrap 0.8 or newer:
  sudo apt install bubblewrap     (Debian, Ubuntu; elsewhere the package has the same name)
If it is installed, your system may keep ordinary users from making namespaces; sudo helps.
Weaker forms are available if you ask for them:
  --isolation user    as root: a user of its own, who sees what every user sees and has a network
  --isolation none    limits only: for submissions that you have read and trust"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    megabytes = DEFAULT_LIMITS.memory >> 20
    parser.add_argument("submissions", type=Path, help="the folder with what was handed in")
    parser.add_argument("--out", type=Path, default=Path("grades.csv"), metavar="FILE",
                        help="the table; beside it the figure, .png, and each student's total, "
                        "-totals.csv (default: grades.csv)")  # fmt: skip
    parser.add_argument("--points", type=Path, metavar="FILE",
                        help="what tasks are worth, one line per task such as 02.3,2 "
                        "(default: one point each)")  # fmt: skip
    parser.add_argument("--labs", type=lambda text: tuple(text.split(",")), metavar="01,02",
                        help="grade only these (default: every lab handed in)")  # fmt: skip
    parser.add_argument("--time-limit", type=float, default=DEFAULT_LIMITS.seconds,
                        metavar="SECONDS", help="processor time for one submission, and a "
                        "twelfth of it for a cell or a task; three times as long by the clock "
                        "(default: %(default)g)")  # fmt: skip
    parser.add_argument("--memory-limit", type=float, default=megabytes, metavar="MB",
                        help="for one process of a submission, beyond what Python and torch take "
                        "(default: %(default)g)")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=usable_cores(), metavar="N",
                        help="submissions at a time (default: one per core)")  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0, help="another seed tries functions on other random inputs"
    )
    parser.add_argument(
        "--isolation",
        choices=isolation.WAYS,
        default="bwrap",
        help="how to isolate submissions, the strongest first (default: %(default)s)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="say nothing unless something is wrong"
    )


class WrongUse(Exception):
    """The command was called with something that does not exist or is impossible."""


def run(arguments: argparse.Namespace) -> int:
    try:
        check_arguments(arguments)
        grade_all(arguments)
    except WrongUse as error:
        print(f"minititans grade: {error}", file=sys.stderr)
        return 2
    except CannotLockIn as error:
        advice = GET_BWRAP if arguments.isolation == "bwrap" else ""
        words = NO_LOCK.format(way=arguments.isolation, reason=error, advice=advice)
        print(words.rstrip(), file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("\nStopped. Nothing was written.", file=sys.stderr)
        return 130
    return 0


def check_arguments(arguments: argparse.Namespace) -> None:
    if not hasattr(os, "fork"):
        raise WrongUse("this needs Linux or macOS; on Windows run it in WSL")
    if find_spec("IPython") is None:
        raise WrongUse("IPython is missing, which runs notebooks: pip install 'minititans[lab]'")
    if not arguments.submissions.is_dir():
        raise WrongUse(f"submissions: {arguments.submissions} is not a folder")
    if arguments.out.is_dir() or not arguments.out.resolve().parent.is_dir():
        raise WrongUse(f"--out: {arguments.out} is not a file in an existing folder")
    for name in ("time_limit", "memory_limit", "jobs"):
        if not getattr(arguments, name) > 0:
            option = name.replace("_", "-")
            raise WrongUse(f"--{option}: got {getattr(arguments, name)}, expected more than 0")


def grade_all(arguments: argparse.Namespace) -> None:
    from minititans.course.grading import figure, grade, totals
    from minititans.course.labs import all_labs

    known = {number: [task.function for task in lab.tasks] for number, lab in all_labs().items()}
    points = {}
    if arguments.points is not None:
        try:
            tasks = [task.id for lab in all_labs().values() for task in lab.tasks]
            points = totals.read_points(arguments.points, tasks)
        except (OSError, ValueError) as error:
            raise WrongUse(f"--points: {arguments.points}: {error}") from None
    wanted = arguments.labs or known
    if unknown := sorted(set(wanted) - set(known)):
        there = ", ".join(known)
        raise WrongUse(f"--labs: there is no lab {', '.join(unknown)}; there are {there}")
    found = submissions.find(arguments.submissions, known)
    chosen = [each for each in found.submissions if each.lab in wanted]
    if not chosen:
        say_left_out(found.left_out)
        raise WrongUse(
            f"submissions: {arguments.submissions} has nothing for lab {', '.join(wanted)}; "
            "--help shows what it should contain"
        )
    rows = grade.grade(
        chosen,
        found.students,
        sorted(arguments.labs or {each.lab for each in chosen}),
        Limits(arguments.time_limit, int(arguments.memory_limit * (1 << 20))),
        arguments.jobs,
        arguments.isolation,
        arguments.seed,
        progress=not arguments.quiet,
        left_out=found.left_out,
    )
    grade.write_csv([*rows, *grade.left_out_rows(found.left_out)], arguments.out)
    picture = arguments.out.with_suffix(".png")
    figure.write(rows, picture)
    sums = arguments.out.with_name(f"{arguments.out.stem}-totals.csv")
    students = totals.add_up(rows, points, found.left_out)
    totals.write_csv(students, sums)
    if not arguments.quiet:
        print(summary(rows), totals.in_columns(students), sep="\n\n", end="\n\n")
        print(f"{len(rows)} rows are in {arguments.out}, totals in {sums}, mistakes in {picture}")
    say_left_out(found.left_out)


def say_left_out(files: list[submissions.LeftOut]) -> None:
    if files:
        print("Not graded:", *(f"  {file}" for file in files), sep="\n")


def summary(rows) -> str:
    """A line for each task: how many are right, and what is wrong with the others."""
    titles = {row.task: row.title for row in rows}
    width = max(len(title) for title in titles.values())
    lines = []
    for task, title in sorted(titles.items()):
        here = [row for row in rows if row.task == task]
        right = sum(row.right for row in here)
        wrong = Counter(row.diagnosis for row in here if not row.right).most_common()
        listed = ", ".join(f"{name} {count}" for name, count in wrong)
        lines.append(
            f"{task}  {title:<{width}}  {right:>3} of {len(here)} right  {listed}".rstrip()
        )
    return "\n".join(lines)
