"""A chunk as matrices: pictures of H, D and G, of costs, and the explorer."""

from torch import Tensor

from minititans.experiments.chunk_costs import Cost
from minititans.experiments.chunks import OWN, SAME, SIZES, ChunkTrace, Freezing, chunk_trace
from minititans.palette import BLUE, INK, ORANGE, RED
from minititans.viz.charts import ERROR, Box, Series, chart, heatmap
from minititans.viz.drawing import Drawing, Text
from minititans.viz.explorer import Explorer, choice, explorer, slider, steps

TITLES = {
    "H": "H: surprise i still in Sₜ",
    "D": "D: write s still in Mₜ",
    "G": "G: surprise i now in Mₜ",
}
WORST = 100.0  # an error that is drawn as "diverged"
SIZE = "chunk size b (tokens)"


def draw_gate_matrices(H: Tensor, D: Tensor, G: Tensor) -> Drawing:
    """Three heat maps side by side: rows are tokens t, columns are tokens i, later is lower."""
    drawing = Drawing(900, 310)
    _gate_matrices(drawing, H, D, G, side=220)
    return drawing


def _gate_matrices(drawing: Drawing, H: Tensor, D: Tensor, G: Tensor, side: float) -> None:
    for place, (name, matrix) in enumerate({"H": H, "D": D, "G": G}.items()):
        box = Box(80 + 285 * place, 40, side, side)
        heatmap(drawing, box, matrix.detach(), title=TITLES[name])
        column = "token s →" if name == "D" else "token i →"
        drawing.add(Text(box.x - 8, box.y + side - 5, "← token t", 13, upwards=True))
        drawing.add(Text(box.x, box.y + side + 18, column, 13))
        darkest = f"darkest: {matrix.abs().max().item():.2g}"
        drawing.add(Text(box.x + side, box.y + side + 18, darkest, 13, "end"))


def draw_freezing(frozen: Freezing, exact: Freezing | None = None) -> Drawing:
    """Error and best theta against the chunk size, a thin line for each seed."""
    drawing = Drawing(900, 395)
    for x, of, title, ylabel in (
        (80, lambda each: each.best, "Error with the best theta (thin: each seed)", ERROR),
        (540, lambda each: each.best_theta, "The best theta (thin: each seed)", "theta"),
    ):
        series = []
        for each, name, colour in ((frozen, "frozen", BLUE), (exact, "exact", ORANGE)):
            if each is not None:
                sizes, values = each.config.sizes, of(each)
                series += [Series(sizes, row, colour=colour, width=1) for row in values]
                series.append(Series(sizes, values.mean(0), name, colour, width=3, dots=4))
        chart(
            drawing, Box(x, 75, 330, 250), series, title=title, xlabel=SIZE, ylabel=ylabel,
            log_x=True, log_y=True,
        )  # fmt: skip
    return drawing


def draw_costs(cost: Cost) -> Drawing:
    """Time and memory of a training step against the chunk size."""
    drawing, sizes = Drawing(900, 400), cost.config.sizes
    looks = dict(zip(cost.seconds, ((ORANGE, ""), (BLUE, "9 4"), (RED, "3 3"))))
    for x, table, unit, title, ylabel in (
        (80, cost.seconds, 1e3, "Time of a training step", "milliseconds"),
        (540, cost.kept, 1e-6, "Kept for the backward pass", "megabytes"),
    ):
        series = [
            Series(sizes, [unit * number for number in numbers], name, *looks[name], dots=4)
            for name, numbers in table.items()
        ]
        chart(
            drawing, Box(x, 75, 330, 250), series, title=title, xlabel=SIZE, ylabel=ylabel,
            log_x=True, log_y=True,
        )  # fmt: skip
    return drawing


def draw_chunk(trace: ChunkTrace) -> Drawing:
    """H, D and G of the first chunk; below, the error against the chunk size."""
    drawing = Drawing(900, 500)
    _gate_matrices(drawing, trace.H, trace.D, trace.G, side=160)
    frozen, exact = ([min(e, WORST) for e in x] for x in (trace.frozen, [trace.exact] * len(SIZES)))
    here = SIZES.index(trace.size)
    words = [f"{e[here]:.3g}" if e[here] < WORST else "diverged" for e in (frozen, exact)]
    chart(
        drawing, Box(80, 295, 780, 150),
        [
            Series(SIZES, frozen, f"frozen: {words[0]}", BLUE, dots=3),
            Series(SIZES, exact, f"exact: {words[1]}", ORANGE, "9 4"),
            Series([trace.size] * 2, [frozen[here], exact[here]], colour=INK, width=0, dots=6),
        ],
        title=f"Error of the predictions, chunks of {trace.size}", xlabel=SIZE, ylabel=ERROR,
        ylim=(min(0.1, *frozen, *exact), WORST), log_x=True, log_y=True,
    )  # fmt: skip
    return drawing


def chunk_explorer() -> Explorer:
    """Chunk size and gates on sliders; H, D, G and the errors follow."""
    return explorer(
        lambda **values: draw_chunk(chunk_trace(**values)),
        size=steps(16, SIZES, "chunk size"),
        theta=slider(0.6, 0.0, 1.0, 0.05, "theta"),
        eta=slider(0.5, 0.0, 1.0, 0.05, "eta"),
        alpha=slider(0.05, 0.0, 1.0, 0.05, "alpha"),
        gates=choice(SAME, [SAME, OWN], "gates"),
    )
