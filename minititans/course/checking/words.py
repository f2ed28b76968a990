"""What differs, in the student's terms: names of results, axes, tokens, cases."""

import textwrap

import numpy as np
import torch
from torch import Tensor

from minititans.course.checking.record import Attempt
from minititans.course.labs.task import Task

TOLERANCE = 1e-9  # of the largest number in an answer; float64 leaves about 1e-15

# Every kind of verdict, with a few words for a table.
KINDS = {
    "passed": "right",
    "not written": "not written yet",
    "not a function": "no function",
    "signature": "other arguments",
    "raised": "raises an error",
    "forbidden": "not as the task asks",
    "too slow": "takes too long",
    "stopped": "interrupted",
    "nothing": "returns nothing",
    "type": "returns something else",
    "shape": "wrong shape",
    "dtype": "wrong precision",
    "not finite": "NaN or infinite",
    "changed inputs": "changes its inputs",
    "values": "wrong numbers",
    "gradients": "wrong gradients",
    "unsteady": "two answers to one question",
}


def wrapped(text: str, width: int = 88) -> str:
    """Break long lines between words, and keep each line's indent.

    >>> print(wrapped("  a line that is too long", width=14))
      a line that
      is too long
    """
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        options = {"break_long_words": False, "break_on_hyphens": False}
        lines += textwrap.wrap(line, width, subsequent_indent=indent, **options) or [""]
    return "\n".join(lines)


def problem_words(task: Task, attempt: Attempt) -> str:
    """Why a call has no answer."""
    if attempt.problem == "forbidden":
        return f"{task.id} asks for the closed form: no autograd here.{attempt.detail}"
    if attempt.problem == "raised":
        return f"It stopped with {attempt.detail}"
    if attempt.problem == "not a function":
        return (
            f"check got {attempt.detail}, not a function. Give it the function itself, without "
            f'calling it: check("{task.id}", {task.function})'
        )
    if attempt.problem == "signature":
        return f"It cannot be called as {task.signature}: {attempt.detail}."
    if attempt.problem == "too slow":
        return (
            "It took too long and was stopped; a right answer takes only a moment. Is there a loop "
            "that never ends?"
        )
    if attempt.problem == "stopped":
        return "It was interrupted before it had answered."
    return attempt.detail or f"Write {task.signature}."  # the hole says what to do


def structure_difference(task: Task, attempt: Attempt, right: Attempt) -> tuple[str, str] | None:
    """What is wrong with the number of results, or with their types, shapes and precision."""
    wanted = ", ".join(task.returns).replace("[]", "[], a tensor without axes")
    if "None" in attempt.odd.values() and not attempt.values:
        return "nothing", f"It returns None. Is the `return` missing? Expected {wanted}."
    if attempt.odd:
        name, kind = next(iter(attempt.odd.items()))
        name = named(task, name)
        cuts = kind == "a float" or "NumPy" in kind
        advice = " .item(), float() and NumPy cut the gradient off." if cuts else ""
        return "type", f"{name} is {kind}, expected {wanted}.{advice}"
    if len(attempt.values) == 1 and len(right.values) == 1 and name_of(attempt) != name_of(right):
        return "type", (
            f"It returns a list or tuple with one thing in it, expected just that: {wanted}. "
            "Is there an extra bracket or comma?"
        )
    if attempt.values.keys() != right.values.keys():
        return "type", _other_results(task, attempt, right)
    for name, expected in right.values.items():
        value = attempt.values[name]
        if isinstance(value, Tensor) != isinstance(expected, Tensor):
            return "type", f"{named(task, name)} is {_type(value)}, expected {_type(expected)}."
        if not isinstance(value, Tensor):
            continue
        if value.shape != expected.shape:
            axes = next((t for t in task.returns if t.split(" ")[0] == name.split("[")[0]), name)
            return "shape", (
                f"{named(task, name)} has shape {list(value.shape)}, expected "
                f"{list(expected.shape)}: {axes}."
            )
        if value.dtype != expected.dtype:
            return "dtype", (
                f"{named(task, name)} is {_plain(value.dtype)}, but the inputs are "
                f"{_plain(expected.dtype)}. "
                "New tensors need a dtype: torch.zeros(..., dtype=M.dtype), M.new_zeros(...), "
                "torch.zeros_like(M)."
            )
    return None


