"""The four variants as boxes and arrows: which part feeds which."""

from dataclasses import dataclass

import numpy as np

from minititans.experiments.dataflow import Flow
from minititans.palette import BLUE, GREEN, GREY, INK, PAPER, PURPLE, WHITE
from minititans.viz.charts import NORMAL, SMALL, Box, arrow, levels
from minititans.viz.drawing import Drawing, Pixels, Rect, Text

WIDTH, HEIGHT, STEP = 104, 60, 129  # of a box, and from column to column
PLAIN, MEMORY, ATTENTION = (PAPER, INK), (BLUE, WHITE), (PURPLE, INK)  # fill, letters
LEARNED = (GREEN, WHITE)


@dataclass(frozen=True)
class Part:
    """A box of a diagram. shows: the vector of a `Flow` that comes out; white: its white number."""

    column: float
    row: float
    title: str
    formula: str
    look: tuple[str, str] = PLAIN
    shows: str = ""
    white: float = 0.0


@dataclass(frozen=True)
class Diagram:
    """arrows: from, to, the way ("straight", "over" or "under"), and what flows there."""

    title: str
    parts: dict[str, Part]
    arrows: tuple[tuple[str, str, str, str], ...]


DIAGRAMS = {
    "LMM": Diagram(
        "LMM: the memory alone",
        {
            "x": Part(1, 0.25, "words", "x", shows="x"),
            "p": Part(1, 1.2, "persistent", "p, read first", LEARNED),
            "M": Part(3, 0.25, "memory", "M(p ‖ x)", MEMORY, "y"),
            "o": Part(5, 0.25, "output", "o = y", shows="o"),
        },
        (("x", "M", "straight", ""), ("p", "M", "elbow", ""), ("M", "o", "straight", "y")),
    ),
    "MAL": Diagram(
        "MAL, memory as a layer: one after the other",
        {
            "x": Part(0, 0.25, "words", "x", shows="x"),
            "p": Part(0, 1.2, "persistent", "p, read first", LEARNED),
            "M": Part(2, 0.25, "memory", "y = M(p ‖ x)", MEMORY, "y"),
            "A": Part(4, 0.25, "window", "SW-Attn(y)", ATTENTION, "attention"),
            "o": Part(6, 0.25, "output", "o", shows="o"),
        },
        (
            ("x", "M", "straight", ""), ("p", "M", "elbow", ""), ("M", "A", "straight", "y"),
            ("A", "o", "straight", ""),
        ),
    ),
    "MAG": Diagram(
        "MAG, memory as a gate: side by side",
        {
            "x": Part(0, 0.7, "words", "x", shows="x"),
            "p": Part(1.3, 0.7, "persistent", "p ‖ x", LEARNED),
            "A": Part(2.9, 0.1, "window", "SW-Attn*(p ‖ x)", ATTENTION, "y"),
            "M": Part(2.9, 1.3, "memory", "M(p ‖ x)", MEMORY, "M(x)"),
            "G": Part(4.5, 0.7, "gate", "y ⊗ M(p ‖ x)", PLAIN, "gate", 1.0),
            "o": Part(6, 0.7, "output", "o", shows="o"),
        },
        (
            ("x", "p", "straight", ""), ("p", "A", "elbow", ""), ("p", "M", "elbow", ""),
            ("A", "G", "elbow", "y"), ("M", "G", "elbow", "m"), ("G", "o", "straight", ""),
        ),
    ),
    "MAC": Diagram(
        "MAC, memory as a context: asked before attention looks",
        {
            "x": Part(0, 0.7, "a segment", "S", shows="x"),
            "R": Part(1, 0.7, "recall", "h = M*(S)", MEMORY, "h"),
            "p": Part(2, 0.7, "context", "p ‖ h ‖ S", LEARNED),
            "A": Part(3, 0.7, "attention", "y = S + Attn", ATTENTION, "y"),
            "M": Part(4, 0.7, "memory", "M ← M(y)", MEMORY, "M(y)"),
            "G": Part(5, 0.7, "gate", "y ⊗ M*(y)", PLAIN, "gate", 1.0),
            "o": Part(6, 0.7, "output", "o", shows="o"),
        },
        (
            ("x", "R", "straight", ""), ("R", "p", "straight", "h"), ("p", "A", "straight", ""),
            ("A", "M", "straight", "y"), ("M", "G", "straight", "m"), ("G", "o", "straight", ""),
            ("x", "p", "under", "S"), ("A", "G", "under", "y"),
            ("M", "R", "over", "M, for the next segment"),
        ),
    ),
}  # fmt: skip


