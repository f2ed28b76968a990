"""Timing that survives a busy machine: both sides take turns, and medians are compared."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks.measurement import Measured, Progress
from minititans.experiments.timing import in_turns


@dataclass(frozen=True)
class Side:
    """One of the things compared: what to run, and how often in a round, see `in_turns`."""

    run: Callable[[], object]
    calls: int = 1


def interleaved(
    sides: dict[str, Side],
    rounds: int,
    progress: Progress = iter,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per call, for each side one number per round. The first calls are not counted."""
    runs = {name: side.run for name, side in sides.items()}
    calls = {name: side.calls for name, side in sides.items()}
    return in_turns(runs, progress(range(rounds)), clock, calls)


def ratio(above: Sequence[float], below: Sequence[float], **details) -> Measured:
    """The median of the ratios of all rounds, and how much they vary.

    Dividing within a round, before the median, cancels whatever slowed that round down.

    >>> ratio([2.0, 40.0, 6.0], [1.0, 10.0, 2.0]).value  # the ratios are 2, 4 and 3
    3.0
    """
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    low, high = spread(ratios)
    return Measured(statistics.median(ratios), low, high, details)


def spread(numbers: Sequence[float]) -> tuple[float, float]:
    """The bounds of the middle 80 %."""
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    tenths = statistics.quantiles(numbers, n=10, method="inclusive")
    return tenths[0], tenths[-1]


@dataclass(frozen=True)
class Summary:
    """What the JSON keeps instead of many numbers."""

    count: int
    median: float
    low: float
    high: float
    minimum: float
    maximum: float


def summary(numbers: Iterable[float]) -> dict[str, float]:
    """Count, median, the bounds of the middle 80 %, and the extremes.

    >>> summary([1.0, 2.0, 4.0])["median"]
    2.0
    """
    numbers = sorted(numbers)
    middle = statistics.median(numbers)
    return asdict(Summary(len(numbers), middle, *spread(numbers), numbers[0], numbers[-1]))
