"""A student's values and errors in words: their types, their messages, their own lines."""

import linecache
import sysconfig
import traceback
from pathlib import Path
from typing import Any

import minititans
from minititans.course.labs.task import Task


def kind_of(value: Any) -> str:
    """A value's type in words: "None", "a float", "an ndarray"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def is_a_hole(task: Task, error: BaseException) -> bool:
    """Ours say which task they belong to, nbgrader's say nothing; torch raises others."""
    words = str(error) if type(error) is NotImplementedError else "no hole"
    return words == "" or words.startswith(f"{task.id}:")


def error_words(error: BaseException) -> str:
    """An exception in one short paragraph."""
    try:
        text = str(error)
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {' '.join(text.split())[:300]}" if text else name


OURS = (
    str(Path(minititans.__file__).parent),
    *(sysconfig.get_path(place) for place in ("stdlib", "purelib", "platlib")),
)


def where(error: BaseException) -> str:
    """The last line of the student's own code that the error went through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(OURS)
    ]
    if not frames:
        return ""
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return f"\n  in line {frames[-1].lineno} of the cell: {line}" if line else ""
