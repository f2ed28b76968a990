"""What the kernels need on the chip, and where they have it.

A multiprocessor of an NVIDIA GPU has 256 KB of registers, at most 255 of four bytes for each of
a program's threads, and beside them shared memory, of which one program can have 99 KB on
consumer cards (compute capability 8.6, 8.9, 12.0), 163 KB on an A100 (8.0) and 227 KB on an H100
(9.0). Tiles are in float32, and their sides are powers of two: d for the widest layer, b for the
chunk, 16 to 128 and 16 to 64.

Registers hold what goes from chunk to chunk: W and S, or dW and dS in the backward pass, two
d × d tiles a layer. With d = 64 these are 32 KB a layer, a quarter of what four warps can have
(128 threads · 255 · 4 bytes = 128 KB); with d = 128 they are 128 KB. In the rest a chunk is
worked on: at the reading q, a, δ and G at once, 16 KB each for d = b = 64, and the operands of one
product. What does not fit the compiler spills to the cache beside the multiprocessor, which
costs time, not correctness; `docs/triton.md` has what it spills for which size.

Shared memory passes operands between warps, and it is a hard limit. With depth L and d taken for
at least b, the kernels need at most, in numbers of four bytes,

    forward                   max(1, L − 1) · (d² + 2 d b)
    forward, with the trace   L · (d² + 2 d b) + 3 b²
    the backward kernels      (3 L + 5) / 4 · d² + (7 L − 2) / 2 · d b + b²

and 4 KB for odds and ends in a forward pass; a quarter more where float32 is multiplied as such.
Nobody can derive these: they bound what the compiler reports, and a test compiles the kernels and
compares. So for d = b = 64 a memory of depth 2 trains in 156 KB, which an A100 has, or without
TF32 in 195 KB, which an H100 has. With TF32 a head of 128 trains on an H100 as a matrix, and at
depth 2 with b = 16: its W and S alone are 256 KB then, all the registers there are. Where
something does not fit, `chunked` does.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise

import torch

SMALLEST, LARGEST = 16, 128  # what `tl.dot` multiplies, and where everything ends
LONGEST_CHUNK = 64
OLDEST = (8, 0)  # compute capability with tensor cores for float32

INSTALL = "`pip install triton` adds it on Linux"


@dataclass(frozen=True)
class Tiles:
    """The sizes that a kernel is compiled for.

    >>> Tiles.of([24, 48, 24], chunk_size=20).blocks
    (32, 64, 32)
    """

    widths: tuple[int, ...]  # of the layers: head dim, hidden widths, head dim
    blocks: tuple[int, ...]  # the same in tiles
    chunk: int
    block_time: int  # the chunk in tiles

    @classmethod
    def of(cls, widths: Sequence[int], chunk_size: int) -> "Tiles":
        return cls(tuple(widths), tuple(map(_block, widths)), chunk_size, _block(chunk_size))

    @property
    def depth(self) -> int:
        return len(self.widths) - 1

    @property
    def size(self) -> int:
        """Numbers in the weights of one memory."""
        return sum(d_in * d_out for d_in, d_out in pairwise(self.widths))

    @property
    def factors(self) -> int:
        """Numbers in a and δ of one chunk, all layers."""
        return self.chunk * (sum(self.widths[:-1]) + sum(self.widths[1:]))

    @property
    def warps(self) -> int:
        """Warps share a tile by rows of 16: more than four would repeat one another below 128."""
        return 8 if max(self.blocks) == LARGEST else 4

    def shared_memory(self, training: bool, trace: bool = False, exact: bool = False) -> int:
        """Bytes that a program needs at most; training is forward and backward, exact is float32.

        >>> Tiles.of([64, 64, 64], 64).shared_memory(training=True) // 1024
        156
        """
        L, b = self.depth, self.block_time
        d = max(*self.blocks, b)
        forward = 1024 + max(1, L - 1) * (d * d + 2 * d * b)
        if trace:
            forward = 1024 + L * (d * d + 2 * d * b) + 3 * b * b
        backward = ((3 * L + 5) * d * d + 2 * (7 * L - 2) * d * b) // 4 + b * b
        numbers = max(forward, backward) if training else forward
        return 5 * numbers if exact else 4 * numbers


def fits(
    tiles: Tiles, shared_memory: int, training: bool, trace: bool = False, exact: bool = False
) -> bool:
    """Whether one program has room in this many bytes of shared memory."""
    return tiles.shared_memory(training, trace, exact) <= shared_memory


def why_not(
    widths: Sequence[int],
    chunk_size: int,
    exact: bool,
    residual: bool,
    dtype: torch.dtype,
    device: torch.device | None,
    inputs: torch.dtype = torch.float32,
    trace: bool = False,
) -> str | None:
    """Why the kernels cannot run this memory, and what to do; None if they can.

    widths: head dim, hidden widths, head dim; dtype: the state's; device: None if not known yet;
    inputs: the dtype of q, k and v. With gradients enabled the backward pass must fit, too.
    """
    problem = _triton_problem()
    if problem is not None:
        return f'{problem}; {INSTALL}. backend="auto" works without'
    if exact or residual:
        return 'the kernels know exact=False with residual=False; backend="chunked" has the rest'
    exact = (torch.float32, torch.float64) if interpreting() else (torch.float32,)
    if dtype not in exact:
        return f'the state is in {dtype}, expected float32; backend="chunked" takes any precision'
    if max(widths) > LARGEST or chunk_size > LONGEST_CHUNK:
        return (
            f"head dim and hidden width may be {LARGEST} at most and chunk_size {LONGEST_CHUNK}, "
            f'got {max(widths)} and {chunk_size}; backend="chunked" takes any'
        )
    if interpreting() or device is None:
        return None
    if device.type != "cuda" or torch.version.cuda is None:
        return (
            f"the memory is on {device.type}, expected an NVIDIA GPU; move it there with "
            '.to("cuda"), or use backend="auto"'
        )
    gpu = torch.cuda.get_device_properties(device)
    if (gpu.major, gpu.minor) < OLDEST:
        return (
            f"{gpu.name} has compute capability {gpu.major}.{gpu.minor}, expected 8.0 or newer; "
            'use backend="auto"'
        )
    tiles, room = Tiles.of(widths, chunk_size), gpu.shared_memory_per_block_optin
    needs = (torch.is_grad_enabled(), trace, precision(inputs) == "ieee")
    if not fits(tiles, room, *needs):
        return (
            f"it needs up to {tiles.shared_memory(*needs) // 1024} KB of shared memory, and "
            f"{gpu.name} has {room // 1024} KB for a program; use more heads, a smaller "
            'chunk_size or expansion, or backend="chunked"'
        )
    return None


def interpreting() -> bool:
    """Whether kernels are interpreted, on the CPU: for tests, and for looking inside."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def precision(dtype: torch.dtype) -> str:
    """How `tl.dot` may round the numbers it multiplies, for inputs of this dtype.

    Half-precision inputs go through TF32: its ten bits hold a float16 and a bfloat16 exactly, and
    weights and intermediate results are rounded as finely as float16 would. Float32 inputs are
    multiplied as float32 unless torch itself was allowed less
    (`torch.set_float32_matmul_precision`).
    """
    if dtype in (torch.float16, torch.bfloat16):
        return "tf32"
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _block(number: int) -> int:
    """The power of two, at least 16, that has room for this many."""
    return max(SMALLEST, 1 << (number - 1).bit_length())


def _triton_problem() -> str | None:
    try:
        import_module("triton")
    except ImportError as error:
        missing = error.name in (None, "triton")
        return "Triton is not installed" if missing else f"Triton does not import: {error}"
    return None
