"""Put a needle anywhere in a haystack, and ask for it again and again while the noise goes on.

A state is a value: the question continues from it, and so does the reading, as though nothing had
been asked. So one reading of a long haystack gives the answer for every length on the way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from minititans.arguments import whole
from minititans.model import ModelState
from minititans.tasks.needle import ASK, KEYS, MARK, VALUES, Needle, generator

BLOCK = 256  # tokens that are read at once: with many rows, this was quickest on a CPU


@dataclass(frozen=True)
class Fading:
    """What a model answered.

    places:  where each row's needle begins, `[rows]`
    moments: how many tokens had been read when it was asked, `[moments]`
    facts:   key and value of each row's needle, `[rows, 1 + value_tokens]`
    said:    the probability of every token, `[rows, moments, value_tokens, vocab]`
    """

    places: Tensor
    moments: Tensor
    facts: Tensor
    said: Tensor

    @property
    def right(self) -> Tensor:
        """The probability of the whole value, `[rows, moments]`."""
        value = self.facts[:, None, 1:, None].expand(-1, len(self.moments), -1, 1)
        return self.said.gather(-1, value).squeeze(-1).prod(-1)

    @property
    def found(self) -> Tensor:
        """Whether each token of the value was the likeliest of all, `[rows, moments]`."""
        return (self.said.argmax(-1) == self.facts[:, None, 1:]).all(-1)


def plant(task: Needle, length: int, places: Sequence[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Haystacks without a question, each with a needle at its place.

    Returns tokens `[rows, length]`, and key and value of each needle `[rows, 1 + value_tokens]`.

    >>> tokens, facts = plant(Needle("pk"), length=20, places=[0, 12])
    >>> tokens[1, 12].item() == MARK, tokens[1, 13:15].tolist() == facts[1].tolist()
    (True, True)
    """
    width = 2 + task.value_tokens
    for place in places:
        whole(0, most=length - width).check("places", place)
    rng, rows = generator(seed, step=0, stream=2), len(places)
    keys = torch.randint(KEYS.start, KEYS.stop, (rows, 1), generator=rng)
    values = torch.randint(VALUES.start, VALUES.stop, (rows, task.value_tokens), generator=rng)
    facts = torch.cat([keys, values], 1)
    tokens = task.noise(rows, length, rng)
    needle = torch.cat([torch.full_like(keys, MARK), facts], 1)  # [rows, width]
    tokens.scatter_(1, torch.as_tensor(places)[:, None] + torch.arange(width), needle)
    return tokens, facts


def ask(model: Any, state: ModelState | None, facts: Tensor) -> Tensor:
    """The probability of every token where the value is due, `[rows, value_tokens, vocab]`.

    After each answer, the model is told the right token.
    """
    question = torch.cat([torch.full_like(facts[:, :1], ASK), facts[:, :-1]], 1)
    logits, _ = model(question, state)  # the state after it does not matter
    return logits[:, 1:].softmax(-1)


@torch.no_grad()
def fade(
    model: Any, places: Sequence[int], moments: Iterable[int], kind: str = "pk", seed: int = 0
) -> Fading:
    """Read a haystack for each place, and ask for its needle at each moment."""
    moments = sorted(moments)
    tokens, facts = plant(Needle(kind), moments[-1], places, seed)
    said, state, read = [], None, 0
    for moment in moments:
        for part in tokens[:, read:moment].split(BLOCK, 1):
            if part.shape[1]:
                _, state = model(part, state)
        said.append(ask(model, state, facts))
        read = moment
    return Fading(torch.as_tensor(places), torch.tensor(moments), facts, torch.stack(said, 1))


@torch.no_grad()
def new_needles(
    model: Any, after: Iterable[int], wait: int = 256, rows: int = 8, kind: str = "pk",
    seed: int = 0,
) -> Tensor:  # fmt: skip
    """Read noise, then a needle, then `wait` more tokens: how likely is the right value?

    The mean over rows, one number for each amount of noise in `after`.
    """
    after, task = sorted(after), Needle(kind)
    width = 2 + task.value_tokens
    noise = task.noise(rows, after[-1] + width + wait, generator(seed, step=0, stream=3))
    needle, facts = plant(task, width, [0] * rows, seed)  # with no haystack around it
    state, read, found = None, 0, []
    for end in after:
        for part in noise[:, read:end].split(BLOCK, 1):
            _, state = model(part, state)
        read = end
        rest = noise[:, end + width : end + width + wait]
        _, then = model(torch.cat([needle, rest], 1), state)  # the reading goes on without it
        right = ask(model, then, facts).gather(-1, facts[:, 1:, None])
        found.append(right.squeeze(-1).prod(-1).mean())
    return torch.stack(found)


def old_needles(fading: Fading, most: int = 512) -> tuple[Tensor, Tensor]:
    """Tokens since the needle, and the mean probability of its value, for needles up to a place."""
    rows = fading.places <= most
    right, since = fading.right[rows], fading.moments - fading.places[rows, None]
    times = fading.moments[fading.moments <= fading.moments[-1] - most]
    # At each row's first moment that is at least this long after its needle.
    first = (since[:, None] >= times[:, None]).int().argmax(-1)  # [rows, times]
    return times, right.gather(1, first).mean(0)


# Needles at these places, asked for at these moments, are at each of these depths of a haystack of
# each of these lengths: one reading gives them all.
DEPTHS = (0.0, 0.25, 0.5, 0.75)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
PLACES = tuple(sorted({round(depth * length) for depth in DEPTHS for length in LENGTHS}))
MOMENTS = tuple(range(512, 16384 + 1, 512))


def fade_everywhere(model: Any, rows: int = 2, seed: int = 0) -> Fading:
    """Needles at all `PLACES`, in this many rows each, asked for at all `MOMENTS`."""
    return fade(model, [place for place in PLACES for _ in range(rows)], MOMENTS, seed=seed)


def by_depth(fading: Fading) -> Tensor:
    """The mean probability of the right value, `[DEPTHS, LENGTHS]`, from `fade_everywhere`."""
    right, places, moments = fading.right, fading.places, fading.moments.tolist()
    columns = [
        [right[places == round(depth * length), moments.index(length)].mean() for depth in DEPTHS]
        for length in LENGTHS
    ]
    return torch.tensor(columns).T
