"""The trace: the chunked form's cheap norms against norms of weights that are really there."""

import pytest
import torch
from cases import random_case

from minititans.memory import NeuralMemory, Trace, chunked, scan, sequential


@pytest.mark.parametrize("rule", [chunked, scan])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("chunk_size", [1, 4, 32])
def test_every_form_tells_the_same_story(rule, exact, residual, depth, chunk_size):
    rule = chunked if exact else rule
    options = {"exact": exact, "residual": residual}
    case = random_case(time=13, depth=depth, limits=True, seed=depth)
    y, _, trace = case.run(rule, chunk_size, **options, trace=True)
    _, _, expected = case.run(sequential, chunk_size, **options, trace=True)
    for name, series in vars(expected).items():
        assert series.shape == (2, 2, 13) and not getattr(trace, name).requires_grad
        # a norm is a root, so rounding of 1e-16 can show as 1e-8
        torch.testing.assert_close(getattr(trace, name), series, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(y, case.run(rule, chunk_size, **options)[0])


def test_the_trace_is_what_it_says():
    """Norms and losses of the states that single tokens leave behind."""
    case = random_case(batch=1, heads=1, time=8, depth=2)
    _, _, trace = case.run(chunked, 1, trace=True)
    state = case.start()
    for t in range(8):
        key, value = case.k[0, 0, t], case.v[0, 0, t]
        weights = [w.detach()[0, 0].requires_grad_() for w in state.weights]
        hidden = torch.cat([key, key]) / 2**0.5 + torch.nn.functional.silu(weights[0] @ key)
        answer = weights[1] @ (hidden / hidden.norm())
        loss = (answer - value).square().sum() / 2
        surprise = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)]).norm()
        _, state = sequential(*case.part(t, t + 1), state, 1)
        for name, expected in {
            "loss": loss,
            "surprise": surprise,
            "momentum": torch.cat([s.flatten() for s in state.momentum]).norm(),
            "memory": torch.cat([w.flatten() for w in state.weights]).norm(),
            "theta": case.gates.theta[0, 0, t],
            "eta": case.gates.eta[0, 0, t],
            "alpha": case.gates.alpha[0, 0, t],
        }.items():
            torch.testing.assert_close(getattr(trace, name)[0, 0, t], expected.detach())


def test_traces_of_consecutive_calls_join_to_the_trace_of_the_whole():
    memory = NeuralMemory(16, heads=2, chunk_size=4).double()
    x = torch.randn(2, 11, 16, dtype=torch.float64)
    _, _, whole = memory(x, trace=True)
    _, state, first = memory(x[:, :6], trace=True)
    _, _, second = memory(x[:, 6:], state, trace=True)
    for name, series in vars(Trace.join([first, second])).items():
        torch.testing.assert_close(series, getattr(whole, name))


def test_a_repeated_token_surprises_less_and_less():
    case = random_case(batch=1, heads=1, time=1, depth=2)
    tokens = [x.detach().expand(-1, -1, 20, -1) for x in (case.q, case.k, case.v)]
    gates = case.gates.map(lambda g: torch.full((1, 1, 20), 0.1, dtype=torch.float64))
    gates.alpha.zero_(), gates.eta.zero_()
    _, _, trace = chunked(*tokens, gates, case.start(), 1, trace=True)
    assert (trace.surprise[0, 0].diff() < 0).all()
