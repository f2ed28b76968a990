"""Figures of needles in haystacks: the text itself, who finds what, and what the memory does."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from minititans.experiments import paper
from minititans.experiments.figures import LOOKS, NAMES, OTHERS
from minititans.experiments.needle_fading import DEPTHS, LENGTHS
from minititans.experiments.results import Result, by_variant, summary
from minititans.memory.trace import Trace
from minititans.palette import BLUE, GREEN, INK, ORANGE, PALE, PURPLE, RED, WHITE
from minititans.tasks import IGNORE
from minititans.tasks.needle import ASK, KEYS, MARK, NOISE, VALUES
from minititans.viz.charts import (
    GREY,
    NORMAL,
    SMALL,
    Box,
    Series,
    add_legend,
    chart,
    heatmap,
    text_width,
)  # fmt: skip
from minititans.viz.drawing import Drawing, Rect, Text

NOISE_WORDS = (  # a sentence, and 24 more
    "the grass is green while skies are blue "
    "road hand time moon salt door leaf rain bird lamp song coat wall fish bell ring "
    "sand milk boat hill nest rope tree wind"
)
CITIES = "Oslo Rome Lima Cairo Delhi Paris Quito Accra Bern Minsk Kyiv Seoul Tunis Riga"
SHORT = {"pk": "A passkey", "n": "A number", "w": "A word"}
TRAINED = 256  # tokens in the longest haystack of our training
LOOK = {  # fill and ink of a word: noise, a needle, a question, an answer that counts
    "noise": (WHITE, GREY),
    "needle": (ORANGE, INK),
    "question": ("#CFE3F1", INK),
    "answer": (BLUE, WHITE),
}


def word(token: int) -> str:
    """What a token is called in pictures.

    >>> [word(token) for token in (0, 2, 16, 31, 32, 33)]
    ['note:', 'Oslo', '0', '15', 'the', 'grass']
    """
    if token in KEYS:
        return CITIES.split()[token - KEYS.start]
    if token in VALUES:
        return str(token - VALUES.start)
    if token in NOISE:
        return NOISE_WORDS.split()[token - NOISE.start]
    return {MARK: "note:", ASK: "ask:"}[token]


def draw_haystacks(rows: Mapping[str, tuple[Tensor, Tensor]]) -> Drawing:
    """Short haystacks as text: by title, the tokens and the targets of one row, `[time]` each."""
    drawing, y = Drawing(900, 10), 26.0
    for title, (tokens, targets) in rows.items():
        drawing.add(Text(20, y, title, NORMAL, bold=True))
        y, x, question = y + 12, 20.0, False
        for place, token in enumerate(tokens.tolist()):
            question = question or token == ASK
            kind = "question" if question else "noise" if token in NOISE else "needle"
            if place and targets[place - 1] != IGNORE:
                kind = "answer"
            width = text_width(word(token), NORMAL) + 10
            if x + width > 885:
                x, y = 20.0, y + 29
            fill, ink = LOOK[kind]
            drawing.add(Rect(x, y, width, 25, fill, PALE))
            drawing.add(Text(x + 5, y + 18, word(token), NORMAL, colour=ink))
            x += width + 3
        y += 58
    x = 20.0
    for kind, words in (
        ("noise", "noise"),
        ("needle", "the needle"),
        ("question", "the question"),
        ("answer", "what the model must say"),
    ):
        drawing.add(Rect(x, y - 12, 16, 16, LOOK[kind][0], GREY), Text(x + 23, y + 1, words, SMALL))
        x += 50 + text_width(words)
    drawing.height = y + 16
    return drawing


def draw_found(results: Mapping[str, list[Result]], names: Sequence[str]) -> Drawing:
    """The paper's table 2 beside ours, one row of charts per kind of needle.

    results: by kind; names: of the models to show, as far as they are there. The axis is the length
    in units of the longest text in training, so that the two can be compared.
    """
    drawing = Drawing(900, 64 + 290 * len(results))
    there = {name for found in results.values() for name in by_variant(found)}
    looks = [
        Series([], [], NAMES.get(name, name), *look(name))
        for name in names
        if name in there | paper.TABLE_2["pk"].keys()
    ]
    half = (len(looks) + 1) // 2 if len(looks) > 5 else len(looks)
    add_legend(drawing, 30, 20, looks[:half])
    add_legend(drawing, 30, 42, looks[half:])
    reach = max(x for found in results.values() for each in found for x in lengths(each))
    ticks = [x for x in (0.5, 1, 2, 4, 16, 64, 256, 1024, 4096) if x <= reach]
    for row, (kind, found) in enumerate(results.items()):
        theirs = [
            Series([n / paper.TRAINED for n in paper.LENGTHS], shares, name, *look(name), dots=4)
            for name, shares in paper.TABLE_2[kind].items()
            if name in names
        ]
        groups = {name: runs for name, runs in by_variant(found).items() if name in names}
        ours = [each for name in groups for each in lines_of(name, groups[name])]
        for x, who, series in ((80, "the paper's table 2", theirs), (530, "ours", ours)):
            chart(
                drawing, Box(x, 94 + 290 * row, 350, 180), series, title=f"{SHORT[kind]}: {who}",
                xlim=(0.45, 1.2 * reach), ylim=(0, 104), log_x=True, legend=False, xticks=ticks,
                xlabel="length ÷ longest text in training", ylabel="needles found (%)",
            )  # fmt: skip
    return drawing


def look(name: str) -> tuple[str, str, float]:
    """Colour, dash and width of a model's line."""
    colour, _, line = LOOKS.get(name) or OTHERS[sum(map(ord, name)) % len(OTHERS)]
    return colour, {"-": "", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}[line], 2.5


