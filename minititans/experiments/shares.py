"""How much of a surprise is written, and when? Momentum as shares, written token by token.

With (10) as it is, a surprise is written again at every later token, `1 / (1 − eta)` times in the
end. Scaling theta by `1 − eta` when the surprise comes in makes that 1, as long as eta does not
change. `Gates.in_shares` scales by `1 − eta` when a share is written, and works for any eta.
"""

import torch
from torch import Tensor

from minititans.memory import Gates
from minititans.memory.gates import segment_products

RULES = ("letter", "intake", "shares", "both")


def gates_of(rule: str, gates: Gates, eta_before: Tensor | None = None) -> Gates:
    """What (13) and (14) are given, from gates as a layer computes them.

    rule: "letter" takes them as they are, "intake" scales theta by `1 − eta`, "shares" is
          `Gates.in_shares`, "both" is both
    """
    if rule not in RULES:
        raise ValueError(f"rule: got {rule!r}, expected one of {', '.join(RULES)}")
    if rule in ("intake", "both"):
        gates = Gates((1 - gates.eta) * gates.theta, gates.eta, gates.alpha)
    return gates.in_shares(eta_before) if rule in ("shares", "both") else gates


def written(eta: Tensor, rule: str = "shares", at: int = 0) -> Tensor:
    """The share of one surprise of size 1 that is written at each token, `[time]`.

    eta: `[time]`; at: the token that surprised. Theta is 1 there.

    >>> written(torch.full((4,), 0.5)).tolist()
    [0.5, 0.25, 0.125, 0.0625]
    >>> written(torch.full((4,), 0.5), "letter").tolist()
    [1.0, 0.5, 0.25, 0.125]
    """
    given = Gates(torch.ones_like(eta), eta, torch.zeros_like(eta)).map(lambda g: g[None, None])
    used = gates_of(rule, given)
    return used.theta[0, 0, at] * segment_products(used.eta[0, 0])[:, at]


def jump(low: float, high: float, time: int, at: int = 1) -> Tensor:
    """An eta that is `low` before token `at` and `high` from there on, `[time]`.

    >>> jump(0.0, 0.5, time=3).tolist()
    [0.0, 0.5, 0.5]
    """
    eta = torch.full((time,), high, dtype=torch.float64)
    eta[:at] = low
    return eta


def largest_total(rule: str, eta_max: float, time: int = 12, tries: int = 500) -> float:
    """The most that one surprise was written, over many sequences of eta that jump at random.

    For "shares" it stays below 2. The first share is at most 1. With p_t for `eta_{i+1} ⋯ eta_t`,
    a later one is `(1 − eta_t) p_t ≤ (1 − eta_t) p_{t−1} = p_{t−1} − p_t`, and these add up to
    at most `p_i = 1`.
    """
    rng = torch.Generator().manual_seed(0)
    etas = eta_max * torch.rand(tries, time, generator=rng, dtype=torch.float64)
    extreme = torch.rand(tries, time, generator=rng) < 0.5  # where eta is at one of its ends
    etas = torch.where(extreme, eta_max * (etas > eta_max / 2), etas)
    return max(written(eta, rule).sum().item() for eta in etas)
