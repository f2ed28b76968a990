"""A drawing is the same as SVG and as a picture, and a chart shows the numbers it was given."""

import io
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from minititans.viz.axis import Axis
from minititans.viz.charts import Box, Series, bars, chart, colour_scale, heatmap, levels
from minititans.viz.drawing import PALETTE, Drawing, Line, Pixels, Rect, Text, palette_png

BOX = Box(50, 60, 200, 100)


def lines(drawing, colour):
    return [s for s in drawing.shapes if isinstance(s, Line) and s.colour == colour]


def pixel(drawing, x, y):
    image = imread(io.BytesIO(drawing.png(dpi=100)))  # [rows, columns, rgba], 0 to 1
    assert image.shape == (drawing.height, drawing.width, 4)
    return tuple((255 * image[y, x, :3]).round().astype(int).tolist())


def test_the_picture_shows_every_kind_of_shape_where_it_is():
    drawing = Drawing(200, 100)
    drawing.add(Rect(10, 10, 20, 20, fill="#FF0000"), Line(((50, 20), (90, 20)), "#00FF00", 6))
    drawing.add(Pixels(100, 10, 40, 40, np.array([[0, 127], [127, 254]], np.uint8)))
    drawing.add(Line(((0, 80), (200, 80)), "#0000FF", 6, clip=(50, 60, 50, 30)))
    assert pixel(drawing, 20, 20) == (255, 0, 0)
    assert pixel(drawing, 70, 20) == (0, 255, 0)
    assert pixel(drawing, 110, 20) == tuple(PALETTE[0])
    assert pixel(drawing, 130, 40) == tuple(PALETTE[254])
    assert pixel(drawing, 75, 80) == (0, 0, 255)
    assert pixel(drawing, 25, 80) == pixel(drawing, 150, 80) == (255, 255, 255)  # cut off


def test_svg_is_well_formed_whatever_is_written_on_it():
    drawing = Drawing(200, 100)
    drawing.add(Text(5, 20, "a < b & \"c\" > 'd' Ω"), Text(20, 50, "up", upwards=True))
    drawing.add(Rect(1, 2, 3, 4), Line(((0, 0), (5, 5)), dash="4 2", dots=2, clip=(0, 0, 9, 9)))
    drawing.add(Pixels(0, 0, 10, 10, levels(np.eye(3))))
    tree = ElementTree.fromstring(drawing.svg())
    names = [element.tag.split("}")[1] for element in tree.iter()]
    assert {"svg", "text", "rect", "polyline", "circle", "image"} == set(names)
    assert names.count("svg") == 2  # the second one cuts the line
    assert any(element.text == "a < b & \"c\" > 'd' Ω" for element in tree.iter())


def test_a_chart_puts_numbers_where_they_belong():
    drawing = Drawing(300, 220)
    series = [Series([0, 5, 10], [0, 50, 100], "a line", "#123456")]
    chart(drawing, BOX, series, xlim=(0, 10), ylim=(0, 100), title="T", xlabel="X", ylabel="Y")
    line = lines(drawing, "#123456")[0]
    assert line.points == ((50, 160), (150, 110), (250, 60))
    assert {"T", "X", "Y", "a line", "0", "100", "10"} <= set(drawing.texts())


def test_what_lies_outside_the_limits_is_cut_off_and_not_moved():
    drawing = Drawing(300, 220)
    series = [Series([0, 5, 10], [0, 1000, 50], "a", "#123456", dots=3)]
    chart(drawing, BOX, series, xlim=(0, 10), ylim=(0, 100))
    line, dots = lines(drawing, "#123456")[:2]
    assert line.points[1][1] < 0 and line.clip == (48, 58, 204, 104)
    assert len(dots.points) == 2 and dots.width == 0


def test_a_logarithmic_axis_makes_equal_ratios_equal_distances():
    drawing = Drawing(300, 220)
    chart(drawing, BOX, [Series([1, 4, 16], [1, 10, 100], "", "#123456")], log_x=True, log_y=True)
    x, y = zip(*lines(drawing, "#123456")[0].points)
    assert x == pytest.approx((50, 150, 250)) and y == pytest.approx((160, 110, 60))
    assert {"1", "2", "4", "8", "16", "10", "100"} <= set(drawing.texts())


