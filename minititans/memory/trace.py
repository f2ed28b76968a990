"""What the memory felt while it read: one number a token, for figures and widgets."""

from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.memory.gates import Gates
from minititans.memory.network import Surprise, surprise_norm


@dataclass(frozen=True)
class Trace:
    """Each field is `[batch, heads, time]`, without a gradient.

    surprise: the norm of the momentary surprise `∇ℓ(M_{t'}; x_t)`, before any clipping
    momentum: the norm of `S_t`, past surprise and momentary surprise together
    memory:   the norm of `M_t`, all layers together
    loss:     `ℓ(M_{t'}; x_t)`, the loss before this token is written, at the weights `M_{t'}`
              where its surprise is measured: those its chunk began with
    theta, eta, alpha: the gates the rule used
    """

    surprise: Tensor
    momentum: Tensor
    memory: Tensor
    loss: Tensor
    theta: Tensor
    eta: Tensor
    alpha: Tensor

    @classmethod
    def of(cls, measured: list[Tensor], gates: Gates) -> "Trace":
        """Join the four measured series, in the order of the fields, with the gates."""
        return cls(*measured, **{name: gate.detach() for name, gate in vars(gates).items()})

    @classmethod
    def join(cls, parts: list["Trace"]) -> "Trace":
        """One trace from those of consecutive calls."""
        return cls(
            *(torch.cat([vars(part)[name] for part in parts], -1) for name in vars(parts[0]))
        )


@torch.no_grad()
def chunk_norms(chunk, W: list[Tensor], S: list[Tensor], surprise: Surprise) -> list[Tensor]:
    """The four measured series of a chunk, `[rows, b]` each, from matmuls of size b × b.

    `‖S_t‖²` is a quadratic form in what S_t is made of, `m_t S₀` and the outer products
    `H[t,i] δ_i a_iᵀ`, and an inner product of outer products is a product of inner products:
    `⟨δ_i a_iᵀ, δ_j a_jᵀ⟩ = (δ_i·δ_j)(a_i·a_j)`. The same with W_t. Nothing per token is built.
    """
    a, delta = surprise.inputs, surprise.deltas
    H, G, m, f, beta = chunk.H, chunk.G, chunk.m, chunk.f, chunk.beta
    momentum = memory = 0.0
    for W_l, S_l, a_l, delta_l in zip(W, S, a, delta):
        pairs = torch.bmm(delta_l, delta_l.mT) * torch.bmm(a_l, a_l.mT)  # [rows, b, b]
        with_W = (torch.bmm(a_l, W_l.mT) * delta_l).sum(-1, keepdim=True)  # ⟨W₀, δ_i a_iᵀ⟩
        with_S = (torch.bmm(a_l, S_l.mT) * delta_l).sum(-1, keepdim=True)  # [rows, b, 1]
        WW, WS, SS = (
            (x * y).sum((1, 2), keepdim=True) for x, y in ((W_l, W_l), (W_l, S_l), (S_l, S_l))
        )  # [rows, 1, 1]
        momentum += m * m * SS + 2 * m * (H @ with_S)
        momentum += (H @ pairs * H).sum(-1, keepdim=True)
        memory += beta * beta * WW + f * f * SS + 2 * beta * f * WS
        memory += 2 * beta * (G @ with_W) + 2 * f * (G @ with_S)
        memory += (G @ pairs * G).sum(-1, keepdim=True)
    error = surprise.error
    loss = (error.square().sum(-1) / 2).clamp(max=torch.finfo(error.dtype).max)
    # Rounding can leave a square just below zero.
    norms = [x.squeeze(-1).clamp(min=0).sqrt() for x in (momentum, memory)]
    return [surprise_norm(surprise), *norms, loss]
