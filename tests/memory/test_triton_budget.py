"""Where the kernels fit, what is said where they do not, and that nothing else needs Triton."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.roofline import flops, table
from minititans import Gates, MemoryState, NeuralMemory
from minititans.memory import chunked
from minititans.memory.triton import budget, fits, why_not
from minititans.memory.triton.budget import Tiles

# Shared memory that one program can have, in KB.
CONSUMER, A100, H100 = 99 * 1024, 163 * 1024, 227 * 1024


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("dim", [16, 24, 64])
@pytest.mark.parametrize("chunk_size", [1, 16, 64])
def test_an_a100_and_an_h100_have_room_for_all_sizes(dim, chunk_size, depth):
    tiles = Tiles.of([dim] * (depth + 1), chunk_size)
    assert fits(tiles, A100, "tf32x3", major=8)
    assert fits(tiles, H100, "tf32x3", major=9)


def test_consumer_cards_have_room_for_the_largest_in_half_precision_only():
    tiles = Tiles.of([64, 64, 64], 64)
    assert fits(tiles, CONSUMER, "tf32") and not fits(tiles, CONSUMER, "tf32x3")
    assert fits(Tiles.of([32, 32, 32], 32), CONSUMER, "tf32x3")


def gpu(monkeypatch, capability=(8, 0), room=A100, name="a GPU"):
    """Pretend to have this GPU, and Triton."""
    properties = SimpleNamespace(
        name=name, major=capability[0], minor=capability[1], shared_memory_per_block_optin=room
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(budget, "_triton_problem", lambda: None)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return torch.device("cuda")


@pytest.mark.parametrize(
    "changed, message",
    [
        ({}, None),
        ({"widths": [64, 64, 64], "chunk_size": 64}, None),
        ({"widths": [64] * 4}, "got depth 3 .* expected a depth of at most 2"),
        ({"widths": [32, 64, 32]}, r"got depth 2 with widths \[32, 64, 32\], expected .* equal"),
        ({"widths": [128, 128]}, "a head dim of 128 and a chunk_size of 32, expected at most 64"),
        ({"chunk_size": 128}, "a head dim of 64 and a chunk_size of 128, expected at most 64"),
        ({"exact": False}, "the kernels do not have exact=False, residual=True"),
        ({"residual": False}, "the kernels do not have exact=True, residual=False"),
        ({"dtype": torch.float64}, r"the state is in torch\.float64, expected float32"),
        ({"device": torch.device("cpu")}, "the memory is on cpu, expected an NVIDIA GPU"),
    ],
    ids=str,
)
def test_what_does_not_run_has_a_reason_and_a_remedy(monkeypatch, changed, message):
    device = gpu(monkeypatch)
    arguments = {"widths": [64, 64], "chunk_size": 32, "exact": True, "residual": True}
    arguments |= {"dtype": torch.float32, "device": device} | changed
    reason = why_not(**arguments)
    if message is None:
        assert reason is None
    else:
        with pytest.raises(ValueError, match=message):
            raise ValueError(reason)
        assert "backend=" in reason


def test_an_old_gpu_is_named(monkeypatch):
    device = gpu(monkeypatch, capability=(7, 5), name="a T4")
    reason = why_not([16, 16], 16, True, True, torch.float32, device)
    assert reason.startswith("a T4 has compute capability 7.5, expected 8.0 or newer")


def test_a_gpu_with_too_little_room_is_named(monkeypatch):
    device = gpu(monkeypatch, capability=(8, 9), room=CONSUMER, name="an L4")
    reason = why_not([64, 64, 64], 64, True, True, torch.float32, device)
    with pytest.raises(ValueError, match=r"needs up to 130 KB .* and an L4 has 99 KB"):
        raise ValueError(reason)
    assert why_not([64, 64, 64], 64, True, True, torch.float32, device, torch.bfloat16) is None
    assert why_not([32, 32, 32], 32, True, True, torch.float32, device) is None


def test_auto_takes_the_kernels_on_a_gpu_where_they_fit_and_fast_elsewhere(monkeypatch):
    gpu(monkeypatch)

    def taken(**options):
        memory = NeuralMemory(**({"dim": 64, "heads": 1, "chunk_size": 64} | options))
        device = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32)
        monkeypatch.setattr(memory, "start_weights", [device], raising=False)
        return memory.backend_in_use

    monkeypatch.setattr(NeuralMemory, "__setattr__", object.__setattr__)  # no real GPU tensors
    assert taken() == taken(depth=1) == "triton"
    for other in ({"exact": False}, {"residual": False}, {"depth": 3}, {"expansion": 2}):
        assert taken(**other) == "fast"
    assert taken(dim=128) == taken(chunk_size=128) == "fast"
    assert taken(backend="sequential") == "sequential"
    assert NeuralMemory(64).backend_in_use == "fast"  # on the CPU


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precision_follows_the_inputs_and_what_torch_is_allowed(monkeypatch, dtype):
    half = dtype != torch.float32
    for allowed in ("highest", "high", "medium"):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda allowed=allowed: allowed)
        expected = "tf32" if half or allowed != "highest" else "tf32x3"
        assert budget.precision(dtype) == expected


WITHOUT_TRITON = """
import sys
from pathlib import Path
sys.modules["triton"] = None  # what makes `import triton` fail
import torch
from minititans import NeuralMemory
x = torch.randn(1, 20, 16)
for backend in ("auto", "chunked", "fast", "sequential"):
    memory = NeuralMemory(16, heads=1, chunk_size=8, backend=backend)
    y, _ = memory(x)
    y.sum().backward()
assert NeuralMemory(16).backend_in_use == "fast"
try:
    NeuralMemory(16, backend="triton")
except ValueError as error:
    print(error)
"""


def test_without_triton_everything_else_works_and_asking_for_it_says_what_to_install():
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "backend: got 'triton', but Triton is not installed" in done.stdout
    assert "pip install triton" in done.stdout and 'backend="auto"' in done.stdout


def test_importing_minititans_does_not_import_triton():
    code = "import minititans, minititans.memory, sys; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def test_the_roofline_in_the_documents_is_the_one_the_code_computes():
    page = Path(__file__).resolve().parents[2] / "docs" / "triton.md"
    assert table() in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("depth", [2, 3])  # at 1 `chunked` computes what goes down, to nobody
@pytest.mark.parametrize("b", [4, 16])
def test_the_roofline_counts_the_products_that_chunked_computes(depth, b):
    widths = [8] * (depth + 1)
    q, k, v = torch.randn(3, 1, 1, b, 8)
    gates = Gates.constant(0.1, 0.1, 0.1, (1, 1, b))
    start = MemoryState.start([torch.randn(1, 8, 8) for _ in range(depth)], 1)
    with FlopCounterMode(display=False) as counted:
        chunked(q, k, v, gates, start, b)
    solve = b * b * 8  # which the counter does not know
    assert flops(widths, b) == counted.get_total_flops() + solve
