"""Notebooks are written as `.py` files and built into executed `.ipynb` files beside them.

    python -m minititans.course.build           run every notebook and store what it printed
    python -m minititans.course.build --check   say which stored notebook is out of step

A build leaves nothing in the file that changes from run to run: no times, no random cell ids,
no widget state. Two builds of the same source give the same bytes: a difference means something.
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

FOLDERS = ("notebooks",)
TIMEOUT = 120  # seconds a cell may take


def sources(root: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (root / folder).glob("[0-9]*.py"))


def read_source(source: Path) -> nbformat.NotebookNode:
    """The notebook that a `.py` file describes, not run yet."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook.metadata |= {"language_info": {"name": "python"}}
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {}
        cell.id = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:8]
    return notebook


def build(source: Path) -> None:
    """Run a notebook in its own folder and write it, whole or not at all."""
    notebook = read_source(source)
    resources = {"metadata": {"path": source.parent}}
    client = NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources=resources, record_timing=False
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    temporary = source.with_suffix(".ipynb.tmp")
    nbformat.write(notebook, temporary)
    os.replace(temporary, source.with_suffix(".ipynb"))


def problems(source: Path) -> list[str]:
    """What is wrong with the stored notebook: empty when it is in step with its source."""
    stored_path = source.with_suffix(".ipynb")
    if not stored_path.exists():
        return [f"{stored_path.name} has not been built"]
    stored, wanted = nbformat.read(stored_path, as_version=4), read_source(source)
    cells = [(cell.cell_type, cell.source, cell.id) for cell in stored.cells]
    if cells != [(cell.cell_type, cell.source, cell.id) for cell in wanted.cells]:
        return [f"{stored_path.name} differs from {source.name}"]
    found = []
    for number, cell in enumerate(stored.cells):
        if cell.cell_type == "code" and cell.source.strip():
            if cell.execution_count is None:
                found.append(f"{stored_path.name}: cell {number} was not run")
            if any(output.output_type == "error" for output in cell.outputs):
                found.append(f"{stored_path.name}: cell {number} holds an error")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m minititans.course.build", description="Build the course's notebooks."
    )
    parser.add_argument("only", nargs="*", help="build only notebooks whose name contains this")
    parser.add_argument("--check", action="store_true", help="build nothing, say what is stale")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository's folder")
    options = parser.parse_args(arguments)
    chosen = [
        source
        for source in sources(options.root)
        if not options.only or any(word in source.name for word in options.only)
    ]
    if not chosen:
        print(f"No notebook in {options.root} matches. Run this in the repository's folder.")
        return 1
    if options.check:
        found = [problem for source in chosen for problem in problems(source)]
        print("\n".join(found) or "All notebooks are in step with their sources.")
        return 1 if found else 0
    for source in (bar := tqdm(chosen, unit="notebook", file=sys.stdout)):
        bar.set_postfix_str(source.name)
        build(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
