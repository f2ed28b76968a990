"""What the documents point at exists."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from minititans.course.making.build import read_source

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[(`?)([^\]]*?)\1\]\(([^)\s]+)\)")


def links():
    for page in PAGES:
        for _, text, target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target:
                yield pytest.param(page, text, target, id=f"{page.name}: {text}")


def names_in(path: Path) -> set[str]:
    """Functions and classes of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("page, text, target", list(links()))
def test_a_link_leads_somewhere(page, text, target):
    path = (page.parent / target.split("#")[0]).resolve()
    assert path.exists(), f"{page.name} links to {target}, which does not exist"
    if path.suffix == ".py" and not text.endswith(".py"):
        assert text in names_in(path), f"{target} has no {text}"


def test_every_equation_has_a_row():
    rows = re.findall(r"^\| \((\d+)\) \|", (ROOT / "docs/equations.md").read_text(), re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 36))


def cited(source: Path) -> set[int]:
    """The equations that a notebook names in its words, its comments and beside its claims."""
    words = []
    for cell in read_source(source).cells:
        if cell.cell_type == "markdown":  # a number in a formula or in code is not a reference
            words.append(re.sub(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`", "", cell.source, flags=re.DOTALL))
            continue
        for token in tokenize.generate_tokens(io.StringIO(cell.source).readline):
            if token.type == tokenize.COMMENT or re.match(r'"equations? \(', token.string):
                words.append(token.string)
    text = " ".join(" ".join(words).split())  # a reference may be wrapped
    found = re.finditer(r"(?<![\w)\]])\((\d{1,2})\)(?: to \((\d{1,2})\))?", text)
    return {n for each in found for n in range(int(each[1]), int(each[2] or each[1]) + 1)}


def test_the_equations_list_the_notebooks_that_name_them():
    sources = sorted((ROOT / "notebooks").glob("[0-9]*.py"))
    page = (ROOT / "docs/equations.md").read_text(encoding="utf-8")
    named = {source.stem: cited(source) for source in sources}
    assert all(named.values()), "a notebook names no equation"
    for line in page.splitlines():
        if row := re.match(r"\| \((\d+)\) \|", line):
            listed = re.findall(r"\(\.\./notebooks/(\w+)\.ipynb\)", line.split("|")[-2])
            assert listed == [stem for stem in named if int(row[1]) in named[stem]], line[:60]


def test_every_row_of_the_choices_has_a_test():
    lines = (ROOT / "docs/choices.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][2:]
    assert len(rows) >= 10
    for row in rows:
        assert "](../tests/" in row.rsplit("|", 2)[1], f"no test beside: {row[:60]}"
