"""Put a needle somewhere, let two models read on, and watch what each answers when asked for it."""

from collections.abc import Mapping

import torch

from minititans.experiments.needle_fading import Fading
from minititans.palette import BLUE, FAINT, GREY, INK, ORANGE, PALE, PAPER, RED
from minititans.tasks.needle import VALUES, Needle
from minititans.viz.charts import NORMAL, SMALL, Box, Series, chart
from minititans.viz.drawing import Drawing, Line, Rect, Text
from minititans.viz.explorer import Explorer, choice, explorer, player, steps
from minititans.viz.models import NAMES
from minititans.viz.needle import word

WIDTH = 2 + Needle("pk").value_tokens  # tokens of a needle
SHARED = ("places", "moments", "facts")  # what two readings must share to be compared


def draw_fading(fadings: Mapping[str, Fading], names: tuple[str, str], place: int, moment: int):
    """The haystack as far as it has been read, and below it the two models' answers.

    place: where the needle begins, one of the fadings' places; moment: one of their moments
    """
    drawing = Drawing(900, 420)
    either = fadings[names[0]]
    row = int((either.places == place).nonzero()[0])
    end = int(either.moments[-1])
    known = moment >= place + WIDTH
    _haystack(drawing, Box(40, 34, 830, 22), place, moment, end)
    key, value = either.facts[row].tolist()
    words = f"note: {word(key)} {word(value)}"
    after = moment - place - WIDTH
    drawing.add(
        Text(40, 24, f"The needle is “{words}”.", NORMAL, bold=True),
        Text(870, 24, _when(known, after), NORMAL, "end"),
    )
    for column, name in enumerate(names):
        fading = fadings[name]
        at = fading.moments.tolist().index(moment)
        box = Box(70 + 440 * column, 118, 360, 92)
        title = NAMES.get(name, name)
        _answer(drawing, box, title, fading.said[row, at, 0], value, known)
        read = fading.moments <= moment
        line = Series(fading.moments[read], fading.right[row, read], "", BLUE, dots=3)
        chart(
            drawing, Box(box.x, 272, box.width, 96), [line], xlim=(0, end), ylim=(0, 1.02),
            marks=[(place, "", RED)], ylabel="", legend=False,
            title=f"The probability of {word(value)} so far", xlabel="tokens read",
        )  # fmt: skip
    return drawing


def _when(known: bool, after: int) -> str:
    if not known:
        return "It has not been read yet: any answer is a guess."
    return f"Asked {after:,} tokens after it."


def _haystack(drawing: Drawing, box: Box, place: int, moment: int, end: int) -> None:
    """The whole text as a bar, dark as far as it has been read."""
    share = box.width / end
    drawing.add(Rect(box.x, box.y, box.width, box.height, PAPER, PALE))
    drawing.add(Rect(box.x, box.y, moment * share, box.height, FAINT))
    drawing.add(Rect(box.x + place * share - 2, box.y - 4, 6, box.height + 8, RED))
    x, y = box.x + moment * share, box.y + box.height
    drawing.add(Line(((x, box.y - 4), (x, y + 8)), BLUE, 3))
    anchor = "end" if moment > 0.8 * end else "start" if moment < 0.2 * end else "middle"
    drawing.add(Text(x, y + 22, f"asked after {moment:,} tokens", SMALL, anchor, BLUE))


def _answer(
    drawing: Drawing, box: Box, title: str, said: torch.Tensor, value: int, known: bool
) -> None:
    """One bar for each of the 16 values; the right one is blue."""
    best = int(said.argmax())
    right = best == value
    verdict = f"says {word(best)}" + ("" if not known else ": right" if right else ": wrong")
    drawing.add(
        Text(box.x, box.y - 10, title, NORMAL, bold=True),
        Text(box.x + box.width, box.y - 10, verdict, NORMAL, "end", BLUE if right else RED, True),
    )
    slot, bottom = box.width / len(VALUES), box.y + box.height
    for number, token in enumerate(VALUES):
        height = float(said[token]) * box.height
        x, colour = box.x + (number + 0.12) * slot, BLUE if token == value else ORANGE
        drawing.add(Rect(x, bottom - height, 0.76 * slot, height, colour))
        place = box.x + (number + 0.5) * slot
        shade = (INK, True) if token == value else (GREY, False)
        drawing.add(Text(place, bottom + 15, word(token), 11, "middle", *shade))
    drawing.add(Line(((box.x, bottom), (box.x + box.width, bottom)), INK, 1))
    for share in (0.5, 1.0):
        y = bottom - share * box.height
        drawing.add(Line(((box.x, y), (box.x + box.width, y)), PALE, 1))
        drawing.add(Text(box.x - 5, y + 4, f"{share:g}", 11, "end"))


def fading_explorer(
    fadings: Mapping[str, Fading], left: str, right: str, place: int, moment: int
) -> Explorer:
    """Choose two models and the needle's place, then play: the noise goes on.

    fadings: by model, all of the same haystacks and moments, computed beforehand
    """
    either = fadings[left]
    for name, each in fadings.items():
        same = (torch.equal(getattr(each, part), getattr(either, part)) for part in SHARED)
        if not all(same):
            raise ValueError(
                f"fadings: {name!r} read other haystacks than {left!r}, expected the same for all"
            )
    places = sorted(set(either.places.tolist()))
    moments = either.moments.tolist()
    order = [name for name in NAMES if name in fadings] + [n for n in fadings if n not in NAMES]
    options = [(NAMES.get(name, name), name) for name in order]

    def draw(asked: int, place: int, left: str, right: str) -> Drawing:
        return draw_fading(fadings, (left, right), place, moments[asked - 1])

    return explorer(
        draw,
        asked=player(moments.index(moment) + 1, 1, len(moments), "question", interval=300),
        place=steps(place, [(f"{p:,}", p) for p in places], "the needle is at token"),
        left=choice(left, options, "left"),
        right=choice(right, options, "right"),
    )
