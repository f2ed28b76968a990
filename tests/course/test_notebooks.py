"""Stored notebooks are what their sources give, have the house's form, and keep to their time."""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from test_docs import LINK, names_in

from minititans.course.claims import OURS
from minititans.course.making import claim_list
from minititans.course.making.build import (
    BUDGET,
    HIDE,
    PREDICT,
    build,
    code_hash,
    join_streams,
    problems,
    read_source,
    remember_time,
    sources,
    times,
)

ROOT = Path(__file__).resolve().parents[2]
COURSE = [source for source in sources(ROOT) if source.parent.name == "notebooks"]
CLAIMS = ("claim", "does_not_reproduce")
OPENING = ("**Question:** ", "**You will build:** ", "**Time:** ", "**You need:** ")
CLOSING = ("**What to take away**", "**Exercise:** ", "**In the paper:** ")

each_notebook = pytest.mark.parametrize("source", COURSE, ids=lambda path: path.stem)
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
    assert stored == {path.stem for path in COURSE}
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


@pytest.mark.parametrize("tag, part", [(HIDE, "source_hidden"), (PREDICT, "outputs_hidden")])
def test_a_tagged_cell_is_built_folded_and_a_changed_tag_is_noticed(tag, part, tmp_path):
    source = tmp_path / "00_test.py"
    source.write_text(SOURCE.replace("# %%\n", f'# %% tags=["{tag}"]\n'))
    build(source)
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    assert stored.cells[1].metadata == {"jupyter": {part: True}, "tags": [tag]}
    assert stored.cells[1].outputs[0].text == "42\n" and problems(source) == []
    source.write_text(SOURCE)
    assert problems(source) == ["00_test.ipynb differs from 00_test.py"]


def test_a_widget_leaves_its_picture_and_nothing_that_needs_a_kernel(tmp_path):
    source = tmp_path / "00_test.py"
    source.write_text(
        "# %%\nfrom minititans.viz.explorer import explorer, slider\n"
        "explorer(lambda x: f'x is {x}', x=slider(1, 0, 3))\n"
    )
    build(source)
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    assert set(stored.cells[0].outputs[0].data) == {"text/plain", "image/png"}
    assert stored.cells[0].outputs[0].data["text/plain"] == "Explorer(x)"
    assert "widgets" not in stored.metadata


