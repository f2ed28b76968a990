"""The kernels on a GPU, against `chunked` in float64 there: skipped where there is none."""

import pytest
import torch
from cases import assert_same, random_case

from minititans import NeuralMemory
from minititans.memory import Gates, chunked
from minititans.memory.triton import fused, why_not

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.version.cuda is None,
    reason="needs an NVIDIA GPU; the same kernels are tested in test_triton.py by interpretation",
)


def on_gpu(case, dtype):
    """The same case there, in this precision, with the weights in float32 or better."""
    state = torch.promote_types(dtype, torch.float32)
    move = lambda x, dtype: x.detach().to("cuda", dtype).requires_grad_()  # noqa: E731
    case.q, case.k, case.v = (move(x, dtype) for x in (case.q, case.k, case.v))
    case.gates = Gates(*(move(x, state) for x in vars(case.gates).values()))
    case.weights = [move(w, state) for w in case.weights]
    return case


def results(rule, dtype, depth, dim, chunk_size, time):
    """Readings, state and gradients, all in float64."""
    case = on_gpu(
        random_case(batch=2, heads=3, time=time, dim=dim, depth=depth, expansion=1), dtype
    )
    y, state = case.run(rule, chunk_size)
    found = [y, *state.weights, *state.momentum, *state.chunk_start]
    total = sum(x.double().sin().sum() for x in found)
    found += torch.autograd.grad(total, list(case.leaves.values()))
    return {str(number): tensor.double() for number, tensor in enumerate(found)}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("dim", [16, 32, 64])
@pytest.mark.parametrize("chunk_size", [16, 32, 64])
@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 3e-2), (torch.bfloat16, 1e-1)]
)
def test_the_kernels_equal_chunked_on_the_gpu(depth, dim, chunk_size, dtype, tolerance):
    widths, device = [dim] * (depth + 1), torch.device("cuda")
    reason = why_not(widths, chunk_size, True, True, torch.float32, device, dtype)
    if reason is not None:
        pytest.skip(reason)
    expected = results(chunked, torch.float64, depth, dim, chunk_size, 5 * chunk_size + 3)
    found = results(fused, dtype, depth, dim, chunk_size, 5 * chunk_size + 3)
    assert_same(found, expected, tolerance)


def test_a_layer_takes_them_by_itself_and_streams():
    torch.manual_seed(0)
    memory = NeuralMemory(64, heads=2, chunk_size=16).cuda()
    x = torch.randn(2, 100, 64, device="cuda")
    assert memory.backend_in_use == "triton"
    whole, _ = memory(x)
    state, parts = None, []
    for part in x.split([16, 5, 50, 29], 1):
        y, state = memory(part, state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-3, atol=1e-4)
    memory.backend = "chunked"
    torch.testing.assert_close(whole, memory(x)[0], rtol=1e-3, atol=1e-4)


def test_many_rows_and_a_long_sequence():
    case = on_gpu(random_case(batch=64, heads=4, time=2050, dim=32, expansion=1), torch.float32)
    with torch.no_grad():
        y, _ = case.run(fused, 32)
        expected, _ = case.run(chunked, 32)
    torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)
