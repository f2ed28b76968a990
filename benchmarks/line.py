"""One line of the table: run its measurement, or learn why it cannot run here."""

import time
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
