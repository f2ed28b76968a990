"""The one picture of the course: what happens when a memory reads a token, with a part lit.

    token → keys, values, queries → prediction → error → surprise u → S → M → reading

Two loops meet in it. The inner loop runs while the memory reads: it changes M and S with every
token. The outer loop is training: it changes the projections, the gates and where M starts, and
nothing else. Every notebook shows the picture with the part lit that it is about.
"""

from dataclasses import dataclass

from minititans.palette import (
    BLUE,
    DARK_ORANGE,
    DIM,
    EDGE,
    INK,
    LIGHT_BLUE,
    LIGHT_ORANGE,
    MIST,
    ORANGE,
    WHITE,
)  # fmt: skip
from minititans.viz.charts import Box, arrow, text_width
from minititans.viz.drawing import Drawing, Line, Rect, Text

WIDTH, HEIGHT, GAP = 90, 54, 20  # of a box, and between two of them
LEFT, MIDDLE, BELOW = 18, 72, 164  # the first column; the tops of the two rows


@dataclass(frozen=True)
class Kind:
    """How a box looks when it is lit, and when it is not."""

    lit: str
    pale: str
    edge: str
    ink: str = INK


COMPUTED = Kind(MIST, WHITE, INK)
READING = Kind(BLUE, LIGHT_BLUE, BLUE, WHITE)  # changes while reading
TRAINING = Kind(ORANGE, LIGHT_ORANGE, DARK_ORANGE)  # learned in training

# name: column, row, title, formula, kind
BOXES = {
    "token": (0, MIDDLE, "token", "x", COMPUTED),
    "projections": (1, MIDDLE, "projections", "k, v, q", TRAINING),
    "prediction": (2, MIDDLE, "prediction", "M(k)", COMPUTED),
    "error": (3, MIDDLE, "error", "v − M(k)", COMPUTED),
    "surprise": (4, MIDDLE, "surprise", "u", COMPUTED),
    "momentum": (5, MIDDLE, "momentum", "S", READING),
    "memory": (6, MIDDLE, "memory", "M", READING),
    "reading": (7, MIDDLE, "reading", "y = M(q)", COMPUTED),
    "gates": (1, BELOW, "gates", "θ, η, α", TRAINING),
    "start": (7, BELOW, "start", "M at first", TRAINING),
}
PARTS = (*BOXES, "forgetting", "depth", "chunks")  # all that can be lit


def draw_loop(*lit: str) -> Drawing:
    """The inner loop with the named parts lit; with no name, all of it.

    lit: from "token", "projections", "gates", "prediction", "error", "surprise", "momentum",
    "memory", "reading", "start", "forgetting" (how M fades), "depth" (M's layers) and "chunks"
    (tokens that are read at once).

    >>> draw_loop("surprise")
    Drawing(900 × 260)
    """
    for name in lit:
        if name not in PARTS:
            raise ValueError(f"lit: got {name!r}, expected one of {', '.join(PARTS)}")
    drawing = Drawing(900, 260)
    inner_loop(drawing, set(lit or PARTS))
    legend(drawing, 236)
    return drawing


def inner_loop(drawing: Drawing, on: set[str]) -> None:
    """All of the picture but its legend."""
    _arrows(drawing, on)
    _cards(drawing, "token", "a chunk: b tokens", 0, "chunks" in on)
    _cards(drawing, "memory", "layers W", 34, "depth" in on)
    for name in BOXES:
        _box(drawing, name, name in on)


def place(name: str) -> Box:
    column, y, *_ = BOXES[name]
    return Box(LEFT + column * (WIDTH + GAP), y, WIDTH, HEIGHT)


def _box(drawing: Drawing, name: str, lit: bool) -> None:
    _, _, title, formula, kind = BOXES[name]
    box = place(name)
    ink = kind.ink if lit else DIM
    middle = box.x + box.width / 2
    drawing.add(
        Rect(box.x, box.y, box.width, box.height, kind.lit if lit else kind.pale),
        _frame(box, kind.edge if lit else EDGE, 2 if lit else 1),
        Text(middle, box.y + 21, title, 12.5, "middle", ink, bold=lit),
        Text(middle, box.y + 43, formula, 16, "middle", ink),
    )


