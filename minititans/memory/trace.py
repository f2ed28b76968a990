"""What happened in the memory while it read: one number per token, for figures and widgets."""

from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.memory.gates import Gates, Products


@dataclass(frozen=True)
class Trace:
    """Each field is `[batch, heads, time]`, without a gradient.

    surprise: the norm of the momentary surprise `∇ℓ(M; x_t)`
    momentum: the norm of `S_t`, past surprise and momentary surprise together
    memory:   the norm of `M_t`, all layers together
    loss:     `ℓ(M; x_t)`, the loss before this token is written, at the weights where its
              surprise is measured
    theta, eta, alpha: the gates; for a `NeuralMemory`, before they are turned into shares
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


def norm(layers: list[Tensor]) -> Tensor:
    """The norm of all layers together, over all axes but the first two."""
    return torch.stack([w.flatten(2).square().sum(-1) for w in layers]).sum(0).sqrt()


@torch.no_grad()
def chunk_norms(
    P: Products, W: list[Tensor], S: list[Tensor], A: list[Tensor], E: list[Tensor],
    steps: list[float], error: Tensor,
) -> list[Tensor]:  # fmt: skip
    """The four measured series of a chunk, each `[..., b]`, from matmuls of size b × b.

    `‖S_t‖²` is a quadratic form in what S_t is made of, `m_t S₀` and the outer products
    `H[t,i] e_i a_iᵀ`, and an inner product of outer products is a product of inner products:
    `⟨e_i a_iᵀ, e_j a_jᵀ⟩ = (e_i·e_j)(a_i·a_j)`. The same goes for W_t. No token's weights
    are built.

    E: the errors as they are written, which is `steps` times the errors that were measured.
    """
    H, G, m, f, beta = P
    surprise = momentum = memory = error.new_zeros(())
    for w, s, a, e, step in zip(W, S, A, E, steps):
        surprise = surprise + a.square().sum(-1) * (e / step).square().sum(-1)
        pairs = (e @ e.mT) * (a @ a.mT)  # [..., b, b]
        with_W = ((a @ w.mT) * e).sum(-1, keepdim=True)  # ⟨W₀, e_i a_iᵀ⟩
        with_S = ((a @ s.mT) * e).sum(-1, keepdim=True)  # [..., b, 1]
        WW, WS, SS = (
            (x * y).sum((-2, -1), keepdim=True) for x, y in ((w, w), (w, s), (s, s))
        )  # [..., 1, 1]
        momentum = momentum + (m * m * SS + 2 * m * (H @ with_S))
        momentum = momentum + (H @ pairs * H).sum(-1, keepdim=True)
        memory = memory + (beta * beta * WW + f * f * SS + 2 * beta * f * WS)
        memory = memory + (2 * beta * (G @ with_W) + 2 * f * (G @ with_S))
        memory = memory + (G @ pairs * G).sum(-1, keepdim=True)
    # Rounding can leave a square just below zero.
    norms = [x.squeeze(-1).clamp(min=0).sqrt() for x in (momentum, memory)]
    return [surprise.sqrt(), *norms, error.square().sum(-1) / 2]
