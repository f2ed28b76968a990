"""The inputs that make the rule each of the relatives, in the symbols of its own paper.

    S_t = S_{t-1} (Diag(decay_t) + a_t b_tᵀ) + v_t k_tᵀ,    y_t = S_t q_t + skip_t v_t

Vectors are `[batch, heads, time, dim]`, gates with one number per head `[batch, heads, time]`.
Every function returns the `Tokens` for `loop` or `chunked`; the state starts at zero.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from minititans.attention.rotary import rotate
from minititans.relatives.checks import check_symbols
from minititans.relatives.rule import Tokens
from minititans.tensors import POSITION, check_pairs


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tokens:
    """Katharopoulos et al. 2020: `S_t = S_{t-1} + v_t φ(k_t)ᵀ` with φ(x) = elu(x) + 1.

    Its denominator `Σ_i φ(k_i) · φ(q_t)` is what the same rule reads when all values are 1: see
    `attention_weights_sum_to_one`.
    """
    check_symbols(q=q, k=k, v=v)
    return Tokens(F.elu(q) + 1, F.elu(k) + 1, v, _no_decay(q))


def attention_weights_sum_to_one(v: Tensor) -> Tensor:
    """Values with a 1 appended: the last number read is linear attention's denominator.

    >>> q, k, v = torch.randn(3, 1, 1, 5, 4).unbind()
    >>> from minititans.relatives import chunked
    >>> y, _ = chunked(linear_attention(q, k, attention_weights_sum_to_one(v)))
    >>> y = y[..., :-1] / y[..., -1:]
    >>> torch.allclose(y[:, :, 0], v[:, :, 0])  # the first token sees only itself
    True
    """
    return F.pad(v, (0, 1), value=1.0)


def retnet(q: Tensor, k: Tensor, v: Tensor, gamma: Tensor, position: int = 0) -> Tokens:
    """Sun et al. 2023: `S_t = γ e^{iθ} S_{t-1} + v_t k_tᵀ`, one fixed γ per head.

    Rotating the state by θ with every token is the same as rotating q_t and k_t by t·θ. gamma:
    `[heads]`; position: how many tokens came before these.
    """
    check_symbols(q=q, k=k, v=v, gamma=gamma)
    decay = gamma[:, None].expand(q.shape[:3])
    return Tokens(rotate_neighbours(q, position), rotate_neighbours(k, position), v, decay)


def gla(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor) -> Tokens:
    """Gated linear attention, Yang et al. 2023: `S_t = S_{t-1} Diag(α_t) + v_t k_tᵀ`."""
    return Tokens(q, k, v, alpha)


def hgrn2(q: Tensor, forget: Tensor, v: Tensor) -> Tokens:
    """Qin et al. 2024: `S_t = S_{t-1} Diag(f_t) + v_t (1 − f_t)ᵀ`: what is freed is the key."""
    check_symbols(q=q, forget=forget, v=v)
    return Tokens(q, 1 - forget, v, forget)


def mamba2(C: Tensor, B: Tensor, x: Tensor, dt: Tensor, A: Tensor, D: Tensor) -> Tokens:
    """State-space duality, Dao and Gu 2024: `S_t = e^{Δ_t A} S_{t-1} + Δ_t x_t B_tᵀ`.

    `y_t = S_t C_t + D x_t`. dt is Δ; A (negative) and D: `[heads]`.
    """
    check_symbols(C=C, B=B, x=x, dt=dt, A=A, D=D)
    skip = D[:, None].expand(dt.shape)
    return Tokens(C, dt[..., None] * B, x, torch.exp(dt * A[:, None]), skip=skip)


def deltanet(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tokens:
    """Schlag et al. 2021, Yang et al. 2024: `S_t = S_{t-1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ`."""
    check_symbols(q=q, k=k, v=v, beta=beta)
    return gated_deltanet(q, k, v, _no_decay(q), beta)


def gated_deltanet(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, beta: Tensor) -> Tokens:
    """Yang et al. 2024: `S_t = S_{t-1} α_t (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ`.

    It forgets before it asks, so the answer it erases is already decayed.
    """
    check_symbols(q=q, k=k, v=v, alpha=alpha, beta=beta)
    scaled = beta[..., None] * k
    return Tokens(q, scaled, v, alpha, a=-alpha[..., None] * k, b=scaled)


def longhorn(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, diagonal: bool = False) -> Tokens:
    """Liu et al. 2024: S_t is the minimiser of `‖S − S_{t-1}‖² + β_t ‖S k_t − v_t‖²`.

    That is DeltaNet with the step `β / (1 + β k·k)`, which cannot overshoot for any key. With
    `diagonal=True`, `k kᵀ` is replaced by its diagonal, as in the model that its authors trained.
    """
    check_symbols(q=q, k=k, v=v, beta=beta)
    step = beta / (1 + beta * k.square().sum(-1))
    if diagonal:
        return Tokens(q, step[..., None] * k, v, 1 - step[..., None] * k.square())
    return deltanet(q, k, v, step)


def rwkv7(
    r: Tensor, k: Tensor, v: Tensor, w: Tensor, kappa: Tensor, a: Tensor, skip: Tensor | None = None
) -> Tokens:
    """Peng et al. 2025: `S_t = S_{t-1} (Diag(w_t) − κ̂_t (a_t ⊙ κ̂_t)ᵀ) + v_t k_tᵀ`.

    w, a: a decay and a rate for every column of S; kappa: the key that is erased, of norm 1.
    """
    check_symbols(r=r, k=k, v=v, w=w, kappa=kappa, a=a)
    return Tokens(r, k, v, w, a=-kappa, b=a * kappa, skip=skip)


def rotate_neighbours(x: Tensor, position: int = 0) -> Tensor:
    """Rotate the pairs of token t by t·θ, as attention does; here neighbours form the pairs."""
    POSITION.check("position", position)
    check_pairs(x)
    positions = torch.arange(position, position + x.shape[-2], device="cpu")
    apart = rearrange(x, "... (pair side) -> ... (side pair)", side=2)
    return rearrange(rotate(apart, positions), "... (side pair) -> ... (pair side)", side=2)


def _no_decay(q: Tensor) -> Tensor:
    return torch.ones_like(q[..., 0])
