"""The kernels compiled ahead of time for an A100, without one: what only the compiler rejects.

The interpreter accepts any Python; this finds what Triton's compiler does not, and how much shared
memory the kernels take, which `budget` bounds.
"""

import pytest
from other_process import compiled

from minititans.memory.triton.budget import Tiles

pytest.importorskip("triton", reason="Triton is not installed: it exists for Linux only")

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


def compile_all(tiles: Tiles, dtype: str, precision: str, products: str) -> None:
    """Every kernel as it is launched; `products` is an instruction that must be in the PTX."""
    from minititans.memory.triton import backward
    from minititans.memory.triton.forward import forward_kernel

    forward = {"READ": True, "KEEP": True, "TRACE": True}
    again = {"READ": False, "KEEP": True, "TRACE": False}
    kernels = [(forward_kernel, forward, False), (forward_kernel, again, True)]
    kernels += [
        (getattr(backward, f"{name}_backward_kernel"), {}, True)
        for name in ("read", "write", "gates")
    ]
    for kernel, switches, training in kernels:
        ptx, shared = ptx_and_shared(kernel, tiles, dtype, precision, **switches)
        assert products in ptx, f"{kernel.__name__} multiplies otherwise"
        room = tiles.shared_memory(training)
        assert shared <= room, f"{kernel.__name__} takes {shared} bytes, the budget says {room}"


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@compiled
def test_the_kernels_compile_to_ptx_and_keep_within_the_budget(dtype, depth):
    precision, products = ("ieee", "fma.rn.f32") if dtype == "float32" else ("tf32", "mma.sync")
    compile_all(Tiles.of([16] * (depth + 1), 16), dtype, precision, products)


@pytest.mark.slow
@pytest.mark.parametrize("widths, chunk_size", [([64, 64], 16), ([16, 16], 64), ([24, 48, 24], 20)])
@compiled
def test_other_shapes_keep_within_the_budget(widths, chunk_size):
    compile_all(Tiles.of(widths, chunk_size), "bfloat16", "tf32", "mma.sync")


@pytest.mark.slow
@compiled
def test_the_size_of_the_papers_models_keeps_within_the_budget():
    compile_all(Tiles.of([64, 64, 64], 64), "bfloat16", "tf32", "mma.sync")
