"""Rotary positions: pairs of channels rotate with the position; products see only distances."""

import torch
from torch import Tensor

from minititans.tensors import check_pairs


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate pair j of the token at position t by `t · 10000^{−2j/dim}`.

    x: `[..., time, dim]` with an even dim; positions: `[time]`, on the CPU for an x on MPS. Each
    pair has one channel from the first half and one from the second.
    """
    check_pairs(x)
    cos, sin = turns(positions, x)  # [time, dim / 2]
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def turns(positions: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine and sine of every angle, `[time, dim / 2]`, for vectors like x.

    Angles are in float64: at token 2,000,000, float32 would be wrong in the first digit. They are
    computed where the positions are, and only then brought to x, whose device may have no float64.
    """
    half, here = x.shape[-1] // 2, positions.device
    frequency = 10_000.0 ** (-torch.arange(half, device=here, dtype=torch.float64) / half)
    angle = positions[:, None].to(torch.float64) * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return cos.to(x.device), sin.to(x.device)
