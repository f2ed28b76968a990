"""The parts of the fast form: against their formulas token by token, and finite differences."""

import pytest
import torch
from cases import random_case
from torch.autograd import gradcheck, gradgradcheck

from minititans.memory import chunked, fast
from minititans.memory.chunked import read
from minititans.memory.fast import gates as by_hand
from minititans.memory.fast.recall import inverse
from minititans.memory.gates import Products, chunk_products

ROWS, B, D_IN, D_OUT = 2, 3, 4, 5


def numbers(*shape):
    return torch.randn(ROWS, *shape, dtype=torch.float64).requires_grad_()


@pytest.fixture
def gates():
    """theta, eta and alpha of four tokens; some are at their limits."""
    torch.manual_seed(0)
    theta, eta, alpha = torch.rand(3, ROWS, 4, dtype=torch.float64)
    theta[0, 1], eta[0, 2], eta[1, 0], alpha[1, 2], alpha[1, 3] = 0, 0, 1, 1, 0
    return [gate.requires_grad_() for gate in (theta, eta, alpha)]


def test_the_products_of_gates_are_recurrences_over_the_tokens(gates):
    plain, fast_ones = chunk_products(*gates), by_hand.chunk_products(*gates)
    for row, (theta, eta, alpha) in enumerate(zip(*gates)):
        H, G = torch.zeros(2, 4, dtype=theta.dtype)
        m, f, beta = 1.0, 0.0, 1.0
        for t in range(4):
            H = eta[t] * H + theta[t] * torch.eye(4, dtype=theta.dtype)[t]
            G = (1 - alpha[t]) * G + H
            m = eta[t] * m
            f, beta = (1 - alpha[t]) * f + m, (1 - alpha[t]) * beta
            for found, expected in zip(plain, (H, G, m, f, beta)):
                assert torch.allclose(found[row, t].squeeze(), expected, atol=1e-15)
    for found, expected in zip(fast_ones, plain):  # of H and m only the last rows
        assert torch.allclose(found, expected[:, -found.shape[1] :], atol=1e-15)


def test_the_derivatives_of_the_products_are_those_of_finite_differences(gates):
    assert gradcheck(by_hand.chunk_products, gates)
    assert gradgradcheck(by_hand.chunk_products, gates)
    for number in range(5):  # and of each alone
        assert gradcheck(lambda *gates, i=number: by_hand.chunk_products(*gates)[i], gates)


def test_every_token_reads_its_own_weights():
    """With d_in, d_out and b all different: no transposition goes unnoticed."""
    torch.manual_seed(0)
    X, W, S = numbers(B, D_IN), numbers(D_OUT, D_IN), numbers(D_OUT, D_IN)
    A, E = numbers(B, D_IN), numbers(B, D_OUT)
    G, f, beta = numbers(B, B), numbers(B, 1), numbers(B, 1)
    y = read(X, Products(None, G, None, f, beta), [W], [S], [A], [E], residual=True)
    for row in range(ROWS):
        for t in range(B):
            W_t = beta[row, t] * W[row] + f[row, t] * S[row]
            for i in range(B):
                W_t = W_t + G[row, t, i] * torch.outer(E[row, i], A[row, i])
            assert torch.allclose(y[row, t], W_t @ X[row, t], atol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 16, 33, 64])
def test_the_inverse_is_one(size):
    torch.manual_seed(size)
    L = torch.randn(3, size, size, dtype=torch.float64).tril(-1) / size**0.5
    one = torch.eye(size, dtype=torch.float64).expand(3, size, size)
    torch.testing.assert_close(inverse(L) @ (one + L), one)


def test_one_key_repeated_is_solved_in_float32():
    """The system's condition is at its worst here: every error is a sum of all before it."""
    L = torch.ones(1, 256, 256, dtype=torch.float64).tril(-1)
    right = torch.randn(1, 256, 3, dtype=torch.float64)
    expected = torch.linalg.solve_triangular(L, right, upper=False, unitriangular=True)
    found = inverse(L.float()) @ right.float()
    assert (found - expected).abs().max() < 1e-4


@pytest.mark.parametrize("rule", [chunked, fast])
def test_inputs_are_left_as_they_were_and_no_gradient_changes_no_number(rule):
    case = random_case(time=11)
    before = [x.detach().clone() for x in case.leaves.values()]
    y, _ = case.run(rule, 4)
    y.sum().backward()
    assert all(torch.equal(x, z) for x, z in zip(case.leaves.values(), before, strict=True))
    with torch.no_grad():
        assert torch.equal(case.run(rule, 4)[0], y)
