"""The kernels compiled ahead of time for an A100 and an H100, without one.

The interpreter accepts any Python; this finds what Triton's compiler does not, and how much shared
memory the kernels take, which `budget` bounds.
"""

import pytest
from other_process import compiled

from minititans.memory.triton.budget import Tiles

pytest.importorskip("triton", reason="Triton is not installed: it exists for Linux only")
pytestmark = pytest.mark.slow  # the compiler takes seconds for each kernel, the first time

NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
IN_INPUT_PRECISION = ("q", "k", "v", "y")
A100, H100 = 80, 90  # compute capability


def ptx_and_shared(kernel, tiles: Tiles, capability: int, dtype: str, precision: str, **switches):
    """Compile with the launcher's own options."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from minititans.memory.triton.launch import _options

    constants = _options(tiles, torch.empty(0, dtype=getattr(torch, dtype)))
    compiler = {name: constants.pop(name) for name in ("num_warps", "num_stages", "maxnreg")}
    constants |= {"PRECISION": precision, **switches}
    constants = {n: value for n, value in constants.items() if n in kernel.arg_names}
    signature, attributes = {}, {}
    for position, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name.endswith("_at"):  # a pointer; torch's allocations are aligned
            given = name.removesuffix("_at").removeprefix("d") in IN_INPUT_PRECISION
            signature[name] = f"*{NAMES[dtype] if given else 'fp32'}"
            attributes[(position,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "i32"
    source = ASTSource(kernel, signature, constants, attributes)
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=compiler)
    return built.asm["ptx"], built.metadata.shared


def compile_them(tiles: Tiles, capability: int, dtype: str, precision: str, only=()) -> None:
    """The kernels as they are launched, multiplied on tensor cores, within the budget."""
    from minititans.memory.triton.forward import forward_kernel
    from minititans.memory.triton.gates import gates_backward_kernel
    from minititans.memory.triton.reading import read_backward_kernel
    from minititans.memory.triton.writing import write_backward_kernel

    kernels = {
        "forward": (forward_kernel, {"KEEP": True, "AGAIN": False}),
        "again": (forward_kernel, {"KEEP": True, "AGAIN": True}),
        "read_backward": (read_backward_kernel, {}),
        "write_backward": (write_backward_kernel, {}),
        "gates_backward": (gates_backward_kernel, {}),
    }
    for name, (kernel, switches) in kernels.items():
        if not only or name in only:
            ptx, shared = ptx_and_shared(kernel, tiles, capability, dtype, precision, **switches)
            assert "mma" in ptx, f"{name} does not use tensor cores"
            room = tiles.shared_memory(precision, capability // 10)
            assert shared <= room, f"{name} takes {shared} bytes, the budget says {room}"


@pytest.mark.parametrize(
    "capability, dtype, depth, precision",
    [(A100, "float32", 2, "tf32x3"), (A100, "bfloat16", 2, "tf32"), (H100, "float16", 1, "tf32")],
)
@compiled
def test_the_kernels_compile_and_keep_within_the_budget(capability, dtype, depth, precision):
    compile_them(Tiles.of([16] * (depth + 1), 16), capability, dtype, precision)


# Where the bounds are tightest, and odd sizes. Not full float32 at 64, 64: that takes minutes.
LARGER = [
    (24, 2, 20, "write_backward", A100, "tf32"),
    (32, 2, 32, "forward", A100, "tf32x3"),
    (64, 1, 64, "read_backward", H100, "tf32"),
    (64, 2, 64, "forward", H100, "tf32"),
    (64, 2, 64, "write_backward", A100, "tf32"),
]


@pytest.mark.parametrize("width, depth, chunk_size, name, capability, precision", LARGER, ids=str)
@compiled
def test_larger_tiles_keep_within_the_budget_too(
    width, depth, chunk_size, name, capability, precision
):
    """With inputs in float32, which need more room than half precision."""
    tiles = Tiles.of([width] * (depth + 1), chunk_size)
    compile_them(tiles, capability, "float32", precision, (name,))