@pytest.mark.parametrize("low, high", [(0, 1), (0, 1.05), (-3, 7), (0, 2e-5), (0, 31_000), (5, 6)])
@pytest.mark.parametrize("log", [False, True])
def test_ticks_are_few_and_within_the_limits(low, high, log):
    if log:
        low = max(low, high / 1e9)
    axis = Axis((low, high), 0, 100, log)
    ticks = axis.ticks(count=6)
    assert all(-0.01 <= place <= 100.01 for place, _ in ticks)
    assert 2 <= len(ticks) <= 12 or (log and high / low < 2)
    words = [words for _, words in ticks]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    drawing = Drawing(300, 220)
    with pytest.raises(ValueError, match=r"'a line'.*finite"):
        chart(drawing, BOX, [Series([0, 1], [0, bad], "a line")])
    with pytest.raises(ValueError, match="finite"):
        heatmap(drawing, BOX, [[0, bad]])
    with pytest.raises(ValueError, match="finite"):
        bars(drawing, BOX, [0, bad])


def test_constant_and_single_and_zero_series_are_drawn():
    for y in ([0, 0], [3, 3], [-1, -1]):
        drawing = Drawing(300, 220)
        chart(drawing, BOX, [Series([1, 2], y, "a", "#123456")])
        chart(drawing, BOX, [Series([1], y[:1], "a", "#123456", dots=3)])
        points = [p for line in lines(drawing, "#123456") for p in line.points]
        assert np.isfinite(points).all()
    bars(drawing, BOX, [0.0, 0.0])
    heatmap(drawing, BOX, np.zeros((2, 2)))
    drawing.png()


def test_bars_stand_on_the_middle_and_are_as_high_as_their_number():
    drawing = Drawing(300, 220)
    bars(drawing, BOX, [1.0, -0.5, 9.0], limit=1.0)
    up, down, cut, gap = [s for s in drawing.shapes if isinstance(s, Rect) and s.fill != "none"]
    assert (up.y, up.height) == (60, 50) and (down.y, down.height) == (110, 25)
    assert cut.height == 50 and cut.y < gap.y < cut.y + 10


def test_a_heat_map_has_a_level_for_each_number():
    drawing = Drawing(300, 220)
    matrix = np.array([[-1.0, 0.0, 1.0], [0.5, -9.0, 9.0]])
    heatmap(drawing, BOX, matrix, title="M", limit=1.0)
    (pixels,) = [s for s in drawing.shapes if isinstance(s, Pixels)]
    assert pixels.levels.tolist() == [[0, 127, 254], [190, 0, 254]]
    assert PALETTE[127].tolist() == [255, 255, 255]


def test_the_picture_of_a_heat_map_holds_its_colours():
    levels = np.arange(255, dtype=np.uint8)[None].repeat(3, 0)
    image = imread(io.BytesIO(palette_png(levels)))
    assert image.shape[:2] == (3, 255)
    assert np.array_equal((255 * image[1, :, :3]).round(), PALETTE)


def test_entries_of_a_legend_keep_their_distance():
    """Words in the widest letters end before the next sample, dots included, begins."""
    drawing = Drawing(900, 300)
    series = [Series([0, 1], [0, 1], words, dots=4) for words in ("mmmmm MMMMM", "iii", "wW", "%%")]
    chart(drawing, BOX, series)
    figure = drawing.figure()
    renderer = FigureCanvasAgg(figure).get_renderer()
    words = {text.get_text(): text.get_window_extent(renderer) for text in figure.axes[0].texts}
    samples = [line for line in drawing.shapes if isinstance(line, Line) and line.dots == 4]
    starts = [line.points[0][0] for line in samples if line.points[0][1] == BOX.y - 16]
    assert len(starts) == 4
    for each, start in zip(series, starts[1:]):
        assert start - 4 - words[each.label].x1 > 5


def test_a_colour_scale_runs_from_the_least_number_to_the_largest():
    drawing = Drawing(300, 100)
    colour_scale(drawing, Box(50, 10, 100, 10), limit=0.5)
    (strip,) = [shape for shape in drawing.shapes if isinstance(shape, Pixels)]
    assert strip.levels[0, [0, 50, -1]].tolist() == [0, 127, 254]
    assert drawing.texts() == ["−0.5", "0.5"]
