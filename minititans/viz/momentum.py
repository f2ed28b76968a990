"""Pictures of a surprise that lingers: functions of what `experiments/momentum.py` and
`experiments/glimpses.py` measured, and the event explorer."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from minititans.experiments.glimpses import Learned
from minititans.experiments.momentum import EventTrace, chunk_matrix, read_event
from minititans.viz.charts import GREY, Box, Series, chart
from minititans.viz.drawing import Drawing, Text
from minititans.viz.explorer import Explorer, explorer, slider
from minititans.viz.single import single_chart
from minititans.viz.style import BLUE, COLOURS, GREEN, ORANGE, PURPLE, RED

# A colour for each way to write, the same in every figure.
WITH, SAME_THETA, SAME_TOTAL = BLUE, RED, ORANGE


def draw_event(trace: EventTrace, others: Mapping[str, EventTrace] | None = None) -> Drawing:
    """Both surprises over time, and below how much of the event is in the memory.

    others: the same stream read with other gates, by name, for the lower chart only.
    """
    drawing, tokens = Drawing(900, 615), range(len(trace.past))
    marks = [(trace.event, "the event", GREEN)]
    limits = (0, len(trace.past) - 1)
    chart(
        drawing, Box(80, 64, 790, 185),
        [
            Series(tokens, trace.momentary, "momentary surprise, theta · ‖u‖", RED, dots=3),
            Series(tokens, trace.past, "past surprise, eta · ‖S‖ before it", BLUE, dots=3),
        ],
        title="What is written at each token", xlabel="", ylabel="norm", xlim=limits, marks=marks,
    )  # fmt: skip
    series = [Series(tokens, trace.written, "with momentum", WITH, width=3)]
    for (name, other), colour in zip((others or {}).items(), (SAME_THETA, SAME_TOTAL, PURPLE)):
        series.append(Series(tokens, other.written, name, colour, dash="7 4"))
    series.append(Series(limits, [1, 1], "", GREY, width=1))
    chart(
        drawing, Box(80, 340, 790, 185), series, title="How much of the event is in the memory",
        xlabel="token", ylabel="share", xlim=limits, ylim=(-0.25, 2.0), marks=marks,
    )  # fmt: skip
    return drawing


def draw_aftermath(overlaps: Sequence[float], recall: Mapping[str, Tensor]) -> Drawing:
    """Recall of what followed against what it shares with the event, `[overlaps, seeds]` each."""
    series = []
    for (name, found), colour in zip(recall.items(), (SAME_THETA, WITH, SAME_TOTAL)):
        dash = "7 4" if colour == SAME_TOTAL else ""
        series.append(Series(overlaps, found.mean(1), name, colour, dash, dots=4))
    return single_chart(
        series, title="How well what followed the event is recalled in the end",
        xlabel="overlap with the event", ylabel="recall", xlim=(0, 1), ylim=(0, 1),
    )  # fmt: skip


def draw_weights(weights: Mapping[str, Tensor]) -> Drawing:
    """The weight of each glimpse in the final answer, beside the mean's."""
    glimpses = len(next(iter(weights.values())))
    tokens = range(1, glimpses + 1)
    series = [
        Series(tokens, weight, name, colour, dots=4)
        for (name, weight), colour in zip(weights.items(), (SAME_THETA, WITH, GREEN))
    ]
    mean = Series(tokens, [1 / glimpses] * glimpses, "the mean of all", GREY, "5 4", 2)
    return single_chart(
        [*series, mean], title="What the memory's answer is made of",
        xlabel="glimpse", ylabel="its weight", xlim=(1, glimpses),
    )  # fmt: skip


def draw_total_step(
    fine: Tensor, expected: Mapping[float, Tensor], totals: Tensor, measured: Mapping[float, Tensor]
) -> Drawing:
    """Error against the total step theta / (1 − eta): theory as lines, measured as dots.

    expected: eta to `[fine]`; measured: eta to `[seeds, totals]`.
    """
    series = []
    for (eta, theory), colour in zip(expected.items(), (SAME_THETA, PURPLE, WITH)):
        series.append(Series(fine, theory, f"eta = {eta:g}", colour))
        for seed in measured[eta]:
            series.append(Series(totals, seed, "", colour, width=0, dots=3.5))
    return single_chart(
        series, log_x=True, log_y=True, ylim=(0.01, 1),
        title="Error after the last glimpse: theory (lines), measured (dots, one a seed)",
        xlabel="total step theta / (1 − eta)", ylabel="squared error",
    )  # fmt: skip


