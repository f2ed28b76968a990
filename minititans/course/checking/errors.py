"""A student's values and errors in words: their types, their messages, their own lines."""

import linecache
import sysconfig
import traceback
from pathlib import Path
from typing import Any

import minititans
from minititans.course.labs.task import Task


def kind_of(value: Any) -> str:
    """A value's type in words: "None", "a float", "a NumPy array"."""
    if value is None:
        return "None"
    if type(value) is complex:
        return "a complex number"
    name = type(value).__name__
    if type(value).__module__ == "numpy":
        return "a NumPy array" if name == "ndarray" else "a NumPy number"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def is_a_hole(task: Task, error: BaseException) -> bool:
    """Ours name their task and nbgrader's have no text; those that torch raises do not count."""
    words = str(error) if type(error) is NotImplementedError else "no hole"
    return words == "" or words.startswith(f"{task.id}:")


def error_words(error: BaseException) -> str:
    """An exception in one short paragraph."""
    try:
        text = "" if error.args == (None,) else str(error)
    except Exception:
        text = ""
    name = type(error).__name__
    text = " ".join(text.split()).partition(" Hint: enable anomaly detection")[0]
    return f"{name}: {text[:300]}" if text else name


# Part of an error's text, and what it means here.
WRITTEN_IN_PLACE = (
    "Autograd still needs the numbers that were overwritten. Instead of changing a tensor (+=, "
    "-=, [...] = , a method that ends in _), even your own copy, make a new one: M = M - ..., and "
    "for many results a list and torch.stack."
)
NOT_ASKED_FOR = (
    "torch.autograd.grad needs a tensor that was marked before the loss was made from it: "
    "M = M.clone().requires_grad_(), unless M.requires_grad already. With create_graph=True the "
    "result can be differentiated again. torch.func.grad(loss)(M, ...) needs none of this."
)
EXPLANATIONS = {
    "modified by an inplace operation": WRITTEN_IN_PLACE,
    "is being used in an in-place operation": WRITTEN_IN_PLACE,
    "does not require grad": NOT_ASKED_FOR,
    "appears to not have been used in the graph": (
        "The loss was not made from the tensor that you differentiate with respect to. Mark the "
        "tensor first, then make the loss from that very tensor."
    ),
    "backward through the graph a second time": (
        "The first derivative freed its graph: use torch.autograd.grad(..., create_graph=True)."
    ),
    "only for scalar outputs": "A gradient belongs to one number: is the .sum() missing?",
    "call numpy() on Tensor that requires grad": (
        "NumPy cuts the gradient off. Stay with torch: it has the same functions."
    ),
    "to have the same dtype": (
        "The inputs are float64. New tensors need a dtype: torch.zeros(..., dtype=M.dtype), "
        "M.new_zeros(...), torch.zeros_like(M)."
    ),
}
ENDS_THE_NOTEBOOK = (
    "exit(), quit(), sys.exit() and os._exit() would end the whole notebook. Use return to leave "
    "a function."
)


def explained(error: BaseException) -> str:
    """What torch's bare text means for a student, on a line of its own; often nothing."""
    if isinstance(error, SystemExit):
        return f"\n{ENDS_THE_NOTEBOOK}"
    words = error_words(error)
    return next((f"\n{says}" for part, says in EXPLANATIONS.items() if part in words), "")


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
