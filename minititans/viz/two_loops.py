"""Both loops of a Titan in one picture: reading inside, training around it."""

from dataclasses import replace
from itertools import pairwise

from minititans.palette import BLUE, WHITE
from minititans.viz.charts import Box, arrow
from minititans.viz.drawing import Drawing, Line, Rect, Shape, Text
from minititans.viz.loop import HEIGHT, PARTS, TRAINING, WIDTH, inner_loop, legend, place

ACROSS, DOWN = 26, 128  # where the inner loop is put
TOP = 34  # of the boxes of the outer loop
ORANGE = TRAINING.edge
FRAME = Box(30, 116, 884, 236)
OUTER = {  # name: left edge, width, title, what it is
    "step": (140, 176, "one step", "change what is orange"),
    "gradient": (362, 188, "gradient", "back through every write"),
    "loss": (596, 146, "loss", "−log p(next letter)"),
    "expected": (788, 112, "expectation", "p(next letter)"),
}


def draw_loops() -> Drawing:
    """The inner loop as in `draw_loop`, in a frame, and the outer loop that goes around it.

    >>> draw_loops()
    Drawing(940 × 420)
    """
    drawing, inner = Drawing(940, 420), Drawing(900, 260)
    inner_loop(inner, set(PARTS))
    drawing.add(*(shifted(shape, ACROSS, DOWN) for shape in inner.shapes))
    x, y, right, bottom = FRAME.x, FRAME.y, FRAME.x + FRAME.width, FRAME.y + FRAME.height
    around = ((x, y), (right, y), (right, bottom), (x, bottom), (x, y))
    drawing.add(
        Line(around, BLUE, 1.5, dash="6 4"),
        Text(x + 250, y - 7, "inner loop: once for every token", 14, colour=BLUE, bold=True),
        Text(x, 20, "outer loop: once for every batch of texts", 14, colour=ORANGE, bold=True),
    )
    _way_around(drawing)
    for left, width, title, about in OUTER.values():
        drawing.add(
            Rect(left, TOP, width, HEIGHT, WHITE, ORANGE),
            Text(left + width / 2, TOP + 21, title, 12.5, "middle", bold=True),
            Text(left + width / 2, TOP + 42, about, 13, "middle"),
        )
    legend(drawing, 394, x)
    return drawing


def _way_around(drawing: Drawing) -> None:
    """From the reading over loss and gradient back to what is trained."""
    middle, far = TOP + HEIGHT / 2, 927
    reading, projections, gates, start = map(_moved, ("reading", "projections", "gates", "start"))
    y = reading.y + HEIGHT / 2
    edge = OUTER["expected"][0] + OUTER["expected"][1]
    ways = [((reading.x + WIDTH, y), (far, y), (far, middle), (edge, middle))]
    row = list(OUTER.values())
    for (left, width, *_), (next_left, *_) in pairwise(row):
        ways.append(((next_left, middle), (left + width, middle)))
    first, x, below = OUTER["step"][0], projections.x + 33, FRAME.y + FRAME.height + 18
    ways.append(((x, TOP + HEIGHT), (x, projections.y)))
    for box in (gates, start):
        end = box.x + WIDTH / 2, box.y + HEIGHT
        ways.append(((first, middle), (14, middle), (14, below), (end[0], below), end))
    for points in ways:
        arrow(drawing, points, ORANGE, 2.4)


def _moved(name: str) -> Box:
    box = place(name)
    return replace(box, x=box.x + ACROSS, y=box.y + DOWN)


def shifted(shape: Shape, across: float, down: float) -> Shape:
    """The same shape somewhere else."""
    if not isinstance(shape, Line):
        return replace(shape, x=shape.x + across, y=shape.y + down)
    return replace(shape, points=tuple((x + across, y + down) for x, y in shape.points))
