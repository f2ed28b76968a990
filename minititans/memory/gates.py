"""The three gates of the memory rule, and their products over a stretch of tokens.

theta_t   how strongly this token's surprise is written        equation (14)
eta_t     how much of the past surprise lives on               equation (14)
alpha_t   how much of the memory is forgotten                  equation (13)
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.state import State


@dataclass(frozen=True)
class Gates(State):
    """One number per token for each gate, each `[batch, heads, time]`.

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

    def in_shares(self, eta_before: Tensor | None = None) -> "Gates":
        """The gates with which (13) and (14) write each surprise once, in shares.

            theta_t → (1 − eta_t) (1 − alpha_t) theta_t
            eta_t   → eta_t (1 − eta_t) / (1 − eta_{t−1})

        Unrolled, surprise i is then written in the shares `(1 − eta_t) eta_{i+1} ⋯ eta_t` of its
        theta, at t = i, i + 1, …, which add up to 1 when eta is constant and to less than 2
        however it changes. The factor 1 − alpha_t is there because what alpha forgets of a wrong
        answer need not be corrected as well. It scales the new value too: one token cannot both
        clear the memory and be stored in full. eta must stay below 1. eta_before:
        `[batch, heads]`, the eta of the token before these; None for 0.

        >>> gates = Gates.constant(theta=1.0, eta=0.5, alpha=0.0, shape=(1, 1, 4)).in_shares()
        >>> (gates.theta[0, 0, 0] * segment_products(gates.eta)[0, 0, :, 0]).tolist()
        [0.5, 0.25, 0.125, 0.0625]
        """
        rest = 1 - self.eta
        before = torch.ones_like(rest[..., 0]) if eta_before is None else 1 - eta_before
        before = torch.cat([before[..., None], rest[..., :-1]], -1)
        return Gates(rest * (1 - self.alpha) * self.theta, self.eta * rest / before, self.alpha)


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
    time = gate.shape[-1]
    lower = torch.ones(time, time, dtype=gate.dtype, device=gate.device).tril()
    factors = torch.where(lower.tril(-1) > 0, gate[..., :, None], 1.0)  # gate_t for t > i, else 1
    return factors.cumprod(-2) * lower


class Before(NamedTuple):
    """The rows of `Products` one token earlier: what is in W_{t−1}."""

    G: Tensor
    f: Tensor
    beta: Tensor


class Products(NamedTuple):
    """What gates make of a chunk that starts with the weights W₀ and the momentum S₀."""

    H: Tensor  # [..., b, b]    how much of surprise i is in S_t
    G: Tensor  #                and in W_t
    m: Tensor  # [..., b, 1]    how much of S₀ is in S_t
    f: Tensor  #                and in W_t
    beta: Tensor  #             how much of W₀ is in W_t

    def before(self) -> Before:
        """The chunk starts with all of W₀, nothing of S₀ and no surprise."""
        first = ((self.G, 0.0), (self.f, 0.0), (self.beta, 1.0))
        return Before(*(F.pad(x, (0, 0, 1, 0), value=row)[..., :-1, :] for x, row in first))


def chunk_products(theta: Tensor, eta: Tensor, alpha: Tensor) -> Products:
    """Unroll (13) and (14) over a chunk, from gates `[..., b]`.

        H[t,i] = theta_i · eta_{i+1} ⋯ eta_t          m_t = eta_1 ⋯ eta_t
        D[t,s] = (1 − alpha_{s+1}) ⋯ (1 − alpha_t)     β_t = (1 − alpha_1) ⋯ (1 − alpha_t)
        G = D H                                        f = D m

    >>> theta, eta, alpha = torch.tensor([[0.1, 0.2], [0.5, 0.5], [0.0, 0.5]])
    >>> H, G, *_ = chunk_products(theta, eta, alpha)
    >>> H  # half of the first surprise is still in S when the second comes
    tensor([[0.1000, 0.0000],
            [0.0500, 0.2000]])
    >>> G  # W has forgotten half of the first, and S has added half of it again
    tensor([[0.1000, 0.0000],
            [0.1000, 0.2000]])
    """
    keep = 1 - alpha
    E, D = segment_products(eta), segment_products(keep)
    H = E * theta[..., None, :]
    m = E[..., :1] * eta[..., :1, None]
    return Products(H, D @ H, m, D @ m, D[..., :1] * keep[..., :1, None])
