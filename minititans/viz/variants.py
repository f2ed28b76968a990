"""What flows through each of the four variants, word by word.

The boxes and arrows of `diagrams` with real vectors in them, and above what the memory wrote and
recalled, and where attention looked.
"""

import numpy as np

from minititans.experiments.dataflow import NAMES, PERSISTENT, SENTENCE, SPAN, Flow, flows
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
    WHITE,
)
from minititans.viz.charts import NORMAL, SMALL, Box
from minititans.viz.diagrams import DIAGRAMS, add_diagram
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.explorer import Explorer, explorer, player, steps

# What attention can look at, and its colour.
KINDS = {"persistent": GREEN, "retrieved": ORANGE, "tokens": BLUE}


def draw_flow(flow: Flow, word: int) -> Drawing:
    """What flows through a variant at one word, counted from 1."""
    drawing, t = Drawing(900, 492), word - 1
    title = f"{DIAGRAMS[flow.name].title}.  Word {word}: “{flow.words[t]}”"
    drawing.add(Text(14, 18, title, NORMAL, bold=True))
    _written(drawing, Box(208, 34, 672, 46), flow, t)
    _attended(drawing, Box(208, 108, 672, 22), flow, t)
    _recalled(drawing, Box(208, 198, 672, 52), flow, t)
    add_diagram(drawing, 288, flow.name, flow, t)
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
