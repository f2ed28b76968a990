"""An option declares its type, its range and its help once, for Python and the command line."""

import dataclasses
import operator
from typing import Any


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of `TrainConfig` that is also an option of the command line.

    Its type is that of the default. More may be said about its values: `least`, `most`, `above`,
    `below` for numbers, `choices` for names.
    """
    return dataclasses.field(default=default, metadata={"help": help, **more})


def is_name(text: str) -> bool:
    """Whether a text names one thing in a folder, and cannot lead out of it.

    >>> [is_name(text) for text in ("mine", "", "..", "a/b", "a\\\\b", "/tmp")]
    [True, False, False, False, False, False]
    """
    return text not in ("", ".", "..") and not set(text) & set("/\\\0")


BOUNDS = {
    "least": ("of at least", operator.ge),
    "above": ("greater than", operator.gt),
    "most": ("at most", operator.le),
    "below": ("less than", operator.lt),
}


def check_option(option: dataclasses.Field, value: Any) -> None:
    """Refuse a value of the wrong type or out of range, with the option's name."""
    default, about = option.default, option.metadata
    several = isinstance(default, tuple)
    kind = type(default[0]) if several else type(default)
    bounds = {key: about[key] for key in BOUNDS if key in about}

    def is_right(each: Any) -> bool:
        if kind in (int, float):
            right = isinstance(each, (int, kind)) and not isinstance(each, bool)
            return right and all(BOUNDS[key][1](each, bound) for key, bound in bounds.items())
        if default is None:
            return each is None or isinstance(each, str)
        return isinstance(each, kind) and each in about.get("choices", (each,))

    values = value if several and isinstance(value, tuple) else (value,)
    if not values or not all(map(is_right, values)):
        raise ValueError(f"{option.name}: got {value!r}, expected {wanted(option)}")


def wanted(option: dataclasses.Field) -> str:
    """What an option's values are, in words.

    >>> from minititans.training.config import options
    >>> [wanted(each) for each in options() if each.name in ("lengths", "beta2", "precision")]
    ['whole numbers of at least 2', 'a number of at least 0 and less than 1',
     'one of auto, float32, bfloat16']
    """
    default, about = option.default, option.metadata
    if "choices" in about:
        return f"one of {', '.join(about['choices'])}"
    if isinstance(default, bool):
        return "True or False"
    bounds = " and ".join(f"{BOUNDS[key][0]} {about[key]}" for key in BOUNDS if key in about)
    if isinstance(default, tuple):
        return f"whole numbers {bounds}"
    kinds = {int: "a whole number", float: "a number"}
    return f"{kinds.get(type(default), 'a text')} {bounds}".strip()
