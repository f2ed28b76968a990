"""Who finds the needle: the stored results beside table 2 of the paper, as charts and as tables.

Lengths are in units of the longest text in training, so that the two can be compared. A result
that is not there is left out, and so is a kind of needle without results.
"""

from collections.abc import Mapping, Sequence

from IPython.display import Markdown

from minititans.experiments import paper
from minititans.experiments.needle_training import NeedleConfig
from minititans.experiments.results import Result, by_variant, summary
from minititans.palette import GREY
from minititans.tasks.needle import Needle
from minititans.viz.charts import Box, Series, add_legend, chart
from minititans.viz.drawing import Drawing
from minititans.viz.models import LOOKS, NAMES, OTHERS

KINDS = {"pk": "A passkey", "n": "A number", "w": "A word"}
TRAINED = max(NeedleConfig().training_lengths)  # tokens in the longest haystack of our training


def draw_found(results: Mapping[str, list[Result]], names: Sequence[str]) -> Drawing:
    """The paper's table 2 above ours, one column of charts per kind of needle.

    results: by kind; names: of the models to show, as far as they are there
    """
    drawing = Drawing(900, 600)
    there = {name for found in results.values() for name in by_variant(found)}
    shown = [name for name in names if name in there | paper.TABLE_2["pk"].keys()]
    looks = [Series([], [], NAMES.get(name, name), *look(name)) for name in shown]
    looks.append(Series([], [], "guessing", *GUESSING))
    half = (len(looks) + 1) // 2 if len(looks) > 5 else len(looks)
    add_legend(drawing, 30, 20, looks[:half])
    add_legend(drawing, 30, 42, looks[half:])
    reach = max(x for found in results.values() for each in found for x in lengths(each))
    every = (0.5, 1, 2, 4, 16, 64) if reach < 256 else (1, 4, 16, 64, 512, 4096)
    ticks = [x for x in every if x <= reach]
    for column, (kind, found) in enumerate(results.items()):
        theirs = [
            Series([n / paper.TRAINED for n in paper.LENGTHS], shares, name, *look(name), dots=4)
            for name, shares in paper.TABLE_2[kind].items()
            if name in names
        ]
        groups = chosen(found, names)
        ours = [each for name, runs in groups.items() for each in lines_of(name, runs, shown)]
        chance = 100 * Needle(kind).chance
        ours.append(Series([0.45, 1.3 * reach], [chance, chance], "", *GUESSING))
        for y, who, series in ((90, "the paper", theirs), (364, "ours", ours)):
            chart(
                drawing, Box(66 + 288 * column, y, 240, 180), series,
                title=f"{KINDS[kind]}: {who}", xlim=(0.45, 1.3 * reach), ylim=(0, 104),
                log_x=True, legend=False, xticks=ticks,
                xlabel="length ÷ longest text in training" if y > 90 else "",
                ylabel="" if column else "needles found (%)",
            )  # fmt: skip
    return drawing


GUESSING = GREY, "2 4", 1.5  # colour, dash and width


def look(name: str) -> tuple[str, str, float]:
    """Colour, dash and width of a model's line."""
    colour, _, line = LOOKS.get(name) or OTHERS[sum(map(ord, name)) % len(OTHERS)]
    return colour, {"-": "", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}[line], 2.5


def chosen(found: list[Result], names: Sequence[str]) -> dict[str, list[Result]]:
    """The runs of each of these models that has any, in the order of the names."""
    groups = by_variant(found)
    return {name: groups[name] for name in names if name in groups}


def lengths(result: Result) -> list[float]:
    """At which a model was read, in units of its longest training text."""
    return [reading.length / TRAINED for reading in result.readings]


def lines_of(name: str, runs: list[Result], among: Sequence[str] = ()) -> list[Series]:
    """A line through the means over seeds, and an error bar at each.

    Lines that lie on each other at 100 % are moved apart by a hair; among: all that are shown.
    """
    place = among.index(name) / max(1, len(among) - 1) - 0.5 if among else 0.0
    rows = [(n / TRAINED, 100 * share, 100 * error) for n, share, error in summary(runs)]
    rows = [row for row in rows if row[0] >= 0.5]  # shorter ones only show that the task is known
    colour, dash, width = look(name)
    x = tuple(at * 1.2**place for at, _, _ in rows)
    bars = [
        Series([at, at], [max(0, share - error), min(100, share + error)], "", colour, width=1.5)
        for at, (_, share, error) in zip(x, rows)
    ]
    y = tuple(share for _, share, _ in rows)
    return [Series(x, y, NAMES.get(name, name), colour, dash, width, dots=4), *bars]


def found_tables(results: Mapping[str, list[Result]], names: Sequence[str]) -> Markdown:
    """Needles found in percent, one table per kind: the paper's at 4 times, and all of ours.

    An error is one standard error: over the seeds, or over haystacks where there is one seed.
    """
    tables = [_table(kind, found, names) for kind, found in results.items()]
    return Markdown("\n\n".join("\n".join(map(_row, table)) for table in tables))


def _table(kind: str, found: list[Result], names: Sequence[str]) -> list[list[str]]:
    groups = chosen(found, names)
    at = sorted({r.length for runs in groups.values() for each in runs for r in each.readings})
    at = [length for length in at if length >= TRAINED]
    head = [KINDS[kind], "seeds", "paper, 4 ×", *(f"{length / TRAINED:,.0f} ×" for length in at)]
    rows = [head, [":--", *["--:"] * (len(head) - 1)]]
    for name, runs in groups.items():
        ours = {length: f"{100 * p:.0f} ± {100 * e:.0f}" for length, p, e in summary(runs)}
        theirs = paper.TABLE_2[kind].get(name)
        words = [NAMES.get(name, name), str(len(runs)), f"{theirs[-1]:.0f}" if theirs else ""]
        rows.append(words + [ours.get(length, "") for length in at])
    return rows


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
