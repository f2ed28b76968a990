"""What derivatives written by hand buy: a training step of `fast` against the plain `chunked`.

Both take turns on the same inputs at three shapes. `fast` keeps its room in the library as long as
it is 1.5 times as fast at two of them, so the number reported is the second best of three.
"""

from benchmarks.measurement import Measured, Progress
from benchmarks.rule import random_inputs, train_step
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans.memory import chunked, fast

# (batch × heads, time, head dim, chunk size)
SHAPES = ((4, 1024, 64, 64), (8, 256, 32, 16), (16, 1024, 16, 16))
DEPTH = 2


def measure_fast(quick: bool, progress: Progress) -> Measured:
    """Seconds of `chunked` over seconds of `fast`, at the shape in the middle."""
    rounds = 2 if quick else 15
    by_shape = {}
    for memories, time, dim, chunk_size in SHAPES[1:2] if quick else SHAPES:
        inputs = random_inputs(1, memories, time, dim, DEPTH)
        sides = {
            rule.__name__: Side(
                lambda rule=rule, inputs=inputs, size=chunk_size: train_step(rule, inputs, size), 3
            )
            for rule in (chunked, fast)
        }
        seconds = interleaved(sides, rounds, progress)
        found = ratio(seconds["chunked"], seconds["fast"])
        by_shape[f"{memories} x {time} x {dim}, chunks of {chunk_size}"] = (found, seconds)
    found = sorted((each for each, _ in by_shape.values()), key=lambda each: each.value)
    middle = found[-2] if len(found) > 1 else found[0]
    return Measured(
        middle.value,
        middle.low,
        middle.high,
        {
            "depth": DEPTH,
            "shapes": {
                shape: {
                    "ratio": each.value,
                    "seconds": {side: summary(s) for side, s in seconds.items()},
                }
                for shape, (each, seconds) in by_shape.items()
            },
        },
    )
