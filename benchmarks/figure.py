"""The results as a picture: where each result is between its two targets.

Ratios share a logarithmic axis, on which twice as fast and half as fast are equally far from 1;
megabytes, which may be zero, have a linear axis of their own. Colours are Okabe and Ito's, which
people with any kind of colour vision can tell apart; the verdict is written out as well.
"""

import io
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.measurement import Line
from benchmarks.report import number, target
from minititans.palette import BLUE, INK, ORANGE, RED

COLOURS = {"reaches aim": BLUE, "reaches must": ORANGE, "MISSES": RED}
PALE = "#BBBBBB"


def picture(lines: list[Line], quick: bool) -> bytes:
    """A PNG with one row per measured line."""
    measured = [line for line in lines if line.measured]
    ratios = [line for line in measured if line.of.unit == "×"]
    sizes = [line for line in measured if line.of.unit == "MB"]
    panels = [(rows, unit) for rows, unit in ((ratios, "×"), (sizes, "MB")) if rows]
    heights = [len(rows) for rows, _ in panels] or [1]
    figure = Figure(figsize=(13, 1.9 + 0.95 * sum(heights)), layout="constrained")
    figure.suptitle(
        "Speed and memory of minititans, measured against targets"
        + (" (QUICK: a rehearsal, not the real numbers)" if quick else ""),
        fontsize=20,
        color=COLOURS["MISSES"] if quick else INK,
    )
    if panels:
        grid = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)
        for axes, (rows, unit) in zip(grid[:, 0], panels):
            draw(axes, rows, unit)
        figure.legend(handles=legend(), loc="outside lower center", ncols=5, fontsize=13)
    else:
        figure.text(0.5, 0.4, "nothing could be measured", ha="center", fontsize=16)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def draw(axes: Axes, rows: list[Line], unit: str) -> None:
    """One panel: dots with whiskers, targets as marks, names on the left, values on the right."""
    for y, line in enumerate(rows):
        m, colour = line.measured, COLOURS[line.verdict]
        axes.axhline(y, color=PALE, linewidth=1, zorder=0)
        axes.plot([m.low, m.high], [y, y], color=colour, linewidth=5, solid_capstyle="round")
        axes.plot(line.of.must, y, "|", color=INK, markersize=26, markeredgewidth=3)
        axes.plot(line.of.aim, y, "D", color=INK, markersize=11, fillstyle="none", mew=2, zorder=4)
        axes.plot(m.value, y, "o", color=colour, markersize=15, markeredgecolor="white", zorder=3)
        axes.annotate(
            f"{number(m.value)} {unit}\n{line.verdict}",
            (1.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=14,
            color=INK,
            fontweight="bold",
        )
    axes.set_yticks(range(len(rows)), [label(line) for line in rows], fontsize=13)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=13)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if unit == "×":
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g} ×"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g} {unit}"))


def label(line: Line) -> str:
    title = "\n".join(textwrap.wrap(line.of.title, 46))
    return f"{title}\n(must be {target(line.of, line.of.must)})"


def legend() -> list[Line2D]:
    """What the marks mean."""
    marks = [
        Line2D([], [], marker="|", linestyle="", color=INK, markersize=18, mew=3, label="must"),
        Line2D([], [], marker="D", linestyle="", color=INK, fillstyle="none", mew=2, label="aim"),
    ]
    return marks + [
        Line2D([], [], marker="o", linewidth=5, markersize=12, color=colour, label=verdict)
        for verdict, colour in COLOURS.items()
    ]
