"""Runs that are killed, twenty times in total, end with the weights of runs that never were.

Some kills come from outside, a seeded moment after a seeded line of the log. Others come in the
middle of saving: before a file is on the disk, between two renames, or with half a file written.
"""

import os
import random
import signal
import time
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import safetensors.torch
from train_cases import IN_TIME, assert_same_weights, ended, start_processes, tiny

from minititans.training import folder, log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]

# Variant, number of processes, whether sharded: number of kills
CASES = {
    ("mac", 1, False): 2, ("mag", 1, False): 2, ("mal", 1, False): 2, ("lmm", 1, False): 2,
    ("swa+deltanet", 1, False): 2, ("mac", 2, False): 5, ("mac", 2, True): 5,
}  # fmt: skip
assert sum(CASES.values()) == 20
SAVING = {"save_file": safetensors.torch, "fsync": os, "link": os, "replace": os}
KINDS = ("weight.", "exp_avg.", "exp_avg_sq.", "step.")


@pytest.mark.parametrize("variant, size, shard", CASES)
def test_a_killed_run_ends_with_the_weights_of_one_that_was_never_killed(
    tmp_path, variant, size, shard
):
    options = {"model": {"variant": variant}, "steps": 24, "eval_every": 11}
    options |= {"shard": shard, "sample": 0}
    never, killed = (tiny(tmp_path, name, **options) for name in ("never", "killed"))
    assert ended(start_processes(never, size)) == [0] * size

    stored = safetensors.torch.load_file(never.folder / folder.PREVIOUS)  # after an evaluation
    numbers = [sum(name.startswith(kind) for name in stored) for kind in KINDS]
    assert len(set(numbers)) == 1, "a weight without its moments"

    chance = random.Random(f"{variant} {size} {shard}")
    for number in range(CASES[variant, size, shard]):
        if number % 2:
            moment = partial(die_at, chance.choice(list(SAVING)), chance.randint(1, 3))
            processes = start_processes(killed, size, before=moment)
            processes[0].join(IN_TIME)
            assert processes[0].exitcode == -signal.SIGKILL
        else:
            processes = start_processes(killed, size)
            wait_for_lines(processes[0], killed.folder / folder.LOG, chance.randint(1, 4))
            time.sleep(chance.uniform(0, 0.05))
            chance.choice(processes).kill()
        for process in processes[1:]:  # as torchrun does when one has died
            process.kill()
        processes[0].kill()
        assert ended(processes)[0] == -signal.SIGKILL

    assert ended(start_processes(killed, size)) == [0] * size
    assert_same_weights(never, killed)
    steps = [each["step"] for each in log.read(killed.folder / folder.LOG) if "loss" in each]
    assert steps == list(range(1, 25))
    assert {each.name for each in killed.folder.iterdir()} == set(folder.OWN)


def die_at(name: str, number: int) -> None:
    """Kill this process in place of call number `number` of a function that saving uses."""
    real, calls = getattr(SAVING[name], name), count(1)

    def perhaps(*arguments, **more):
        if next(calls) == number:
            if name == "save_file":
                Path(arguments[1]).write_bytes(b"half a file")
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **more)

    setattr(SAVING[name], name, perhaps)


def wait_for_lines(process, path: Path, more: int) -> None:
    """Until a log has grown by some lines since it was cut, or its process has ended."""

    def lines() -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    wanted, limit = lines() + more, time.monotonic() + IN_TIME
    while lines() < wanted and process.is_alive() and time.monotonic() < limit:
        time.sleep(0.002)
