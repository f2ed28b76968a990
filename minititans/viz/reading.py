"""A memory reads a sentence it has never seen, several times: what it guesses, what surprises it.

For every letter the memory is asked: after these letters, which one? Then it is shown the letter
and writes it down with the delta rule, (8) for a matrix. Nothing is trained beforehand.
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from ipywidgets import Text as TextBox
from torch import Tensor

from minititans.viz.charts import GREY, NORMAL, SMALL, Box, Series, chart
from minititans.viz.drawing import INK, PALE, Drawing, Rect, Text
from minititans.viz.explorer import WIDE, Explorer, explorer, player, slider
from minititans.viz.style import BLUE, ORANGE, RED

DIM = 128
LONGEST = 40  # letters that have room in a line of the drawing


@dataclass(frozen=True)
class Reading:
    """A text read letter by letter.

    text:     the letters, one reading after another
    guesses:  what the memory expected before it saw each letter; "" where it had no idea
    surprise: the norm of the momentary surprise at each letter, `[time]`
    """

    text: str
    guesses: list[str]
    surprise: Tensor

    def right(self) -> Tensor:
        """Which guesses were right, `[time]`."""
        return torch.tensor([a == b for a, b in zip(self.text, self.guesses)])


@lru_cache(maxsize=4096)
def direction(name: str, seed: int = 0) -> Tensor:
    """A random unit vector, always the same for the same name: `[DIM]`.

    >>> a, b = direction("a"), direction("b")
    >>> torch.equal(a, direction("a")), bool((a @ b).abs() < 0.5)
    (True, True)
    """
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    return F.normalize(torch.randn(DIM, generator=generator), dim=0)


def pairs(text: str, look_back: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """For every letter a key, the letters before it, and a value, itself: `[time, DIM]` both.

    The text is taken as a ring, so that its first letter has letters before it too.
    """
    ring = text[-look_back:].rjust(look_back) + text
    contexts = [ring[i : i + look_back] for i in range(len(text))]
    keys = torch.stack([direction("after " + context, seed) for context in contexts])
    values = torch.stack([direction("letter " + letter, seed) for letter in text])
    return keys, values


@lru_cache(maxsize=64)
def read_text(
    text: str, look_back: int = 3, theta: float = 1.0, times: int = 3, seed: int = 0
) -> Reading:
    """Read a text several times with a matrix memory that starts with zeros.

    >>> reading = read_text("a rose is a rose is ", times=2)
    >>> int(reading.right()[:3].sum()), int(reading.right()[20:].sum())
    (0, 20)
    """
    keys, values = pairs(text, look_back, seed)
    letters = sorted(set(text))
    known = torch.stack([direction("letter " + letter, seed) for letter in letters])
    M = torch.zeros(DIM, DIM)
    guesses, surprise = [], []
    for key, value in zip(keys.repeat(times, 1), values.repeat(times, 1)):
        answer = M @ key
        score, best = (known @ answer).max(0)
        guesses.append(letters[best] if score > 0.5 else "")  # near enough to be meant
        error = value - answer
        surprise.append(error.norm())  # of the gradient error·keyᵀ, as the key has norm 1
        M = M + theta * torch.outer(error, key)
    return Reading(text * times, guesses, torch.stack(surprise))


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
