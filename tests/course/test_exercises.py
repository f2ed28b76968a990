"""Exercises are what solutions give, holes say what to do, and nobody's work is lost."""

import ast
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from minititans.course.checks import examine
from minititans.course.hints import hint
from minititans.course.labs import all_labs
from minititans.course.making.build import read_source
from minititans.course.making.exercises import (
    BEGIN,
    CHECK,
    END,
    differences,
    exercise_text,
    main,
    solutions,
    write,
)

ROOT = Path(__file__).resolve().parents[2]
TASKS = [task for lab in all_labs().values() for task in lab.tasks]
each_lab = pytest.mark.parametrize("solution", solutions(ROOT), ids=lambda path: path.stem)


def exercise_of(solution: Path, suffix: str = ".py") -> Path:
    return (ROOT / "exercises" / solution.name).with_suffix(suffix)


def holes(path: Path) -> dict[str, ast.FunctionDef]:
    """The checked functions of a lab, task to its syntax tree."""
    text = path.read_text(encoding="utf-8")
    defined = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    return {id: defined[name] for id, name in CHECK.findall(text)}


def test_exercises_are_exactly_what_solutions_give():
    """(Somebody's own work in exercises/ is a difference too.)"""
    assert differences(ROOT) == []
    assert len(solutions(ROOT)) == len(all_labs())


def test_the_command_says_what_differs(tmp_path, capsys):
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions")
    assert main(["--root", str(tmp_path), "--check"]) == 1
    assert "exercises/01_matrix_memory.py is missing" in capsys.readouterr().out
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--root", str(tmp_path), "--check"]) == 0
    (tmp_path / "exercises" / "07_more.py").write_text("# more\n")
    exercise = tmp_path / "exercises" / "02_surprise.ipynb"
    exercise.write_text(exercise.read_text().replace("surprise", "surprize", 1))
    assert main(["--root", str(tmp_path), "--check"]) == 1
    out = capsys.readouterr().out
    assert "02_surprise.ipynb differs from what solutions/02_surprise.py gives" in out
    assert "07_more.py has no solution" in out
    assert main(["--root", str(tmp_path / "nowhere")]) == 1


@each_lab
def test_a_lab_has_its_tasks_in_order_each_with_a_title_a_hole_and_a_check(solution):
    tasks = all_labs()[solution.name[:2]].tasks
    cells = read_source(solution).cells
    for task in tasks:
        (title,) = (n for n, c in enumerate(cells) if f"## {task.id} " in c.source)
        assert cells[title].cell_type == "markdown"
        words = cells[title].source.partition(f"## {task.id} ")[2]
        assert len(words.split()) >= 25, "say what to build and why"
        hole, check = cells[title + 1], cells[title + 2]
        assert f"def {task.function}(" in hole.source and BEGIN in hole.source
        assert check.source == f'check("{task.id}", {task.function})'
    found = [id for id, _ in CHECK.findall(solution.read_text(encoding="utf-8"))]
    assert found == [task.id for task in tasks]
    assert (
        sum("![" in c.source or "lines(" in c.source or "matrices(" in c.source for c in cells) >= 3
    )


@each_lab
def test_a_hole_says_what_to_return_with_shapes(solution):
    for id, function in holes(exercise_of(solution)).items():
        docstring = ast.get_docstring(function)
        assert re.match(r"Return\b", docstring), id
        assert re.search(r"\[.*\]|of the same shapes", docstring.partition("Returns")[2]), id
        arguments = [a.arg for a in function.args.args]
        assert all(re.search(rf"\b{name}\b", docstring) for name in arguments), id


@each_lab
def test_a_stub_fails_with_its_own_message(solution):
    namespace, messages = {}, []
    cells = exercise_of(solution).read_text(encoding="utf-8").split("# %%")
    code = [
        c.partition("\n")[2] for c in cells if "NotImplementedError" in c or "import torch" in c
    ]
    exec("\n".join(code), namespace)
    for id, function in holes(exercise_of(solution)).items():
        result = examine(id, namespace[function.name])
        assert (result.passed, result.kind) == (False, "not written")
        first = ast.get_docstring(function).splitlines()[0]
        assert result.message == f"○ {id} {function.name}: not written yet.\n  {id}: {first}"
        messages.append(result.message)
    assert len(set(messages)) == len(all_labs()[solution.name[:2]].tasks)


@each_lab
def test_nothing_of_a_solution_is_left_in_its_exercise(solution):
    text = solution.read_text(encoding="utf-8")
    regions = re.findall(rf"{BEGIN}\n(.*?){END}", text, re.DOTALL)
    assert len(regions) == len(holes(solution))
    for suffix in (".py", ".ipynb"):
        exercise = exercise_of(solution, suffix).read_text(encoding="utf-8")
        assert BEGIN not in exercise and END not in exercise
        for region in regions:
            assert region.strip() not in exercise
    assert exercise_text(text) == exercise_of(solution).read_text(encoding="utf-8")


@each_lab
def test_an_exercise_notebook_has_the_cells_of_its_source_and_no_outputs(solution):
    stored = nbformat.read(exercise_of(solution, ".ipynb"), as_version=4)
    nbformat.validate(stored)
    wanted = read_source(exercise_of(solution)).cells
    assert [(c.cell_type, c.source) for c in stored.cells] == [
        (c.cell_type, c.source) for c in wanted
    ]
    for cell in stored.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            f"def f(x):\n    '''Return x.'''\n    {BEGIN}\n    return x\n    {END}\n",
            "not in a function",
        ),
        (f'def f(x):\n    {BEGIN}\n    return x\n    {END}\ncheck("01.1", f)\n', "no docstring"),
        (f"def f(x):\n    '''R.'''\n    {BEGIN}\n    return x\ncheck(\"01.1\", f)\n", "without"),
    ],
)
def test_a_solution_that_makes_no_exercise_is_refused(source, words):
    if "check" in source:
        source = source.replace("\ncheck", "\n\n\ncheck")
    with pytest.raises(ValueError, match=words):
        exercise_text(source)


