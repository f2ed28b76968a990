"""Notebook 09's pictures show the numbers they are given, and fit on their sheets."""

import pytest
import torch

from minititans import TitansConfig, TitansLM
from minititans.experiments.memory_worth import Worth
from minititans.experiments.models import Record
from minititans.experiments.text_reading import TextReading
from minititans.palette import BLUE
from minititans.viz import training
from minititans.viz.charts import text_width
from minititans.viz.drawing import Line, Pixels, Rect, Text
from minititans.viz.gates import FULL, draw_gates, draw_kinds
from minititans.viz.letters import (
    ACROSS,
    ROWS,
    SLOT,
    as_word,
    draw_letters,
    draw_text,
    of_memory,
    shade,
    text_explorer,
    window,
)  # fmt: skip
from minititans.viz.loop import draw_loop
from minititans.viz.two_loops import ACROSS as RIGHT
from minititans.viz.two_loops import DOWN, OUTER, draw_loops
from minititans.viz.worth import draw_stream, draw_worth

STORED = Record("", 0, 600_000, [5.0] * 20, [4.0, 2.0, 1.5], {}, {}, 1)
ROSE = b"a rose is a rose is a rose"


def reading(text: bytes = ROSE) -> TextReading:
    g = torch.Generator().manual_seed(0)
    shape = (2, 4, len(text))
    expected = torch.rand(len(text) + 1, 256, generator=g).softmax(-1)
    felt = [torch.rand(shape, generator=g) for _ in range(4)]
    return TextReading(text, expected, felt[0], felt[1], 0.7 * felt[2], 0.01 * felt[3])


def fits(drawing) -> None:
    for text in (s for s in drawing.shapes if isinstance(s, Text) and not s.upwards):
        width = text_width(text.text, text.size)
        left = text.x - {"start": 0, "middle": width / 2, "end": width}[text.anchor]
        assert left >= 0 and left + width <= drawing.width, text.text
        assert 8 <= text.y <= drawing.height, text.text


def test_both_loops_are_in_one_picture_and_the_inner_one_is_draw_loops():
    drawing = draw_loops()
    fits(drawing)
    moved = {(s.x, s.y, s.text) for s in drawing.shapes if isinstance(s, Text)}
    inner = [s for s in draw_loop().shapes if isinstance(s, Text) and s.y < 230]
    assert all((s.x + RIGHT, s.y + DOWN, s.text) in moved for s in inner)
    assert {title for _, _, title, _ in OUTER.values()} <= set(drawing.texts())


def test_the_outer_loop_ends_at_what_is_trained():
    """Every orange arrow of the way around ends at projections, gates or start, or in its row."""
    drawing = draw_loops()
    ends = [s.points[-1] for s in drawing.shapes
            if isinstance(s, Line) and s.width == 2.4 and len(s.points) != 3]  # fmt: skip
    below = sorted((round(x), round(y)) for x, y in ends if y > 150)
    from minititans.viz.loop import HEIGHT, WIDTH, place

    gates, start, projections = place("gates"), place("start"), place("projections")
    assert below == sorted(
        [
            (round(projections.x + RIGHT + 33), round(projections.y + DOWN)),
            (round(gates.x + RIGHT + WIDTH / 2), round(gates.y + DOWN + HEIGHT)),
            (round(start.x + RIGHT + WIDTH / 2), round(start.y + DOWN + HEIGHT)),
        ]
    )


def test_a_live_curve_is_shown_at_once_and_redrawn_while_it_grows(monkeypatch):
    shown = []

    class Handle:
        def update(self, drawing):
            shown.append(drawing)

    monkeypatch.setattr(training, "display", lambda drawing, display_id: Handle())
    curve = training.LiveCurve(steps=40, stored=STORED)
    for step in range(40):
        curve.add(5.0 - step / 10)
    assert len(shown) == 4 and "Loss while training: step 40 of 40" in shown[-1].texts()
    lines = [
        [s for s in each.shapes if isinstance(s, Line) and s.colour == BLUE and len(s.points) > 2]
        for each in shown
    ]
    assert [len(line[0].points) for line in lines] == [10, 20, 30, 40]
    heights = [y for _, y in lines[-1][0].points]
    assert heights == sorted(heights), "the loss falls, so its line goes down"
    fits(shown[-1])


def test_bars_are_as_high_as_surprise_and_gates():
    told = reading()
    drawing = draw_letters(told)
    fits(drawing)
    for name, (_, colour) in ROWS.items():
        bars = [s for s in drawing.shapes if isinstance(s, Rect) and s.fill == colour]
        values = getattr(told, name).mean((0, 1))
        assert len(bars) == len(ROSE)
        heights = torch.tensor([bar.height for bar in bars])
        torch.testing.assert_close(heights / heights.max(), values / values.max())
        assert heights.max() <= 44.001


