"""The two kinds of picture that labs show: lines, and matrices as heat maps."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from minititans.palette import COLOURS
from minititans.viz.style import house_style


def lines(
    series: dict[str, Tensor],
    xlabel: str,
    ylabel: str,
    x: Sequence[float] | Tensor | None = None,
    mark: tuple[float, str] | None = None,
) -> None:
    """A line for each series, by its label. mark: a place on the x axis and what happens there."""
    with house_style():
        _, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
        for below, (colour, (label, y)) in enumerate(zip(COLOURS, series.items())):
            y = y.detach()
            width = 1.7 + 1.2 * (len(series) - 1 - below)  # all can be seen where they coincide
            axes.plot(range(len(y)) if x is None else x, y, color=colour, label=label, lw=width)
        if mark is not None:
            axes.axvline(mark[0], color="grey", linestyle="--", linewidth=1, label=mark[1])
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if x is None:  # counted: tokens, rounds, writes
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))  # beside it, never in the way
        plt.show()


def matrices(named: dict[str, Tensor], rows: str = "row", columns: str = "column") -> None:
    """Heat maps side by side on one scale: blue below zero, white at zero, red above."""
    limit = max(float(matrix.detach().abs().max()) for matrix in named.values()) or 1.0
    with house_style():
        figure, all_axes = plt.subplots(
            1,
            len(named),
            figsize=(2.9 * len(named) + 0.9, 2.9),
            squeeze=False,
            layout="constrained",
        )
        for axes, (name, matrix) in zip(all_axes[0], named.items()):
            image = axes.imshow(matrix.detach(), cmap="RdBu_r", vmin=-limit, vmax=limit)
            axes.set(title=name, xlabel=columns, xticks=[], yticks=[])
        all_axes[0, 0].set(ylabel=rows)
        figure.colorbar(image, ax=all_axes[0].tolist(), shrink=0.9)
        plt.show()
