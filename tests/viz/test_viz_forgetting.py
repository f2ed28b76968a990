"""The numbers and pictures of notebook 04: held to the literal loop, to averages, to chance."""

import time

import pytest
import torch

from minititans.experiments.alive import Alive
from minititans.experiments.bound import always_one_more, norms_of_streams
from minititans.experiments.forgetting import (
    Drift,
    after_the_first,
    best_alpha,
    drift_error,
    expected_drift,
    learn_alpha,
    live,
    predictions,
    share_left,
)
from minititans.experiments.overflow import (
    expected_by_age,
    random_units,
    recall_by_age,
    shrinkage,
)
from minititans.viz import forgetting as viz
from minititans.viz import lasting
from minititans.viz.drawing import Drawing, Line


def test_the_two_numbers_are_averages_over_random_keys():
    dim, theta, alpha = 6, 0.7, 0.1
    k = random_units(200_000, dim, seed=0)
    x = torch.eye(dim)[0]
    moved = (1 - alpha) * x - theta * k * (k @ x)[:, None]  # B x
    r, q = shrinkage(dim, theta, alpha)
    assert moved[:, 0].mean().item() == pytest.approx(r, abs=3e-3)
    assert moved.square().sum(-1).mean().item() == pytest.approx(q, abs=3e-3)


def test_recall_by_age_is_the_literal_loop():
    (found,) = recall_by_age(9, dim=4, theta=0.8, alpha=0.1, seeds=(3,), memories=2)
    k, v = random_units(2, 2, 9, 4, seed=3)
    expected = torch.zeros(9)
    for row in range(2):
        M = torch.zeros(4, 4)
        for key, value in zip(k[row], v[row]):
            M = 0.9 * M + 0.8 * torch.outer(value - M @ key, key)
        expected += (k[row] @ M.T - v[row]).square().sum(-1).flip(0) / 2
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("theta, alpha", [(1.0, 0.0), (0.6, 0.05), (1.0, 0.2)])
def test_the_expected_error_by_age_is_what_chance_gives(theta, alpha):
    (measured,) = recall_by_age(24, dim=8, theta=theta, alpha=alpha, seeds=(0,), memories=4000)
    expected = expected_by_age(24, dim=8, theta=theta, alpha=alpha)
    assert (measured - expected).abs().max() < 0.06
    assert (measured - expected).abs().mean() < 0.025


def test_a_prediction_is_what_the_memory_knew_before_the_token():
    torch.manual_seed(0)
    k, v = random_units(1, 7, 3, seed=0), torch.randn(1, 7, 3)
    theta, alpha = torch.rand(1, 7), torch.rand(1, 7)
    M, expected = torch.zeros(3, 3), []
    for t in range(7):
        expected.append(M @ k[0, t])
        M = (1 - alpha[0, t]) * M + theta[0, t] * torch.outer(v[0, t] - M @ k[0, t], k[0, t])
    assert torch.allclose(predictions(k, v, theta, alpha)[0], torch.stack(expected), atol=1e-6)


def test_a_drift_is_one_linear_map_per_context():
    drift = Drift(length=12, contexts=3, dim=4)
    keys, values = drift.stream(300, seed=0)
    maps = []
    for context in range(3):
        own = slice(12 * context, 12 * (context + 1))
        A = torch.linalg.lstsq(keys[:, own], values[:, own]).solution  # [streams, dim, dim]
        assert torch.allclose(keys[:, own] @ A, values[:, own], atol=1e-3)
        maps.append(A)
    assert (maps[0] - maps[1]).norm(dim=(1, 2)).min() > 0.1
    assert values.square().sum(-1).mean().item() == pytest.approx(1, abs=0.05)
    assert torch.allclose(keys.norm(dim=-1), torch.ones(300, 36))


@pytest.mark.parametrize("theta", [1.0, 0.4])
@pytest.mark.parametrize("alpha", ["none", "constant", "clears"])
def test_the_expected_error_under_drift_is_what_chance_gives(theta, alpha):
    drift = Drift(length=6, contexts=3, dim=4, theta=theta)
    alpha = {
        "none": torch.zeros(1, 1),
        "constant": torch.full((1, 1), 0.15),
        "clears": torch.where(drift.first, 1.0, 0.02)[None],
    }[alpha]
    (measured,) = drift_error(alpha, drift, seeds=(1,), streams=6000)
    assert (measured / expected_drift(alpha, drift) - 1).abs().max() < 0.08


def test_the_first_context_does_not_count():
    drift = Drift(length=2, contexts=3)
    assert after_the_first(torch.tensor([9.0, 9, 1, 2, 3, 4]), drift) == 2.5


