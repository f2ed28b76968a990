"""One fact seen many times, each time blurred: what momentum is good for, and when it must let go.

A chapter of a story has one fact, and each of its tokens is a glimpse of it: the fact plus
noise. The best a memory could answer is the mean of the glimpses. What it does answer is a
weighted sum of them, and theta and eta set the weights. The next chapter has another fact under
the same key. There is only one key, so the memory is a vector, `dim_key = 1`.

Every surprise is written once, in shares (`Gates.in_shares`): theta says how much of it, and eta
over how many tokens.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.memory import Gates, MemoryState, chunked


@dataclass(frozen=True)
class Story:
    """How many chapters, glimpses in each, and how blurred they are.

    blur: the norm of a glimpse's noise, in units of the fact's norm (root mean square)
    """

    chapters: int = 1
    glimpses: int = 16
    blur: float = 0.5
    dim: int = 8

    @property
    def time(self) -> int:
        return self.chapters * self.glimpses

    @property
    def first(self) -> Tensor:
        """True at the first token of every chapter, `[time]`."""
        return torch.arange(self.time) % self.glimpses == 0

    def tell(self, stories: int, seed: int) -> tuple[Tensor, Tensor]:
        """The facts and the glimpses, each `[stories, time, dim]`."""
        generator = torch.Generator().manual_seed(seed)
        facts = torch.randn(stories, self.chapters, self.dim, generator=generator)
        facts = F.normalize(facts, dim=-1).repeat_interleave(self.glimpses, 1)
        noise = torch.randn(stories, self.time, self.dim, generator=generator)
        return facts, facts + self.blur * noise / self.dim**0.5


def answers(theta: Tensor, eta: Tensor, glimpses: Tensor) -> Tensor:
    """What the memory answers after each token: `[rows, time, dim]`.

    theta, eta: `[rows, time]`; glimpses: `[rows, time, dim]`, one story per row.
    """
    rows, time, dim = glimpses.shape
    k = glimpses.new_ones(rows, 1, time, 1)  # [batch, heads, time, dim_key]
    gates = Gates(theta[:, None], eta[:, None], torch.zeros_like(eta[:, None]))
    start = MemoryState.start([glimpses.new_zeros(1, dim, 1)], rows)
    y, _ = chunked(k, k, glimpses[:, None], gates.in_shares(), start, chunk_size=time)
    return y[:, 0]


def glimpse_weights(theta: Tensor, eta: Tensor) -> Tensor:
    """The weight of each glimpse in the answer after the last one: `[rows, time]`.

    Found by asking: glimpse i is the i-th unit vector, so the i-th number of the answer is its
    weight. theta, eta: `[rows, time]`.

    >>> glimpse_weights(torch.full((1, 3), 0.5), torch.zeros(1, 3))
    tensor([[0.1250, 0.2500, 0.5000]])
    """
    rows, time = theta.shape
    unit_vectors = torch.eye(time, dtype=theta.dtype).expand(rows, time, time)
    return answers(theta, eta, unit_vectors)[:, -1]


def expected_error(weights: Tensor, story: Story) -> Tensor:
    """The expected squared error of the last answer, from the weights `[rows, time]`: `[rows]`.

    `(1 − w)²` for what is missing of the last chapter's fact, `w_c²` for what is left of each
    earlier fact, and `blur² Σ w_i²` for the noise: facts and noise are independent.
    """
    shares = weights.unflatten(1, (story.chapters, story.glimpses)).sum(-1)  # [rows, chapters]
    left_over = shares[:, :-1].square().sum(-1)
    return (1 - shares[:, -1]).square() + left_over + story.blur**2 * weights.square().sum(-1)


def measured_error(
    theta: Tensor, eta: Tensor, story: Story, seeds: tuple[int, ...] = (0, 1, 2), stories: int = 128
) -> Tensor:
    """The mean squared error after each token, `[seeds, rows, time]`.

    theta, eta: `[rows, time]`. The error is the distance of the answer from the fact.
    """
    rows = len(theta)
    theta, eta = (gate.repeat_interleave(stories, 0) for gate in (theta, eta))
    errors = []
    for seed in seeds:
        facts, glimpses = (x.repeat(rows, 1, 1) for x in story.tell(stories, seed))
        error = (answers(theta, eta, glimpses) - facts).square().sum(-1)
        errors.append(error.unflatten(0, (rows, stories)).mean(1))
    return torch.stack(errors)


def within_a_chapter(errors: Tensor, story: Story) -> Tensor:
    """The mean over all chapters but the first: `[..., time]` to `[..., glimpses]`."""
    return errors.unflatten(-1, (story.chapters, story.glimpses))[..., 1:, :].mean(-2)


# Ways to set the gates: theta and eta for each row and token.


def constant(theta: float | Tensor, eta: float, story: Story) -> tuple[Tensor, Tensor]:
    """The same theta and eta at every token, one row per theta: each `[rows, time]`."""
    theta = torch.as_tensor(theta).reshape(-1, 1).expand(-1, story.time)
    return theta, torch.full_like(theta, eta)


def letting_go(theta: float | Tensor, eta: float, story: Story) -> tuple[Tensor, Tensor]:
    """The same eta at every token but the first of a chapter, where it is 0."""
    theta, etas = constant(theta, eta, story)
    return theta, torch.where(story.first, 0.0, etas)


def best_gates(
    etas: Iterable[float], story: Story, way: Callable = constant
) -> tuple[Tensor, Tensor]:
    """The gates that should have the least error at the story's end, each `[1, time]`.

    By theory, among each eta with 46 thetas from 0.03 to 1. way: `constant` or `letting_go`.
    """
    thetas = torch.logspace(-1.5, 0, 46)
    theta, eta = map(torch.cat, zip(*(way(thetas, eta, story) for eta in etas)))
    best = expected_error(glimpse_weights(theta, eta), story).argmin()
    return theta[best][None], eta[best][None]


# Gates that learn it by themselves.


@dataclass(frozen=True)
class Learned:
    """The course of a training, each `[steps, seeds]`; the last step is the result."""

    theta: Tensor
    eta: Tensor  # inside a chapter
    eta_first: Tensor  # at the first token of a chapter
    error: Tensor  # squared, of the answers at the end of the chapters


def learn_gates(
    story: Story,
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 60,
    stories: int = 64,
    rate: float = 0.2,
) -> Learned:
    """Learn theta, eta and the eta of a chapter's first token, through the memory.

    Adam minimises the error of the answer at the end of each chapter but the first. Each seed has
    gates of its own; they are trained side by side and never interact.
    """
    start = torch.tensor([-2.0, 0.0, 0.0])  # theta = 0.12, eta = 0.5 everywhere
    raw = start.repeat(len(seeds), 1).requires_grad_()
    optimiser = torch.optim.Adam([raw], rate)
    first, ends = story.first, slice(2 * story.glimpses - 1, None, story.glimpses)
    course = []
    for step in range(steps):
        told = [story.tell(stories, seed=1000 * seed + step + 1) for seed in seeds]
        facts, glimpses = (torch.cat(part) for part in zip(*told))  # [seeds · stories, time, dim]
        theta, eta, eta_first = raw.sigmoid().unbind(1)  # [seeds] each
        etas = torch.where(first, eta_first[:, None], eta[:, None])  # [seeds, time]
        thetas = theta[:, None].expand_as(etas)
        thetas, etas = (gate.repeat_interleave(stories, 0) for gate in (thetas, etas))
        error = (answers(thetas, etas, glimpses) - facts)[:, ends].square().sum(-1).mean(1)
        error = error.view(len(seeds), stories).mean(1)
        optimiser.zero_grad()
        error.sum().backward()
        optimiser.step()
        course.append(torch.stack([theta, eta, eta_first, error]).detach())
    return Learned(*torch.stack(course, 1))
