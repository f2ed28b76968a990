"""Finite and alive for any length: one key repeated, cycles of gates, a million hostile tokens."""

import os

import pytest
import torch
import torch.nn.functional as F

from minititans import NeuralMemory
from minititans.experiments.growth import largest_growth
from minititans.memory import Gates, MemoryState, chunked

SIZES, ETAS = (1, 16, 64), (0.0, 0.35, 0.7)
# Of 15,625 hostile tokens for each of six texts: 11 are a million in total, 64 a million per text.
BLOCKS = int(os.environ.get("MINITITANS_BLOCKS", 11))


def repeat_one_key(depth: int, chunk_size: int, gates: Gates, exact: bool = True) -> float:
    """The memory's error on a key and value that came 4,096 times, nothing else ever."""
    torch.manual_seed(0)
    dim, time = 16, gates.theta.shape[-1]
    weights = [torch.randn(1, dim, dim) / dim**0.5 for _ in range(depth)]
    k = F.normalize(torch.randn(1, 1, 1, dim), dim=-1).expand(1, 1, time, dim)
    v = F.normalize(torch.randn(1, 1, 1, dim), dim=-1).expand(1, 1, time, dim)
    y, _ = chunked(k, k, v, gates, MemoryState.start(weights, 1), chunk_size, exact=exact)
    return (y - v)[:, :, -1].norm().item()


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("chunk_size", SIZES)
@pytest.mark.parametrize("eta", ETAS)
def test_a_repeated_key_is_learned_when_its_surprise_is_written_in_shares(depth, chunk_size, eta):
    gates = Gates.constant(1.0, eta, 0.0, (1, 1, 4096)).in_shares()
    assert repeat_one_key(depth, chunk_size, gates) < 0.01  # from about 1.5


def test_a_whole_chunk_of_full_steps_at_frozen_weights_blows_up():
    """Why `NeuralMemory` divides theta by the chunk size where the rule is not exact."""
    gates = Gates.constant(1.0, 0.0, 0.0, (1, 1, 4096))
    assert not repeat_one_key(1, 16, gates, exact=False) < 1.0  # NaN counts
    assert repeat_one_key(1, 16, gates) < 0.01


def test_shares_of_a_surprise_add_up_to_one_when_eta_is_steady_and_to_less_than_two_always():
    torch.manual_seed(0)
    steady, wild = torch.full((1, 1, 200), 0.7), 0.7 * torch.rand(1, 1, 200).round()
    for eta, most in ((steady, 1.0), (wild, 2.0)):
        gates = Gates(torch.ones_like(eta), eta, torch.zeros_like(eta)).in_shares()
        written = torch.zeros(200)
        for i in range(100):  # S carries surprise i on from token i
            share = gates.theta[0, 0, i]
            for t in range(i, 200):
                share = share if t == i else share * gates.eta[0, 0, t]
                written[i] += share
        assert written[:100].max() <= most + 1e-5
        if eta is steady:
            torch.testing.assert_close(written[:100], torch.ones(100))


def test_what_a_token_writes_into_an_empty_memory_is_read_back_as_its_value_times_1_minus_alpha():
    k, v = F.normalize(torch.randn(1, 1, 1, 4), dim=-1), torch.randn(1, 1, 1, 4)
    for alpha in (0.0, 0.25, 1.0):
        gates = Gates.constant(1.0, 0.0, alpha, (1, 1, 1)).in_shares()
        y, _ = chunked(k, k, v, gates, MemoryState.start([torch.zeros(1, 4, 4)], 1))
        torch.testing.assert_close(y, (1 - alpha) * v)


def test_no_cycle_of_gates_and_keys_is_found_that_makes_a_memory_grow():
    assert largest_growth("shares", eta_max=0.7, tries=300, seed=0) < 1.001
    assert largest_growth("intake", eta_max=0.9, tries=300, seed=0) > 1.05  # the search can find


def adversaries(time: int, dim: int, seed: int) -> torch.Tensor:
    """One batch row for each way to do harm."""
    rng = torch.Generator().manual_seed(seed)
    one = torch.randn(1, dim, generator=rng).expand(time, dim)
    token = torch.arange(time)[:, None]
    return torch.stack(
        [
            one,  # one key repeated
            one * 1e6,  # and with a huge value
            one * 1e15,  # so huge that squares nearly overflow
            torch.where(token % 1000 == 999, 1e8, 0.0).expand(time, dim),  # zeros, then a shock
            one * torch.where(token % 2 == 0, 1e3, -1e3),  # turning its sign at every token
            torch.randn(time, dim, generator=rng) * torch.logspace(-12, 12, time)[:, None],
        ]
    )


def pin_gates(memory: NeuralMemory) -> None:
    """Heads 0 to 3: theta full, eta and alpha at all their corners; head 4: theta 0; 5 is free."""
    corners = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 0, 1, 1], [0, 0, 1, 1, 0]])
    with torch.no_grad():
        memory.to_gates.weight.view(3, 6, -1)[:, :5] = 0
        memory.to_gates.bias.view(3, 6)[:, :5] = 200.0 * corners - 100.0


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_million_hostile_tokens_leave_a_fresh_memory_finite(depth):
    torch.manual_seed(depth)
    memory = NeuralMemory(24, heads=6, depth=depth, chunk_size=64)
    pin_gates(memory)
    x, state = adversaries(15_625, 24, seed=depth), None
    with torch.no_grad():
        for block in range(BLOCKS):  # blocks end inside chunks
            y, state = memory(x, state)
            assert y.isfinite().all(), f"readings in block {block}"
    for layer in (*state.weights, *state.momentum):
        assert layer.abs().max() < 1000  # finite, and not on its way to infinity


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_gates_that_jump_between_their_limits_leave_small_weights_for_small_values(depth):
    """A million tokens: eta at 0 and 0.7, theta at 0 and 1, keys that come again and again."""
    torch.manual_seed(depth)
    batch, heads, time, dim = 2, 8, 15_625, 8
    state = MemoryState.start([torch.zeros(heads, dim, dim)] * depth, batch)
    for _ in range(4):
        keys = F.normalize(torch.randn(batch, heads, 3, dim), dim=-1)
        runs = torch.randint(3, (batch, heads, time // 25)).repeat_interleave(25, -1)
        k = keys.gather(2, runs[..., None].expand(-1, -1, -1, dim))
        v = F.normalize(torch.randn(batch, heads, time, dim), dim=-1)
        theta, eta = torch.rand(2, batch, heads, time).round()
        gates = Gates(theta, 0.7 * eta, torch.zeros_like(eta)).in_shares()
        with torch.no_grad():
            _, state = chunked(k, k, v, gates, state, 25)
    assert max(w.abs().max() for w in state.weights) < 1000


@pytest.mark.parametrize("switches", [{"momentum": False}, {"forgetting": False}, {"conv": 0}])
@pytest.mark.parametrize("depth", [1, 4])
def test_every_switch_stays_finite_and_so_do_its_gradients(depth, switches):
    torch.manual_seed(0)
    memory = NeuralMemory(32, heads=8, depth=depth, chunk_size=16, **switches)
    x = adversaries(300, 32, seed=0)
    x = x.clamp(-1e6, 1e6).requires_grad_()
    y, _ = memory(x)
    y.tanh().sum().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in memory.parameters())
