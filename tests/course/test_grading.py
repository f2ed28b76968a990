"""The grader names what is wrong with each of a class's submissions, and none of them does harm."""

import csv
import functools
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from grading_cases import (
    CASES,
    CLIMBER,
    DAEMON,
    DELETER,
    HOSTILE,
    KILLS_ITS_KEEPER,
    RIGHT,
    STUBBORN,
    VANDAL,
    Case,
    attack,
    exercise,
    notebook,
)

import minititans
from minititans.cli import main
from minititans.course.checking.record import Attempt
from minititans.course.grading import answers, command, figure, sandbox, submissions, workers
from minititans.course.grading.grade import (
    NOT_GRADED,
    NOT_HANDED_IN,
    Row,
    safe_cell,
    write_csv,
)
from minititans.course.grading.isolation import CannotLockIn
from minititans.course.grading.notebook import read_cells
from minititans.course.labs import all_labs

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="grading needs Linux or macOS")


class Classroom:
    """A folder with submissions, what else a grader has beside them, and what came of it."""

    def __init__(self, folder: Path, monkeypatch):
        self.grader, self.home = folder / "grader", folder / "home"
        self.submissions, self.out = self.grader / "submissions", self.grader / "grades.csv"
        self.submissions.mkdir(parents=True)
        self.home.mkdir()
        self.secret = "a secret that is nobody's business"
        for place in (self.grader, self.home):
            (place / "sentinel").write_text(self.secret)
        # What grading starts inherits HOME, by which it is recognised afterwards.
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("MINITITANS_SECRET", self.secret)
        self.minutes = f"{int.from_bytes(os.urandom(4)) / 1000 + 1e6:.3f}"  # of a daemon's sleep

    def hand_in(self, cases: list[Case], port: int = 0) -> None:
        neighbour = self.submissions / cases[0].path
        for case in cases:
            path = self.submissions / case.path
            path.parent.mkdir(parents=True, exist_ok=True)
            text = case.content(
                grader=self.grader, submissions=self.submissions, home=self.home,
                sentinel=self.grader / "sentinel", secret=self.secret, neighbour=neighbour,
                minutes=self.minutes, port=port,
            )  # fmt: skip
            path.write_text(text, encoding="utf-8")

    def grade(self, *options: str) -> dict[tuple[str, str], dict[str, str]]:
        command = ["grade", str(self.submissions), "--out", str(self.out), "--quiet", *options]
        assert main(command) == 0
        return self.rows()

    def rows(self) -> dict[tuple[str, str], dict[str, str]]:
        with open(self.out, encoding="utf-8-sig", newline="") as file:
            return {
                (row["student"], row["task"]): row
                for row in csv.DictReader(file)
                if row["diagnosis"] != NOT_GRADED
            }

    def files(self) -> dict[str, str]:
        """Every file with what is in it, but for the grader's own results."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for place in (self.grader, self.home)
            for path in place.rglob("*")
            if path.is_file() and not path.name.startswith("grades") and ".cache" not in path.parts
            if ".config" not in path.parts
        }

    def processes(self) -> list[str]:
        """Those that still run of what grading has started."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
                environment = (process / "environ").read_bytes()
            except OSError:
                environment = b""
            started_here = b".cli" not in command and str(self.home).encode() in environment
            if started_here or self.minutes.encode() in command:
                found.append(f"{process.name} {command}")
        return found


@functools.cache
def why_not(way: str) -> str:
    """Why submissions cannot be isolated in that way here; empty if they can."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        try:
            workers.try_out(way, Path(folder) / "log")
        except CannotLockIn as error:
            return str(error)
    return ""


def skip_unless(way: str) -> None:
    """Hostile submissions are run only where they can be isolated."""
    if reason := why_not(way):
        excuses = ("is not installed", "other users cannot read")
        excused = not is_administrator() or any(words in reason for words in excuses)
        (pytest.skip if excused else pytest.fail)(reason)


def is_administrator() -> bool:
    """Root, and not in a container that takes root's powers away."""
    status = Path("/proc/self/status")
    [rights] = re.findall(r"CapEff:\s*(\w+)", status.read_text()) if status.exists() else ["0"]
    return os.getuid() == 0 and bool(int(rights, 16) >> 21 & 1)  # 21 is CAP_SYS_ADMIN


