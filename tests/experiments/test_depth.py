"""Depth: maps that are what they say, predictions that do not cheat, seeds that do not interact."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import assert_same

from minititans.cli import main
from minititans.experiments import depth_grid
from minititans.experiments.depth import (
    DepthConfig,
    best_matrix_error,
    draw,
    learning_curve,
    meta_train,
    new_learner,
    prediction_errors,
    recall_error,
)
from minititans.experiments.timing import fastest, straight_line
from minititans.memory import MemoryState, sequential
from minititans.memory.network import read
from minititans.tasks.maps import BENT, FOLDED, STRAIGHT, Maps, generators

SMALL = DepthConfig(maps=Maps(3, 5), width=6, pairs=12, chunk_size=4, tasks=2, steps=3)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


# Maps


@pytest.mark.parametrize("slope", [STRAIGHT, BENT, FOLDED, 0.3])
def test_the_odd_part_of_a_map_is_linear_and_the_slope_says_how_much_of_it_there_is(slope):
    probes = torch.randn(6, 4, generator=rng(1))
    a, b = probes[:3], probes[3:]
    asked = torch.cat([a, -a, b, -b, a + b, -a - b])
    _, values = Maps(4, 8, slope).batch(2, 5, rng(), asked)
    a_, a_minus, b_, b_minus, sum_, sum_minus = values[:, 5:].split(3, 1)
    odd_a, odd_b, odd_sum = a_ - a_minus, b_ - b_minus, sum_ - sum_minus
    assert torch.allclose(odd_a + odd_b, odd_sum, atol=1e-5)
    if slope == FOLDED:
        assert torch.allclose(a_, a_minus, atol=1e-6)  # k and −k have one value
    else:
        assert odd_a.abs().max() > 0.05
    even = (a_ + a_minus) / 2 - (b_ + b_minus) / 2  # without the constant part
    assert (even.abs().max() < 1e-5) == (slope == STRAIGHT)


@pytest.mark.parametrize("slope", [STRAIGHT, BENT, FOLDED, None])
def test_values_have_mean_zero_and_mean_square_norm_one(slope):
    keys, values = Maps(5, 7, slope).batch(3, 200, rng())
    assert torch.allclose(keys.norm(dim=-1), torch.ones(3, 200), atol=1e-6)
    assert values.mean(1).abs().max() < 1e-5
    assert torch.allclose(values.square().sum(-1).mean(1), torch.ones(3), atol=1e-5)


def test_maps_do_not_depend_on_torchs_default_precision():
    before = Maps().batch(2, 6, rng())
    torch.set_default_dtype(torch.float64)
    try:
        after = Maps().batch(2, 6, rng())
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(before, after))


# Predictions


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_prediction_is_what_the_literal_loop_says_before_it_reads_the_pair(depth):
    learner = new_learner(SMALL, depth)
    keys, values = draw(SMALL.maps, 2, SMALL.pairs, generators("x", SMALL.seeds))
    gates = learner.gates(2, SMALL.pairs)
    state, expected = MemoryState.start(learner.weights, 2), []
    for t in range(SMALL.pairs):
        now = slice(t, t + 1)
        answer = read(state.weights, keys[:, :, now])
        expected.append((answer - values[:, :, now]).square().sum(-1))
        _, state = sequential(
            keys[:, :, now], keys[:, :, now], values[:, :, now],
            gates.map(lambda gate: gate[:, :, now]),  # noqa: B023
            state, SMALL.chunk_size,
        )  # fmt: skip
    found = prediction_errors(learner, keys, values)
    assert torch.allclose(found, torch.cat(expected, 2), atol=1e-5)


def test_seeds_that_train_side_by_side_do_not_touch():
    together = meta_train(SMALL, depth=2)
    for place, seed in enumerate(SMALL.seeds):
        alone = meta_train(replace(SMALL, seeds=(seed,)), depth=2)
        weights = zip(together.weights, alone.weights, strict=True)
        assert_same(
            {str(n): w[place] for n, (w, _) in enumerate(weights)}
            | {"raw": together.raw[:, place]},
            {str(n): w[0] for n, w in enumerate(alone.weights)} | {"raw": alone.raw[:, 0]},
            tolerance=1e-5,
        )


def test_meta_training_lowers_the_error_on_maps_it_has_never_met():
    config = replace(SMALL, steps=30, lr=0.02, tasks=8)
    before, after = new_learner(config, 2), meta_train(config, 2)
    errors = [learning_curve(each, BENT, config.pairs).mean(1) for each in (before, after)]
    assert (errors[1] < 0.9 * errors[0]).all()


def test_no_matrix_is_better_than_the_best_matrix():
    config = replace(SMALL, seeds=(4,))
    keys, values = draw(Maps(3, 5, BENT), 64, 1000, generators("reading", (4,)))
    errors = []
    for k, v in zip(keys[:, 0].numpy(), values[:, 0].numpy()):  # numpy as a second opinion
        solution = np.linalg.lstsq(k, v, rcond=None)[0]
        errors.append(((k @ solution - v) ** 2).sum(-1).mean())
    assert best_matrix_error(config, BENT).item() == pytest.approx(np.mean(errors), rel=1e-3)
    assert best_matrix_error(config, STRAIGHT).item() < 0.01
    assert best_matrix_error(config, FOLDED).item() > 0.95


def test_a_matrix_that_learns_slowly_recalls_random_pairs_as_theory_says():
    careful = torch.tensor([-3.0, 0.0, -20.0])  # small steps that forget nothing: least squares
    learner = replace(new_learner(DepthConfig(), depth=1), raw=careful[:, None].repeat(1, 3))
    for pairs in (8, 16, 32):
        found = recall_error(learner, pairs, passes=60).mean().item()
        assert found == pytest.approx(1 - 4 / pairs, abs=0.03)


# The stored experiment


def test_a_grid_that_was_stopped_goes_on_and_gives_what_a_whole_run_gives(tmp_path):
    grid = [SMALL, replace(SMALL, pairs=8)]
    whole = depth_grid.run(grid, (1, 2), progress=False)
    depth_grid.run(grid[:1], (1,), tmp_path, progress=False)
    first = tmp_path / "dim3-pairs12-depth1.json"
    written = first.read_bytes()
    depth_grid.run(grid, (1, 2), tmp_path, progress=False)
    assert first.read_bytes() == written
    stored = depth_grid.load_all(tmp_path)
    assert [(r.pairs, r.depth) for r in stored] == [(8, 1), (8, 2), (12, 1), (12, 2)]
    for result in whole:
        twin = next(r for r in stored if (r.pairs, r.depth) == (result.pairs, result.depth))
        assert (twin.errors, twin.matrix) == (result.errors, result.matrix)


def test_a_result_holds_its_configuration_and_another_one_is_refused(tmp_path):
    depth_grid.run([SMALL], (1,), tmp_path, progress=False)
    stored = json.loads((tmp_path / "dim3-pairs12-depth1.json").read_text())
    assert stored["config"]["maps"]["units"] == 5 and stored["config"]["seeds"] == [0, 1, 2]
    assert stored["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    with pytest.raises(ValueError, match="another configuration"):
        depth_grid.run([replace(SMALL, steps=4)], (1,), tmp_path, progress=False)


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no results of the depth experiment"):
        depth_grid.load_all(tmp_path)


def test_the_command_writes_results_and_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(depth_grid, "GRID", (SMALL,))
    monkeypatch.setattr(depth_grid, "DEPTHS", (1, 2))
    assert main(["experiment", "depth", "--out", str(tmp_path), "--quiet"]) == 0
    assert len(depth_grid.load_all(tmp_path)) == 2
    assert (tmp_path / "table.md").read_text().strip() in capsys.readouterr().out


# Timing


def test_a_straight_line_is_numpys():
    x, y = [1.0, 2.0, 3.0, 5.0], [2.0, 1.0, 4.0, 6.5]
    offset, slope, explained = straight_line(x, y)
    expected = np.polyfit(x, y, 1)
    assert (slope, offset) == pytest.approx(tuple(expected))
    assert explained == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)


def test_the_fastest_call_counts_and_threads_are_left_as_they_were():
    calls = {"a": 0, "b": 0}

    def side(name):
        def run():
            calls[name] += 1
            work = 200_000 if name == "b" or calls[name] % 2 else 100  # every other call is fast
            return sum(range(work))

        return run

    threads = torch.get_num_threads()
    seconds = fastest({name: side(name) for name in calls}, rounds=4)
    assert calls == {"a": 5, "b": 5}  # one each that does not count
    assert seconds["a"] < seconds["b"] / 4
    assert torch.get_num_threads() == threads
