"""Where autocast ends: the memory computes in its state's precision."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(device: torch.device) -> AbstractContextManager:
    """No autocast inside: it would bring some products to half precision, and not all."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def in_full_precision(function: Callable) -> Callable:
    """The function of tensors, among other arguments, where autocast has ended."""

    @functools.wraps(function)
    def without_autocast(*arguments):
        devices = [x.device for x in arguments if isinstance(x, Tensor)]
        with full_precision(devices[0]) if devices else nullcontext():
            return function(*arguments)

    return without_autocast
