"""A memory that has to change its mind: what alpha is good for, (13).

Contexts follow each other, and in each of them another linear map leads from keys to values. A
memory that keeps everything answers with the old map for a while; one that forgets knows each
map a little less well.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from minititans.experiments.overflow import random_units, shrinkage
from minititans.memory import Gates, MemoryState, chunked


@dataclass(frozen=True)
class Drift:
    """`contexts` linear maps, each valid for `length` tokens; keys are random throughout.

    theta:     how much the memory writes
    unrelated: no maps at all: every token's value is drawn for itself
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
    y, _ = chunked(q[:, None], keys[:, None], values[:, None], gates, start, chunk_size=1)
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


# An alpha that is learned.


@dataclass(frozen=True)
class LearnedAlpha:
    """The course of a training, `[steps, seeds]` each; the last step is the result."""

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
    of its own; they are trained side by side and never meet.
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


# One memory's life, fast enough for a slider.


@dataclass(frozen=True)
class MemoryLife:
    """A memory that reads a drift, as squared errors on average over the streams, `[time]` each."""

    before: Tensor  # of the expectation at each token
    by_age: Tensor  # in the end, of the answer for each token, the last one first


def live(drift: Drift, alphas: Tensor, streams: int = 12, seed: int = 0) -> list[MemoryLife]:
    """Read the same streams with each of `alphas`, `[rows]`, and take notes.

    This is (13) with the gradient of a matrix, written out for all memories at once.
    """
    keys, values = drift.stream(streams, seed)  # [streams, time, dim]
    M = torch.zeros(len(alphas), streams, drift.dim, drift.dim)
    kept = (1 - alphas)[:, None, None, None]
    before = []
    for key, value in zip(keys.unbind(1), values.unbind(1)):  # [streams, dim]
        error = value - (M @ key[..., None]).squeeze(-1)  # [rows, streams, dim]
        M = kept * M + drift.theta * error[..., None] * key[:, None, :]
        before.append(error.square().sum(-1).mean(1))
    answers = keys @ M.mT  # [rows, streams, time, dim]
    by_age = (answers - values).square().sum(-1).mean(1).flip(-1)
    return [MemoryLife(*pair) for pair in zip(torch.stack(before, 1), by_age)]
