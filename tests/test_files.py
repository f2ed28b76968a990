"""A file is written whole or not at all."""

import os

import pytest

from minititans.memory.files import write_whole


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
        raise OSError("no space left")

    monkeypatch.setattr(os, where, out_of_space)
    with pytest.raises(OSError, match="no space left"):
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
