"""How fast the forward kernel could be at best: what it must compute and move, on which GPU.

The roofline of a kernel is the larger of two times: its multiplications at the GPU's peak rate,
and its bytes at the memory's peak rate. Peaks are from the makers' data sheets, for dense TF32.
`python -m benchmarks.roofline` prints the table in docs/triton.md.
"""

import itertools
from dataclasses import dataclass

from minititans.memory.triton.budget import Tiles, fits


@dataclass(frozen=True)
class Gpu:
    name: str
    flops: float  # per second, TF32
    bandwidth: float  # bytes per second
    shared_memory: int  # bytes, for one program
    processors: int  # multiprocessors: at least this many programs run at once


GPUS = [
    Gpu("L4", 60e12, 0.30e12, 99 * 1024, 58),
    Gpu("RTX 4090", 82e12, 1.01e12, 99 * 1024, 128),
    Gpu("A100 (80 GB)", 156e12, 2.04e12, 163 * 1024, 108),
    Gpu("H100 (SXM)", 494e12, 3.35e12, 227 * 1024, 132),
]
SHAPES = [([64, 64], 64), ([64, 64, 64], 32), ([64, 64, 64], 64)]  # widths and chunk size


def flops(widths: list[int], b: int) -> int:
    """Operations of one chunk of a head: the products of `chunked`, and its solve."""
    *below, last = [d_in * d_out for d_in, d_out in itertools.pairwise(widths)]
    d_in, d_out = widths[-2:]
    overlaps = b * sum(widths[:-1]), b * sum(widths[1:])  # X Aᵀ, and what it takes of E
    right, left = 2 * last, b * d_in  # A W₀ᵀ and A S₀ᵀ; A Aᵀ
    solve = b * d_out / 2  # half of a square is empty
    surprise = sum(below) + right + left + solve
    if below:  # what goes down: E W₀ and E S₀, E Eᵀ, its product with A; then layer by layer
        surprise += 2 * last + b * d_out + b * d_in + sum(below[1:])
    reading = 2 * (sum(below) + last) + sum(overlaps)  # with W₀ and with S₀
    writing = 2 * (sum(below) + last)  # W and S
    gates = b * b + b  # G = D H and f = D m
    return round(2 * b * (surprise + reading + writing + gates))


def moved(widths: list[int], b: int, bytes_each: int = 2) -> int:
    """Bytes to and from global memory for one head's chunk: q, k, v and y, and float32 gates.

    >>> moved([64, 64], 64)
    33536
    """
    return b * (2 * widths[0] + 2 * widths[-1]) * bytes_each + 3 * b * 4


def table() -> str:
    """One row per shape and GPU."""
    rows = [
        "| head dim, depth, chunk | GPU | KFLOP per token | bytes per token "
        "| FLOP per byte, kernel | FLOP per byte, GPU | bound by "
        "| tokens per second and head, at most | training fits |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for widths, b in SHAPES:
        work, traffic = flops(widths, b) / b, moved(widths, b) / b
        for gpu in GPUS:
            seconds = max(work / gpu.flops, traffic / gpu.bandwidth)
            bound = "arithmetic" if work / gpu.flops == seconds else "memory"
            trains = fits(Tiles.of(widths, b), gpu.shared_memory)
            rows.append(
                f"| {widths[0]}, {len(widths) - 1}, {b} | {gpu.name} | {work / 1e3:.0f} "
                f"| {traffic:.0f} | {work / traffic:.0f} | {gpu.flops / gpu.bandwidth:.0f} "
                f"| {bound} | {1 / seconds / 1e6:.0f} million | {'yes' if trains else 'no'} |"
            )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
