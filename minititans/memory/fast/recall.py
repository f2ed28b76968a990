"""What the backward pass needs from the forward pass, for all chunks at once.

The loop keeps only what goes into the memory: the inputs and errors of the layers, and the weights
that every chunk started with. Everything in between is computed again here, where nothing waits.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory.fast.derivatives import dot
from minititans.memory.network import length, narrowed, widened
from minititans.memory.state import Layers


class Rule(NamedTuple):
    """What does not change from chunk to chunk."""

    chunks: int
    layers: int
    exact: bool
    residual: bool
    steps: tuple[float, ...]  # shares of theta, by layer

    @property
    def gates(self) -> int:
        """How many tensors describe the gates: `Products`, and `Before` where it is exact."""
        return 8 if self.exact else 5


class Below(NamedTuple):
    """A layer below the last; every tensor is `[…, b, d]` or `[…, b, 1]`."""

    slope: Tensor  # silu′ and silu″ of the layer's output
    bend: Tensor
    norm: Tensor  # ‖a + silu(W a)‖
    back: Tensor  # the error at unit's output, and its part along unit
    along: Tensor
    r: Tensor  # the error at unit's input


class Last(NamedTuple):
    """The exact layer: `(I + G⁻ ⊙ (A Aᵀ)) E = V − β⁻ ⊙ (A W₀ᵀ) − f⁻ ⊙ (A S₀ᵀ)`."""

    inverse: Tensor  # of the triangular matrix
    AA: Tensor  # A Aᵀ and E Eᵀ, [..., b, b]
    EE: Tensor


class Recalled(NamedTuple):
    """One chunk, or all of them; lists have one tensor per layer."""

    W: Layers
    S: Layers
    at: Layers  # where surprise was measured
    A: Layers
    E: Layers
    P: list[Tensor]  # the last rows of `Products`, those of H and G as columns; and `Before`
    before: list[Tensor]
    last: list[Tensor]
    below: list[Tensor]  # one `Below` after the other


def recall(
    rule: Rule, A: Layers, E: Layers, P: list[Tensor], before: list[Tensor],
    W: Layers, S: Layers, at: Layers,
) -> Recalled:  # fmt: skip
    last, back = recall_last(rule, A[-1], E[-1], before, W[-1], S[-1], at[-1])
    below: list[Tensor] = []
    for l in reversed(range(rule.layers - 1)):
        z = torch.bmm(A[l], at[l].mT)
        sigma = z.sigmoid()
        silu, rest = z * sigma, 1 - sigma
        slope = torch.addcmul(sigma, silu, rest)
        bend = rest * torch.addcmul(slope + sigma, silu, sigma, value=-1)
        norm = along = z.new_ones(()).expand(len(z), z.shape[1], 1)
        r = back
        if rule.residual:
            norm = length(widened(A[l], z.shape[-1]) + silu)
            along = dot(A[l + 1], back)
            r = torch.addcmul(back, A[l + 1], along, value=-1) / norm
        below = [*Below(slope, bend, norm, back, along, r), *below]
        if l > 0:
            back = torch.bmm(slope * r, at[l])
            back = back + narrowed(r, back.shape[-1]) if rule.residual else back
    return Recalled(W, S, at, A, E, P, before, last, below)


def recall_last(
    rule: Rule, A: Tensor, E: Tensor, before: list[Tensor], W: Tensor, S: Tensor, at: Tensor
) -> tuple[list[Tensor], Tensor]:
    """`Last`, and the error at the last layer's input."""
    if not rule.exact:
        return [], torch.bmm(E, at)
    G, f, beta = before
    AA, EE = torch.bmm(A, A.mT), torch.bmm(E, E.mT)
    back = torch.addcmul(beta * torch.bmm(E, W), f, torch.bmm(E, S))
    return [*Last(inverse(G * AA), AA, EE)], torch.baddbmm(back, G * EE, A)


def inverse(L: Tensor) -> Tensor:
    """`(I + L)⁻¹` of strictly lower triangular matrices, in halves: `[rows, b, b]`.

    >>> L = torch.tensor([[[0.0, 0.0], [0.5, 0.0]]])
    >>> inverse(L)
    tensor([[[ 1.0000,  0.0000],
             [-0.5000,  1.0000]]])
    """
    size = L.shape[-1]
    if size <= 16:
        one = torch.eye(size, dtype=L.dtype, device=L.device).expand_as(L)
        # From the right: what is stored by rows is then solved without a copy.
        return torch.linalg.solve_triangular(
            L.mT, one, upper=True, left=False, unitriangular=True
        ).mT
    half = size // 2
    top, bottom = inverse(L[:, :half, :half]), inverse(L[:, half:, half:])
    corner = -torch.bmm(bottom, torch.bmm(L[:, half:, :half], top))
    return torch.cat([F.pad(top, (0, size - half)), torch.cat([corner, bottom], -1)], 1)
