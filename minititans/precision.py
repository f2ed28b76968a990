"""Switching autocast off: the memory computes in its state's precision."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(device: torch.device) -> AbstractContextManager:
    """No autocast inside: it would compute some products in half precision, but not all."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def in_full_precision(function: Callable) -> Callable:
    """The same function of tensors and other arguments, with autocast switched off.

    For the backward passes of `torch.autograd.Function`: autograd runs them outside the block of
    `full_precision` in which the forward pass ran.
    """

    @functools.wraps(function)
    def without_autocast(*arguments):
        devices = [x.device for x in arguments if isinstance(x, Tensor)]
        with full_precision(devices[0]) if devices else nullcontext():
            return function(*arguments)

    return without_autocast
