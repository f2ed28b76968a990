"""The memory that a training step needs on top of what the process holds anyway.

Each side runs in a fresh process. It first makes one tiny step (batch 1, two chunks), so that
what libraries allocate once is there before we look; freed memory is given back to the system;
the peak is reset; then comes the step itself, once. What counts is the difference between the peak
and what was resident just before the step.
"""

import sys

from benchmarks.child import answer, lines_of
from benchmarks.measurement import Measured, Progress
from benchmarks.resident import extra_peak
from benchmarks.rival import (
    BATCH,
    CHUNK,
    TIME,
    our_memory,
    random_input,
    their_memory,
    train_step,
)
from benchmarks.timing import ratio, summary

MAKERS = {"theirs": their_memory, "ours": our_memory}


def measure_peak(quick: bool, progress: Progress) -> Measured:
    """Their extra bytes over ours."""
    time, rounds = (256, 1) if quick else (TIME, 3)
    turns = [side for _ in range(rounds) for side in MAKERS]
    extra = {side: [] for side in MAKERS}
    for side in progress(turns):
        extra[side].extend(int(line) for line in lines_of("benchmarks.peak", side, time))
    in_MB = {side: summary(b / 1e6 for b in each) for side, each in extra.items()}
    return ratio(extra["theirs"], extra["ours"], batch=BATCH, time=time, extra_MB=in_MB)


def step_of(side: str, time: int) -> None:
    """In the fresh process: print the extra bytes of one step."""
    memory = MAKERS[side]("token")
    train_step(memory, random_input(1, 2 * CHUNK))
    x = random_input(BATCH, time)
    print(extra_peak(lambda: train_step(memory, x)))


if __name__ == "__main__":
    answer(step_of, sys.argv[1], int(sys.argv[2]))
