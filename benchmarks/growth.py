"""Does memory stay as small as it was at first? What a process holds while it streams.

In a fresh process, one line per block: how many bytes are resident. The first block is the 4,096
tokens that everything later is compared with; before it, one block is read and discarded, so
that what libraries allocate once does not count.
"""

import sys

import torch

from benchmarks.child import answer, lines_of
from benchmarks.measurement import Measured, Progress
from benchmarks.resident import give_back, resident
from benchmarks.streaming import BLOCK, block, blocks, length_of, make_reader
from benchmarks.timing import spread, summary


def measure_growth(quick: bool, progress: Progress, reader: str = "memory") -> Measured:
    """Megabytes held at the end of the stream beyond those held after its first block."""
    length = length_of(reader, quick)
    lines, held = lines_of("benchmarks.growth", reader, length), []
    for _ in progress(range(blocks(length))):
        held.append(int(next(lines)))
    for _ in lines:  # none is left: this waits for the end, and raises if the child failed
        pass
    gained = [(each - held[0]) / 1e6 for each in held]
    low, high = spread(gained)
    details = {
        "reader": reader,
        "tokens": len(held) * BLOCK,
        "block": BLOCK,
        "resident_MB_after_first_block": held[0] / 1e6,
        "gained_MB": summary(gained),
    }
    return Measured(gained[-1], low, high, details)


def stream(reader: str, length: int) -> None:
    """In the fresh process: print what is resident after each block."""
    read, state = make_reader(reader), None
    with torch.inference_mode():
        read(block(reader, 0))
        for number in range(blocks(length)):
            _, state = read(block(reader, number), state)
            give_back()
            print(resident(), flush=True)


if __name__ == "__main__":
    answer(stream, sys.argv[1], int(sys.argv[2]))
