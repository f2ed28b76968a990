"""Gates that depend on the token: one number per head, or one per channel.

They start near a given value: the bias sets it, and the weights are small. What they return is in
at least float32, because a decay of 0.999 is 1 in bfloat16.
"""

import torch
from einops import rearrange
from torch import Tensor, nn

FORGET = 1e-5  # how much a learned decay forgets per token before training, like the memory


class HeadGate(nn.Module):
    """x `[batch, time, dim]` to one unbounded number per head, `[batch, heads, time]`."""

    def __init__(self, dim: int, heads: int, start: float):
        super().__init__()
        self.project = nn.Linear(dim, heads)
        with torch.no_grad():
            self.project.weight.mul_(0.1)
            self.project.bias.fill_(start)

    def forward(self, x: Tensor) -> Tensor:
        return rearrange(at_least_float32(self.project(x)), "b t h -> b h t")


class ChannelGate(nn.Module):
    """x to one unbounded number per channel, `[batch, heads, time, dim_head]`.

    Through a bottleneck, as in GLA and RWKV-7: dim² weights would cost as much as the keys.
    start: `[dim]`.
    """

    def __init__(self, dim: int, heads: int, start: Tensor):
        super().__init__()
        self.heads = heads
        rank = min(64, max(4, dim // 8))
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim)
        with torch.no_grad():
            self.up.weight.mul_(0.1)
            self.up.bias.copy_(start)

    def forward(self, x: Tensor) -> Tensor:
        raw = at_least_float32(self.up(self.down(x)))
        return rearrange(raw, "b t (h d) -> b h t d", h=self.heads)


def spread(heads: int, dim_head: int) -> Tensor:
    """How much each channel forgets before training, `[heads, dim_head]`.

    From a tenth of FORGET to ten times FORGET, evenly in the logarithm: every head has channels
    that remember about ten thousand tokens and channels that remember a million.
    """
    return (FORGET * torch.logspace(-1, 1, dim_head)).repeat(heads, 1)


def at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
