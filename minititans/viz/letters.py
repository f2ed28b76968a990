"""A text letter by letter, with what a trained model's memories felt and did under each of them.

`draw_letters` is the figure, `text_explorer` the widget: type or paste a text.
"""

from functools import lru_cache

from ipywidgets import Textarea
from torch import Tensor

from minititans.experiments.text_reading import TextReading, read_text, state_after
from minititans.model import TitansLM
from minititans.palette import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, RED
from minititans.viz.axis import round_up
from minititans.viz.charts import NORMAL, SMALL, Box
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.explorer import WIDE, Explorer, choice, explorer, player

ACROSS = 43  # letters that have room side by side
SLOT = 17.5
LEFT = 132
ROWS = {  # field: words, colour
    "surprise": ("surprise u", RED),
    "theta": ("θ  written", BLUE),
    "eta": ("η  lingers", GREEN),
    "alpha": ("α  forgotten", PURPLE),
}
NAMES = {10: "newline", 32: "space", 9: "tab"}
LONGEST = 600  # bytes of a pasted text that are read


def draw_letters(
    reading: TextReading, place: int = 0, layer: int | None = None, head: int | None = None
) -> Drawing:
    """The letters around a place, each on its bits per byte, over its surprise and gates.

    layer, head: one memory out of all; None for the mean over them
    """
    drawing = Drawing(900, 316)
    letter_rows(drawing, reading, place, layer, head)
    return drawing


def letter_rows(
    drawing: Drawing, reading: TextReading, place: int, layer: int | None, head: int | None
) -> None:
    first = window(len(reading.text), place)
    shown = reading.text[first : first + ACROSS]
    bits = reading.bits[first : first + ACROSS].tolist()
    _letters(drawing, 30, shown, bits, place - first)
    for row, (name, (words, colour)) in enumerate(ROWS.items()):
        values = of_memory(getattr(reading, name), layer, head)
        limit = 0.7 if name == "eta" else round_up(max(1e-9, float(values.max())))
        box = Box(LEFT, 80 + 57 * row, SLOT * len(shown), 44)
        _bars(drawing, box, values[first : first + ACROSS].tolist(), limit, words, colour)


def of_memory(values: Tensor, layer: int | None, head: int | None) -> Tensor:
    """From `[layers, heads, time]` to `[time]`: one memory, or the mean over those not named."""
    values = values.mean(0) if layer is None else values[layer]
    return values.mean(0) if head is None else values[head]


