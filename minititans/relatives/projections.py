"""What each relative makes of a token: its own activations and gates, then its setting.

Each is a module `(x, q, k, v, position) -> Tokens` with the parameters that only this relative
has. x: `[batch, time, dim]`; q, k, v: `[batch, heads, time, dim_head]`, straight from the
convolution, before any activation.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minititans.relatives import settings
from minititans.relatives.gates import FORGET, ChannelGate, HeadGate, spread
from minititans.relatives.rule import Tokens


class LinearAttention(nn.Module):
    """Without its denominator: the norm that follows divides by the length anyway."""

    def __init__(self, dim: int, heads: int):
        super().__init__()

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        return settings.linear_attention(q, k, F.silu(v))


class RetNet(nn.Module):
    """`γ_h = 1 − 2^{−5−h}`: the first head remembers about 32 tokens, each next one twice that."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        if (dim // heads) % 2:
            raise ValueError(
                f"heads: got {heads} for dim {dim}, expected an even number of channels per "
                "head, to rotate in pairs"
            )

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        gamma = 1 - 2.0 ** (-5 - torch.arange(q.shape[1], device=q.device, dtype=q.dtype))
        return settings.retnet(F.silu(q), F.silu(k), F.silu(v), gamma, position)


class GLA(nn.Module):
    """`α = sigmoid(·)^{1/16}`, through a bottleneck."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        start = torch.logit((1 - spread(heads, dim // heads)) ** 16)
        self.alpha = ChannelGate(dim, heads, start.flatten())

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        alpha = torch.exp(F.logsigmoid(self.alpha(x)) / 16)
        return settings.gla(F.silu(q), F.silu(k), F.silu(v), alpha)


class HGRN2(nn.Module):
    """`f = γ + (1 − γ) sigmoid(·)` with a learned lower bound γ; k's projection is the gate's."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        lower = 1 - 2 * spread(heads, dim // heads)  # sigmoid is about ½ at first
        self.lower = nn.Parameter(torch.logit(lower)[:, None])  # [heads, 1, dim_head]

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        lower = torch.sigmoid(self.lower)
        return settings.hgrn2(F.silu(q), lower + (1 - lower) * torch.sigmoid(k), F.silu(v))


class StepSize(nn.Module):
    """Mamba-2's Δ = softplus(·) and A = −exp(·), with e^{ΔA} = 1 − FORGET before training.

    Δ starts at 1. It is also the strength of a write, and the values that skip Mamba-2's memory
    with D = 1 would drown out writes of a hundredth.
    """

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.dt = HeadGate(dim, heads, start=math.log(math.expm1(1.0)))  # softplus⁻¹(1)
        self.log_A = nn.Parameter(torch.full((heads,), math.log(-math.log1p(-FORGET))))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return F.softplus(self.dt(x)), -self.log_A.exp()


class Mamba2(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.step = StepSize(dim, heads)
        self.D = nn.Parameter(torch.ones(heads))

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        dt, A = self.step(x)
        return settings.mamba2(F.silu(q), F.silu(k), F.silu(v), dt, A, self.D)


class DeltaNet(nn.Module):
    """Keys of norm 1, β between 0 and 1."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.beta = HeadGate(dim, heads, start=0.0)

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        return settings.deltanet(normed(q), normed(k), F.silu(v), torch.sigmoid(self.beta(x)))


class GatedDeltaNet(nn.Module):
    """DeltaNet, with Mamba-2's decay."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.beta = HeadGate(dim, heads, start=0.0)
        self.step = StepSize(dim, heads)

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        dt, A = self.step(x)
        alpha, beta = torch.exp(dt * A[:, None]), torch.sigmoid(self.beta(x))
        return settings.gated_deltanet(normed(q), normed(k), F.silu(v), alpha, beta)


class Longhorn(nn.Module):
    """Keys of any norm: the implicit step cannot overshoot."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.beta = HeadGate(dim, heads, start=0.0)

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        return settings.longhorn(F.silu(q), F.silu(k), F.silu(v), torch.sigmoid(self.beta(x)))


class RWKV7(nn.Module):
    """`w = exp(−e^{−½} sigmoid(·))`; a erases, and also says how much of the key is written."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        shape = heads, 1, dim // heads
        fraction = -torch.log1p(-spread(heads, dim // heads)) * math.exp(0.5)
        self.w = ChannelGate(dim, heads, torch.logit(fraction).flatten())
        self.a = ChannelGate(dim, heads, torch.zeros(dim))
        self.erased = nn.Parameter(torch.ones(shape))  # ξ: the key that is erased, κ = k ⊙ ξ
        self.written = nn.Parameter(torch.ones(shape))  # α: 1 writes a ⊙ k, 0 writes k
        self.bonus = nn.Parameter(torch.zeros(shape))  # ρ: how much of a value skips the memory

    def forward(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, position: int) -> Tokens:
        r, k, v = F.silu(q), F.silu(k), F.silu(v)
        w = torch.exp(-math.exp(-0.5) * torch.sigmoid(self.w(x)))
        a = torch.sigmoid(self.a(x))
        kappa = F.normalize(k * self.erased, dim=-1)
        k = k * (1 + (a - 1) * self.written)
        return settings.rwkv7(r, k, v, w, kappa, a, skip=(r * self.bonus * k).sum(-1))


def normed(x: Tensor) -> Tensor:
    """SiLU, then norm 1."""
    return F.normalize(F.silu(x), dim=-1)
