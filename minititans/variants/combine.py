"""The paper's ⊗: how what attention found and what the memory knows become one (section 4.2)."""

import torch.nn.functional as F
from torch import Tensor, nn


class Combine(nn.Module):
    """Both sides normalised with learned weights, one through a non-linearity, then a product."""

    def __init__(self, dim: int):
        super().__init__()
        self.norm_y, self.norm_m = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, y: Tensor, m: Tensor) -> Tensor:
        return self.to_out(F.silu(self.norm_y(y)) * self.norm_m(m))
