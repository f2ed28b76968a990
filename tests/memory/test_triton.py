"""The Triton kernels through Triton's interpreter, against `chunked`: on every machine with Triton.

In float64, which the interpreter can do and the formulas do not mind, so that equal means 1e-10.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from cases import assert_same, everything, random_case
from other_process import interpreted

from minititans import NeuralMemory
from minititans.memory import MemoryState, chunked
from minititans.memory.triton import fused

pytest.importorskip("triton", reason="Triton is not installed: it exists for Linux only")

# [head dim, chunk size, tokens]: every tile size from 16 to 64, odd sizes that are padded, tails,
# one chunk and several, one tile of the triangular solve and several.
SHAPES = [
    (16, 16, 40),
    (5, 7, 15),
    (4, 1, 3),
    (6, 40, 45),
    *(
        pytest.param(*shape, marks=pytest.mark.slow)
        for shape in ((32, 32, 45), (64, 64, 70), (64, 16, 20), (16, 64, 130), (24, 20, 50))
    ),
]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("dim, chunk_size, time", SHAPES)
@interpreted
def test_the_kernels_equal_chunked_in_values_state_and_gradients(dim, chunk_size, time, depth):
    heads = 2 if dim < 64 else 1
    case = random_case(batch=1, heads=heads, time=time, dim=dim, depth=depth, expansion=1)
    expected = everything(case, *case.run(chunked, chunk_size))
    assert_same(everything(case, *case.run(fused, chunk_size)), expected)


@pytest.mark.parametrize("depth", [1, 2])
@interpreted
def test_gates_of_exactly_0_and_1_are_exact(depth):
    case = random_case(batch=1, time=21, dim=6, depth=depth, expansion=1, limits=True, seed=depth)
    expected = everything(case, *case.run(chunked, 8))
    assert_same(everything(case, *case.run(fused, 8)), expected)


@interpreted
def test_alpha_of_one_clears_the_memory_exactly():
    case = random_case(time=6, depth=1)
    with torch.no_grad():
        case.gates.alpha[:, :, 2], case.gates.eta[:, :, 2] = 1.0, 0.0
        case.gates.theta[:, :, 2] = 0.0
    y, _ = case.run(fused, 6)
    assert y[:, :, 2].eq(0).all() and y[:, :, 1].ne(0).all()


@pytest.mark.parametrize("chunk_size", [16, 64])
@interpreted
def test_one_key_repeated_is_solved_as_exactly_as_by_substitution(chunk_size):
    """The hardest system there is: every entry below its diagonal is 1. Doubling would overflow."""
    case = random_case(batch=1, heads=1, time=64, dim=6, depth=1, dtype=torch.float32)
    with torch.no_grad():
        case.k[:] = case.k[:, :, :1].clone()
        case.gates.theta[:], case.gates.eta[:], case.gates.alpha[:] = 1.0, 0.0, 0.0
        y, state = fused(case.k, case.k, case.v, case.gates, case.start(), chunk_size)
    # With theta = 1 each token writes all of its error: the key now stands for the token's value.
    torch.testing.assert_close(y, case.v, rtol=1e-5, atol=1e-5)
    read = case.k[:, :, -1:] @ state.weights[0].mT
    torch.testing.assert_close(read, case.v[:, :, -1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cuts", [[16], [5, 9], [1, 2, 3]], ids=str)
@interpreted
def test_any_split_of_a_sequence_gives_the_same_reading(cuts):
    """On a chunk's boundary, inside one chunk, token by token; gradients go through the state."""
    case = random_case(batch=1, time=21, dim=6, expansion=1, seed=3)
    expected = everything(case, *case.run(chunked, 8))
    state, parts = case.start(), []
    for first, last in pairwise([0, *cuts, 21]):
        y, state = fused(*case.part(first, last), state, 8)
        parts.append(y)
    assert_same(everything(case, torch.cat(parts, 2), state), expected)


@pytest.mark.parametrize("time", [16, 21])
@interpreted
def test_the_starting_momentum_gets_its_gradient(time):
    case, results = random_case(batch=1, time=time, dim=6, expansion=1), []
    rng = torch.Generator().manual_seed(1)
    start = case.start()
    momentum = [torch.randn(w.shape, generator=rng, dtype=w.dtype) / 4 for w in start.weights]
    for rule in (chunked, fused):
        leaves = [m.clone().requires_grad_() for m in momentum]
        y, state = rule(*case.part(0, time), replace(start, momentum=leaves), 8)
        total = y.square().sum() + sum(w.sin().sum() for w in state.weights + state.momentum)
        gradients = torch.autograd.grad(total, leaves)
        results.append({f"by momentum.{l}": g for l, g in enumerate(gradients)})
    assert_same(results[1], results[0])


