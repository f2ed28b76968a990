"""Does reading stay as fast as it began? A long stream beside short ones, taking turns.

The long stream carries its state from block to block. After each of its blocks the same
tokens are read once more by a memory that has read nothing yet: the short stream. If speed
depended on what came before (a state that grows, numbers that become denormal), the long
stream would fall behind; the line is the ratio over the last quarter, where it would show most.
"""

import torch
from torch import Tensor

from benchmarks.measurement import Measured, Progress
from benchmarks.timing import ratio, summary, timed
from minititans import NeuralMemory

BLOCK, LONG, REHEARSAL = 4096, 1_000_000, 65_536
DIM, HEADS, DEPTH, CHUNK = 64, 4, 2, 64


def measure_stream(quick: bool, progress: Progress) -> Measured:
    """Seconds of a short stream over seconds of a long one's block of as many tokens."""
    length = REHEARSAL if quick else LONG
    memory, state = streaming_memory(), None
    long, short = [], []

    def go_on() -> None:
        nonlocal state
        _, state = memory(x, state)

    with torch.inference_mode():
        memory(block(0))  # not counted
        for number in progress(range(blocks(length))):
            x = block(number)
            long.append(timed(go_on))
            short.append(timed(lambda: memory(x)))  # noqa: B023  (called at once)
    tail = max(1, len(long) // 4)
    whole = ratio(short, long)
    return ratio(
        short[-tail:],
        long[-tail:],
        tokens=len(long) * BLOCK,
        block=BLOCK,
        dim=DIM,
        heads=HEADS,
        depth=DEPTH,
        chunk_size=CHUNK,
        ratio_over_the_whole_stream=whole.value,
        tokens_per_second={
            "long, last quarter": summary(BLOCK / s for s in long[-tail:]),
            "long, whole": summary(BLOCK / s for s in long),
            "short": summary(BLOCK / s for s in short),
        },
    )


def streaming_memory() -> NeuralMemory:
    torch.manual_seed(0)
    return NeuralMemory(DIM, heads=HEADS, depth=DEPTH, chunk_size=CHUNK)


def block(number: int) -> Tensor:
    """The stream's block of that number, `[1, BLOCK, DIM]`; no two are the same."""
    return torch.randn(1, BLOCK, DIM, generator=torch.Generator().manual_seed(number))


def blocks(length: int) -> int:
    """How many blocks hold at least `length` tokens."""
    return -(-length // BLOCK)
