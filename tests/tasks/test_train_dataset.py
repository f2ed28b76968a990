"""Hugging Face datasets, streamed; a parquet file on this machine stands for the hub."""

import random

import pytest
import torch
from train_cases import assert_same_weights, tiny

from minititans.tasks.dataset import Dataset
from minititans.training import loop

datasets = pytest.importorskip("datasets", reason="the extra [data] is not installed")

WORDS = ("the", "memory", "keeps", "learning", "while", "it", "reads", "and", "forgets")


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """Two files of 300 documents each."""
    folder = tmp_path_factory.mktemp("dataset")
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(5, 120))) for _ in range(600)]
    for part in range(2):
        rows = {"id": list(range(300)), "text": texts[part::2]}
        datasets.Dataset.from_dict(rows).to_parquet(folder / f"{part}.parquet", batch_size=32)
    return folder


def everything(folder) -> bytes:
    texts = []
    for part in range(2):
        texts += datasets.Dataset.from_parquet(str(folder / f"{part}.parquet"))["text"]
    return b"".join(text.encode() + b"\n\n" for text in texts)


def after_held_out(text: bytes) -> bytes:
    """What is left when the documents that make up the first 5,000 bytes are taken away."""
    return text[text.index(b"\n\n", 4998) + 2 :]


def batches(task, number, length=40):
    return [task.batch(3, length, torch.Generator())[0] for _ in range(number)]


def test_batches_are_the_stream_in_order_without_what_is_held_out(parquet):
    text, task = everything(parquet), Dataset(str(parquet), held_out=5000)
    assert bytes(task.held_out.tolist()) == text[:5000]
    tokens, targets = task.batch(4, 50, torch.Generator())
    rest = after_held_out(text)
    for row in range(4):
        piece = rest[row * 51 : (row + 1) * 51]
        assert bytes(tokens[row].tolist()) == piece[:-1]
        assert bytes(targets[row].tolist()) == piece[1:]


@pytest.mark.parametrize("before", [0, 1, 7, 100, 3000])
def test_a_stream_goes_on_from_a_stored_position(parquet, before):
    task, other = Dataset(str(parquet), held_out=5000), Dataset(str(parquet), held_out=5000)
    batches(task, before)
    position = task.position()
    wanted = batches(task, 20)
    batches(other, 3)
    other.seek(position)
    assert all(torch.equal(one, two) for one, two in zip(wanted, batches(other, 20)))


def test_at_its_end_the_stream_begins_again_after_what_is_held_out(parquet):
    task = Dataset(str(parquet), held_out=5000)
    rest = after_held_out(everything(parquet))
    found = b""
    while len(found) < 2.5 * len(rest):
        tokens, targets = task.batch(1, 999, torch.Generator())
        found += bytes([*tokens[0].tolist(), targets[0, -1].item()])
    assert found == (rest * 3)[: len(found)]


def test_a_stopped_run_on_a_stream_ends_with_the_same_weights(parquet, tmp_path, monkeypatch):
    options = {"dataset": str(parquet), "eval_every": 0, "save_every": 3}
    never, stopped = (tiny(tmp_path, name, **options) for name in ("never", "stopped"))
    result = loop.train(never)
    assert result["bits_per_byte"] > 0
    take_step = loop.take_step

    def stop(run, step, *arguments):
        if step == 6:
            raise KeyboardInterrupt
        return take_step(run, step, *arguments)

    monkeypatch.setattr(loop, "take_step", stop)
    with pytest.raises(KeyboardInterrupt):
        loop.train(stopped)
    monkeypatch.undo()
    loop.train(stopped)
    assert_same_weights(never, stopped)


def test_a_column_that_is_not_there_is_named(parquet):
    with pytest.raises(ValueError, match="column: got 'body', expected one of id, text"):
        Dataset(str(parquet), column="body")


def test_a_dataset_that_is_all_held_out_is_refused(parquet):
    with pytest.raises(ValueError, match="has only"):
        Dataset(str(parquet), held_out=10_000_000)