@pytest.mark.parametrize("unrelated", [False, True])
def test_the_explorers_loop_is_the_librarys_rule(unrelated):
    drift = Drift(length=5, contexts=3, dim=4, theta=0.7, unrelated=unrelated)
    alphas = torch.tensor([0.0, 0.1])
    lives = live(drift, alphas, streams=6, seed=2)
    (errors,) = drift_error(alphas[:, None], drift, seeds=(2,), streams=6)
    for life, before in zip(lives, errors):
        assert torch.allclose(life.before, before, atol=1e-5)
    keys, values = drift.stream(6, seed=2)
    gates = [torch.full((6, 15), number) for number in (0.7, 0.1)]
    # Asked once more at the end: a token that follows and whose query is an earlier key.
    for age in (0, 9):
        again = torch.cat([keys, keys[:, [14 - age]]], 1)
        padded = [torch.cat([gate, gate[:, :1]], 1) for gate in gates]
        nothing = torch.cat([values, values[:, :1]], 1)
        answer = predictions(again, nothing, *padded)[:, -1]
        error = (answer - values[:, 14 - age]).square().sum(-1).mean()
        assert lives[1].by_age[age].item() == pytest.approx(error.item(), rel=1e-4)


def test_training_moves_alpha_towards_the_best_in_theory():
    fine = torch.logspace(-3, 0, 200)
    for length in (4, 32):
        drift = Drift(length, contexts=3, dim=8)
        best = fine[after_the_first(expected_drift(fine[:, None], drift), drift).argmin()]
        course = learn_alpha(drift, seeds=(0,), steps=3, streams=16).alpha[:, 0]
        assert (course[-1] - course[0]) * (best - course[0]) > 0, length
        assert (course[-1] - course[0]).abs() > 0.01


def test_a_gate_that_sees_the_change_has_an_alpha_for_it():
    drift = Drift(length=12, contexts=2, dim=3)
    blind = learn_alpha(drift, seeds=(0, 1), steps=3, streams=4)
    assert torch.equal(blind.alpha, blind.alpha_first)
    sees = learn_alpha(drift, True, seeds=(0, 1), steps=8, streams=16)
    assert (sees.alpha_first[-1] > 2 * sees.alpha[-1]).all()


def test_seeds_are_trained_side_by_side_without_meeting():
    drift = Drift(length=4, contexts=2, dim=3)
    alone = learn_alpha(drift, True, seeds=(5,), steps=3, streams=4)
    beside = learn_alpha(drift, True, seeds=(3, 5), steps=3, streams=4)
    for one, two in zip(vars(alone).values(), vars(beside).values()):
        assert one.shape == (3, 1) and torch.allclose(one[:, 0], two[:, 1], atol=1e-6)


def test_the_best_alpha_is_better_than_its_neighbours():
    lengths = (4, 16, 64)
    for length, alpha in zip(lengths, best_alpha(lengths)):
        drift = Drift(length)
        tried = alpha * torch.tensor([0.8, 1.0, 1.25])
        low, best, high = after_the_first(expected_drift(tried[:, None], drift), drift)
        assert best < low and best < high


def test_what_is_left_is_what_the_rule_leaves():
    """One write, then tokens that write nothing: the reading fades as `share_left` says."""
    keys = torch.tensor([1.0, 0.0]).expand(1, 6, 2)
    theta = torch.tensor([[1.0, 0, 0, 0, 0, 0]])
    found = predictions(keys, keys, theta, torch.full((1, 6), 0.3))[0, 1:, 0]
    assert found.tolist() == pytest.approx(share_left(0.3, range(5)).tolist())


def test_the_worst_stream_surprises_by_one_at_every_token_and_approaches_the_bound():
    norms, surprise = norms_of_streams(alpha=0.1, time=60)
    assert surprise[1:].tolist() == pytest.approx([1, 1], rel=1e-4)
    assert 9.5 < norms[1, -1] < 10.001 and (norms[1].diff() > 0).all()
    assert (norms[0] < surprise[0] / 0.1).all()
    assert norms[2, -1].item() == pytest.approx(59, rel=1e-3)  # almost one more with every token
    assert always_one_more(0.0, 3)[:, 0].tolist() == [1, 1.5, 2.25]


# Pictures.


