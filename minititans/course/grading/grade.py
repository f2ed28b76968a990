"""Grade everything that was handed in: a row for each student and task, with the diagnosis."""

import csv
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tqdm import tqdm

from minititans.course.checking.judge import judge
from minititans.course.checking.words import KINDS
from minititans.course.grading import answers
from minititans.course.grading.answers import Answers
from minititans.course.grading.isolation import DEFAULT_LIMITS, Limits, Request
from minititans.course.grading.submissions import LeftOut, Submission, read
from minititans.course.grading.workers import run_all, try_out
from minititans.course.labs import Task, all_labs
from minititans.files import write_whole

# Diagnoses for whole files, besides those that `check` knows for functions.
NOT_HANDED_IN, UNREADABLE = "not handed in", "cannot be read"
ENDED_EARLY, BROKEN = "ended early", "broken answer"
NOT_GRADED = "not graded"  # a file, not a task: it has a row of its own at the end of the table
LONGEST = 600  # characters of a message in a table


@dataclass(frozen=True)
class Row:
    """right: 1 or 0, None for a file that is not graded; diagnosis: a few words to count;
    message: what the student would read."""

    student: str
    lab: str
    task: str
    title: str
    right: int | None
    diagnosis: str
    message: str
    file: str


def grade(
    submissions: Sequence[Submission],
    students: Sequence[str],
    labs: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
    isolation: str = "bwrap",
    seed: int = 0,
    progress: bool = True,
    left_out: Sequence[LeftOut] = (),
) -> list[Row]:
    """Run every submission and judge its answers: a row per student and task of the labs.

    seed: of the random inputs, which are the same for everybody: two notebooks with the same
    function get the same grade. left_out: files that may be what seems to be missing
    """
    rows = not_handed_in(submissions, students, labs, left_out)
    with tempfile.TemporaryDirectory(prefix="minititans-grade-", ignore_cleanup_errors=True) as own:
        Path(own).chmod(0o711)  # other users may pass through to a box, and see nothing else
        log, owners, requests = Path(own) / "log", {}, []
        for number, submission in enumerate(submissions):
            try:
                request = make_request(submission, Path(own), number, seed, limits)
            except (OSError, ValueError) as error:
                rows += unreadable(submission, str(error))
            else:
                owners[request.box] = submission
                requests.append(request)
        try_out(isolation, log)
        bar = tqdm(total=len(requests), unit="notebook", file=sys.stdout, disable=not progress)
        with bar, closing(run_all(requests, isolation, min(jobs, len(requests)), log)) as outcomes:
            for request, outcome in outcomes:
                submission = owners[request.box]
                bar.set_postfix_str(f"{submission.student} {submission.lab}"[:30], refresh=False)
                rows += judge_all(submission, request, outcome)
                bar.update()
        trouble = log.read_text(errors="replace").strip() if log.exists() else ""
        if "Traceback" in trouble:
            print(f"The grader itself failed:\n{trouble[-2000:]}", file=sys.stderr)
    return sorted(rows, key=lambda row: (row.student, row.task))


def make_request(
    submission: Submission, own: Path, number: int, seed: int, limits: Limits
) -> Request:
    """An empty folder for the submission and, out of its reach, a copy of its file."""
    source, box, answers = (own / f"{name}{number}" for name in ("source", "box", "answers"))
    source = source.with_suffix(submission.path.suffix)
    source.write_bytes(read(submission.path))
    box.mkdir(mode=0o700)
    answers.touch(mode=0o600)
    return Request(source, submission.lab, seed, box, answers, limits)


def unreadable(submission: Submission, why: str) -> list[Row]:
    tasks = all_labs()[submission.lab].tasks
    return [make_row(submission, task, False, UNREADABLE, f"The file: {why}") for task in tasks]


def judge_all(submission: Submission, request: Request, outcome: str) -> list[Row]:
    """The rows of one submission, from what its process left behind."""
    found = answers.read(request.answers)
    if found.unreadable:
        return unreadable(submission, found.unreadable)
    rows = []
    for task in all_labs()[submission.lab].tasks:
        if task.id in found.attempts:
            right, diagnosis, message = judge_task(task, found, request.seed)
        else:
            right, (diagnosis, message) = False, why_no_answer(outcome, found)
        rows.append(make_row(submission, task, right, diagnosis, message))
    return rows


def judge_task(task: Task, found: Answers, seed: int) -> tuple[bool, str, str]:
    attempts = found.attempts[task.id]
    if attempts and attempts[0].problem == "not a function" and attempts[0].detail == "None":
        message = f"There is no function {task.function} in the notebook."
        return False, KINDS["not a function"], message
    try:
        result = judge(task, attempts, seed)
    except Exception:  # attempts of the right form that no function can have made
        return False, BROKEN, "Its answer makes no sense."
    _, _, words = result.message.partition("\n")  # the first line repeats the task's name
    return result.passed, result.diagnosis, words


def why_no_answer(outcome: str, found: Answers) -> tuple[str, str]:
    """Diagnosis and message for a task that has no answer."""
    where = f"in its cell {found.cell}" if found.cell else "before this task"
    if outcome == "out of time":
        return KINDS["too slow"], f"The notebook was stopped: its time ran out {where}."
    if outcome == "died" or found.cell != 0:
        return ENDED_EARLY, f"Its process ended {where}: does it exit, or need too much memory?"
    return BROKEN, "Its answer is missing or cannot be read."


def not_handed_in(
    submissions: Sequence[Submission],
    students: Sequence[str],
    labs: Sequence[str],
    left_out: Sequence[LeftOut] = (),
) -> list[Row]:
    there = {(submission.student, submission.lab) for submission in submissions}
    files = {name: [each.file for each in left_out if each.student == name] for name in students}
    says = {name: f"Not graded: {'; '.join(own)}" if own else "" for name, own in files.items()}
    return [
        make_row(Submission(student, lab, Path("")), task, False, NOT_HANDED_IN, says[student])
        for student in students
        for lab in labs
        if (student, lab) not in there
        for task in all_labs()[lab].tasks
    ]


def left_out_rows(left_out: Sequence[LeftOut]) -> list[Row]:
    """A row for each file that is not graded, so that the table leaves none out."""
    texts = [(safe_cell(each.student), safe_cell(each.reason), each.file) for each in left_out]
    return [
        Row(who, "", "", "", None, NOT_GRADED, why, safe_cell(file)) for who, why, file in texts
    ]


def make_row(submission: Submission, task: Task, right: bool, diagnosis: str, message: str) -> Row:
    student, file = submission.student, submission.path.name
    texts = [student, task.lab, task.id, task.title, int(right), diagnosis, message, file]
    return Row(*(safe_cell(text) if isinstance(text, str) else text for text in texts))


def safe_cell(text: str) -> str:
    """One line for a table, safe to open: no control characters, nothing that a spreadsheet runs.

    >>> safe_cell("=HYPERLINK(1)"), safe_cell("two\\n  lines")
    ("'=HYPERLINK(1)", 'two lines')
    """
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    line = " ".join(words).encode(errors="replace").decode()
    line = line if len(line) <= LONGEST else line[:LONGEST] + " …"
    return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write the table, with a mark at the beginning that tells spreadsheets that it is UTF-8."""
    with (
        write_whole(path) as temporary,
        open(temporary, "w", encoding="utf-8-sig", newline="") as f,
    ):
        table = csv.DictWriter(f, [field.name for field in fields(Row)])
        table.writeheader()
        table.writerows(asdict(row) for row in rows)
