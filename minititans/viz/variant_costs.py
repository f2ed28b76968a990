"""What the variants cost, as pictures."""

from minititans.experiments.variant_costs import ATTENTION, VariantCost
from minititans.palette import INK
from minititans.viz.charts import Box, Series, add_legend, chart
from minititans.viz.drawing import Drawing
from minititans.viz.models import LOOKS

COLOURS = {name: LOOKS[name.lower()][0] for name in ("MAC", "MAG", "MAL", "LMM")}
COLOURS[ATTENTION] = INK


def draw_variant_costs(cost: VariantCost) -> Drawing:
    """Time and state against the length of the text, a line for each variant."""
    drawing, lengths = Drawing(900, 370), cost.config.lengths
    for x, table, unit, title, ylabel, ylim in (
        (80, cost.seconds, 1e3, "Time to read a text", "milliseconds", None),
        (540, cost.state, 1.0, "Numbers to keep", "numbers in the state", (4e3, 4e6)),
    ):
        series = [
            Series(lengths, [unit * number for number in table[name]], name, colour,
                   "6 4" if name == ATTENTION else "", dots=4)
            for name, colour in COLOURS.items()
        ]  # fmt: skip
        chart(
            drawing, Box(x, 70, 330, 240), series, title=title, ylabel=ylabel, ylim=ylim,
            xlabel="tokens in the text", log_x=True, log_y=True, xticks=lengths, legend=False,
        )  # fmt: skip
    add_legend(drawing, 80, 24, series)
    return drawing
