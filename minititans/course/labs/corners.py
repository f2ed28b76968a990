"""Inputs that bring wrong answers to light, and that no check leaves to chance.

Every task gets these automatically: each axis of size 1 alone, each gate exactly 0 and exactly 1,
for all tokens and for one in the middle, each other tensor all zeros, the same key again and again.
A task adds corners of its own where it has more, as `corners=({"eta": 1.0, "time": 6}, …)`.
"""

from typing import Any

from torch import Tensor

from minititans.course.labs.draw import GATES, Corner, Draw


def usual_corners(draw: Draw, arguments: dict[str, Any], never_zero: tuple[str, ...]) -> list:
    """The corners that follow from a case's sizes and arguments; draw: the one that made them."""
    found: list[Corner] = [{name: low} for name, low in draw.lowest.items() if name]
    for name, value in arguments.items():
        if name in GATES:
            found += [{name: 0.0}, {name: 1.0}]
            if value.dim():
                found += [
                    {name: is_0_at_one_token, "time": 5},
                    {name: is_1_at_one_token, "time": 5},
                ]
        elif not isinstance(value, int) and name not in never_zero:
            found.append({name: 0.0})
    if "keys" in arguments:
        found.append({"keys": are_the_same_at_every_token})
    return found


def is_0_at_one_token(gate: Tensor) -> Tensor:
    gate = gate.clone()
    gate[..., gate.shape[-1] // 2] = 0.0
    return gate


def is_1_at_one_token(gate: Tensor) -> Tensor:
    gate = gate.clone()
    gate[..., gate.shape[-1] // 2] = 1.0
    return gate


def are_the_same_at_every_token(x: Tensor) -> Tensor:
    return x[..., :1, :].expand_as(x).clone()


def in_words(corner: Corner) -> str:
    """
    >>> in_words({"eta": 1.0, "time": 6}), in_words({"keys": are_the_same_at_every_token})
    ('eta is 1 and time is 6', 'keys are the same at every token')
    """
    words = [
        f"{name} {value.__name__.replace('_', ' ')}" if callable(value) else f"{name} is {value:g}"
        for name, value in corner.items()
    ]
    return " and ".join(words)
