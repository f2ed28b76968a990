"""The memory of two dimensions follows the rules, and its picture shows where it is."""

import math

import pytest
import torch

from minititans.experiments.plane import STORY, falls_by_the_cosine, unit_vector, watch
from minititans.memory import Gates, MemoryState, sequential
from minititans.palette import INK, RED
from minititans.viz.drawing import Line
from minititans.viz.plane import CIRCLE, MOMENTS, draw_plane, plane_explorer


@pytest.mark.parametrize("angle, theta", [(60, 1.0), (90, 0.5), (10, 2.0)])
def test_the_delta_rule_is_the_librarys(angle, theta):
    plane = watch(angle, theta)
    k, v = plane.keys[None, None], plane.values[None, None]
    gates = Gates.constant(theta, 0.0, 0.0, k.shape[:3], dtype=torch.float64)
    start = MemoryState.start([torch.zeros(1, 2, 2).double()], batch=1)
    _, state, trace = sequential(k, k, v, gates, start, chunk_size=1, trace=True)
    torch.testing.assert_close(plane.memory[-1], state.weights[0][0, 0])
    torch.testing.assert_close(plane.errors.norm(dim=1), trace.surprise[0, 0])


def test_hebb_adds_every_pair():
    plane = watch(45, theta=0.5, rule="Hebb")
    torch.testing.assert_close(plane.memory[-1], 0.5 * plane.values.T @ plane.keys)


def test_the_keys_have_length_1_and_the_angle_that_was_asked_for():
    plane = watch(35)
    assert torch.allclose(plane.keys.norm(dim=1), torch.ones(12).double())
    cosine = float(plane.keys[0] @ plane.keys[1])
    assert math.degrees(math.acos(cosine)) == pytest.approx(35)


def test_errors_fall_by_the_cosine_of_the_angle(monkeypatch):
    assert falls_by_the_cosine((10, 30, 45, 60, 75, 90))
    from minititans.experiments import plane

    hebb = lambda angle: watch(angle, rule="Hebb")  # noqa: E731
    monkeypatch.setattr(plane, "watch", hebb)
    assert not falls_by_the_cosine()


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="rule: got 'hebb', expected one of delta, Hebb"):
        watch(60, rule="hebb")


def ellipse(drawing) -> torch.Tensor:
    """The pixels of the closed black line: M times the circle."""
    (line,) = [
        s for s in drawing.shapes
        if isinstance(s, Line) and s.colour == INK and s.width and len(s.points) == 73
    ]  # fmt: skip
    return torch.tensor(line.points, dtype=torch.float64)


@pytest.mark.parametrize("rule", ["delta", "Hebb"])
def test_the_black_line_is_what_the_memory_makes_of_the_circle(rule):
    plane = watch(60, rule=rule)
    centre = ellipse(draw_plane(plane, 0, rule))[0]  # an empty memory takes all to the middle
    for t in range(len(STORY)):
        moments = [
            ellipse(draw_plane(plane, MOMENTS * t + 1 + i, rule)) - centre for i in range(MOMENTS)
        ]
        for shown, M in ((moments[0], plane.memory[t]), (moments[-1], plane.memory[t + 1])):
            expected = (M @ CIRCLE).T * torch.tensor([1.0, -1.0])  # pixels count downwards
            if expected.norm() > 0:
                torch.testing.assert_close(
                    shown / shown.norm(), expected / expected.norm(), atol=1e-6, rtol=0
                )
        # In between it moves evenly.
        torch.testing.assert_close(moments[2] - moments[1], moments[1] - moments[0])
        assert max(m.abs().max() for m in moments) <= 151, "it leaves its field"


def test_the_red_arrow_is_the_error_and_shrinks_while_it_is_written():
    plane = watch(60)

    def length(moment):
        red = [s for s in draw_plane(plane, moment).shapes if isinstance(s, Line)]
        red = [s for s in red if s.colour == RED and s.points[0][0] < 640]  # not the legend's
        return math.dist(*red[0].points) if red else 0.0

    lengths = [length(MOMENTS * 6 + 1 + i) for i in range(MOMENTS)]
    assert lengths == pytest.approx([lengths[0] * share for share in (1, 2 / 3, 1 / 3, 0)])


def test_the_drawing_tells_which_pair_is_read_and_its_error():
    plane = watch(60)
    texts = draw_plane(plane, MOMENTS + 1).texts()
    assert "Pair 2 of 12: B2" in texts
    error = float((plane.values[1] - unit_vector(75) * 0.5).norm())  # cos 60° of value 1
    assert f"answer 2. Error (red): {error:.2f}" in texts


def test_the_widget_begins_after_the_first_write_of_b():
    widget = plane_explorer()
    assert widget.values == {"moment": 8, "angle": 60, "theta": 1.0, "rule": "delta"}
    assert "Pair 2 of 12: B2" in widget.draw(**widget.values).texts()
