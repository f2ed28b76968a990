"""A memory one can watch: keys and values as arrows, M as what it does to the unit circle.

A moment of the widget is a quarter of a pair: the memory is asked, then it moves in three steps
from where it was to where the write leaves it.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.experiments.plane import RULES, STORY, Plane, watch
from minititans.palette import BLUE, FAINT, GREEN, GREY, INK, PALE, RED
from minititans.viz.axis import round_up
from minititans.viz.charts import NORMAL, SMALL, Box, arrow
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.explorer import Explorer, choice, explorer, player, slider

MOMENTS = 4  # of a pair: asking, and three of writing
DIGITS = (1, 1.3, 1.6, 2, 2.5, 3, 4, 5, 6, 8)  # where a scale may end
COLOURS = {"A": BLUE, "B": GREEN}
CIRCLE = torch.stack(
    [f(torch.linspace(0, 2 * math.pi, 73).double()) for f in (torch.cos, torch.sin)]
)


@dataclass(frozen=True)
class Field:
    """A part of the drawing as a plane: from two coordinates to pixels."""

    x: float  # of the origin, in pixels
    y: float
    unit: float  # pixels of length 1

    def __call__(self, point: Tensor) -> tuple[float, float]:
        return self.x + self.unit * float(point[0]), self.y - self.unit * float(point[1])

    def line(self, points: Tensor) -> tuple[tuple[float, float], ...]:
        """points: `[2, many]`."""
        return tuple(map(self, points.T))


def draw_plane(plane: Plane, moment: int, rule: str = "delta") -> Drawing:
    """One moment: 0 is the empty memory, then there are `MOMENTS` for each pair."""
    t, phase = divmod(max(0, moment - 1), MOMENTS)
    before, after = plane.memory[t], plane.memory[t + 1]
    M = before + phase / (MOMENTS - 1) * (after - before)
    drawing = Drawing(900, 400)
    now = plane.names[t] if moment else ""
    _keys(drawing, plane, now)
    _answers(drawing, plane, M, t if moment else None)
    if moment:
        _words(drawing, plane, t, phase, rule)
    else:
        drawing.add(Text(660, 60, "Nothing has been read:", NORMAL, bold=True))
        drawing.add(Text(660, 84, "M is zero and answers zero", NORMAL))
        drawing.add(Text(660, 106, "to every key.", NORMAL))
    _errors(drawing, Box(660, 252, 232, 106), plane, t if moment else -1)
    return drawing


def _keys(drawing: Drawing, plane: Plane, now: str) -> None:
    """The plane of the keys, with the unit circle."""
    field = Field(158, 218, 126)
    drawing.add(Text(20, 24, "Keys: what it is asked with", NORMAL, bold=True))
    _axes(drawing, field, 150)
    drawing.add(Line(field.line(CIRCLE), GREY, 1.5))
    for name, k in _latest(plane.names, plane.keys, len(plane.names) - 1).items():
        letter = name[0]
        arrow(
            drawing, (field(0 * k), field(k)), COLOURS[letter], 4 if letter in now else 2.5, head=11
        )
        x, y = field(1.14 * k)
        drawing.add(Text(x, y + 6, letter, 17, "middle", COLOURS[letter], bold=letter in now))
    _dots(drawing, field, torch.eye(2).double())


def _answers(drawing: Drawing, plane: Plane, M: Tensor, t: int | None) -> None:
    """The plane of the values: what M makes of the circle and of each key, and what is wanted."""
    reach = float(torch.linalg.matrix_norm(plane.memory, 2).max())  # the longest answer there is
    field = Field(480, 218, 150 / round_up(max(1.25, 1.02 * reach), DIGITS))
    drawing.add(Text(330, 24, "Answers: M times key", NORMAL, bold=True))
    _axes(drawing, field, 150)
    drawing.add(Line(field.line(CIRCLE), PALE, 1.5))
    words = "black: what M makes of the circle"
    drawing.add(Text(field.x, 386, words, SMALL, "middle", GREY))
    drawing.add(Line(field.line(M @ CIRCLE), INK, 2))
    _dots(drawing, field, M)
    if t is None:
        return
    for name, v in _latest(plane.names, plane.values, t).items():
        colour = COLOURS[name[0]]
        arrow(drawing, (field(0 * v), field(v)), colour, 1.5, dash="3 4", head=9)
        x, y = field((1 + 14 / field.unit) * v)
        drawing.add(Text(x, y + 5, name[1], 16, "middle", colour, bold=True))
    for name, k in _latest(plane.names, plane.keys, t).items():
        arrow(drawing, (field(0 * k), field(M @ k)), COLOURS[name[0]], 4, head=11)
    k, v = plane.keys[t], plane.values[t]
    if float((v - M @ k).norm()) > 0.02:
        arrow(drawing, (field(M @ k), field(v)), RED, 2.5, head=9)


def _words(drawing: Drawing, plane: Plane, t: int, phase: int, rule: str) -> None:
    name, error = plane.names[t], float(plane.errors[t].norm())
    title = f"Pair {t + 1} of {len(plane.names)}: {name}"
    lines = [f"Asked with key {name[0]}, it should", f"answer {name[1]}. Error (red): {error:.2f}"]
    if phase:
        lines = {
            "delta": ["It writes θ times the error:", "its answer moves by as much."],
            "Hebb": ["It adds θ times the value,", "whatever it would answer."],
        }[rule]
    drawing.add(Text(660, 60, title, NORMAL, bold=True, colour=COLOURS[name[0]]))
    for number, words in enumerate(lines):
        drawing.add(Text(660, 84 + 22 * number, words, NORMAL))
    for y, colour, dash, words in (
        (150, GREY, "3 4", "the value that is wanted"),
        (172, GREY, "", "the answer M k"),
        (194, RED, "", "the error v − M k"),
    ):
        arrow(drawing, ((660, y), (692, y)), colour, 2 if dash or colour == RED else 4, dash)
        drawing.add(Text(702, y + 5, words, SMALL))


def _errors(drawing: Drawing, box: Box, plane: Plane, now: int) -> None:
    """One bar per pair, as high as the error before it was written."""
    sizes = plane.errors.norm(dim=1)
    most = max(2.0, round_up(float(sizes.max())))
    slot, bottom = box.width / len(plane.names), box.y + box.height
    drawing.add(Text(box.x, box.y - 12, "Error before each write", NORMAL, bold=True))
    for i, (name, size) in enumerate(zip(plane.names, sizes.tolist())):
        height = size / most * box.height
        colour = COLOURS[name[0]] if i <= now else INK
        if i <= now:
            drawing.add(Rect(box.x + i * slot + 3, bottom - height, slot - 6, height, colour))
        shade = INK if i <= now else FAINT
        drawing.add(
            Text(box.x + (i + 0.5) * slot, bottom + 17, name, 11, "middle", shade, i == now)
        )
    drawing.add(Line(((box.x, bottom), (box.x + box.width, bottom)), INK, 1))
    for height in (most / 2, most):
        y = bottom - height / most * box.height
        drawing.add(Line(((box.x, y), (box.x + box.width, y)), PALE, 1))
        drawing.add(Text(box.x - 5, y + 4, f"{height:g}", 11, "end"))


def _axes(drawing: Drawing, field: Field, reach: float) -> None:
    for dx, dy in ((reach, 0), (0, reach)):
        ends = ((field.x - dx, field.y - dy), (field.x + dx, field.y + dy))
        drawing.add(Line(ends, PALE, 1))


def _dots(drawing: Drawing, field: Field, M: Tensor) -> None:
    """Twelve points of the circle, and where M takes them."""
    drawing.add(Line(field.line(M @ CIRCLE[:, :-1:6]), INK, 0, dots=3))


def _latest(names: tuple[str, ...], vectors: Tensor, t: int) -> dict[str, Tensor]:
    """For each letter read up to t, its last name and vector."""
    last = {names[i][0]: i for i in range(t + 1)}
    return {names[i]: vectors[i] for i in sorted(last.values())}


def plane_explorer() -> Explorer:
    """Watch two pairs being written into a matrix of two dimensions.

    It begins when B has just been written for the first time, which moved the answer to A.
    """

    def draw(moment: int, angle: int, theta: float, rule: str) -> Drawing:
        return draw_plane(watch(angle, theta, rule), moment, rule)

    return explorer(
        draw,
        moment=player(2 * MOMENTS, 0, MOMENTS * len(STORY), "moment", interval=400),
        angle=slider(60, 10, 90, 5, "angle between the keys"),
        theta=slider(1.0, 0.0, 2.0, 0.1, "theta: how much is written"),
        rule=choice("delta", list(RULES), "rule"),
    )
