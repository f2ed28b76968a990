"""Bad input gets an error that names the argument, what came and what was expected."""

import pytest
import torch
from cases import random_case
from torch import nn

from minititans import Gates, MemoryState, NeuralMemory
from minititans.memory import chunked, scan, sequential
from minititans.tensors import check_finite

RULES = [sequential, chunked, scan]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


def call(rule, chunk_size=4, state=None, gates=None, **changed):
    case = random_case(time=6)
    inputs = {"q": case.q, "k": case.k, "v": case.v} | changed
    return rule(*inputs.values(), gates or case.gates, state or case.start(), chunk_size)


def with_nan(*shape):
    x = torch.zeros(*shape, dtype=torch.float64)
    x[..., 0] = torch.nan
    return x


@every_rule
@pytest.mark.parametrize(
    "changed, error, message",
    [
        ({"q": torch.ones(2, 6, 5)}, ValueError, r"q: got shape \[2, 6, 5\], expected 4 axes"),
        ({"k": torch.ones(2, 2, 6, 4)}, ValueError, "k: got 4 for the axis 'dim_key'.*expected 5"),
        ({"v": torch.ones(2, 2, 7, 5)}, ValueError, "v: got 7 for the axis 'time'.*expected 6"),
        ({"v": torch.ones(2, 2, 6, 3)}, ValueError, "last layer gives 5 .* values have 3"),
        ({"q": torch.ones(2, 2, 0, 5)}, ValueError, "q: the axis 'time' is empty"),
        ({"k": torch.ones(2, 2, 6, 5).long()}, TypeError, "k: got torch.int64, expected"),
        ({"v": "text"}, TypeError, "v: got str, expected a tensor"),
        ({"v": with_nan(2, 2, 6, 5)}, ValueError, "v: contains NaN"),
        ({"q": torch.full((2, 2, 6, 5), torch.inf)}, ValueError, "q: contains NaN or infinite"),
        ({"chunk_size": 0}, ValueError, "chunk_size: got 0, expected a whole number of at least 1"),
        ({"chunk_size": -3}, ValueError, "chunk_size: got -3"),
        ({"chunk_size": 2.0}, ValueError, "chunk_size: got 2.0"),
        ({"chunk_size": True}, ValueError, "chunk_size: got True"),
        ({"gates": {"theta": 1}}, TypeError, "gates: got dict, expected Gates"),
        ({"state": "start"}, TypeError, "state: got str, expected a MemoryState"),
    ],
    ids=str,
)
def test_the_rule_refuses(rule, changed, error, message):
    with pytest.raises(error, match=message):
        call(rule, **changed)


@every_rule
@pytest.mark.parametrize("name", ["theta", "eta", "alpha"])
def test_gates_of_another_shape_or_with_nan_are_named(rule, name):
    good = random_case(time=6).gates
    for bad, message in (
        (torch.zeros(2, 2, 5), f"gates.{name}: got 5 for the axis 'time'.*expected 6"),
        (torch.zeros(2, 6), rf"gates.{name}: got shape \[2, 6\], expected 3 axes"),
        (with_nan(2, 2, 6), f"gates.{name}: contains NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            call(rule, gates=Gates(**(vars(good) | {name: bad})))


@every_rule
def test_a_state_of_another_batch_chunk_size_or_device_is_refused(rule):
    case = random_case(time=6)
    with pytest.raises(ValueError, match=r"state: made for batch 3 .* expected batch 2"):
        call(rule, state=MemoryState.start(case.weights, 3))
    with pytest.raises(ValueError, match="made for batch 2 and 1 heads, expected batch 2 and 2"):
        call(rule, state=MemoryState.start([w[:1] for w in case.weights], 2))
    _, state = case.run(rule, 5)
    with pytest.raises(ValueError, match="state: made with chunk_size 5, expected 4"):
        call(rule, state=state)
    with pytest.raises(ValueError, match=r"state: is on meta, expected cpu; move it with"):
        call(rule, state=case.start().to("meta"))


@every_rule
def test_weights_that_do_not_fit_are_refused(rule):
    case = random_case(time=6)
    with pytest.raises(ValueError, match="layer 0 takes 7 numbers, but the keys have 5"):
        call(rule, state=MemoryState.start([torch.ones(2, 5, 7)], 2))
    with pytest.raises(ValueError, match="layer 1 takes 3 numbers, but layer 0 gives 10"):
        call(rule, state=MemoryState.start([case.weights[0], torch.ones(2, 5, 3).double()], 2))


def test_start_refuses_what_is_not_a_list_of_layers():
    with pytest.raises(ValueError, match="weights: expected one"):
        MemoryState.start([], 2)
    with pytest.raises(ValueError, match="batch: got 0"):
        MemoryState.start([torch.ones(1, 2, 2)], 0)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"dim": 0}, "dim: got 0, expected a whole number of at least 1"),
        ({"dim": 10, "heads": 4}, "dim: got 10, expected a multiple of heads, 4"),
        ({"depth": 5}, "depth: got 5, expected a whole number of at least 1 and at most 4"),
        ({"depth": 0}, "depth: got 0"),
        ({"expansion": 0}, "expansion: got 0"),
        ({"chunk_size": -1}, "chunk_size: got -1"),
        ({"conv": -2}, "conv: got -2"),
        ({"conv": 2.5}, "conv: got 2.5, expected a whole number of at least 0"),
        ({"momentum": 2}, "momentum: got 2, expected True or False"),
        ({"backend": "quick"}, "backend: got 'quick', expected one of 'auto', 'sequential'"),
        ({"gates": "word"}, "gates: got 'word', expected one of 'token', 'chunk'"),
    ],
    ids=str,
)
def test_a_layer_that_cannot_be_made_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        NeuralMemory(**({"dim": 16} | changed))


