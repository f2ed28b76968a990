"""An option of a run: its type, its range, its words and its help, declared once."""

import dataclasses
from typing import Any

from minititans.arguments import Argument


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of `TrainConfig` that is also an option of the command line.

    Its type is that of the default. Its values may be restricted by `least`, `most`, `above` and
    `below` for numbers, and `choices` for names, as in `Argument`.
    """
    return dataclasses.field(default=default, metadata={"help": help, **more})


def check_option(option: dataclasses.Field, value: Any) -> None:
    """Refuse a value of the wrong type or out of range, with the option's name.

    >>> from minititans.training.config import TrainConfig
    >>> TrainConfig(beta2=1.0)
    Traceback (most recent call last):
    ValueError: beta2: got 1.0, expected a finite number of at least 0 and below 1
    """
    default = option.default
    about = {key: x for key, x in option.metadata.items() if key != "help"}
    if isinstance(default, tuple):
        argument = Argument(type(default[0]), **about)
        if not isinstance(value, tuple) or not value or not all(map(argument.fits, value)):
            raise ValueError(
                f"{option.name}: got {value!r}, expected several numbers, each {argument.expected}"
            )
    elif default is None:
        Argument(str, none="none", **about).check(option.name, value)
    else:
        Argument(type(default), **about).check(option.name, value)


def is_name(text: str) -> bool:
    """Whether a text names one thing in a folder and cannot lead out of it.

    >>> [is_name(text) for text in ("mine", "", "..", "a/b", "a\\\\b", "/tmp")]
    [True, False, False, False, False, False]
    """
    return text not in ("", ".", "..") and not set(text) & set("/\\\0")