def value_difference(name: str, value: Tensor | int, expected: Tensor | int) -> str:
    """The worst number, its place, and what it should be.

    >>> value_difference("theta", torch.tensor(0.25), torch.tensor(0.5))
    'theta is 0.25, expected 0.5.'
    """
    if not isinstance(value, Tensor):
        return f"{name} is {value}, expected {expected}."
    off = (value - expected).abs().masked_fill(value.isnan() & expected.isnan(), 0)
    worst = off.argmax().item()
    index = [int(i) for i in np.unravel_index(worst, value.shape)]
    place = f"{name}{index}" if index else name
    found, wanted = value[tuple(index)].item(), expected[tuple(index)].item()
    largest = expected.nan_to_num().abs().max().item()
    nothing = TOLERANCE * max(1.0, largest)  # below it all is rounding
    found, wanted = (0.0 if abs(x) < nothing else x for x in (found, wanted))
    if f"{found:.4g}" != f"{wanted:.4g}":
        return f"{place} is {found:.4g}, expected {wanted:.4g}."
    return (
        f"{place} is {found:.12g}, expected {wanted:.12g}: off by {abs(found - wanted):.1g}. A "
        "difference this small usually comes from float32 somewhere, from a rounded constant, or "
        "from a small number that keeps a division from failing."
    )


def gradient_difference(name: str, found: Tensor | None, wanted: Tensor | None) -> str:
    if wanted is None:
        return f"The numbers are right, but the answer should not depend on {name}."
    if found is None:
        return (
            f"The numbers are right, but no gradient flows back to {name}. These cut it off: "
            "torch.no_grad, .detach(), .data, .item(), torch.tensor(...), numpy; "
            "torch.autograd.grad without create_graph=True; and an if or torch.where whose branch "
            f"leaves {name} out."
        )
    if not torch.isfinite(found).all():
        return (
            f"The numbers are right, but the gradient with respect to {name} is NaN or infinite. "
            "torch.where computes both branches: if the one that is not used divides by zero, its "
            "NaN still reaches the gradient."
        )
    difference = value_difference(f"the gradient with respect to {name}", found, wanted)
    return (
        f"The numbers are right, but {difference} Either part of the way back is cut off "
        "(.detach(), .data, .item()), or the formula has a different slope at these inputs, as "
        "with clamp, abs, an if or torch.where."
    )


def name_of(attempt: Attempt) -> str:
    return next(iter(attempt.values))


def named(task: Task, path: str) -> str:
    """What a result is called: `position` for `state[3]` of "state (M, S, M_start, position)"."""
    outer, _, index = path.partition("[")
    text = next((text for text in task.returns if text.startswith(f"{outer} (")), "")
    parts = text.partition("(")[2].rstrip(")").split(", ")
    number = index.rstrip("]")
    return parts[int(number)] if text and number.isdigit() and int(number) < len(parts) else path


def _other_results(task: Task, attempt: Attempt, right: Attempt) -> str:
    """How many results came, and which were expected."""
    wanted = ", ".join(task.returns)
    paths = list(attempt.values)
    if paths == ["your answer"]:
        return f"It returns {_type(attempt.values['your answer'])} alone, expected {wanted}."
    if len(task.names) == 1 or paths[0].startswith("your answer["):
        many = len({path.partition("]")[0] for path in paths})
        results = "1 result" if many == 1 else f"{many} results"
        return f"It returns {results}, expected {len(task.names)}: {wanted}."
    name, text = next(
        (name, text)
        for name, text in zip(task.names, task.returns)
        if _of(name, attempt) != _of(name, right)
    )
    found, expected = len(_of(name, attempt)), len(_of(name, right))
    came = f"has {found} part{'s'[: found > 1]}" if found != expected else "is nested differently"
    return f"{name} {came}, expected {expected}: {text}."


def _of(name: str, attempt: Attempt) -> list[str]:
    """The paths of what is in one result."""
    return [path for path in attempt.values if path.partition("[")[0] == name]


def _type(value: Tensor | int) -> str:
    return "a tensor" if isinstance(value, Tensor) else "a whole number"


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
