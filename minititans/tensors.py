"""Refuse tensors that a layer cannot read, before anything is computed with them."""

import math
from typing import Any

import torch
from torch import Tensor

from minititans.arguments import check, shown, whole

POSITION = whole(0, 2**53)  # tokens read so far; the angles of rotary positions are float64
CONVERTED = {torch.float32, torch.bfloat16, torch.float16}  # by autocast, when it is on


def check_tensor(name: str, tensor: Tensor, axes: str, sizes: dict[str, int]) -> None:
    """A finite floating-point tensor whose axes have the sizes known so far; records new ones.

    axes: names separated by spaces, as in einops; sizes: axis name to size, extended here.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: got {type(tensor).__name__}, expected a tensor [{axes}]")
    if not tensor.is_floating_point():
        raise TypeError(
            f"{name}: got {tensor.dtype}, expected a floating-point tensor; "
            f"embed tokens first, or call {name}.float()"
        )
    names = axes.split()
    if tensor.dim() != len(names):
        raise ValueError(
            f"{name}: got shape {list(tensor.shape)}, expected {len(names)} axes [{axes}]"
        )
    for axis, size in zip(names, tensor.shape, strict=True):
        if size == 0:
            raise ValueError(f"{name}: the axis '{axis}' is empty, shape {list(tensor.shape)}")
        if sizes.setdefault(axis, size) != size:
            raise ValueError(
                f"{name}: got {size} for the axis '{axis}' in shape {list(tensor.shape)}, "
                f"expected {sizes[axis]}"
            )
    check_finite(name, tensor)


def check_finite(name: str, tensor: Tensor) -> None:
    """No NaN, no infinity: one of either would spread into the memory and stay there."""
    if torch.compiler.is_compiling() or tensor.device.type == "meta":
        return  # a compiled graph has no values to look at
    tensor = tensor.detach()
    try:
        total = tensor.sum().item()
    except RuntimeError:  # inside torch.func.vmap, which has no values to look at either
        return
    # A finite sum has finite terms. An infinite one may have overflowed: look at every number.
    if not math.isfinite(total) and not tensor.isfinite().all():
        raise ValueError(f"{name}: contains NaN or infinite values, expected finite numbers")


def check_sequence(x: Any, dim: int, own: Tensor, name="x", axes="batch time dim") -> None:
    """x has these axes, and the precision and device of `own`, which is a weight of the layer."""
    if isinstance(x, Tensor) and x.is_floating_point():
        if not _same_precision(x, own):
            raise TypeError(
                f"{name}: got {dtype_name(x)}, expected {dtype_name(own)}, the layer's own; "
                f"use {name}.to({own.dtype}), or convert the layer with .to({x.dtype})"
            )
        if x.device != own.device:
            raise ValueError(
                f"{name}: is on {x.device}, expected {own.device}, where the layer is; "
                f"use {name}.to({str(own.device)!r})"
            )
    check_tensor(name, x, axes, {"dim": dim})


def check_kept(
    name: str, kept: Any, shape: tuple[int, ...], like: Tensor, exact: bool = False
) -> None:
    """A tensor of a state has this shape, batch first, and can be joined to `like`, a new one.

    Unless `exact`, the precisions up to float32 are converted into each other: a call under
    autocast leaves a lower one behind, and a layer in half precision may be given a higher one.
    """
    name = f"state.{name}"
    if not isinstance(kept, Tensor):
        raise TypeError(f"{name}: got {shown(kept)}, expected a tensor")
    if kept.dim() == len(shape) and kept.shape[0] != shape[0]:
        raise ValueError(f"state: made for batch {kept.shape[0]}, expected batch {shape[0]}")
    if kept.shape != shape:
        raise ValueError(
            f"{name}: got shape {list(kept.shape)}, expected {list(shape)}; "
            "was the state made by another layer?"
        )
    converts = {kept.dtype, like.dtype} <= CONVERTED and not exact
    if kept.dtype != like.dtype and not converts:
        raise TypeError(
            f"{name}: got {dtype_name(kept)}, expected {dtype_name(like)}, the layer's own; "
            f"use state.to({like.dtype}), or start a new state"
        )
    if kept.device != like.device:
        raise ValueError(
            f"{name}: is on {kept.device}, expected {like.device}; "
            f"use state.to({str(like.device)!r})"
        )


def token_ids(name: str, tokens: Any, vocab_size: int, device: torch.device) -> Tensor:
    """Tokens `[batch, time]` of any integer type as int64, each from 0 to `vocab_size - 1`."""
    if not isinstance(tokens, Tensor):
        raise TypeError(
            f"{name}: got {type(tokens).__name__}, expected a tensor of whole numbers [batch, time]"
        )
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"{name}: got {dtype_name(tokens)}, expected a tensor of whole numbers")
    if tokens.dim() != 2 or 0 in tokens.shape:
        hint = f"; use {name}[None] for a batch of one" if tokens.dim() == 1 else ""
        raise ValueError(
            f"{name}: got shape {list(tokens.shape)}, expected [batch, time], neither empty{hint}"
        )
    if tokens.device != device:
        raise ValueError(
            f"{name}: is on {tokens.device}, expected {device}, where the model is; "
            f"use {name}.to({str(device)!r})"
        )
    ids = tokens.long()
    if ids.device.type != "meta" and not torch.compiler.is_compiling():
        low, high = (int(x) for x in torch.aminmax(ids))
        if low < 0 and tokens.dtype == torch.uint64:
            raise ValueError(f"{name}: got values from 2**63 on, expected 0 to {vocab_size - 1}")
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name}: got values from {low} to {high}, expected 0 to {vocab_size - 1}"
            )
    return ids


def check_batch(size: Any, length: Any, generator: Any, least: int = 1) -> None:
    """What every task's `batch` is called with; least: tokens that a row needs."""
    check(size=size)
    whole(least).check("length", length)
    check_generator(generator)


def check_pairs(x: Tensor) -> None:
    """Rotary positions rotate the channels of x in pairs."""
    if x.shape[-1] % 2:
        raise ValueError(
            f"x: got {x.shape[-1]} channels, expected an even number, to rotate in pairs"
        )


def check_generator(generator: Any) -> None:
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator: got {type(generator).__name__}, expected a torch.Generator, "
            "such as torch.Generator().manual_seed(0)"
        )


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _same_precision(a: Tensor, b: Tensor) -> bool:
    """Whether a matmul takes both: they have one dtype, or autocast will convert them."""
    device = b.device.type
    return a.dtype == b.dtype or (
        {a.dtype, b.dtype} <= CONVERTED
        and torch.amp.is_autocast_available(device)
        and torch.is_autocast_enabled(device)
    )
