"""Where autocast ends: the memory computes in its state's precision."""

from contextlib import AbstractContextManager, nullcontext

import torch


def full_precision(device: torch.device) -> AbstractContextManager:
    """No autocast inside: it would bring some products to half precision, and not all."""
    if device.type == "meta":
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
