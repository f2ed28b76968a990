"""Who sees whom, measured, and what it is worth to see the future."""

import torch
from torch import Tensor

from minititans.experiments.leak import CAUSAL, LITERAL, Noise
from minititans.palette import BLUE, INK, RED
from minititans.viz.charts import NORMAL, SMALL, Box, Series, chart, heatmap
from minititans.viz.drawing import Drawing, Line, Rect, Text

LOOK = {CAUSAL: BLUE, LITERAL: RED}
SHRINK = 0.2  # a power: a move of a ten-thousandth of the largest is drawn as a sixth of it


def draw_influence(tables: dict[str, Tensor]) -> Drawing:
    """Tables of `influence` side by side, four at most.

    A row for the token that was changed, a column for the answer. Red is a later answer, or the
    token's own; blue is an answer that came before: the future, seen. Where nothing moved it is
    white. Small moves are drawn stronger than they are.
    """
    drawing, size = Drawing(900, 268), 180
    for place, (name, table) in enumerate(tables.items()):
        box = Box(42 + 218 * place, 40, size, size)
        moved = (table / table.max()) ** SHRINK
        moved = torch.where(table > 1e-9 * table.max(), moved, 0.0)
        heatmap(drawing, box, moved.triu() - moved.tril(-1), title=name, limit=1.0)
        drawing.add(Line(((box.x, box.y), (box.x + size, box.y + size)), INK, 0.6))
        drawing.add(Text(box.x, box.y + size + 17, "answer of token →", SMALL))
        if place == 0:
            drawing.add(Text(box.x - 10, box.y + size, "← token changed", SMALL, upwards=True))
    for x, colour, words in ((42, RED, "an answer moved"), (220, BLUE, "an earlier answer moved")):
        drawing.add(Rect(x, 248, 13, 13, colour), Text(x + 20, 259, words, SMALL))
    return drawing


def draw_noise(noise: Noise) -> Drawing:
    """The loss while learning random digits, a line for each seed; beside it, what it is worth."""
    drawing, steps = Drawing(900, 330), range(1, noise.config.steps + 1)
    lines = []
    for name, colour in LOOK.items():
        for i, curve in enumerate(noise.losses[name]):
            lines.append(Series(steps, curve, "" if i else f"MAC, {name}", colour, width=1.6))
    guess = [noise.guessing] * 2
    lines.append(Series([1, len(steps)], guess, "the best guess", INK, "7 4", 1.5))
    chart(
        drawing, Box(80, 66, 500, 200), lines, title="Predicting digits drawn at random",
        xlabel="training step", ylabel="loss (nats)", ylim=(0, 2.6),
    )  # fmt: skip
    _table(drawing, 620, noise)
    return drawing


def _table(drawing: Drawing, x: float, noise: Noise) -> None:
    """The loss after training, the mean of the seeds: one row per future, one column per model."""
    drawing.add(Text(x, 30, "Loss afterwards", NORMAL, bold=True))
    rows = (("with the digits to come", noise.shown), ("with other digits there", noise.hidden))
    for column, (name, colour) in enumerate(LOOK.items()):
        edge = x + 145 + 120 * column
        drawing.add(Text(edge, 92, name, SMALL, "end", colour, bold=True))
        for row, (_, losses) in enumerate(rows):
            number = f"{losses[name].mean().item():.1f}"
            drawing.add(Text(edge, 142 + 66 * row, number, 22, "end", colour))
    for row, (words, _) in enumerate(rows):
        drawing.add(Text(x, 118 + 66 * row, words, SMALL))
