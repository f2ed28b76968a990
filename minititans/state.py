"""What is carried from one call to the next: how it is detached, copied, moved and stored."""

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from minititans.tensor_files import open_tensors, save_tensors
from minititans.tensors import check_finite

FORMAT = "minititans.State.2"


class State:
    """A frozen dataclass of tensors, numbers, None, other states, and lists of these.

    A state is never changed in place: every call returns a new one, so an old state can be kept
    and read from again.
    """

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """A new state with `function` applied to every tensor in it; shared ones stay shared."""
        done: dict[int, Tensor] = {}

        def once(tensor):
            if id(tensor) not in done:
                done[id(tensor)] = function(tensor)
            return done[id(tensor)]

        return _walk(self, once)

    def detach(self) -> Self:
        """The same values, detached from the graph: gradients stop here (truncated training)."""
        return self.map(Tensor.detach)

    def clone(self) -> Self:
        """A copy that shares no storage with this one."""
        return self.map(Tensor.clone)

    def to(self, *args, **kwargs) -> Self:
        """Move or cast every tensor, with the arguments of `Tensor.to`."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    @classmethod
    def expect(cls, state: Any) -> None:
        """Refuse anything that is neither None nor a state of this class."""
        if state is not None and not isinstance(state, cls):
            raise TypeError(f"state: got {type(state).__name__}, expected a {cls.__name__}")

    def save(self, path: str | os.PathLike) -> None:
        """Write the state to a safetensors file, whole or not at all."""
        tensors: dict[str, Tensor] = {}
        names: dict[int, str] = {}

        def name(tensor):  # a shared tensor is stored once
            if id(tensor) not in names:
                names[id(tensor)] = f"t{len(tensors)}"
                copy = tensor.detach().clone(memory_format=torch.contiguous_format)
                tensors[names[id(tensor)]] = copy
            return names[id(tensor)]

        header = {"format": FORMAT, "tree": json.dumps(_describe(self, name))}
        save_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: str | os.PathLike, device: str | torch.device = "cpu") -> Self:
        """Read a state that `save` wrote."""
        with open_tensors(path, "a saved state", FORMAT, device) as (file, header):
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
            for tensor in tensors.values():
                check_finite("one of its tensors", tensor)
            state = _rebuild(json.loads(header["tree"]), tensors)
            if not isinstance(state, cls):
                raise ValueError(f"it holds a {type(state).__name__}, expected a {cls.__name__}")
        return state


def _walk(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """Rebuild a state with `function` applied to each of its tensors."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list):
        return [_walk(item, function) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return type(value)(**{name: _walk(item, function) for name, item in fields.items()})
    return value


def _describe(value: Any, name: Callable[[Tensor], str]) -> Any:
    """A state as JSON, with names in place of its tensors."""
    if isinstance(value, Tensor):
        return name(value)
    if isinstance(value, list):
        return [_describe(item, name) for item in value]
    if dataclasses.is_dataclass(value):
        fields = {
            f.name: _describe(getattr(value, f.name), name) for f in dataclasses.fields(value)
        }
        return {"class": type(value).__name__, "fields": fields}
    return value


def _rebuild(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_rebuild(item, tensors) for item in tree]
    if isinstance(tree, dict):
        known = {each.__name__: each for each in _subclasses(State)}
        if tree["class"] not in known:
            raise ValueError(f"path: holds a {tree['class']!r}, which this version does not know")
        fields = {name: _rebuild(item, tensors) for name, item in tree["fields"].items()}
        return known[tree["class"]](**fields)
    return tensors[tree] if isinstance(tree, str) else tree


def _subclasses(cls: type[State]) -> list[type[State]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_subclasses(sub))]
