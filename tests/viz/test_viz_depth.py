"""The pictures of depth show the numbers they are given; the explorer can be moved everywhere."""

import time
from itertools import pairwise

import numpy as np
import pytest
import torch

from minititans.experiments.depth import (
    DepthConfig,
    best_matrix_error,
    learning_curve,
    new_learner,
)
from minititans.experiments.depth_grid import Result
from minititans.experiments.depth_maps import ASKED, PAIRS, Race, depth_trace, race
from minititans.experiments.fading import ADDING, PLAIN, Fading, FadingConfig
from minititans.memory import MemoryState, sequential
from minititans.memory.network import read
from minititans.tasks.maps import FOLDED, STRAIGHT, Maps, unit_vectors
from minititans.viz.charts import ERROR
from minititans.viz.depth import (
    binned,
    depth_explorer,
    depth_lines,
    draw_curves,
    draw_fading,
    draw_fit,
    draw_grid,
    draw_recall,
    draw_times,
    means_by_depth,
)
from minititans.viz.drawing import Drawing, Line
from minititans.viz.network import draw_network


@pytest.fixture(scope="module")
def learners():
    return {depth: new_learner(DepthConfig(), depth) for depth in (1, 2, 3, 4)}


@pytest.fixture(scope="module")
def raced(learners):
    return race(learners, pairs=64)


def a_map(slope, number):
    """The keys that the explorer asks, and the pairs of its map with their values after them."""
    rng = torch.Generator().manual_seed(number)
    asked = unit_vectors(ASKED, 4, rng)
    return asked, *Maps(4, 8, slope).batch(1, max(PAIRS), rng, asked)


def test_a_curve_is_drawn_as_the_means_of_stretches_that_double():
    curve = torch.tensor([9.0, 1.0, 2.0, 4.0, 5.0, 5.0, 8.0])
    assert binned(curve) == ([1.0, 2.5, 5.0], [1.0, 3.0, 6.0])


def test_a_memory_that_has_read_nothing_answers_with_its_start(learners):
    asked, _, _ = a_map(FOLDED, 3)
    trace = depth_trace(learners[2], FOLDED, 0, number=3)
    expected = read([w[0] for w in learners[2].weights], asked)
    assert torch.allclose(trace.answer, expected, atol=1e-6)


def test_a_memory_answers_what_the_literal_loop_has_learned(learners):
    trace = depth_trace(learners[2], FOLDED, 8, number=5)
    asked, keys, values = a_map(FOLDED, 5)
    k, v = keys[None, :, :8], values[None, :, :8]
    gates = learners[2].gates(1, 8).map(lambda gate: gate[:, :1])
    start = MemoryState.start([w[:1] for w in learners[2].weights], 1)
    _, state = sequential(k, k, v, gates, start, 16)
    expected = read(state.weights, asked)[0, 0]
    assert torch.allclose(trace.answer, expected, atol=1e-5)
    assert torch.equal(trace.truth, values[0, max(PAIRS) :])


def test_the_best_matrix_follows_a_straight_map_and_cannot_follow_a_folded_one(learners):
    straight = depth_trace(learners[1], STRAIGHT, 0)
    assert straight.error(straight.matrix) < 0.02
    folded = depth_trace(learners[1], FOLDED, 0)
    assert folded.error(folded.matrix) > 0.8
    assert folded.error(folded.truth) == 0


def test_every_corner_of_the_explorer_can_be_drawn_and_every_control_changes_the_picture(
    learners, raced
):
    widget = depth_explorer(learners, raced)
    for values in widget.corners():
        drawing = widget.draw(**values)
        assert isinstance(drawing, Drawing) and drawing.svg()
    for name, control in widget.controls.items():
        before = widget.picture.value
        options = getattr(control, "options", None)
        if options:
            control.value = options[(options.index(control.value) + 1) % len(options)]
        else:
            control.value += control.step
        assert widget.picture.value != before, name
        assert "cannot be drawn" not in widget.picture.value


def test_a_redraw_takes_less_than_50_ms(learners, raced):
    widget = depth_explorer(learners, raced)
    seconds = []
    for _ in range(5):
        began = time.process_time()
        widget.draw(kind="bent", number=1, depth=4, pairs=max(PAIRS)).svg()
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.05


