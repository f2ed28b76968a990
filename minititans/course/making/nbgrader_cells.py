"""Cell metadata that tells nbgrader what the student writes and what is graded.

With it, `nbgrader generate_assignment` takes the notebooks in `solutions/` as they are, and
`nbgrader autograde` gives a point for each `check` that does not stop the notebook.
"""

import re

from nbformat import NotebookNode

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
CHECK = re.compile(r'^check\("(\d\d\.\d+)", (\w+)\)$', re.MULTILINE)


def mark_cells(notebook: NotebookNode) -> None:
    """Mark the cells with a hole as the student's, and those with a check as graded."""
    checks = {function: id for c in notebook.cells for id, function in CHECK.findall(c.source)}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if BEGIN in cell.source:
            (id,) = (id for name, id in checks.items() if f"def {name}(" in cell.source)
            cell.metadata["nbgrader"] = _settings("task", id, solution=True, locked=False)
        elif found := CHECK.search(cell.source):
            cell.metadata["nbgrader"] = _settings("check", found[1], solution=False, locked=True)
            cell.metadata["nbgrader"] |= {"grade": True, "points": 1}


def _settings(kind: str, id: str, solution: bool, locked: bool) -> dict:
    return {
        "schema_version": 3,
        "cell_type": "code",
        "grade_id": f"{kind}-{id.replace('.', '-')}",
        "grade": False,
        "solution": solution,
        "locked": locked,
        "task": False,
    }
