"""The numbers and pictures of notebook 03: held to the library's rule, closed forms and chance."""

import time

import pytest
import torch

from minititans.experiments.glimpses import (
    Story,
    answers,
    best_gates,
    constant,
    expected_error,
    glimpse_weights,
    learn_gates,
    letting_go,
    measured_error,
    within_a_chapter,
)
from minititans.experiments.momentum import (
    aftermath,
    half_life,
    orthogonal_pairs,
    read_event,
    share_written,
)
from minititans.experiments.ringing import (
    behaviour,
    chunk_matrix,
    measured_limit,
    repeat_key,
    stability_limit,
)
from minititans.experiments.shares import RULES, gates_of, jump, largest_total, written
from minititans.memory import Gates
from minititans.viz import glimpses as viz_glimpses
from minititans.viz import momentum as viz
from minititans.viz import shares as viz_shares
from minititans.viz.drawing import Drawing, Line, Rect


@pytest.mark.parametrize("rule", ["letter", "shares"])
@pytest.mark.parametrize("theta, eta, glimpses", [(0.1, 0.8, 1), (1.3, 0.4, 5), (0.5, 0.0, 2)])
def test_an_event_is_read_as_a_loop_over_its_tokens_reads_it(theta, eta, glimpses, rule):
    """In shares the loop writes `(1 − eta) S`, which is another way to put the same rule."""
    trace = read_event(theta, eta, event=9, glimpses=glimpses, time=30, seed=3, rule=rule)
    keys, values = orthogonal_pairs(8, seed=3)
    scale = 1 - eta if rule == "shares" else 1.0
    M, S = values[:7].T @ keys[:7], torch.zeros(8, 8, dtype=torch.float64)
    for t in range(30):
        which = 7 if 9 <= t < 9 + glimpses else t % 7
        u = torch.outer(M @ keys[which] - values[which], keys[which])
        assert trace.momentary[t] == pytest.approx((scale * theta * u).norm().item(), abs=1e-12)
        assert trace.past[t] == pytest.approx((scale * eta * S).norm().item(), abs=1e-12)
        S = eta * S - theta * u
        M = M + scale * S
        assert trace.written[t] == pytest.approx((values[7] @ M @ keys[7]).item(), abs=1e-12)
    assert trace.written[-1] != 0


def shares_by_definition(eta):
    """`(1 − eta_t) eta_1 ⋯ eta_t` for a surprise at token 0."""
    return [float((1 - eta[t]) * eta[1 : t + 1].prod()) for t in range(len(eta))]


def test_shares_are_those_of_their_definition():
    torch.manual_seed(0)
    for eta in torch.rand(20, 9, dtype=torch.float64):
        assert written(eta).tolist() == pytest.approx(shares_by_definition(eta))
        assert written(eta, at=4)[4:].tolist() == pytest.approx(shares_by_definition(eta[4:]))
        assert written(eta, at=4)[:4].tolist() == [0, 0, 0, 0]


def test_how_often_a_surprise_is_written_when_eta_jumps():
    eta = jump(0.0, 0.9, time=400)
    assert eta[:3].tolist() == [0, 0.9, 0.9]
    assert written(eta, "intake").sum().item() == pytest.approx(10)  # 1 + 0.9 + 0.81 + …
    assert written(eta, "shares").sum().item() == pytest.approx(1.9)  # 1, then 0.1 of that
    assert written(torch.full((400,), 0.9), "letter").sum().item() == pytest.approx(10, rel=1e-4)
    assert largest_total("shares", 0.99) < 2 < largest_total("intake", 0.99)


def test_the_rules_are_told_apart_and_an_unknown_one_is_named():
    gates = Gates.constant(0.4, 0.5, 0.0, (1, 1, 3))
    thetas = {rule: gates_of(rule, gates).theta[0, 0, 0].item() for rule in RULES}
    assert thetas == pytest.approx({"letter": 0.4, "intake": 0.2, "shares": 0.2, "both": 0.1})
    with pytest.raises(ValueError, match="rule: got 'share'"):
        gates_of("share", gates)


def test_a_half_life_leaves_half():
    assert 0.9 ** half_life(0.9) == pytest.approx(0.5) and half_life(0.0) == 0


@pytest.mark.parametrize("eta", [0.0, 0.3, 0.95])
def test_a_pair_seen_once_is_written_as_far_as_the_geometric_sum_says(eta):
    trace = read_event(0.2, eta, event=5, time=40)
    closed = [0.2 * (1 - eta**n) / (1 - eta) for n in range(1, 36)]
    assert torch.allclose(trace.written[5:], torch.tensor(closed, dtype=torch.float64))
    assert share_written(0.2, eta, 35) == pytest.approx(closed[-1])
    assert torch.equal(trace.written[:5].abs() < 1e-12, torch.ones(5, dtype=torch.bool))


