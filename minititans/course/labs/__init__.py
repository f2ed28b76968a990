"""The labs: every `labNN.py` in this folder, so that a new lab is a new file and nothing else."""

import difflib
import pkgutil
from functools import cache
from importlib import import_module

from minititans.course.labs.draw import Draw
from minititans.course.labs.task import Lab, Mistake, Task

__all__ = ["Draw", "Lab", "Mistake", "Task", "all_labs", "find_task"]


@cache
def all_labs() -> dict[str, Lab]:
    """Every lab by its number, "01" to the last.

    >>> all_labs()["02"].title
    'Surprise is a gradient'
    """
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("lab"))
    labs = [import_module(f"{__name__}.{name}").LAB for name in names]
    return {lab.number: lab for lab in labs}


def find_task(id: str) -> Task:
    """The task with this number.

    >>> find_task("02.3").function
    'surprise'
    """
    tasks = {task.id: task for lab in all_labs().values() for task in lab.tasks}
    if id in tasks:
        return tasks[id]
    near = difflib.get_close_matches(str(id), tasks, n=3, cutoff=0.3)
    raise ValueError(
        f"id: there is no task {id!r}; "
        + (f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(tasks)}")
    )
