"""The memory network and its surprise, against autograd."""

from itertools import pairwise

import pytest
import torch
from torch.func import grad, vmap

from minititans.memory.network import loss, read, surprise_energy, surprise_factors


def make(depth, rows=3, time=7, dim=4, width=6, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    widths = [dim] + [width] * (depth - 1) + [dim]
    weights = [torch.randn(rows, o, i, dtype=dtype) for i, o in pairwise(widths)]
    keys, values = torch.randn(2, rows, time, dim, dtype=dtype)
    return weights, keys, values


def by_autograd(weights, keys, values, residual_norm=False):
    """Every token's gradient, one `[rows, time, d_out, d_in]` a layer."""
    one = lambda w, k, v: grad(loss)(w, k, v, residual_norm)  # noqa: E731
    return vmap(vmap(one, in_dims=(None, 0, 0)))(weights, keys, values)


@pytest.mark.parametrize("residual_norm", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_the_factors_multiply_to_minus_autograds_gradient(depth, residual_norm):
    weights, keys, values = make(depth)
    a, delta, error, _ = surprise_factors(weights, keys, values, residual_norm)
    expected = by_autograd(weights, keys, values, residual_norm)
    for layer in range(depth):
        product = torch.einsum("rto,rti->rtoi", delta[layer], a[layer])
        torch.testing.assert_close(-product, expected[layer], rtol=1e-10, atol=1e-10)
    answer = read([w[:, None] for w in weights], keys[:, :, None], residual_norm)[:, :, 0]
    torch.testing.assert_close(error, values - answer)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_clipping_shortens_a_long_gradient_and_leaves_a_short_one(depth):
    weights, keys, values = make(depth)
    gradients = by_autograd(weights, keys, values)
    norms = sum(g.square().sum((-2, -1)) for g in gradients).sqrt()
    clip = norms.median().item()
    a, delta, _, clipping = surprise_factors(weights, keys, values, clip=clip)
    torch.testing.assert_close(clipping.norm.squeeze(-1), norms)
    torch.testing.assert_close(surprise_energy(a, delta).sqrt(), norms.clamp(max=clip))
    shrink = (clip / norms).clamp(max=1)
    for layer in range(depth):
        product = torch.einsum("rto,rti->rtoi", delta[layer], a[layer])
        torch.testing.assert_close(-product, shrink[..., None, None] * gradients[layer])


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e10, 1e30])
def test_a_clipped_surprise_and_its_derivative_are_finite_for_any_value_and_for_a_zero_key(
    depth, size
):
    weights, keys, values = make(depth, dtype=torch.float32)
    keys = keys.clone()
    keys[:, 0] = 0
    leaves = [*weights, keys, values * size]
    for leaf in leaves:
        leaf.requires_grad_()
    a, delta, _, _ = surprise_factors(leaves[:-2], *leaves[-2:], clip=1.0)
    assert surprise_energy(a, delta).max() <= 1.0001
    total = sum(d.sin().sum() for d in delta) + sum(x.sum() for x in a)
    for gradient in torch.autograd.grad(total, leaves):
        assert gradient.isfinite().all()
