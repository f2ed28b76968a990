"""Hebb's rule and the delta rule side by side: one key overwritten, and many pairs."""

from minititans.experiments.hebbian import crosstalk
from minititans.experiments.writing import Overwrite, delta_error
from minititans.palette import BLUE, GREEN, RED
from minititans.viz.charts import ERROR, Box, Series, bars, chart
from minititans.viz.drawing import Drawing


def draw_overwrite(result: Overwrite) -> Drawing:
    drawing = Drawing(900, 150)
    titles = ("old value", "new value", "Hebb answers", "delta answers")
    for place, (title, vector) in enumerate(zip(titles, vars(result).values())):
        bars(drawing, Box(30 + 215 * place, 40, 190, 95), vector, title=title, limit=1.0)
    return drawing


def draw_comparison(
    dim: int, counts: tuple[int, ...], passes: tuple[int, int] = (1, 10)
) -> Drawing:
    """Error against the number of pairs: Hebb's curve, and delta after few and many readings."""
    few, many = passes
    series = [
        Series(counts, [crosstalk(n, dim) for n in counts], "Hebb, (n − 1)/d", RED, dash="7 4"),
        *(
            Series(counts, [delta_error(n, dim, p) for n in counts], label, colour, dots=4)
            for p, label, colour in (
                (few, f"delta, {few} reading{'s' if few > 1 else ''}", BLUE),
                (many, f"delta, {many} readings", GREEN),
            )
        ),
    ]
    drawing = Drawing(900, 380)
    chart(
        drawing, Box(80, 70, 790, 250), series, ylim=(0, 1.5),
        title=f"Correcting holds more than adding (d = {dim})",
        xlabel="pairs n in the matrix", ylabel=ERROR,
    )  # fmt: skip
    return drawing
