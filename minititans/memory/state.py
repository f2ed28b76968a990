"""The memory between two calls, and how a sequence that begins inside a chunk is cut."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from minititans.arguments import whole
from minititans.memory.gates import Gates
from minititans.state import State

Layers = list[Tensor]  # one tensor per layer


@dataclass(frozen=True)
class MemoryState(State):
    """The memory after the tokens read so far; nothing crosses from one batch row to another.

    weights:     `M_t`, one `[batch, heads, d_out, d_in]` per layer; reading uses these
    momentum:    `S_t`, the same shapes
    chunk_start: the weights the open chunk started with, where surprise is measured
    position:    how many tokens of the open chunk have been read, 0 on a chunk's boundary
    chunk_size:  the chunk size these tokens were read with; None before the first token

    And what a `NeuralMemory` adds for itself:

    conv:        the last inputs of its convolution, `[batch, conv - 1, channels]`
    gates:       the last token's gates, each `[batch, heads]`
    """

    weights: list[Tensor]
    momentum: list[Tensor]
    chunk_start: list[Tensor]
    position: int = 0
    chunk_size: int | None = None
    conv: Tensor | None = None
    gates: Gates | None = None

    def __post_init__(self):
        """Check that shapes, dtypes and position fit together; a rule checks the values."""
        for name in ("weights", "momentum", "chunk_start"):
            layers = getattr(self, name)
            if not isinstance(layers, list) or not all(isinstance(w, Tensor) for w in layers):
                raise TypeError(f"{name}: got {_kinds(layers)}, expected a list of tensors")
            if name == "weights":
                self._check_weights()
            if [w.shape for w in layers] != [w.shape for w in self.weights]:
                raise ValueError(
                    f"{name}: got the shapes {_shapes(layers)}, expected those of the weights, "
                    f"{_shapes(self.weights)}"
                )
            if any(w.dtype != self.weights[0].dtype for w in layers):
                raise TypeError(f"{name}: got {_kinds(layers)}, expected one dtype in all layers")
            if any(w.device != self.weights[0].device for w in layers):
                raise ValueError(f"{name}: is not on {self.weights[0].device}, with the weights")
        for name, number, least in (("position", self.position, 0), ("chunk_size", self.size, 1)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                expected = f"expected a whole number of at least {least}"
                raise ValueError(f"{name}: got {number!r}, {expected}")
        if self.position >= self.size:
            raise ValueError(
                f"position: got {self.position}, expected less than the chunk size, {self.size}"
            )

    def _check_weights(self) -> None:
        if not self.weights or any(w.dim() < 3 or 0 in w.shape for w in self.weights):
            raise ValueError(
                f"weights: got the shapes {_shapes(self.weights)}, "
                "expected one [batch, heads, d_out, d_in] per layer"
            )
        if not all(w.is_floating_point() for w in self.weights):
            raise TypeError(f"weights: got {_kinds(self.weights)}, expected floating-point tensors")
        if len({w.shape[:2] for w in self.weights}) > 1:
            raise ValueError(
                f"weights: got the shapes {_shapes(self.weights)}, "
                "expected the same batch and heads in all layers"
            )

    @property
    def size(self) -> int:
        """The chunk size; 1 before the first token, when any size fits and no chunk is open."""
        return 1 if self.chunk_size is None else self.chunk_size

    @classmethod
    def start(cls, weights: list[Tensor], batch: int) -> "MemoryState":
        """Start every batch row with the same weights and no momentum.

        weights: one `[heads, d_out, d_in]` per layer, shared by the batch at the start.

        >>> state = MemoryState.start([torch.eye(3).expand(2, 3, 3)], batch=5)
        >>> state.weights[0].shape, state.momentum[0].abs().max().item()
        (torch.Size([5, 2, 3, 3]), 0.0)
        """
        whole(1).check("batch", batch)
        if not weights or not all(isinstance(w, Tensor) and w.dim() >= 2 for w in weights):
            raise ValueError(
                "weights: expected one [heads, d_out, d_in] tensor per layer, "
                f"got {[tuple(w.shape) if isinstance(w, Tensor) else w for w in weights]}"
            )
        # Copies: a state may be kept while an optimiser changes the weights it started from.
        weights = [w.expand(batch, *w.shape).clone() for w in weights]
        return cls(weights, [torch.zeros_like(w) for w in weights], chunk_start=weights)

    @classmethod
    def start_from(cls, module: nn.Module, batch: int, heads: int = 1) -> "MemoryState":
        """Start with an `nn.Module`'s parameters, for `sequential(..., network=module)`.

        >>> state = MemoryState.start_from(nn.Linear(4, 4), batch=2)
        >>> [tuple(w.shape) for w in state.weights]
        [(2, 1, 4, 4), (2, 1, 4)]
        """
        return cls.start([p.expand(heads, *p.shape) for p in module.parameters()], batch)

    def after(self, W: Layers, S: Layers, start: Layers, time: int, size: int) -> "MemoryState":
        """The state `time` tokens later; start: what the last chunk, if still open, began with."""
        position = (self.position + time) % size
        start = start if position > 0 else W
        return MemoryState(W, S, start, position, size, self.conv, self.gates)

    @property
    def batch(self) -> int:
        return self.weights[0].shape[0]

    @property
    def heads(self) -> int:
        return self.weights[0].shape[1]


def pieces(time: int, position: int, chunk_size: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut a sequence into pieces `(length, size)`, each up to `most` chunks of one size.

    First what an open chunk still has room for, then whole chunks, then the start of the next.

    >>> list(pieces(time=14, position=3, chunk_size=4, most=2))
    [(1, 1), (8, 4), (4, 4), (1, 1)]
    """
    rest = min(time, -position % chunk_size)
    whole = (time - rest) // chunk_size * chunk_size
    for length, size in ((rest, rest), (whole, chunk_size), (time - rest - whole,) * 2):
        for first in range(0, length, max(1, most * size)):
            yield min(most * size, length - first), size


def _shapes(layers: list[Tensor]) -> list[list[int]]:
    return [list(w.shape) for w in layers]


def _kinds(layers: Any) -> str:
    if not isinstance(layers, list):
        return type(layers).__name__
    return str([str(w.dtype) if isinstance(w, Tensor) else type(w).__name__ for w in layers])
