"""The pictures of chunks show the matrices, and every slider can be moved everywhere."""

import time

import numpy as np
import pytest
import torch

from minititans.experiments.chunks import CostConfig, FreezingConfig, chunk_costs, freezing_cost
from minititans.memory import Gates, MemoryState, sequential
from minititans.viz.charts import ERROR, levels
from minititans.viz.chunks import (
    OWN,
    SAME,
    SIZES,
    WORST,
    _sequence,
    chunk_explorer,
    chunk_trace,
    draw_chunk,
    draw_costs,
    draw_freezing,
    draw_gate_matrices,
)
from minititans.viz.drawing import Drawing, Line, Pixels

START = {"size": 8, "theta": 0.6, "eta": 0.5, "alpha": 0.05, "gates": OWN}


def lines(drawing):
    return [shape for shape in drawing.shapes if isinstance(shape, Line)]


def test_the_heat_maps_are_the_three_matrices_in_order():
    matrices = [torch.rand(5, 5).tril() for _ in range(3)]
    drawing = draw_gate_matrices(*matrices)
    shown = [shape.levels for shape in drawing.shapes if isinstance(shape, Pixels)]
    for found, matrix in zip(shown, matrices, strict=True):
        assert np.array_equal(found, levels(matrix.numpy()))
    assert [text[0] for text in drawing.texts() if text[1:2] == ":"] == ["H", "D", "G"]


def test_the_trace_holds_products_of_the_gates_one_by_one():
    trace = chunk_trace(**START)
    _, _, wobble = _sequence()
    theta = 0.6 * (0.25 + 0.75 * wobble[0, 0, 0])
    eta, alpha = 0.5 * wobble[1, 0, 0], 0.05 * wobble[2, 0, 0]
    for t in range(8):
        for i in range(8):
            H = theta[i] * eta[i + 1 : t + 1].prod() if i <= t else 0
            D = (1 - alpha[i + 1 : t + 1]).prod() if i <= t else 0
            assert trace.H[t, i].item() == pytest.approx(float(H))
            assert trace.D[t, i].item() == pytest.approx(float(D))
    assert torch.allclose(trace.G, trace.D @ trace.H)


def test_the_errors_are_those_of_the_literal_loop():
    trace = chunk_trace(**(START | {"gates": SAME}))
    keys, values, _ = _sequence()
    gates = Gates.constant(0.6, 0.5, 0.05, keys.shape[:3], dtype=keys.dtype)
    for size, found in zip(SIZES, trace.errors, strict=True):
        start = MemoryState.start([torch.zeros(1, 8, 8, dtype=keys.dtype)], 1)
        y, _ = sequential(keys.roll(-1, 2), keys, values, gates, start, size, exact=False)
        error = (y[:, :, :-1] - values[:, :, 1:]).square().sum(-1).mean()
        assert found == pytest.approx(min(WORST, error.item()))


def test_every_corner_of_the_explorer_can_be_drawn_and_every_control_changes_the_picture():
    widget = chunk_explorer()
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


def test_a_diverged_memory_is_drawn_and_named():
    trace = chunk_trace(size=64, theta=1.0, eta=1.0, alpha=0.0, gates=SAME)
    assert trace.errors[-1] == WORST
    drawing = draw_chunk(trace, [1.0] * len(SIZES))
    assert any("diverged" in text for text in drawing.texts())


def test_a_redraw_takes_less_than_150_ms():
    widget = chunk_explorer()
    seconds = []
    for _ in range(5):
        began = time.process_time()
        widget.draw(**widget.values).svg()
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.15


def test_the_figures_of_cost_have_a_line_for_each_side_and_name_their_units():
    costs = chunk_costs(CostConfig(dim=4, time=8, sizes=(1, 4), rounds=1))
    drawing = draw_costs(costs)
    assert {"milliseconds", "megabytes", "matmuls", "a weight per token"} <= set(drawing.texts())
    assert sum(len(line.points) == 2 and line.dots > 0 for line in lines(drawing)) >= 4
    freezing = freezing_cost(FreezingConfig(dim=3, pairs=9, tasks=2, sizes=(1, 4), thetas=(0.5, 1)))
    drawing = draw_freezing(freezing)
    assert {ERROR, "theta", "chunk size b (tokens)", "one line a seed"} <= set(drawing.texts())
