"""What a trained memory is worth: bits per byte with and without parts of it, along the text.

as trained    the memory reads and writes, and its state is carried on
no writes     it stays at its learned start: it answers, but learns nothing from the text
no memory     it answers 0 to everything
dropped       it reads and writes, but starts over with every segment
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minititans.instruments import switch_memory
from minititans.model import TitansLM

WAYS: dict[str, Callable[[nn.Module], AbstractContextManager]] = {
    "as trained": lambda model: nullcontext(),
    "no writes": lambda model: switch_memory(model, writing=False),
    "no memory": lambda model: switch_memory(model, reading=False),
    "dropped": lambda model: nullcontext(),
}


@dataclass(frozen=True)
class Worth:
    """Bits for every byte, `[stretches, length]`, by the way in which the text was read."""

    bits: dict[str, Tensor]

    def mean(self, way: str) -> float:
        return float(self.bits[way].mean())

    def by_position(self, way: str, size: int) -> tuple[list[float], list[float]]:
        """The middle of each part of this many bytes, and the bits per byte in it."""
        parts = self.bits[way].unfold(1, size, size).mean((0, 2))  # [parts]
        return [size * (i + 0.5) for i in range(len(parts))], parts.tolist()

    def gain(self, way: str, first: int = 0) -> tuple[float, float]:
        """How many more bits per byte a way costs than the trained one, and the standard error.

        Both read the same stretches, so the error is that of the differences between stretches.
        first: the position from which bytes count
        """
        more = (self.bits[way] - self.bits["as trained"])[:, first:].mean(1)  # [stretches]
        return float(more.mean()), float(more.std() / math.sqrt(len(more)))


def memory_worth(
    model: TitansLM, text: Tensor, stretches: int = 16, length: int = 2048, ways=tuple(WAYS)
) -> Worth:
    """Read stretches of a text, `[time]`, side by side, in each of these ways."""
    if len(text) < stretches * length + 1:
        raise ValueError(
            f"text: got {len(text):,} bytes, expected more than {stretches} times {length:,}"
        )
    rows = torch.stack([text[n * length : (n + 1) * length + 1] for n in range(stretches)]).long()
    bits = {}
    for way in ways:
        with WAYS[way](model):
            bits[way] = bits_of(model, rows, model.config.segment, carry=way != "dropped")
    return Worth(bits)


def in_one_stream(model: TitansLM, text: Tensor, length: int) -> Tensor:
    """Bits for every byte, `[length]`, with one memory from beginning to end."""
    return bits_of(model, text[None, : length + 1].long(), piece=1024)[0]


def read_again(model: TitansLM, text: Tensor, passages: int = 32) -> tuple[Tensor, Tensor]:
    """Bits per byte of passages of one segment, `[passages]`, read once and then again.

    The second reading is a segment of its own: only the memory can know about the first.
    """
    size = model.config.segment
    rows = text[: 2 * passages * size].view(passages, 2 * size)[:, :size].long()
    bits = bits_of(model, torch.cat([rows, rows, rows[:, :1]], 1), size)
    first, again = bits[:, : size - 1], bits[:, size : 2 * size - 1]  # without a passage's first
    return first.mean(1), again.mean(1)


@torch.no_grad()
def bits_of(model: TitansLM, rows: Tensor, piece: int, carry: bool = True) -> Tensor:
    """`−log₂ p` of every byte of `[rows, time + 1]` but the first: `[rows, time]`.

    The rows are read `piece` bytes at a time. With `carry=False` no state is carried.
    """
    found, state = [], None
    for first in range(0, rows.shape[1] - 1, piece):
        part = rows[:, first : first + piece + 1]
        logits, state = model(part[:, :-1], state if carry else None)
        nats = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none")
        found.append(nats.view(len(rows), -1) / math.log(2))
    return torch.cat(found, 1)
