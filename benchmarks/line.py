"""One line of the table: run its measurement, or learn why it cannot run here."""

import time
from dataclasses import replace
from functools import partial

from tqdm import tqdm

from benchmarks.measurement import Line, Measurement, Unavailable


def line_of(measurement: Measurement, quick: bool) -> Line:
    """Measure, with a bar while it lasts."""
    bar = partial(tqdm, desc=measurement.name, leave=False, disable=None)  # only in a terminal
    start = time.perf_counter()
    try:
        measured, why_not = measurement.measure(quick, bar), ""
    except Unavailable as why:
        measured, why_not = None, str(why)
    return Line(measurement, measured, why_not, time.perf_counter() - start)


def the_median(runs: list[Line]) -> Line:
    """The run with the median value; of an even number, the lower one of the two in the middle.

    Its details list the values of all of them.
    """
    measured = sorted((run for run in runs if run.measured), key=lambda run: run.measured.value)
    if len(runs) == 1 or not measured:
        return runs[0]
    middle = measured[(len(measured) - 1) // 2]
    details = middle.measured.details | {"runs": [run.measured.value for run in measured]}
    seconds = sum(run.seconds for run in runs)
    return replace(middle, measured=replace(middle.measured, details=details), seconds=seconds)
