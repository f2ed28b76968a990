"""Inputs that several labs share: a memory and what it is given, with the gates of the lab."""

from collections.abc import Callable
from typing import Any

from minititans.course.labs.draw import Draw


def pair(draw: Draw) -> dict[str, Any]:
    """A matrix, and one pair to write."""
    d_value, d_key = draw.size("d_value"), draw.size("d_key")
    return {
        "M": draw.normal(d_value, d_key),
        "key": draw.normal(d_key),
        "value": draw.normal(d_value),
    }


def memory_and_pair(*gates: str) -> Callable[[Draw], dict[str, Any]]:
    """A matrix with its momentum, and one pair to write."""

    def inputs(draw: Draw) -> dict[str, Any]:
        d_value, d_key = draw.size("d_value"), draw.size("d_key")
        return {
            "M": draw.normal(d_value, d_key),
            "S": draw.normal(d_value, d_key),
            "key": draw.normal(d_key),
            "value": draw.normal(d_value),
            **{gate: draw.gate() for gate in gates},
        }

    return inputs


def sequences(*gates: str) -> Callable[[Draw], dict[str, Any]]:
    """A matrix with which every row of a batch begins, and the sequences that are read."""

    def inputs(draw: Draw) -> dict[str, Any]:
        batch, time = draw.size("batch"), draw.tokens()
        d_value, d_key = draw.size("d_value"), draw.size("d_key")
        return {
            "M": draw.normal(d_value, d_key),
            "queries": draw.unit(batch, time, d_key),
            "keys": draw.unit(batch, time, d_key),
            "values": draw.normal(batch, time, d_value),
            **{gate: draw.gate(batch, time) for gate in gates},
        }

    return inputs
