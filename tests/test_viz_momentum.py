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
)
from minititans.experiments.momentum import (
    aftermath,
    chunk_matrix,
    measured_limit,
    orthogonal_pairs,
    read_event,
    repeat_key,
    share_written,
    stability_limit,
)
from minititans.memory import Gates, MemoryState, sequential
from minititans.viz import momentum as viz
from minititans.viz.drawing import Drawing, Line


@pytest.mark.parametrize("theta, eta, glimpses", [(0.1, 0.8, 1), (1.3, 0.4, 5), (0.5, 0.0, 2)])
def test_the_event_is_read_as_the_library_reads_it(theta, eta, glimpses):
    trace = read_event(theta, eta, event=9, glimpses=glimpses, time=30, seed=3)
    keys, values = orthogonal_pairs(8, seed=3)
    order = torch.tensor([7 if 9 <= t < 9 + glimpses else t % 7 for t in range(30)])
    k, v = keys[order][None, None], values[order][None, None]
    gates = Gates.constant(theta, eta, 0.0, (1, 1, 30), dtype=torch.float64)
    start = MemoryState.start([(values[:7].T @ keys[:7])[None]], 1)
    asked = keys[7].expand_as(k)
    y, _, felt = sequential(asked, k, v, gates, start, chunk_size=1, trace=True)
    before = torch.cat([torch.zeros(1, dtype=torch.float64), felt.momentum[0, 0, :-1]])
    assert torch.allclose(trace.momentary, theta * felt.surprise[0, 0], atol=1e-12)
    assert torch.allclose(trace.past, eta * before, atol=1e-12)
    assert torch.allclose(trace.written, y[0, 0] @ values[7], atol=1e-12)
    assert trace.written[-1] != 0


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
    """How many lines of this colour and so many points there are."""
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


def test_every_figure_draws_what_it_is_given():
    three, twelve = torch.rand(3), torch.rand(3, 12)
    story = Story(chapters=2, glimpses=4)
    drawings = {
        "with momentum": viz.draw_aftermath([0, 0.5, 1], {"with momentum": torch.rand(3, 2)}),
        "the mean of all": viz.draw_weights({"eta": torch.rand(16)}),
        "eta = 0.5": viz.draw_total_step(
            torch.rand(7) + 0.1, {0.5: torch.rand(7)}, torch.rand(12) + 0.1, {0.5: twelve}
        ),
        "eta = 0.9": viz.draw_ringing({"eta = 0.9": torch.rand(20)}),
        "limit, b = 4": viz.draw_limits([0, 0.5, 0.9], {4: three}, {4: {0.5: 0.3}}),
        "the mean of 16": viz.draw_chapters({"a way": twelve}, floor=0.1),
        "eta inside a chapter": viz.draw_learned(
            learn_gates(story, seeds=(0, 1), steps=2, stories=4)
        ),
    }
    for words, drawing in drawings.items():
        assert words in drawing.texts()
        assert drawing.svg().startswith("<svg")


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
    assert words in viz.behaviour(theta, eta)
    (error,) = repeat_key(torch.tensor([theta]), torch.tensor([eta]), chunks=300)
    assert (words == "with ringing") == bool((error < -1e-12).any() and error[-1].abs() < 1)
    assert (words == "more and more") == bool(error[-1].abs() > 1.01)


def test_the_event_explorer_draws_at_every_corner_and_follows_its_sliders():
    widget = viz.event_explorer()
    for values in widget.corners():
        assert isinstance(widget.draw(**values), Drawing)
    for name, control in widget.controls.items():
        before = widget.picture.value
        control.value = control.value + control.step
        assert widget.picture.value != before, name


def test_the_event_explorer_shows_the_event_that_its_sliders_say():
    drawn = viz.event_explorer().draw(eta=0.6, theta=0.3, event=9, glimpses=4)
    wanted = viz.draw_event(read_event(0.3, 0.6, event=9, glimpses=4))
    missing = [x for x in wanted.shapes if isinstance(x, Line) and x not in drawn.shapes]
    assert missing == []
    slower = viz.draw_event(read_event(0.3, 0.0, event=9, glimpses=4))
    assert [x for x in slower.shapes if isinstance(x, Line) and x not in drawn.shapes]


def test_the_event_explorer_is_fast_enough_for_a_slider():
    widget = viz.event_explorer()
    widget.redraw()
    began = time.process_time()
    for _ in range(5):
        widget.redraw()
    assert (time.process_time() - began) / 5 < 0.15