def test_what_a_student_wrote_is_kept_when_exercises_are_made_again(tmp_path):
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions")
    assert write(tmp_path) == []
    path = tmp_path / "exercises" / "01_matrix_memory.ipynb"
    fresh = path.read_bytes()

    notebook = nbformat.read(path, as_version=4)  # run, but nothing written: nothing to keep
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", name="stdout", text="hello")]
    nbformat.write(notebook, path)
    assert write(tmp_path) == [] and path.read_bytes() == fresh

    for number in (1, 2):
        notebook = nbformat.read(path, as_version=4)
        notebook.cells[3].source = f"def hebbian_write(M, key, value):\n    return {number}"
        nbformat.write(notebook, path)
        mine = path.read_bytes()
        (told,) = write(tmp_path)
        kept = path.with_name(f"01_matrix_memory.mine-{number}.ipynb")
        assert kept.name in told and kept.read_bytes() == mine and path.read_bytes() == fresh

    path.write_text("{ broken")
    (told,) = write(tmp_path)
    assert path.with_name("01_matrix_memory.mine-3.ipynb").read_text() == "{ broken"

    changed = tmp_path / "solutions" / "01_matrix_memory.py"  # a new version, nobody's work
    changed.write_text(changed.read_text().replace("Lab 01: a matrix", "Lab 01: one matrix"))
    assert write(tmp_path) == [] and path.read_bytes() != fresh


def test_the_last_hint_points_to_solutions_only_if_they_are_there(tmp_path, monkeypatch, capsys):
    (tmp_path / "exercises").mkdir()
    monkeypatch.chdir(tmp_path / "exercises")
    for _ in range(4):
        hint("02.3")
    assert "the last one" in (out := capsys.readouterr().out) and "solutions" not in out
    (tmp_path / "solutions").mkdir()
    shutil.copy(solutions(ROOT)[1], tmp_path / "solutions")
    hint("02.3")
    assert "The solution is in solutions/, lab 02." in capsys.readouterr().out


def run(path: Path) -> tuple[nbformat.NotebookNode, CellExecutionError | None]:
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": path.parent}}
    client = NotebookClient(notebook, timeout=300, startup_timeout=300, resources=resources)
    try:
        client.execute()
    except CellExecutionError as error:
        return notebook, error
    return notebook, None


@pytest.mark.slow
def test_an_exercise_runs_up_to_the_first_unsolved_task(tmp_path):
    shutil.copytree(ROOT / "exercises", tmp_path / "exercises")
    path = tmp_path / "exercises" / "02_surprise.ipynb"
    notebook = nbformat.read(path, as_version=4)
    hole = next(c for c in notebook.cells if "def associative_loss(" in c.source)
    stub = hole.source.index("    # Replace the next line")
    hole.source = hole.source[:stub] + "    return (M @ key - value).square().sum() / 2\n"
    nbformat.write(notebook, path)

    notebook, error = run(path)
    assert error is not None
    checks = [cell for cell in notebook.cells if cell.source.startswith("check(")]
    passed = "".join(output.text for output in checks[0].outputs)  # one line a message, or both
    assert passed.startswith("✓ 02.1 associative_loss: right.\n")
    assert "lab 02  ■□□□□□  1 of 6, next: 02.2" in passed
    (stopped,) = checks[1].outputs
    shown = "\n".join(stopped.traceback)
    assert shown.startswith("○ 02.2 surprise_by_autograd: not written yet.")
    assert "Traceback" not in shown and "File" not in shown and 'hint("02.2")' in shown
    assert all(cell.execution_count is None for cell in checks[2:])
    assert (tmp_path / "progress.json").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nbgrader_takes_the_solutions_as_they_are_and_grades_with_their_checks(
    tmp_path, monkeypatch
):
    pytest.importorskip("nbgrader", reason="nbgrader is not installed (it is in the extra `test`)")
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    for solution in solutions(ROOT):
        folder = tmp_path / "source" / solution.stem
        folder.mkdir(parents=True)
        shutil.copy(solution.with_suffix(".ipynb"), folder)
    monkeypatch.setenv("MINITITANS_PROGRESS", "off")
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    monkeypatch.setenv("PATH", commands)  # it looks for alembic
    course = NbGraderAPI(config=Config({"CourseDirectory": {"root": str(tmp_path)}}))
    for solution in solutions(ROOT):
        assert_done(course.generate_assignment(solution.stem))
        released = nbformat.read(
            tmp_path / "release" / solution.stem / f"{solution.stem}.ipynb", as_version=4
        )
        assert not any(BEGIN in cell.source for cell in released.cells)
        stubs = [c for c in released.cells if "raise NotImplementedError()" in c.source]
        assert len(stubs) == len(holes(solution))

    name = "04_forgetting"
    for student, kind in (("anna", "source"), ("bert", "release")):
        folder = tmp_path / "submitted" / student / name
        folder.mkdir(parents=True)
        shutil.copy(tmp_path / kind / name / f"{name}.ipynb", folder)
        assert_done(course.autograde(name, student))
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        scores = {
            s.student.id: (s.score, s.max_score) for s in gradebook.assignment_submissions(name)
        }
    assert scores == {"anna": (5.0, 5.0), "bert": (0.0, 5.0)}


def assert_done(found: dict) -> None:
    """What nbgrader answers to a command: whether it succeeded, and what it logged."""
    assert found["success"], found.get("error") or found["log"][-3000:]
