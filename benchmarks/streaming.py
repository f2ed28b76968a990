"""Does reading stay as fast as it was at first? A long stream and short ones take turns.

The long stream carries its state from block to block. After some of its blocks, and after each of
the last quarter, the same tokens are read again by a memory that has read nothing yet: the short
stream. If speed depended on what came before (a state that grows, numbers that become denormal),
the long stream would fall behind; the result is the ratio over the last quarter, where it would
show most.
"""

import torch
from torch import Tensor, nn

from benchmarks.measurement import Measured, Progress
from benchmarks.timing import ratio, summary
from minititans import NeuralMemory, TitansConfig, TitansLM
from minititans.experiments.timing import timed

BLOCK, REHEARSAL = 4096, 65_536
LENGTHS = {"memory": 1_000_000, "model": 2_097_152}  # the paper's models go to 2M tokens
DIM, HEADS, DEPTH, CHUNK = 64, 4, 2, 64


def measure_stream(quick: bool, progress: Progress, reader: str = "memory") -> Measured:
    """Seconds of a short stream over seconds of a block of the same size in a long one."""
    read, state = make_reader(reader), None
    long, short = [], []

    def go_on() -> None:
        nonlocal state
        _, state = read(x, state)

    number_of_blocks = blocks(length_of(reader, quick))
    last_quarter = number_of_blocks - max(1, number_of_blocks // 4)
    with torch.inference_mode():
        read(block(reader, 0))  # not counted
        for number in progress(range(number_of_blocks)):
            x = block(reader, number)
            seconds = timed(go_on)
            if number >= last_quarter or number % 8 == 0:  # earlier ones only now and then
                long.append(seconds)
                short.append(timed(lambda: read(x)))  # noqa: B023  (called at once)
    tail = number_of_blocks - last_quarter
    whole = ratio(short, long)
    return ratio(
        short[-tail:],
        long[-tail:],
        reader=reader,
        tokens=number_of_blocks * BLOCK,
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


def make_reader(name: str) -> nn.Module:
    """What reads the stream: the memory as a layer, or a model of two layers."""
    torch.manual_seed(0)
    if name == "memory":
        return NeuralMemory(DIM, heads=HEADS, depth=DEPTH, chunk_size=CHUNK)
    return TitansLM(TitansConfig(name, dim=DIM, heads=HEADS, depth=DEPTH, chunk_size=CHUNK))


def block(reader: str, number: int) -> Tensor:
    """The stream's block with this number: vectors for the memory, bytes for a model."""
    rng = torch.Generator().manual_seed(number)
    if reader == "memory":
        return torch.randn(1, BLOCK, DIM, generator=rng)
    return torch.randint(256, (1, BLOCK), generator=rng)


def length_of(reader: str, quick: bool) -> int:
    if quick:
        return REHEARSAL
    return LENGTHS["memory" if reader == "memory" else "model"]


def blocks(length: int) -> int:
    """How many blocks hold at least `length` tokens."""
    return -(-length // BLOCK)
