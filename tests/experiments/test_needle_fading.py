"""Asking in the middle of a reading is asking at its end, and changes nothing of what follows."""

import pytest
import torch

from minititans import TitansConfig, TitansLM
from minititans.experiments.needle_fading import (
    DEPTHS,
    LENGTHS,
    MOMENTS,
    PLACES,
    Fading,
    ask,
    by_depth,
    fade,
    new_needles,
    old_needles,
    plant,
)
from minititans.tasks.needle import ASK, MARK, NOISE, Needle, generator

SMALL = {"vocab_size": 64, "dim": 16, "layers": 2, "heads": 2, "segment": 8, "window": 8}


def small(variant="lmm", seed=0):
    torch.manual_seed(seed)
    return TitansLM(TitansConfig(variant=variant, **SMALL)).double().eval()


@pytest.mark.parametrize("kind", ["pk", "n", "w"])
def test_a_needle_lies_where_it_was_put_and_all_else_is_noise(kind):
    task, places = Needle(kind), [0, 7, 30]
    tokens, facts = plant(task, 40, places, seed=3)
    width = 2 + task.value_tokens
    for row, place, fact in zip(tokens.tolist(), places, facts.tolist()):
        assert row[place : place + width] == [MARK, *fact]
        assert all(token in NOISE for token in row[:place] + row[place + width :])
    assert torch.equal(plant(task, 40, places, seed=3)[0], tokens)
    assert not torch.equal(plant(task, 40, places, seed=4)[0], tokens)
    with pytest.raises(ValueError, match="places"):
        plant(task, 40, [40 - width + 1])


@pytest.mark.parametrize("variant, kind", [("lmm", "pk"), ("mac", "w"), ("deltanet", "n")])
@torch.no_grad()
def test_an_answer_on_the_way_is_that_of_a_row_which_ends_with_the_question(variant, kind):
    model, task = small(variant), Needle(kind)
    places, moments = [0, 5, 300], [23, 310, 400]
    fading = fade(model, places, moments, kind, seed=1)
    tokens, facts = plant(task, 400, places, seed=1)
    for at, moment in enumerate(moments):
        question = torch.cat([torch.full((3, 1), ASK), facts], 1)
        logits, _ = model(torch.cat([tokens[:, :moment], question], 1))
        said = logits[:, -task.value_tokens - 1 : -1].softmax(-1)
        torch.testing.assert_close(fading.said[:, at], said, atol=1e-9, rtol=0)
        value = said.gather(-1, facts[:, 1:, None]).squeeze(-1)
        torch.testing.assert_close(fading.right[:, at], value.prod(-1), atol=1e-9, rtol=0)


def test_a_value_is_found_when_each_of_its_tokens_is_the_likeliest():
    said = torch.full((1, 3, 2, 64), 0.001)
    for moment, tokens in enumerate([(20, 21), (20, 22), (23, 21)]):
        for place, token in enumerate(tokens):
            said[0, moment, place, token] = 0.9
    fading = Fading(torch.tensor([0]), torch.arange(3), torch.tensor([[2, 20, 21]]), said)
    assert fading.found.tolist() == [[True, False, False]]
    assert fading.right[0].tolist() == pytest.approx([0.81, 0.0009, 0.0009])


def known(probability, rows=1):
    """A fading of needles at all places, whose right answer has a given probability."""
    places = torch.tensor([place for place in PLACES for _ in range(rows)])
    said = torch.zeros(len(places), len(MOMENTS), 1, 64)
    for row, place in enumerate(places.tolist()):
        for at, moment in enumerate(MOMENTS):
            said[row, at, 0, 16] = probability(place, moment)
    facts = torch.tensor([[2, 16]] * len(places))
    return Fading(places, torch.tensor(MOMENTS), facts, said)


def test_the_map_holds_each_depth_of_each_length():
    found = by_depth(known(lambda place, moment: place / 1e5 + moment / 1e4, rows=2))
    for row, depth in enumerate(DEPTHS):
        for column, length in enumerate(LENGTHS):
            expected = depth * length / 1e5 + length / 1e4
            assert found[row, column] == pytest.approx(expected, rel=1e-4)


def test_old_needles_are_averaged_by_their_age():
    times, right = old_needles(known(lambda place, moment: max(0, moment - place) / 1e4), most=512)
    rows = [place for place in PLACES if place <= 512]
    for time, value in zip(times.tolist(), right.tolist()):
        ages = [min(m - place for m in MOMENTS if m - place >= time) for place in rows]
        assert value == pytest.approx(sum(ages) / len(ages) / 1e4, rel=1e-4)
    assert times[-1] == MOMENTS[-1] - 512


@torch.no_grad()
def test_a_new_needle_comes_after_the_noise_and_leaves_the_reading_alone():
    model, task, rows, wait = small(), Needle("pk"), 3, 20
    found = new_needles(model, (8, 300), wait, rows)
    noise = task.noise(rows, 300 + 3 + wait, generator(0, step=0, stream=3))
    needle, facts = plant(task, 3, [0] * rows)
    for after, value in zip((8, 300), found):
        parts = [noise[:, :after], needle, noise[:, after + 3 : after + 3 + wait]]
        _, state = model(torch.cat(parts, 1))
        right = ask(model, state, facts)[:, 0].gather(1, facts[:, 1:])
        torch.testing.assert_close(value, right.mean(), atol=1e-9, rtol=0)