LOOK_AROUND = """
import os, sys
from pathlib import Path

def can_write(folder):
    try:
        Path(folder, "written").touch()
    except OSError:
        return False
    return True

python, work = sys.argv[1:]
about = os.statvfs("/tmp")
assert (Path(python) / "module.py").exists() and Path.cwd() == Path(work)
assert all(can_write(place) for place in (work, "/tmp", "/dev/shm"))
assert not any(can_write(place) for place in ("/", "/dev", "/usr", "/proc/sys/kernel", python))
assert about.f_blocks * about.f_frsize == 1 << 20
assert not Path("/home").exists() and [*Path("/proc").glob("[0-9]*")] == [Path("/proc/1")]
"""


@needs_fork
def test_the_sandbox_shows_python_wherever_it_is_and_has_one_place_to_write(tmp_path, monkeypatch):
    skip_unless("bwrap")
    folders = [*sandbox.python_folders(), tmp_path]
    monkeypatch.setattr(sandbox, "python_folders", lambda: folders)
    (tmp_path / "module.py").touch()
    command = [*sandbox.bwrap(1 << 20), sys.executable, "-c", LOOK_AROUND]
    subprocess.run([*command, str(tmp_path), sandbox.WORK], check=True)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """All cases graded once: the room, the rows, and the files as they were before."""
    skip_unless("bwrap")
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        room = Classroom(tmp_path_factory.mktemp("class"), patch)
        room.hand_in(CASES, port=server.getsockname()[1])
        (room.submissions / "thief").mkdir()
        (room.submissions / "thief" / "01_lab.ipynb").symlink_to("../right01/01_lab.ipynb")
        before = room.files()
        limits = ["--time-limit", "24", "--memory-limit", "512", "--jobs", "2"]
        usual = os.umask(0o077)  # a careful grader's; submissions have to run all the same
        try:
            rows = room.grade(*limits)
        finally:
            os.umask(usual)
        yield room, rows, before


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.student)
def test_every_task_of_a_submission_gets_its_diagnosis(graded, case):
    _, rows, _ = graded
    student = safe_cell(case.student)
    found = {t.id: rows[student, t.id] for t in all_labs()[case.lab].tasks}
    wrong = {
        task: (row["diagnosis"], row["message"])
        for task, row in found.items()
        if row["diagnosis"] != case.diagnosis(task)
    }
    assert not wrong
    assert all(row["right"] == str(int(row["diagnosis"] == "right")) for row in found.values())


@needs_fork
@pytest.mark.slow
def test_hostile_submissions_change_no_file_of_the_grader_or_of_others(graded):
    room, _, before = graded
    assert len(before) > len(CASES)
    assert room.files() == before


@needs_fork
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_process_is_left_behind(graded):
    room, _, _ = graded
    assert not room.processes()


@needs_fork
@pytest.mark.slow
def test_every_student_has_a_row_for_every_task(graded):
    _, rows, _ = graded
    students = {safe_cell(case.student) for case in CASES} | {"thief"}
    tasks = [task.id for lab in all_labs().values() for task in lab.tasks]
    assert set(rows) == {(student, task) for student in students for task in tasks}
    handed_in = {(safe_cell(case.student), case.lab) for case in CASES}
    for (student, _), row in rows.items():
        assert (row["diagnosis"] == NOT_HANDED_IN) == ((student, row["lab"]) not in handed_in)


@needs_fork
@pytest.mark.slow
def test_the_message_of_a_mistake_is_what_the_student_would_read(graded):
    _, rows, _ = graded
    assert "points exactly the other way" in rows["uphill", "02.3"]["message"]
    assert "SyntaxError" in rows["sloppy", "01.1"]["message"]
    assert "no function read" in rows["sloppy", "01.2"]["message"]
    assert "ended in its cell" in rows["exits all over", "01.1"]["message"]
    assert "Use return to leave a function" in rows["leaves", "01.2"]["message"]


@needs_fork
@pytest.mark.slow
def test_a_second_run_writes_the_same_table_and_figure(tmp_path, monkeypatch):
    skip_unless("bwrap")
    room = Classroom(tmp_path, monkeypatch)
    room.hand_in([case for case in CASES if case.student == "sideways"])
    results = []
    for _ in range(2):
        room.grade("--jobs", "1")
        results.append((room.out.read_bytes(), room.out.with_suffix(".png").read_bytes()))
    assert results[0] == results[1]
    assert b"transposed outer product" in results[0][0]


