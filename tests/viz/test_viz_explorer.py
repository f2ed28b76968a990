"""The base of the widgets, without a browser: values go to the function, its result to the view."""

import base64
import io
import re

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from minititans.viz.drawing import Drawing, Text
from minititans.viz.explorer import TALLEST, VIEW, choice, explorer, player, slider, steps


def words(**values):
    drawing = Drawing(300, 50)
    drawing.add(Text(5, 20, str(values)))
    return drawing


def test_moving_a_control_draws_anew_with_its_value():
    widget = explorer(words, a=slider(1, 0, 9), b=steps(4, [1, 4, 16]), c=choice("x", ["x", "y"]))
    assert widget.values == {"a": 1, "b": 4, "c": "x"}
    for name, value in (("a", 7), ("b", 16), ("c", "y")):
        before = widget.picture.value
        widget.controls[name].value = value
        assert widget.picture.value != before
    assert widget.picture.value == words(a=7, b=16, c="y").svg()


def test_a_stored_notebook_gets_the_picture_and_a_live_one_the_widget():
    widget = explorer(words, a=slider(1, 0, 9))
    bundle = widget._repr_mimebundle_()
    assert bundle["text/plain"] == "Explorer(a)"
    assert bundle[VIEW]["model_id"] == widget.view.model_id
    still = base64.b64decode(bundle["image/png"])
    assert still == words(a=1).png()
    assert imread(io.BytesIO(still)).shape[:2] == (60, 360)


def test_a_message_is_shown_as_it_is_and_cannot_be_markup():
    widget = explorer(lambda a: f"no picture for <{a}>", a=slider(1, 0, 9))
    assert "no picture for &lt;1&gt;" in widget.picture.value
    assert "image/png" in widget._repr_mimebundle_()


def test_an_error_becomes_a_plain_message_and_the_widget_lives_on():
    def draw(a):
        if a > 5:
            raise ValueError("a: too large")
        return words(a=a)

    widget = explorer(draw, a=slider(1, 0, 9))
    widget.controls["a"].value = 6
    assert "cannot be drawn" in widget.picture.value and "a: too large" in widget.picture.value
    widget.controls["a"].value = 2
    assert widget.picture.value == words(a=2).svg()


def test_a_matplotlib_figure_is_shown_as_a_picture():
    def draw(a):
        figure = Figure(figsize=(3, 1))
        figure.subplots().plot([0, a])
        return figure

    widget = explorer(draw, a=slider(1, 0, 9))
    assert 'src="data:image/png;base64,' in widget.picture.value
    before = widget.picture.value
    widget.controls["a"].value = 9
    assert widget.picture.value != before


def test_corners_are_all_ends_of_all_controls():
    widget = explorer(
        words,
        a=slider(0.5, 0.0, 1.0),
        b=steps(4, [1, 4, 16]),
        c=choice("x", [("ex", "x"), ("why", "y")]),
    )
    found = [tuple(values.values()) for values in widget.corners()]
    assert found == [(a, b, c) for a in (0, 1) for b in (1, 16) for c in ("x", "y")]


def test_a_player_plays_its_slider():
    widget = explorer(words, a=player(3, 0, 9, "frame", interval=250))
    play = widget.controls["a"].player
    assert (play.value, play.min, play.max, play.interval) == (3, 0, 9, 250)
    assert play in widget.view.children[0].children[0].children


def test_the_speed_of_a_player_changes_its_interval_and_nothing_else():
    widget = explorer(words, a=player(3, 0, 9, "frame", interval=400))
    control, before = widget.controls["a"], widget.picture.value
    assert control.speed in widget.view.children[0].children[0].children
    for name, interval in {"½×": 800, "4×": 100, "1×": 400}.items():
        control.speed.label = name
        assert control.player.interval == interval
    assert widget.picture.value == before and widget.values == {"a": 3}


@pytest.mark.parametrize("height, width", [(400, None), (600, 765)])
def test_a_tall_drawing_is_scaled_down_to_be_seen_with_its_controls(height, width):
    widget = explorer(lambda a: Drawing(900, height), a=slider(1, 0, 9))
    found = re.match(r'<div style="max-width:(\d+)px">', widget.picture.value)
    assert (found and int(found[1])) == width
    assert 900 / height == pytest.approx((width or 900) / min(height, TALLEST))


@pytest.mark.parametrize(
    "control, kind, value",
    [
        (slider(3, 0, 9), "IntSlider", 3),
        (slider(0.3, 0, 1), "FloatSlider", 0.3),
        (slider(1, 0, 2, 0.5), "FloatSlider", 1.0),
    ],
)
def test_a_slider_is_over_whole_numbers_only_if_all_are(control, kind, value):
    assert type(control).__name__ == kind and control.value == value
