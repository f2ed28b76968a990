"""A layer of a chunk, read and written: against the formula token by token, and autograd."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from minititans.memory.chunk_layer import read_layer, write_layer

ROWS, B, D_IN, D_OUT = 2, 3, 4, 5


def numbers(*shape):
    return torch.randn(ROWS, *shape, dtype=torch.float64).requires_grad_()


@pytest.fixture
def factors():
    """W₀, S₀, a and δ, with d_in, d_out and b all different: no transposition goes unnoticed."""
    torch.manual_seed(0)
    return numbers(D_OUT, D_IN), numbers(D_OUT, D_IN), numbers(B, D_IN), numbers(B, D_OUT)


@pytest.fixture
def reading(factors):
    return numbers(B, D_IN), *factors, numbers(B, B), numbers(B, 1), numbers(B, 1)


@pytest.fixture
def writing(factors):
    return *factors, numbers(B, 1), numbers(B, 1), numbers(1, 1), numbers(1, 1), numbers(1, 1)


def test_every_token_reads_its_own_weights(reading):
    X, W, S, a, delta, G, beta, f = reading
    y = read_layer(*reading)
    for row in range(ROWS):
        for t in range(B):
            W_t = beta[row, t] * W[row] + f[row, t] * S[row]
            for i in range(B):
                W_t = W_t + G[row, t, i] * torch.outer(delta[row, i], a[row, i])
            assert torch.allclose(y[row, t], W_t @ X[row, t], atol=1e-12)


def test_what_is_written_is_a_sum_over_tokens(writing):
    W, S, a, delta, into_W, into_S, m, f, beta = writing
    W_after, S_after = write_layer(*writing)
    for row in range(ROWS):
        by_W, by_S = beta[row] * W[row] + f[row] * S[row], m[row] * S[row]
        for i in range(B):
            surprise = torch.outer(delta[row, i], a[row, i])
            by_W, by_S = by_W + into_W[row, i] * surprise, by_S + into_S[row, i] * surprise
        assert torch.allclose(W_after[row], by_W, atol=1e-12)
        assert torch.allclose(S_after[row], by_S, atol=1e-12)


def test_the_derivatives_are_those_of_finite_differences(reading, writing):
    assert gradcheck(read_layer, reading)
    assert gradcheck(write_layer, writing)


def test_and_so_are_their_derivatives(reading, writing):
    assert gradgradcheck(read_layer, reading)
    assert gradgradcheck(write_layer, writing)


def test_inputs_are_left_as_they_were(reading, writing):
    for function, inputs in ((read_layer, reading), (write_layer, writing)):
        before = [x.detach().clone() for x in inputs]
        outputs = function(*inputs)
        sum(y.sum() for y in outputs).backward()
        assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))
