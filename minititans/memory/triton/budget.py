"""What the kernels need on the chip, and where they fit.

A multiprocessor of an NVIDIA GPU has 256 KB of registers, at most 255 of four bytes for each of
a program's threads. It also has shared memory, of which one program can have 99 KB on consumer
cards (compute capability 8.6, 8.9, 12.0), 163 KB on an A100 (8.0) and 227 KB on an H100 (9.0).
Tiles are in float32, and their sides are powers of two from 16 to 64, one for the head dim and one
for the chunk.

Registers hold what is being worked on, in four warps: 128 threads · 255 · 4 bytes = 128 KB, or
eight tiles of 64 × 64. The compiler spills what does not fit to the cache. That costs time, not
correctness; docs/triton.md says how much is spilled at which size.

Shared memory passes operands between warps, and it is a hard limit. How much of it the compiler
takes cannot be derived: `TILES` bounds what it reports, in tiles of the larger side, and a test
compiles the kernels and compares. Heads and chunks of 64 need 98 KB, which even consumer cards
have; with full float32, which is made of three products, they need 130 KB. On an H100, whose tensor
cores read operands from shared memory, these are 130 and 194 KB. What does not fit runs on `fast`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

SMALLEST, LARGEST = 16, 64  # what `tl.dot` multiplies, and what the kernels are made for
DEEPEST = 2
OLDEST = (8, 0)  # compute capability with tensor cores for float32
DATA_CENTRE = (9, 10)  # where these read operands from shared memory; 10 is assumed to be like 9
TILES = {"tf32": (6, 8), "tf32x3": (8, 12)}  # most that are in shared memory: elsewhere, there

INSTALL = "`pip install triton` adds it on Linux"


@dataclass(frozen=True)
class Tiles:
    """The sizes that a kernel is compiled for.

    >>> tiles = Tiles.of([24, 24, 24], chunk_size=20)
    >>> tiles.block, tiles.block_time
    (32, 32)
    """

    width: int  # of every layer: the head dim
    depth: int
    chunk: int
    block: int  # width and chunk in tiles
    block_time: int

    @classmethod
    def of(cls, widths: Sequence[int], chunk_size: int) -> "Tiles":
        """widths: head dim, hidden widths, head dim, all of them equal."""
        width, depth = widths[0], len(widths) - 1
        return cls(width, depth, chunk_size, _block(width), _block(chunk_size))

    @property
    def size(self) -> int:
        """The number of weights in one memory."""
        return self.depth * self.width**2

    @property
    def found(self) -> int:
        """How many numbers the backward pass gets about a chunk: see `forward.store_found`."""
        return self.block_time**2 + 2 * self.depth * self.chunk * self.width

    @property
    def by_found(self) -> int:
        """How many numbers are in the derivatives of the layers' inputs and errors."""
        return 2 * self.depth * self.chunk * self.width

    @property
    def by_gates(self) -> int:
        """How many are in those of a chunk's products of gates, from reading and writing."""
        return 2 * self.block_time * (self.block_time + 4)

    @property
    def warps(self) -> int:
        """Warps divide a tile into rows of 16, so more than four would repeat each other's work."""
        return 4

    def shared_memory(self, precision: str = "tf32", major: int = 8) -> int:
        """The most bytes that a program needs, where the compute capability begins with `major`.

        >>> Tiles.of([64, 64, 64], 64).shared_memory() // 1024
        98
        """
        tiles = TILES[precision][major in DATA_CENTRE]
        return 4 * tiles * max(self.block, self.block_time) ** 2 + 2048


def fits(tiles: Tiles, shared_memory: int, precision: str = "tf32", major: int = 8) -> bool:
    """Whether one program fits into this many bytes of shared memory."""
    return tiles.shared_memory(precision, major) <= shared_memory


def why_not(
    widths: Sequence[int],
    chunk_size: int,
    exact: bool,
    residual: bool,
    dtype: torch.dtype,
    device: torch.device | None,
    inputs: torch.dtype = torch.float32,
) -> str | None:
    """Why the kernels cannot run this memory, and what to do; None if they can.

    widths: head dim, hidden widths, head dim; dtype: the state's; device: None if not known yet;
    inputs: the dtype of q, k and v.
    """
    problem = _triton_problem()
    if problem is not None:
        return f'{problem}; {INSTALL}. backend="auto" works without it'
    if not (exact and residual):
        return (
            f"the kernels do not have exact={exact}, residual={residual}, expected True and True; "
            'backend="fast" has all four combinations'
        )
    if len(widths) - 1 > DEEPEST or len(set(widths)) > 1:
        return (
            f"got depth {len(widths) - 1} with widths {list(widths)}, expected a depth of at most "
            f'{DEEPEST} and equal widths; backend="fast" takes any depth and expansion'
        )
    if max(widths) > LARGEST or chunk_size > LARGEST:
        return (
            f"got a head dim of {max(widths)} and a chunk_size of {chunk_size}, expected at most "
            f'{LARGEST}; backend="fast" takes any'
        )
    known = (torch.float32, torch.float64) if interpreting() else (torch.float32,)
    if dtype not in known:
        return f'the state is in {dtype}, expected float32; backend="fast" takes any precision'
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
    needs = (precision(inputs), gpu.major)
    if not fits(tiles, room, *needs):
        return (
            f"it needs up to {tiles.shared_memory(*needs) // 1024} KB of shared memory, and "
            f"{gpu.name} has {room // 1024} KB per program; use more heads, a smaller "
            'chunk_size, or backend="fast"'
        )
    return None


def why_not_layer(
    memory: Any, device: torch.device | None, inputs: torch.dtype | None = None
) -> str | None:
    """`why_not` for a `NeuralMemory`; inputs: None for the dtype that a call would have now."""
    widths = [memory.layers[0][0], *(d_out for _, d_out in memory.layers)]
    own = memory.start_weights[0].dtype
    state = torch.promote_types(own, torch.float32)  # as in `NeuralMemory.start`
    if inputs is None:
        inputs = own
        if device is not None and torch.is_autocast_enabled(device.type):
            inputs = torch.get_autocast_dtype(device.type)
    rule = memory.chunk_size, memory.exact, memory.residual
    return why_not(widths, *rule, state, device, inputs)


def interpreting() -> bool:
    """Whether kernels are interpreted, on the CPU: for tests and for debugging."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def precision(dtype: torch.dtype) -> str:
    """How `tl.dot` may round the numbers it multiplies, for inputs of this dtype.

    Half-precision inputs go through TF32: its ten bits hold a float16 and a bfloat16 exactly, and
    weights and intermediate results are rounded as finely as in float16. Float32 inputs are
    multiplied as three products of TF32, which keep all but the last bits of float32, unless torch
    itself may use less (`torch.set_float32_matmul_precision`).
    """
    if dtype in (torch.float16, torch.bfloat16):
        return "tf32"
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _block(number: int) -> int:
    """The smallest power of two that is at least `number` and at least 16."""
    return max(SMALLEST, 1 << (number - 1).bit_length())


def _triton_problem() -> str | None:
    try:
        import_module("triton")
    except ImportError as error:
        missing = error.name in (None, "triton")
        return "Triton is not installed" if missing else f"Triton cannot be imported: {error}"
    return None
