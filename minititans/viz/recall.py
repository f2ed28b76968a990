"""What a Hebbian matrix answers, and how much the other pairs interfere, as pictures."""

from minititans.experiments.hebbian import Recall, crosstalk, hebbian_recall, mean_error
from minititans.palette import BLUE, COLOURS, GREEN, GREY, RED
from minititans.viz.charts import ERROR, NORMAL, Box, Series, chart, colour_scale, heatmap
from minititans.viz.drawing import Drawing, Text
from minititans.viz.explorer import Explorer, explorer, slider, steps


def draw_crosstalk(dims: tuple[int, ...], counts: tuple[int, ...], seeds=(0, 1, 2)) -> Drawing:
    """Measured error (dots) over the theory's lines, for several dimensions."""
    drawing, series = Drawing(900, 420), []
    for dim, colour in zip(dims, COLOURS):
        measured = [mean_error(n, dim, tuple(seeds)) for n in counts]
        theory = [crosstalk(n, dim) for n in counts]
        series.append(Series(counts, theory, colour=colour, width=2))
        series.append(Series(counts, measured, f"d = {dim}", colour, width=0, dots=5))
    chart(
        drawing, Box(80, 70, 790, 290), series, ylim=(0, 4),
        title=f"Cross-talk: measured over {len(seeds)} seeds (dots), (n − 1)/d (lines)",
        xlabel="pairs n in the matrix", ylabel=ERROR,
    )  # fmt: skip
    return drawing


def draw_scores(*recalls: Recall) -> Drawing:
    """Which value each answer is like: on the diagonal its own, elsewhere cross-talk."""
    drawing = Drawing(900, 370)
    for place, recall in enumerate(recalls):
        pairs, dim = recall.keys.shape
        box = Box(30 + 295 * place, 60, 250, 250)
        heatmap(drawing, box, recall.scores(), title=f"{pairs} pairs, d = {dim}", limit=1.0)
        words = f"{recall.right():.0%} nearest to their own value"
        drawing.add(Text(box.x, 335, words, NORMAL))
    words = "How similar answers (rows) are to values (columns): dot products"
    drawing.add(Text(30, 25, words, NORMAL, bold=True))
    colour_scale(drawing, Box(700, 14, 130, 13), limit=1.0)
    return drawing


def draw_sizes(dim: int, longest: int) -> Drawing:
    """How many numbers attention and a matrix keep, against the number of pairs."""
    counts = [1, longest]
    drawing = Drawing(900, 340)
    series = [
        Series(counts, [2 * dim * n for n in counts], "attention: every key and value", BLUE),
        Series(counts, [dim * dim] * 2, f"a matrix: {dim} × {dim}", RED, dash="8 4"),
    ]
    chart(
        drawing, Box(100, 70, 770, 210), series, title=f"How many numbers are kept (d = {dim})",
        xlabel="pairs n", ylabel="", xlim=(0, longest),
        marks=[(dim / 2, f"n = d/2 = {dim // 2}", GREEN)],
    )  # fmt: skip
    drawing.add(Text(28, 175, "numbers kept", NORMAL, "middle", upwards=True))
    return drawing


def draw_recall(recall: Recall, seed: int, most: int = 256) -> Drawing:
    """One memory: where it lies on the curve of its dimension, and what it confuses."""
    pairs, dim = recall.keys.shape
    counts = sorted({1, *range(16, most + 1, 16)})
    measured = [mean_error(n, dim, (seed,)) for n in counts]
    theory = [crosstalk(n, dim) for n in counts]
    drawing = Drawing(900, 412)
    chart(
        drawing, Box(80, 66, 400, 270),
        [
            Series(counts, measured, "measured", BLUE, width=0, dots=4.5),
            Series(counts, theory, "(n − 1)/d", RED, width=2),
            Series([pairs], [recall.error()], "this memory", GREEN, width=0, dots=8),
        ],
        title=f"Squared error in d = {dim}", xlabel="pairs n",
        ylabel=ERROR, xlim=(0, most), ylim=(0, 4),
        marks=[(dim, "n = d", GREY)] if dim < most else [],
    )  # fmt: skip
    heatmap(drawing, Box(540, 66, 270, 270), recall.scores(), limit=1.0)
    drawing.add(Text(540, 28, "Answers against values", NORMAL, bold=True))
    colour_scale(drawing, Box(778, 17, 90, 13), limit=1.0)
    drawing.add(Text(540, 52, "a clean diagonal is perfect recall", 13, colour=GREY))
    words = f"{recall.right():.0%} of the answers are nearest to their own value"
    drawing.add(Text(540, 366, words, 13))
    error = f"squared error {recall.error():.2f}, expected {crosstalk(pairs, dim):.2f}"
    drawing.add(Text(80, 400, error, 13))
    kept = f"numbers kept: {dim * dim:,} (attention: {2 * dim * pairs:,})"
    drawing.add(Text(540, 388, kept, 13))
    return drawing


def recall_explorer() -> Explorer:
    """Pairs and dimension to recall."""

    def draw(pairs: int, dim: int, seed: int) -> Drawing:
        return draw_recall(hebbian_recall(pairs, dim, seed), seed)

    return explorer(
        draw,
        pairs=slider(32, 1, 256, 1, "pairs n"),
        dim=steps(32, [8, 16, 32, 64, 128], "dimension d"),
        seed=slider(0, 0, 9, 1, "another draw"),
    )
