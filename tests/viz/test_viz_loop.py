"""The picture of the loop: what is named is lit, and nothing else."""

import pytest

from minititans.viz.charts import text_width
from minititans.viz.drawing import Rect, Text
from minititans.viz.loop import BOXES, DIM, PARTS, draw_loop, place

LABELS = {
    "forgetting": "α: how much is forgotten",
    "depth": "layers W",
    "chunks": "a chunk: b tokens",
}


def lit(drawing) -> set[str]:
    """The parts whose words are not faint."""
    title = {BOXES[name][2]: name for name in BOXES} | {
        words: name for name, words in LABELS.items()
    }
    words = [s for s in drawing.shapes if isinstance(s, Text) and s.text in title]
    assert len(words) == len(PARTS)
    return {title[text.text] for text in words if text.colour != DIM}


@pytest.mark.parametrize("name", PARTS)
def test_a_named_part_is_lit_and_no_other(name):
    alone = {name, "forgetting"} if name == "gates" else {name}  # alpha is a gate
    assert lit(draw_loop(name)) == alone


def test_several_parts_can_be_lit_and_no_name_lights_all():
    assert lit(draw_loop("memory", "surprise", "memory")) == {"memory", "surprise"}
    assert lit(draw_loop()) == set(PARTS)


def test_lighting_changes_colours_and_moves_nothing():
    places = [
        [(s.x, s.y, s.text) for s in draw_loop(*names).shapes if isinstance(s, Text)]
        for names in ((), ("error",), ("depth", "chunks"))
    ]
    assert places[0] == places[1] == places[2]


def test_it_marks_what_reading_changes_and_what_training_changes():
    drawing = draw_loop()
    legend = [s for s in drawing.shapes if isinstance(s, Rect) and s.width == 14]
    inner, outer, computed = (s.fill for s in legend)
    fills = {
        (s.x, s.y): s.fill
        for s in drawing.shapes
        if isinstance(s, Rect) and s.width == place("token").width
    }
    found = {name: fills[place(name).x, place(name).y] for name in BOXES}
    assert {name for name in found if found[name] == inner} == {"momentum", "memory"}
    assert {name for name in found if found[name] == outer} == {"projections", "gates", "start"}
    assert {name for name in found if found[name] == computed} == {
        "token", "prediction", "error", "surprise", "reading"
    }  # fmt: skip


def test_it_fits_on_its_sheet():
    drawing = draw_loop()
    assert drawing.width <= 900 and drawing.height <= 260
    for text in (s for s in drawing.shapes if isinstance(s, Text)):
        width = text_width(text.text, text.size)
        left = text.x - {"start": 0, "middle": width / 2, "end": width}[text.anchor]
        assert left >= 0 and left + width <= drawing.width, text.text
        assert text.size <= text.y <= drawing.height - 4, text.text


def test_a_wrong_name_is_refused_with_the_right_ones():
    with pytest.raises(
        ValueError, match="lit: got 'surprises', expected one of token, projections"
    ):
        draw_loop("memory", "surprises")
