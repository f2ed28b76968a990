"""What differs, in the student's terms: names of results, axes, tokens, cases."""

import textwrap
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from minititans.course.checking.record import Attempt
from minititans.course.labs.task import Draw, Task

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


def structure_difference(task: Task, attempt: Attempt, right: Attempt) -> tuple[str, str] | None:
    """The right number of results, each a tensor of the right shape and precision, or not."""
    wanted = ", ".join(task.returns)
    if "None" in attempt.odd.values() and not attempt.values:
        return "nothing", f"It returns None. Is the `return` missing? Expected {wanted}."
    if attempt.odd:
        name, kind = next(iter(attempt.odd.items()))
        advice = " .item() and float() cut the gradient off." if kind == "a float" else ""
        return "type", f"{name} is {kind}, expected {wanted}.{advice}"
    if attempt.values.keys() != right.values.keys():
        return "type", f"It returns {_listed(attempt.values)}, expected {_listed(right.values)}."
    for name, expected in right.values.items():
        value = attempt.values[name]
        if isinstance(value, Tensor) != isinstance(expected, Tensor):
            return "type", f"{name} is {_type(value)}, expected {_type(expected)}."
        if not isinstance(value, Tensor):
            continue
        if value.shape != expected.shape:
            axes = next((t for t in task.returns if t.split(" ")[0] == name.split("[")[0]), name)
            return "shape", (
                f"{name} has shape {list(value.shape)}, expected {list(expected.shape)}: {axes}."
            )
        if value.dtype != expected.dtype:
            return "dtype", (
                f"{name} is {_plain(value.dtype)}, but the inputs are {_plain(expected.dtype)}. "
                "New tensors need a dtype: torch.zeros(..., dtype=W.dtype), W.new_zeros(...), "
                "torch.zeros_like(W)."
            )
    return None


def value_difference(name: str, value: Tensor | int, expected: Tensor | int) -> str:
    """The worst number, where it stands, and what it should be."""
    if not isinstance(value, Tensor):
        return f"{name} is {value}, expected {expected}."
    if value.dim() == 0:
        return f"{name} is {value.item():.4g}, expected {expected.item():.4g}."
    worst = (value - expected).abs().argmax().item()
    index = [int(i) for i in np.unravel_index(worst, value.shape)]
    found, wanted = value[tuple(index)].item(), expected[tuple(index)].item()
    return f"{name}{index} is {found:.4g}, expected {wanted:.4g}."


def where_it_differs(
    task: Task,
    attempts: list[Attempt],
    expected: list[Attempt],
    wrong: list[int],
    draws: list[Draw],
) -> list[str]:
    """Patterns that hold in all cases: which kind of input, which tokens, one constant factor."""
    found = []
    if len(attempts) == len(expected):  # else nobody knows about the cases after the last
        found += _which_inputs([case in wrong for case in range(len(draws))], draws)

    pairs = [
        (attempts[case].values[name], value, name)
        for case in wrong
        if case < len(attempts) and attempts[case].values.keys() == expected[case].values.keys()
        for name, value in expected[case].values.items()
        if isinstance(value, Tensor) and attempts[case].values[name].shape == value.shape
    ]
    factor = _one_factor([(value, right) for value, right, _ in pairs])
    if factor is not None:
        found.append(f"Every number is {factor:.4g} times what it should be.")
    tokens = [
        t
        for value, right, name in pairs
        if (t := _first_wrong_token(task, name, value, right)) is not None
    ]
    if tokens and min(tokens) > 0:
        found.append(f"The first token is right; it goes wrong from token {min(tokens)} on.")
    return found


def _which_inputs(wrong: list[bool], draws: list[Draw]) -> list[str]:
    """A sentence if what was drawn tells the wrong cases from the right ones, exactly."""
    if all(wrong) or not any(wrong):
        return []

    def are_those(kind: Callable[[Draw], bool]) -> bool:
        return wrong == [kind(draw) for draw in draws]

    if are_those(lambda draw: draw.at_limits):
        return ["It is right as long as no gate is exactly 0 or exactly 1."]
    if are_those(lambda draw: set(draw.sizes) == {1}):
        return ["It is right except where every size is 1."]
    if are_those(lambda draw: len(set(draw.sizes)) > 1):
        return ["It is right where all sizes are equal, and not where they differ."]
    if all(draw.time is not None for draw in draws):
        right_up_to = max(draw.time for draw, is_wrong in zip(draws, wrong) if not is_wrong)
        if right_up_to < min(draw.time for draw, is_wrong in zip(draws, wrong) if is_wrong):
            return [f"It is right up to {right_up_to} token{'s'[: right_up_to > 1]}."]
    return []


def _one_factor(pairs: list[tuple[Tensor, Tensor]]) -> float | None:
    values = torch.cat([value.flatten() for value, _ in pairs]) if pairs else torch.empty(0)
    rights = torch.cat([right.flatten() for _, right in pairs]) if pairs else torch.empty(0)
    if values.numel() < 2 or not rights.any():
        return None
    factor = (values @ rights) / (rights @ rights)
    fits = torch.allclose(values, factor * rights, rtol=1e-9, atol=1e-12)
    return factor.item() if fits and factor.abs() > 1e-9 else None


def _first_wrong_token(task: Task, name: str, value: Tensor, right: Tensor) -> int | None:
    """Along an axis called `time`, the first place where the two differ."""
    text = next((t for t in task.returns if t.split(" ")[0] == name), "")
    axes = [axis.strip() for axis in text.partition("[")[2].rstrip("]").split(",")]
    if axes.count("time") != 1 or len(axes) != right.dim():
        return None
    axis = axes.index("time")
    wrong = ((value - right).abs() > 1e-9).movedim(axis, 0).reshape(right.shape[axis], -1).any(1)
    return int(wrong.nonzero()[0]) if wrong.any() else None


def _listed(values: dict[str, Tensor | int]) -> str:
    """Three results: W, S and position."""
    names = list(values)
    if names == ["your answer"]:
        return f"{_type(values['your answer'])} alone"
    return f"{len(names)} result{'s'[: len(names) > 1]} ({', '.join(names)})"


def _type(value: Tensor | int) -> str:
    return "a tensor" if isinstance(value, Tensor) else "a whole number"


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
