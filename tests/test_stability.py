"""Finite for any length: the bound on theta, and a million tokens chosen to do harm."""

import pytest
import torch
import torch.nn.functional as F

from minititans import NeuralMemory
from minititans.memory import Gates, MemoryState, chunked

SIZES, ETAS = (1, 16, 64), (0.0, 0.5, 0.9, 0.99)


def repeat_one_key(depth: int, chunk_size: int, theta: float, eta: float) -> float:
    """The memory's error on a key and value that came 4,096 times, nothing else ever."""
    torch.manual_seed(0)
    dim, time = 16, 4096
    weights = [torch.randn(1, dim, dim) / dim**0.5 for _ in range(depth)]
    k = F.normalize(torch.randn(1, 1, 1, dim), dim=-1).expand(1, 1, time, dim)
    v = F.normalize(torch.randn(1, 1, 1, dim), dim=-1).expand(1, 1, time, dim)
    gates = Gates.constant(theta, eta, alpha=0.0, shape=(1, 1, time))
    y, _ = chunked(k, k, v, gates, MemoryState.start(weights, 1), chunk_size)
    return (y - v)[:, :, -1].norm().item()


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("chunk_size", SIZES)
@pytest.mark.parametrize("eta", ETAS)
def test_a_repeated_key_is_learned_when_theta_is_at_most_one_minus_eta_over_the_chunk(
    depth, chunk_size, eta
):
    assert repeat_one_key(depth, chunk_size, (1 - eta) / chunk_size, eta) < 0.1  # from about 1.5


@pytest.mark.parametrize("depth", [1, 2])
def test_a_theta_bounded_by_the_chunk_alone_diverges_in_many_cases(depth):
    """Why `NeuralMemory` bounds theta by eta too: the bound without it is not safe."""
    errors = [repeat_one_key(depth, size, 1 / size, eta) for size in SIZES for eta in ETAS]
    harmed = [not error < 1.0 for error in errors]  # NaN counts
    assert sum(harmed) >= 3, errors


def test_the_layer_keeps_to_the_bound():
    memory = NeuralMemory(16, heads=2, chunk_size=8, theta_max=1.5)
    _, _, trace = memory(20 * torch.randn(2, 64, 16), trace=True)
    assert (8 * trace.theta <= 1.5 * (1 - trace.eta) + 1e-6).all()


def test_the_bound_and_the_clip_together_bound_the_momentum():
    """theta_max · clip / chunk_size, whatever comes: so weights grow at most linearly."""
    torch.manual_seed(0)
    for depth in (1, 3):
        memory = NeuralMemory(24, heads=6, depth=depth, chunk_size=8, theta_max=2.0, clip=0.5)
        pin_gates(memory)
        _, _, trace = memory(adversaries(400, 24, seed=0), trace=True)
        assert trace.momentum.max() <= 2.0 * 0.5 / 8 * 1.001
        assert trace.momentum.max() > 0.5 * 2.0 * 0.5 / 8, "the bound is nowhere near"


def adversaries(time: int, dim: int, seed: int) -> torch.Tensor:
    """One batch row for each way to do harm."""
    rng = torch.Generator().manual_seed(seed)
    one = torch.randn(1, dim, generator=rng).expand(time, dim)
    token = torch.arange(time)[:, None]
    return torch.stack(
        [
            one,  # one key repeated
            one * 1e6,  # and with a huge value
            one * 1e25,  # so huge that squares overflow
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
        for block in range(64):  # 64 · 15,625 = 1,000,000 tokens, and blocks end inside chunks
            y, state = memory(x, state)
            assert y.isfinite().all(), f"readings in block {block}"
    for layer in (*state.weights, *state.momentum):
        assert layer.isfinite().all()


@pytest.mark.parametrize("switches", [{"momentum": False}, {"forgetting": False}, {"conv": 0}])
@pytest.mark.parametrize("depth", [1, 4])
def test_every_switch_stays_finite_and_so_do_its_gradients(depth, switches):
    torch.manual_seed(0)
    memory = NeuralMemory(32, heads=8, depth=depth, chunk_size=1, **switches)
    x = adversaries(300, 32, seed=0)
    x = x.clamp(-1e6, 1e6).requires_grad_()
    y, _ = memory(x)
    F.normalize(y, dim=-1).sum().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in memory.parameters())
