"""The three gates of the memory rule, and their products over a stretch of tokens.

theta_t   how strongly this token's surprise is written        equation (14)
eta_t     how much of the past surprise lives on               equation (14)
alpha_t   how much of the memory is forgotten                  equation (13)
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory.derivatives import call


@dataclass(frozen=True)
class Gates:
    """One number a token for each gate, each `[batch, heads, time]`.

    >>> gates = Gates.constant(theta=0.1, eta=0.9, alpha=0.01, shape=(2, 4, 16))
    >>> gates.eta.shape
    torch.Size([2, 4, 16])
    """

    theta: Tensor
    eta: Tensor
    alpha: Tensor

    @classmethod
    def constant(
        cls, theta: float, eta: float, alpha: float, shape: tuple[int, ...], **tensor_options
    ) -> "Gates":
        """The same three numbers for every token; `shape` is `(batch, heads, time)`."""
        return cls(*(torch.full(shape, value, **tensor_options) for value in (theta, eta, alpha)))

    def map(self, function) -> "Gates":
        """Apply one function to all three."""
        return Gates(function(self.theta), function(self.eta), function(self.alpha))


def segment_products(gate: Tensor) -> Tensor:
    """`P[t, i] = gate_{i+1} · … · gate_t` for `i <= t` (1 on the diagonal), and 0 above it.

    Multiplication only. Dividing cumulative products, or subtracting cumulative logarithms,
    would be 0/0 as soon as a gate is exactly 0, which is how a memory is cleared.

    gate: `[..., time]`; returns `[..., time, time]`.

    >>> segment_products(torch.tensor([5.0, 0.0, 3.0]))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 3., 1.]])
    """
    return call(_SegmentProducts, gate)


class _SegmentProducts(torch.autograd.Function):
    """Cumulative products down each column of a matrix that holds gate_t below the diagonal."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gate: Tensor) -> Tensor:
        time = gate.shape[-1]
        later = torch.ones(time, time, dtype=gate.dtype, device=gate.device).tril(-1)  # t > i
        factors = torch.addcmul(1 - later, gate[..., :, None], later)  # gate_t there, else 1
        return factors.cumprod_(-2).tril_()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad: Tensor | None) -> Tensor | None:
        if grad is None:
            return None
        # P[t, i] = P[t, j] · gate_j · P[j−1, i] for every j between, so the derivative by gate_j
        # needs no division:  Σ_{t,i} grad[t, i] P[t, j] P[j−1, i].
        (P,) = ctx.saved_tensors
        by_gate = ((P.mT @ grad)[..., 1:, :] * P[..., :-1, :]).sum(-1)
        return F.pad(by_gate, (1, 0))  # the first gate is in none of the products
