"""The relatives' one rule: the loop against the formula by hand, the chunks against the loop."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from cases import EXACT, assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from minititans.relatives import Tokens, chunked, loop


def randn(*shape) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def rand(*shape) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def random_tokens(
    batch=2, heads=2, time=21, dim_key=5, dim_value=3, decay="head", asks=True, limits=False, seed=0
) -> Tokens:
    """Every tensor requires a gradient; `limits` makes many decays exactly 0 or 1."""
    torch.manual_seed(seed)
    shape = batch, heads, time
    decays = rand(*shape, dim_key) if decay == "vector" else rand(*shape)
    if limits:
        dice = torch.rand(decays.shape)
        decays = decays.masked_fill(dice < 0.2, 0.0).masked_fill(dice > 0.7, 1.0)
    tensors = {"q": randn(*shape, dim_key), "k": randn(*shape, dim_key), "decay": decays}
    tensors |= {"v": randn(*shape, dim_value), "skip": randn(*shape)}
    if asks:  # of norm 1 and opposite on the whole, as in the delta rule, so that S stays small
        b = F.normalize(randn(*shape, dim_key), dim=-1)
        a = -F.normalize(b + 0.3 * randn(*shape, dim_key), dim=-1)
        tensors |= {"a": a, "b": b}
    return Tokens(**{name: x.requires_grad_() for name, x in tensors.items()})


def values_and_gradients(
    y: Tensor, S: Tensor | None, leaves: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Results by name, and the gradients of a generic function of all of them."""
    named = {"y": y} if S is None else {"y": y, "S": S}
    total = 0.0
    for number, tensor in enumerate(named.values()):
        wave = torch.arange(tensor.numel(), dtype=tensor.dtype).add(number).sin()
        total = total + (tensor.flatten() * wave).sum()
    gradients = torch.autograd.grad(total, list(leaves.values()))
    return named | {
        f"gradient with respect to {n}": g for n, g in zip(leaves, gradients, strict=True)
    }


both_decays = pytest.mark.parametrize("decay", ["head", "vector"])
both_kinds = pytest.mark.parametrize("asks", [False, True])


def start(tokens: Tokens) -> Tensor:
    shape = *tokens.q.shape[:2], tokens.v.shape[-1], tokens.q.shape[-1]
    return randn(*shape).requires_grad_()


@both_decays
def test_the_loop_is_the_formula(decay):
    """With whole matrices: S (Diag(decay) + a bᵀ) + v kᵀ, then S q + skip v."""
    tokens = random_tokens(decay=decay, limits=True)
    S_start = start(tokens)
    y, S_end = loop(tokens, S_start)
    one = torch.eye(5, dtype=torch.float64)
    for row in range(2):
        for head in range(2):
            S = S_start[row, head]
            for t in range(21):
                now = tokens.map(lambda x, at=(row, head, t): x[at])
                S = S @ (one * now.decay + torch.outer(now.a, now.b)) + torch.outer(now.v, now.k)
                torch.testing.assert_close(y[row, head, t], S @ now.q + now.skip * now.v)
            torch.testing.assert_close(S_end[row, head], S)


@both_decays
@both_kinds
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("chunk_size", [1, 2, 3, 8, 16, 64])
def test_the_chunks_equal_the_loop(decay, asks, limits, chunk_size):
    """Values, final state, and gradients with respect to every input and the starting state."""
    tokens = random_tokens(time=37, decay=decay, asks=asks, limits=limits)
    S = start(tokens)
    leaves = tokens.present | {"state": S}
    expected = values_and_gradients(*loop(tokens, S), leaves)
    assert_same(values_and_gradients(*chunked(tokens, S, chunk_size), leaves), expected)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    time=st.integers(1, 40),
    dim_key=st.integers(1, 6),
    dim_value=st.integers(1, 6),
    decay=st.sampled_from(["head", "vector"]),
    asks=st.booleans(),
    limits=st.booleans(),
    chunk_size=st.integers(1, 50),
    seed=st.integers(0, 10**6),
)
def test_the_forms_agree_on_any_shape(chunk_size, **shape):
    tokens = random_tokens(**shape)
    expected = values_and_gradients(*loop(tokens), tokens.present)
    assert_same(values_and_gradients(*chunked(tokens, None, chunk_size), tokens.present), expected)


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 29), max_size=6),
    decay=st.sampled_from(["head", "vector"]),
    asks=st.booleans(),
    chunk_size=st.integers(1, 20),
)
def test_any_split_of_a_sequence_gives_the_same_reading(cuts, decay, asks, chunk_size):
    tokens = random_tokens(time=30, decay=decay, asks=asks, limits=True)
    expected = values_and_gradients(*loop(tokens), tokens.present)
    edges = [0, *sorted(set(cuts)), 30]
    for rule in (loop, lambda tokens, S: chunked(tokens, S, chunk_size)):
        S, parts = None, []
        for first, last in pairwise(edges):
            y, S = rule(tokens.map(lambda x, f=first, l=last: x[:, :, f:l]), S)
            parts.append(y)
        assert_same(values_and_gradients(torch.cat(parts, 2), S, tokens.present), expected)


