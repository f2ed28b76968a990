"""The gates of all memories of a model on a text: letter by letter, and by kinds of letters."""

import numpy as np
from torch import Tensor

from minititans.experiments.text_reading import KINDS, TextReading, by_kind
from minititans.palette import GREY, PALE
from minititans.viz.charts import NORMAL, SMALL, levels
from minititans.viz.drawing import PALETTE, Drawing, Pixels, Rect, Text
from minititans.viz.letters import ACROSS, LEFT, SLOT, as_letter, window

FULL = {"theta": 1.0, "eta": 0.7, "alpha": 0.02}  # what has the full colour
WORDS = {
    "theta": "θ: how much is written",
    "eta": "η: how long it lingers",
    "alpha": "α: how much is forgotten",
}
ROW = 13  # pixels of a memory's row


def memory_names(layers: int, heads: int) -> list[str]:
    return [f"layer {i + 1} head {j + 1}" for i in range(layers) for j in range(heads)]


def draw_gates(reading: TextReading, place: int = 0) -> Drawing:
    """A row for each memory and a column for each letter, three times: theta, eta, alpha."""
    layers, heads, time = reading.theta.shape
    first, rows = window(time, place), layers * heads
    shown = reading.text[first : first + ACROSS]
    block = rows * ROW + 34
    drawing = Drawing(900, 56 + 3 * block)
    for i, letter in enumerate(shown):
        drawing.add(Text(LEFT + SLOT * (i + 0.5), 22, as_letter(letter), 15, "middle"))
    for number, (name, words) in enumerate(WORDS.items()):
        y = 56 + number * block
        _heat(drawing, y, getattr(reading, name)[..., first : first + ACROSS], FULL[name])
        drawing.add(Text(LEFT, y - 7, words, NORMAL, bold=True))
        drawing.add(
            Text(LEFT + SLOT * ACROSS, y - 7, f"full colour: {FULL[name]:g}", SMALL, "end", GREY)
        )
    return drawing


def _heat(drawing: Drawing, y: float, values: Tensor, full: float) -> None:
    layers, heads, time = values.shape
    for row, words in enumerate(memory_names(layers, heads)):
        drawing.add(Text(LEFT - 10, y + ROW * row + 11, words, 11, "end", GREY))
    width, height = SLOT * time, ROW * layers * heads
    shades = levels(values.reshape(layers * heads, time).numpy(), full)
    drawing.add(Pixels(LEFT, y, width, height, shades))
    drawing.add(Rect(LEFT, y, width, height, stroke=PALE))


def draw_kinds(reading: TextReading, gate: str = "theta") -> Drawing:
    """The mean of a gate for each kind of letter and each memory, as a table with colours."""
    found = by_kind(reading, gate)
    layers, heads = next(iter(found.values())).shape
    drawing = Drawing(900, 92 + 34 * len(KINDS))
    drawing.add(Text(20, 24, f"{WORDS[gate]}, on average", NORMAL, bold=True))
    for column, words in enumerate(memory_names(layers, heads)):
        layer, head = words.split(" head ")
        x = 180 + 86 * column
        drawing.add(Text(x + 40, 56, layer, SMALL, "middle", GREY))
        drawing.add(Text(x + 40, 74, f"head {head}", SMALL, "middle", GREY))
    for row, (kind, means) in enumerate(found.items()):
        y = 82 + 34 * row
        drawing.add(Text(166, y + 21, kind, NORMAL, "end"))
        for column, mean in enumerate(means.flatten().tolist()):
            level = int(levels(np.array([mean]), FULL[gate] * 0.6)[0])
            fill = "#" + "".join(f"{part:02X}" for part in PALETTE[level])
            x = 180 + 86 * column
            drawing.add(Rect(x, y, 82, 30, fill, PALE))
            drawing.add(Text(x + 41, y + 20, f"{mean:.3f}", SMALL, "middle"))
    return drawing