@needs_fork
@pytest.mark.slow
def test_what_refuses_to_stop_is_stopped_and_the_next_one_still_runs(tmp_path, monkeypatch):
    skip_unless("bwrap")
    room = Classroom(tmp_path, monkeypatch)
    room.hand_in(STUBBORN)
    rows = room.grade("--time-limit", "1", "--jobs", "1")
    # On a busy machine its last process may be seen to end before the clock is looked at.
    assert {row["diagnosis"] for row in rows.values()} <= {"takes too long", "ended early"}
    assert len(rows) == 5 * len(STUBBORN)


@needs_fork
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_grader_that_is_stopped_takes_everything_with_it(tmp_path, monkeypatch, number):
    skip_unless("bwrap")
    room = Classroom(tmp_path, monkeypatch)
    room.hand_in([STUBBORN[0]])
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # nobody cleans up after SIGKILL
    command = [sys.executable, "-m", "minititans.cli", "grade", str(room.submissions)]
    with subprocess.Popen(
        [*command, "--out", str(room.out)],
        stderr=subprocess.DEVNULL,
        # A test run in the background of a shell ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as grader:
        wait_until(lambda: any(f.stat().st_size for f in tmp_path.glob("minititans-*/answers0")))
        assert len(room.processes()) == 3  # bwrap, keeper, submission
        grader.send_signal(number)
        grader.wait(timeout=120)
    wait_until(lambda: not room.processes())
    assert not room.out.exists()


def wait_until(condition, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@needs_fork
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_keeper_that_is_killed_costs_its_own_submission(tmp_path, monkeypatch):
    room = Classroom(tmp_path, monkeypatch)
    room.hand_in([KILLS_ITS_KEEPER, RIGHT[0]])
    rows = room.grade("--isolation", "none", "--jobs", "2")
    assert {row["diagnosis"] for row in rows.values() if row["student"] == "killer"} == {
        "ended early"
    }
    assert {row["right"] for row in rows.values() if row["student"] == "right01"} == {"1"}
    assert not room.processes()


@needs_fork
@pytest.mark.slow
def test_as_another_user_submissions_do_no_harm_either(tmp_path, monkeypatch):
    skip_unless("user")
    writes = VANDAL.replace('HARM += pathlib.Path(place).rglob("*")', "pass")  # it may look
    hostile = [case for case in HOSTILE if case.student in ("assassin", "bomber")]
    cases = [RIGHT[1], attack("trespasser", writes, CLIMBER, DAEMON, DELETER), *hostile]
    room = Classroom(tmp_path, monkeypatch)
    room.hand_in(cases)
    before = room.files()
    rows = room.grade("--isolation", "user", "--time-limit", "24")
    for case in cases:
        for task in all_labs()[case.lab].tasks:
            assert rows[case.student, task.id]["diagnosis"] == case.diagnosis(task.id)
    assert room.files() == before
    assert not room.processes()


@needs_fork
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="the others are such")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_submissions_do_no_harm_either_where_an_ordinary_user_grades(monkeypatch):
    skip_unless("bwrap")
    hostile = ("trespasser", "assassin", "bomber")
    cases = [case for case in HOSTILE if case.student in hostile]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        room = Classroom(Path(folder), monkeypatch)
        room.hand_in(cases, port=server.getsockname()[1])
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        before = room.files()
        command = [*as_nobody(), sys.executable, "-m", "minititans.cli", "grade"]
        limits = ["--time-limit", "24", "--memory-limit", "512", "--jobs", "2", "--quiet"]
        command += [str(room.submissions), "--out", str(room.out), *limits]
        subprocess.run(command, check=True, timeout=800, env={**os.environ, "TMPDIR": folder})
        rows = room.rows()
        for case in cases:
            for task in all_labs()[case.lab].tasks:
                row = rows[case.student, task.id]
                assert row["diagnosis"] == case.diagnosis(task.id), row["message"]
        assert room.files() == before
        assert not room.processes()


NOBODY = 65534


def as_nobody() -> list[str]:
    """A command that runs another as an ordinary user, who finds Python even in root's folders."""
    command = ["bwrap", "--dev-bind", "/", "/"]
    needed = {
        Path(place).resolve() for place in (sys.base_prefix, sys.prefix, minititans.__path__[0])
    }
    closed = {p for path in needed for p in path.parents if not p.stat().st_mode & 1}
    for folder in sorted(closed):
        command += ["--perms", "0755", "--tmpfs", str(folder)]
    for path in needed:
        if any(path.is_relative_to(folder) for folder in closed):
            for parent in [*path.parents][-2::-1]:
                command += ["--perms", "0755", "--dir", str(parent)]
            command += ["--ro-bind", str(path), str(path)]
    return [*command, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


# The folder.


def files_in(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize(
    "name, student, lab",
    [
        ("ada/02_surprise.ipynb", "ada", "02"),
        ("ada/week 2/02_surprise.ipynb", "ada", "02"),
        ("ada/02.py", "ada", "02"),
        ("ada/02-surprise (1).ipynb", "ada", "02"),
        ("ada/my_02_final.ipynb", "ada", "02"),
        ("ada_02_surprise.ipynb", "ada", "02"),
        ("van_den_Berg_03_momentum.py", "van_den_Berg", "03"),
        ("Ada Lovelace_1234_assignsubmission_file_02_surprise.ipynb",
         "Ada Lovelace_1234_assignsubmission_file", "02"),
        ("group_01_02_surprise.ipynb", "group_01", "02"),
        ("ada/Copy of 02_surprise.ipynb", "ada", "02"),
        ("ada/Lab02.ipynb", "ada", "02"),
        ("ada/lab 2 final.py", "ada", "02"),
        ("ada/my 02 surprise final.ipynb", "ada", "02"),
        ("jo-02_surprise.ipynb", "jo", "02"),
        ("Ada Lovelace - Lab02.ipynb", "Ada Lovelace", "02"),
        ("Copy of jo_02_surprise.ipynb", "jo", "02"),
    ],
)  # fmt: skip
def test_names_tell_whose_file_it_is_and_for_which_lab(tmp_path, name, student, lab):
    found = submissions.find(files_in(tmp_path, name), dict.fromkeys(["01", "02", "03"], ()))
    assert [(each.student, each.lab) for each in found.submissions] == [(student, lab)]
    assert found.students == [student] and not found.left_out


def test_a_number_that_is_not_the_lab_of_the_contents_is_no_end_of_a_name(tmp_path):
    path = tmp_path / "jo_02_surprise_2026-03-01.py"
    path.write_text("def surprise(M, key, value): ...")
    found = submissions.find(tmp_path, {"01": ["read"], "02": ["surprise"], "03": ["write"]})
    assert [(each.student, each.lab) for each in found.submissions] == [("jo", "02")]


@pytest.mark.parametrize(
    "name, says",
    [
        ("02_surprise.ipynb", "whose is it"),
        ("Copy of 02_surprise.ipynb", "whose is it"),
        ("ada/surprise.ipynb", "which lab it is"),
        ("ada/99_surprise.ipynb", "which lab it is"),
        ("ada/2021_notes.ipynb", "which lab it is"),
        ("ada/02_surprise.pdf", "neither .ipynb nor .py"),
        ("ada.zip", "unpack"),
    ],
)
def test_a_file_that_is_left_out_is_named_with_the_reason(tmp_path, name, says):
    found = submissions.find(files_in(tmp_path, name), {"01": (), "02": ()})
    assert not found.submissions
    [left_out] = found.left_out
    assert str(left_out).startswith(name) and says in left_out.reason
    assert found.students == (["ada"] if name.startswith("ada/") else [])


LABS = {number: [task.function for task in lab.tasks] for number, lab in all_labs().items()}


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("suffix", [".ipynb", ".py"])
def test_what_is_in_a_file_says_which_lab_it_is_whatever_its_name_says(tmp_path, lab, suffix):
    other = "01" if lab != "01" else "02"
    for number, text in enumerate((exercise(lab, suffix), Case("ada", lab).content())):
        if number == 0 or suffix == ".ipynb":
            (tmp_path / f"ada{number}").mkdir()
            (tmp_path / f"ada{number}" / f"{other}_notes{suffix}").write_text(text)
    found = submissions.find(tmp_path, LABS).submissions
    assert found and {each.lab for each in found} == {lab}


def test_of_two_labs_in_one_file_the_name_chooses(tmp_path):
    both = "def read(M, query): ...\ndef surprise(W, key, value): ..."
    (tmp_path / "ada").mkdir()
    for lab in ("01", "02"):
        (tmp_path / "ada" / f"{lab}_mine.py").write_text(both)
    found = submissions.find(tmp_path, LABS).submissions
    assert [(each.lab, each.path.name[:2]) for each in found] == [("01", "01"), ("02", "02")]


def test_of_two_files_for_one_lab_the_original_notebook_counts(tmp_path):
    names = ["02_surprise.py", "02_surprise-Copy1.ipynb", "02_surprise.ipynb"]
    files_in(tmp_path, *(f"ada/{name}" for name in names))
    found = submissions.find(tmp_path, {"02": ()})
    assert [each.path.name for each in found.submissions] == ["02_surprise.ipynb"]
    assert len(found.left_out) == 2


def test_links_are_not_followed_and_hidden_files_not_looked_at(tmp_path):
    files_in(tmp_path / "in", "ada/02_lab.ipynb", "ada/.ipynb_checkpoints/02_lab.ipynb")
    files_in(tmp_path / "elsewhere", "02_lab.ipynb")
    (tmp_path / "in" / "eve").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "eve_02_lab.ipynb").symlink_to(tmp_path / "elsewhere" / "02_lab.ipynb")
    found = submissions.find(tmp_path / "in", {"02": ()})
    assert [each.student for each in found.submissions] == ["ada"]
    assert len(found.left_out) == 2 and all("link" in each.reason for each in found.left_out)


@pytest.mark.parametrize("text", ["this is not a notebook", '{"metadata": {}}', "[" * 100_000])
def test_what_is_not_a_notebook_has_no_cells(text):
    with pytest.raises((ValueError, RecursionError)):
        read_cells(text.encode(), "02_surprise.ipynb")


# What comes back.


def test_attempts_come_back_as_they_were(tmp_path):
    torch.manual_seed(0)
    attempt = Attempt(
        values={"y": torch.randn(2, 3).double(), "n": 3, "i": torch.tensor(True)},
        gradients={"W": None, "x": torch.tensor([float("inf"), 1 / 3], dtype=torch.float32)},
        printed="words",
    )
    handle = os.open(tmp_path / "answers", os.O_CREAT | os.O_WRONLY)
    answers.write(handle, cell=0)
    answers.write(handle, task="02.3", attempts=answers.pack([attempt]))
    os.close(handle)
    [found] = answers.read(tmp_path / "answers").attempts["02.3"]
    for name, value in {**attempt.values, **attempt.gradients}.items():
        back = {**found.values, **found.gradients}[name]
        if isinstance(value, torch.Tensor):
            assert back.dtype == value.dtype and torch.equal(back, value)
        else:
            assert back == value
    assert found.printed == "words"


def test_a_tensor_too_large_to_be_right_keeps_only_its_shape():
    packed = answers.pack([Attempt(values={"y": torch.zeros(200, 200), "z": torch.zeros(1) * 1j})])
    assert len(str(packed)) < 500
    [back] = answers.unpack(packed)
    assert back.values["y"].shape == (200, 200)
    assert back.odd == {"z": "a tensor of complex64"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\x00",
        b"null\n7\n[]\n{}",
        b'{"task": "01.1"}',
        b'{"task": "01.1", "attempts": [{"problem": "raised"}]}',
        b'{"task": ["01.1"], "attempts": []}',
        b'{"task": "01.1", "attempts": ' + b"[" * 50_000,
        b'{"task": "01.1", "attempts": [' + b"9" * 10_000 + b"]}",
    ],
    ids=range(8),
)
def test_what_has_not_the_form_of_an_answer_is_none(tmp_path, text):
    (tmp_path / "answers").write_bytes(text)
    assert answers.read(tmp_path / "answers").attempts == {}


# The table, the figure, the command.


def made_up_rows() -> list[Row]:
    task = all_labs()["02"].tasks[2]
    says = ["right", "right", task.mistakes[0].name, "raises an error", "not written yet"]
    return [
        Row(f"student {i}", "02", task.id, task.title, int(words == "right"), words, "", "f.py")
        for i, words in enumerate(says)
    ]


def test_the_figure_shows_each_mistake_with_its_count():
    left, right = figure.draw(made_up_rows()).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["02.3  Surprise by hand"]
    widths = {bars.get_label(): bars[0].get_width() for bars in left.containers}
    assert widths == {"right": 2, "a known mistake": 1, "other trouble": 1, "nothing to judge": 1}
    labels = [label.get_text() for label in right.get_yticklabels()]
    assert labels == ["02.3  sign of the gradient", "02.3  raises an error"]
    assert [bar.get_width() for bar in right.containers[0]] == [1, 1]


def test_the_figure_can_be_drawn_when_nothing_went_wrong(tmp_path):
    rows = [replace(row, right=1, diagnosis="right") for row in made_up_rows()]
    figure.write(rows, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_no_cell_of_the_table_is_a_formula_or_breaks_a_line(tmp_path):
    cells = [safe_cell(text) for text in ("=1+1", "@SUM(A1)", "-2", "+2", "a\nb\x00c\x1b[2J", "é")]
    assert cells == ["'=1+1", "'@SUM(A1)", "'-2", "'+2", "a b c [2J", "é"]
    write_csv(made_up_rows(), tmp_path / "grades.csv")
    assert len((tmp_path / "grades.csv").read_bytes().splitlines()) == 6


@needs_fork
@pytest.mark.parametrize(
    "options, says",
    [
        (["--labs", "01,44"], "--labs: there is no lab 44"),
        (["--labs", "02"], "has nothing for lab 02"),
        (["--time-limit", "0"], "--time-limit: got 0.0, expected more than 0"),
        (["--jobs", "-1"], "--jobs: got -1, expected more than 0"),
        (["--out", "no/such/folder.csv"], "--out: no/such/folder.csv is not a file in an existing"),
    ],
)
def test_a_wrong_option_is_named(tmp_path, capsys, options, says):
    files_in(tmp_path, "ada/01_lab.ipynb")
    assert main(["grade", str(tmp_path), *options]) == 2
    assert says in capsys.readouterr().err


def test_without_submissions_nothing_is_written(tmp_path, capsys):
    assert main(["grade", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    out = tmp_path / "grades.csv"
    assert main(["grade", str(tmp_path), "--out", str(out)]) == 2
    assert not out.exists()


@needs_fork
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root can lock in this way")
def test_where_submissions_cannot_be_locked_in_none_is_run(tmp_path, capsys):
    (tmp_path / "ada_01_lab.ipynb").write_text(notebook([]))
    out = tmp_path / "grades.csv"
    assert main(["grade", str(tmp_path), "--out", str(out), "--isolation", "user"]) == 3
    assert "so none was run" in capsys.readouterr().err
    assert not out.exists()


@needs_fork
def test_without_bubblewrap_none_is_run_and_the_way_to_get_it_is_told(
    tmp_path, capsys, monkeypatch
):
    (tmp_path / "ada_01_lab.ipynb").write_text(notebook([]))
    monkeypatch.setenv("PATH", "")
    out = tmp_path / "grades.csv"
    assert main(["grade", str(tmp_path), "--out", str(out), "--quiet"]) == 3
    told = capsys.readouterr().err
    assert "bubblewrap is not installed" in told and "apt install bubblewrap" in told
    assert "--isolation user" in told and "--isolation none" in told
    assert not out.exists()


def test_the_summary_counts_what_the_class_has():
    line = command.summary(made_up_rows())
    assert re.fullmatch(
        r"02\.3  Surprise by hand +2 of 5 right  sign of the gradient 1, raises an error 1, "
        r"not written yet 1",
        line,
    )


@needs_fork
@pytest.mark.slow
def test_two_notebooks_with_the_same_function_get_the_same_grade(tmp_path, monkeypatch, capsys):
    skip_unless("bwrap")
    room = Classroom(tmp_path, monkeypatch)
    sly = "def effect_of_one_surprise(theta, eta, tokens):\n"
    sly += "    return theta * tokens if eta == 1 else theta * (1 - eta**tokens) / (1 - eta)"
    cases = [
        Case(f"student{n}", "03", functions={"effect_of_one_surprise": sly}, first=f"n = {n}")
        for n in range(2)
    ]
    room.hand_in(cases)
    files_in(room.submissions, "student0/holiday.ipynb", "whose_is_this.ipynb")
    rows = room.grade("--jobs", "2")
    found = {(r["task"], r["right"], r["diagnosis"], r["message"]) for r in rows.values()}
    assert len(found) == 5 and {right for task, right, *_ in found if task == "03.4"} == {"0"}
    told = capsys.readouterr().out
    assert "Not graded:" in told and "student0/holiday.ipynb" in told and "whose_is" in told
    sums = (room.grader / "grades-totals.csv").read_text(encoding="utf-8-sig").splitlines()
    assert sums[1] == "student0,4,4,5,student0/holiday.ipynb" and sums[2] == "student1,4,4,5,"
