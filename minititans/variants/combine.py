"""The paper's ⊗: how what attention found and what the memory knows become one (section 4.2)."""

import torch
from torch import Tensor, nn


class Combine(nn.Module):
    """`2 σ(norm(y)) ⊙ norm(m)`: both sides normalised with learned weights, one is the gate.

    The gate begins almost open and the memory's side small. From random gates at full size, as
    any nonlinearity with weights of 1 gives, a MAC hardly learns to use its memory.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.norm_y, self.norm_m = nn.RMSNorm(dim), nn.RMSNorm(dim)
        nn.init.constant_(self.norm_y.weight, 0.1)
        nn.init.constant_(self.norm_m.weight, 0.25)

    def forward(self, y: Tensor, m: Tensor) -> Tensor:
        return 2 * torch.sigmoid(self.norm_y(y)) * self.norm_m(m)
