"""From which length is the memory faster than full attention?

One layer of each, forward only, over sequences from 512 to 16,384 tokens. Attention is torch's own
(`scaled_dot_product_attention`, causal), which takes time quadratic in the length.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measurement import Measured, Progress
from benchmarks.streaming import CHUNK, DEPTH, DIM, HEADS
from benchmarks.timing import Side, interleaved, ratio, summary
from minititans import NeuralMemory
from minititans.attention import Projections

LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)


class FullAttention(Projections):
    """Causal attention without a mask in memory, so that nothing but the attention counts."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        return self.join(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def measure_crossover(quick: bool, progress: Progress) -> Measured:
    """Seconds of full attention over seconds of the memory, at the longest length."""
    lengths, rounds = (LENGTHS[:2], 3) if quick else (LENGTHS, 7)
    torch.manual_seed(0)
    memory = NeuralMemory(DIM, heads=HEADS, depth=DEPTH, chunk_size=CHUNK)
    attention = FullAttention(DIM, HEADS)
    found = {}
    with torch.inference_mode():
        for length in progress(lengths):
            x = torch.randn(1, length, DIM, generator=torch.Generator().manual_seed(length))
            sides = {"attention": Side(lambda: attention(x)), "memory": Side(lambda: memory(x))}  # noqa: B023
            seconds = interleaved(sides, rounds)
            found[length] = ratio(seconds["attention"], seconds["memory"], **{
                side: summary(each) for side, each in seconds.items()
            })  # fmt: skip
    faster = [length for length, measured in found.items() if measured.value > 1]
    last = found[lengths[-1]]
    return Measured(
        last.value,
        last.low,
        last.high,
        {
            "memory_is_faster_from": min(faster, default=None),
            "attention_over_memory": {length: each.value for length, each in found.items()},
            "seconds": {length: each.details for length, each in found.items()},
        },
    )
