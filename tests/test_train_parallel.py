"""Two processes under torchrun learn what one process learns."""

import pytest
import torch
from train_cases import arguments, start, tiny, weights

from minititans.training import log, loop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]


def column(config, name: str) -> list[float]:
    return [each[name] for each in log.read(config.folder / "log.jsonl") if name in each]


def torchrun(config, *more: str) -> None:
    process = start(
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "minititans.train", *arguments(config), *more),
        OMP_NUM_THREADS="1",
    )
    _, error = process.communicate()
    assert process.returncode == 0, error


@pytest.mark.parametrize("how", ["data-parallel", "sharded"])
def test_two_processes_give_the_losses_of_one_with_the_same_batch(tmp_path, how):
    # AdamW's first steps follow the sign of a gradient, however small, and so turn rounding into
    # whole steps; these are kept small.
    options = {"accumulate": 2, "steps": 6, "lr": 3e-4, "eval_every": 4}
    one, two = (tiny(tmp_path, name, **options) for name in ("one", "two"))
    loop.train(one)
    torchrun(two, *(["--shard"] if how == "sharded" else []))
    assert column(two, "loss") == pytest.approx(column(one, "loss"), abs=1e-5)
    norms = column(one, "gradient_norm")
    assert column(two, "gradient_norm") == pytest.approx(norms, rel=1e-3)
    for name, weight in weights(one).items():
        torch.testing.assert_close(weights(two)[name], weight, atol=1e-4, rtol=1e-3)


def test_a_run_of_one_process_goes_on_in_two_and_sharded(tmp_path, monkeypatch):
    never, moved = (tiny(tmp_path, name, steps=4, lr=3e-4) for name in ("never", "moved"))
    loop.train(never)

    def stop(run, progress):
        raise KeyboardInterrupt

    save = loop.save
    monkeypatch.setattr(loop, "save", lambda *each: (save(*each), stop(*each)))
    with pytest.raises(KeyboardInterrupt):
        loop.train(moved)
    torchrun(moved, "--shard")
    assert column(moved, "loss") == pytest.approx(column(never, "loss"), abs=1e-5)
