"""A surprise that is handed out in shares: bars over time, and the same bars as one pile."""

from collections.abc import Mapping

from torch import Tensor

from minititans.palette import BLUE, GREEN, GREY, INK, PALE, RED, WHITE
from minititans.viz.charts import NORMAL, SMALL, Box, Series
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.single import single_chart

WIDTH, PILE, GAP = 27, 44, 22  # of a bar with its gap, of a pile, and between the two
TOP, HEIGHT = 92, 180  # where a share of 1 ends, and how high it is


def draw_shares(shares: Mapping[str, Tensor]) -> Drawing:
    """What is written of one surprise at each token, `[time]` each, and all of it in one pile.

    The pile shows the shares of all tokens, the bars those of the first seven.
    """
    drawing = Drawing(900, TOP + HEIGHT + 66)
    floor = TOP + HEIGHT
    drawing.add(Text(56, 24, "One surprise, written in shares that add up to 1", NORMAL, bold=True))
    for share in (0, 0.5, 1):
        y = floor - share * HEIGHT
        drawing.add(Line(((56, y), (884, y)), INK if share == 0 else PALE, 1))
        drawing.add(Text(50, y + 4, f"{share:g}", SMALL, "end"))
    drawing.add(Text(18, TOP + HEIGHT / 2, "share written", NORMAL, "middle", upwards=True))
    for place, (name, written) in enumerate(shares.items()):
        _panel(drawing, 72 + place * 280, floor, name, written.tolist())
    return drawing


def _panel(drawing: Drawing, x: float, floor: float, name: str, written: list[float]) -> None:
    drawing.add(Text(x, 56, name, NORMAL))
    pile = Box(x + 7 * WIDTH + GAP, floor, PILE, 0)
    height = 0.0
    for token, share in enumerate(written):
        colour, size = _fade(token), share * HEIGHT
        if token < 7:
            left = x + token * WIDTH
            drawing.add(Rect(left, floor - size, WIDTH - 6, size, colour))
            drawing.add(Text(left + (WIDTH - 6) / 2, floor + 19, str(token), SMALL, "middle"))
        drawing.add(Rect(pile.x, floor - height - size, PILE, size, colour, WHITE))
        height += size
    drawing.add(Text(x + 3.5 * WIDTH, floor + 42, "tokens later", NORMAL, "middle"))
    middle = pile.x + PILE / 2
    drawing.add(Text(middle, floor - height - 8, f"{sum(written):.2f}", NORMAL, "middle"))
    drawing.add(Text(middle, floor + 19, "all", SMALL, "middle"))


def _fade(token: int) -> str:
    """Blue at first, paler with every token."""
    share = 0.8**token
    channels = (int(BLUE[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(235 + share * (channel - 235)):02X}" for channel in channels)


def draw_totals(totals: Mapping[str, Tensor]) -> Drawing:
    """How much of one surprise has been written so far, `[time]` each: the shares added up."""
    tokens = range(len(next(iter(totals.values()))))
    series = [
        Series(tokens, total, name, colour, dots=3)
        for (name, total), colour in zip(totals.items(), (RED, BLUE, GREEN))
    ]
    once = Series((0, tokens[-1]), (1, 1), "written once", GREY, "5 4", 2)
    return single_chart(
        [*series, once], height=360, title="How much of one surprise has been written",
        xlabel="tokens after the surprise", ylabel="times", xlim=(0, tokens[-1]),
    )  # fmt: skip
