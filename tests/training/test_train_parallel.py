"""Two processes learn what one process learns, also under torchrun."""

from dataclasses import replace

import pytest
import torch
from train_cases import arguments, ended, output_of, start, start_processes, tiny, weights

from minititans.training import log, loop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed"),
]


def column(config, name: str) -> list[float]:
    return [each[name] for each in log.read(config.folder / "log.jsonl") if name in each]


@pytest.mark.parametrize("how", ["data-parallel", "sharded"])
def test_two_processes_give_the_losses_of_one_with_the_same_batch(tmp_path, how):
    # AdamW's first steps follow the sign of a gradient, however small, and so turn rounding into
    # whole steps; these are kept small.
    options = {"accumulate": 2, "steps": 6, "lr": 3e-4, "eval_every": 4}
    one, two = (tiny(tmp_path, name, **options) for name in ("one", "two"))
    loop.train(one)
    assert ended(start_processes(replace(two, shard=how == "sharded"), 2)) == [0, 0]
    assert column(two, "loss") == pytest.approx(column(one, "loss"), abs=1e-5)
    norms = column(one, "gradient_norm")
    assert column(two, "gradient_norm") == pytest.approx(norms, rel=1e-3)
    for name, weight in weights(one).items():
        torch.testing.assert_close(weights(two)[name], weight, atol=1e-4, rtol=1e-3)


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def test_a_run_of_one_process_goes_on_in_two_and_sharded(tmp_path, monkeypatch):
    never, moved = (tiny(tmp_path, name, steps=4, lr=3e-4) for name in ("never", "moved"))
    loop.train(never)

    def stop(run, progress):
        raise KeyboardInterrupt

    save = loop.save
    monkeypatch.setattr(loop, "save", lambda *each: (save(*each), stop(*each)))
    with pytest.raises(KeyboardInterrupt):
        loop.train(moved)
    command = ("-m", "minititans.train", *arguments(moved), "--shard")
    output_of(start(*TORCHRUN, *command))
    assert column(moved, "loss") == pytest.approx(column(never, "loss"), abs=1e-5)


# Says so if a wrapper is alive when the process group goes, and how the process ends.
WATCH = """
import gc, sys
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from minititans import train

real = dist.destroy_process_group

def destroy():
    alive = [each for each in gc.get_objects() if isinstance(each, DistributedDataParallel)]
    print("wrappers alive:", len(alive), flush=True)
    real()

dist.destroy_process_group = destroy
print("status:", train.main(sys.argv[1:]), flush=True)
"""


def test_the_wrapper_dies_before_its_process_group(tmp_path):
    """Otherwise each may wait for the other, and the process never ends."""
    (tmp_path / "watch.py").write_text(WATCH)
    config = tiny(tmp_path, steps=3)
    out, _ = output_of(start(*TORCHRUN, str(tmp_path / "watch.py"), *arguments(config)))
    assert (out.count("wrappers alive: 0"), out.count("status: 0")) == (2, 2)
    (config.folder / "result.json").unlink()
    (config.folder / "log.jsonl").write_text("junk\n")  # noticed when the wrapper is in use
    out, error = output_of(start(*TORCHRUN, str(tmp_path / "watch.py"), *arguments(config)))
    assert (out.count("wrappers alive: 0"), out.count("status: 2")) == (2, 2)
    assert error.count("log.jsonl is damaged: line 1 is not a record") == 1
    assert "Traceback" not in error