@interpreted
def test_a_trace_comes_from_chunked_and_is_complete():
    case = random_case(batch=1, time=13, dim=6, expansion=1)
    y, state, trace = case.run(fused, 8, trace=True)
    expected_y, expected_state, expected = case.run(chunked, 8, trace=True)
    assert torch.equal(y, expected_y) and torch.equal(state.weights[0], expected_state.weights[0])
    assert_same(vars(trace), vars(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@interpreted
def test_inputs_in_single_and_half_precision_leave_the_state_in_float32(dtype):
    """bfloat16 is left to a GPU: the interpreter computes it wrongly."""
    case = random_case(batch=1, time=20, dim=16, expansion=1, dtype=torch.float32)
    q, k, v, gates = case.part(0, 20)
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (q, k, v))
    results = []
    for rule in (chunked, fused):
        y, state = rule(q, k, v, gates, case.start(), 16)
        assert y.dtype == dtype and state.weights[0].dtype == torch.float32
        total = y.float().square().sum() + sum(w.sin().sum() for w in state.weights)
        gradients = torch.autograd.grad(total, (q, k, v, *vars(gates).values(), *case.weights))
        assert gradients[0].dtype == dtype
        results.append({str(i): g.float() for i, g in enumerate((y, *state.weights, *gradients))})
    assert_same(results[1], results[0], 1e-5 if dtype == torch.float32 else 2e-3)


@interpreted
def test_a_memory_of_zeros_learns_and_has_finite_gradients():
    """How a layer begins. A key of zeros is divided by its length too."""
    case = random_case(batch=1, time=20, dim=6, expansion=1)
    with torch.no_grad():
        case.k[:, :, 3] = 0.0
        for w in case.weights:
            w.zero_()
    expected = everything(case, *case.run(chunked, 16))
    assert_same(everything(case, *case.run(fused, 16)), expected)


@interpreted
def test_without_gradients_nothing_is_kept_and_the_result_is_the_same():
    case = random_case(batch=1, time=21, dim=6, expansion=1)
    expected, _ = case.run(fused, 8)
    with torch.no_grad():
        y, state = case.run(fused, 8)
    assert torch.equal(y, expected) and not state.weights[0].requires_grad


@interpreted
def test_the_layer_reads_the_same_with_every_backend():
    x = torch.linspace(-2, 2, 2 * 11 * 12).sin().view(2, 11, 12)
    readings = []
    for backend in ("chunked", "triton"):
        torch.manual_seed(0)
        memory = NeuralMemory(12, heads=2, chunk_size=4, backend=backend)
        y, state = memory(x)
        more, _ = memory(x[:, :6], state)
        assert memory.backend_in_use == backend
        readings.append(torch.cat([y, more], 1))
    torch.testing.assert_close(readings[1], readings[0], rtol=1e-4, atol=1e-5)


@interpreted
def test_auto_does_not_take_the_kernels_on_the_cpu_even_where_they_are_interpreted():
    assert NeuralMemory(16).backend_in_use == "fast"


@interpreted
def test_a_second_derivative_is_refused_and_not_wrong():
    case = random_case(batch=1, time=5, dim=4, expansion=1)
    y, _ = case.run(fused, 4)
    (gradient,) = torch.autograd.grad(y.square().sum(), case.q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@interpreted
def test_what_the_kernels_cannot_do_is_refused_with_a_reason():
    case = random_case(batch=1, time=5, dim=4, expansion=1)
    with pytest.raises(ValueError, match=r"kernels do not have .*residual=False.*fast"):
        case.run(fused, 4, residual=False)
    with pytest.raises(ValueError, match=r"got depth 3.*at most 2.*fast"):
        random_case(batch=1, time=5, dim=4, depth=3, expansion=1).run(fused, 4)
    half = [w.half() for w in case.weights]
    with pytest.raises(TypeError, match=r"float16.*expected float32"):
        fused(*case.part(0, 5), MemoryState.start(half, 1), 4)
