"""A chunk as matrices: pictures of H, D and G, of what chunks cost and buy, and the explorer."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from minititans.experiments.chunks import Cost, Freezing
from minititans.experiments.timing import fastest
from minititans.memory import Gates, MemoryState, chunked, segment_products
from minititans.tasks.maps import STRAIGHT, Maps
from minititans.viz.charts import ERROR, Box, Series, chart, heatmap
from minititans.viz.drawing import INK, Drawing, Text
from minititans.viz.explorer import Explorer, choice, explorer, slider, steps
from minititans.viz.style import BLUE, GREEN, ORANGE, RED

TITLES = {
    "H": "H: of surprise i, in S_t",
    "D": "D: of a write at s, left at t",
    "G": "G: of surprise i, in M_t",
}
SIZES = (1, 2, 4, 8, 16, 32, 64)
SAME, OWN = "the same for all", "its own for each"
WORST = 100.0  # an error that is drawn as "diverged"


def draw_gate_matrices(H: Tensor, D: Tensor, G: Tensor) -> Drawing:
    """Three heat maps side by side: rows are tokens t, columns are tokens i, later is lower."""
    drawing = Drawing(900, 310)
    _gate_matrices(drawing, H, D, G)
    return drawing


def _gate_matrices(drawing: Drawing, H: Tensor, D: Tensor, G: Tensor) -> None:
    for place, (name, matrix) in enumerate({"H": H, "D": D, "G": G}.items()):
        box = Box(70 + 285 * place, 50, 220, 220)
        heatmap(drawing, box, matrix.detach(), title=TITLES[name])
        column = "token s →" if name == "D" else "token i →"
        drawing.add(Text(box.x - 8, box.y + 215, "← token t", 13, upwards=True))
        drawing.add(Text(box.x, box.y + 238, column, 13))
        full = f"full colour: {matrix.abs().max().item():.2g}"
        drawing.add(Text(box.x + 220, box.y + 238, full, 13, "end"))


def draw_freezing(freezing: Freezing) -> Drawing:
    """Error and best theta against the chunk size, a thin line for each seed."""
    drawing, sizes = Drawing(900, 395), freezing.config.sizes
    for x, values, title, ylabel, colour in (
        (80, freezing.best, "Error with the best theta", ERROR, BLUE),
        (540, freezing.best_theta, "The best theta", "theta", ORANGE),
    ):
        lines = [
            Series(sizes, row, "" if i else "one line a seed", colour, width=1)
            for i, row in enumerate(values)
        ]
        mean = Series(sizes, values.mean(0), "their mean", colour, width=3, dots=4)
        box = Box(x, 75, 330, 250)
        chart(
            drawing, box, [*lines, mean], title=title, xlabel="chunk size b (tokens)",
            ylabel=ylabel, log_x=True, log_y=True,
        )  # fmt: skip
    return drawing


def draw_costs(cost: Cost) -> Drawing:
    """Time and memory of a training step against the chunk size."""
    drawing, sizes = Drawing(900, 400), cost.config.sizes
    colours = dict(zip(cost.seconds, (BLUE, RED)))
    for x, table, unit, title, ylabel in (
        (80, cost.seconds, 1e3, "Time of a training step", "milliseconds"),
        (540, cost.kept, 1e-6, "Kept for the backward pass", "megabytes"),
    ):
        series = [
            Series(sizes, [unit * number for number in numbers], name, colours[name], dots=4)
            for name, numbers in table.items()
        ]
        chart(
            drawing, Box(x, 75, 330, 250), series, title=title, xlabel="chunk size b (tokens)",
            ylabel=ylabel, log_x=True, log_y=True,
        )  # fmt: skip
    return drawing


@dataclass(frozen=True)
class ChunkTrace:
    """What the explorer shows.

    H, D, G: of the first chunk, `[size, size]`
    errors:  of predictions over the sequence, for each of `SIZES` with these gates
    """

    size: int
    H: Tensor
    D: Tensor
    G: Tensor
    errors: list[float]


@torch.no_grad()
def chunk_trace(size: int, theta: float, eta: float, alpha: float, gates: str) -> ChunkTrace:
    """Read 64 pairs of a random straight map with a matrix, in chunks of every size."""
    keys, values, wobble = _sequence()
    if gates == SAME:
        wobble = torch.ones_like(wobble)
    # Each token's own gates lie between nothing and what the slider says; theta keeps 1/4.
    all_gates = Gates(theta * (0.25 + 0.75 * wobble[0]), eta * wobble[1], alpha * wobble[2])
    H = segment_products(all_gates.eta[0, 0, :size]) * all_gates.theta[0, 0, :size]
    D = segment_products(1 - all_gates.alpha[0, 0, :size])
    errors = []
    for each in SIZES:
        y = _read(keys, values, all_gates, each)
        error = (y[:, :, :-1] - values[:, :, 1:]).square().sum(-1).mean().item()
        errors.append(min(error, WORST) if error == error else WORST)  # NaN has diverged too
    return ChunkTrace(size, H, D, D @ H, errors)


def draw_chunk(trace: ChunkTrace, milliseconds: list[float]) -> Drawing:
    """H, D and G of the first chunk; below, error and time against the chunk size."""
    drawing = Drawing(900, 660)
    _gate_matrices(drawing, trace.H, trace.D, trace.G)
    here = SIZES.index(trace.size)
    floor = min(0.1, *trace.errors)
    titles = f"Error, chunks of {trace.size}: ", f"Time, chunks of {trace.size}: "
    error, time = trace.errors[here], milliseconds[here]
    words = "diverged" if error >= WORST else f"{error:.3g}"
    for x, numbers, title, ylabel, colour, ylim in (
        (80, trace.errors, titles[0] + words, ERROR, BLUE, (floor, WORST)),
        (540, milliseconds, titles[1] + f"{time:.2g} ms", "milliseconds", GREEN, None),
    ):
        line = Series(SIZES, numbers, colour=colour, dots=3)
        point = Series([trace.size], [numbers[here]], colour=INK, width=0, dots=7)
        chart(
            drawing, Box(x, 360, 330, 230), [line, point], title=title, ylabel=ylabel, ylim=ylim,
            xlabel="chunk size b (tokens)", log_x=True, log_y=True,
        )  # fmt: skip
    return drawing


def chunk_explorer() -> Explorer:
    """Chunk size and gates on sliders; H, D, G, the error and the time follow."""
    milliseconds = reading_milliseconds()
    return explorer(
        lambda **values: draw_chunk(chunk_trace(**values), milliseconds),
        size=steps(16, SIZES, "chunk size"),
        theta=slider(0.6, 0.0, 1.0, 0.05, "theta"),
        eta=slider(0.5, 0.0, 1.0, 0.05, "eta"),
        alpha=slider(0.05, 0.0, 1.0, 0.05, "alpha"),
        gates=choice(OWN, [SAME, OWN], "gates"),
    )


@lru_cache(maxsize=1)
def reading_milliseconds() -> list[float]:
    """How long reading the explorer's sequence takes with each of `SIZES`, measured once."""
    keys, values, _ = _sequence()
    gates = Gates.constant(0.1, 0.5, 0.05, keys.shape[:3], dtype=keys.dtype)
    sides = {size: lambda size=size: _read(keys, values, gates, size) for size in SIZES}
    with torch.no_grad():
        seconds = fastest(sides, rounds=5)
    return [1e3 * seconds[size] for size in SIZES]


@lru_cache(maxsize=1)
def _sequence() -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values `[1, 1, 64, 8]`, and random numbers from 0 to 1 for three gates."""
    rng = torch.Generator().manual_seed(0)
    keys, values = Maps(dim=8, units=16, slope=STRAIGHT).batch(1, max(SIZES), rng)
    wobble = torch.rand(3, 1, 1, max(SIZES), generator=rng, dtype=torch.float64)
    return keys[None].double(), values[None].double(), wobble


def _read(keys: Tensor, values: Tensor, gates: Gates, size: int) -> Tensor:
    """Before each pair, the prediction of its value: row t answers for pair t + 1."""
    start = MemoryState.start([keys.new_zeros(1, keys.shape[-1], keys.shape[-1])], 1)
    return chunked(keys.roll(-1, 2), keys, values, gates, start, size, exact=False)[0]
