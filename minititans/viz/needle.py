"""Figures of needles in haystacks: the text itself, and what the memory does with it."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from minititans.experiments.needle_fading import DEPTHS, LENGTHS
from minititans.memory.trace import Trace
from minititans.palette import BLUE, GREEN, GREY, INK, ORANGE, PALE, PALE_BLUE, PURPLE, RED, WHITE
from minititans.tasks import IGNORE
from minititans.tasks.needle import ASK, KEYS, MARK, NOISE, VALUES
from minititans.viz.charts import NORMAL, SMALL, Box, Series, add_legend, chart, heatmap, text_width
from minititans.viz.drawing import Drawing, Rect, Text
from minititans.viz.models import NAMES
from minititans.viz.needle_found import TRAINED

NOISE_WORDS = (  # a sentence, and 24 more
    "the grass is green while skies are blue "
    "road hand time moon salt door leaf rain bird lamp song coat wall fish bell ring "
    "sand milk boat hill nest rope tree wind"
)
CITIES = "Oslo Rome Lima Cairo Delhi Paris Quito Accra Bern Minsk Kyiv Seoul Tunis Riga"
LOOK = {  # fill and ink of a word: noise, a needle, a question, an answer that counts
    "noise": (WHITE, GREY),
    "needle": (ORANGE, INK),
    "question": (PALE_BLUE, INK),
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


def draw_inside(trace: Trace, tokens: Tensor, place: int, title: str) -> Drawing:
    """Surprise, theta and alpha of each head while a memory reads a haystack with one needle.

    trace: of one memory, of which the first row is shown; tokens: what it read, `[time]`; place:
    where the needle begins. On the left is all that was read, on the right the needle, word by word
    """
    time = len(tokens)
    first, last = max(0, place - 6), min(time, place + 10)
    drawing = Drawing(900, 600)
    drawing.add(Text(80, 22, title, NORMAL, bold=True))
    for number, (name, words, log_y) in enumerate((
        ("surprise", "surprise: how wrong its expectation was", False),
        ("theta", "θ: the share of the surprise that is written", False),
        ("alpha", "α: the share of the memory that is forgotten", True),
    )):  # fmt: skip
        heads = getattr(trace, name)[0].clamp(min=1e-12)  # [heads, time]
        ylim = (heads.min() / 2, 2 * heads.max()) if log_y else (0.0, 1.1 * heads.max())
        top = number == 0
        for box, span, dots, label in (
            (Box(80, 98 + 163 * number, 440, 94), (0, time), 0, words),
            (Box(590, 98 + 163 * number, 290, 94), (first, last), 3, ""),
        ):
            part = torch.arange(*span)
            series = [
                Series(part, head[part], f"head {h + 1}", colour, width=1.8, dots=dots)
                for h, (head, colour) in enumerate(zip(heads, (BLUE, ORANGE, GREEN, RED)))
            ]
            mark = (place, "the needle" if top and not dots else "", RED)
            chart(
                drawing, box, series, title=label, log_y=log_y, ylim=tuple(map(float, ylim)),
                xlim=(span[0], span[1] - 1), marks=[mark], legend=top and not dots,
                xlabel="token" if number == 2 and not dots else "", xticks=() if dots else None,
            )  # fmt: skip
    drawing.add(Text(590, 64, "The same, word by word", NORMAL, bold=True))
    for at in range(first, last):
        x = 590 + 290 * (at - first) / (last - 1 - first)
        noise = int(tokens[at]) in NOISE
        name = Text(x + 4, 530, word(int(tokens[at])), SMALL, "end", GREY if noise else INK,
                    bold=not noise, upwards=True)  # fmt: skip
        drawing.add(name)
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
    # Each line thinner than those below it: where several coincide, all of them can be seen.
    widths = {name: 1.7 + 1.3 * above for above, name in enumerate(reversed(list(lives)))}
    samples = [Series([], [], NAMES.get(name, name), colours[name], width=3) for name in lives]
    add_legend(drawing, 50, 20, samples[:3])
    add_legend(drawing, 50, 42, samples[3:])
    for x, title, words, values, ticks in (
        (66, "An old needle", "tokens since the needle", old, (512, 2048, 8192)),
        (370, "A new needle, 256 tokens old", "noise read before it", new, (16, 256, 4096)),
    ):
        series = [Series(*xy, "", colours[name], width=widths[name]) for name, xy in values.items()]
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
    """Depth × length heat maps, three in a row: how likely each model gives the right value.

    maps: by name, the probability `[DEPTHS, LENGTHS]`
    """
    drawing = Drawing(900, 210 * ((len(maps) + 2) // 3) + 20)
    for number, (name, right) in enumerate(maps.items()):
        row, column = divmod(number, 3)
        _depth_map(drawing, Box(68 + 286 * column, 40 + 210 * row, 250, 116), name, right)
    words = "Each cell: the mean probability of the right value."
    drawing.add(Text(68, drawing.height - 8, words, SMALL, colour=GREY))
    return drawing


def _depth_map(drawing: Drawing, box: Box, name: str, right: Tensor) -> None:
    heatmap(drawing, box, -right.numpy(), title=NAMES.get(name, name), limit=1.0)
    wide, high = box.width / len(LENGTHS), box.height / len(DEPTHS)
    leftmost = box.x < 100
    for row, depth in enumerate(DEPTHS):
        middle = box.y + (row + 0.5) * high + 5
        if leftmost:
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
    if leftmost:
        upwards = Text(box.x - 52, box.y + box.height / 2, "depth", SMALL, "middle", upwards=True)
        drawing.add(upwards)
