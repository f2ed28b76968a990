"""Text as bytes: a file, a folder, or the corpus that comes with Python itself.

The corpus is the language reference behind Python's `help()`: real English about one subject, on
every machine, with no download.
"""

import hashlib
import zlib
from pathlib import Path

import torch
from torch import Tensor

from minititans.arguments import shown
from minititans.tensors import check_batch

HELD_OUT = 0.1  # the share of the text that is kept for evaluation
BETWEEN = b"\n\n"  # separates two documents


class Text:
    """Windows into a text; the target of each byte is the byte that follows it.

    data: a file, a folder of files, or None for the built-in corpus

    Documents come in the order of a hash of their names, so that neighbours in a folder do not
    all end up in one part. The last tenth of the text is held out.

    >>> text = Text()
    >>> tokens, targets = text.batch(2, 16, torch.Generator().manual_seed(0))
    >>> tokens.shape, bool((tokens[:, 1:] == targets[:, :-1]).all())
    (torch.Size([2, 16]), True)
    """

    vocab_size = 256

    def __init__(self, data: str | Path | None = None):
        if data is not None and not (isinstance(data, (str, Path)) and str(data)):
            raise ValueError(
                f"data: got {shown(data)}, expected the path of a file or folder, "
                "or None for the built-in corpus"
            )
        documents = built_in_documents() if data is None else documents_at(Path(data))
        text = join(documents)
        self.train, self.held_out = split(text)
        self.fingerprint = hashlib.sha256(text.numpy().data).hexdigest()

    def batch(self, size: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        check_batch(size, length, generator)
        if length + 1 > len(self.train):
            raise ValueError(
                f"length: got {length}, expected less than the {len(self.train):,} bytes of text "
                "to train on; give more text, or smaller --lengths"
            )
        starts = torch.randint(len(self.train) - length, (size, 1), generator=generator)
        windows = self.train[starts + torch.arange(length + 1)].long()  # [size, length + 1]
        return windows[:, :-1], windows[:, 1:]


def built_in_documents() -> dict[str, bytes]:
    """Python's language reference, one document per topic, each paragraph only once.

    Some topics are excerpts of others, word for word. Without this a fifth of the text would
    appear twice, and much of what is held out could be learned by heart.
    """
    from pydoc_data.topics import topics

    seen: set[str] = set()
    documents = {}
    for name in sorted(topics, key=hashed):
        kept = []
        for paragraph in topics[name].strip().split("\n\n"):
            words = " ".join(paragraph.split())
            if words not in seen:
                seen.add(words)
                kept.append(paragraph)
        documents[name] = "\n\n".join(kept).encode()
    return {name: document for name, document in documents.items() if document}


def documents_at(path: Path) -> dict[str, bytes]:
    """The file at `path`, or every file below it except hidden ones, by name."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    if not path.is_dir():
        raise ValueError(f"data: {path} does not exist; expected a file or a folder")
    found = {}
    for file in path.rglob("*"):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            found[name.as_posix()] = file.read_bytes()
    return found


def join(documents: dict[str, bytes]) -> Tensor:
    """All documents as one row of bytes, in the order of their hashed names."""
    text = BETWEEN.join(documents[name] for name in sorted(documents, key=hashed))
    if len(text) < 100:
        raise ValueError(f"data: got {len(text)} bytes of text, expected at least 100")
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def split(text: Tensor) -> tuple[Tensor, Tensor]:
    """What to train on, and the last tenth, which is held out.

    >>> [len(part) for part in split(torch.zeros(1000, dtype=torch.uint8))]
    [900, 100]
    """
    cut = len(text) - int(len(text) * HELD_OUT)
    return text[:cut], text[cut:]


def hashed(name: str) -> tuple[int, str]:
    """A number that depends on every letter of a name and is the same on every machine."""
    return zlib.crc32(name.encode()), name
