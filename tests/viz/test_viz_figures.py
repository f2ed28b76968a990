"""The traces behind the figures and widgets of notebooks 00 to 02; the figures show them."""

import re
import time

import pytest
import torch

from minititans.experiments.hebbian import crosstalk, hebbian_recall, mean_error, pairs_held
from minititans.experiments.overflow import random_units
from minititans.experiments.sentence import DIM, pairs, read_text
from minititans.experiments.stepping import STORY, step_through, story
from minititans.experiments.two_loops import reading_loss
from minititans.experiments.writing import delta, delta_error, overwrite
from minititans.memory import Gates, MemoryState, sequential
from minititans.palette import BLUE, RED
from minititans.viz.charts import Box, bars
from minititans.viz.drawing import Drawing, Line, Pixels, Rect
from minititans.viz.plane import plane_explorer
from minititans.viz.reading import draw_reading, reading_explorer
from minititans.viz.recall import (
    draw_crosstalk,
    draw_recall,
    draw_scores,
    draw_sizes,
    recall_explorer,
)
from minititans.viz.stepper import draw_step, draw_surprise, stepper
from minititans.viz.writing import draw_comparison, draw_overwrite

TEXT = "to be or not to be, that is the question"


def library(keys, values, theta, eta, alpha):
    """The literal rule of the library over one sequence, in float64."""
    k, v = keys.double()[None, None], values.double()[None, None]
    shape = k.shape[:3]
    gates = Gates.constant(theta, eta, alpha, shape, dtype=torch.float64)
    start = MemoryState.start([torch.zeros(1, v.shape[-1], k.shape[-1]).double()], batch=1)
    return sequential(k, k, v, gates, start, chunk_size=1, trace=True)


# 00: reading letters.


def test_reading_a_text_is_the_librarys_rule():
    keys, values = pairs(TEXT, look_back=3)
    reading = read_text(TEXT, look_back=3, theta=0.7, times=3)
    _, _, trace = library(keys.repeat(3, 1), values.repeat(3, 1), 0.7, 0.0, 0.0)
    torch.testing.assert_close(reading.surprise.double(), trace.surprise[0, 0], atol=1e-4, rtol=0)


def test_keys_are_what_came_before_and_values_what_comes():
    keys, values = pairs("abcabd", look_back=2)
    assert keys.shape == values.shape == (6, DIM)
    assert torch.equal(keys[2], keys[5])  # after "ab"
    assert not torch.equal(values[2], values[5])  # "c", then "d"
    assert torch.equal(values[0], values[3])
    assert not torch.equal(keys[0], keys[3])  # "bd" comes before the first a, "bc" before the other


def test_the_drawing_counts_what_was_expected():
    reading = read_text(TEXT)
    right = reading.right().view(3, 40).sum(1).tolist()
    texts = draw_reading(reading, 40).texts()
    assert [text for text in texts if " of " in text] == [f"{count} of 40" for count in right]
    blue = [s for s in draw_reading(reading, 40).shapes if isinstance(s, Rect) and s.fill == BLUE]
    assert len(blue) == sum(right) + 1  # and one in the key to the colours


def test_letters_that_are_still_to_come_are_not_judged():
    reading = read_text(TEXT)
    texts = draw_reading(reading, 40, until=45).texts()
    seen = int(reading.right()[40:45].sum())
    assert [text for text in texts if " of " in text][1:] == [f"{seen} of 5"]


# 01: recall.


@pytest.mark.parametrize("pairs, dim", [(1, 8), (40, 16), (64, 64)])
def test_recall_is_asking_a_matrix_that_was_written_pair_by_pair(pairs, dim):
    recall = hebbian_recall(pairs, dim, seed=1)
    M = torch.zeros(dim, dim)
    for k, v in zip(recall.keys, recall.values):
        M += torch.outer(v, k)
    for j in range(pairs):
        torch.testing.assert_close(recall.answers[j], M @ recall.keys[j], atol=1e-4, rtol=0)
    errors = [(M @ k - v).square().sum() for k, v in zip(recall.keys, recall.values)]
    assert recall.error() == pytest.approx(float(sum(errors) / pairs), rel=1e-3, abs=1e-9)
    nearest = [int((recall.values @ answer).argmax()) for answer in recall.answers]
    assert recall.right() == pytest.approx(sum(j == n for j, n in enumerate(nearest)) / pairs)


@pytest.mark.parametrize("pairs, dim", [(32, 32), (100, 50), (200, 100)])
def test_crosstalk_is_what_the_theory_says(pairs, dim):
    measured = mean_error(pairs, dim, tuple(range(20)))
    assert measured == pytest.approx(crosstalk(pairs, dim), rel=0.05)


