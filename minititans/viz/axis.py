"""From numbers to pixels: the limits of an axis, its ticks, and what is written at them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Axis:
    """From numbers to pixels."""

    limits: tuple[float, float]
    first: float  # the pixel of the lower limit
    last: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = map(self._scale, self.limits)
        share = (self._scale(value) - low) / (high - low)
        far = 100.0  # frames away: what lies beyond is not shown, and must not overflow
        return self.first + min(far, max(-far, share)) * (self.last - self.first)

    def _scale(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, count: int) -> list[tuple[float, str]]:
        """Pixel and words of each tick: round numbers, powers of two or of ten."""
        low, high = self.limits
        if self.log:
            values = [value for value in _powers(low, high, count) if low <= value <= high]
        else:
            step = round_up((high - low) / count)
            first = math.ceil(low / step - 1e-9)
            values = [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
        return [(self(value), tick_label(value)) for value in values]


def _powers(low: float, high: float, count: int) -> list[float]:
    """Powers of two where there are few of them, else of ten, else of a power of ten."""
    if high / low <= 2**count:
        return [2.0**i for i in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**i for i in range(first, last + 1, max(1, (last - first) // count))]


def round_up(number: float, digits: Sequence[float] = (1, 2, 5)) -> float:
    """The next of these digits times a power of ten.

    >>> round_up(0.3), round_up(2.0), round_up(709), round_up(709, (1, 3))
    (0.5, 2.0, 1000.0, 1000.0)
    """
    power = 10.0 ** math.floor(math.log10(number))
    return next(m * power for m in (*digits, 10) if m * power >= number * (1 - 1e-9))


def tick_label(value: float) -> str:
    if value == 0 or abs(value) < 1e-12:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:,.6g}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")


def limits_of(parts: list[np.ndarray], zero: bool = False) -> tuple[float, float]:
    """From the smallest to the largest number, with zero in it if wanted; never empty."""
    values = np.concatenate(parts) if parts else np.zeros(1)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if zero:
        low, high = min(0.0, low), max(0.0, high) * 1.05
    return (low, high) if high > low else (low, low + max(1.0, abs(low)))