@pytest.mark.parametrize("source", sources(ROOT), ids=lambda path: path.stem)
def test_a_stored_notebook_holds_no_warning(source):
    cells = nbformat.read(source.with_suffix(".ipynb"), as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [o.text for o in outputs if o.get("name") == "stderr"] == []


# The form: how a notebook opens and closes, and that its links lead somewhere.


def in_order(text: str, starts: tuple[str, ...]) -> bool:
    """Each of the words begins a line, and in this order."""
    found = [line[: len(start)] for line in text.splitlines() for start in starts
             if line.startswith(start)]  # fmt: skip
    return tuple(found) == starts


@each_notebook
def test_a_notebook_opens_with_its_question_and_closes_with_what_to_take_away(source):
    cells = read_source(source).cells
    assert cells[0].cell_type == cells[-1].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    assert in_order(cells[0].source, OPENING), f"{source.name}: the first cell lacks {OPENING}"
    assert in_order(cells[-1].source, CLOSING), f"{source.name}: the last cell lacks {CLOSING}"


@each_notebook
def test_cells_are_small(source):
    """About a dozen lines of code: anything longer belongs in the library, or in two cells."""
    cells = read_source(source).cells
    lines = [len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code"]
    assert max(lines) <= 25 and sorted(lines)[len(lines) // 2] <= 14, lines


def links_in(source: Path):
    for cell in read_source(source).cells:
        if cell.cell_type == "markdown":
            text = cell.source.replace("\n", " ")  # a link may be wrapped
            yield from ((words, to) for _, words, to in LINK.findall(text) if "://" not in to)


@each_notebook
def test_links_in_a_notebook_lead_somewhere(source):
    for words, target in links_in(source):
        path = (source.parent / target.split("#")[0]).resolve()
        if path.parent == ROOT / "exercises" and not path.parent.exists():
            continue
        assert path.exists(), f"{source.name} links to {target}, which does not exist"
        if path.suffix == ".py" and not words.endswith(".py"):
            assert words in names_in(path), f"{source.name}: {target} has no {words}"


@each_notebook
def test_a_notebook_leads_to_its_exercise_and_to_the_library(source):
    targets = [target for _, target in links_in(source)]
    assert any(target.startswith("../exercises/") for target in targets)
    assert any(target.startswith("../minititans/") for target in targets)


# Claims: a notebook's findings are claims, and the page that lists them is up to date.


@each_notebook
def test_what_a_notebook_found_are_claims(source):
    stated = claim_list.claims(nbformat.read(source.with_suffix(".ipynb"), as_version=4))
    assert len([each for each in stated if each.holds]) >= (2 if source.stem[:2] == "00" else 3)
    assert len({each.sentence for each in stated}) == len(stated), "a claim is there twice"
    blank = [each.sentence for each in stated if not each.belongs_to]
    assert blank == [], "these do not say what of the paper they belong to, or that they are ours"
    assert any(each.belongs_to != OURS for each in stated), "no claim belongs to the paper"


def test_what_was_printed_in_pieces_is_stored_in_one():
    def stream(name, text):
        return nbformat.v4.new_output("stream", name=name, text=text)

    picture = nbformat.v4.new_output("display_data", {"image/png": ""})
    cell = nbformat.v4.new_code_cell(
        outputs=[stream("stdout", "a"), stream("stdout", "b"), picture, stream("stdout", "c")]
    )
    join_streams(cell)
    assert cell.outputs == [stream("stdout", "ab"), picture, stream("stdout", "c")]
    join_streams(nbformat.v4.new_markdown_cell("words"))


@each_notebook
def test_a_notebook_shows_its_place_in_the_loop(source):
    assert any("draw_loop" in cell.source for cell in read_source(source).cells)


@each_notebook
def test_a_notebook_asks_twice_before_it_shows(source):
    """Between the question and its folded picture there is nothing."""
    cells = read_source(source).cells
    asked = [n for n, cell in enumerate(cells) if "**Predict first" in cell.source]
    folded = [n for n, cell in enumerate(cells) if PREDICT in cell.metadata.get("tags", [])]
    assert len(asked) >= 2 and [n + 1 for n in asked] == folded


@each_notebook
def test_a_claim_reads_in_one_line(source):
    """Its condition is a name or a short expression; what is longer is folded or in the library."""
    cells = [cell for cell in read_source(source).cells if cell.cell_type == "code"]
    for cell in cells:
        if HIDE in cell.metadata.get("tags", []):
            continue
        for call in ast.walk(ast.parse(cell.source)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in CLAIMS:
                words = ast.unparse(call.args[0])
                condition = call.args[1]
                assert condition.lineno == condition.end_lineno, f"{source.name}: {words}"


def test_the_page_of_claims_is_what_the_notebooks_claim():
    stored = (ROOT / claim_list.PAGE).read_text(encoding="utf-8")
    assert stored == claim_list.page(ROOT), (
        "run `make notebooks`, or -m minititans.course.making.claim_list"
    )


# Time: stated up front, measured by the builder, within the budget.


@each_notebook
def test_a_notebook_states_the_time_that_was_measured(source):
    measured = times(source.parent)[source.stem]
    assert measured["code"] == code_hash(source), f"{source.name} was changed: `make notebooks`"
    assert measured["seconds"] <= BUDGET
    stated = int(
        re.search(r"^\*\*Time:\*\* .*?(\d+) s\b", read_source(source).cells[0].source, re.M)[1]
    )
    assert measured["seconds"] / 3 <= stated <= max(5, 3 * measured["seconds"])
    assert stated <= BUDGET


def test_a_time_is_kept_until_the_code_or_the_time_changes(tmp_path):
    source = tmp_path / "00_test.py"
    source.write_text(SOURCE)
    remember_time(source, 10.0)
    remember_time(source, 12.0)
    assert times(tmp_path)["00_test"]["seconds"] == 10.0
    source.write_text(SOURCE.replace("A title", "Another"))
    remember_time(source, 12.0)
    assert times(tmp_path)["00_test"]["seconds"] == 10.0
    remember_time(source, 20.0)
    assert times(tmp_path)["00_test"]["seconds"] == 20.0
    source.write_text(SOURCE.replace("6", "5"))
    remember_time(source, 21.0)
    kept = json.loads((tmp_path / "times.json").read_text())["00_test"]
    assert kept == {"code": code_hash(source), "seconds": 21.0}