def lengths(result: Result) -> list[float]:
    """At which a model was read, in units of its longest training text."""
    return [reading.length / TRAINED for reading in result.readings]


def lines_of(name: str, runs: list[Result]) -> list[Series]:
    """A line through the means over seeds, and an error bar at each."""
    rows = [(n / TRAINED, 100 * share, 100 * error) for n, share, error in summary(runs)]
    rows = [row for row in rows if row[0] >= 0.5]  # shorter ones only show that the task is known
    colour, dash, width = look(name)
    x, y, _ = zip(*rows)
    bars = [
        Series([at, at], [max(0, share - error), min(100, share + error)], "", colour, width=1.5)
        for at, share, error in rows
    ]
    return [Series(x, y, NAMES.get(name, name), colour, dash, width, dots=4), *bars]


def draw_inside(trace: Trace, place: int, until: int, title: str) -> Drawing:
    """Surprise, theta and alpha of each head while a memory reads a haystack with one needle.

    trace: of one memory, of which the first row is shown; place: where the needle begins.
    """
    drawing = Drawing(900, 560)
    drawing.add(Text(80, 24, title, NORMAL, bold=True))
    time = torch.arange(until)
    for number, (name, words, options) in enumerate((
        ("surprise", "surprise: how wrong its expectation was", {}),
        ("theta", "θ: the share of the surprise that is written", {}),
        ("alpha", "α: the share of the memory that is forgotten", {"log_y": True}),
    )):  # fmt: skip
        heads = getattr(trace, name)[0, :, :until]  # [heads, time]
        series = [
            Series(time, head.clamp(min=1e-12), f"head {h + 1}", colour, width=1.8)
            for h, (head, colour) in enumerate(zip(heads, (BLUE, ORANGE, GREEN, RED)))
        ]
        chart(
            drawing, Box(80, 78 + 165 * number, 790, 90), series, title=words, **options,
            xlim=(0, until), marks=[(place, "the needle", RED)], legend=number == 0,
            xlabel="token" if number == 2 else "",
        )  # fmt: skip
    return drawing