def test_pairs_held_is_the_last_count_that_is_good_enough():
    held = pairs_held(32, seed=1)
    assert hebbian_recall(held, 32, 1).right() >= 0.9
    assert hebbian_recall(int(1.2 * held) + 1, 32, 1).right() < 0.9
    assert pairs_held(32, seed=1, right=0.5) > held


def test_the_figures_of_recall_show_their_numbers():
    recall = hebbian_recall(64, 32)
    drawing = draw_recall(recall, seed=0)
    scores, _scale = [shape for shape in drawing.shapes if isinstance(shape, Pixels)]
    assert scores.levels.shape == (64, 64)
    assert any(f"squared error {recall.error():.2f}, expected 1.97" in t for t in drawing.texts())
    assert any(text.startswith(f"{recall.right():.0%}") for text in drawing.texts())
    assert (
        len([s for s in draw_scores(recall, recall).shapes if isinstance(s, Pixels)]) == 3
    )  # and a scale
    assert "n = d/2 = 32" in draw_sizes(64, 256).texts()
    assert {"d = 16", "d = 32"} <= set(draw_crosstalk((16, 32), (1, 16, 32)).texts())


# 02: the stepper, and two ways of writing.


@pytest.mark.parametrize("theta, eta, alpha", [(1, 0, 0), (0.5, 0.9, 0.1), (1.5, 0.3, 1.0)])
def test_the_stepper_shows_the_librarys_rule(theta, eta, alpha):
    keys, values = story()
    steps = step_through(keys, values, STORY, theta, eta, alpha)
    _, state, trace = library(keys, values, theta, eta, alpha)
    torch.testing.assert_close(steps.memory[-1], state.weights[0][0, 0])
    torch.testing.assert_close(steps.momentum[-1], state.momentum[0][0, 0])
    torch.testing.assert_close(steps.surprise, trace.surprise[0, 0])
    torch.testing.assert_close(steps.memory[1:].flatten(1).norm(dim=1), trace.memory[0, 0])
    torch.testing.assert_close(steps.errors.square().sum(1) / 2, trace.loss[0, 0])


def test_the_stepper_draws_the_token_it_stands_on():
    keys, values = story()
    steps = step_through(keys, values, STORY, 0.9, 0.5, 0.1)
    drawing = draw_step(steps, 15)
    assert f"token 15 of 24, surprise {steps.surprise[14]:.2f}" in drawing.texts()
    assert {"key of A", "value 5", "M before", "M after"} <= set(drawing.texts())
    maps = [shape.levels for shape in drawing.shapes if isinstance(shape, Pixels)]
    shown = (steps.memory[14], -steps.gradients[14], steps.momentum[15], steps.memory[15])
    *maps, scale = maps
    assert scale.shape[0] == 1 and {"−1.1", "1.1"} <= set(drawing.texts())
    for levels, matrix in zip(maps, shown, strict=True):
        expected = 127 + 127 * (matrix / 1.1).clamp(-1, 1)
        assert (torch.tensor(levels) - expected).abs().max() <= 0.5 + 1e-9


def test_the_figure_of_surprise_has_a_bar_for_every_token():
    keys, values = story()
    steps = step_through(keys, values, STORY, 0.9, 0.0, 0.0)
    heights = [s.height for s in draw_surprise(steps).shapes if isinstance(s, Rect)]
    expected = (steps.surprise / 1.5).clamp(max=1) * 110
    torch.testing.assert_close(torch.tensor(heights).double(), expected)


@pytest.mark.parametrize("theta, eta", [(0.9, 0.0), (0.9, 0.9), (1.5, 0.95)])
def test_no_bar_of_the_stepper_is_cut(theta, eta):
    """At its own question, eta = 0.9, surprises rise far above 1.5: the scale rises with them."""
    keys, values = story()
    steps = step_through(keys, values, STORY, theta, eta, 0.0)
    for t in range(len(STORY)):
        rects = [s for s in draw_step(steps, t + 1).shapes if isinstance(s, Rect)]
        timeline = [
            r.height for r in rects if r.fill in (BLUE, "#8FBAD6") and r.y + r.height == 124
        ]
        so_far = steps.surprise[: t + 1]
        assert len(timeline) == t + 1 and max(timeline) <= 84
        shares = torch.tensor(timeline).double() / max(timeline)
        torch.testing.assert_close(shares, so_far / so_far.max())
        assert max(timeline) >= 84 / 2.1  # and no lower than it must
        assert not any(r.fill == "#FFFFFF" for r in rects)  # the gap of a cut bar


