"""`docs/claims.md`: every claim of the stored notebooks, and what does not reproduce.

python -m minititans.course.making.claim_list    write the page again, as `make notebooks` does
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat

from minititans.course.claims import ABSENT, HOLDS

PAGE = Path("docs/claims.md")
OPENING = """# What the course claims

Each line below was printed by a notebook because its condition held in the run that is stored; a
notebook whose claim is false stops. Where chance plays a part, a claim holds over several seeds
unless it says otherwise. Beside each claim is the place in the paper that it is about; the paper
need not say the same. "Ours" means that the paper has nothing of the kind. `make notebooks` makes
this page from the stored notebooks.
"""
LINE = re.compile(r"(?P<sentence>.*?)(?: \[(?P<belongs_to>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Claim:
    sentence: str
    belongs_to: str
    holds: bool = True  # False: what the paper says and a run of this size does not show
    because: str = ""


def claims(notebook: nbformat.NotebookNode) -> list[Claim]:
    """What a stored notebook printed with `claim` and `does_not_reproduce`, in order."""
    found: list[Claim] = []
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        for line in "".join(output.get("text", "") for output in outputs).splitlines():
            for mark, holds in ((HOLDS, True), (ABSENT, False)):
                if line.startswith(mark):
                    words = LINE.fullmatch(line.removeprefix(mark))
                    found.append(Claim(words["sentence"], words["belongs_to"] or "", holds))
            if line.startswith("  because ") and found:
                last = found.pop()
                reason = line.removeprefix("  because ")
                found.append(Claim(last.sentence, last.belongs_to, last.holds, reason))
    return found


def page(root: Path) -> str:
    """The whole of `docs/claims.md`, from the notebooks under `root`."""
    parts, absent = [OPENING], []
    for path in sorted((root / "notebooks").glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        link = f"[{path.stem[:2]} {title(notebook)}](../notebooks/{path.name})"
        stated = claims(notebook)
        rows = [row(each.sentence, each.belongs_to) for each in stated if each.holds]
        if rows:
            header = "| claim | belongs to |\n| --- | --- |"
            parts.append("\n".join([f"## {link}\n", header, *rows, ""]))
        for each in stated:
            if not each.holds:
                absent.append(row(each.sentence, each.belongs_to, link, each.because))
    parts.append("## What does not reproduce at this size\n")
    if absent:
        header = "| the paper says | where | looked for in | what we find |"
        parts.append("\n".join([header, "| --- | --- | --- | --- |", *absent, ""]))
    else:
        parts.append("Nothing that the notebooks so far have looked for.\n")
    return "\n".join(parts)


def row(*cells: str) -> str:
    """A line of a table; a bar in a sentence, as in |x|, must not end its cell."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def title(notebook: nbformat.NotebookNode) -> str:
    """The heading of the first cell.

    >>> from nbformat.v4 import new_markdown_cell, new_notebook
    >>> title(new_notebook(cells=[new_markdown_cell("# Start here\\n\\nWords.")]))
    'Start here'
    """
    return notebook.cells[0].source.splitlines()[0].lstrip("# ").strip()


def write(root: Path) -> None:
    (root / PAGE).parent.mkdir(exist_ok=True)
    (root / PAGE).write_text(page(root), encoding="utf-8")


if __name__ == "__main__":
    write(Path.cwd())
    sys.exit(0)