def test_lines_of_depth_differ_in_colour_and_in_dash():
    lines = depth_lines({depth: ([1, 2], [1, 1]) for depth in (1, 2, 3, 4)})
    assert len({line.colour for line in lines}) == len({line.dash for line in lines}) == 4


def test_the_grid_shows_the_mean_over_seeds_at_each_length_and_dimension():
    def result(dim, pairs, depth, error):
        errors = {"bent": [error - 0.25, error + 0.25]}
        return Result(dim, pairs, depth, errors, errors, 1.0)

    results = [result(4, 64, 1, 0.5), result(4, 128, 1, 0.25), result(16, 128, 1, 0.75)]
    results += [result(4, 64, 2, 1.0)]
    assert means_by_depth(results[:2] + results[3:], "bent", "pairs") == {
        1: ([64, 128], [0.5, 0.25]),
        2: ([64], [1.0]),
    }
    assert means_by_depth(results[1:3], "bent", "dim") == {1: ([4, 16], [0.25, 0.75])}
    texts = set(draw_grid(results, "bent").texts())
    assert {
        "length of the sequence (pairs)",
        "numbers in a key",
        ERROR,
        "depth 1",
        "depth 2",
    } <= texts


def test_the_other_figures_name_their_axes_and_their_lines():
    curves = {depth: torch.rand(3, 64) for depth in (1, 2)}
    best = {"bent": torch.full((3,), 0.2), "folded": torch.ones(3)}
    drawing = draw_curves(Race({"bent": curves, "folded": curves}, best, 32))
    texts = {ERROR, "pairs read", "trained to here", "depth 1", "depth 2", "folded maps"}
    assert texts | {"the best matrix"} <= set(drawing.texts())
    recall = {depth: [torch.rand(3) for _ in range(3)] for depth in (1, 2)}
    drawing = draw_recall([4, 8, 16], recall, dim=4)
    assert {"best matrix, in theory", "pairs in the list", ERROR} <= set(drawing.texts())
    drawing = draw_times([1, 2, 3], [0.1, 0.2, 0.3], (0.0, 0.1))
    assert {"measured", "straight line", "milliseconds"} <= set(drawing.texts())
    assert {"1", "2", "3"} <= set(drawing.texts()) and "1.5" not in drawing.texts()
    x = torch.linspace(0, 6, 20)
    drawing = draw_fit(x, x.sin(), x, {1: x.cos(), 2: x.sin()}, "Waves")
    assert {"pairs", "depth 1", "depth 2", "Waves", "value"} <= set(drawing.texts())
    assert np.isfinite([p for s in drawing.shapes if isinstance(s, Line) for p in s.points]).all()


def test_a_race_holds_the_curves_and_the_stretches_that_claims_speak_of(learners, raced):
    curve = learning_curve(learners[2], FOLDED, 64)
    assert torch.equal(raced.curves["folded"][2], curve)
    assert torch.equal(raced.best["bent"], best_matrix_error(DepthConfig(), 0.0))
    numbers = torch.arange(512.0).repeat(3, 1)
    counted = Race({"bent": {1: numbers}}, {}, trained=128)
    assert counted.late("bent", 1).tolist() == [sum(range(96, 128)) / 32] * 3
    assert counted.late("bent", 1, 512).tolist() == [sum(range(384, 512)) / 128] * 3
    assert counted.early("bent", 1).tolist() == [sum(range(4, 16)) / 12] * 3


def test_the_figure_of_fading_has_a_line_for_each_form_and_depth():
    config = FadingConfig(left=(1.0, 0.1))
    errors = {(form, d): torch.full((3, 2), 0.1 * d) for form in (PLAIN, ADDING) for d in (2, 3)}
    texts = draw_fading(Fading(config, errors, torch.full((3,), 0.05))).texts()
    assert {"plain layers, depth 2", "adding layers, depth 3", ERROR} <= set(texts)


def test_the_network_has_the_shape_of_each_weight_beside_its_surprise():
    for residual in (False, True):
        texts = draw_network(residual).texts()
        after = dict(pairwise(texts))  # a box's shape is written after its formula
        assert after["W₁"] == after["u₁ = −e₁ kᵀ"] == "[hidden, d_key]"
        assert after["W₂"] == after["u₂ = −e₂ aᵀ"] == "[d_value, hidden]"
        assert ("the key itself" in texts) == residual
