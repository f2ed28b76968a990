"""What is carried from one call to the next, and how it is kept, cut off, copied and stored."""

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from minititans.memory.gates import Gates
from minititans.memory.tensor_files import open_tensors, save_tensors

FORMAT = "minititans.State.1"


class State:
    """A frozen dataclass of tensors, numbers, None, other states, and lists of these.

    A state is never changed in place: every call returns a new one, so an old state can be kept
    and read from again.
    """

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """A new state with `function` applied to every tensor in it, once to a shared tensor."""
        done: dict[int, Tensor] = {}

        def once(tensor):
            if id(tensor) not in done:
                done[id(tensor)] = function(tensor)
            return done[id(tensor)]

        return _walk(self, once)

    def detach(self) -> Self:
        """The same values, cut off from the graph: gradients stop here (truncated training)."""
        return self.map(Tensor.detach)

    def clone(self) -> Self:
        """A copy that shares no storage with this one."""
        return self.map(Tensor.clone)

    def to(self, *args, **kwargs) -> Self:
        """Move or cast every tensor, with the arguments of `Tensor.to`."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    @classmethod
    def expect(cls, state: Any) -> None:
        """Refuse what is neither None nor a state of this class."""
        if state is not None and not isinstance(state, cls):
            raise TypeError(f"state: got {type(state).__name__}, expected a {cls.__name__}")

    def save(self, path: str | os.PathLike) -> None:
        """Write the state to a safetensors file, whole or not at all."""
        tensors: dict[str, Tensor] = {}

        def name(tensor):
            tensors[f"t{len(tensors)}"] = tensor.detach().clone(
                memory_format=torch.contiguous_format
            )
            return f"t{len(tensors) - 1}"

        header = {"format": FORMAT, "tree": json.dumps(_describe(self.map(name)))}
        save_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: str | os.PathLike, device: str | torch.device = "cpu") -> Self:
        """Read a state that `save` wrote."""
        with open_tensors(path, "a saved state", FORMAT, device) as (file, header):
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
            state = _rebuild(json.loads(header["tree"]), tensors)
            if not isinstance(state, cls):
                raise ValueError(f"it holds a {type(state).__name__}, expected a {cls.__name__}")
        return state


@dataclass(frozen=True)
class MemoryState(State):
    """The memory after the tokens read so far; nothing crosses from one batch row to another.

    weights:     `M_t`, one `[batch, heads, d_out, d_in]` a layer; reading uses these
    momentum:    `S_t`, the same shapes
    chunk_start: the weights with which the open chunk began; surprise is measured at these
    position:    how many tokens of the open chunk have been read, 0 on a chunk's boundary
    chunk_size:  the chunk size these tokens were read with; None before the first token
    conv:        the last inputs of a `NeuralMemory`'s convolution, `[batch, conv - 1, channels]`
    gates:       the open chunk's gates, each `[batch, heads]`, where a chunk shares its gates
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
        # Copies: a state may be kept while an optimiser changes the weights it began with.
        weights = [w.expand(batch, *w.shape).clone() for w in weights]
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


def _walk(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """Rebuild a state with `function` of its tensors in their places."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list):
        return [_walk(item, function) for item in value]
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return type(value)(**{name: _walk(item, function) for name, item in fields.items()})
    return value


def _describe(value: Any) -> Any:
    """A state whose tensors are names, as JSON."""
    if isinstance(value, list):
        return [_describe(item) for item in value]
    if dataclasses.is_dataclass(value):
        fields = {f.name: _describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, "fields": fields}
    return value


def _rebuild(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_rebuild(item, tensors) for item in tree]
    if isinstance(tree, dict):
        known = {each.__name__: each for each in (Gates, *_subclasses(State))}
        if tree["class"] not in known:
            raise ValueError(f"path: holds a {tree['class']!r}, which this version does not know")
        fields = {name: _rebuild(item, tensors) for name, item in tree["fields"].items()}
        return known[tree["class"]](**fields)
    return tensors[tree] if isinstance(tree, str) else tree


def _subclasses(cls: type) -> list[type]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_subclasses(sub))]