def _arrows(drawing: Drawing, on: set[str]) -> None:
    row = ["token", "projections", "prediction", "error", "surprise", "momentum", "memory"]
    for one, next_one in zip(row, [*row[1:], "reading"]):
        a, b = place(one), place(next_one)
        y = a.y + HEIGHT / 2
        _arrow(drawing, ((a.x + WIDTH, y), (b.x, y)), next_one in on)
    token, projections, gates = place("token"), place("projections"), place("gates")
    momentum, memory, reading, start = map(place, ("momentum", "memory", "reading", "start"))
    error, prediction = place("error"), place("prediction")
    x = token.x + WIDTH / 2
    y = gates.y + HEIGHT / 2
    _arrow(drawing, ((x, MIDDLE + HEIGHT), (x, y), (gates.x, y)), "gates" in on)

    # Above: the query goes straight to the reading, and M answers for the next token.
    x, far = projections.x + WIDTH / 2, reading.x + WIDTH / 2
    _arrow(drawing, ((x, MIDDLE), (x, 20), (far, 20), (far, MIDDLE)), "reading" in on, "q", 470)
    x, far = memory.x + 20, prediction.x + WIDTH / 2
    back = (x, MIDDLE), (x, 44), (far, 44), (far, MIDDLE)
    _arrow(drawing, back, "prediction" in on, "M, as it is now, predicts the next value", 470)

    # Below: what the gates decide, what the value is compared with, where the memory starts.
    x, far, y = projections.x + WIDTH - 14, error.x + WIDTH / 2, MIDDLE + HEIGHT + 16
    _arrow(drawing, ((x, y - 16), (x, y), (far, y), (far, y - 16)), "error" in on, "v", x + 20)
    right, y = gates.x + WIDTH, gates.y + HEIGHT / 2
    x = momentum.x + WIDTH / 2
    how = ((right, y - 8), (x, y - 8), (x, MIDDLE + HEIGHT))
    words = "θ: how much is written,  η: how long it lingers"
    _arrow(drawing, how, bool({"gates", "momentum"} & on), words, 410)
    x = memory.x + 28
    fade = ((right, y + 12), (x, y + 12), (x, MIDDLE + HEIGHT))
    _arrow(drawing, fade, bool({"gates", "forgetting"} & on), "α: how much is forgotten", 410)
    x = memory.x + WIDTH - 20
    begin = ((start.x, y), (x, y), (x, MIDDLE + HEIGHT))
    _arrow(drawing, begin, "start" in on)


def _arrow(drawing: Drawing, points, lit: bool, words: str = "", x: float = 0) -> None:
    """A line with right angles and a head; its words interrupt its long stretch, centred at x."""
    colour, width = (INK, 1.8) if lit else (EDGE, 1.2)
    arrow(drawing, points, colour, width)
    if words:
        (_, y), length = points[-2], text_width(words) + 10
        drawing.add(Rect(x - length / 2, y - 8, length, 16, WHITE))
        drawing.add(Text(x, y + 4.5, words, 13, "middle", INK if lit else DIM))


def _cards(drawing: Drawing, name: str, words: str, shift: float, lit: bool) -> None:
    """More of the same behind a box: the tokens of a chunk, or the layers of a memory."""
    box, kind = place(name), BOXES[name][-1]
    for offset in (8, 4):
        card = Box(box.x + offset, box.y - offset, box.width, box.height)
        drawing.add(Rect(card.x, card.y, card.width, card.height, kind.pale))
        drawing.add(_frame(card, kind.edge if lit else EDGE, 1.6 if lit else 1))
    ink = INK if lit else DIM
    drawing.add(Text(box.x + shift, box.y - 14, words, 13, colour=ink, bold=lit))


def _frame(box: Box, colour: str, width: float) -> Line:
    x, y, right, bottom = box.x, box.y, box.x + box.width, box.y + box.height
    return Line(((x, y), (right, y), (right, bottom), (x, bottom), (x, y)), colour, width)


def legend(drawing: Drawing, y: float, x: float = LEFT) -> None:
    for kind, words in (
        (READING, "changes with every token: the inner loop"),
        (TRAINING, "learned in training: the outer loop"),
        (COMPUTED, "computed for each token"),
    ):
        drawing.add(Rect(x, y, 14, 14, kind.lit, kind.edge), Text(x + 21, y + 12, words, 13))
        x += 21 + text_width(words) + 24
