"""Products of gates over a segment: exact where a gate is 0, in value and derivative."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from minititans.memory import Gates, segment_products

gate_values = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0, width=16))


@given(st.lists(gate_values, min_size=1, max_size=12))
def test_every_entry_is_the_product_of_the_gates_between(values):
    found = segment_products(torch.tensor(values, dtype=torch.float64))
    for t in range(len(values)):
        for i in range(len(values)):
            expected = math.prod(values[i + 1 : t + 1]) if i <= t else 0.0
            assert math.isclose(found[t, i].item(), expected, rel_tol=1e-12, abs_tol=1e-300)


def test_the_derivative_is_right_even_at_zero():
    gate = torch.tensor([[0.5, 0.0, 0.3, 0.0, 0.0, 1.0, 0.2]], dtype=torch.float64)
    gate.requires_grad_()
    assert torch.autograd.gradcheck(segment_products, gate)
    assert torch.autograd.gradgradcheck(segment_products, gate)


def test_long_segments_underflow_to_zero_and_never_to_nan():
    gate = torch.full((4, 512), 1e-3, requires_grad=True)
    products = segment_products(gate)
    products.sum().backward()
    assert products.isfinite().all() and gate.grad.isfinite().all()
    assert products[:, -1, 0].eq(0).all()


def test_constant_gates_have_the_shape_and_values_asked_for():
    gates = Gates.constant(0.1, 0.2, 0.3, (2, 3, 4), dtype=torch.float64)
    for gate, value in zip(vars(gates).values(), (0.1, 0.2, 0.3), strict=True):
        assert gate.shape == (2, 3, 4) and gate.dtype == torch.float64 and gate.eq(value).all()