def test_every_figure_draws_what_it_is_given():
    drift = Drift(length=4, contexts=2, dim=3)
    fine, alphas = torch.logspace(-2, 0, 9), torch.logspace(-2, 0, 5)
    drawings = {
        "16 pairs": viz.draw_overflow([1, 8, 64], torch.rand(3), torch.rand(2, 3), dim=16),
        "alpha = 0": viz.draw_by_age({"alpha = 0": torch.rand(9)}, {"alpha = 0": torch.rand(3, 9)}),
        "the rule changes": viz.draw_drift({"a": torch.rand(8)}, {"a": torch.rand(3, 8)}, drift),
        "32 tokens": viz.draw_valleys(fine, {32: torch.rand(9)}, alphas, {32: torch.rand(3, 5)}),
        "1 / length": viz.draw_best_alpha(
            [4, 8], torch.tensor([0.5, 0.2]), torch.rand(3, 2) + 0.1, {8: torch.rand(3) + 0.1}
        ),
        "bound": lasting.draw_norms({"a stream": torch.rand(9)}, {"bound": 2.0}),
        "alpha = 0.001": lasting.draw_left([1, 10, 100], {1e-3: torch.rand(3)}),
        "alpha elsewhere": viz.draw_learned_alpha(
            learn_alpha(drift, seeds=(0, 1), steps=2, streams=3)
        ),
    }
    for words, drawing in drawings.items():
        assert words in drawing.texts()
        assert drawing.svg().startswith("<svg")


def test_the_picture_of_what_still_learns_holds_a_line_for_each_memory():
    found = [
        Alive("random", layers, depth, 64, (64, 256, 1024), (0.2, 0.1, 0.0), (1.0, 1.0, 1.0))
        for layers, depth in (("plain-fading", 1), ("plain-fading", 3), ("residual-fading", 3))
    ]
    drawing = lasting.draw_alive(found)
    names = {"plain layers, depth 1", "plain layers, depth 3", "layers that add, depth 3"}
    assert names <= set(drawing.texts())
    lines = [x for x in drawing.shapes if isinstance(x, Line) and len(x.points) == 3 and x.width]
    assert [line.dash for line in lines] == ["", "", "7 4"]
    heights = [y for _, y in lines[0].points]  # 20, 10 and 0 %: lower and lower by equal steps
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1]) != 0


def test_the_drift_picture_marks_each_change_at_its_token():
    drift = Drift(length=4, contexts=3, dim=3)
    drawing = viz.draw_drift({"a": torch.ones(12)}, {"a": torch.ones(3, 12)}, drift)
    assert drawing.texts().count("the rule changes") == 2
    upright = {
        shape.points[0][0]
        for shape in drawing.shapes
        if isinstance(shape, Line) and shape.dash == "5 4" and shape.width == 1.5
    }
    assert sorted(upright) == pytest.approx([80 + 790 * t / 11 for t in (4, 8)])


def test_the_forgetting_explorer_answers_at_every_corner_and_follows_its_controls():
    widget = viz.forgetting_explorer()
    for values in widget.corners():
        assert isinstance(widget.draw(**values), Drawing | str)
    moves = {"alpha": 0.06, "theta": 1.1, "length": 32, "dim": 16, "unrelated": True}
    assert moves.keys() == widget.controls.keys()
    for name, value in moves.items():
        before = widget.picture.value
        widget.controls[name].value = value
        assert widget.picture.value != before, name


def test_the_forgetting_explorers_alpha_moves_one_of_its_two_memories():
    draw = viz.forgetting_explorer().draw

    def curves(alpha, colour):
        drawn = draw(alpha=alpha, theta=1.0, length=24, dim=8, unrelated=False).shapes
        lines = [x for x in drawn if isinstance(x, Line) and x.colour == colour]
        return [line.points for line in lines if len(line.points) > 2]  # not the legend's

    assert curves(0.1, viz.KEEPS) == curves(0.5, viz.KEEPS)
    assert curves(0.1, viz.FORGETS) != curves(0.5, viz.FORGETS)
    assert curves(0.0, viz.FORGETS) == curves(0.0, viz.KEEPS)


def test_a_memory_that_diverges_is_said_to_do_so():
    draw = viz.forgetting_explorer().draw
    assert "diverged" in draw(alpha=0.0, theta=2.5, length=24, dim=2, unrelated=False)


def test_the_forgetting_explorer_starts_where_the_notebook_says():
    start = {"alpha": 0.05, "theta": 1.0, "length": 24, "dim": 8, "unrelated": False}
    assert viz.forgetting_explorer().values == start


def test_the_forgetting_explorer_is_fast_enough_for_a_slider_and_leaves_room_for_them():
    widget = viz.forgetting_explorer()
    widget.redraw()
    began = time.process_time()
    for _ in range(5):
        widget.redraw()
    assert (time.process_time() - began) / 5 < 0.1
    assert widget.draw(**widget.values).height <= 510  # three rows of controls take 110 more
