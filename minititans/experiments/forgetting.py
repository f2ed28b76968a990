"""A memory that must change its mind: what alpha is good for, (13).

Contexts follow each other, and each has its own linear map from keys to values. A memory that
keeps everything goes on answering with the old map for a while; one that forgets knows each map a
little less well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.experiments.overflow import random_units, shrinkage
from minititans.memory import Gates, MemoryState, chunked

CHUNK = 32  # a matrix reads the same in chunks of any size; this size is fast


@dataclass(frozen=True)
class Drift:
    """`contexts` linear maps, each valid for `length` tokens; keys are random throughout.

    theta:     how much the memory writes
    unrelated: no maps at all: every token's value is drawn on its own
    """

    length: int
    contexts: int = 3
    dim: int = 8
    theta: float = 1.0
    unrelated: bool = False

    @property
    def time(self) -> int:
        return self.length * self.contexts

    @property
    def first(self) -> Tensor:
        """True at the first token of every context, `[time]`."""
        return torch.arange(self.time) % self.length == 0

    def stream(self, streams: int, seed: int) -> tuple[Tensor, Tensor]:
        """Keys of norm 1 and values whose squared norm is 1 on average, `[streams, time, dim]`."""
        keys = random_units(streams, self.time, self.dim, seed=seed)
        if self.unrelated:
            return keys, random_units(streams, self.time, self.dim, seed=seed + 1_000_000)
        generator = torch.Generator().manual_seed(seed + 1_000_000)
        maps = torch.randn(streams, self.contexts, self.dim, self.dim, generator=generator)
        by_context = keys.unflatten(1, (self.contexts, self.length))
        return keys, (by_context @ maps.mT).flatten(1, 2) / self.dim**0.5


def predictions(keys: Tensor, values: Tensor, theta: Tensor, alpha: Tensor) -> Tensor:
    """What the memory expects of each token before it sees its value, `[rows, time, dim]`.

    keys, values: `[rows, time, dim]`; theta, alpha: `[rows, time]`. Each token's query is the next
    token's key, so the reading after token t is the expectation for token t + 1.
    """
    rows, _, dim = keys.shape
    q = torch.cat([keys[:, 1:], keys[:, :1]], 1)
    gates = Gates(theta[:, None], torch.zeros_like(theta[:, None]), alpha[:, None])
    start = MemoryState.start([keys.new_zeros(1, dim, dim)], rows)
    y, _ = chunked(q[:, None], keys[:, None], values[:, None], gates, start, CHUNK)
    return torch.cat([torch.zeros_like(values[:, :1]), y[:, 0, :-1]], 1)


def drift_error(
    alpha: Tensor, drift: Drift, seeds: Iterable[int] = (0, 1, 2), streams: int = 32
) -> Tensor:
    """Squared error of the expectation at each token, `[seeds, rows, time]`.

    alpha: `[rows, time]`, or `[rows, 1]` for the same at every token. Silence has the error 1.
    """
    rows = len(alpha)
    alpha = alpha.expand(rows, drift.time).repeat_interleave(streams, 0)
    theta = torch.full_like(alpha, drift.theta)
    errors = []
    for seed in seeds:
        keys, values = (x.repeat(rows, 1, 1) for x in drift.stream(streams, seed))
        error = (predictions(keys, values, theta, alpha) - values).square().sum(-1)
        errors.append(error.unflatten(0, (rows, streams)).mean(1))
    return torch.stack(errors)


def expected_drift(alpha: Tensor, drift: Drift) -> Tensor:
    """What `drift_error` should find, exactly, `[rows, time]`; alpha as there.

    With the map A and `E = A − M`, a step is `E' = E B + alpha A`, and at a change from A to A'
    `E' = E + A' − A`. Two numbers are enough: x = ‖E‖² and y = ⟨E, A⟩, in units of ‖A‖².
    """
    alpha = alpha.double().expand(len(alpha), drift.time)
    r, q = shrinkage(drift.dim, drift.theta, alpha)
    x, y = torch.ones(len(alpha), dtype=torch.float64), torch.ones(len(alpha), dtype=torch.float64)
    errors = []
    for t, first in enumerate(drift.first.tolist()):
        if first and t > 0:
            x, y = x + 2 - 2 * y, torch.ones_like(y)
        errors.append(x)
        a = alpha[:, t]
        x, y = q[:, t] * x + 2 * a * r[:, t] * y + a**2, r[:, t] * y + a
    return torch.stack(errors, 1)


def after_the_first(errors: Tensor, drift: Drift) -> Tensor:
    """The mean over all tokens but the first context's: `[..., time]` to `[...]`."""
    return errors[..., drift.length :].mean(-1)


