"""Notebooks are written as `.py` files and built into executed `.ipynb` files beside them.

    python -m minititans.course.making.build           run every notebook and store what it printed
    python -m minititans.course.making.build --check   say which stored notebook is out of date

A build leaves nothing in the file that changes from run to run: no times, no random cell ids,
no widget state. Two builds of the same source give the same bytes, so a difference means something.
How long a notebook ran is kept beside it in `times.json`, and what it claims in `docs/claims.md`.

Two tags fold part of a cell; the reader opens it with a click:

    # %% tags=["hide-source"]   folds the code: for a claim whose condition takes more than a line
    # %% tags=["predict"]       folds the output until the cell is run: for a picture that the text
                                before it asks the reader to predict
"""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

from minititans.course.making import claim_list
from minititans.course.making.nbgrader_cells import mark_cells

FOLDERS = ("notebooks", "solutions")
TIMEOUT = 120  # seconds a cell may take
BUDGET = 60  # seconds a notebook of the course may take
HIDE, PREDICT = "hide-source", "predict"  # tags of cells
FOLDS = {HIDE: "source_hidden", PREDICT: "outputs_hidden"}  # JupyterLab's names for what they fold
WIDGET = "application/vnd.jupyter.widget-view+json"


def sources(root: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (root / folder).glob("[0-9]*.py"))


def read_source(source: Path) -> nbformat.NotebookNode:
    """The notebook that a `.py` file describes, not run yet."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook.metadata |= {"language_info": {"name": "python"}}
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if folded := {FOLDS[tag]: True for tag in tags if tag in FOLDS}:
            cell.metadata["jupyter"] = folded
        cell.id = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:8]
    if source.parent.name == "solutions":
        mark_cells(notebook)
    return notebook


def build(source: Path) -> None:
    """Run a notebook in its own folder and write it, whole or not at all."""
    notebook, seconds = run(source)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        join_streams(cell)
        for output in cell.get("outputs", []):
            # Without a kernel, a widget is only an error message; its picture says more.
            if "image/png" in output.get("data", {}):
                output.data.pop(WIDGET, None)
    temporary = source.with_suffix(".ipynb.tmp")
    nbformat.write(notebook, temporary)
    os.replace(temporary, source.with_suffix(".ipynb"))
    if source.parent.name != "solutions":  # only the course states its times
        remember_time(source, seconds)


def join_streams(cell: nbformat.NotebookNode) -> None:
    """Join what a cell printed into one output: a busy machine sends it in pieces."""
    joined = []
    for output in cell.get("outputs", []):
        if joined and output.get("name") and output.get("name") == joined[-1].get("name"):
            joined[-1].text += output.text
        else:
            joined.append(output)
    if "outputs" in cell:
        cell.outputs = joined


def run(source: Path) -> tuple[nbformat.NotebookNode, float]:
    """Run a notebook in a new kernel: the executed notebook, and the seconds it took."""
    notebook = read_source(source)
    resources = {"metadata": {"path": source.parent}}
    client = NotebookClient(
        notebook, timeout=TIMEOUT, startup_timeout=TIMEOUT, kernel_name="python3",
        resources=resources, record_timing=False,
    )  # fmt: skip
    wall, work = time.perf_counter(), kernel_work()
    client.execute()
    wall, work = time.perf_counter() - wall, kernel_work() - work
    # On a machine that is busy with other things a kernel mostly waits, and its processor time is
    # nearer to the truth. (Windows does not report that of finished processes.)
    return notebook, min(wall, work) if work else wall


def kernel_work() -> float:
    """The processor time, in seconds, of finished child processes, among them kernels."""
    spent = os.times()
    return spent.children_user + spent.children_system


def remember_time(source: Path, seconds: float) -> None:
    """Store how long this code ran, unless about the same time is stored already."""
    kept = times(source.parent)
    code = code_hash(source)
    old = kept.get(source.stem, {"code": "", "seconds": 0.0})
    if old["code"] == code and old["seconds"] / 1.5 < seconds < old["seconds"] * 1.5:
        return
    kept[source.stem] = {"code": code, "seconds": round(seconds, 1)}
    text = json.dumps(dict(sorted(kept.items())), indent=1) + "\n"
    (source.parent / "times.json").write_text(text, encoding="utf-8")


def times(folder: Path) -> dict[str, dict]:
    """For each notebook, the seconds it took when it was built, and the hash of its code."""
    path = folder / "times.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def code_hash(source: Path) -> str:
    """Changes when a code cell changes; text may be edited without a new measurement."""
    cells = [cell.source for cell in read_source(source).cells if cell.cell_type == "code"]
    return hashlib.sha256("\n\n".join(cells).encode()).hexdigest()[:16]


def problems(source: Path) -> list[str]:
    """What is wrong with the stored notebook: empty when it matches its source."""
    stored_path = source.with_suffix(".ipynb")
    if not stored_path.exists():
        return [f"{stored_path.name} has not been built"]
    stored, wanted = nbformat.read(stored_path, as_version=4), read_source(source)
    kept = ("cell_type", "source", "id", "metadata")
    if any([c[key] for c in stored.cells] != [c[key] for c in wanted.cells] for key in kept):
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
        prog="python -m minititans.course.making.build", description="Build the course's notebooks."
    )
    parser.add_argument("only", nargs="*", help="build only what contains this: 02, notebooks/02")
    parser.add_argument("--check", action="store_true", help="build nothing; say what is stale")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository's folder")
    options = parser.parse_args(arguments)
    chosen = [
        source
        for source in sources(options.root)
        if not options.only
        or any(word in f"{source.parent.name}/{source.name}" for word in options.only)
    ]
    if not chosen:
        print(f"No notebook in {options.root} matches. Run this in the repository's folder.")
        return 1
    if options.check:
        found = [problem for source in chosen for problem in problems(source)]
        print("\n".join(found) or "All notebooks match their sources.")
        return 1 if found else 0
    for source in (bar := tqdm(chosen, unit="notebook", file=sys.stdout)):
        bar.set_postfix_str(source.name)
        build(source)
    claim_list.write(options.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
