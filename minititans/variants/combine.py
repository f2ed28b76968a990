"""The paper's ⊗: how what attention found and what the memory knows become one (section 4.2)."""

import torch
from torch import Tensor, nn


class Combine(nn.Module):
    """`2 σ(norm(y)) ⊙ norm(m)`: both sides normalised with learned weights, one is the gate.

    The gate starts near 1. The memory's side is divided by `√(mean(m²) + 1)`: a large answer is
    scaled down and a small one stays small, so that the memory can still say nothing. If it
    were divided by its length alone, its noise would be as loud as its answers, and a MAC would
    hardly learn.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.norm_y, self.norm_m = nn.RMSNorm(dim), nn.RMSNorm(dim, eps=1.0)
        nn.init.constant_(self.norm_y.weight, 0.1)

    def forward(self, y: Tensor, m: Tensor) -> Tensor:
        return 2 * torch.sigmoid(self.norm_y(y)) * self.norm_m(m)
