"""Attention against its definition, written with loops over queries and keys."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from minititans.attention import (
    SegmentAttention,
    WindowAttention,
    rotate,
    segment_mask,
    watch_attention,
    window_attention,
    window_mask,
)
from minititans.config import TitansConfig
from minititans.model import TitansLM
from minititans.relatives import RELATIVES


def by_definition(q, k, v, may_see, scale):
    """(2), one query and one key at a time: q, k, v `[time, dim]`."""
    rows = []
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if may_see(i, j)]
        scores = torch.stack([(q[i] @ k[j]) * scale for j in seen])
        weights = (scores - scores.max()).exp()
        rows.append(sum(w * v[j] for w, j in zip(weights, seen, strict=True)) / weights.sum())
    return torch.stack(rows)


@settings(max_examples=60, deadline=None)
@given(
    queries=st.integers(1, 30),
    past=st.integers(0, 40),
    window=st.one_of(st.none(), st.integers(1, 12)),
    prefix=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
def test_blocks_and_masks_are_attention_by_definition(queries, past, window, prefix, seed):
    torch.manual_seed(seed)
    if window is not None:
        past = min(past, window - 1)
    dim, keys = 4, past + queries
    q = torch.randn(1, 1, queries, dim, dtype=torch.float64)
    k, v = torch.randn(2, 1, 1, keys, dim, dtype=torch.float64)
    extra = torch.randn(2, 1, 1, prefix, dim, dtype=torch.float64) if prefix else (None, None)
    found = window_attention(q, k, v, window, *extra)

    def may_see(i, j):
        if j < prefix:
            return True
        distance = (i + past) - (j - prefix)
        return distance >= 0 and (window is None or distance < window)

    all_k = torch.cat([extra[0], k], 2)[0, 0] if prefix else k[0, 0]
    all_v = torch.cat([extra[1], v], 2)[0, 0] if prefix else v[0, 0]
    expected = by_definition(q[0, 0], all_k, all_v, may_see, 1 / math.sqrt(dim))
    torch.testing.assert_close(found[0, 0], expected)


def test_masks_say_who_sees_whom():
    for i in range(6):
        for j in range(6):
            assert window_mask(6, 6, 3)[i, j] == (0 <= i - j < 3)
    mask, literal = segment_mask(4, 4, 2), segment_mask(4, 4, 2, literal=True)
    for i in range(4):
        assert mask[i, :2].all()
        for j in range(4):
            assert mask[i, 2 + j] == (j <= i) and mask[i, 6 + j] == (j <= i)
            assert literal[i, 2 + j] and literal[i, 6 + j] == (j <= i)


def test_rotated_products_depend_on_distance_alone():
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)
    products = [
        (rotate(q, torch.tensor([a])) * rotate(k, torch.tensor([a - 5]))).sum() for a in (5, 6, 1e6)
    ]
    torch.testing.assert_close(products[0], products[1])
    torch.testing.assert_close(products[0], products[2], rtol=1e-7, atol=1e-7)
    other = (rotate(q, torch.tensor([5])) * rotate(k, torch.tensor([1]))).sum()
    assert abs(other - products[0]) > 1e-6


def layers_with_positions():
    """Every layer that rotates, by its name."""
    return {
        "window": WindowAttention(8, 2, 5),
        "segment": SegmentAttention(8, 2, segment=12),
        "retnet": RELATIVES["retnet"](8, heads=2, chunk_size=4),
    }


class NoFloat64(TorchDispatchMode):
    """Makes the meta device one without float64, like MPS."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, torch.Tensor) and each.device.type == "meta":
                assert each.dtype != torch.float64, f"{func} makes float64 on this device"
        return result


@pytest.mark.parametrize("name", layers_with_positions())
def test_a_device_without_float64_can_rotate(name):
    layer, x = layers_with_positions()[name].to("meta"), torch.randn(2, 10, 8, device="meta")
    inputs = (x[0, :3], x, x) if name == "segment" else (x,)
    with NoFloat64():
        assert layer(*inputs)[0].device.type == "meta"


