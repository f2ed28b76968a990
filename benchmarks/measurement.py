"""What a measurement is, and what comes out of it: one line of the table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Progress = Callable[[Iterable], Iterable]  # wraps the outer loop: a bar, or nothing in a test


@dataclass(frozen=True)
class Measured:
    """A number, how much it varied, and what it was made of."""

    value: float
    low: float  # a tenth of the repetitions lies below
    high: float  # a tenth lies above
    details: dict[str, Any] = field(default_factory=dict)  # goes into the JSON as it is


@dataclass(frozen=True)
class Measurement:
    """A function that measures, with a name to call it by and a target to compare it with.

    measure: called with `quick` (a rehearsal: fewer repetitions, shorter sequences) and
             `progress`; raises `Unavailable` where this machine cannot do it
    """

    name: str
    title: str
    must: float
    aim: float
    measure: Callable[[bool, Progress], Measured]
    unit: Literal["×", "MB"] = "×"
    better: Literal["more", "less"] = "more"

    def verdict(self, value: float) -> str:
        """How a value compares with the targets."""
        if self._reaches(value, self.aim):
            return "reaches aim"
        return "reaches must" if self._reaches(value, self.must) else "MISSES"

    def _reaches(self, value: float, target: float) -> bool:
        return value >= target if self.better == "more" else value <= target


@dataclass(frozen=True)
class Line:
    """A measurement and its outcome: a number, or why there is none."""

    of: Measurement
    measured: Measured | None
    why_not: str = ""
    seconds: float = 0.0  # how long measuring took

    @property
    def verdict(self) -> str:
        return self.of.verdict(self.measured.value) if self.measured else "not measured"


class Unavailable(Exception):
    """This machine cannot measure this; the message says what is missing and how to get it."""