def draw_ringing(errors: Mapping[str, Tensor]) -> Drawing:
    """The error on one repeated pair, for several etas: `[tokens]` each."""
    series = [
        Series(range(len(error)), error, name, colour, dots=3)
        for (name, error), colour in zip(errors.items(), (BLUE, GREEN, RED, ORANGE))
    ]
    ends = (0, len(next(iter(errors.values()))) - 1)
    zero = Series(ends, (0, 0), "", GREY, width=1)
    return single_chart(
        [*series, zero], title="One pair, again and again: how wrong the memory is about it",
        xlabel="times read", ylabel="error / value", xlim=ends, ylim=(-0.8, 1),
    )  # fmt: skip


def draw_limits(
    etas: Sequence[float], limits: Mapping[int, Tensor], measured: Mapping[int, Mapping]
) -> Drawing:
    """Where a repeated key's error begins to grow, for several chunk sizes, and the law.

    limits: the theory at `etas` for each chunk size; measured: for a chunk size, eta to theta.
    """
    series = []
    for (size, theory), colour in zip(limits.items(), COLOURS):
        series.append(Series(etas, theory, f"limit, b = {size}", colour))
        tried = measured[size]
        series.append(Series(list(tried), list(tried.values()), "", colour, width=0, dots=5))
        law = [(1 - eta) / size for eta in etas]
        series.append(Series(etas, law, f"(1 − eta)/{size}", colour, "3 4", 2))
    return single_chart(
        series, height=440, log_y=True, ylim=(1e-3, 5), xlim=(0, 1),
        title="The largest theta that a repeated key bears: theory, measured (dots), and the law",
        xlabel="eta", ylabel="theta",
    )  # fmt: skip


def draw_chapters(errors: Mapping[str, Tensor], floor: float) -> Drawing:
    """The error within a chapter, averaged over chapters: `[seeds, glimpses]` each."""
    series = [
        Series(range(1, found.shape[1] + 1), found.mean(0), name, colour, dots=3.5)
        for (name, found), colour in zip(errors.items(), (SAME_THETA, WITH, GREEN))
    ]
    glimpses = next(iter(errors.values())).shape[1]
    best = Series([1, glimpses], [floor, floor], "the mean of 16", GREY, "5 4", 2)
    return single_chart(
        [*series, best], title="After a change of context", log_y=True, ylim=(0.01, 3),
        xlabel="glimpse of the new fact", ylabel="squared error", xlim=(1, glimpses),
    )  # fmt: skip


def draw_learned(learned: Learned) -> Drawing:
    """How the two etas moved during training, a line for each seed."""
    series = []
    for gate, name, colour in (
        (learned.eta, "eta inside a chapter", BLUE),
        (learned.eta_first, "eta at a chapter's first token", ORANGE),
    ):
        for number, course in enumerate(gate.T):
            label = name if number == 0 else ""
            series.append(Series(range(1, len(course) + 1), course, label, colour, width=2))
    return single_chart(
        series, title="Gates that learn when to let go (three seeds)",
        xlabel="training step", ylabel="eta", ylim=(0, 1),
    )  # fmt: skip


def event_explorer() -> Explorer:
    """eta, theta, where the event is and how often it is seen: both surprises over time."""

    def draw(eta: float, theta: float, event: int, glimpses: int) -> Drawing:
        total = theta / (1 - eta)
        others = {
            "same theta, eta = 0": read_event(theta, 0.0, event, glimpses),
            f"same total step, theta = {total:.2f}": read_event(total, 0.0, event, glimpses),
        }
        drawing = draw_event(read_event(theta, eta, event, glimpses), others)
        drawing.add(Text(80, 600, behaviour(theta, eta), 15, colour=GREY))
        return drawing

    return explorer(
        draw,
        eta=slider(0.8, 0.0, 0.99, 0.01, "eta: past surprise kept"),
        theta=slider(0.1, 0.0, 4.0, 0.05, "theta: momentary surprise written"),
        event=slider(15, 0, 59, 1, "where the event is"),
        glimpses=slider(1, 1, 40, 1, "tokens it lasts"),
    )


def behaviour(theta: float, eta: float) -> str:
    """In words: how long surprise lingers, and what a pair does that comes again and again.

    >>> behaviour(theta=0.5, eta=0.5)
    'A surprise halves every 1.0 tokens. A pair that keeps coming is learned with ringing.'
    """
    lingers = "Without momentum nothing lingers."
    if eta > 0:
        halves = torch.log(torch.tensor(0.5)) / torch.log(torch.tensor(eta))
        lingers = f"A surprise halves every {halves:.1f} tokens."
    modes = torch.linalg.eigvals(chunk_matrix(theta, eta))
    if theta == 0:
        learned = "never learned: theta is 0"
    elif modes.abs().max() >= 1 - 1e-9:
        learned = "never learned: it swings more and more"
    else:
        rings = modes.imag.abs().max() > 1e-9 or modes.real.min() < -1e-9
        learned = "learned with ringing" if rings else "learned without ringing"
    return f"{lingers} A pair that keeps coming is {learned}."
