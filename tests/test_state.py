"""A state can be kept, cut off, copied, moved, saved and loaded."""

import dataclasses
import os

import pytest
import torch

from minititans import MemoryState, NeuralMemory


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
