"""Read in chunks of another size, a matrix finds the same needles; a frozen memory need not."""

from dataclasses import replace

import pytest
import torch

from minititans.cli import main
from minititans.config import TitansConfig
from minititans.experiments import chunk_recall
from minititans.experiments.chunk_recall import ChunkConfig, Recall
from minititans.model import TitansLM
from minititans.tasks.needle import Needle, generator
from minititans.viz.results import chunk_figure

SETTINGS = TitansConfig("lmm", vocab_size=64, dim=16, layers=1, heads=1, chunk_size=4)


def read_in(model: TitansLM, size: int, exact: bool, monkeypatch) -> torch.Tensor:
    """The logits that `recall` lets `accuracy` see when it reads in chunks of `size`."""
    seen = []

    def accuracy(reader, task, length, samples, seed, batch):
        tokens, _ = task.batch(2, length, generator(seed, 0))
        seen.append(reader(tokens)[0])
        return 0.0

    monkeypatch.setattr(chunk_recall, "accuracy", accuracy)
    config = ChunkConfig(length=40)
    chunk_recall.recall(model, exact, size, config, seed=0)
    return seen[0]


@pytest.mark.parametrize("depth, same", [(1, True), (2, False)])
def test_the_same_weights_are_read_in_chunks_of_another_size(depth, same, monkeypatch):
    torch.manual_seed(0)
    model = TitansLM(replace(SETTINGS, depth=depth, theta_start=0.9)).double()
    tokens, _ = Needle("pk").batch(2, 40, generator(0, 0))
    as_trained = model(tokens)[0]
    monkeypatch.setattr(chunk_recall, "TitansLM", lambda config: TitansLM(config).double())
    assert torch.equal(read_in(model, 4, True, monkeypatch), as_trained)
    other = read_in(model, 16, True, monkeypatch)
    assert torch.allclose(other, as_trained, atol=1e-12) == same
    frozen = read_in(model, 16, False, monkeypatch)
    assert not torch.allclose(frozen, as_trained, atol=1e-4)


def test_the_command_reads_stored_models_and_writes_table_and_figure(tmp_path, monkeypatch, capsys):
    small = ChunkConfig(("lmm-matrix", "lmm"), sizes=(1, 4), length=32, samples=4, seeds=(0, 1))
    monkeypatch.setattr(chunk_recall, "ChunkConfig", lambda seeds: replace(small, seeds=seeds))
    for name, depth in (("lmm-matrix", 1), ("lmm", 2)):
        for seed in (0, 1):
            TitansLM(replace(SETTINGS, depth=depth)).save(
                tmp_path / f"{name}-seed{seed}.safetensors"
            )
    command = ["experiment", "chunk", f"--models={tmp_path}", f"--out={tmp_path / 'out'}"]
    assert main([*command, "--seeds=0,1", "--quiet"]) == 0
    assert "| lmm-matrix | frozen |" in capsys.readouterr().out
    found = chunk_recall.load(tmp_path / "out")
    assert [(each.model, each.exact) for each in found] == [
        ("lmm-matrix", True), ("lmm-matrix", False), ("lmm", True), ("lmm", False),
    ]  # fmt: skip
    assert all(len(each.found) == len(each.mean) == 2 for each in found)
    assert (tmp_path / "out" / "chunk.png").stat().st_size > 0
    assert main([*command, "--seeds=2", "--quiet"]) == 2
    assert "lmm-matrix-seed2" in capsys.readouterr().err


def test_the_figure_draws_the_mean_of_the_seeds():
    found = [Recall("lmm", True, (1, 2), ((1.0, 0.5), (0.5, 0.0)))]
    (axes,) = chunk_figure(found, ChunkConfig(sizes=(1, 2))).axes
    bold = [line for line in axes.lines if line.get_label() == "exact last layer"]
    assert bold[0].get_ydata().tolist() == [75.0, 25.0]
