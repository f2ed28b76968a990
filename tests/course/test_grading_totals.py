"""Each student's total, what tasks are worth, and files that are not graded: none is silent."""

import csv

import pytest

from minititans.cli import main
from minititans.course.grading import figure, totals
from minititans.course.grading.grade import (
    NOT_HANDED_IN,
    Row,
    left_out_rows,
    not_handed_in,
    write_csv,
)
from minititans.course.grading.submissions import LeftOut
from minititans.course.labs import all_labs


def rows_of(student: str, lab: str, *rights: int, diagnosis: str = "") -> list[Row]:
    tasks = all_labs()[lab].tasks
    return [
        Row(student, lab, task.id, task.title, right, diagnosis or "right", "", f"{lab}.ipynb")
        for task, right in zip(tasks, rights, strict=True)
    ]


def a_class() -> list[Row]:
    """Ada has both labs, Bo one that cannot be read; lab 03 nobody."""
    return [
        *rows_of("ada", "01", 1, 1, 0, 1, 0),
        *rows_of("ada", "02", 1, 1, 1, 0, 0, 0),
        *rows_of("bo", "01", 0, 0, 0, 0, 0, diagnosis="cannot be read"),
        *rows_of("bo", "02", 0, 0, 0, 0, 0, 0, diagnosis=NOT_HANDED_IN),
        *rows_of("ada", "03", 0, 0, 0, 0, 0, diagnosis=NOT_HANDED_IN),
        *rows_of("bo", "03", 0, 0, 0, 0, 0, diagnosis=NOT_HANDED_IN),
    ]


LOST = [LeftOut("bo", "bo/Untitled.ipynb", "neither its contents nor its name say")]


def test_totals_are_sums_of_points_and_what_is_missing_is_not_zero(tmp_path):
    points = {"01.2": 3.0, "02.3": 0.5}
    ada, bo = totals.add_up(a_class(), points, LOST)
    assert ada.labs == {"01": 1 + 3 + 1, "02": 1 + 1 + 0.5, "03": None}
    assert bo.labs == {"01": 0, "02": None, "03": None}
    assert (ada.points, bo.points, ada.of, bo.of) == (7.5, 0, 16 + 2 - 0.5, 17.5)
    totals.write_csv([ada, bo], tmp_path / "totals.csv")
    assert (tmp_path / "totals.csv").read_text(encoding="utf-8-sig").splitlines() == [
        "student,lab 01,lab 02,lab 03,total,of,files not graded",
        "ada,5,2.5,,7.5,17.5,",
        "bo,0,,,0,17.5,bo/Untitled.ipynb; 01.ipynb",
    ]
    assert totals.in_columns([ada, bo]).splitlines()[1:] == [
        "ada           5     2.5       -    7.5  17.5",
        "bo            0       -       -      0  17.5  and 2 files not graded",
    ]


@pytest.mark.parametrize("start", ["", "task,points\n", "\ufeff\n"])
def test_a_points_file_says_what_tasks_are_worth(tmp_path, start):
    (tmp_path / "points.csv").write_text(f"{start}02.3,2\n\n 01.1 , 0.5\n")
    assert totals.read_points(tmp_path / "points.csv", ["02.3", "01.1"]) == {"02.3": 2, "01.1": 0.5}


@pytest.mark.parametrize(
    "text, says",
    [
        ("02.3,two", "line 1: expected a task and its points, as in 02.3,2; got 02.3,two"),
        ("02.3,1\n02.3", "line 2: expected a task"),
        ("02.3,-1", "line 1: expected a task"),
        ("02.3,nan", "line 1: expected a task"),
        ("task,points\n2.3,1", "line 2: there is no task 2.3"),
        ("02.3,1\n02.3,2", "line 2: 02.3 is there twice"),
        (None, "No such file"),
    ],
)
def test_a_wrong_points_file_is_refused_with_the_line(tmp_path, capsys, text, says):
    (tmp_path / "in" / "ada").mkdir(parents=True)
    points = tmp_path / "points.csv"
    if text is not None:
        points.write_text(text)
    assert main(["grade", str(tmp_path / "in"), "--points", str(points)]) == 2
    error = capsys.readouterr().err
    assert f"--points: {points}: " in error and says in error


def test_the_figure_leaves_out_labs_that_nobody_handed_in():
    left, _ = figure.draw(a_class()).axes
    shown = {label.get_text()[:2] for label in left.get_yticklabels()}
    assert shown == {"01", "02"}


def test_a_file_that_is_not_graded_has_a_row_and_its_student_is_told(tmp_path):
    write_csv([*a_class(), *left_out_rows(LOST)], tmp_path / "grades.csv")
    with open(tmp_path / "grades.csv", encoding="utf-8-sig", newline="") as file:
        last = [*csv.DictReader(file)][-1]
    assert (last["student"], last["right"], last["diagnosis"]) == ("bo", "", "not graded")
    assert last["file"] == "bo/Untitled.ipynb" and "nor its name" in last["message"]
    rows = not_handed_in([], ["ada", "bo"], ["01"], LOST)
    assert {(row.student, row.message) for row in rows} == {
        ("ada", ""),
        ("bo", "Not graded: bo/Untitled.ipynb"),
    }