@pytest.mark.parametrize(
    "x, error, message",
    [
        (torch.ones(3, 16), ValueError, r"x: got shape \[3, 16\], expected 3 axes \[batch time"),
        (torch.ones(2, 3, 15), ValueError, "x: got 15 for the axis 'dim'.*expected 16"),
        (torch.randn(2, 0, 16), ValueError, "x: the axis 'time' is empty"),
        (torch.ones(2, 3, 16).long(), TypeError, "x: got torch.int64.*embed tokens first"),
        (torch.full((2, 3, 16), torch.nan), ValueError, "x: contains NaN"),
        ([1.0], TypeError, "x: got list, expected a tensor"),
    ],
    ids=range(6),
)
def test_a_layer_refuses_bad_input(x, error, message):
    with pytest.raises(error, match=message):
        NeuralMemory(16)(x)


@pytest.mark.parametrize(
    "other, message",
    [
        ({"depth": 1}, "state: its layers are .* expected .* of another dim, heads, depth"),
        ({"expansion": 2}, "state: its layers are"),
        ({"heads": 2}, "state: made for batch 1 and 2 heads, expected batch 1 and 4 heads"),
        ({"dim": 32}, "state: its layers are"),
        ({"chunk_size": 8}, "state: made with chunk_size 8, expected 64"),
        ({"conv": 3}, "state: made by a memory with conv=3, expected conv=4"),
        ({"conv": 0}, "state: made by a memory with conv=0, expected conv=4"),
    ],
    ids=str,
)
def test_a_state_made_for_another_configuration_is_refused(other, message):
    other = NeuralMemory(**({"dim": 16} | other))
    _, state = other(torch.randn(1, 3, other.dim))
    with pytest.raises(ValueError, match=message):
        NeuralMemory(16)(torch.randn(1, 3, 16), state)


def test_a_refused_call_changes_nothing():
    memory = NeuralMemory(16)
    before = {name: value.clone() for name, value in memory.state_dict().items()}
    _, state = memory(torch.randn(1, 3, 16))
    kept = [w.clone() for w in state.weights]
    with pytest.raises(ValueError, match="x: contains NaN"):
        memory(torch.full((1, 3, 16), torch.nan), state)
    assert all(torch.equal(value, before[name]) for name, value in memory.state_dict().items())
    assert all(torch.equal(a, b) for a, b in zip(kept, state.weights, strict=True))


def test_a_module_with_too_few_parameters_in_its_state_is_refused():
    case = random_case(batch=1, heads=1, time=3)
    module = nn.Linear(5, 5).double()
    state = MemoryState.start([torch.ones(1, 5, 5, dtype=torch.float64)], 1)
    with pytest.raises(ValueError, match="state: has 1 tensors, but network has 2 parameters"):
        sequential(*case.part(0, 3), state, 1, network=module, exact=False)


def test_numbers_whose_sum_overflows_are_finite_all_the_same():
    huge = torch.full((8,), 3e38)
    check_finite("x", huge)
    for mixed in (
        torch.tensor([torch.inf, -torch.inf]),
        torch.cat([huge, torch.tensor([-torch.inf])]),
    ):
        with pytest.raises(ValueError, match="x: contains NaN or infinite"):
            check_finite("x", mixed)
