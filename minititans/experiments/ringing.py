"""One key, again and again: with momentum a memory is a pendulum, and may swing.

A 2 × 2 matrix governs the error on the pair and the momentum on its key, so its two eigenvalues say
everything: complex ones ring, and those outside the unit circle grow.
"""

import torch
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked


def repeat_key(theta: Tensor, eta: Tensor, chunks: int, chunk_size: int = 1) -> Tensor:
    """The error, before each chunk, on a pair that is repeated forever: `[rows, chunks]`.

    theta, eta: `[rows]`, one memory per row. It is a single number: key and value are 1.

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
    """How the error e and the momentum s of a repeated key change from chunk to chunk: `[2, 2]`.

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

    A 2 × 2 matrix shrinks what it acts on in the long run while `|trace| < 1 + det` and `det < 1`,
    and both trace and det of `chunk_matrix` are straight lines in theta. For a chunk of one token
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


def behaviour(theta: float, eta: float) -> str:
    """What happens to a repeated pair, in words, from the eigenvalues of `chunk_matrix`.

    >>> behaviour(theta=0.5, eta=0.5), behaviour(theta=0.5, eta=0.0)
    ('learned with ringing', 'learned without ringing')
    """
    modes = torch.linalg.eigvals(chunk_matrix(theta, eta))
    if theta == 0:
        return "never learned: theta is 0"
    if modes.abs().max() >= 1 - 1e-9:
        return "never learned: it swings more and more"
    rings = modes.imag.abs().max() > 1e-9 or modes.real.min() < -1e-9
    return "learned with ringing" if rings else "learned without ringing"
