"""One chart on a drawing of the usual width: what most figures of the course are."""

from collections.abc import Sequence

from minititans.viz.charts import Box, Series, chart
from minititans.viz.drawing import Drawing


def single_chart(series: Sequence[Series], height: float = 380, **options) -> Drawing:
    """A drawing that holds one chart; `options` are those of `chart`.

    >>> drawing = single_chart([Series([1, 2], [3, 4], "a line")], title="Two points")
    >>> drawing, "Two points" in drawing.texts()
    (Drawing(900 × 380), True)
    """
    drawing = Drawing(900, height)
    chart(drawing, Box(80, 64, 790, height - 124), series, **options)
    return drawing