def window(length: int, place: int) -> int:
    """The first letter that is shown when there are more than have room."""
    return max(0, min(place - 2 * ACROSS // 3, length - ACROSS))


def _letters(drawing: Drawing, y: float, shown: bytes, bits: list[float], marked: int) -> None:
    drawing.add(Text(LEFT - 12, y + 18, "text", NORMAL, "end", bold=True))
    for i, (letter, cost) in enumerate(zip(shown, bits)):
        x = LEFT + SLOT * i
        drawing.add(Rect(x, y, SLOT, 26, shade(cost), PALE))
        drawing.add(Text(x + SLOT / 2, y + 18, as_letter(letter), 15, "middle"))
    if marked < len(shown):  # a frame, above its neighbours
        left, right = LEFT + SLOT * marked, LEFT + SLOT * (marked + 1)
        corners = (left, y), (right, y), (right, y + 26), (left, y + 26), (left, y)
        drawing.add(Line(corners, RED, 2.5))
    words = "colour: bits the letter cost, from 0 (white) to 8 and more (orange)"
    drawing.add(Text(LEFT, y - 10, words, SMALL, colour=GREY))


def _bars(
    drawing: Drawing, box: Box, values: list[float], limit: float, words: str, colour: str
) -> None:
    """One bar per letter, up from the bottom of the box; the whole height is `limit`."""
    bottom = box.y + box.height
    drawing.add(Text(LEFT - 12, box.y + 20, words, NORMAL, "end", bold=True))
    drawing.add(Text(LEFT - 12, box.y + 38, f"up to {limit:g}", SMALL, "end", GREY))
    drawing.add(Line(((box.x, bottom), (LEFT + SLOT * ACROSS, bottom)), PALE, 1))
    for i, value in enumerate(values):
        height = min(1.0, value / limit) * box.height
        drawing.add(Rect(box.x + SLOT * i + 2, bottom - height, SLOT - 4, height, colour))


def shade(bits: float) -> str:
    """From white for a letter that was certain to orange for one that cost 8 bits."""
    share = min(1.0, bits / 8)
    mixed = [255 + share * (int(ORANGE[i : i + 2], 16) - 255) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part):02X}" for part in mixed)


def as_letter(byte: int) -> str:
    """One sign for every byte: a printable one as it is, any other by a stand-in.

    >>> [as_letter(byte) for byte in b"a\\n\\xc3"]
    ['a', '↵', '·']
    """
    if byte == 10:
        return "↵"
    return chr(byte) if 32 <= byte < 127 else "·"


def as_word(byte: int) -> str:
    """
    >>> as_word(32), as_word(97), as_word(200)
    ('space', 'a', 'byte 200')
    """
    return NAMES.get(byte) or (chr(byte) if 32 < byte < 127 else f"byte {byte}")


def draw_expectations(
    drawing: Drawing, box: Box, reading: TextReading, place: int, title: str, colour: str
) -> None:
    """The likeliest bytes at a place as bars, the one that came in bold."""
    came = reading.text[place] if place < len(reading.text) else None
    drawing.add(Text(box.x, box.y - 8, title, NORMAL, bold=True))
    guesses = reading.guesses(place, 6)
    if came is not None and came not in [byte for byte, _ in guesses]:
        guesses[-1] = (came, float(reading.expected[place, came]))
    height, bar = box.height / len(guesses), box.width - 140
    for i, (byte, chance) in enumerate(guesses):
        y, is_it = box.y + i * height, byte == came
        drawing.add(
            Text(box.x + 70, y + 14, as_word(byte), SMALL, "end", INK, bold=is_it),
            Rect(box.x + 78, y + 3, max(1.0, chance * bar), height - 5, colour if is_it else PALE),
            Text(box.x + 84 + chance * bar, y + 14, f"{chance:.0%}", SMALL, bold=is_it),
        )


def draw_text(
    with_memory: TextReading,
    without: TextReading,
    place: int,
    layer: int | None = None,
    head: int | None = None,
) -> Drawing:
    """The letters with surprise and gates, and what was expected at a place, in two ways."""
    drawing = Drawing(900, 470)
    letter_rows(drawing, with_memory, place, layer, head)
    came = with_memory.text[place : place + 1]
    after = f"“{as_word(came[0])}” came" if came else "the text ends"
    before = "".join(map(as_letter, with_memory.text[max(0, place - 24) : place]))
    drawing.add(Text(20, 336, f"After “…{before}”, what next? ({after})", NORMAL, bold=True))
    for x, reading, words, colour in (
        (20, with_memory, "with its memory", BLUE),
        (470, without, "without its writes", GREY),
    ):
        words += f" ({float(reading.bits.mean()):.2f} bits per byte)"
        draw_expectations(drawing, Box(x, 364, 420, 104), reading, place, words, colour)
    return drawing


def text_explorer(model: TitansLM, text: str, letter: int = 1) -> Explorer:
    """Type or paste a text, and see what the model makes of each of its letters.

    letter: the one to start at, counted from 1
    """
    shape = [(layer, head) for layer in range(model.config.layers)
             for head in range(model.config.heads)]  # fmt: skip
    memories = [("all, on average", (None, None))]
    memories += [(f"layer {layer + 1}, head {head + 1}", (layer, head)) for layer, head in shape]

    @lru_cache(maxsize=32)
    def read(text: bytes, again: bool) -> tuple[TextReading, TextReading]:
        state = state_after(model, text) if again else None
        return (
            read_text(model, text, state=state),
            read_text(model, text, writing=False),  # which keeps nothing of what came before
        )

    def draw(text: str, letter: int, before: bool, memory: tuple) -> Drawing | str:
        given = text.encode()[:LONGEST]
        if not given:
            return "Type or paste a text: there is nothing to read yet."
        return draw_text(*read(given, before), min(letter, len(given) + 1) - 1, *memory)

    box = Textarea(text, description="text", rows=2, style=WIDE, layout={"width": "860px"})
    length = len(text.encode())
    widget = explorer(
        draw,
        text=box,
        letter=player(letter, 1, length + 1, "letter", interval=300),
        before=choice(False, [("nothing", False), ("the same text", True)], "read before"),
        memory=choice((None, None), memories, "memory"),
    )
    at = widget.controls["letter"]

    def to_its_end(change) -> None:  # what would come after the text that was typed
        at.max = at.player.max = min(LONGEST, len(change["new"].encode())) + 1
        at.value = at.max

    box.observe(to_its_end, "value")
    return widget
