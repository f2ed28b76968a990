"""What depth does: error against pairs, lengths and dimensions, and the depth explorer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from minititans.experiments.depth import Learner
from minititans.experiments.depth_grid import SLOPES, Result
from minititans.experiments.depth_maps import PAIRS, DepthTrace, Race, depth_trace
from minititans.experiments.fading import ADDING, PLAIN, Fading
from minititans.palette import BLUE, GREEN, GREY, INK, ORANGE, PALE, RED
from minititans.viz.charts import ERROR, NORMAL, Box, Series, add_legend, chart
from minititans.viz.drawing import Drawing, Text
from minititans.viz.explorer import Explorer, choice, explorer, slider, steps

COLOURS = {1: BLUE, 2: ORANGE, 3: GREEN, 4: RED}
DASHES = {1: "", 2: "9 4", 3: "3 3", 4: "12 3 3 3"}  # so that the lines differ in grey too


def draw_fit(
    angles: Tensor, values: Tensor, grid: Tensor, answers: Mapping[int, Tensor], title: str
) -> Drawing:
    """Pairs as dots over the angle of their key, and the answers of each depth as a line."""
    drawing = Drawing(900, 400)
    dots = Series(angles.rad2deg(), values, "pairs", GREY, width=0, dots=2.5)
    lines = [
        Series(grid.rad2deg(), y, f"depth {depth}", COLOURS[depth], DASHES[depth], width=3)
        for depth, y in answers.items()
    ]
    chart(
        drawing, Box(80, 75, 780, 250), [dots, *lines], title=title,
        xlabel="angle of the key (degrees)", ylabel="value", ylim=(-1.6, 1.6),
    )  # fmt: skip
    return drawing


def binned(curve: Tensor) -> tuple[list[float], list[float]]:
    """A noisy curve as its means over stretches that grow: 0, 1, 2-3, 4-7, ... pairs read.

    Gives the number of pairs in each stretch's middle, and the mean there.

    >>> import torch
    >>> binned(torch.tensor([4.0, 3.0, 2.0, 1.0]))
    ([1.0, 2.5], [3.0, 1.5])
    """
    places, means, first = [], [], 1
    while first < len(curve):
        last = min(2 * first, len(curve))
        places.append((first + last - 1) / 2)
        means.append(curve[first:last].mean().item())
        first = last
    return places, means


def draw_curves(race: Race) -> Drawing:
    """Error against the pairs read: a panel for each kind of map, a line for each depth.

    The best matrix is a dotted line; where its error is almost zero, the axis is logarithmic, so
    that small errors can be told apart.
    """
    width = 820 / len(race.curves) - 70
    drawing, best, lines = Drawing(900, 430), None, []
    drawing.add(Text(75, 24, "Errors of predictions on new maps", NORMAL, bold=True))
    for place, (name, curves) in enumerate(race.curves.items()):
        box = Box(75 + place * (width + 80), 105, width, 250)
        lines = depth_lines({depth: binned(curve.mean(0)) for depth, curve in curves.items()})
        ends = [min(line.x[0] for line in lines), max(line.x[-1] for line in lines)]
        floor = race.best[name].mean().item()
        best = Series(ends, [floor] * 2, "the best matrix", INK, "2 3", width=1.5)
        small = floor < 0.01
        chart(
            drawing, box, lines if small else [*lines, best], title=f"{name} maps", log_x=True,
            xlabel="pairs read", ylabel=ERROR + ", log" * small,
            ylim=(0.003, 1.5) if small else (0, 1.4), log_y=small,
            marks=[(race.trained, "trained to here", GREY)], legend=False,
        )  # fmt: skip
    add_legend(drawing, 75, 48, [*lines, best])
    return drawing


def draw_fading(fading: Fading) -> Drawing:
    """Error of memories whose lower layers have faded, against the share of them that is left."""
    drawing, left = Drawing(900, 400), fading.config.left
    colours = {PLAIN: RED, ADDING: BLUE}
    lines = [
        Series(left, errors.mean(0), f"{layers} layers, depth {depth}", colours[layers],
               DASHES[depth - 1], dots=4)
        for (layers, depth), errors in fading.errors.items()
    ]  # fmt: skip
    matrix = Series([left[-1], left[0]], [fading.matrix.mean()] * 2, "", INK, "2 3", width=1.5)
    chart(
        drawing, Box(80, 75, 780, 250), [*lines, matrix],
        title="Error of a memory whose lower layers have faded (dotted: a matrix)",
        xlabel="share left of the layers below the last", ylabel=ERROR, log_x=True, ylim=(0, 1.1),
    )  # fmt: skip
    return drawing


def draw_recall(pairs: Sequence[int], errors: Mapping[int, Sequence[Tensor]], dim: int) -> Drawing:
    """Error of recall against the number of pairs, and the theory for a matrix, 1 − dim / pairs."""
    drawing = Drawing(900, 400)
    lines = depth_lines({d: (pairs, [e.mean().item() for e in es]) for d, es in errors.items()})
    theory = [max(0.0, 1 - dim / n) for n in pairs]
    best = Series(pairs, theory, "best matrix, in theory", INK, "2 3", width=1.5)
    chart(
        drawing, Box(80, 75, 780, 250), [*lines, best], title="Recall of lists of random pairs",
        xlabel="pairs in the list", ylabel=ERROR, log_x=True, ylim=(0, 1.5),
    )  # fmt: skip
    return drawing


def draw_grid(results: Sequence[Result], kind: str, dim: int = 4, pairs: int = 128) -> Drawing:
    """Error against the sequence's length (left) and against the dimension of a key (right)."""
    drawing = Drawing(900, 430)
    drawing.add(Text(80, 24, f"Mean error over a sequence, {kind} maps", NORMAL, bold=True))
    lengths = means_by_depth([r for r in results if r.dim == dim], kind, "pairs")
    dims = means_by_depth([r for r in results if r.pairs == pairs], kind, "dim")
    for x, points, xlabel, title in (
        (80, lengths, "length of the sequence (pairs)", f"Keys of {dim} numbers"),
        (540, dims, "numbers in a key", f"Sequences of {pairs} pairs"),
    ):
        top = 1.1 * max(max(ys) for _, ys in points.values())
        chart(
            drawing, Box(x, 105, 330, 250), depth_lines(points), title=title, xlabel=xlabel,
            ylabel=ERROR, log_x=True, ylim=(0, top), legend=False,
        )  # fmt: skip
    add_legend(drawing, 80, 48, depth_lines(lengths))
    return drawing


