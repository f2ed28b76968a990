"""What a memory is worth, drawn: bits per byte along a text, in the ways in which it was read."""

import torch
from torch import Tensor

from minititans.experiments.memory_worth import Worth
from minititans.palette import BLUE, GREEN, GREY, ORANGE
from minititans.viz.charts import Box, Series, chart
from minititans.viz.drawing import Drawing
from minititans.viz.single import single_chart

LOOKS = {  # way: words, colour, dash
    "as trained": ("as trained", BLUE, ""),
    "dropped": ("state dropped", GREEN, "8 3"),
    "no writes": ("no writes", ORANGE, "3 3"),
}


def draw_worth(worth: Worth, size: int = 128) -> Drawing:
    """Bits per byte in each part of `size` bytes, and on the right how much more each way costs.

    A memory that answers 0 to everything would be far off the chart, so it is left out.
    """
    drawing = Drawing(900, 400)
    lines = {way: worth.by_position(way, size) for way in LOOKS}
    series = [Series(*lines[way], words, colour, dash) for way, (words, colour, dash) in
              LOOKS.items()]  # fmt: skip
    everything = [bits for _, parts in lines.values() for bits in parts]
    length = worth.bits["as trained"].shape[1]
    chart(
        drawing, Box(76, 70, 430, 270), series, title="Bits per byte along the text",
        xlabel="position in the text", ylabel="bits per byte", xlim=(0, length),
        ylim=(min(everything) - 0.1, max(everything) + 0.1),
    )  # fmt: skip
    places, trained = lines["as trained"]
    more = [
        Series(places, [a - b for a, b in zip(lines[way][1], trained)], "", colour, dash, dots=3)
        for way, (_, colour, dash) in LOOKS.items()
    ]
    chart(
        drawing, Box(586, 70, 290, 270), more, title="How much more each way costs",
        xlabel="position in the text", xlim=(0, length), ylim=(-0.05, 0.35), legend=False,
    )  # fmt: skip
    return drawing


def draw_stream(stream: Tensor, worth: Worth) -> Drawing:
    """One memory through the whole text, minus a new one for every stretch: `[time]` and `Worth`.

    Above zero the long-lived memory is worse.
    """
    fresh, dropped = worth.bits["as trained"], worth.bits["dropped"]
    stretches, length = fresh.shape
    parts = stream[: stretches * length].view(stretches, length).mean(1)
    places = (torch.arange(stretches) + 0.5) * length
    return single_chart(
        [
            Series(places, parts - fresh.mean(1), "one memory from the beginning on", BLUE, dots=4),
            Series(places, dropped.mean(1) - fresh.mean(1), "dropped after every segment", GREEN,
                   "8 3"),
            Series((0, stretches * length), (0, 0), "", GREY, width=1),
        ],
        title=f"Bits per byte above a memory that starts over every {length:,} bytes",
        xlabel="position in the text", ylabel="bits per byte", height=340,
        xlim=(0, stretches * length), ylim=(-0.1, 0.3),
    )  # fmt: skip
