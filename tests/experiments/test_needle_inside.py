"""What is seen inside a model is what its memories computed, and a held alpha is that alpha."""

import math

import pytest
import torch

from minititans import TitansConfig, TitansLM
from minititans.experiments.needle_inside import half_lives, traces, with_alpha
from minititans.memory import NeuralMemory

SMALL = {"vocab_size": 64, "dim": 16, "layers": 2, "heads": 2, "segment": 8}


def small(variant="lmm", **changes):
    torch.manual_seed(0)
    return TitansLM(TitansConfig(variant=variant, **SMALL | changes)).double().eval()


@pytest.mark.parametrize("variant", ["lmm", "mac"])
def test_there_is_a_trace_of_every_token_in_every_memory(variant):
    model, tokens = small(variant), torch.randint(64, (2, 37))
    before = model(tokens)[0]
    found = traces(model, tokens)
    assert [trace.surprise.shape for trace in found] == [(2, 2, 37)] * 2
    assert torch.equal(model(tokens)[0], before) and not model.blocks[0].mixer._forward_hooks


@torch.no_grad()
def test_gates_and_surprises_are_those_of_the_memory():
    model, tokens = small(), torch.randint(64, (2, 37))
    first = traces(model, tokens)[0]
    block = model.blocks[0]
    x = block.norm(model.embed(tokens) * model.config.dim**0.5)
    memory = block.mixer.memory
    raw = torch.sigmoid(x @ memory.to_gates.weight.T + memory.to_gates.bias)  # θ, η, α per head
    torch.testing.assert_close(first.theta, raw[..., 0:2].mT ** 4)
    torch.testing.assert_close(first.alpha, raw[..., 4:6].mT ** 4)
    _, start = block.mixer.persistent.read_into(memory, 2)
    *_, alone = memory(x, start, trace=True)
    torch.testing.assert_close(first.surprise, alone.surprise)


@pytest.mark.parametrize("alpha", [0.5, 0.001, 1e-6])
def test_a_held_alpha_has_the_half_life_of_its_formula(alpha):
    model = small()
    held = with_alpha(model, alpha)
    expected = math.log(0.5) / math.log1p(-alpha)
    assert half_lives(held, tokens=32).flatten().tolist() == pytest.approx([expected] * 4, rel=1e-4)


def test_holding_alpha_changes_a_copy_and_nothing_but_alpha():
    model, tokens = small(), torch.randint(64, (1, 20))
    before = traces(model, tokens)
    held = traces(with_alpha(model, 0.3), tokens)
    assert torch.equal(traces(model, tokens)[0].alpha, before[0].alpha)
    assert torch.equal(held[0].theta, before[0].theta) and torch.equal(held[0].eta, before[0].eta)
    assert torch.allclose(held[0].alpha, torch.tensor(0.3).double())
    assert sum(isinstance(each, NeuralMemory) for each in model.modules()) == len(before)


@pytest.mark.parametrize("momentum", [True, False])
def test_alpha_cannot_be_held_in_a_memory_that_has_none(momentum):
    """The rows of its gates where alpha's would be are those of eta or theta."""
    with pytest.raises(ValueError, match=r"^model: got a memory with forgetting=False"):
        with_alpha(small(forgetting=False, momentum=momentum), 0.3)


def test_alpha_is_held_without_momentum_as_well():
    model, tokens = small(momentum=False), torch.randint(64, (1, 20))
    held, before = traces(with_alpha(model, 0.3), tokens)[0], traces(model, tokens)[0]
    assert torch.allclose(held.alpha, torch.tensor(0.3).double())
    assert torch.equal(held.theta, before.theta)
