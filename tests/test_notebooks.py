"""Stored notebooks are what their sources give."""

from pathlib import Path

import pytest

from minititans.course.build import build, problems, sources

ROOT = Path(__file__).resolve().parent.parent
SOURCE = """# %% [markdown]
# A title

# %%
print(6 * 7)
"""


@pytest.mark.parametrize("source", sources(ROOT), ids=lambda path: path.stem)
def test_a_stored_notebook_is_in_step_and_was_run(source):
    assert problems(source) == []


def test_every_notebook_has_a_source():
    stored = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert stored == {path.stem for path in sources(ROOT)}
    assert stored, "there are no notebooks"


def test_building_twice_gives_the_same_bytes_and_an_edit_is_noticed(tmp_path):
    (tmp_path / "notebooks").mkdir()
    source = tmp_path / "notebooks" / "00_test.py"
    source.write_text(SOURCE)
    assert problems(source) == ["00_test.ipynb has not been built"]
    build(source)
    first = source.with_suffix(".ipynb").read_bytes()
    assert b"42" in first and problems(source) == []
    build(source)
    assert source.with_suffix(".ipynb").read_bytes() == first
    source.write_text(SOURCE.replace("6", "5"))
    assert problems(source) == ["00_test.ipynb differs from 00_test.py"]


def test_a_cell_that_was_not_run_is_noticed(tmp_path):
    source = tmp_path / "00_test.py"
    source.write_text(SOURCE)
    build(source)
    stored = source.with_suffix(".ipynb")
    stored.write_text(stored.read_text().replace('"execution_count": 1', '"execution_count": null'))
    assert problems(source) == ["00_test.ipynb: cell 1 was not run"]
