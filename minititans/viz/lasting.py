"""Pictures of a memory that should last: what is left, what it still learns, how large it gets."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from minititans.experiments.alive import Alive
from minititans.palette import BLUE, COLOURS, GREEN, GREY, ORANGE, RED
from minititans.viz.charts import Series
from minititans.viz.drawing import Drawing
from minititans.viz.single import single_chart


def draw_left(tokens: Sequence[int], left: Mapping[float, Tensor]) -> Drawing:
    """What is left of a write after many tokens, `[tokens]` for each alpha."""
    series = [
        Series(tokens, share, f"alpha = {alpha:g}".replace("e-0", "e-"), colour)
        for (alpha, share), colour in zip(left.items(), (RED, ORANGE, BLUE))
    ]
    return single_chart(
        series, height=340, title="What is left of a write, many tokens later", log_x=True,
        xlabel="tokens since", ylabel="share", ylim=(0, 1),
    )  # fmt: skip


def draw_alive(found: Sequence[Alive]) -> Drawing:
    """How much memories still learn from a probe, against the tokens they have read before it."""
    series = []
    for each in found:
        plain = each.layers.startswith("plain")
        name = f"{'plain layers' if plain else 'layers that add'}, depth {each.depth}"
        colour = (GREEN, ORANGE, RED)[each.depth - 1] if plain else BLUE
        percent = [100 * share for share in each.learned]
        # A single layer gets a broad line: a memory whose layers add draws its own on top of it.
        dash, width = ("", 8 if each.depth == 1 else 2.5) if plain else ("7 4", 2.5)
        series.append(Series(each.after, percent, name, colour, dash, width, dots=4))
    return single_chart(
        series, title="How much of a new text a memory still learns", log_x=True, ylim=(-2, 25),
        xlabel="tokens read before", ylabel="% of the loss removed",
    )  # fmt: skip


def draw_norms(norms: Mapping[str, Tensor], bounds: Mapping[str, float]) -> Drawing:
    """The memory's norm over time, `[time]` each, and the bounds as dashed lines."""
    time = len(next(iter(norms.values())))
    series = [
        Series(range(1, time + 1), norm, name, colour)
        for (name, norm), colour in zip(norms.items(), COLOURS)
    ]
    for name, bound in bounds.items():
        series.append(Series([1, time], [bound, bound], name, GREY, "5 4", 2))
    return single_chart(
        series, height=420, title="The norm of the memory, and its bound", xlabel="token",
        ylabel="‖M‖", xlim=(0, time),
    )  # fmt: skip