def test_a_bar_that_is_cut_says_so():
    drawing = Drawing(100, 100)
    bars(drawing, Box(0, 0, 90, 80), [0.5, 2.0, -3.0], limit=1.0)
    colours = [s.fill for s in drawing.shapes if isinstance(s, Rect)]
    assert colours == [RED, RED, "#FFFFFF", BLUE, "#FFFFFF", "none"]


def test_delta_is_a_step_against_autograds_gradient():
    torch.manual_seed(0)
    M, k, v = torch.randn(4, 6).double(), torch.randn(6).double(), torch.randn(4).double()
    gradient = torch.func.grad(lambda M: (M @ k - v).square().sum() / 2)(M)
    torch.testing.assert_close(delta(M, k, v, 0.3), M - 0.3 * gradient)


def test_delta_overwrites_where_hebb_blends():
    result = overwrite(seed=4)
    torch.testing.assert_close(result.delta, result.new)
    torch.testing.assert_close(result.hebb, result.old + result.new)
    assert "Hebb answers" in draw_overwrite(result).texts()


def test_many_readings_of_few_pairs_end_at_the_least_squares_solution():
    assert delta_error(8, 32, passes=60) < 1e-8
    assert delta_error(8, 32, passes=1) < crosstalk(8, 32)
    drawing = draw_comparison(16, (1, 4, 8), (1, 3))
    assert {"delta, 1 reading", "delta, 3 readings"} <= set(drawing.texts())
    assert len([s for s in drawing.shapes if isinstance(s, Line) and s.clip]) == 3


# The widgets: every position gives finite numbers, quickly, and something changes.

WIDGETS = [reading_explorer, recall_explorer, stepper, plane_explorer]


@pytest.mark.parametrize("make", WIDGETS)
def test_a_widget_draws_at_every_corner(make):
    widget = make()
    for values in widget.corners():
        drawn = widget.draw(**values)  # an exception here is a failure: the view would hide it
        assert isinstance(drawn, Drawing | str)
        if isinstance(drawn, Drawing):
            numbers = re.findall(r'[ "](-?[\d.]+(?:e[-+]?\d+)?|nan|inf)[", ]', drawn.svg())
            assert numbers and not {"nan", "inf"} & set(numbers)
            assert max(abs(float(number)) for number in numbers) < 1e6


@pytest.mark.parametrize("make", WIDGETS)
def test_a_widget_draws_anew_when_any_of_its_sliders_moves_a_step(make):
    widget = make()
    for name, control in widget.controls.items():
        before = widget.picture.value
        if hasattr(control, "min"):
            up = control.value + control.step <= control.max
            control.value += control.step if up else -control.step
        elif hasattr(control, "options"):
            control.index += 1 if control.index + 1 < len(control.options) else -1
        else:
            control.value = "Not " + control.value
        assert widget.picture.value != before, name


def test_an_empty_sentence_gets_a_message():
    widget = reading_explorer()
    widget.controls["sentence"].value = ""
    assert "nothing to read" in widget.picture.value


@pytest.mark.parametrize("make", WIDGETS)
def test_a_redraw_takes_a_fraction_of_the_100_ms_a_slider_has(make):
    """The best of many moves: other programs may slow some of them down."""
    widget = make()
    control = [c for c in widget.controls.values() if hasattr(c, "min")][-1]
    took = []
    for i in range(12):
        start = time.perf_counter()
        control.value = control.min + (i % 5 + 1) * control.step
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05


def test_the_teaser_plays_to_the_end_of_the_sentence_and_not_beyond():
    widget = reading_explorer()
    read = widget.controls["read"]
    assert (read.value, read.max) == (80, 120)
    widget.controls["sentence"].value = "a rose"
    assert (read.value, read.max, read.player.max) == (18, 18, 18)
    widget.controls["sentence"].value = ""
    assert read.value == 0 and "nothing to read" in widget.picture.value
    widget.controls["sentence"].value = "a rose is a rose " * 9
    assert read.max == read.player.max == 120


# 02: what the outer loop sees of the inner one.


def test_the_loss_of_a_reading_is_that_of_the_librarys_memory():
    thetas = torch.tensor([0.3, 1.0])
    keys, values = random_units(2, 5, 1, 4, 6, seed=3)
    for theta, found in zip(thetas, reading_loss(thetas, sequences=5, pairs=4, dim=6, seed=3)):
        losses = []
        for k, v in zip(keys[:, 0], values[:, 0]):
            _, _, trace = library(k.repeat(2, 1), v.repeat(2, 1), float(theta), 0.0, 0.0)
            losses.append(float(trace.loss.sum()))
        assert float(found) == pytest.approx(sum(losses) / 5, rel=1e-5)
