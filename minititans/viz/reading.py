"""A sentence that a memory reads several times: its guesses in colours, its surprise below."""

import torch
from ipywidgets import Text as TextBox

from minititans.experiments.sentence import Reading, read_text
from minititans.palette import BLUE, GREY, INK, ORANGE, PALE, RED
from minititans.viz.charts import NORMAL, SMALL, Box, Series, chart
from minititans.viz.drawing import Drawing, Rect, Text
from minititans.viz.explorer import WIDE, Explorer, explorer, player, slider

LONGEST = 40  # letters that have room in a line of the drawing


def draw_reading(reading: Reading, length: int, until: int | None = None) -> Drawing:
    """The letters, coloured by what the memory guessed, over how surprised it was.

    length: letters in one reading, a line of the drawing; until: letters read so far.
    """
    total = len(reading.text)
    until = total if until is None else min(until, total)
    lines = total // length
    drawing = Drawing(900, 330 + 34 * lines)
    _key(drawing, 24)
    right = reading.right()
    for line in range(lines):
        y = 48 + 34 * line
        for place in range(length):
            _letter(drawing, reading, line * length + place, 20 + 20 * place, y, until)
        seen = min(length, max(0, until - line * length))
        count = int(right[line * length : line * length + seen].sum())
        if seen:
            drawing.add(Text(28 + 20 * length, y + 19, f"{count} of {seen}", SMALL))
    now = torch.arange(1, until + 1)
    ends = [(line * length + 0.5, f"reading {line + 1}", GREY) for line in range(lines)]
    chart(
        drawing, Box(80, 100 + 34 * lines, 780, 170), [Series(now, reading.surprise[:until])],
        title="Surprise: how far the answer was from the letter", xlabel="letter",
        ylabel="surprise", xlim=(0.5, total), ylim=(0, 2), marks=ends,
    )  # fmt: skip
    return drawing


def _key(drawing: Drawing, y: float) -> None:
    """What the colours mean, in one line at the top."""
    x = 20
    for fill, stroke, words in (
        (BLUE, BLUE, "expected this letter"),
        (ORANGE, ORANGE, "expected another"),
        ("white", GREY, "had no idea"),
    ):
        drawing.add(Rect(x, y - 13, 16, 16, fill, stroke), Text(x + 24, y, words, NORMAL))
        x += 52 + 8.4 * len(words)


def _letter(drawing: Drawing, reading: Reading, i: int, x: float, y: float, until: int) -> None:
    letter, guess = reading.text[i], reading.guesses[i]
    fill, ink = ("white", INK)
    if i >= until:
        ink = PALE
    elif guess:
        fill, ink = (BLUE, "white") if guess == letter else (ORANGE, INK)
    stroke = RED if i == until - 1 else PALE
    drawing.add(Rect(x, y, 18, 28, fill, stroke), Text(x + 9, y + 20, letter, 16, "middle", ink))


def reading_explorer(text: str = "to be or not to be, that is the question") -> Explorer:
    """Type a sentence, and watch a memory learn it while it reads it three times."""

    def draw(sentence: str, look_back: int, theta: float, read: int) -> Drawing | str:
        sentence = sentence[:LONGEST]
        if not sentence:
            return "Type a sentence: there is nothing to read yet."
        return draw_reading(read_text(sentence, look_back, theta), len(sentence), read)

    widget = explorer(
        draw,
        sentence=TextBox(
            text,
            description=f"your sentence (up to {LONGEST} letters)",
            style=WIDE,
            layout={"width": "600px"},
        ),
        look_back=slider(3, 1, 5, 1, "letters it looks back"),
        theta=slider(1.0, 0.0, 1.5, 0.05, "theta: how much is written"),
        read=player(
            2 * len(text[:LONGEST]), 0, 3 * len(text[:LONGEST]), "letters read", interval=150
        ),
    )
    read = widget.controls["read"]

    def to_its_length(change) -> None:  # there is nothing to read beyond the third reading
        read.max = read.player.max = 3 * len(change["new"][:LONGEST])

    widget.controls["sentence"].observe(to_its_length, "value")
    return widget
