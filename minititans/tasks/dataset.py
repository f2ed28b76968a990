"""Text from a Hugging Face dataset, read as a stream: nothing is downloaded beforehand.

The paper trains on FineWeb-Edu, `HuggingFaceFW/fineweb-edu`. Needs the package `datasets`.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minititans.arguments import Argument, whole
from minititans.tasks.text import BETWEEN
from minititans.tensors import check_batch

HELD_OUT_BYTES = 100_000


class Dataset:
    """Batches from a stream of documents, in its own order; at its end it starts over.

    name:     a dataset on the Hugging Face hub, a .parquet file, or a folder of them
    subset:   its configuration, if it has several
    column:   the column that holds the text
    held_out: how many bytes to keep for evaluation; taken from the first documents

    Every process reads the whole stream and takes its own rows of each batch, so that the order of
    the data does not depend on the number of processes.
    """

    vocab_size = 256

    def __init__(
        self,
        name: str,
        subset: str | None = None,
        column: str = "text",
        held_out: int = HELD_OUT_BYTES,
    ):
        for argument, value in {"name": name, "column": column}.items():
            Argument(str).check(argument, value)
        Argument(str, none="the only one").check("subset", subset)
        whole(1).check("held_out", held_out)
        self.column = column
        self.rows = open_stream(name, subset)
        documents = self._documents()
        kept = b""
        while len(kept) < held_out:
            document = next(documents, None)
            if document is None:
                raise ValueError(
                    f"dataset: {name} has only {len(kept):,} bytes of text, "
                    f"expected more than the {held_out:,} that are held out"
                )
            kept += document
        self.held_out = torch.frombuffer(bytearray(kept[:held_out]), dtype=torch.uint8)
        self.fingerprint = hashlib.sha256(kept).hexdigest()
        self.documents = documents
        self.beginning = self.rows.state_dict()  # of what is not held out
        self.waiting = b""  # read from the stream, not yet in a batch

    def batch(self, size: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The next `size` pieces of the stream; `generator` is not used."""
        check_batch(size, length, generator)
        needed = size * (length + 1)
        found = bytearray(self.waiting)
        while len(found) < needed:
            found += self._next_document()
        self.waiting = bytes(found[needed:])
        windows = torch.frombuffer(found[:needed], dtype=torch.uint8).long()
        windows = windows.view(size, length + 1)
        return windows[:, :-1], windows[:, 1:]

    def position(self) -> dict[str, Any]:
        """The position in the stream, in a form that JSON can hold."""
        return {"stream": self.rows.state_dict(), "waiting": self.waiting.hex()}

    def seek(self, position: dict[str, Any]) -> None:
        self.rows.load_state_dict(position["stream"])
        self.documents = self._documents()
        self.waiting = bytes.fromhex(position["waiting"])

    def _next_document(self) -> bytes:
        document = next(self.documents, None)
        if document is None:  # at the end, start over, without what is held out
            self.rows.load_state_dict(self.beginning)
            self.documents = self._documents()
            document = next(self.documents, None)
        if document is None:
            raise ValueError("dataset: nothing is left to train on besides what is held out")
        return document

    def _documents(self) -> Iterator[bytes]:
        for row in self.rows:
            if self.column not in row:
                raise ValueError(
                    f"column: got {self.column!r}, expected one of {', '.join(map(str, row))}"
                )
            yield row[self.column].encode() + BETWEEN


def open_stream(name: str, subset: str | None) -> Any:
    """A `datasets.IterableDataset` over the rows of the training split."""
    try:
        import datasets
    except ImportError:
        raise ValueError(
            "dataset: needs the package datasets: pip install -c constraints.txt -e '.[data]'"
        ) from None
    path = Path(name)
    if path.exists():
        files = sorted(map(str, path.rglob("*.parquet"))) if path.is_dir() else [name]
        if not files:
            raise ValueError(f"dataset: there is no .parquet file in {name}")
        return datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    if name.endswith(".parquet"):
        raise ValueError(f"dataset: {name} does not exist")
    return datasets.load_dataset(name, subset, split="train", streaming=True)