def best_alpha(lengths: Iterable[int], dim: int = 8) -> Tensor:
    """The constant alpha with the least expected error for contexts of each length, `[lengths]`."""
    fine = torch.logspace(-3, 0, 121)
    drifts = [Drift(length, dim=dim) for length in lengths]
    errors = [after_the_first(expected_drift(fine[:, None], drift), drift) for drift in drifts]
    return fine[torch.stack(errors).argmin(1)]


def share_left(alpha: float, tokens: Iterable[int]) -> Tensor:
    """What is left of a write after n more tokens: `(1 − alpha)ⁿ`.

    >>> share_left(0.5, [0, 1, 2]).tolist()
    [1.0, 0.5, 0.25]
    """
    return torch.tensor(1 - alpha, dtype=torch.float64) ** torch.as_tensor(list(tokens))


# An alpha that is learned.


@dataclass(frozen=True)
class LearnedAlpha:
    """The course of a training, each `[steps, seeds]`; the last step is the result."""

    alpha: Tensor  # inside a context
    alpha_first: Tensor  # at a context's first token
    error: Tensor  # squared, of the expectations


def learn_alpha(
    drift: Drift,
    sees_the_change: bool = False,
    seeds: Iterable[int] = (0, 1, 2),
    steps: int = 50,
    streams: int = 32,
    rate: float = 0.3,
) -> LearnedAlpha:
    """Learn alpha through the memory: one number, or two if the gate sees a context's first token.

    Adam minimises the error of the expectations after the first context. Each seed has an alpha
    of its own; they are trained side by side and never interact.
    """
    seeds = list(seeds)
    raw = torch.full((len(seeds), 2), -2.0, requires_grad=True)  # alpha = 0.12
    optimiser = torch.optim.Adam([raw], rate)
    course = []
    for step in range(steps):
        drawn = [drift.stream(streams, seed=1000 * seed + step + 1) for seed in seeds]
        keys, values = (torch.cat(part) for part in zip(*drawn))  # [seeds · streams, time, dim]
        alpha, alpha_first = raw.sigmoid().unbind(1)  # [seeds] each
        if not sees_the_change:
            alpha_first = alpha
        alphas = torch.where(drift.first, alpha_first[:, None], alpha[:, None])  # [seeds, time]
        alphas = alphas.repeat_interleave(streams, 0)
        expected = predictions(keys, values, torch.full_like(alphas, drift.theta), alphas)
        error = after_the_first((expected - values).square().sum(-1), drift)
        error = error.view(len(seeds), streams).mean(1)
        optimiser.zero_grad()
        error.sum().backward()
        optimiser.step()
        course.append(torch.stack([alpha, alpha_first, error]).detach())
    return LearnedAlpha(*torch.stack(course, 1))


# One memory from beginning to end, fast enough for a slider.


@dataclass(frozen=True)
class MemoryLife:
    """A memory that reads a drift: squared errors, averaged over the streams, each `[time]`."""

    before: Tensor  # of the expectation at each token
    by_age: Tensor  # in the end, of the answer for each token, the last one first


def live(drift: Drift, alphas: Tensor, streams: int = 12, seed: int = 0) -> list[MemoryLife]:
    """Read the same streams with each of `alphas`, `[rows]`, and record the errors."""
    keys, values = drift.stream(streams, seed)  # [streams, time, dim]
    rows, alpha = len(alphas), alphas.repeat_interleave(streams)[:, None].expand(-1, drift.time)
    k, v = (x.repeat(rows, 1, 1)[:, None] for x in (keys, values))  # [batch, heads, time, dim]
    gates = Gates(torch.full_like(alpha, drift.theta), torch.zeros_like(alpha), alpha)
    gates = gates.map(lambda gate: gate[:, None])
    start = MemoryState.start([keys.new_zeros(1, drift.dim, drift.dim)], len(alpha))
    y, state = chunked(k.roll(-1, 2), k, v, gates, start, CHUNK)
    expected = F.pad(y[:, :, :-1], (0, 0, 1, 0))  # of each token, before it is seen
    answers = k @ state.weights[0].mT
    before, by_age = (
        (x - v).square().sum(-1).view(rows, streams, drift.time).mean(1)
        for x in (expected, answers)
    )
    return [MemoryLife(*pair) for pair in zip(before, by_age.flip(-1))]
