"""Pictures of a surprise that lingers: functions of what `experiments/momentum.py` and
`experiments/ringing.py` measured, and the event explorer."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from torch import Tensor

from minititans.experiments.momentum import EventTrace, half_life, read_event
from minititans.experiments.ringing import behaviour
from minititans.palette import BLUE, COLOURS, GREEN, GREY, LIGHT_GREEN, ORANGE, PURPLE, RED
from minititans.viz.charts import Box, Series, chart
from minititans.viz.drawing import Drawing, Rect, Text
from minititans.viz.explorer import Explorer, choice, explorer, player, slider
from minititans.viz.single import single_chart

# A colour for each way to write, the same in every figure.
WITH, SAME_THETA, SAME_TOTAL = BLUE, RED, ORANGE
BAND = LIGHT_GREEN  # behind the tokens of the event
LOWEST, HIGHEST = -3.0, 4.0  # what is written beyond is cut off


def draw_event(
    trace: EventTrace,
    others: Mapping[str, EventTrace] | None = None,
    until: int | None = None,
    note: str = "",
) -> Drawing:
    """Both surprises over time, and below how much of the event is in the memory.

    others: the same stream read with other gates, by name, for the lower chart only
    until:  how many tokens have been read, all if None; note: words under the picture
    """
    tokens = range(len(trace.past))[:until]
    upper, lower = Box(80, 62, 790, 140), Box(80, 282, 790, 150)
    drawing, limits = Drawing(900, 482 + 26 * bool(note)), (0, len(trace.past) - 1)
    for box in (upper, lower):
        _band(drawing, box, trace, limits)
    highest = max(trace.momentary.max(), trace.past.max()).item()
    chart(
        drawing, upper,
        [
            Series(tokens, trace.momentary[:until], "momentary: theta · ‖u‖", RED, dots=3),
            Series(tokens, trace.past[:until], "past: eta · ‖S‖ of the token before", BLUE, dots=3),
        ],
        title="What is written at each token, from each of the two surprises",
        ylabel="norm", xlim=limits, ylim=(0, 1.05 * highest or 1),
    )  # fmt: skip
    series = [Series(tokens, trace.written[:until], "with momentum", WITH, width=3)]
    for (name, other), colour in zip((others or {}).items(), (SAME_THETA, SAME_TOTAL, PURPLE)):
        series.append(Series(tokens, other.written[:until], name, colour, dash="7 4"))
    series.append(Series(limits, [1, 1], "", GREY, width=1))
    chart(
        drawing, lower, series, title="How much of the event is in the memory",
        xlabel="token", ylabel="share", xlim=limits, ylim=_room(trace, *(others or {}).values()),
    )  # fmt: skip
    if note:
        drawing.add(Text(80, 498, note, 15, colour=GREY))
    return drawing


def _band(drawing: Drawing, box: Box, trace: EventTrace, limits: tuple[float, float]) -> None:
    """Mark the tokens at which the event is seen."""
    token = box.width / (limits[1] - limits[0])
    left = max(box.x, box.x + (trace.event - 0.5) * token)
    right = min(box.x + box.width, box.x + (trace.event + trace.glimpses - 0.5) * token)
    drawing.add(Rect(left, box.y, right - left, box.height, BAND))
    drawing.add(Text(right + 5, box.y + 26, "the event", 13, colour=GREEN))


def _room(*traces: EventTrace) -> tuple[float, float]:
    """The lower chart's limits: wide enough for what was written, up to a point."""
    low = min(trace.written.min().item() for trace in traces)
    high = max(trace.written.max().item() for trace in traces)
    return max(LOWEST, min(-0.25, low)), min(HIGHEST, max(1.5, 1.05 * high))


def draw_aftermath(overlaps: Sequence[float], recall: Mapping[str, Tensor]) -> Drawing:
    """Recall of what followed against what it shares with the event, `[overlaps, seeds]` each."""
    series = []
    for (name, found), colour in zip(recall.items(), (SAME_THETA, WITH, SAME_TOTAL)):
        dash = "7 4" if colour == SAME_TOTAL else ""
        series.append(Series(overlaps, found.mean(1), name, colour, dash, dots=4))
    return single_chart(
        series, title="How well the tokens after the event are recalled in the end",
        xlabel="overlap with the event", ylabel="recall", xlim=(0, 1), ylim=(0, 1),
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
        [*series, zero], title="One pair, again and again: how wrong the memory still is",
        xlabel="times read", ylabel="error", xlim=ends, ylim=(-0.8, 1),
    )  # fmt: skip


def draw_limits(
    etas: Sequence[float], limits: Mapping[int, Tensor], measured: Mapping[int, Mapping]
) -> Drawing:
    """Where a repeated key's error starts to grow, for several chunk sizes, and the law.

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
        title="Errors grow above this theta: theory (lines), trial (dots), a safe law (dotted)",
        xlabel="eta", ylabel="theta",
    )  # fmt: skip


def event_explorer() -> Explorer:
    """Play one event: eta, theta, how long it lasts, and in which way it is written."""
    read = lru_cache(maxsize=256)(read_event)  # while it plays, nothing is read twice

    def draw(token: int, eta: float, theta: float, glimpses: int, rule: str) -> Drawing:
        others = {"eta = 0": read(theta, 0.0, glimpses=glimpses)}
        step = theta * (1 - eta) if rule == "shares" else theta  # what (10) is given
        if rule == "letter" and eta > 0:
            total = theta / (1 - eta)
            others[f"eta = 0, theta = {total:.2f}"] = read(total, 0.0, glimpses=glimpses)
        others = {name: x for name, x in others.items() if x.written.abs().max() < 10}
        lingers = f"A surprise halves every {half_life(eta):.1f} tokens." if eta else ""
        note = f"{lingers} A repeated pair is {behaviour(step, eta)}.".strip()
        trace = read(theta, eta, glimpses=glimpses, rule=rule)
        return draw_event(trace, others, token, note)

    ways = [("as (10) says", "letter"), ("in shares", "shares")]
    return explorer(
        draw,
        token=player(40, 1, 60, "tokens read", interval=250),
        eta=slider(0.8, 0.0, 0.99, 0.01, "eta"),
        theta=slider(0.1, 0.0, 4.0, 0.05, "theta"),
        glimpses=slider(1, 1, 40, 1, "tokens the event lasts"),
        rule=choice("letter", ways, "surprise is written"),
    )
