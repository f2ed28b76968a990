"""The pictures of chunks show the matrices, and every slider can be moved everywhere."""

import time

import numpy as np
import pytest
import torch

from minititans.experiments.chunk_costs import (
    EXACT,
    FROZEN,
    PER_TOKEN,
    CostConfig,
    chunk_costs,
)
from minititans.experiments.chunks import (
    OWN,
    SAME,
    SIZES,
    FreezingConfig,
    chunk_trace,
    freezing_cost,
    sequence,
)
from minititans.memory import Gates, MemoryState, sequential
from minititans.viz.charts import ERROR, levels
from minititans.viz.chunks import (
    WORST,
    chunk_explorer,
    draw_chunk,
    draw_costs,
    draw_freezing,
    draw_gate_matrices,
)
from minititans.viz.drawing import Drawing, Line, Pixels
from minititans.viz.triangle import SIDE, TOP, draw_triangle

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
    _, _, share = sequence()
    theta = 0.6 * (0.25 + 0.75 * share[0, 0, 0])
    eta, alpha = 0.5 * share[1, 0, 0], 0.05 * share[2, 0, 0]
    for t in range(8):
        for i in range(8):
            H = theta[i] * eta[i + 1 : t + 1].prod() if i <= t else 0
            D = (1 - alpha[i + 1 : t + 1]).prod() if i <= t else 0
            assert trace.H[t, i].item() == pytest.approx(float(H))
            assert trace.D[t, i].item() == pytest.approx(float(D))
    assert torch.allclose(trace.G, trace.D @ trace.H)


@pytest.mark.parametrize("exact", [False, True])
def test_the_errors_are_those_of_the_literal_loop(exact):
    trace = chunk_trace(**(START | {"gates": SAME}))
    keys, values, _ = sequence()
    gates = Gates.constant(0.6, 0.5, 0.05, keys.shape[:3], dtype=keys.dtype)
    found = [trace.exact] * len(SIZES) if exact else trace.frozen
    for size, error in zip(SIZES, found, strict=True):
        start = MemoryState.start([torch.zeros(1, 8, 8, dtype=keys.dtype)], 1)
        y, _ = sequential(keys.roll(-1, 2), keys, values, gates, start, size, exact=exact)
        expected = (y[:, :, :-1] - values[:, :, 1:]).square().sum(-1).mean()
        assert error == pytest.approx(expected.item())


def test_the_triangle_is_drawn_beside_the_loop_with_a_row_framed_in_both():
    left, E = torch.rand(5, 5).tril(-1) + torch.eye(5), torch.rand(5, 3)
    drawing = draw_triangle(left, E, left @ E, row=4)
    shown = [shape.levels for shape in drawing.shapes if isinstance(shape, Pixels)]
    for found, matrix in zip(shown, (left, E, left @ E), strict=True):
        assert np.array_equal(found, levels(matrix.numpy()))
    steps = [text for text in drawing.texts() if " = v" in text]
    assert steps[0] == "e₁ = v₁ − M₀ k₁" and steps[4] == "e₅ = v₅ − M₄ k₅" and len(steps) == 5
    terms = " + ".join(f"{left[3, i]:.2f} e{'₁₂₃'[i]}" for i in range(3))
    assert f"Row 4:  {terms} + e₄ = r₄" in drawing.texts()
    frames = [line.points for line in lines(drawing) if line.width == 2]
    (top,) = {min(y for _, y in frame) for frame in frames}  # at the same height in all four
    assert len(frames) == 4 and top == TOP + 3 * SIDE / 5


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
    assert trace.frozen[-1] > WORST
    drawing = draw_chunk(trace)
    assert any("diverged" in text for text in drawing.texts())


def test_a_redraw_takes_less_than_50_ms():
    widget = chunk_explorer()
    seconds = []
    for _ in range(5):
        began = time.process_time()
        widget.draw(**widget.values).svg()
        seconds.append(time.process_time() - began)
    assert min(seconds) < 0.05


def test_the_figures_of_cost_have_a_line_for_each_side_and_name_their_units():
    costs = chunk_costs(CostConfig(dim=4, time=8, sizes=(1, 4), rounds=1))
    drawing = draw_costs(costs)
    assert {"milliseconds", "megabytes", EXACT, FROZEN, PER_TOKEN} <= set(drawing.texts())
    assert sum(len(line.points) == 2 and line.dots > 0 for line in lines(drawing)) >= 6
    config = FreezingConfig(dim=3, pairs=9, tasks=2, sizes=(1, 4), thetas=(0.5, 1))
    frozen, exact = freezing_cost(config), freezing_cost(config, exact=True)
    assert "exact" not in draw_freezing(frozen).texts()
    drawing = draw_freezing(frozen, exact)
    words = {ERROR, "theta", "chunk size b (tokens)", "frozen", "exact"}
    assert words <= set(drawing.texts())
