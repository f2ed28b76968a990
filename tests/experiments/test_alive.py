"""The memory stays alive, and plain layers do not: the experiment made small, and its parts."""

import torch

from minititans import NeuralMemory
from minititans.cli import main
from minititans.experiments import alive


def test_a_memory_of_any_depth_learns_a_probe_and_a_deeper_one_no_less():
    config = alive.AliveConfig(layers=("residual",), after=(1024,), chunk_sizes=(16, 64))
    found = {(each.depth, each.chunk_size): each.learned[0] for each in alive.run(config, False)}
    assert min(found.values()) >= 0.12
    for size in config.chunk_sizes:
        assert found[4, size] >= found[1, size]


def test_it_still_does_after_a_long_text_and_plain_layers_are_dead():
    config = alive.AliveConfig(depths=(3,), chunk_sizes=(64,), after=(1024, 32_768), seeds=(0,))
    ours, plain = alive.run(config, False)
    assert ours.learned[1] >= 0.8 * ours.learned[0]
    assert abs(plain.learned[1]) < 0.01 and plain.largest[1] < 1e-9


def test_forgetting_alone_kills_plain_layers_and_not_a_matrix():
    """The same gates for all: notebook 04 on a small scale."""
    options = {"chunk_sizes": (64,), "after": (2048,), "seeds": (0,)}
    plain = alive.AliveConfig(("plain-fading",), depths=(1, 2, 3), **options)
    adding = alive.AliveConfig(("residual-fading",), depths=(3,), **options)
    matrix, two, three = (each.learned[0] for each in alive.run(plain, False))
    assert matrix > 0.1 and max(two, three) < 0.01
    assert alive.run(adding, False)[0].learned[0] > 0.1


def test_the_probe_leaves_no_trace_and_a_memory_that_cannot_write_learns_nothing():
    torch.manual_seed(0)
    memory, probe = NeuralMemory(32, heads=2, conv=0), torch.randn(1, 64, 32)
    _, state = memory(torch.randn(1, 100, 32))
    before = [w.clone() for w in state.weights]
    share = alive.learned_share(memory, state, probe)
    assert share > 0.1
    assert all(torch.equal(w, b) for w, b in zip(state.weights, before))
    with torch.no_grad():
        memory.to_gates.bias.view(3, -1)[0] = -200.0  # theta is 0
        memory.to_gates.bias.view(3, -1)[2] = -200.0  # and so is alpha
    share = alive.learned_share(memory, memory.start(1), probe)
    assert abs(share) < 1e-6


def test_results_come_back_from_their_file(tmp_path):
    config = alive.AliveConfig(depths=(1,), chunk_sizes=(16,), after=(64,), seeds=(0,))
    found = alive.run(config, False)
    alive.save(tmp_path / "alive.json", config, found)
    assert alive.load(tmp_path / "alive.json") == found


def test_kinds_of_text_do_not_see_each_other():
    def run(*kinds):
        small = {"depths": (2,), "chunk_sizes": (16,), "after": (64, 200), "seeds": (0, 1)}
        return alive.run(alive.AliveConfig(layers=("residual",), kinds=kinds, **small), False)

    together = run("zeros", "random", "repeated")
    assert [each.kind for each in together] == ["zeros", "random", "repeated"]
    for each in together:
        (alone,) = run(each.kind)
        torch.testing.assert_close(alone.learned, each.learned, atol=1e-4, rtol=0)
        torch.testing.assert_close(alone.largest, each.largest, atol=0, rtol=1e-4)


def test_an_unknown_kind_of_text_is_refused_by_name(capsys):
    assert main(["experiment", "alive", "--kinds=noise"]) == 2
    assert "kinds: got 'noise'" in capsys.readouterr().err