def means_by_depth(results: Sequence[Result], kind: str, x: str) -> dict[int, tuple[list, list]]:
    """For each depth the field `x` of its results, and the mean of their errors over the seeds."""
    points: dict[int, tuple[list, list]] = {}
    for result in results:
        xs, ys = points.setdefault(result.depth, ([], []))
        xs.append(getattr(result, x))
        ys.append(sum(result.errors[kind]) / len(result.errors[kind]))
    return points


def draw_times(
    depths: Sequence[int], seconds: Sequence[float], line: tuple[float, float]
) -> Drawing:
    """Milliseconds of a training step against depth, and the straight line through them."""
    drawing = Drawing(900, 370)
    points = Series(depths, [1e3 * s for s in seconds], "measured", BLUE, width=0, dots=6)
    fit = [1e3 * (line[0] + line[1] * depth) for depth in depths]
    chart(
        drawing, Box(80, 75, 780, 220), [Series(depths, fit, "straight line", ORANGE), points],
        title="Time of a training step", xlabel="depth of the memory (layers)",
        ylabel="milliseconds", xticks=depths,
    )  # fmt: skip
    return drawing


def depth_lines(points: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> list[Series]:
    """A line for each depth in its colour and dash."""
    return [
        Series(x, y, f"depth {depth}", COLOURS[depth], DASHES[depth], dots=2.5)
        for depth, (x, y) in points.items()
    ]


def draw_depth(trace: DepthTrace, race: Race, kind: str, depth: int, pairs: int) -> Drawing:
    """Left what the memory answers, right how every depth's error falls with the pairs read."""
    drawing = Drawing(900, 450)
    ours, best = trace.error(trace.answer), trace.error(trace.matrix)
    truth, dots = trace.truth.flatten(), {"width": 0, "dots": 3}
    matrix = Series(truth, trace.matrix.flatten(), f"best matrix ({best:.2f})", PALE, **dots)
    answer = Series(
        truth, trace.answer.flatten(), f"depth {depth} ({ours:.2f})", COLOURS[depth], **dots
    )
    right = Series([-1.5, 1.5], [-1.5, 1.5], "right", INK, width=1)
    chart(
        drawing, Box(75, 75, 320, 310), [right, matrix, answer],
        title=f"Answers for new keys after {pairs} pairs (error)", xlabel="true value",
        ylabel="answer", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5),
    )  # fmt: skip
    lines = depth_lines({each: binned(curve.mean(0)) for each, curve in race.curves[kind].items()})
    lines = [
        replace(line, width=4.5 if line.label == f"depth {depth}" else 1.2, dots=0)
        for line in lines
    ]
    chart(
        drawing, Box(500, 75, 370, 310), lines, title="The mean over 64 maps",
        xlabel="pairs read", ylabel=ERROR, log_x=True, xlim=(1, 600), ylim=(0, 1.2),
        marks=[(pairs, "", INK)] if pairs else [],
    )  # fmt: skip
    return drawing


def depth_explorer(learners: Mapping[int, Learner], race: Race) -> Explorer:
    """Choose a map, a depth and how many pairs are read; the answers and the errors follow."""

    def draw(kind: str, number: int, depth: int, pairs: int) -> Drawing:
        trace = depth_trace(learners[depth], SLOPES[kind], pairs, number)
        return draw_depth(trace, race, kind, depth, pairs)

    return explorer(
        draw,
        kind=choice("folded", list(SLOPES), "kind of map"),
        number=slider(1, 1, 20, 1, "map number"),
        depth=steps(1, list(learners), "depth"),
        pairs=steps(128, PAIRS, "pairs read"),
    )
