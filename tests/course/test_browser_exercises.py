"""A student in JupyterLab: run an exercise, type an answer, be told what is wrong, see the tick."""

import json
import shutil
from pathlib import Path

import pytest

from minititans.course.making.browser import (
    KERNEL,
    START_TIME,
    browser,
    jupyterlab,
    missing,
    open_notebook,
    run_all,
)

ROOT = Path(__file__).resolve().parents[2]
ARTEFACTS = ROOT / "test-artefacts"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"no tests in a browser: {missing()}"),
]


def type_in_place_of(page, old: str, new: str) -> None:
    """Select the line of a cell that begins with `old`, and type over it, key by key."""
    page.locator(".cm-line", has_text=old).first.click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.type(new)


def run_hole_and_check(page) -> None:
    """Shift+Enter runs the cell that was typed in, and again the check below it."""
    for _ in range(2):
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(300)
    page.wait_for_function(f"{KERNEL} === 'idle'", timeout=1000 * START_TIME)


def outputs(page) -> list[str]:
    return page.locator(".jp-OutputArea-output").all_inner_texts()


def wait_for_output(page, words: str) -> None:
    page.locator(".jp-OutputArea-output", has_text=words).first.wait_for(timeout=1000 * START_TIME)


def test_a_student_solves_a_task_by_typing(tmp_path):
    course = tmp_path / "course"
    shutil.copytree(ROOT / "exercises", course / "exercises")
    ARTEFACTS.mkdir(exist_ok=True)
    with jupyterlab(course, tmp_path / "settings") as lab, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1200, "height": 1000})
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        open_notebook(page, lab, "exercises/01_matrix_memory.ipynb")

        # All cells: it runs up to the first task that is not solved, and stops there in words.
        run_all(page)
        wait_for_output(page, "○ 01.1 hebbian_write: not written yet.")
        (only,) = outputs(page)
        assert "01.1: Return the memory after one more pair." in only
        assert "Traceback" not in only and "Error" not in only
        assert not (course / "progress.json").exists()

        # A typical mistake is recognised.
        type_in_place_of(page, "raise NotImplementedError", "return M + torch.outer(key, value)")
        run_hole_and_check(page)
        wait_for_output(page, "✗ 01.1 hebbian_write: not right yet.")
        (only,) = outputs(page)
        assert "Rows and columns are swapped." in only
        assert "Traceback" not in only
        page.screenshot(path=ARTEFACTS / "exercise-mistake.png")

        # The right answer gets its tick, and the progress is shown and kept.
        type_in_place_of(page, "return M + torch.outer", "return M + torch.outer(value, key)")
        run_hole_and_check(page)
        wait_for_output(page, "✓ 01.1 hebbian_write: right.")
        (only,) = outputs(page)
        assert "lab 01  ■□□□□  1 of 5, next: 01.2 Read" in only
        page.screenshot(path=ARTEFACTS / "exercise-solved.png")
        assert json.loads((course / "progress.json").read_text())["passed"] == ["01.1"]

        # All cells again: the picture of what was built, then the next task.
        run_all(page)
        wait_for_output(page, "○ 01.2 read: not written yet.")
        assert page.locator(".jp-OutputArea-output img").count() == 1
        assert complaints == []
        page.close()
