"""A memory of two layers as a picture: the way forward, the error's way back, the surprises."""

from minititans.palette import BLUE, GREY, INK, LIGHT_BLUE, PALE_RED, RED, WHITE
from minititans.viz.charts import NORMAL, SMALL, arrow
from minititans.viz.drawing import Drawing, Line, Rect, Text

WIDTH, HEIGHT, GAP, LEFT = 118, 56, 32, 16
FORWARD, BACK, SURPRISE = 92, 200, 290  # tops of the three rows
WEIGHTS, ERRORS = LIGHT_BLUE, PALE_RED


def draw_network(residual: bool = False) -> Drawing:
    """Shapes beside every symbol. residual: the first layer adds to the key, at length 1.

    >>> draw_network()
    Drawing(900 × 370)
    """
    drawing = Drawing(900, 370)
    x = [LEFT + column * (WIDTH + GAP) for column in range(6)]
    a = "a = unit(k + silu(z))" if residual else "a = silu(z)"
    drawing.add(Text(LEFT, 24, "Forward: the memory answers", NORMAL, bold=True))
    drawing.add(Text(LEFT, BACK - 16, "Back: the error", NORMAL, bold=True, colour=RED))
    drawing.add(Text(LEFT, SURPRISE + 18, "Surprises", NORMAL, bold=True, colour=BLUE))
    for column, formula, shape, fill in (
        (0, "k", "[d_key]", WHITE),
        (1, "W₁", "[hidden, d_key]", WEIGHTS),
        (2, "z = W₁ k", "[hidden]", WHITE),
        (3, a, "[hidden]", WHITE),
        (4, "W₂", "[d_value, hidden]", WEIGHTS),
        (5, "M(k) = W₂ a", "[d_value]", WHITE),
    ):
        _box(drawing, x[column], FORWARD, formula, shape, fill)
        if column:
            arrow(drawing, ((x[column] - GAP, FORWARD + 28), (x[column], FORWARD + 28)), INK, 1.6)
    if residual:  # the key goes around the layer
        top, far = FORWARD - 22, x[3] + WIDTH / 2
        around = (x[0] + 59, FORWARD), (x[0] + 59, top), (far, top), (far, FORWARD)
        arrow(drawing, around, INK, 1.6)
        drawing.add(Text(x[1] + 20, top - 6, "the key itself", SMALL))
    for column, formula, shape in (
        (5, "e₂ = v − M(k)", "[d_value]"),
        (3, "g = W₂ᵀ e₂", "[hidden]"),
        (2, "e₁ = silu′(z) ⊙ " + ("g′" if residual else "g"), "[hidden]"),
    ):
        _box(drawing, x[column], BACK, formula, shape, ERRORS)
    y = BACK + 28
    arrow(drawing, ((x[5] + 59, FORWARD + HEIGHT), (x[5] + 59, BACK)), RED, 1.6)
    arrow(drawing, ((x[5], y), (x[3] + WIDTH, y)), RED, 1.6)
    drawing.add(Text(x[4] + 28, y - 8, "through W₂ᵀ", SMALL, colour=RED))
    arrow(drawing, ((x[3], y), (x[2] + WIDTH, y)), RED, 1.6)
    if residual:
        drawing.add(Text(x[3] - 16, BACK - 8, "through unit: g′", SMALL, "middle", RED))
    for column, formula, shape, error in (
        (4, "u₂ = −e₂ aᵀ", "[d_value, hidden]", 5),
        (1, "u₁ = −e₁ kᵀ", "[hidden, d_key]", 2),
    ):
        _box(drawing, x[column], SURPRISE, formula, shape, WEIGHTS)
        near, y = x[error] + 30, SURPRISE + 28
        arrow(drawing, ((near, BACK + HEIGHT), (near, y), (x[column] + WIDTH, y)), RED, 1.6)
        same = ((x[column] + 20, FORWARD + HEIGHT), (x[column] + 20, SURPRISE))
        drawing.add(Line(same, BLUE, 1.2, "3 4"))
    drawing.add(Text(x[1] + 26, FORWARD + HEIGHT + 22, "same shape", SMALL, colour=BLUE))
    return drawing


def _box(drawing: Drawing, x: float, y: float, formula: str, shape: str, fill: str) -> None:
    drawing.add(Rect(x, y, WIDTH, HEIGHT, fill, GREY))
    size = 15 if len(formula) < 15 else 12 if len(formula) < 20 else 11
    drawing.add(Text(x + WIDTH / 2, y + 24, formula, size, "middle"))
    drawing.add(Text(x + WIDTH / 2, y + 45, shape, 12, "middle", GREY))
