"""How a class is doing, and which mistakes it made: one figure from the rows of the table."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minititans.course.checking.words import KINDS
from minititans.course.grading.grade import BROKEN, ENDED_EARLY, NOT_HANDED_IN, UNREADABLE, Row
from minititans.course.labs import find_task
from minititans.files import write_whole
from minititans.palette import GREEN, ORANGE, PALE, SKY
from minititans.viz.style import house_style

RIGHT, KNOWN, OTHER, NOTHING = "right", "a known mistake", "other trouble", "nothing to judge"
COLOURS = {RIGHT: GREEN, KNOWN: ORANGE, OTHER: SKY, NOTHING: PALE}
ABSENT = (
    NOT_HANDED_IN, UNREADABLE, ENDED_EARLY, BROKEN, KINDS["not written"], KINDS["not a function"],
)  # fmt: skip
FEWEST = 12  # lines that always fit on the right, however few tasks are on the left


def write(rows: Sequence[Row], path: Path) -> None:
    with write_whole(path) as temporary:
        draw(rows).savefig(temporary, format="png", dpi=150)


def draw(rows: Sequence[Row]) -> Figure:
    """A bar for each task on the left, and one for each mistake on the right, most frequent first.

    Labs that nobody handed in are not shown.
    """
    handed_in = {row.lab for row in rows if row.diagnosis != NOT_HANDED_IN}
    rows = [row for row in rows if row.lab in handed_in]
    tasks = sorted({(row.task, row.title) for row in rows})
    wrong = [row for row in rows if group(row) in (KNOWN, OTHER)]
    counts = Counter((row.task, row.diagnosis, group(row)) for row in wrong)
    mistakes = sorted(counts.items(), key=lambda item: (-item[1], item[0][2], item[0]))
    lines = max(len(tasks), min(len(mistakes), FEWEST))
    with house_style():
        figure = Figure(figsize=(16, 2.2 + 0.36 * lines), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_tasks(left, rows, tasks)
        draw_mistakes(right, mistakes[:lines], len(mistakes))
        for axes, room in ((left, max(len(tasks), lines // 2)), (right, lines)):
            axes.set_ylim(room - 0.4, -0.6)  # the first on top, and no bar too fat
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel("students")
            axes.tick_params(left=False)
    return figure


def group(row: Row) -> str:
    if row.right:
        return RIGHT
    if row.diagnosis in ABSENT:
        return NOTHING
    known = {mistake.name for mistake in find_task(row.task).mistakes}
    return KNOWN if row.diagnosis in known else OTHER


def draw_tasks(axes: Axes, rows: Sequence[Row], tasks: list[tuple[str, str]]) -> None:
    counts = Counter((row.task, group(row)) for row in rows)
    start = [0] * len(tasks)
    for name, colour in COLOURS.items():
        widths = [counts[task, name] for task, _ in tasks]
        bars = axes.barh(range(len(tasks)), widths, left=start, color=colour, label=name)
        axes.bar_label(bars, [width or "" for width in widths], label_type="center", fontsize=11)
        start = [a + b for a, b in zip(start, widths)]
    axes.set_yticks(range(len(tasks)), [f"{task}  {title}" for task, title in tasks])
    students = len({row.student for row in rows})
    axes.set_title(f"Answers by task ({students} students)", loc="left", pad=34)
    axes.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), handlelength=1, columnspacing=1)


def draw_mistakes(axes: Axes, shown: list[tuple[tuple[str, str, str], int]], many: int) -> None:
    colours = [COLOURS[name] for (_, _, name), _ in shown]
    bars = axes.barh(range(len(shown)), [count for _, count in shown], color=colours)
    axes.bar_label(bars, padding=4, fontsize=11)
    axes.set_yticks(range(len(shown)), [f"{task}  {words}" for (task, words, _), _ in shown])
    rest = f", the {len(shown)} most frequent of {many}" if many > len(shown) else ""
    axes.set_title(f"What went wrong{rest}" if shown else "Nothing went wrong", loc="left", pad=34)
