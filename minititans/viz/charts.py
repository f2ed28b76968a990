"""Charts, heat maps and bars on a drawing: the parts that widgets and figures are made of.

Every function puts one part into a `Box` of a `Drawing`. A chart refuses numbers that are not
finite, because a line that silently ends is how a picture lies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties, findfont, get_font

from minititans.palette import BLUE, GREY, INK, PALE, RED, WHITE
from minititans.viz.axis import Axis, limits_of, tick_label
from minititans.viz.drawing import Drawing, Line, Pixels, Rect, Text

SMALL, NORMAL = 13, 15  # font sizes in pixels
ERROR = "squared error / ‖v‖²"  # the label of an axis: 1 is what an answer of zero gets


@dataclass(frozen=True)
class Box:
    """A place on a drawing, in pixels: for a chart the frame without its labels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Series:
    """One line of a chart. x and y: sequences of one length (lists, arrays or tensors)."""

    x: Sequence[float]
    y: Sequence[float]
    label: str = ""
    colour: str = BLUE
    dash: str = ""
    width: float = 2.5
    dots: float = 0.0  # radius; with width=0 only dots are drawn


def chart(
    drawing: Drawing,
    box: Box,
    series: Sequence[Series],
    *,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    marks: Sequence[tuple[float, str, str]] = (),
    xticks: Sequence[float] | None = None,
    legend: bool = True,
) -> None:
    """Lines in a frame with ticks and labels; the legend is above the frame, under the title.

    marks: vertical lines as (x, words, colour). What lies outside the limits is cut off.
    xticks: the places of the ticks on the x axis; round numbers if None.
    """
    xs = [_finite(f"x of {each.label!r}", each.x) for each in series]
    ys = [_finite(f"y of {each.label!r}", each.y) for each in series]
    across = Axis(xlim or limits_of(xs), box.x, box.x + box.width, log_x)
    up = Axis(ylim or limits_of(ys, zero=not log_y), box.y + box.height, box.y, log_y)
    heights = up.ticks(count=6)
    for tick, words in heights:
        drawing.add(Line(((box.x, tick), (box.x + box.width, tick)), PALE, 1))
        drawing.add(Text(box.x - 6, tick + 4, words, SMALL, "end"))
    places = (
        across.ticks(count=8) if xticks is None else [(across(x), tick_label(x)) for x in xticks]
    )
    for tick, words in places:
        drawing.add(Line(((tick, box.y + box.height), (tick, box.y + box.height + 5)), INK, 1))
        drawing.add(Text(tick, box.y + box.height + 19, words, SMALL, "middle"))
    drawing.add(
        Line(((box.x, box.y + box.height), (box.x + box.width, box.y + box.height)), INK, 1)
    )
    for x, words, colour in marks:
        place = across(x)
        drawing.add(Line(((place, box.y), (place, box.y + box.height)), colour, 1.5, "5 4"))
        near_the_end = place > box.x + 0.7 * box.width
        side = (place - 5, "end") if near_the_end else (place + 5, "start")
        drawing.add(Text(side[0], box.y + 13, words, SMALL, side[1], colour))
    frame = (box.x - 2, box.y - 2, box.width + 4, box.height + 4)
    for each, x, y in zip(series, xs, ys):
        points = tuple((across(a), up(b)) for a, b in zip(x, y))
        if each.width:
            drawing.add(Line(points, each.colour, each.width, each.dash, clip=frame))
        if each.dots:
            inside = tuple(point for point in points if _within(point, frame))
            drawing.add(Line(inside, each.colour, 0, dots=each.dots))
    if legend:
        add_legend(drawing, box.x, box.y - 16, series)
    above = 36 if legend and any(each.label for each in series) else 14
    drawing.add(Text(box.x, box.y - above, title, NORMAL, bold=True))
    middle = box.x + box.width / 2
    left = box.x - max([48.0, *(16 + text_width(words) for _, words in heights)])
    drawing.add(Text(middle, box.y + box.height + 40, xlabel, NORMAL, "middle"))
    drawing.add(Text(left, box.y + box.height / 2, ylabel, NORMAL, "middle", upwards=True))


def heatmap(
    drawing: Drawing, box: Box, matrix, *, title: str = "", limit: float | None = None
) -> None:
    """A matrix as colours: blue below zero, white at zero, red above, full at ±limit.

    matrix: `[rows, columns]`; limit: the largest absolute value if None.
    """
    values = np.asarray(matrix, dtype=float)
    _finite(title or "matrix", values.ravel())
    drawing.add(Pixels(box.x, box.y, box.width, box.height, levels(values, limit)))
    drawing.add(Rect(box.x, box.y, box.width, box.height, stroke=GREY))
    drawing.add(Text(box.x, box.y - 8, title, NORMAL, bold=True))


