"""Gates, reading and writing of chunks: against their formulas token by token, and finite
differences."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from minititans.memory.chunk_gates import Products, chunk_products
from minititans.memory.chunk_reading import read_layer
from minititans.memory.chunk_writing import write_chunks
from minititans.memory.network import surprise_factors, surprise_norm

ROWS, B, D_IN, D_OUT, CHUNKS = 2, 3, 4, 5, 3


def numbers(*shape, rows=ROWS):
    return torch.randn(rows, *shape, dtype=torch.float64).requires_grad_()


@pytest.fixture
def gates():
    """theta, eta and alpha of four tokens; some are at their limits."""
    torch.manual_seed(0)
    theta, eta, alpha = torch.rand(3, ROWS, 4, dtype=torch.float64)
    theta[0, 1], eta[0, 2], eta[1, 0], alpha[1, 2], alpha[1, 3] = 0, 0, 1, 1, 0
    return [gate.requires_grad_() for gate in (theta, eta, alpha)]


def test_the_products_of_gates_are_recurrences_over_the_tokens(gates):
    products = chunk_products(*gates)
    for row, (theta, eta, alpha) in enumerate(zip(*gates)):
        H, G = torch.zeros(2, 4, dtype=theta.dtype)
        m, f, beta = 1.0, 0.0, 1.0
        for t in range(4):
            H = eta[t] * H + theta[t] * torch.eye(4, dtype=theta.dtype)[t]
            G = (1 - alpha[t]) * G + H
            m = eta[t] * m
            f, beta = (1 - alpha[t]) * f + m, (1 - alpha[t]) * beta
            for found, expected in zip(products, (H, G, m, f, beta)):
                assert torch.allclose(found[row, t].squeeze(), expected, atol=1e-15)
        assert torch.equal(products.into_S[row], products.H[row, -1])
        assert torch.equal(products.into_W[row], products.G[row, -1])


def test_the_derivatives_of_the_products_are_those_of_finite_differences(gates):
    assert gradcheck(chunk_products, gates)
    assert gradgradcheck(chunk_products, gates)
    for name in Products._fields:  # and of each alone
        assert gradcheck(lambda *gates, name=name: getattr(chunk_products(*gates), name), gates)


@pytest.fixture
def reading():
    """With d_in, d_out and b all different: no transposition goes unnoticed."""
    torch.manual_seed(0)
    factors = numbers(D_OUT, D_IN), numbers(D_OUT, D_IN), numbers(B, D_IN), numbers(B, D_OUT)
    return numbers(B, D_IN), *factors, numbers(B, B), numbers(B, 1), numbers(B, 1)


def test_every_token_reads_its_own_weights(reading):
    X, W, S, a, delta, G, beta, f = reading
    y = read_layer(*reading)
    for row in range(ROWS):
        for t in range(B):
            W_t = beta[row, t] * W[row] + f[row, t] * S[row]
            for i in range(B):
                W_t = W_t + G[row, t, i] * torch.outer(delta[row, i], a[row, i])
            assert torch.allclose(y[row, t], W_t @ X[row, t], atol=1e-12)


def test_the_derivatives_of_reading_are_those_of_finite_differences(reading):
    assert gradcheck(read_layer, reading)
    assert gradgradcheck(read_layer, reading)


def writing(depth, chunks=CHUNKS, d_out=D_OUT):
    """Inputs of `write`, and that function itself, which returns all it leaves as a tuple."""
    torch.manual_seed(depth)
    widths = [D_IN, *[3] * (depth - 1), d_out]
    weights = [numbers(o, i) for i, o in pairwise(widths)]
    momenta = [numbers(o, i) for i, o in pairwise(widths)]
    n = chunks * ROWS
    inputs = [numbers(B, D_IN, rows=n), numbers(B, d_out, rows=n)]
    inputs += [numbers(B, B, rows=n), numbers(B, B, rows=n)]
    inputs += [numbers(B, 1, rows=n) for _ in range(3)]
    names = ("k", "v", "G", "H", "m", "f", "beta")

    def write(*tensors, **options):
        cut = SimpleNamespace(n=chunks, **dict(zip(names, tensors)))
        cut.into_W, cut.into_S = cut.G[:, -1], cut.H[:, -1]
        W, S = tensors[7 : 7 + depth], tensors[7 + depth : 7 + 2 * depth]
        start = W if len(tensors) == 7 + 2 * depth else tensors[7 + 2 * depth :]
        written = write_chunks(cut, list(W), list(S), list(start), **options)
        return tuple(x for kind in written for x in kind)

    return write, [*inputs, *weights, *momenta]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_is_written_is_a_sum_over_tokens(depth):
    write, inputs = writing(depth)
    k, v, G, H, m, f, beta = (x.view(CHUNKS, ROWS, B, -1) for x in inputs[:7])
    W, S = inputs[7 : 7 + depth], inputs[7 + depth :]
    outputs = write(*inputs)
    for c in range(CHUNKS):
        a, delta, _, _ = surprise_factors(W, k[c], v[c])
        mine = [x.view(CHUNKS, ROWS, *x.shape[1:])[c] for x in outputs[: 4 * depth]]
        for x, y in zip(mine, [*W, *S, *a, *delta], strict=True):
            torch.testing.assert_close(x, y)
        for layer in range(depth):
            W_after = beta[c, :, -1:] * W[layer] + f[c, :, -1:] * S[layer]
            S_after = m[c, :, -1:] * S[layer]
            for i in range(B):
                surprise = delta[layer][:, i, :, None] * a[layer][:, i, None, :]
                W_after = W_after + G[c, :, -1, i, None, None] * surprise
                S_after = S_after + H[c, :, -1, i, None, None] * surprise
            W = [*W[:layer], W_after, *W[layer + 1 :]]
            S = [*S[:layer], S_after, *S[layer + 1 :]]
    for x, y in zip(outputs[4 * depth :], [*W, *S], strict=True):
        torch.testing.assert_close(x, y)


def with_options(depth, residual_norm, clipping):
    """`writing`, clipped where half of the first chunk's tokens have too long a gradient."""
    write, inputs = writing(depth, chunks=2, d_out=D_IN)
    options = {"residual_norm": residual_norm}
    if clipping:
        first = (x[:ROWS] for x in inputs[:2])
        surprise = surprise_factors(inputs[7 : 7 + depth], *first, residual_norm)
        options["clip"] = surprise_norm(surprise).median().item() + 0.01
    return lambda *tensors: write(*tensors, **options), inputs


