"""Refuse what the rule cannot read, in words that name the argument."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from minititans.arguments import shown
from minititans.tensors import check_finite, check_tensor

if TYPE_CHECKING:
    from minititans.relatives.rule import Tokens

VECTOR, GATE = "batch heads time dim_key", "batch heads time"
VALUE = "batch heads time dim_value"
AXES = {"q": VECTOR, "k": VECTOR, "v": VALUE, "a": VECTOR, "b": VECTOR, "skip": GATE}
SYMBOLS = {
    **dict.fromkeys(("q", "k", "forget", "C", "B", "r", "w", "kappa", "a"), VECTOR),
    **dict.fromkeys(("v", "x"), VALUE),
    **dict.fromkeys(("beta", "dt", "alpha"), GATE),
    **dict.fromkeys(("gamma", "A", "D"), "heads"),
}


def check_symbols(**tensors: Tensor) -> None:
    """The inputs of a setting, under the names that its paper gives them, have matching sizes."""
    sizes: dict[str, int] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: got {shown(tensor)}, expected a tensor [{SYMBOLS[name]}]")
        axes = SYMBOLS[name].split()
        found = dict(zip(axes, tensor.shape))
        if len(axes) != tensor.dim() or any(sizes.get(a, n) != n for a, n in found.items()):
            expected = ", ".join(
                f"{axis} {sizes[axis]}" if axis in sizes else axis for axis in axes
            )
            raise ValueError(f"{name}: got shape {list(tensor.shape)}, expected [{expected}]")
        sizes |= found


def check_tokens(tokens: "Tokens") -> None:
    """Every tensor has the axes that `Tokens` lists, with matching sizes."""
    if not hasattr(tokens, "present"):
        raise TypeError(f"tokens: got {type(tokens).__name__}, expected Tokens(q, k, v, decay)")
    for name in ("q", "k", "v", "decay"):
        if getattr(tokens, name) is None:
            raise TypeError(f"tokens.{name}: got None, expected a tensor")
    sizes: dict[str, int] = {}
    for name, tensor in tokens.present.items():
        if name == "decay":
            vector = isinstance(tensor, Tensor) and tensor.dim() == 4
            axes = VECTOR if vector else GATE
        else:
            axes = AXES[name]
        check_tensor(f"tokens.{name}", tensor, axes, sizes)
        if tensor.device != tokens.q.device:
            raise ValueError(
                f"tokens.{name}: is on {tensor.device}, expected {tokens.q.device}, where q is"
            )
    if (tokens.a is None) != (tokens.b is None):
        missing = "a" if tokens.a is None else "b"
        raise ValueError(f"tokens.{missing}: is None, expected both a and b, or neither")


def start_or_check(state: Tensor | None, tokens: "Tokens") -> Tensor:
    """The state before the first token: zeros, in at least float32, if None is given."""
    q, v = tokens.q, tokens.v
    shape = (*q.shape[:2], v.shape[-1], q.shape[-1])
    dtype = torch.promote_types(q.dtype, torch.float32)
    if state is None:
        return q.new_zeros(shape, dtype=dtype)
    if not isinstance(state, Tensor):
        raise TypeError(f"state: got {type(state).__name__}, expected a tensor or None")
    if state.shape != shape:
        raise ValueError(
            f"state: got shape {list(state.shape)}, expected {list(shape)} "
            "[batch heads dim_value dim_key]"
        )
    if state.dtype not in (dtype, torch.float64):  # the arithmetic is done in it
        raise TypeError(
            f"state: got {state.dtype}, expected {dtype}; use state.to({dtype}), "
            "or start with state=None"
        )
    if state.device != q.device:
        raise ValueError(f"state: is on {state.device}, expected {q.device}, where q is")
    check_finite("state", state)
    return state
