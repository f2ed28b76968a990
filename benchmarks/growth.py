"""Does memory stay as small as it began? What a process holds while it streams.

In a fresh process, one line a block: how many bytes are resident. The first block is the 4,096
tokens that everything later is compared with; before it, one block is read and forgotten, so
that what libraries allocate once does not count.
"""

import sys

import torch

from benchmarks.child import answer, lines_of
from benchmarks.measurement import Measured, Progress
from benchmarks.resident import give_back, resident
from benchmarks.streaming import BLOCK, LONG, REHEARSAL, block, blocks, streaming_memory
from benchmarks.timing import spread, summary


def measure_growth(quick: bool, progress: Progress) -> Measured:
    """Megabytes held at the end of the stream beyond those held after its first block."""
    length = REHEARSAL if quick else LONG
    lines, held = lines_of("benchmarks.growth", length), []
    for _ in progress(range(blocks(length))):
        held.append(int(next(lines)))
    for _ in lines:  # none is left: this waits for the end and hears of a failure
        pass
    gained = [(each - held[0]) / 1e6 for each in held]
    low, high = spread(gained)
    details = {
        "tokens": len(held) * BLOCK,
        "block": BLOCK,
        "resident_MB_after_first_block": held[0] / 1e6,
        "gained_MB": summary(gained),
    }
    return Measured(gained[-1], low, high, details)


def stream(length: int) -> None:
    """In the fresh process: print what is resident after each block."""
    memory, state = streaming_memory(), None
    with torch.inference_mode():
        memory(block(0))
        for number in range(blocks(length)):
            _, state = memory(block(number), state)
            give_back()
            print(resident(), flush=True)


if __name__ == "__main__":
    answer(stream, int(sys.argv[1]))
