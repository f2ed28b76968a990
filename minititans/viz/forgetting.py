"""Pictures of a memory that forgets: functions of what `experiments/forgetting.py` measured, and
the capacity and drift explorer."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from minititans.experiments.forgetting import Drift, LearnedAlpha, MemoryLife, live
from minititans.palette import BLUE, COLOURS, GREEN, GREY, ORANGE, RED
from minititans.viz.charts import Box, Series, chart
from minititans.viz.drawing import Drawing
from minititans.viz.explorer import Explorer, choice, explorer, slider, steps
from minititans.viz.single import gates_chart, single_chart

# A memory that keeps everything is red, one that forgets is blue, in every figure.
KEEPS, FORGETS = RED, BLUE
SILENCE = "silence"  # answering nothing has the error 1


def silence(low: float, high: float) -> Series:
    """The line at 1: what a memory that answers nothing gets."""
    return Series([low, high], [1, 1], SILENCE, GREY, "5 4", 2)


def draw_overflow(pairs: Sequence[int], expected: Tensor, measured: Tensor, dim: int) -> Drawing:
    """Mean error over all pairs against their number: `[pairs]`, and `[seeds, pairs]` as dots."""
    dots = [Series(pairs, seed, "", KEEPS, width=0, dots=4) for seed in measured]
    line = Series(pairs, expected, "theory", KEEPS)
    return single_chart(
        [line, silence(0, pairs[-1]), *dots], xlim=(0, pairs[-1]), ylim=(0, 2),
        title=f"How wrong a {dim} × {dim} matrix is: theory (line), three seeds (dots)",
        xlabel="pairs written", ylabel="squared error", marks=[(dim, f"{dim} pairs", GREEN)],
    )  # fmt: skip


def draw_by_age(expected: Mapping[str, Tensor], measured: Mapping[str, Tensor]) -> Drawing:
    """Error against age: theory, `[pairs]` each, as lines, measured, `[seeds, pairs]`, as dots."""
    series, oldest = [], 0
    for (name, theory), colour in zip(expected.items(), (KEEPS, FORGETS, GREEN)):
        age, oldest = range(len(theory)), len(theory) - 1
        series.append(Series(age, theory, name, colour))
        series.append(Series(age, measured[name].mean(0), "", colour, width=0, dots=3))
    return single_chart(
        [*series, silence(0, oldest)], xlim=(0, oldest), ylim=(0, 2.2),
        title="How wrong it is about each pair, by age: theory (lines), measured (dots)",
        xlabel="age: pairs written since", ylabel="squared error",
    )  # fmt: skip


def draw_drift(
    expected: Mapping[str, Tensor], measured: Mapping[str, Tensor], drift: Drift
) -> Drawing:
    """Error over time while contexts change: `[time]` expected, `[seeds, time]` measured."""
    series, tokens = [], range(drift.time)
    for (name, theory), colour in zip(expected.items(), (KEEPS, FORGETS, GREEN)):
        series.append(Series(tokens, theory, name, colour))
        series.append(Series(tokens, measured[name].mean(0), "", colour, width=0, dots=2.5))
    changes = [(t, "the rule changes", GREY) for t in range(drift.length, drift.time, drift.length)]
    return single_chart(
        [*series, silence(0, drift.time - 1)], xlim=(0, drift.time - 1), ylim=(0, 2.2),
        title="How wrong the memory is before each token: theory (lines), measured (dots)",
        xlabel="token", ylabel="squared error", marks=changes,
    )  # fmt: skip


def draw_valleys(
    fine: Tensor, expected: Mapping[int, Tensor], alphas: Tensor, measured: Mapping[int, Tensor]
) -> Drawing:
    """Error against alpha, for each length of a context: `[fine]`, and `[seeds, alphas]`."""
    series = []
    for (length, theory), colour in zip(expected.items(), COLOURS):
        series.append(Series(fine, theory, f"{length} tokens", colour))
        for seed in measured[length]:
            series.append(Series(alphas, seed, "", colour, width=0, dots=3))
    return single_chart(
        series, height=420, log_x=True, ylim=(0, 1.4),
        title="Error against alpha, with a new rule every 4 to 128 tokens (dots: three seeds)",
        xlabel="alpha", ylabel="squared error",
    )  # fmt: skip


def draw_best_alpha(
    lengths: Sequence[int], expected: Tensor, measured: Tensor, learned: Mapping[int, Tensor]
) -> Drawing:
    """The best alpha against the context's length, both on a logarithmic scale.

    expected: `[lengths]`; measured, from the grid: `[seeds, lengths]`; learned: `[seeds]` each.
    """
    grid = [Series(lengths, seed, "", FORGETS, width=0, dots=5) for seed in measured]
    trained = [
        Series([length] * len(alphas), alphas, "" if i else "learned", ORANGE, width=0, dots=8)
        for i, (length, alphas) in enumerate(learned.items())
    ]
    one_over = Series(lengths, [1 / length for length in lengths], "1 / length", GREY, "5 4", 2)
    line = Series(lengths, expected, "theory (line), grid (dots, three seeds)", FORGETS)
    return single_chart(
        [line, one_over, *trained, *grid], log_x=True, log_y=True, ylim=(0.005, 1),
        title="The longer a context lasts, the less should be forgotten",
        xlabel="tokens in a context", ylabel="best alpha",
    )  # fmt: skip


def draw_learned_alpha(learned: LearnedAlpha) -> Drawing:
    """How the two alphas moved during training, one line per seed."""
    gates = (
        (learned.alpha_first, "alpha at the first token of a context", ORANGE),
        (learned.alpha, "alpha elsewhere", BLUE),
    )
    title = "A gate learns to clear the memory (three seeds)"
    return gates_chart(gates, title=title, ylabel="alpha")


def draw_life(lives: Mapping[str, MemoryLife], drift: Drift) -> Drawing:
    """Memories side by side: error over time, and in the end by age."""
    drawing, tokens, last = Drawing(900, 492), range(drift.time), drift.time - 1
    changes, older = [], []
    if drift.contexts > 1 and not drift.unrelated:
        changes = [(t, "", GREY) for t in range(drift.length, drift.time, drift.length)]
        older = [(drift.length - 0.5, "older: another context", GREY)]
    colours = (KEEPS, FORGETS)
    before = [Series(tokens, x.before, n, c) for (n, x), c in zip(lives.items(), colours)]
    by_age = [Series(tokens, x.by_age, n, c) for (n, x), c in zip(lives.items(), colours)]
    chart(
        drawing, Box(80, 58, 790, 140), [*before, silence(0, last)],
        title="While reading: error before each token" + " (dashed: a new rule)" * bool(changes),
        xlabel="token", ylabel="squared error", xlim=(0, last), ylim=(0, 3), marks=changes,
    )  # fmt: skip
    chart(
        drawing, Box(80, 306, 790, 140), [*by_age, silence(0, last)],
        title="In the end: error when asked for each token again, by age",
        xlabel="age: tokens since", ylabel="squared error", xlim=(0, last), ylim=(0, 3),
        marks=older,
    )  # fmt: skip
    return drawing


def forgetting_explorer() -> Explorer:
    """alpha, theta, how often the rule changes and the memory's size: capacity and drift."""

    @lru_cache(maxsize=256)  # a slider often comes back to where it was
    def with_and_without(drift: Drift, alpha: float) -> list[MemoryLife]:
        return live(drift, torch.tensor([0.0, alpha]))

    def draw(alpha: float, theta: float, length: int, dim: int, unrelated: bool) -> Drawing | str:
        drift = Drift(length, contexts=96 // length, dim=dim, theta=theta, unrelated=unrelated)
        lives = with_and_without(drift, alpha)
        if not max(life.before.max() for life in lives) < 1e6:  # NaN counts
            return "The memory has diverged. With keys of norm 1, keep theta below 2."
        return draw_life(dict(zip(("alpha = 0", f"alpha = {alpha:.2f}"), lives)), drift)

    what = [("a rule v = A k that changes", False), ("unrelated pairs", True)]
    return explorer(
        draw,
        alpha=slider(0.05, 0.0, 1.0, 0.01, "alpha"),
        theta=slider(1.0, 0.0, 2.5, 0.1, "theta"),
        length=steps(24, [4, 8, 12, 16, 24, 32, 48, 96], "tokens until the rule changes"),
        dim=steps(8, [2, 4, 8, 16, 32], "d of the d × d memory"),
        unrelated=choice(False, what, "it reads"),
    )
