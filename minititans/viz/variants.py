"""The four variants as pictures: boxes and arrows, alone or with what flows through at a word.

`draw_variant` shows which part feeds which. `draw_flow` shows the same with real vectors in the
boxes, and above it what the memory wrote and recalled, and where attention looked.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from minititans.experiments.dataflow import NAMES, PERSISTENT, SENTENCE, SPAN, Flow, follow
from minititans.experiments.dataflow import variants as make_variants
from minititans.palette import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    NOW_BLUE,
    ORANGE,
    PALE,
    PAPER,
    PAST_BLUE,
    PURPLE,
    WHITE,
)
from minititans.viz.charts import NORMAL, SMALL, Box, arrow, levels
from minititans.viz.drawing import Drawing, Line, Pixels, Rect, Text
from minititans.viz.explorer import Explorer, explorer, player, steps

# What attention can look at, and its colour.
KINDS = {"persistent": GREEN, "retrieved": ORANGE, "tokens": BLUE}
WIDTH, HEIGHT, STEP = 104, 60, 129  # of a box, and from column to column
PLAIN, MEMORY, ATTENTION = (PAPER, INK), (BLUE, WHITE), (PURPLE, INK)  # fill, letters
LEARNED = (KINDS["persistent"], WHITE)


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
    _diagram(drawing, 22, name)
    return drawing


def draw_flow(flow: Flow, word: int) -> Drawing:
    """What flows through a variant at one word, counted from 1."""
    drawing, t = Drawing(900, 492), word - 1
    title = f"{DIAGRAMS[flow.name].title}.  Word {word}: “{flow.words[t]}”"
    drawing.add(Text(14, 18, title, NORMAL, bold=True))
    _written(drawing, Box(208, 34, 672, 46), flow, t)
    _attended(drawing, Box(208, 108, 672, 22), flow, t)
    _recalled(drawing, Box(208, 198, 672, 52), flow, t)
    _diagram(drawing, 288, flow.name, flow, t)
    return drawing


def _label(drawing: Drawing, y: float, bold: str, plain: str) -> None:
    drawing.add(Text(14, y, bold, SMALL, bold=True), Text(14, y + 17, plain, SMALL, colour=GREY))


def _written(drawing: Drawing, box: Box, flow: Flow, t: int) -> None:
    """A bar per word, as high as its surprise; below it the sentence."""
    slot, bottom = box.width / len(flow.words), box.y + box.height
    most = max(1.5, float(flow.surprise.max()))
    _label(drawing, box.y + 22, "written", f"surprise {float(flow.surprise[t]):.2f}")
    for i, (word, surprise) in enumerate(zip(flow.words, flow.surprise.tolist())):
        x, middle = box.x + i * slot, box.x + (i + 0.5) * slot
        if i == t:
            drawing.add(Rect(x, box.y, slot, box.height + 22, NOW_BLUE))
        if i <= t:
            height = surprise / most * box.height
            drawing.add(Rect(x + 8, bottom - height, slot - 16, height,
                             BLUE if i == t else PAST_BLUE))  # fmt: skip
        ink = INK if i <= t else FAINT
        drawing.add(Text(middle, bottom + 17, word, SMALL, "middle", ink, bold=i == t))
        if flow.name == "MAC" and i % SPAN == 0:
            drawing.add(Line(((x, box.y), (x, bottom + 22)), FAINT, 1, "3 3"))
    drawing.add(Line(((box.x, bottom), (box.x + box.width, bottom)), INK, 1))


def _attended(drawing: Drawing, box: Box, flow: Flow, t: int) -> None:
    """A cell for all that attention could look at; the fuller the colour, the more weight."""
    if flow.attended is None:
        _label(drawing, box.y + 14, "attended", "there is no attention here")
        return
    n, weights, slot = len(flow.words), flow.attended[t].tolist(), box.width / len(flow.words)
    rows = {"retrieved": weights[PERSISTENT:-n], "tokens": weights[-n:]}
    what = {"MAC": "p; h, words", "MAL": "M's answers", "MAG": "p, words"}
    _label(drawing, box.y + 14, "attended", what[flow.name])
    top = max(weights)
    for i, weight in enumerate(weights[:PERSISTENT]):
        place = Box(box.x - 8 - (PERSISTENT - i) * 38, box.y + 26, 38, box.height)
        _cell(drawing, place, weight / top, "persistent", f"{weight:.2f}" if weight else "")
    for row, (kind, cells) in enumerate(rows.items()):
        for i, weight in enumerate(cells):
            place = Box(box.x + i * slot, box.y + row * 26, slot, box.height)
            _cell(drawing, place, weight / top, kind, f"{weight:.2f}" if weight else "")


def _cell(drawing: Drawing, box: Box, share: float, kind: str, words: str = "") -> None:
    inside = Box(box.x + 1.5, box.y, box.width - 3, box.height)
    colour = _mixed(KINDS[kind], share) if share else PAPER
    drawing.add(Rect(inside.x, inside.y, inside.width, inside.height, colour))
    if words:
        middle = inside.x + inside.width / 2
        ink = WHITE if share > 0.6 else INK
        drawing.add(Text(middle, inside.y + 15.5, words, 12, "middle", ink))


def _mixed(colour: str, share: float) -> str:
    """From almost white to the full colour."""
    share = 0.12 + 0.88 * share
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 + share * (part - 255)):02X}" for part in parts)


def _recalled(drawing: Drawing, box: Box, flow: Flow, t: int) -> None:
    """What the memory's answer is made of: how much of each word's value."""
    name, shares = next(iter(flow.recalled.items()))
    found, bottom = shares[t].tolist(), box.y + box.height
    slot, best = box.width / len(found), int(np.argmax(found))
    clear = found[best] > 0.5
    answer = f"mostly “{flow.vocabulary[best]}”" if clear else "nothing clear"
    if max(map(abs, found)) < 0.01:
        answer = "nothing yet"
    _label(drawing, box.y + 22, f"recalled: {name}", answer)
    for height in (0.5, 1.0):
        y = bottom - height * box.height
        drawing.add(Line(((box.x, y), (box.x + box.width, y)), PALE, 1))
        drawing.add(Text(box.x - 6, y + 4, f"{height:g}", SMALL, "end"))
    for i, (word, share) in enumerate(zip(flow.vocabulary, found)):
        height = min(1.15, max(0.0, share)) * box.height
        strong = i == best and clear
        fill = KINDS["retrieved"] if strong else _mixed(KINDS["retrieved"], 0.35)
        drawing.add(Rect(box.x + (i + 0.25) * slot, bottom - height, 0.5 * slot, height, fill))
        middle = box.x + (i + 0.5) * slot
        drawing.add(Text(middle, bottom + 17, word, SMALL, "middle", bold=strong))
    drawing.add(Line(((box.x, bottom), (box.x + box.width, bottom)), INK, 1))


def _diagram(drawing: Drawing, y: float, name: str, flow: Flow | None = None, t: int = 0) -> None:
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


@lru_cache(maxsize=1)
def flows() -> dict[str, Flow]:
    """All four over the same sentence, computed once."""
    return {name: follow(layer, SENTENCE) for name, layer in make_variants().items()}


def variant_explorer() -> Explorer:
    """The four variants, word by word. It begins with MAC at the second “red”, word 10."""
    flows()

    def draw(variant: str, word: int) -> Drawing:
        return draw_flow(flows()[variant], word)

    return explorer(
        draw,
        word=player(10, 1, len(SENTENCE), "word", interval=1200),
        variant=steps("MAC", NAMES, "variant"),
    )