def draw_losing(
    lives: Mapping[str, Tensor],
    old: Mapping[str, tuple[Tensor, Tensor]],
    new: Mapping[str, tuple[Sequence[int], Tensor]],
) -> Drawing:
    """How an old needle fades, whether a new one is still learned, and how long a write lasts.

    old: by model, tokens since the needle, and how likely its value is; new: tokens before the
    needle, and how likely its value is soon after; lives: the half-life of a write in each head
    """
    drawing = Drawing(900, 372)
    colours = dict(zip(lives, (RED, BLUE, GREEN, PURPLE, ORANGE)))
    samples = [Series([], [], NAMES.get(name, name), colours[name]) for name in lives]
    add_legend(drawing, 50, 20, samples[:3])
    add_legend(drawing, 50, 42, samples[3:])
    for x, title, words, values, ticks in (
        (66, "An old needle", "tokens since the needle", old, (256, 1024, 4096)),
        (370, "A new needle, 256 tokens old", "noise read before it", new, (16, 256, 4096)),
    ):
        series = [Series(*xy, "", colours[name], dots=3) for name, xy in values.items()]
        chart(
            drawing, Box(x, 106, 205, 180), series, title=title, xlabel=words, log_x=True,
            ylim=(0, 1.02), legend=False, ylabel="probability of the value", xticks=ticks,
        )  # fmt: skip
    _half_lives(drawing, Box(690, 106, 195, 180), lives, colours)
    return drawing


def _half_lives(drawing: Drawing, box: Box, lives, colours) -> None:
    """One dot per head; a column for each model."""
    columns = [
        Series([place] * x.numel(), x.flatten().clamp(max=1e9), "", colours[name], width=0, dots=5)
        for place, (name, x) in enumerate(lives.items(), start=1)
    ]
    length = 64 * TRAINED
    line = Series([0, len(lives) + 1], [length, length], "", GREY, "5 4", 1.5)
    chart(
        drawing, box, [line, *columns], title="How long a write lasts", log_y=True, legend=False,
        xlim=(0.3, len(lives) + 0.7), ylim=(10, 2e9), xticks=(), ylabel="half-life in tokens",
    )  # fmt: skip
    middle = box.x + box.width / 2
    drawing.add(Text(middle, box.y + box.height + 22, "one dot per head;", SMALL, "middle"))
    words = f"the dashed line: {length:,} tokens"
    drawing.add(Text(middle, box.y + box.height + 40, words, SMALL, "middle"))


def draw_depths(maps: Mapping[str, Tensor]) -> Drawing:
    """Depth × length heat maps, two in a row: how likely each model gives the right value.

    maps: by name, the probability `[DEPTHS, LENGTHS]`
    """
    drawing = Drawing(900, 210 * ((len(maps) + 1) // 2) + 30)
    for number, (name, right) in enumerate(maps.items()):
        row, column = divmod(number, 2)
        _depth_map(drawing, Box(110 + 430 * column, 40 + 210 * row, 330, 116), name, right)
    words = "Each cell: the mean probability of the right value."
    drawing.add(Text(110, drawing.height - 8, words, SMALL, colour=GREY))
    return drawing


def _depth_map(drawing: Drawing, box: Box, name: str, right: Tensor) -> None:
    heatmap(drawing, box, -right.numpy(), title=NAMES.get(name, name), limit=1.0)
    wide, high = box.width / len(LENGTHS), box.height / len(DEPTHS)
    for row, depth in enumerate(DEPTHS):
        middle = box.y + (row + 0.5) * high + 5
        drawing.add(Text(box.x - 8, middle, f"{100 * depth:.0f} %", SMALL, "end"))
        for column in range(len(LENGTHS)):
            share = float(right[row, column])
            ink = WHITE if share > 0.6 else INK
            x = box.x + (column + 0.5) * wide
            drawing.add(Text(x, middle, f"{share:.2f}", SMALL, "middle", ink))
    for column, length in enumerate(LENGTHS):
        x = box.x + (column + 0.5) * wide
        drawing.add(Text(x, box.y + box.height + 18, f"{length:,}", SMALL, "middle"))
    middle = box.x + box.width / 2
    drawing.add(Text(middle, box.y + box.height + 38, "tokens read", SMALL, "middle"))
    upwards = Text(box.x - 58, box.y + box.height / 2, "depth", SMALL, "middle", upwards=True)
    drawing.add(upwards)
