"""A state can be kept, detached, copied, moved, saved and loaded."""

import dataclasses
import os

import pytest
import torch

from minititans import Gates, MemoryState, NeuralMemory
from minititans.memory import chunked, fast, sequential


@pytest.fixture(params=["token", "chunk"])
def memory(request):
    torch.manual_seed(0)
    return NeuralMemory(16, heads=2, depth=2, chunk_size=4, gates=request.param)


def tensors(state: MemoryState) -> list[torch.Tensor]:
    found = [*state.weights, *state.momentum, *state.chunk_start]
    found += [] if state.conv is None else [state.conv]
    return found + ([] if state.gates is None else list(vars(state.gates).values()))


@pytest.mark.parametrize("time", [3, 4])
def test_saved_and_loaded_it_carries_on_to_the_last_bit(memory, time, tmp_path):
    x = torch.randn(2, time + 5, 16)
    _, state = memory(x[:, :time])
    state.save(tmp_path / "state.safetensors")
    loaded = MemoryState.load(tmp_path / "state.safetensors")
    assert (loaded.position, loaded.chunk_size) == (time % 4, 4)
    expected, _ = memory(x[:, time:], state)
    assert torch.equal(memory(x[:, time:], loaded)[0], expected)
    assert os.listdir(tmp_path) == ["state.safetensors"]


def test_a_failed_save_leaves_the_old_file_and_no_other(memory, tmp_path, monkeypatch):
    _, state = memory(torch.randn(1, 5, 16))
    path = tmp_path / "state.safetensors"
    state.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        state.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["state.safetensors"]


def test_another_safetensors_file_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"weights.0": torch.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="is not a saved state"):
        MemoryState.load(tmp_path / "other.safetensors")


def test_detach_stops_the_gradient_and_keeps_the_values(memory):
    x = torch.randn(1, 9, 16, requires_grad=True)
    _, state = memory(x[:, :6])
    assert all(t.requires_grad for t in state.weights)
    cut = state.detach()
    assert not any(t.requires_grad for t in tensors(cut))
    assert all(torch.equal(a, b) for a, b in zip(tensors(cut), tensors(state), strict=True))
    y, _ = memory(x[:, 6:], cut)
    y.sum().backward()
    assert x.grad[:, :6].eq(0).all() and x.grad[:, 6:].ne(0).any()


def test_clone_shares_no_storage(memory):
    _, state = memory(torch.randn(1, 6, 16))
    copy = state.clone()
    for old, new in zip(tensors(state), tensors(copy), strict=True):
        assert torch.equal(old, new) and old.data_ptr() != new.data_ptr()


def test_to_casts_every_tensor(memory):
    _, state = memory(torch.randn(1, 6, 16))
    assert {t.dtype for t in tensors(state.to(torch.float64))} == {torch.float64}


def test_a_state_cannot_be_changed_by_assignment(memory):
    _, state = memory(torch.randn(1, 6, 16))
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.position = 0


def test_reading_on_leaves_an_old_state_as_it_was(memory):
    _, state = memory(torch.randn(1, 6, 16))
    before = [t.clone() for t in tensors(state)]
    memory(torch.randn(1, 9, 16), state)
    assert all(torch.equal(a, b) for a, b in zip(tensors(state), before, strict=True))


def malformed():
    """A good state's fields, each with one thing wrong, and the words for it."""
    good = MemoryState.start([torch.ones(2, 3, 3), torch.ones(2, 3, 3)], 4)
    W, S, start = good.weights, good.momentum, good.chunk_start
    nan = [torch.full_like(W[0], torch.nan), W[1]]
    return good, {
        "too few layers of momentum": ({"momentum": S[:1]}, "momentum: got the shapes"),
        "too few layers at the start": ({"chunk_start": start[:1]}, "chunk_start: got the shapes"),
        "momentum of batch 1": ({"momentum": [s[:1] for s in S]}, "momentum: got the shapes"),
        "another shape": ({"momentum": [s.mT[..., :2] for s in S]}, "momentum: got the shapes"),
        "not a tensor": ({"momentum": [None, S[1]]}, "momentum: got"),
        "not a list": ({"weights": W[0]}, "weights: got Tensor, expected a list of tensors"),
        "no layers": (
            {"weights": [], "momentum": [], "chunk_start": []},
            "weights: got the shapes",
        ),
        "complex weights": ({"weights": [w.cfloat() for w in W]}, "expected floating-point"),
        "mixed precision": ({"momentum": [s.double() for s in S]}, "momentum: got"),
        "position outside": ({"position": 4, "chunk_size": 4}, "position: got 4, expected less"),
        "position below": ({"position": -1, "chunk_size": 4}, "position: got -1"),
        "position open, no chunk": ({"position": 1}, "position: got 1, expected less than"),
        "a chunk of half a token": ({"chunk_size": 0.5}, "chunk_size: got 0.5"),
        "NaN": ({"weights": nan, "chunk_start": nan}, "contains NaN or infinite values"),
    }


@pytest.mark.parametrize("fault", malformed()[1])
def test_a_malformed_state_is_refused_in_words(fault):
    """When it is made, or when a rule is given it: nothing is ever computed with it."""
    good, faults = malformed()
    changes, words = faults[fault]
    x = torch.nn.functional.normalize(torch.ones(4, 2, 5, 3), dim=-1)
    gates = Gates.constant(0.1, 0.1, 0.1, (4, 2, 5))
    for rule in (sequential, chunked, fast):
        with pytest.raises((ValueError, TypeError), match=words):
            rule(x, x, x, gates, dataclasses.replace(good, **changes), 4)


def test_a_stored_state_with_nan_is_refused_when_it_is_loaded(tmp_path):
    good, faults = malformed()
    dataclasses.replace(good, **faults["NaN"][0]).save(tmp_path / "state")
    with pytest.raises(ValueError, match="contains NaN or infinite values"):
        MemoryState.load(tmp_path / "state")
