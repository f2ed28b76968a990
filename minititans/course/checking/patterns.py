"""Patterns in what went wrong: on which kind of input, from which token on, by which factor."""

from collections.abc import Callable

import torch
from torch import Tensor

from minititans.course.checking.record import Attempt
from minititans.course.labs.corners import in_words
from minititans.course.labs.draw import SMALL, Draw
from minititans.course.labs.task import Task


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
        for case in range(min(len(attempts), len(expected)))
        if attempts[case].values.keys() == expected[case].values.keys()
        for name, value in expected[case].values.items()
        if isinstance(value, Tensor) and attempts[case].values[name].shape == value.shape
    ]
    factor = _one_factor([(value, right) for value, right, _ in pairs])
    if factor is not None and abs(factor + 1) < 1e-9:
        found.append("Every number has the wrong sign.")
    elif factor is not None and abs(factor - 1) > 1e-3:
        found.append(f"Every number is {factor:.4g} times what it should be.")
    tokens = [
        t
        for value, right, name in pairs
        if (t := _first_wrong_token(task, name, value, right)) is not None
    ]
    if tokens and min(tokens) > 0:
        found.append(f"The first token is right; it goes wrong from token {min(tokens)} on.")
    corners = [draws[case].corner for case in wrong if case < len(draws) and draws[case].corner]
    if not found and corners and SMALL not in wrong:
        found.append(f"It goes wrong where {in_words(corners[0])}.")
    return found


def _which_inputs(wrong: list[bool], draws: list[Draw]) -> list[str]:
    """A sentence, if the sizes and gates exactly separate the wrong cases from the right ones."""
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
    values, rights = values.double(), rights.double()  # an answer may be whole numbers
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