def test_one_memory_or_the_mean():
    values = torch.arange(24.0).view(2, 3, 4)
    assert torch.equal(of_memory(values, 1, 2), values[1, 2])
    assert torch.equal(of_memory(values, None, None), values.mean((0, 1)))
    assert torch.equal(of_memory(values, 0, None), values[0].mean(0))


@pytest.mark.parametrize("place", [0, 50, 199, 200])
def test_a_long_text_is_shown_around_its_place(place):
    first = window(200, place)
    assert 0 <= first <= 200 - ACROSS and first <= place <= first + ACROSS
    assert window(10, 5) == 0
    drawing = draw_text(reading(b"x" * 200), reading(b"x" * 200), place)
    fits(drawing)
    slots = [s for s in drawing.shapes if isinstance(s, Rect) and s.width == SLOT]
    assert len(slots) == ACROSS
    frames = [s.points[0] for s in drawing.shapes if isinstance(s, Line) and len(s.points) == 5]
    marked = [(slot.x, slot.y) for i, slot in enumerate(slots) if i == place - first]
    assert frames == marked and len(frames) == (place < 200)  # none after the text's end


def test_what_was_expected_is_written_with_its_chance():
    told = reading()
    drawing = draw_text(told, told, place=2)
    chance = float(told.expected[2, ord("r")])
    assert drawing.texts().count(f"{chance:.0%}") >= 2
    assert any("“r” came" in words for words in drawing.texts())
    assert any("the text ends" in words for words in draw_text(told, told, len(ROSE)).texts())


def test_letters_that_cannot_be_seen_have_names_and_costly_ones_a_colour():
    assert [as_word(byte) for byte in (10, 32, 9, 65, 255)] == [
        "newline", "space", "tab", "A", "byte 255",
    ]  # fmt: skip
    assert shade(0.0) == "#FFFFFF" and shade(8.0) == shade(20.0) == "#E69F00"


def test_heat_maps_have_a_row_for_each_memory_and_the_colours_of_the_gates():
    told = reading()
    drawing = draw_gates(told)
    fits(drawing)
    maps = [s for s in drawing.shapes if isinstance(s, Pixels)]
    for shown, (name, full) in zip(maps, FULL.items()):
        values = getattr(told, name).reshape(8, -1)
        expected = (127 + 127 * (values / full).clamp(max=1)).round()
        assert torch.equal(torch.tensor(shown.levels.astype(int)), expected.int().long())


def test_the_table_of_kinds_holds_their_means():
    told = reading()
    drawing = draw_kinds(told, "theta")
    fits(drawing)
    spaces = [i for i, byte in enumerate(ROSE) if byte == 32]
    assert f"{float(told.theta[1, 3, spaces].mean()):.3f}" in drawing.texts()
    assert "inside a word" in drawing.texts() and "newline" not in drawing.texts()


def test_worth_is_drawn_as_it_was_measured():
    trained = torch.full((4, 512), 2.0)
    ways = {"as trained": trained, "dropped": trained + 0.1, "no writes": trained + 0.2}
    drawing = draw_worth(Worth(ways), size=128)
    fits(drawing)
    flat = [s for s in drawing.shapes if isinstance(s, Line) and len(s.points) == 4 and s.clip]
    assert len(flat) == 6, "three lines in each of two charts"
    heights = [line.points[0][1] for line in flat]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], rel=1e-4)
    stream = draw_stream(trained.flatten() + 0.1, Worth(ways))
    fits(stream)
    one, other = [s for s in stream.shapes if isinstance(s, Line) and len(s.points) == 4 and s.clip]
    torch.testing.assert_close(torch.tensor(one.points), torch.tensor(other.points))  # 0.1 above


def test_the_widget_reads_what_is_typed_with_and_without_its_memory():
    torch.manual_seed(0)
    model = TitansLM(TitansConfig(variant="mac", dim=16, layers=2, heads=2, segment=8))
    widget = text_explorer(model.eval(), "a rose is a rose", letter=8)
    assert "After “…a rose ”, what next? (“i” came)" in widget.draw(**widget.values).texts()
    widget.controls["text"].value = "ein"
    assert widget.controls["letter"].max == 4 and widget.controls["letter"].value == 4
    assert "the text ends" in widget.picture.value
    widget.controls["text"].value = "eine rose"
    assert widget.controls["letter"].value == 10, "the letter after what was typed"
    widget.controls["text"].value = ""
    assert "nothing to read yet" in widget.picture.value
    for values in widget.corners():
        drawn = widget.draw(**values)
        if values["text"]:
            fits(drawn)
            assert drawn.height <= 500