@pytest.mark.parametrize("name", layers_with_positions())
def test_a_compiled_layer_rotates_as_the_plain_one_does(name):
    layer, x = layers_with_positions()[name], torch.randn(2, 10, 8)
    inputs = (x[0, :3], x, x) if name == "segment" else (x,)
    compiled = torch.compile(layer, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs)[0], layer(*inputs)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_angles_of_token_two_million_are_right(dtype):
    """Against Python's numbers; in float32, an angle there can be off by 0.06."""
    dim, place = 8, 2_000_001
    x = torch.zeros(1, dim, dtype=dtype)
    x[0, : dim // 2] = 1.0
    found = rotate(x, torch.tensor([place]))[0]
    angles = [place * 10_000.0 ** (-2 * j / dim) for j in range(dim // 2)]
    expected = torch.tensor([*map(math.cos, angles), *map(math.sin, angles)], dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, atol=torch.finfo(dtype).eps, rtol=0)


@pytest.mark.parametrize("window", [None, 1, 5])
@pytest.mark.parametrize("prefixed", [False, True])
def test_any_split_gives_the_same_attention(window, prefixed):
    torch.manual_seed(0)
    attention = WindowAttention(8, 2, window).double()
    prefix = torch.randn(3, 8, dtype=torch.float64) if prefixed else None
    x = torch.randn(2, 23, 8, dtype=torch.float64)
    expected, _ = attention(x, prefix=prefix)
    for cuts in ([1, 2, 3], [7], [11, 12, 22], list(range(1, 23))):
        state, parts = None, []
        for part in torch.tensor_split(x, cuts, dim=1):
            y, state = attention(part, state, prefix)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), expected)
    assert state.position == 23
    assert state.keys.shape[2] == (23 if window is None else window - 1)


def test_the_prefix_is_seen_alike_at_every_position():
    """Far out, where nothing else is in the window, the prefix's share does not depend on where."""
    torch.manual_seed(0)
    attention = WindowAttention(8, 2, window=1).double()
    prefix = torch.randn(3, 8, dtype=torch.float64)
    x = torch.randn(1, 1, 8, dtype=torch.float64).expand(1, 5000, 8)
    y, _ = attention(x, prefix=prefix)
    torch.testing.assert_close(y[:, 0], y[:, -1])
    assert (y - attention(x)[0]).abs().max() > 1e-3


def test_memory_of_a_long_window_pass_is_linear_in_length():
    """The largest tensor inside, for twice the length, is twice as large."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                self.size = max(self.size, result.numel())
            return result

    attention = WindowAttention(8, 2, window=16)
    sizes = []
    for time in (1024, 2048):
        with torch.no_grad(), Largest() as largest:
            attention(torch.randn(1, time, 8))
        sizes.append(largest.size)
    assert sizes[1] <= 2.1 * sizes[0], sizes


def test_a_segment_in_parts_is_the_segment():
    torch.manual_seed(0)
    attention = SegmentAttention(8, 2, segment=6).double()
    p = torch.randn(2, 8, dtype=torch.float64)
    h, x = torch.randn(2, 1, 6, 8, dtype=torch.float64)
    expected, _ = attention(p, h, x)
    state, parts = None, []
    for first, last in ((0, 2), (2, 3), (3, 6)):
        y, state = attention(p, h[:, first:last], x[:, first:last], state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), expected)


def test_segment_attention_is_attention_by_definition():
    torch.manual_seed(0)
    attention = SegmentAttention(4, 1, segment=5).double()
    p = torch.randn(2, 4, dtype=torch.float64)
    h, x = torch.randn(2, 1, 5, 4, dtype=torch.float64)
    y, _ = attention(p, h, x)
    q, k, v = (
        torch.cat([part @ w.T for part in (p, h[0], x[0])])
        for w in attention.to_qkv.weight.chunk(3)
    )
    positions = torch.arange(12)
    q, k = rotate(q, positions)[7:], rotate(k, positions)

    def may_see(i, j):
        return j < 2 or (j - 2 <= i if j < 7 else j - 7 <= i)

    expected = by_definition(q, k, v, may_see, 0.5) @ attention.to_out.weight.T
    torch.testing.assert_close(y[0], expected)


def test_odd_head_sizes_are_refused():
    with pytest.raises(ValueError, match="dim: got 6, expected heads"):
        WindowAttention(6, 2, 4)


@pytest.mark.parametrize("window", [None, 1, 4, 50])
@pytest.mark.parametrize("prefixed", [False, True])
def test_the_weights_times_the_values_are_the_output(window, prefixed):
    """In two calls, so that some keys come from the state; 4 is short enough for blocks."""
    torch.manual_seed(0)
    attention = WindowAttention(8, 2, window).double()
    p = torch.randn(3, 8, dtype=torch.float64) if prefixed else None
    x = torch.randn(2, 23, 8, dtype=torch.float64)
    _, state = attention(x[:, :9], prefix=p)
    y, after = attention(x[:, 9:], state, p)
    again, after_again, weights = attention(x[:, 9:], state, p, weights=True)
    assert torch.equal(again, y) and torch.equal(after_again.keys, after.keys)

    seen = x[:, 9 - state.tokens :]
    seen = torch.cat([p.expand(2, -1, -1), seen], 1) if prefixed else seen
    assert weights.shape == (2, 2, 14, seen.shape[1])
    torch.testing.assert_close(attention.join(weights @ attention.split(seen)[2]), y)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    mask = window_mask(14, 14 + state.tokens, window, 3 if prefixed else 0)
    assert torch.equal((weights > 0).all(0).all(0), mask)


@pytest.mark.parametrize("literal", [False, True])
def test_the_weights_of_a_segment_times_its_values_are_the_output(literal):
    torch.manual_seed(0)
    attention = SegmentAttention(8, 2, segment=6, literal=literal).double()
    p = torch.randn(2, 8, dtype=torch.float64)
    h, x = torch.randn(2, 1, 6, 8, dtype=torch.float64)
    y, _, weights = attention(p, h, x, weights=True)
    values = attention.split(torch.cat([p[None], h, x], 1))[2]
    torch.testing.assert_close(attention.join(weights @ values), y)
    assert torch.equal((weights > 0).all(0).all(0), segment_mask(6, 6, 2, literal))
    assert torch.equal(attention(p, h, x)[0], y)


def test_watching_a_model_collects_each_layers_weights_and_changes_nothing():
    torch.manual_seed(0)
    tokens = torch.randint(50, (2, 10))
    for variant, calls, shape in (("mag", 1, (2, 4, 10, 14)), ("mac", 3, (2, 4, 4, 12))):
        model = TitansLM(TitansConfig(variant, vocab_size=50, window=4, segment=4))
        expected, _ = model(tokens)
        with watch_attention(model) as seen:
            assert torch.equal(model(tokens)[0], expected)
        assert list(seen) == ["blocks.0.mixer.attention", "blocks.1.mixer.attention"]
        for weights in seen.values():
            assert len(weights) == calls and weights[0].shape == shape
            torch.testing.assert_close(weights[0].sum(-1), torch.ones(shape[:-1]))
        model(tokens)  # after the `with` nobody looks
        assert len(seen["blocks.0.mixer.attention"]) == calls
