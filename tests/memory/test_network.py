"""The memory network and its surprise, against autograd; vectors of length 1."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap

from minititans.memory.network import bounded, errors_below, loss, path, read, unit


def make(depth, rows=3, time=7, dim=4, expansion=2):
    torch.manual_seed(0)
    widths = [dim] + [expansion * dim] * (depth - 1) + [dim]
    weights = [torch.randn(rows, o, i, dtype=torch.float64) for i, o in pairwise(widths)]
    keys, values = torch.randn(2, rows, time, dim, dtype=torch.float64)
    return weights, keys, values


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("expansion", [1, 3])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_the_factors_multiply_to_minus_autograds_gradient(depth, expansion, residual):
    weights, keys, values = make(depth, expansion=expansion)
    way = path(weights, keys, residual)
    error = values - way.inputs[-1] @ weights[-1].mT
    errors = [*errors_below(weights, way, error @ weights[-1]), error]
    one = lambda w, k, v: grad(loss)(w, k, v, residual)  # noqa: E731
    expected = vmap(vmap(one, in_dims=(None, 0, 0)))(weights, keys, values)
    for layer in range(depth):
        product = torch.einsum("rto,rti->rtoi", errors[layer], way.inputs[layer])
        torch.testing.assert_close(-product, expected[layer], rtol=1e-10, atol=1e-10)
    answer = read([w[:, None] for w in weights], keys[:, :, None], residual)[:, :, 0]
    torch.testing.assert_close(error, values - answer)


def test_what_enters_a_layer_has_length_1_whatever_the_weights():
    weights, keys, _ = make(4)
    for scale in (0.0, 1.0, 1e6):
        way = path([scale * w for w in weights], unit(keys))
        for a in way.inputs:
            torch.testing.assert_close(a.norm(dim=-1), torch.ones(3, 7, dtype=a.dtype))


def test_a_layer_that_faded_leaves_a_shallower_memory():
    """A memory of zeros below its last layer is a matrix; one of plain layers is dead."""
    weights, keys, values = make(3, expansion=1)
    faded = [torch.zeros_like(w) for w in weights[:-1]] + weights[-1:]
    torch.testing.assert_close(read(faded, unit(keys)), unit(keys) @ weights[-1].mT)
    empty = [torch.zeros_like(w[0]) for w in weights]
    for residual in (True, False):
        gradients = grad(loss)(empty, unit(keys)[0, 0], values[0, 0], residual)
        assert gradients[-1].any() == residual


@pytest.mark.parametrize("size", [0.1, 1.0, 1e10, 1e30])
def test_unit_and_its_derivative_are_torchs(size):
    torch.manual_seed(0)
    x = (size * torch.randn(2, 3, 5, dtype=torch.float64)).requires_grad_()
    d_y = torch.randn(2, 3, 5, dtype=torch.float64)
    expected, y = F.normalize(x, dim=-1), unit(x)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    found, same = (torch.autograd.grad(z, x, d_y)[0] for z in (y, expected))
    torch.testing.assert_close(size * found, size * same, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("size", "dtype"), [(1e20, torch.float32), (5e4, torch.float16)])
def test_squares_that_would_overflow_do_no_harm(size, dtype):
    x = torch.tensor([3.0, -4.0, 0.0]).to(dtype) * (size / 4)
    assert unit(x).dtype == dtype
    torch.testing.assert_close(unit(x).float(), torch.tensor([0.6, -0.8, 0.0]), rtol=1e-3, atol=0)
    expected = torch.tensor([60.0, -80.0, 0.0])
    torch.testing.assert_close(bounded(x, 100.0).float(), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("size", [0.0, 1e-4, 0.1, 10.0])
@pytest.mark.parametrize("function", [unit, lambda x: bounded(x, 5.0)])
def test_their_derivatives_are_those_of_finite_differences(function, size):
    torch.manual_seed(1)
    x = (size * torch.randn(2, 3, 5, dtype=torch.float64)).requires_grad_()
    small = {"eps": max(1e-4 * size, 1e-8), "atol": 1e-4 / max(size, 1e-4), "rtol": 1e-3}
    assert gradcheck(function, x, **small)
    if size >= 0.1:
        assert gradgradcheck(function, x)


def test_what_is_shorter_than_the_bound_stays_as_it_is():
    x = torch.randn(4, 5)
    torch.testing.assert_close(bounded(x, 1000.0), x, rtol=1e-6, atol=0)
