"""The exact errors of a chunk: the loop over tokens beside the triangular system it becomes."""

from torch import Tensor

from minititans.palette import GREY, INK, WHITE
from minititans.viz.charts import NORMAL, Box, heatmap
from minititans.viz.drawing import Drawing, Line, Text

TOP, SIDE = 96, 272  # of the matrices
COLUMNS = {"left": (330, SIDE), "E": (650, 90), "right": (780, 90)}  # x and width


def draw_triangle(left: Tensor, E: Tensor, right: Tensor, row: int) -> Drawing:
    """The loop over tokens, and beside it the triangular system whose row t is the loop's step t.

    left: `[b, b]` with ones on its diagonal; E and right: `[b, dim]`; row: the token whose row is
    framed and written out, from 1.
    """
    drawing, tokens = Drawing(900, 484), len(left)
    step = SIDE / tokens
    _draw_loop(drawing, tokens, row, step)
    _draw_system(drawing, left, E, right, step)
    y = TOP + (row - 1) * step
    for x, width in ((36, 220), *COLUMNS.values()):
        corners = ((x, y), (x + width, y), (x + width, y + step), (x, y + step), (x, y))
        drawing.add(Line(corners, INK, 2))
    drawing.add(Text(330, 446, equation(left[row - 1].tolist(), row), NORMAL))
    note = f"The earlier errors are known by then, so e{_below(row)} follows."
    drawing.add(Text(330, 468, note, 13))
    return drawing


def equation(numbers: list[float], row: int) -> str:
    """One row of the system, written out.

    >>> equation([0.5, -0.25, 1.0, 0.0], row=3)
    'Row 3:  0.50 e₁ − 0.25 e₂ + e₃ = r₃'
    """
    text = ""
    for i, number in enumerate(numbers[: row - 1], start=1):
        text += f" {'−' if number < 0 else '+'} {abs(number):.2f} e{_below(i)}"
    return f"Row {row}:  {f'{text} + e{_below(row)}'.removeprefix(' + ').strip()} = r{_below(row)}"


def _draw_loop(drawing: Drawing, tokens: int, row: int, step: float) -> None:
    drawing.add(Text(30, 24, "The loop: token by token", NORMAL, bold=True))
    drawing.add(Text(30, 46, "each error waits for the write before it", 13))
    for t in range(1, tokens + 1):
        y, now, before = TOP + (t - 0.5) * step, _below(t), _below(t - 1)
        bold = t == row
        drawing.add(Text(44, y + 5, f"e{now} = v{now} − M{before} k{now}", NORMAL, bold=bold))
        drawing.add(Text(206, y + 5, f"→ M{now}", NORMAL, bold=bold))
        if t < tokens:  # the write reaches the next error
            tip = (130, y + step - 11)
            drawing.add(Line(((222, y + 11), tip), GREY, 1.2))
            drawing.add(Line(((138, y + step - 17), tip, (140, y + step - 9)), GREY, 1.2))


def _draw_system(drawing: Drawing, left: Tensor, E: Tensor, right: Tensor, step: float) -> None:
    drawing.add(Text(330, 24, "The triangle: one system for all errors", NORMAL, bold=True))
    drawing.add(Text(330, 46, "row t is step t of the loop", 13))
    for (x, width), matrix, above, formula, words in zip(
        COLUMNS.values(),
        (left, E, right),
        ("", "the errors", "right side r"),
        ("I + G⁻ ⊙ (K Kᵀ)", "E", "V − β⁻ ⊙ (K M₀ᵀ)"),
        ("known: how much each earlier error counts", "unknown", "known"),
        strict=True,
    ):
        heatmap(drawing, Box(x, TOP, width, SIDE), matrix.detach())
        drawing.add(Text(x + width / 2, TOP - 8, above, 13, "middle"))
        drawing.add(Text(x + width / 2, TOP + SIDE + 22, formula, 14, "middle"))
        drawing.add(Text(x + width / 2, TOP + SIDE + 42, words, 13, "middle", GREY))
    for x, sign in ((626, "×"), (760, "=")):
        drawing.add(Text(x, TOP + SIDE / 2 + 6, sign, 20, "middle"))
    x, _ = COLUMNS["left"]
    for t in range(len(left)):  # column t multiplies error t; its own row has a 1 there
        middle = x + (t + 0.5) * step
        drawing.add(Text(middle, TOP - 8, f"e{_below(t + 1)}", 13, "middle"))
        drawing.add(Text(middle, TOP + (t + 0.5) * step + 5, "1", 14, "middle", WHITE))
    drawing.add(Text(x + SIDE - 10, TOP + 24, "zeros: no error needs a later one", 13, "end", GREY))


def _below(number: int) -> str:
    """
    >>> _below(12)
    '₁₂'
    """
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number))
