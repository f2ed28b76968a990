"""The proof that they learn: who finds a needle four times further back than in any training."""

from dataclasses import replace

import pytest

from minititans.experiments.needle import NeedleConfig, run_one
from minititans.tasks.needle import Needle

CONFIG = replace(NeedleConfig(), read_at=((24, 128), (1024, 128)))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["mac", "lmm"])
def test_a_model_with_a_memory_finds_the_passkey_at_1024_tokens(variant):
    short, long = run_one(CONFIG, variant, seed=0, progress=False).readings
    assert long.length == 4 * max(CONFIG.lengths)
    assert short.accuracy >= 0.95 and long.accuracy >= 0.95


@pytest.mark.slow
def test_a_sliding_window_finds_it_in_sight_and_guesses_beyond():
    short, long = run_one(CONFIG, "swa", seed=0, progress=False).readings
    assert short.length <= CONFIG.model.window
    assert short.accuracy >= 0.6  # ten times chance: it has learned the task
    # Two layers of attention reach back two windows; a needle lies there one time in sixteen.
    reach = CONFIG.model.layers * CONFIG.model.window / long.length
    seen = reach + (1 - reach) * Needle(CONFIG.kind).chance
    assert long.accuracy <= seen + 3 * (seen * (1 - seen) / long.samples) ** 0.5
