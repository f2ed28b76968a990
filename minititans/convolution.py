"""A short causal convolution: each token sees itself and a few before it (section 4.4)."""

import torch
from torch import Tensor, nn


class CausalConv(nn.Module):
    """Depthwise: every channel has its own `width` weights, which start at random.

    >>> conv = CausalConv(channels=8, width=4)
    >>> y, past = conv(torch.randn(2, 5, 8))
    >>> y.shape, past.shape  # past: the last inputs, which the next call needs
    (torch.Size([2, 5, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(self, channels: int, width: int):
        super().__init__()
        # Near the identity, no token would see its neighbour, and a value could not be stored
        # under the key of the token before: models then start to learn much later.
        self.taps = nn.Parameter(torch.randn(width, channels) / width**0.5)  # last: the present

    def forward(self, x: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x: `[batch, time, channels]`; past: `[batch, width - 1, channels]`, zeros if None."""
        width, time = len(self.taps), x.shape[1]
        if past is None:
            past = x.new_zeros(x.shape[0], width - 1, x.shape[2])
        x = torch.cat([past.to(x.dtype), x], 1)  # [batch, width - 1 + time, channels]
        taps = self.taps.to(x.dtype)  # x's dtype: autocast may have changed it
        y = x[:, :time] * taps[0]
        for lag in range(1, width):
            y = y + x[:, lag : lag + time] * taps[lag]
        return y, x[:, time:].clone()  # of a view, all of x would be kept