@pytest.mark.parametrize("clipping", [False, True])
@pytest.mark.parametrize("residual_norm", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_derivatives_of_writing_are_those_of_finite_differences(depth, residual_norm, clipping):
    assert gradcheck(*with_options(depth, residual_norm, clipping))


@pytest.mark.parametrize("clipping", [False, True])
@pytest.mark.parametrize("residual_norm", [False, True])
def test_and_so_are_their_derivatives(residual_norm, clipping):
    assert gradgradcheck(*with_options(2, residual_norm, clipping), fast_mode=True)


def test_a_chunk_begun_before_is_measured_where_it_began():
    write, inputs = writing(2, chunks=1)
    start = [numbers(*w.shape[1:]) for w in inputs[7:9]]
    _, _, _, _, _, _, *delta = write(*inputs, *start)[:8]
    for x, y in zip(delta, surprise_factors(start, *inputs[:2]).deltas, strict=True):
        torch.testing.assert_close(x, y)
    assert gradcheck(write, [*inputs, *start])


def test_inputs_are_left_as_they_were(reading):
    for function, inputs in ((read_layer, reading), writing(2)):
        before = [x.detach().clone() for x in inputs]
        outputs = function(*inputs)
        sum(y.sum() for y in outputs).backward()
        assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))


def test_without_a_gradient_the_numbers_are_the_same(reading):
    for function, inputs in ((read_layer, reading), writing(2)):
        with torch.no_grad():
            plain = function(*inputs)
        for x, y in zip(function(*inputs), plain, strict=True):
            assert torch.equal(x, y)
