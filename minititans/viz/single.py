"""One chart on a drawing of the usual width: what most figures of the course are."""

from collections.abc import Sequence

from torch import Tensor

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


def gates_chart(gates: Sequence[tuple[Tensor, str, str]], **options) -> Drawing:
    """How gates moved during training, one line per seed; each is `([steps, seeds], name, colour)`.

    >>> import torch
    >>> gates_chart([(torch.rand(5, 3), "alpha", "red")], title="A gate", ylabel="alpha")
    Drawing(900 × 380)
    """
    series = [
        Series(range(1, len(course) + 1), course, "" if number else name, colour, width=2)
        for gate, name, colour in gates
        for number, course in enumerate(gate.T)
    ]
    return single_chart(series, xlabel="training step", ylim=(0, 1), **options)
