"""Does a late token cost what an early one costs? One step of generation at two positions.

The two models take turns, one that has read 100 tokens and one that has read 100,000.
"""

import torch

from benchmarks.measurement import Measured, Progress
from benchmarks.streaming import make_reader
from benchmarks.timing import Side, interleaved, ratio, summary

EARLY, LATE, REHEARSAL = 100, 100_000, 5_000


def measure_generation(quick: bool, progress: Progress, variant: str) -> Measured:
    """Seconds of a token at position 100 over seconds of one at 100,000."""
    late, rounds = (REHEARSAL, 5) if quick else (LATE, 40)
    model = make_reader(variant)
    rng = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        tokens = torch.randint(256, (1, late), generator=rng)
        _, early_state = model(tokens[:, :EARLY])
        late_state = None
        for part in tokens.split(4096, 1):
            _, late_state = model(part, late_state)
        token = tokens[:, :1]
        seconds = interleaved(
            {
                "early": Side(lambda: model(token, early_state), 10),
                "late": Side(lambda: model(token, late_state), 10),
            },
            rounds,
            progress,
        )
    return ratio(
        seconds["early"],
        seconds["late"],
        variant=variant,
        positions=[EARLY, late],
        seconds={side: summary(each) for side, each in seconds.items()},
    )
