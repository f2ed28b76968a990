"""Each variant against its equations, put together from parts that other tests vouch for."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from minititans.attention import window_attention
from minititans.memory import NeuralMemory
from minititans.variants import LMM, MAC, MAG, MAL, PrefixedAttention
from minititans.variants.combine import Combine


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def memory(**changes):
    return NeuralMemory(8, **({"heads": 2, "chunk_size": 3} | changes))


EPS = torch.finfo(torch.float64).eps


def rms(x, norm, eps=EPS):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight


def combine(y, m, module):
    return 2 / (1 + torch.exp(-rms(y, module.norm_y))) * rms(m, module.norm_m, eps=1.0)


@pytest.mark.parametrize("time", [4, 5, 13])
def test_mac_is_its_equations(time):
    torch.manual_seed(0)
    mac = MAC(8, 2, memory(), segment=5, persistent=2).double()
    x = randn(2, time, 8)
    found, _ = mac(x)

    M, outputs = mac.memory.start(2), []
    for S in x.split(5, 1):
        q = F.normalize(F.silu(S @ mac.memory.to_qkv.weight[:8].T).unflatten(-1, (2, 4)), dim=-1)
        h = torch.einsum("bhoi,bthi->btho", M.weights[0], q)
        h = F.normalize(q + F.silu(h), dim=-1)
        h = torch.einsum("bhoi,bthi->btho", M.weights[1], h)
        h = rms(h, mac.memory.out_norm).flatten(2) * F.silu(S @ mac.memory.out_gate.weight.T)
        h = h @ mac.memory.to_out.weight.T  # (21)
        y = S + mac.attention(mac.persistent.tokens, h, S)[0]  # (22), (23), residual
        answers = []
        for t in range(S.shape[1]):
            m, M = mac.memory(y[:, t : t + 1], M)  # (24), and each token reads its own M
            answers.append(m)
        outputs.append(combine(y, torch.cat(answers, 1), mac.combine))  # (25)
    torch.testing.assert_close(found, torch.cat(outputs, 1))


def test_attention_in_mac_starts_at_a_tenth_of_its_usual_size():
    """`nn.Linear` starts uniform between ±1 / √dim, and so does attention everywhere else."""
    torch.manual_seed(0)
    mac, mag = (make(64, 2, NeuralMemory(64)) for make in (MAC, partial(MAG, window=4)))
    for layer, size in ((mac, 0.1), (mag, 1.0)):
        largest = layer.attention.to_out.weight.abs().max().item()
        assert largest == pytest.approx(size / 64**0.5, rel=0.01)


def test_the_combination_starts_with_a_gate_near_1():
    """Of vectors of ones, whose normal form is known: `2 σ(±0.1) m / √(1 + 1)`."""
    y = torch.tensor([1.0, -1.0, 1.0, -1.0]).double()
    m = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    gate = 2 / (1 + torch.exp(-0.1 * y))  # 1.05 or 0.95
    torch.testing.assert_close(Combine(4).double()(y, m), gate * m / 2**0.5)


def test_mag_is_its_equations():
    torch.manual_seed(0)
    mag = MAG(8, 2, memory(), window=4, persistent=3).double()
    x = randn(2, 11, 8)
    with_p = torch.cat([mag.persistent.tokens.expand(2, -1, -1), x], 1)  # (26)
    y, _ = mag.attention(x, prefix=mag.persistent.tokens)  # (27)
    m, _ = mag.memory(with_p)  # M(x̃)
    torch.testing.assert_close(mag(x)[0], combine(y, m[:, 3:], mag.combine))  # (28)


def test_mal_is_its_equations():
    torch.manual_seed(0)
    mal = MAL(8, 2, memory(), window=4, persistent=3).double()
    x = randn(2, 11, 8)
    with_p = torch.cat([mal.persistent.tokens.expand(2, -1, -1), x], 1)  # (29)
    y, _ = mal.memory(with_p)  # (30)
    o, _ = mal.attention(rms(with_p + y, mal.norm))  # (31), with the residual around the memory
    torch.testing.assert_close(mal(x)[0], (y + o)[:, 3:])


def test_lmm_is_the_memory_after_the_persistent_tokens():
    torch.manual_seed(0)
    lmm = LMM(8, memory(), persistent=3).double()
    x = randn(2, 11, 8)
    with_p = torch.cat([lmm.persistent.tokens.expand(2, -1, -1), x], 1)
    torch.testing.assert_close(lmm(x)[0], lmm.memory(with_p)[0][:, 3:])


def test_attention_to_a_prefix_alone_is_a_feed_forward_layer():
    """(20): where a token's own key scores nothing, attention is W_V softmax(W_K x)."""
    torch.manual_seed(0)
    x, W_K, W_V = randn(5, 4), randn(6, 4), randn(6, 4)  # six learned keys and values
    q, own_key, own_value = x[None, None] * 2, x[None, None] * -1e6, randn(1, 1, 5, 4)
    found = window_attention(q, own_key, own_value, 1, W_K[None, None], W_V[None, None])
    torch.testing.assert_close(found[0, 0], (x @ W_K.T).softmax(-1) @ W_V)


@pytest.mark.parametrize("window", [None, 4])
def test_attention_with_persistent_tokens_is_attention_with_a_prefix(window):
    torch.manual_seed(0)
    layer, x = PrefixedAttention(8, 2, window, persistent=3).double(), randn(2, 11, 8)
    expected, _ = layer.attention(x, prefix=layer.persistent.tokens)
    first, state = layer(x[:, :5])
    second, _ = layer(x[:, 5:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), expected)
    assert (expected - layer.attention(x)[0]).abs().max() > 1e-3
    without = PrefixedAttention(8, 2, window, persistent=0).double()
    torch.testing.assert_close(without(x)[0], without.attention(x)[0])
