"""Who sees whom, and through what: the tables of every variant side by side."""

from torch import Tensor

from minititans.experiments.views import ATTENTION, MEMORY, NOT, PERSISTENT, views
from minititans.palette import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE_BLUE,
    PALE_GREEN,
    PALE_ORANGE,
    PAPER,
    WHITE,
)  # fmt: skip
from minititans.viz.charts import NORMAL, SMALL, Box, text_width
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.explorer import Explorer, explorer, player, slider

CHANNELS = {  # full colour, pale colour, words
    ATTENTION: (BLUE, PALE_BLUE, "attention"),
    MEMORY: (ORANGE, PALE_ORANGE, "the memory"),
    PERSISTENT: (GREEN, PALE_GREEN, "attention to persistent tokens"),
}
TITLES = {
    "transformer": "Transformer",
    "swa": "sliding window",
    "mac": "MAC: memory as context",
    "mag": "MAG: memory as a gate",
    "mal": "MAL: memory as a layer",
    "lmm": "LMM: memory alone",
}


def draw_views(token: int, window: int, persistent: int, time: int = 24) -> Drawing:
    """Six tables, in each the row of one token, counted from 1, in full colour."""
    drawing = Drawing(900, 505)
    drawing.add(Text(20, 24, f"What token {token} sees, and through what", NORMAL, bold=True))
    x = 390.0
    for full, _, words in CHANNELS.values():
        drawing.add(Rect(x, 13, 13, 13, full), Text(x + 19, 24, words, SMALL))
        x += 19 + text_width(words) + 22
    for number, (variant, title) in enumerate(TITLES.items()):
        box = Box(20 + 300 * (number % 3), 68 + 232 * (number // 3), 260, 168)
        _table(drawing, box, views(variant, time, window, persistent), token - 1, title)
    return drawing


def _table(drawing: Drawing, box: Box, seen: Tensor, row: int, title: str) -> None:
    time, columns = seen.shape
    width, height = box.width / (time + 6), box.height / time  # room for six persistent tokens
    left = box.x + box.width - columns * width
    drawing.add(Text(box.x, box.y - 10, title, NORMAL, bold=True))
    p = columns - time
    drawing.add(Rect(left + p * width, box.y, time * width, box.height, fill=PAPER))
    for i, line in enumerate(seen.tolist()):
        for first, last, channel in _runs(line):
            full, pale, _ = CHANNELS[channel]
            place = left + first * width, box.y + i * height
            size = (last - first) * width, height
            drawing.add(Rect(*place, *size, full if i == row else pale))
    if p:
        edge = left + p * width
        drawing.add(Line(((edge, box.y), (edge, box.y + box.height)), WHITE, 2.5))
    top = box.y + row * height
    drawing.add(Rect(left, top, columns * width, height, stroke=INK))
    line = seen[row].tolist()
    names = {ATTENTION: "attention", MEMORY: "memory", PERSISTENT: "persistent"}
    words = [f"{name} {line.count(each)}" for each, name in names.items() if each in line]
    drawing.add(Text(box.x, box.y + box.height + 19, ", ".join(words), SMALL, colour=GREY))


def _runs(line: list[int]) -> list[tuple[int, int, int]]:
    """Stretches of one number as (first, after the last, number); zeros are left out.

    >>> _runs([0, 2, 2, 1])
    [(1, 3, 2), (3, 4, 1)]
    """
    starts = [i for i in range(len(line)) if i == 0 or line[i] != line[i - 1]]
    ends = [*starts[1:], len(line)]
    return [(a, b, line[a]) for a, b in zip(starts, ends) if line[a] != NOT]


def view_explorer() -> Explorer:
    """Pick a token, and see whom it sees in every variant."""
    return explorer(
        draw_views,
        token=player(16, 1, 24, "token", interval=500),
        window=slider(6, 1, 24, 1, "window, or segment of MAC"),
        persistent=slider(3, 0, 6, 1, "persistent tokens"),
    )
