"""What the memory carries from one call to the next."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from minititans.memory.gates import Gates

FORMAT = "minititans.MemoryState.1"


@dataclass(frozen=True)
class MemoryState:
    """The memory after the tokens read so far; nothing crosses from one batch row to another.

    weights:     `M_t`, one `[batch, heads, d_out, d_in]` a layer; reading uses these
    momentum:    `S_t`, the same shapes
    chunk_start: the weights with which the open chunk began; surprise is measured at these
    position:    how many tokens of the open chunk have been read, 0 on a chunk's boundary
    chunk_size:  the chunk size these tokens were read with; None before the first token
    conv:        the last inputs of a `NeuralMemory`'s convolution, `[batch, conv - 1, channels]`
    gates:       the open chunk's gates, each `[batch, heads]`, where a chunk shares its gates

    A state is never changed in place: every call returns a new one, so an old state can be kept
    and read from again.
    """

    weights: list[Tensor]
    momentum: list[Tensor]
    chunk_start: list[Tensor]
    position: int = 0
    chunk_size: int | None = None
    conv: Tensor | None = None
    gates: Gates | None = None

    @classmethod
    def start(cls, weights: list[Tensor], batch: int) -> "MemoryState":
        """Begin every batch row with the same weights and no momentum.

        weights: one `[heads, d_out, d_in]` a layer, shared by the batch at the start.

        >>> state = MemoryState.start([torch.eye(3).expand(2, 3, 3)], batch=5)
        >>> state.weights[0].shape, state.momentum[0].abs().max().item()
        (torch.Size([5, 2, 3, 3]), 0.0)
        """
        if not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch: got {batch!r}, expected a whole number of at least 1")
        if not weights or not all(isinstance(w, Tensor) and w.dim() >= 2 for w in weights):
            raise ValueError(
                "weights: expected one [heads, d_out, d_in] tensor a layer, "
                f"got {[tuple(w.shape) if isinstance(w, Tensor) else w for w in weights]}"
            )
        weights = [w.expand(batch, *w.shape) for w in weights]
        return cls(weights, [torch.zeros_like(w) for w in weights], chunk_start=weights)

    @classmethod
    def start_from(cls, module: nn.Module, batch: int, heads: int = 1) -> "MemoryState":
        """Begin with an `nn.Module`'s parameters, for `sequential(..., network=module)`.

        >>> state = MemoryState.start_from(nn.Linear(4, 4), batch=2)
        >>> [tuple(w.shape) for w in state.weights]
        [(2, 1, 4, 4), (2, 1, 4)]
        """
        return cls.start([p.expand(heads, *p.shape) for p in module.parameters()], batch)

    @property
    def batch(self) -> int:
        return self.weights[0].shape[0]

    @property
    def heads(self) -> int:
        return self.weights[0].shape[1]

    def map(self, function: Callable[[Tensor], Tensor]) -> "MemoryState":
        """A new state with `function` applied to every tensor in it."""
        weights = [function(w) for w in self.weights]
        return replace(
            self,
            weights=weights,
            momentum=[function(s) for s in self.momentum],
            # On a chunk's boundary the chunk starts from the current weights: keep one list.
            chunk_start=weights if self.position == 0 else [function(w) for w in self.chunk_start],
            conv=None if self.conv is None else function(self.conv),
            gates=None if self.gates is None else self.gates.map(function),
        )

    def detach(self) -> "MemoryState":
        """The same values, cut off from the graph: gradients stop here (truncated training)."""
        return self.map(Tensor.detach)

    def clone(self) -> "MemoryState":
        """A copy that shares no storage with this one."""
        return self.map(Tensor.clone)

    def to(self, *args, **kwargs) -> "MemoryState":
        """Move or cast every tensor, with the arguments of `Tensor.to`."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def save(self, path: str | os.PathLike) -> None:
        """Write the state to a safetensors file, whole or not at all."""
        tensors = {}
        for name in ("weights", "momentum", "chunk_start"):
            tensors |= {f"{name}.{layer}": t for layer, t in enumerate(getattr(self, name))}
        if self.conv is not None:
            tensors["conv"] = self.conv
        if self.gates is not None:
            tensors |= {f"gates.{name}": t for name, t in vars(self.gates).items()}
        tensors = {
            name: t.detach().clone(memory_format=torch.contiguous_format)
            for name, t in tensors.items()
        }
        about = json.dumps({"position": self.position, "chunk_size": self.chunk_size})
        # A reader sees the old file or the new one: the rename is atomic, a half-written
        # temporary file is never taken for a state.
        temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
        try:
            safetensors.torch.save_file(tensors, temporary, {"format": FORMAT, "about": about})
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)

    @classmethod
    def load(cls, path: str | os.PathLike, device: str | torch.device = "cpu") -> "MemoryState":
        """Read a state that `save` wrote."""
        with safetensors.safe_open(path, framework="pt", device=str(device)) as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(
                    f"path: {os.fspath(path)} is not a saved MemoryState: its format is "
                    f"{metadata.get('format')!r}, expected {FORMAT!r}"
                )
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
        layers = range(sum(name.startswith("weights.") for name in names))
        lists = {
            name: [tensors[f"{name}.{layer}"] for layer in layers]
            for name in ("weights", "momentum", "chunk_start")
        }
        gates = None
        if "gates.theta" in tensors:
            gates = Gates(*(tensors[f"gates.{name}"] for name in ("theta", "eta", "alpha")))
        about = json.loads(metadata["about"])
        return cls(**lists, **about, conv=tensors.get("conv"), gates=gates)
