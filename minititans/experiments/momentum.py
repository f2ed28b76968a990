"""What lingers after a surprise: one event, and what follows it.

Momentum, (10) and (14), keeps the direction of a surprise and keeps writing it:

    S_t = eta · S_{t-1} − theta · u_t        past surprise and momentary surprise
    M_t = M_{t-1} + S_t

So of a pair seen once, the share `theta (1 − eta^n) / (1 − eta)` is written after n tokens.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.experiments.shares import gates_of
from minititans.memory import Gates, MemoryState, chunked

# One event in a calm stream.


@dataclass(frozen=True)
class EventTrace:
    """A stream of pairs that the memory knows, and at one place a pair that it does not.

    momentary: norm of `theta · u_t`, what this token's own surprise writes, `[time]`
    past:      norm of `eta · S_{t-1}`, what earlier surprise writes at this token, `[time]`
    written:   how much of the event's value the memory answers after each token, `[time]`
    event:     the token at which the event is first seen; `glimpses`: how many tokens show it
    """

    momentary: Tensor
    past: Tensor
    written: Tensor
    event: int
    glimpses: int


def read_event(
    theta: float,
    eta: float,
    event: int = 15,
    glimpses: int = 1,
    time: int = 60,
    seed: int = 0,
    rule: str = "letter",
) -> EventTrace:
    """Read seven known pairs in turn, with a new pair in place of one of them at `event`.

    All keys are orthogonal, so nothing that the event writes disturbs what is known.
    rule: "letter" for (10) as it is, "shares" to write each surprise once, see `gates_of`

    >>> trace = read_event(theta=0.2, eta=0.5, event=2, time=5)
    >>> [f"{share:.2f}" for share in trace.written[2:]]
    ['0.20', '0.30', '0.35']
    >>> trace = read_event(theta=0.2, eta=0.5, event=2, time=5, rule="shares")
    >>> [f"{share:.2f}" for share in trace.written[2:]]
    ['0.10', '0.15', '0.18']
    """
    keys, values = orthogonal_pairs(8, seed)
    order = torch.arange(time) % 7
    order[event : event + glimpses] = 7
    k, v = keys[order][None, None], values[order][None, None]  # [batch, heads, time, dim]
    gates = Gates.constant(theta, eta, 0.0, (1, 1, time), dtype=torch.float64)
    gates = gates_of(rule, gates, eta_before=gates.eta[..., 0])
    start = MemoryState.start([(values[:7].T @ keys[:7])[None]], batch=1)  # knows the seven
    asked = keys[7].expand_as(k)
    y, _, trace = chunked(asked, k, v, gates, start, chunk_size=time, trace=True)
    before = F.pad(trace.momentum[0, 0, :-1], (1, 0))
    return EventTrace(
        momentary=gates.theta[0, 0] * trace.surprise[0, 0],
        past=gates.eta[0, 0] * before,
        written=y[0, 0] @ values[7],
        event=event,
        glimpses=glimpses,
    )


def orthogonal_pairs(dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """As many keys and values as there are dimensions, all of norm 1, each `[dim, dim]`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(2, dim, dim, generator=generator, dtype=torch.float64))[0]


def share_written(theta: float, eta: float, tokens: int) -> float:
    """How much of a pair seen once is in the memory when `tokens` tokens have been read since.

    The token that brought it counts: `theta (1 + eta + … + eta^(tokens − 1))`.

    >>> share_written(0.25, 0.5, 1), share_written(0.25, 0.5, 2)
    (0.25, 0.375)
    """
    return theta * sum(eta**n for n in range(tokens))


def half_life(eta: float) -> float:
    """After how many tokens half of a past surprise is left.

    >>> half_life(0.5), round(half_life(0.8), 1)
    (1.0, 3.1)
    """
    return math.log(0.5) / math.log(eta) if eta > 0 else 0.0


# What follows an event.


def aftermath(
    overlap: float,
    theta: float,
    eta: float,
    weak: float,
    seeds: tuple[int, ...] = (0, 1, 2),
    followers: int = 12,
    dim: int = 32,
    streams: int = 16,
) -> Tensor:
    """How well what followed an event is recalled at the end, `[seeds]`: 1 perfectly, 0 not at all.

    A follower's key and value share `overlap` with the event's; the rest is its own. The event
    is written with theta, a follower with `weak · theta`: if that is 0, all that is recalled of it
    comes from the event. Recall is `1 − ‖answer − value‖² / ‖value‖²`, averaged over the followers
    of all streams.
    """
    draws = [_event_and_followers(overlap, seed, followers, dim, streams) for seed in seeds]
    k, v = (torch.stack(part, 1) for part in zip(*draws))  # [streams, seeds, 1 + followers, dim]
    gates = Gates.constant(weak * theta, eta, 0.0, k.shape[:3])
    gates.theta[..., 0] = theta
    start = MemoryState.start([torch.zeros(len(seeds), dim, dim)], streams)
    _, state = chunked(k, k, v, gates, start, chunk_size=1)
    error = (k @ state.weights[0].mT - v)[:, :, 1:].square().sum(-1)
    return 1 - error.mean((0, 2))


def _event_and_followers(
    overlap: float, seed: int, followers: int, dim: int, streams: int
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    both = F.normalize(torch.randn(2, streams, 1 + followers, dim, generator=generator), dim=-1)
    event, own = both[:, :, :1], both[:, :, 1:]
    own = F.normalize(own - (own * event).sum(-1, keepdim=True) * event, dim=-1)
    return tuple(torch.cat([event, overlap * event + (1 - overlap**2) ** 0.5 * own], 2))
