"""Figures about attention: masks that can be read, what it costs, and where it looks."""

from torch import Tensor

from minititans.experiments.attention_cost import CostConfig, crossover
from minititans.experiments.sink import Looks
from minititans.palette import BLUE, GREEN, GREY, INK, MIST, ORANGE, PALE, PURPLE, SKY
from minititans.viz.charts import NORMAL, SMALL, Box, Series, heatmap, text_width
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.single import single_chart


def draw_masks(masks: dict[str, Tensor], prefix: int = 0) -> Drawing:
    """Masks side by side: who looks in rows, what can be seen in columns, the first `prefix` green.

    masks: title to `[queries, keys]`; a mask without prefix may have fewer columns than the others.
    """
    rows = max(len(mask) for mask in masks.values())
    columns = max(mask.shape[1] for mask in masks.values())
    panel = 880 / len(masks)
    cell = min(20.0, (panel - 34) / columns)
    drawing = Drawing(900, 66 + rows * cell + 30)
    for number, (title, mask) in enumerate(masks.items()):
        x, y = 30 + number * panel, 46
        first = mask.shape[1] - len(mask)  # the columns that are not tokens of the text
        drawing.add(Text(x, y - 14, title, NORMAL, bold=True))
        for i, line in enumerate(mask.tolist()):
            for j, seen in enumerate(line):
                colour = (GREEN if j < min(prefix, first) else BLUE) if seen else MIST
                drawing.add(Rect(x + j * cell, y + i * cell, cell - 1, cell - 1, colour))
        middle = x + mask.shape[1] * cell / 2
        drawing.add(Text(middle, y + rows * cell + 18, "sees", SMALL, "middle", GREY))
        drawing.add(Text(x - 7, y + rows * cell / 2, "token", SMALL, "middle", GREY, upwards=True))
    return drawing


def draw_cost(config: CostConfig, seconds: dict[str, list[float]]) -> Drawing:
    """Time against length on logarithmic scales, with the length where the lines cross."""
    series = [
        Series(config.lengths, [1000 * s for s in seconds[side]], words, colour, dots=4)
        for side, words, colour in (
            ("attention", "full attention", BLUE),
            ("memory", "the memory, depth 2", ORANGE),
        )
    ]
    meeting = crossover(config.lengths, seconds)
    about = "" if meeting is None else f"{float(f'{meeting:.1g}'):,.0f}"  # timings are no finer
    marks = [] if meeting is None else [(meeting, f"equal at about {about} tokens", GREY)]
    return single_chart(
        series, title="Reading a text with one layer", xlabel="tokens in the text",
        ylabel="milliseconds", log_x=True, log_y=True, marks=marks, xticks=config.lengths,
    )  # fmt: skip


def draw_weights(weights: dict[str, Tensor], text: str, prefix: int = 0) -> Drawing:
    """Attention weights `[queries, keys]` as heat maps, the letters of the text beside them."""
    time, panel = len(text), 880 / len(weights)
    cell = (panel - 50) / (time + prefix)
    drawing = Drawing(900, 62 + time * cell + 26)
    for number, (title, each) in enumerate(weights.items()):
        p = each.shape[1] - time
        x, y = 30 + number * panel, 44
        box = Box(x, y, (time + p) * cell, time * cell)
        heatmap(drawing, box, each.detach(), title=title, limit=0.5)
        if p:
            edge = x + p * cell
            drawing.add(Line(((edge, y), (edge, y + time * cell)), GREEN, 2))
            middle = x + p * cell / 2
            drawing.add(Text(middle, y + time * cell + 17, "p", SMALL, "middle", GREEN, bold=True))
        for i, letter in enumerate(text):
            shown = letter if letter.strip() else "·"
            size = min(SMALL, 1.1 * cell)
            drawing.add(Text(x - 6, y + (i + 0.8) * cell, shown, size, "end", GREY))
            place = x + (p + i + 0.5) * cell
            drawing.add(Text(place, y + time * cell + 15, shown, size, "middle", GREY))
    return drawing


SHARES = {  # of a head's attention: field of `Looks`, words, colour
    "persistent": ("persistent tokens", GREEN),
    "first": ("the first token", INK),
    "before": ("the token before", SKY),
    "own": ("itself", BLUE),
    "rest": ("all others", PALE),
}


def shares(found: Looks) -> dict[str, Tensor]:
    """The parts of each head's attention, which add up to 1: `[layers, heads]` each."""
    parts = {name: getattr(found, name) for name in SHARES if name != "rest"}
    return parts | {"rest": 1 - sum(parts.values())}


def draw_looks(looks: dict[str, Looks]) -> Drawing:
    """One bar per head, divided by where the head looks; one row of bars per model."""
    drawing = Drawing(900, 70 + 150 * len(looks))
    x = 30.0
    for words, colour in SHARES.values():
        drawing.add(Rect(x, 12, 13, 13, colour), Text(x + 19, 23, words, SMALL))
        x += 19 + text_width(words) + 22
    for number, (title, found) in enumerate(looks.items()):
        layers, heads = found.first.shape
        y = 70 + 150 * number
        drawing.add(Text(30, y - 12, title, NORMAL, bold=True))
        width = 840 / (layers * heads + (layers - 1) * 0.5)
        parts = shares(found)
        for layer in range(layers):
            for head in range(heads):
                left, top = 30 + (layer * (heads + 0.5) + head) * width, y + 96.0
                for name, (_, colour) in SHARES.items():
                    height = 96 * float(parts[name][layer, head].clamp(min=0))
                    top -= height
                    drawing.add(Rect(left, top, 0.86 * width, height, colour))
            middle = 30 + (layer * (heads + 0.5) + heads / 2) * width
            words = f"layer {layer + 1}, its {heads} heads"
            drawing.add(Text(middle, y + 114, words, SMALL, "middle", GREY))
    return drawing


def draw_turns(scores: dict[str, Tensor]) -> Drawing:
    """Scores against the distance of query and key, one line per pair of places."""
    series = [
        Series(range(len(each)), each, words, colour, dash)
        for (words, each), colour, dash in zip(
            scores.items(), (BLUE, ORANGE, PURPLE), ("", "8 5", "2 4")
        )
    ]
    return single_chart(
        series, height=300, title="The score of one query and one key, by their distance",
        xlabel="tokens between them", ylabel="score",
    )  # fmt: skip