def colour_scale(drawing: Drawing, box: Box, limit: float) -> None:
    """Which number has which colour of a heat map: from −limit, left, over 0 to +limit, right."""
    drawing.add(Pixels(box.x, box.y, box.width, box.height, levels(np.linspace(-1, 1, 101)[None])))
    drawing.add(Rect(box.x, box.y, box.width, box.height, stroke=GREY))
    baseline = box.y + box.height / 2 + 5
    drawing.add(Text(box.x - 6, baseline, f"−{limit:g}", SMALL, "end"))
    drawing.add(Text(box.x + box.width + 6, baseline, f"{limit:g}", SMALL))


def bars(
    drawing: Drawing,
    box: Box,
    values,
    *,
    title: str = "",
    limit: float | None = None,
    colour: str | None = None,
) -> None:
    """A vector as bars up and down from a line through the middle; the whole box is ±limit.

    A bar that would leave the box ends there, with a gap near its end.
    """
    values = _finite(title or "values", values)
    limit = limit or max(1e-12, float(np.abs(values).max()))
    middle, slot = box.y + box.height / 2, box.width / len(values)
    for place, value in enumerate(values):
        height = min(1.0, abs(value) / limit) * box.height / 2
        top = middle - height if value > 0 else middle
        fill = colour or (RED if value > 0 else BLUE)
        x, width = box.x + (place + 0.1) * slot, 0.8 * slot
        drawing.add(Rect(x, top, width, height, fill))
        if abs(value) > limit * (1 + 1e-6):
            gap = box.y + 5 if value > 0 else box.y + box.height - 9
            drawing.add(Rect(x, gap, width, 4, WHITE))
    drawing.add(Line(((box.x, middle), (box.x + box.width, middle)), GREY, 1))
    drawing.add(Rect(box.x, box.y, box.width, box.height, stroke=PALE))
    drawing.add(Text(box.x, box.y - 8, title, NORMAL, bold=True))


def arrow(
    drawing: Drawing,
    points: Sequence[tuple[float, float]],
    colour: str = INK,
    width: float = 2.0,
    dash: str = "",
    head: float = 8.0,
) -> None:
    """A line through the points, with a head of `head` pixels at the last one."""
    (ax, ay), (bx, by) = points[-2:]
    length = math.hypot(bx - ax, by - ay)
    drawing.add(Line(tuple(points), colour, width, dash))
    if length < 1e-9:  # it points nowhere
        return
    head = min(head, length)
    dx, dy = head * (bx - ax) / length, head * (by - ay) / length
    sides = [(bx - dx + side * dy, by - dy - side * dx) for side in (-0.55, 0.55)]
    drawing.add(Line((sides[0], (bx, by), sides[1]), colour, width))


def levels(values: np.ndarray, limit: float | None = None) -> np.ndarray:
    """Numbers to places in the palette: 0 for −limit and below, 127 for zero, 254 for +limit.

    >>> levels(np.array([-9.0, 0.0, 0.5, 1.0]), limit=1.0).tolist()
    [0, 127, 190, 254]
    """
    limit = limit or max(1e-12, float(np.abs(values).max()))
    return np.rint(127 + 127 * np.clip(values / limit, -1, 1)).astype(np.uint8)


def add_legend(drawing: Drawing, x: float, y: float, series: Sequence[Series]) -> None:
    """A row of samples and words, from the left: one for each line that has a label."""
    for each in series:
        if each.label:
            points = ((x, y), (x + 22, y)) if each.width else ((x + 11, y),)
            drawing.add(Line(points, each.colour, each.width, each.dash, each.dots))
            drawing.add(Text(x + 29, y + 5, each.label, SMALL))
            x += 29 + text_width(each.label) + 20


@lru_cache(maxsize=1024)
def text_width(words: str, size: float = SMALL) -> float:
    """How many pixels the words take in the drawings' font."""
    font = get_font(findfont(FontProperties(family="DejaVu Sans")))
    font.set_size(size, 72)
    font.set_text(words)
    return font.get_width_height()[0] / 64


def _within(point: tuple[float, float], frame: tuple[float, float, float, float]) -> bool:
    x, y, width, height = frame
    return x <= point[0] <= x + width and y <= point[1] <= y + height


def _finite(name: str, values) -> np.ndarray:
    array = np.asarray(values, dtype=float).reshape(-1)
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: contains NaN or infinite values, expected finite numbers")
    return array
