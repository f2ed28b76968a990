"""What a chunk costs: measured on the rule that the literal loop gives."""

import pytest
import torch

from minititans.experiments.chunk_costs import (
    EXACT,
    FROZEN,
    PER_TOKEN,
    Cost,
    CostConfig,
    chunk_costs,
    kept_bytes,
)
from minititans.experiments.chunks import FreezingConfig, freezing_cost
from minititans.memory import Gates, MemoryState, sequential
from minititans.tasks.maps import STRAIGHT, Maps, generators

SMALL = FreezingConfig(dim=3, pairs=9, tasks=2, sizes=(1, 4), thetas=(0.0, 0.5, 1e3), seeds=(0, 5))


@pytest.mark.parametrize("exact", [False, True])
def test_the_error_of_a_chunk_size_is_that_of_the_literal_loop(exact):
    found = freezing_cost(SMALL, exact)
    assert found.errors.shape == (2, 2, 3)  # [seeds, sizes, thetas]
    for place, seed in enumerate(SMALL.seeds):
        keys, values = Maps(3, 6, STRAIGHT).batch(2, 9, generators("freezing", [seed])[0])
        k, v = keys[:, None].double(), values[:, None].double()
        for column, size in enumerate(SMALL.sizes):
            gates = Gates.constant(0.5, 0.0, 0.0, (2, 1, 9), dtype=k.dtype)
            start = MemoryState.start([torch.zeros(1, 3, 3, dtype=k.dtype)], 2)
            y, _ = sequential(k.roll(-1, 2), k, v, gates, start, size, exact=exact)
            error = (y[:, :, :-1] - v[:, :, 1:]).square().sum(-1).mean()
            assert torch.allclose(found.errors[place, column, 1], error)


def test_what_diverges_has_an_error_that_can_be_drawn_and_is_never_best():
    found = freezing_cost(SMALL)
    assert (found.errors[:, :, 2] == 1e3).all()
    assert torch.equal(found.best, found.errors[:, :, :2].amin(-1))
    assert set(found.best_theta.flatten().tolist()) <= {0.0, 0.5}


def test_an_exact_chunk_of_any_size_learns_as_well_as_single_tokens():
    exact = freezing_cost(SMALL, exact=True)
    single = freezing_cost(SMALL).errors[:, :1]  # frozen for one token: not frozen at all
    assert torch.allclose(exact.errors, single.expand_as(exact.errors))
    assert torch.equal(exact.error_at(4), exact.best[:, 1])
    assert torch.equal(exact.theta_at(1), exact.best_theta[:, 0])


def test_kept_bytes_counts_what_the_backward_pass_needs_and_shared_storage_once():
    x = torch.ones(1000, requires_grad=True)
    assert kept_bytes(lambda: x + 1) == 0  # the way back through a sum needs nothing
    assert kept_bytes(lambda: x.sin()) == 4000
    assert kept_bytes(lambda: x.sin() * x.view(10, 100).cos().flatten()) == 3 * 4000


def test_chunks_keep_fewer_bytes_than_a_weight_per_token():
    cost = chunk_costs(CostConfig(dim=16, time=32, sizes=(1, 16), rounds=1))
    tokens, chunks, layer = 2 * 32, 2 * 2, 4 * 16 * 16  # rows × time, rows × chunks, bytes
    theirs = cost.kept[PER_TOKEN]
    assert theirs[1] > 2 * tokens * layer  # two layers, each token has its own
    for ours in (cost.kept[EXACT], cost.kept[FROZEN]):
        assert 2 * chunks * layer < ours[1] < theirs[1] / 5
    assert cost.kept[EXACT][1] > cost.kept[FROZEN][1]  # the triangle
    assert all(seconds > 0 for side in cost.seconds.values() for seconds in side)


def test_speedups_and_shares_are_quotients_the_right_way_round():
    seconds, kept = {"a": [8.0, 2.0], "b": [6.0, 3.0]}, {"a": [10, 4], "b": [20, 40]}
    cost = Cost(CostConfig(sizes=(1, 16)), seconds, kept)
    assert cost.speedup("a", 16, over=("a", 1)) == 4
    assert cost.speedup("a", 16, over=("b", 16)) == 1.5
    assert cost.share_kept("a", of="b", size=16) == 0.1
