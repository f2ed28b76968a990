"""Vectors of length 1: against torch's own, and finite differences."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

from minititans.memory.unit import EPS, unit


@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0, 1e10, 1e30])
def test_unit_and_its_derivative_are_torchs(size):
    torch.manual_seed(0)
    x = (size * torch.randn(2, 3, 5)).requires_grad_()
    by_y = torch.randn(2, 3, 5)
    expected, y = F.normalize(x, dim=-1, eps=EPS), unit(x)
    torch.testing.assert_close(y, expected)
    found, same = (torch.autograd.grad(z, x, by_y)[0] for z in (y, expected))
    torch.testing.assert_close(found, same)


@pytest.mark.parametrize("size", [1.0, 1e-8])
def test_its_derivatives_are_those_of_finite_differences(size):
    x = (size * torch.randn(2, 3, 5, dtype=torch.float64)).requires_grad_()
    small = {"eps": 1e-3 * size, "atol": 1e-3 / size}
    assert gradcheck(unit, x, **small)
    assert gradgradcheck(unit, x, **small)
