"""The kernels compiled ahead of time for an A100, without one: what only the compiler rejects.

The interpreter accepts any Python; this finds what Triton's compiler does not, and how much shared
memory the kernels take, which `budget` bounds.
"""

import pytest
from other_process import compiled

from minititans.memory.triton.budget import Tiles

pytest.importorskip("triton", reason="Triton is not installed: it exists for Linux only")
pytestmark = pytest.mark.slow  # the compiler takes seconds for each kernel, the first time

NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
IN_INPUT_PRECISION = ("q", "k", "v", "theta", "eta", "alpha", "y")


def ptx_and_shared(kernel, tiles: Tiles, dtype: str, precision: str, **switches):
    """Compile for compute capability 8.0 with the launcher's own options."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from minititans.memory.triton.launch import _options

    constants = _options(tiles, 1.0, torch.empty(0, dtype=getattr(torch, dtype)))
    compiler = {name: constants.pop(name) for name in ("num_warps", "num_stages", "maxnreg")}
    constants |= {"PRECISION": precision, "FACTORS": tiles.factors, **switches}
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
            signature[name] = "fp32" if name == "clip" else "i32"
    source = ASTSource(kernel, signature, constants, attributes)
    built = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=compiler)
    return built.asm["ptx"], built.metadata.shared


def compile_them(tiles: Tiles, dtype: str, precision: str, products: str, only=()) -> None:
    """The kernels as they are launched; `products` is an instruction that must be in the PTX."""
    from minititans.memory.triton import backward
    from minititans.memory.triton.forward import forward_kernel

    kernels = {
        "trace": (forward_kernel, {"READ": True, "KEEP": True, "TRACE": True}),
        "forward": (forward_kernel, {"READ": True, "KEEP": True, "TRACE": False}),
        "starts": (forward_kernel, {"READ": False, "KEEP": True, "TRACE": False}),
        "read_backward": (backward.read_backward_kernel, {}),
        "write_backward": (backward.write_backward_kernel, {}),
        "gates_backward": (backward.gates_backward_kernel, {}),
    }
    for name, (kernel, switches) in kernels.items():
        if not only or name in only:
            ptx, shared = ptx_and_shared(kernel, tiles, dtype, precision, **switches)
            assert products in ptx, f"{name} multiplies otherwise"
            room = tiles.shared_memory(
                training=name.endswith("backward"), trace=name == "trace", exact=precision == "ieee"
            )
            assert shared <= room, f"{name} takes {shared} bytes, the budget says {room}"


@pytest.mark.parametrize(
    "dtype, depth, precision, products",
    [
        ("float32", 2, "ieee", "fma.rn.f32"),
        ("float16", 1, "tf32", "mma.sync"),
        ("bfloat16", 2, "tf32", "mma.sync"),
    ],
)
@compiled
def test_the_kernels_compile_to_ptx_and_keep_within_the_budget(dtype, depth, precision, products):
    compile_them(Tiles.of([16] * (depth + 1), 16), dtype, precision, products)


# The paper's size in the end, and the largest that trains: there the bounds are tightest.
LARGER = [
    ([32, 32, 32], 32, "read_backward", "ieee"),
    ([64, 64], 16, "trace", "tf32"),
    ([64, 64], 16, "write_backward", "tf32"),
    ([24, 48, 24], 20, "read_backward", "tf32"),
    ([64, 64], 64, "read_backward", "tf32"),
    ([64, 64, 64], 64, "forward", "tf32"),
    ([64, 64, 64], 64, "read_backward", "tf32"),
    ([128, 128, 128], 16, "read_backward", "tf32"),
    ([128, 128, 128], 16, "write_backward", "tf32"),
]


@pytest.mark.parametrize("widths, chunk_size, name, precision", LARGER, ids=str)
@compiled
def test_larger_tiles_keep_within_the_budget_too(widths, chunk_size, name, precision):
    """With inputs in float32, which need more room than half precision."""
    products = "mma.sync" if precision == "tf32" else "fma.rn.f32"
    compile_them(Tiles.of(widths, chunk_size), "float32", precision, products, (name,))
