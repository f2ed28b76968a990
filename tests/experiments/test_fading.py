"""A memory whose lower layers fade: measured on the rule that the literal loop gives."""

import pytest
import torch

from minititans.experiments.fading import ADDING, PLAIN, FadingConfig, fading, late_error
from minititans.memory import Gates, MemoryState, sequential
from minititans.tasks.maps import STRAIGHT, Maps, generators, normal

SMALL = FadingConfig(dim=3, pairs=20, chunk_size=4, tasks=2, left=(1.0, 0.01), seeds=(0, 7))


@pytest.mark.parametrize("layers", [PLAIN, ADDING])
def test_the_error_is_that_of_the_literal_loop(layers):
    found = late_error(SMALL, 2, 0.5, layers)
    for place, seed in enumerate(SMALL.seeds):
        (rng,) = generators("fading", [seed])
        keys, values = Maps(3, 6, STRAIGHT).batch(2, 20, rng)
        k, v = keys[:, None], values[:, None]
        weights = [0.5 * normal(1, 3, 3, rng) / 3**0.5, torch.zeros(1, 3, 3)]
        gates = Gates.constant(0.5, 0.0, 0.0, (2, 1, 20))
        start = MemoryState.start(weights, 2)
        y, _ = sequential(k.roll(-1, 2), k, v, gates, start, 4, residual=layers == ADDING)
        error = (y[:, :, :-1] - v[:, :, 1:]).square().sum(-1)[:, :, -5:].mean()
        assert torch.allclose(found[place], error, atol=1e-5)


def test_with_nothing_left_plain_layers_learn_nothing_and_adding_ones_start_as_a_matrix():
    dead = late_error(SMALL, 3, 0.0, PLAIN)
    sources = generators("fading", SMALL.seeds)
    values = torch.stack([Maps(3, 6, STRAIGHT).batch(2, 20, rng)[1] for rng in sources])
    assert torch.allclose(dead, values[:, :, -5:].square().sum(-1).mean((1, 2)), atol=1e-5)
    found = fading(SMALL)
    assert (late_error(SMALL, 2, 0.0, ADDING) - found.matrix).abs().max() < 0.05
    assert torch.equal(found.at(PLAIN, 3, 0.01), late_error(SMALL, 3, 0.01, PLAIN))