@pytest.mark.parametrize("overlap", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("theta, eta", [(0.1, 0.8), (0.5, 0.0)])
def test_followers_that_write_nothing_get_what_the_event_left_in_their_direction(
    overlap, theta, eta
):
    """A follower shares c with the event: of c the share F is written, the rest is missing."""
    F = share_written(theta, eta, tokens=13)
    recall = aftermath(overlap, theta, eta, weak=0.0)
    assert recall == pytest.approx(overlap**2 * (1 - (1 - F) ** 2), abs=1e-5)


def test_followers_that_write_get_more():
    assert (aftermath(0.3, 0.1, 0.8, weak=0.5) > 1.5 * aftermath(0.3, 0.1, 0.8, weak=0.0)).all()


@pytest.mark.parametrize("chunk_size", [1, 3, 8])
@pytest.mark.parametrize("theta, eta", [(0.3, 0.0), (0.05, 0.9), (0.2, 0.6), (1.5, 0.5)])
def test_the_error_on_a_repeated_key_is_a_power_of_the_matrix(chunk_size, theta, eta):
    theta = theta / chunk_size
    A = chunk_matrix(theta, eta, chunk_size)
    powers = torch.stack([torch.linalg.matrix_power(A, n)[0, 0] for n in range(12)])
    rows = torch.tensor([theta, theta], dtype=torch.float64)
    errors = repeat_key(rows, torch.full_like(rows, eta), 12, chunk_size)
    assert torch.allclose(errors, powers.expand(2, 12), atol=1e-10)


@pytest.mark.parametrize("chunk_size", [1, 2, 16, 64])
@pytest.mark.parametrize("eta", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_at_the_limit_the_largest_eigenvalue_is_on_the_unit_circle(eta, chunk_size):
    limit = stability_limit(eta, chunk_size)

    def radius(theta):
        return torch.linalg.eigvals(chunk_matrix(theta, eta, chunk_size)).abs().max().item()

    assert radius(limit) == pytest.approx(1, abs=1e-6)
    assert radius(0.98 * limit) < 1 < radius(1.02 * limit)
    if chunk_size == 1:
        assert limit == pytest.approx(2 * (1 + eta))
    assert limit >= 2 * (1 - eta) / chunk_size * (1 - 1e-9), "the law is not safe"


def test_trying_finds_the_limit_that_theory_says():
    assert measured_limit(0.8, chunk_size=4) == pytest.approx(stability_limit(0.8, 4), rel=0.02)


def test_glimpses_are_written_in_shares():
    """One glimpse alone: what its answer holds are the shares, added up."""
    story = Story(glimpses=5)
    theta, eta = constant(0.3, 0.6, story)
    theta = torch.where(torch.arange(5) == 0, theta, 0.0)  # the others write nothing
    only = torch.zeros(1, 5, 1).index_fill(1, torch.tensor([0]), 1.0)
    expected = 0.3 * written(eta[0]).cumsum(0)
    assert answers(theta, eta, only)[0, :, 0].tolist() == pytest.approx(expected.tolist())


def test_without_momentum_a_glimpse_weighs_less_the_older_it_is():
    weights = glimpse_weights(*constant(0.3, 0.0, Story(glimpses=6)))[0]
    closed = [0.3 * 0.7**age for age in (5, 4, 3, 2, 1, 0)]
    assert weights.tolist() == pytest.approx(closed, rel=1e-5)


def test_the_answer_is_the_weighted_sum_of_the_glimpses():
    torch.manual_seed(0)
    theta, eta = 0.3 * torch.rand(3, 10), torch.rand(3, 10)
    glimpses = torch.randn(3, 10, 5)
    by_weights = torch.einsum("rt,rtd->rd", glimpse_weights(theta, eta), glimpses)
    assert torch.allclose(answers(theta, eta, glimpses)[:, -1], by_weights, atol=1e-5)


@pytest.mark.parametrize("way", [constant, letting_go])
def test_the_expected_error_is_what_chance_gives(way):
    story = Story(chapters=3, glimpses=5, blur=0.8)
    gates = way(0.1, 0.7, story)
    expected = expected_error(glimpse_weights(*gates), story)
    (measured,) = measured_error(*gates, story, seeds=(7,), stories=4000)[..., -1]
    assert measured.item() == pytest.approx(expected.item(), rel=0.05)


def test_letting_go_is_a_zero_at_each_chapters_first_token_and_nowhere_else():
    story = Story(chapters=3, glimpses=4)
    theta, eta = letting_go(0.1, 0.9, story)
    assert eta[0].tolist() == pytest.approx([0, 0.9, 0.9, 0.9] * 3)
    assert theta.tolist() == constant(0.1, 0.9, story)[0].tolist()


def test_a_chapter_is_the_mean_over_all_but_the_first():
    errors = torch.tensor([[9.0, 9, 1, 2, 3, 4]])
    assert within_a_chapter(errors, Story(chapters=3, glimpses=2)).tolist() == [[2, 3]]


def test_a_glimpse_is_the_fact_and_noise_of_the_stated_size():
    story = Story(chapters=2, glimpses=3, blur=0.5, dim=8)
    facts, glimpses = story.tell(5000, seed=0)
    assert torch.allclose(facts.norm(dim=-1), torch.ones(5000, 6))
    assert (facts[:, :3] == facts[:, :1]).all() and (facts[:, 3:] == facts[:, 3:4]).all()
    assert (glimpses - facts).square().sum(-1).mean().sqrt().item() == pytest.approx(0.5, rel=0.02)


def test_the_best_gates_are_better_than_their_neighbours():
    story = Story(chapters=3, glimpses=8)

    def error(theta, eta):
        return expected_error(glimpse_weights(*constant(theta, eta, story)), story).item()

    theta, eta = (gate[0, 0].item() for gate in best_gates((0.0, 0.4, 0.6, 0.8), story))
    least = error(theta, eta)
    assert 0.3 < eta < 0.7  # neither end of what was tried
    assert all(least <= error(theta * factor, eta) for factor in (0.7, 0.8, 1.25, 1.4))


def test_seeds_are_trained_side_by_side_without_meeting():
    story = Story(chapters=2, glimpses=4)
    alone = learn_gates(story, seeds=(5,), steps=4, stories=8)
    beside = learn_gates(story, seeds=(3, 5), steps=4, stories=8)
    for one, two in zip(vars(alone).values(), vars(beside).values()):
        assert one.shape == (4, 1) and torch.allclose(one[:, 0], two[:, 1], atol=1e-6)


def test_training_lowers_the_expected_error():
    story = Story(chapters=3, glimpses=8)
    learned = learn_gates(story, seeds=(0,), steps=25, stories=32)

    def error(step):
        theta, eta, first = (gate[step, 0] for gate in list(vars(learned).values())[:3])
        etas = torch.where(story.first, first, eta)[None]
        return expected_error(glimpse_weights(theta.expand_as(etas), etas), story)

    assert error(-1) < 0.93 * error(0)
    assert learned.eta_first[-1] < 0.3 < learned.eta[-1]


# Pictures.


def curves(drawing: Drawing, colour: str, length: int) -> int:
    """How many lines have this colour and this many points."""
    lines = [shape for shape in drawing.shapes if isinstance(shape, Line) and shape.width]
    return sum(line.colour == colour and len(line.points) == length for line in lines)


def test_the_picture_of_an_event_holds_both_surprises_and_the_comparison():
    trace = read_event(0.1, 0.8, event=15, time=50)
    alone = viz.draw_event(trace)
    drawing = viz.draw_event(trace, {"another way": read_event(0.1, 0.0, event=15, time=50)})
    assert curves(alone, viz.BLUE, 50) == 2  # past surprise, and what is written
    assert curves(alone, viz.RED, 50) == 1  # momentary surprise
    assert curves(drawing, viz.SAME_THETA, 50) == 2  # and the other way
    assert {"the event", "another way", "token"} <= set(drawing.texts())


@pytest.mark.parametrize("event, glimpses", [(15, 1), (15, 30), (0, 3), (58, 2)])
def test_a_band_marks_the_tokens_of_the_event(event, glimpses):
    drawing = viz.draw_event(read_event(0.1, 0.8, event, glimpses))
    bands = [
        shape for shape in drawing.shapes if isinstance(shape, Rect) and shape.fill == viz.BAND
    ]
    token = 790 / 59
    left, right = max(0, event - 0.5), min(59, event + glimpses - 0.5)
    assert len(bands) == 2
    for band in bands:
        assert band.x == pytest.approx(80 + left * token)
        assert band.width == pytest.approx((right - left) * token)


def test_the_tokens_still_to_come_are_not_drawn_and_the_scale_does_not_move():
    trace = read_event(0.1, 0.8)
    early, late = viz.draw_event(trace, until=20), viz.draw_event(trace)
    assert curves(early, viz.BLUE, 20) == 2 and curves(early, viz.BLUE, 60) == 0
    assert early.texts() == late.texts()


def test_every_figure_draws_what_it_is_given():
    three, twelve = torch.rand(3), torch.rand(3, 12)
    story = Story(chapters=2, glimpses=4)
    drawings = {
        "with momentum": viz.draw_aftermath([0, 0.5, 1], {"with momentum": torch.rand(3, 2)}),
        "a plain mean": viz_glimpses.draw_weights({"eta": torch.rand(16)}),
        "eta = 0.5": viz_glimpses.draw_by_theta(
            torch.rand(7) + 0.1, {0.5: torch.rand(7)}, torch.rand(12) + 0.1, {0.5: twelve}
        ),
        "eta = 0.9": viz.draw_ringing({"eta = 0.9": torch.rand(20)}),
        "limit, b = 4": viz.draw_limits([0, 0.5, 0.9], {4: three}, {4: {0.5: 0.3}}),
        "a plain mean of 12": viz_glimpses.draw_chapters({"a way": twelve}, floor=0.1),
        "eta inside a chapter": viz_glimpses.draw_learned(
            learn_gates(story, seeds=(0, 1), steps=2, stories=4)
        ),
        "in shares": viz_shares.draw_totals({"in shares": torch.rand(9)}),
    }
    for words, drawing in drawings.items():
        assert words in drawing.texts()
        assert drawing.svg().startswith("<svg")


def test_bars_and_pile_are_as_high_as_their_shares():
    shares = torch.tensor([0.5, 0.25, 0.125])
    drawing = viz_shares.draw_shares({"eta = 0.5": shares})
    rects = [shape for shape in drawing.shapes if isinstance(shape, Rect)]
    wanted = sorted([x * viz_shares.HEIGHT for x in shares.tolist()] * 2)  # a bar and a layer each
    assert sorted(rect.height for rect in rects) == pytest.approx(wanted)
    pile = [rect for rect in rects if rect.width == viz_shares.PILE]
    floor = viz_shares.TOP + viz_shares.HEIGHT
    assert min(rect.y for rect in pile) == pytest.approx(floor - 0.875 * viz_shares.HEIGHT)
    assert "0.88" in drawing.texts()


@pytest.mark.parametrize(
    "theta, eta, words",
    [
        (0.2, 0.0, "without ringing"),
        (0.1, 0.46, "without ringing"),
        (0.1, 0.48, "with ringing"),  # from (1 − √eta)² on
        (1.5, 0.0, "with ringing"),
        (2.5, 0.2, "more and more"),
        (2.3, 0.2, "with ringing"),  # below 2 (1 + eta)
        (0.0, 0.5, "theta is 0"),
    ],
)
def test_the_words_below_the_explorer_are_true(theta, eta, words):
    assert words in behaviour(theta, eta)
    (error,) = repeat_key(torch.tensor([theta]), torch.tensor([eta]), chunks=300)
    assert (words == "with ringing") == bool((error < -1e-12).any() and error[-1].abs() < 1)
    assert (words == "more and more") == bool(error[-1].abs() > 1.01)


def test_the_event_explorer_draws_at_every_corner_and_follows_its_controls():
    widget = viz.event_explorer()
    for values in widget.corners():
        assert isinstance(widget.draw(**values), Drawing)
    moves = {"token": 41, "eta": 0.81, "theta": 0.15, "glimpses": 2, "rule": "shares"}
    assert moves.keys() == widget.controls.keys()
    for name, value in moves.items():
        before = widget.picture.value
        widget.controls[name].value = value
        assert widget.picture.value != before, name


def test_the_event_explorer_starts_where_the_notebook_says():
    values = viz.event_explorer().values
    assert values == {"token": 40, "eta": 0.8, "theta": 0.1, "glimpses": 1, "rule": "letter"}
    assert read_event(0.1, 0.8).event == 15


@pytest.mark.parametrize("rule", ["letter", "shares"])
def test_the_event_explorer_shows_the_event_that_its_sliders_say(rule):
    drawn = viz.event_explorer().draw(token=60, eta=0.6, theta=0.3, glimpses=4, rule=rule)
    wanted = viz.draw_event(read_event(0.3, 0.6, glimpses=4, rule=rule))
    missing = [x for x in wanted.shapes if isinstance(x, Line) and x not in drawn.shapes]
    assert missing == []
    slower = viz.draw_event(read_event(0.3, 0.0, glimpses=4, rule=rule))
    assert [x for x in slower.shapes if isinstance(x, Line) and x not in drawn.shapes]


def test_the_event_explorer_is_fast_enough_for_a_slider_and_leaves_room_for_them():
    widget = viz.event_explorer()
    widget.redraw()
    began = time.process_time()
    for _ in range(5):
        widget.redraw()
    assert (time.process_time() - began) / 5 < 0.1
    assert widget.draw(**widget.values).height <= 510  # two rows of controls take 110 more
