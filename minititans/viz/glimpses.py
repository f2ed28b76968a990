"""Pictures of a fact seen through noise: what `experiments/glimpses.py` measured."""

from collections.abc import Mapping

from torch import Tensor

from minititans.experiments.glimpses import Learned
from minititans.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from minititans.viz.charts import Series
from minititans.viz.drawing import Drawing
from minititans.viz.single import gates_chart, single_chart

# Without momentum red, with it blue, in every figure.
WITHOUT, WITH = RED, BLUE


def draw_weights(weights: Mapping[str, Tensor]) -> Drawing:
    """The weight of each glimpse in the final answer, beside those of a plain mean."""
    glimpses = len(next(iter(weights.values())))
    tokens = range(1, glimpses + 1)
    series = [
        Series(tokens, weight, name, colour, dots=4)
        for (name, weight), colour in zip(weights.items(), (WITHOUT, WITH, GREEN))
    ]
    mean = Series(tokens, [1 / glimpses] * glimpses, "a plain mean", GREY, "5 4", 2)
    return single_chart(
        [*series, mean], title="How much each glimpse counts in the memory's answer",
        xlabel="glimpse", ylabel="its weight", xlim=(1, glimpses),
    )  # fmt: skip


def draw_by_theta(
    fine: Tensor, expected: Mapping[float, Tensor], thetas: Tensor, measured: Mapping[float, Tensor]
) -> Drawing:
    """Error against theta: theory as lines, measured as dots.

    expected: eta to `[fine]`; measured: eta to `[seeds, thetas]`.
    """
    series = []
    for (eta, theory), colour in zip(expected.items(), (WITHOUT, PURPLE, WITH)):
        series.append(Series(fine, theory, f"eta = {eta:g}", colour))
        for seed in measured[eta]:
            series.append(Series(thetas, seed, "", colour, width=0, dots=3.5))
    return single_chart(
        series, log_x=True, log_y=True, ylim=(0.01, 1),
        title="How far the answer is from the fact: theory (lines) and three seeds (dots)",
        xlabel="theta: how much of each surprise is written", ylabel="squared error",
    )  # fmt: skip


def draw_chapters(errors: Mapping[str, Tensor], floor: float) -> Drawing:
    """The error within a chapter, averaged over chapters, `[seeds, glimpses]` each.

    floor: the error of a plain mean of all glimpses of a chapter
    """
    series = [
        Series(range(1, found.shape[1] + 1), found.mean(0), name, colour, dots=3.5)
        for (name, found), colour in zip(errors.items(), (WITHOUT, WITH, GREEN))
    ]
    glimpses = next(iter(errors.values())).shape[1]
    best = Series([1, glimpses], [floor, floor], f"a plain mean of {glimpses}", GREY, "5 4", 2)
    return single_chart(
        [*series, best], title="How far the answer is from the new fact",
        xlabel="glimpses of it so far", ylabel="squared error", xlim=(1, glimpses),
        log_y=True, ylim=(0.01, 3),
    )  # fmt: skip


def draw_learned(learned: Learned) -> Drawing:
    """How the two etas moved during training, one line per seed."""
    gates = (
        (learned.eta, "eta inside a chapter", BLUE),
        (learned.eta_first, "eta at a chapter's first token", ORANGE),
    )
    title = "Gates that learn when to let go (three seeds)"
    return gates_chart(gates, title=title, ylabel="eta")
