"""A file is written whole or not at all, by any number of writers; errors name the damage."""

import errno
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest
import torch
from train_cases import damaged

from minititans import MemoryState, NeuralMemory, TitansConfig, TitansLM
from minititans.files import left_behind, read_json, write_whole
from minititans.tensor_files import save_tensors


def write(path, content):
    with write_whole(path) as temporary:
        temporary.write_bytes(content)


def test_a_write_replaces_the_old_file(tmp_path):
    path = tmp_path / "numbers"
    write(path, b"a long old content")
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where):
    path = tmp_path / "numbers"
    write(path, b"old")

    def out_of_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, where, out_of_space)
    with pytest.raises(OSError, match=r"numbers could not .*: the disk is full \(No space"):
        write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "numbers"
    write(path, b"old")
    with pytest.raises(RuntimeError), write_whole(path) as temporary:
        temporary.write_bytes(b"ha")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/numbers could not .* Make the folder"):
        write(tmp_path / "nowhere" / "numbers", b"new")


# Many writers


def write_often(path, letter):
    for _ in range(20):
        write(path, letter * 100_000)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_many_may_write_to_one_path_and_every_reader_sees_a_whole_file(tmp_path, kind):
    path, letters = tmp_path / "numbers", [b"a", b"b", b"c", b"d"]
    write(path, b"a" * 100_000)
    if kind == "threads":
        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write_often, path, letter) for letter in letters]
            seen = {path.read_bytes() for _ in range(200)}
            for writer in writers:
                writer.result(timeout=120)
    else:
        context = get_context("fork")
        writers = [context.Process(target=write_often, args=(path, each)) for each in letters]
        for writer in writers:
            writer.start()
        seen = {path.read_bytes() for _ in range(200)}
        for writer in writers:
            writer.join(timeout=120)
        assert [writer.exitcode for writer in writers] == [0] * 4
    assert seen <= {letter * 100_000 for letter in letters}
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_leaves_is_found_by_the_name_of_its_file(tmp_path):
    path = tmp_path / "numbers"

    def die_writing():
        with write_whole(path):
            os.kill(os.getpid(), signal.SIGKILL)

    process = get_context("fork").Process(target=die_writing)
    process.start()
    process.join(timeout=60)
    [left] = tmp_path.iterdir()
    assert left_behind(path) == [left]
    assert left_behind(tmp_path / "others") == left_behind(tmp_path / "number") == []


# A full disk, as `ulimit -f` makes one: the kernel refuses what goes beyond


@pytest.fixture
def small_files():
    resource = pytest.importorskip("resource")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_file_too_large_for_the_disk_leaves_the_old_one(tmp_path, small_files):
    path = tmp_path / "tensors"
    save_tensors(path, {"a": torch.ones(10)}, {})
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"tensors could not be written: .* larger than .*ulimit -f"):
        save_tensors(path, {"a": torch.ones(1000)}, {})
    with pytest.raises(OSError, match=r"tensors could not be written: .* larger than .*ulimit -f"):
        write(path, bytes(4000))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


# Damaged files


def a_model(path) -> None:
    TitansLM(TitansConfig("lmm", dim=8, heads=1, layers=1, vocab_size=9)).save(path)


def a_state(path) -> None:
    NeuralMemory(8, chunk_size=4)(torch.randn(1, 6, 8))[1].save(path)


@pytest.mark.parametrize("make, load", [(a_model, TitansLM.load), (a_state, MemoryState.load)])
def test_a_damaged_model_or_state_is_named(tmp_path, make, load):
    path = tmp_path / "saved.safetensors"
    make(path)
    load(path)
    for how, content in damaged(path.read_bytes()).items():
        path.write_bytes(content)
        with pytest.raises(ValueError) as caught:
            load(path)
        assert str(path) in str(caught.value) and " is not a saved " in str(caught.value), how


@pytest.mark.parametrize("load", [TitansLM.load, MemoryState.load])
def test_what_is_missing_or_a_folder_is_named(tmp_path, load):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError, match=f"{tmp_path} is a folder"):
        load(tmp_path)


@pytest.mark.parametrize("change", ["missing", "another shape", "another config"])
def test_a_model_whose_weights_do_not_fit_is_refused(tmp_path, change):
    import safetensors.torch
    from safetensors import safe_open

    path = tmp_path / "model.safetensors"
    a_model(path)
    weights = safetensors.torch.load_file(path)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    if change == "missing":
        weights.pop("norm.weight")
    elif change == "another shape":
        weights["norm.weight"] = torch.ones(1)  # would broadcast
    else:
        header["config"] = '{"dim": 16, "colour": "blue"}'
    save_tensors(path, weights, header)
    with pytest.raises(
        ValueError, match=r"model\.safetensors is not a saved TitansLM, or it is dam"
    ):
        TitansLM.load(path)


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_model_comes_back_with_its_dtype(tmp_path, dtype, tie):
    model = TitansLM(TitansConfig("mac", dim=8, heads=1, layers=1, vocab_size=9, tie=tie)).to(dtype)
    model.norm.float()  # a mixture comes back as it was, too
    model.save(tmp_path / "model")
    loaded = TitansLM.load(tmp_path / "model")
    assert [p.dtype for p in loaded.parameters()] == [p.dtype for p in model.parameters()]
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), loaded.parameters()))
    assert (loaded.head.weight is loaded.embed.weight) == tie
    assert all(p.requires_grad for p in loaded.parameters())


@pytest.mark.parametrize("text", ["", '{"a": ', "[1]", "\xff", "[" * 100_000])
def test_a_damaged_json_file_is_named_with_advice(tmp_path, text):
    path = tmp_path / "some.json"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match=r"some\.json .*\. Try another"):
        read_json(path, "Try another.")