def draw_variant(name: str) -> Drawing:
    """The parts of a variant and what feeds what.

    >>> draw_variant("MAG")
    Drawing(900 × 205)
    """
    drawing = Drawing(900, 205)
    drawing.add(Text(14, 20, DIAGRAMS[name].title, NORMAL, bold=True))
    add_diagram(drawing, 22, name)
    return drawing


def add_diagram(
    drawing: Drawing, y: float, name: str, flow: Flow | None = None, t: int = 0
) -> None:
    """At height y; with a flow, also the vector that comes out of each part at token t."""
    diagram = DIAGRAMS[name]
    boxes = {
        key: Box(14 + STEP * part.column, y + 8 + 84 * part.row, WIDTH, HEIGHT)
        for key, part in diagram.parts.items()
    }
    for start, end, way, words in diagram.arrows:
        _connect(drawing, boxes[start], boxes[end], way, words)
    for key, part in diagram.parts.items():
        box, (fill, ink) = boxes[key], part.look
        middle, small = box.x + WIDTH / 2, 13 if len(part.formula) < 15 else 12
        drawing.add(
            Rect(box.x, box.y, WIDTH, HEIGHT, fill, INK),
            Text(middle, box.y + 19, part.title, 13, "middle", ink, bold=True),
            Text(middle, box.y + 37, part.formula, small, "middle", ink),
        )
        if flow is not None and part.shows:
            vectors = flow.parts[part.shows].numpy() - part.white
            strip = levels(vectors[t : t + 1], float(np.abs(vectors).max()))
            drawing.add(Pixels(box.x + 5, box.y + HEIGHT - 15, WIDTH - 10, 10, strip))
            drawing.add(Rect(box.x + 5, box.y + HEIGHT - 15, WIDTH - 10, 10, stroke=GREY))
        if flow is not None and part.shows == "gate":
            gate = flow.parts["gate"][t]
            words = f"times {float(gate.min()):.2f} to {float(gate.max()):.2f}"
            drawing.add(Text(middle, box.y - 8, words, 12, "middle", GREY))


def _connect(drawing: Drawing, a: Box, b: Box, way: str, words: str) -> None:
    right, left = (a.x + WIDTH, a.y + HEIGHT / 2), (b.x, b.y + HEIGHT / 2)
    if way == "straight":
        points, label = (right, left), ((right[0] + left[0]) / 2, right[1] - 6)
    elif way == "elbow":  # across, up or down, across
        x = (right[0] + left[0]) / 2
        points, label = (right, (x, right[1]), (x, left[1]), left), (right[0] + 9, right[1] - 6)
    else:
        over = way == "over"
        edge, line = (0, a.y - 24) if over else (HEIGHT, a.y + HEIGHT + 24)
        # Beside the middle, so that two arrows at one box do not touch.
        x, far = a.x + WIDTH / 2 + (0 if over else 12), b.x + WIDTH / 2 - (0 if over else 12)
        points = (x, a.y + edge), (x, line), (far, line), (far, b.y + edge)
        label = ((x + far) / 2, line - 6)
    arrow(drawing, points, INK, 1.6, "6 4" if way == "over" else "")
    if words:
        drawing.add(Text(*label, words, SMALL, "middle"))
