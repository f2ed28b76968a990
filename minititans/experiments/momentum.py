"""What lingers after a surprise: one event, what follows it, and a key that rings.

Momentum, (10) and (14), keeps the direction of a surprise and goes on writing it:

    S_t = eta · S_{t-1} − theta · u_t        past surprise and momentary surprise
    M_t = M_{t-1} + S_t

So a pair that is seen once is written to `theta (1 − eta^n) / (1 − eta)` after n tokens, and a
key that comes again and again is a pendulum: its error obeys a 2 × 2 matrix.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked

# One event in a calm stream.


@dataclass(frozen=True)
class EventTrace:
    """A stream of pairs that the memory knows, and at one place a pair that it does not.

    momentary: norm of `theta · u_t`, what this token's own surprise writes, `[time]`
    past:      norm of `eta · S_{t-1}`, what earlier surprise writes at this token, `[time]`
    written:   how much of the event's value the memory answers after each token, `[time]`
    event:     the token at which the event is first seen; `glimpses`: for how many tokens
    """

    momentary: Tensor
    past: Tensor
    written: Tensor
    event: int
    glimpses: int


def read_event(
    theta: float, eta: float, event: int = 20, glimpses: int = 1, time: int = 60, seed: int = 0
) -> EventTrace:
    """Read seven known pairs in turn, with a new pair in their place at `event`.

    All keys are orthogonal, so nothing that the event writes disturbs what is known.

    >>> trace = read_event(theta=0.2, eta=0.5, event=2, time=5)
    >>> [f"{share:.2f}" for share in trace.written[2:]]
    ['0.20', '0.30', '0.35']
    """
    keys, values = orthogonal_pairs(8, seed)
    order = torch.arange(time) % 7
    order[event : event + glimpses] = 7
    M, S = values[:7].T @ keys[:7], torch.zeros(8, 8, dtype=torch.float64)  # knows the seven
    momentary, past, written = [], [], []
    for key, value in zip(keys[order], values[order]):
        u = torch.outer(M @ key - value, key)
        momentary.append((theta * u).norm())
        past.append((eta * S).norm())
        S = eta * S - theta * u  # (10)
        M = M + S  # (9)
        written.append(values[7] @ M @ keys[7])
    return EventTrace(*map(torch.stack, (momentary, past, written)), event, glimpses)


def orthogonal_pairs(dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """As many keys and values as there are dimensions, all of norm 1, `[dim, dim]` each."""
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(2, dim, dim, generator=generator, dtype=torch.float64))[0]


def share_written(theta: float, eta: float, tokens: int) -> float:
    """How much of a pair seen once is in the memory when `tokens` tokens have been read since.

    The token that brought it counts: `theta (1 + eta + … + eta^(tokens − 1))`.

    >>> share_written(0.25, 0.5, 1), share_written(0.25, 0.5, 2)
    (0.25, 0.375)
    """
    return theta * sum(eta**n for n in range(tokens))


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
    """How well what followed an event is recalled in the end, `[seeds]`: 1 perfectly, 0 not.

    A follower's key and value share `overlap` with the event's, the rest is its own. The event
    is written with theta, a follower with `weak · theta`: with 0, what is recalled of it comes
    from the event. Recall is `1 − ‖answer − value‖² / ‖value‖²`, averaged over the followers of
    all streams.
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


# One key, again and again.


def repeat_key(theta: Tensor, eta: Tensor, chunks: int, chunk_size: int = 1) -> Tensor:
    """The error on a pair that is all that ever comes, before each chunk: `[rows, chunks]`.

    theta, eta: `[rows]`, a memory each. A memory of one number is enough: key and value are 1.

    >>> repeat_key(torch.tensor([0.5]), torch.tensor([0.0]), chunks=4)
    tensor([[1.0000, 0.5000, 0.2500, 0.1250]], dtype=torch.float64)
    """
    rows, time = len(theta), chunks * chunk_size
    ones = torch.ones(rows, 1, time, 1, dtype=torch.float64)  # [batch, heads, time, dim]
    gates = Gates(theta, eta, torch.zeros_like(eta)).map(
        lambda gate: gate.double()[:, None, None].expand(rows, 1, time)
    )
    start = MemoryState.start([torch.zeros(1, 1, 1, dtype=torch.float64)], rows)
    y, _ = chunked(ones, ones, ones, gates, start, chunk_size, exact=False)
    after = 1 - y[:, 0, chunk_size - 1 :: chunk_size, 0]  # when each chunk has been read
    return torch.cat([ones[:, 0, 0], after[:, :-1]], 1)


def chunk_matrix(theta: float, eta: float, chunk_size: int = 1) -> Tensor:
    """How the error e and the momentum s of a repeated key go on from chunk to chunk: `[2, 2]`.

        e' = e − (s_1 + … + s_b)    with  s_n = eta · s_{n-1} + theta · e,  s_0 = s,  e frozen

    >>> chunk_matrix(theta=0.5, eta=0.9)
    tensor([[ 0.5000, -0.9000],
            [ 0.5000,  0.9000]], dtype=torch.float64)
    """
    powers = torch.tensor(eta, dtype=torch.float64) ** torch.arange(chunk_size + 1)
    sums = powers[:-1].cumsum(0)  # 1 + eta + … + eta^(n-1), for n = 1 … b
    rows = [1 - theta * sums.sum(), -powers[1:].sum(), theta * sums[-1], powers[-1]]
    return torch.stack(rows).view(2, 2)


def stability_limit(eta: float, chunk_size: int = 1) -> float:
    """The theta from which a repeated key's error grows instead of shrinking.

    A 2 × 2 matrix shrinks what it acts on for good while `|trace| < 1 + det` and `det < 1`, and
    of `chunk_matrix` both trace and det are straight lines in theta. For a chunk of one token
    the limit is `2 (1 + eta)`.

    >>> round(stability_limit(eta=0.5), 6), round(stability_limit(eta=0.0, chunk_size=16), 6)
    (3.0, 0.125)
    """
    at_0, at_1 = (chunk_matrix(theta, eta, chunk_size) for theta in (0.0, 1.0))
    trace, det = at_0.trace(), at_0.det()
    by_trace, by_det = at_1.trace() - trace, at_1.det() - det  # slopes in theta
    limits = [-(1 + trace + det) / (by_trace + by_det)]
    if by_det > 1e-12:
        limits.append((1 - det) / by_det)
    return float(min(limits))


def measured_limit(eta: float, chunk_size: int, chunks: int = 200) -> float:
    """The same limit found by trying: the smallest of 41 thetas whose error grew."""
    thetas = stability_limit(eta, chunk_size) * torch.linspace(0.8, 1.2, 41)
    error = repeat_key(thetas, torch.full_like(thetas, eta), chunks, chunk_size).abs()
    early, late = error[:, chunks // 4 : chunks // 2], error[:, -chunks // 4 :]
    return float(thetas[late.amax(1) > early.amax(1)].min())