@both_kinds
@both_decays
def test_a_decay_of_zero_clears_the_memory(decay, asks):
    tokens = random_tokens(decay=decay, asks=asks)
    with torch.no_grad():
        for x in (tokens.decay, tokens.v, *([tokens.a] if asks else [])):
            x[:, :, 4] = 0.0
    for y, _ in (loop(tokens), chunked(tokens, None, 8)):
        assert y[:, :, 4].eq(0).all()
        assert y[:, :, 3].ne(0).all()


@both_kinds
def test_tiny_decays_for_many_tokens_neither_underflow_nor_divide(asks):
    """Where quotients of cumulative products fail: 1e-30 to the power 64 is below any float."""
    tokens = random_tokens(time=64, decay="vector", asks=asks).map(lambda x: x.detach().float())
    mixed = torch.where(torch.rand(tokens.decay.shape) < 0.5, 1e-30, 0.999)
    tokens = Tokens(**(tokens.present | {"decay": mixed}))
    y, S = chunked(tokens, None, 64)
    exact, exact_S = loop(tokens.map(lambda x: x.double()))
    assert (y - exact).abs().max() < 1e-5 * exact.abs().max()
    assert (S - exact_S).abs().max() < 1e-5 * exact_S.abs().max()


@pytest.mark.parametrize("rule", [loop, chunked])
def test_a_head_decay_is_a_vector_decay_with_equal_entries(rule):
    tokens = random_tokens()
    spread = Tokens(**(tokens.present | {"decay": tokens.decay[..., None].expand(2, 2, 21, 5)}))
    torch.testing.assert_close(rule(tokens), rule(spread), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("rule", [loop, chunked])
def test_half_precision_inputs_are_read_in_float32(rule):
    tokens = random_tokens().map(lambda x: x.detach().float())
    exact, _ = rule(tokens)
    y, S = rule(tokens.map(lambda x: x.bfloat16()))
    assert y.dtype == torch.bfloat16 and S.dtype == torch.float32
    assert (y - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.parametrize("rule", [loop, chunked])
@pytest.mark.parametrize(
    "changed, message",
    [
        ({"k": rand(2, 2, 21, 4)}, r"tokens\.k: got 4 for the axis 'dim_key'.*expected 5"),
        ({"v": rand(2, 2, 20, 3)}, r"tokens\.v: got 20 for the axis 'time'.*expected 21"),
        ({"decay": rand(2, 2)}, r"tokens\.decay: got shape \[2, 2\], expected 3 axes"),
        ({"decay": rand(2, 2, 21, 4)}, r"tokens\.decay: got 4 for the axis 'dim_key'"),
        ({"skip": rand(2, 1, 21)}, r"tokens\.skip: got 1 for the axis 'heads'"),
        ({"q": torch.full((2, 2, 21, 5), torch.nan)}, r"tokens\.q: contains NaN"),
        ({"b": None}, r"tokens\.b: is None, expected both a and b"),
        ({"a": None}, r"tokens\.a: is None, expected both a and b"),
    ],
)
def test_bad_tokens_are_refused_by_name(rule, changed, message):
    with pytest.raises(ValueError, match=message):
        rule(Tokens(**(random_tokens().present | changed)))


@pytest.mark.parametrize("rule", [loop, chunked])
def test_a_bad_state_is_refused_by_name(rule):
    tokens = random_tokens()
    with pytest.raises(ValueError, match=r"state: got shape \[2, 2, 5, 5\], expected \[2, 2, 3, 5"):
        rule(tokens, randn(2, 2, 5, 5))
    with pytest.raises(TypeError, match="state: got int"):
        rule(tokens, 0)
    with pytest.raises(TypeError, match="tokens: got Tensor"):
        rule(tokens.q)


def test_a_bad_chunk_size_is_refused_by_name():
    with pytest.raises(ValueError, match="chunk_size: got 0"):
        chunked(random_tokens(), None, 0)
