"""What depth does: error against pairs, lengths and dimensions, and the depth explorer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minititans.experiments.depth import Learner, learning_curve
from minititans.experiments.depth_grid import SLOPES, Result
from minititans.memory import MemoryState, chunked
from minititans.memory.network import read
from minititans.tasks.maps import Maps, unit_vectors
from minititans.viz.charts import ERROR, GREY, NORMAL, Box, Series, add_legend, chart
from minititans.viz.drawing import INK, PALE, Drawing, Text
from minititans.viz.explorer import Explorer, choice, explorer, slider, steps
from minititans.viz.style import BLUE, GREEN, ORANGE, RED

COLOURS = {1: BLUE, 2: ORANGE, 3: GREEN, 4: RED}
DASHES = {1: "", 2: "9 4", 3: "3 3", 4: "12 3 3 3"}  # so that the lines differ in grey too
PAIRS = (0, 8, 16, 32, 64, 128, 256, 512)
ASKED = 60  # keys that the explorer asks for


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


def draw_curves(
    panels: Mapping[str, Mapping[int, Tensor]], floors: Mapping[str, float], trained: int
) -> Drawing:
    """Error against the pairs read, a panel a task, a line a depth (`[seeds, pairs]` each).

    floors: the error of the best matrix, a dotted line; where it is almost zero, the axis is
    logarithmic, so that small errors can be told apart.
    """
    width = 820 / len(panels) - 70
    drawing, best, lines = Drawing(900, 430), None, []
    drawing.add(Text(75, 24, "Error of predictions on new maps", NORMAL, bold=True))
    for place, (name, curves) in enumerate(panels.items()):
        box = Box(75 + place * (width + 80), 105, width, 250)
        lines = depth_lines({depth: binned(curve.mean(0)) for depth, curve in curves.items()})
        ends = [min(line.x[0] for line in lines), max(line.x[-1] for line in lines)]
        best = Series(ends, [floors[name]] * 2, "the best matrix", INK, "2 3", width=1.5)
        small = floors[name] < 0.01
        chart(
            drawing, box, lines if small else [*lines, best], title=f"{name} maps", log_x=True,
            xlabel="pairs read", ylabel=ERROR + ", log" * small,
            ylim=(0.003, 1.5) if small else (0, 1.2), log_y=small,
            marks=[(trained, "trained", GREY)], legend=False,
        )  # fmt: skip
    add_legend(drawing, 75, 48, [*lines, best])
    return drawing


def draw_recall(pairs: Sequence[int], errors: Mapping[int, Sequence[Tensor]], dim: int) -> Drawing:
    """Error of recall against the number of pairs, and the theory for a matrix, 1 − dim / pairs."""
    drawing = Drawing(900, 400)
    lines = depth_lines({d: (pairs, [e.mean().item() for e in es]) for d, es in errors.items()})
    theory = [max(0.0, 1 - dim / n) for n in pairs]
    best = Series(pairs, theory, "best matrix, in theory", INK, "2 3", width=1.5)
    chart(
        drawing, Box(80, 75, 780, 250), [*lines, best], title="Random pairs, asked again",
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


@dataclass(frozen=True)
class DepthTrace:
    """What one memory knows of one map after some pairs: values of keys it has not read.

    truth, matrix, answer: `[asked, dim]`; matrix is the answer of the best matrix for all pairs
    """

    truth: Tensor
    matrix: Tensor
    answer: Tensor

    def error(self, answer: Tensor) -> float:
        return (answer - self.truth).square().sum(-1).mean().item()


@torch.no_grad()
def depth_trace(learner: Learner, slope: float, pairs: int, number: int = 1) -> DepthTrace:
    """Let the first seed's memory read some pairs of a map, then ask it for other keys.

    number: which map; every number is another random one.
    """
    config = learner.config
    rng = torch.Generator().manual_seed(number)
    asked = unit_vectors(ASKED, config.maps.dim, rng)
    maps = Maps(config.maps.dim, config.maps.units, slope)
    keys, values = maps.batch(1, max(PAIRS), rng, asked)  # [1, pairs + asked, dim]
    matrix = torch.linalg.lstsq(keys, values).solution[0]
    alone = replace(learner, weights=[w[:1] for w in learner.weights], raw=learner.raw[:, :1])
    state = MemoryState.start(alone.weights, 1)
    if pairs > 0:
        k, v = keys[None, :, :pairs], values[None, :, :pairs]
        gates = alone.gates(1, pairs)
        _, state = chunked(k, k, v, gates, state, config.chunk_size)
    answer = read(state.weights, asked[None, None])[0, 0]
    return DepthTrace(values[0, max(PAIRS) :], asked @ matrix, answer)


def draw_depth(trace: DepthTrace, curves: Mapping[int, Tensor], depth: int, pairs: int) -> Drawing:
    """Left what the memory answers, right how every depth's error falls with the pairs read."""
    drawing = Drawing(900, 460)
    ours, best = trace.error(trace.answer), trace.error(trace.matrix)
    truth, dots = trace.truth.flatten(), {"width": 0, "dots": 3}
    matrix = Series(truth, trace.matrix.flatten(), f"best matrix ({best:.2f})", PALE, **dots)
    answer = Series(
        truth, trace.answer.flatten(), f"depth {depth} ({ours:.2f})", COLOURS[depth], **dots
    )
    right = Series([-1.5, 1.5], [-1.5, 1.5], "right", INK, width=1)
    chart(
        drawing, Box(75, 75, 320, 320), [right, matrix, answer],
        title=f"Answers for new keys after {pairs} pairs (error)", xlabel="true value",
        ylabel="answer", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5),
    )  # fmt: skip
    lines = depth_lines({each: binned(curve.mean(0)) for each, curve in curves.items()})
    lines = [
        replace(line, width=4.5 if line.label == f"depth {depth}" else 1.2, dots=0)
        for line in lines
    ]
    chart(
        drawing, Box(500, 75, 370, 320), lines, title="The mean over many maps",
        xlabel="pairs read", ylabel=ERROR, log_x=True, xlim=(1, 600), ylim=(0, 1.2),
        marks=[(pairs, "", INK)] if pairs else [],
    )  # fmt: skip
    return drawing


def depth_explorer(learners: Mapping[int, Learner]) -> Explorer:
    """Choose a map, a depth and how many pairs are read; the answers and the errors follow."""
    curves = {
        kind: {
            depth: learning_curve(each, slope, max(PAIRS), tasks=16)
            for depth, each in learners.items()
        }
        for kind, slope in SLOPES.items()
    }

    def draw(kind: str, number: int, depth: int, pairs: int) -> Drawing:
        trace = depth_trace(learners[depth], SLOPES[kind], pairs, number)
        return draw_depth(trace, curves[kind], depth, pairs)

    return explorer(
        draw,
        kind=choice("folded", list(SLOPES), "kind of map"),
        number=slider(1, 1, 20, 1, "map number"),
        depth=steps(3, list(learners), "depth"),
        pairs=steps(128, PAIRS, "pairs read"),
    )
