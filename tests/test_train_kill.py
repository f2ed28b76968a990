"""A run that is killed with SIGKILL, several times, at random moments."""

import random
import signal
import time

import pytest
from train_cases import arguments, assert_same_weights, start, tiny

from minititans.training import log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]


def kill_after(process, path, lines: int, delay: float) -> bool:
    """Kill once the log has grown by so many lines and `delay` seconds; False if it ended first."""
    grown = count(path) + lines
    while count(path) < grown and process.poll() is None:
        time.sleep(0.002)
    time.sleep(delay)
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    process.wait()
    return True


def count(path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_killed_run_ends_with_the_weights_of_one_that_was_never_killed(tmp_path):
    never, killed = (
        tiny(tmp_path, name, steps=40, save_every=1, eval_every=15) for name in ("never", "killed")
    )
    command = ["-m", "minititans.train"]
    process = start(*command, *arguments(never))
    assert process.wait() == 0, process.stderr.read()

    moments, kills = random.Random(), 0  # other moments in every run of this test
    for _ in range(4):
        lines, delay = moments.randint(1, 8), moments.uniform(0, 0.05)
        process = start(*command, *arguments(killed))
        kills += kill_after(process, killed.folder / "log.jsonl", lines, delay)
    assert kills >= 3
    assert not (killed.folder / "result.json").exists()

    process = start(*command, *arguments(killed))
    assert process.wait() == 0, process.stderr.read()
    assert_same_weights(never, killed)
    steps = [each["step"] for each in log.read(killed.folder / "log.jsonl") if "loss" in each]
    assert steps == list(range(1, 41))
