"""A needle in a haystack: find one fact in a long text, and say it when asked.

The paper's S-NIAH (section 5.3) on a small scale. A row of tokens is

    noise … MARK key value … noise … ASK key value

and only the value after the question counts. Three kinds:

    pk  a passkey, one token, in a sentence that repeats forever
    n   a number, two tokens, in noise that never repeats
    w   a word, four tokens, in noise that never repeats

Noise, keys and values are different tokens, and a key is marked only once before it is asked for.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minititans.arguments import SEEDS, choice, shown, whole
from minititans.tasks import IGNORE
from minititans.tensors import check_batch

VALUE_TOKENS = {"pk": 1, "n": 2, "w": 4}

MARK, ASK = 0, 1
KEYS = range(2, 16)  # tokens that name a needle
VALUES = range(16, 32)
NOISE = range(32, 64)
SENTENCE = 8  # words of the sentence that "pk" repeats


@dataclass(frozen=True)
class Needle:
    """Rows with a number of needles, all of which are asked for at the end, in any order.

    kind:    "pk", "n" or "w"
    needles: how many a row has: several make training quicker; models are tested with one

    >>> tokens, targets = Needle("w", needles=1).batch(1, 24, generator(seed=0, step=0))
    >>> start = int((tokens[0] == MARK).nonzero())
    >>> tokens[0, start + 1 : start + 6].tolist() == tokens[0, -5:].tolist()  # key and value
    True
    >>> targets[0, -5:-1].tolist() == tokens[0, -4:].tolist()  # the value, token by token
    True
    """

    kind: str = "pk"
    needles: int = 4

    held_out = None
    vocab_size = 64

    def __post_init__(self):
        choice(*VALUE_TOKENS).check("kind", self.kind)
        whole(1, most=len(KEYS)).check("needles", self.needles)

    @property
    def value_tokens(self) -> int:
        return VALUE_TOKENS[self.kind]

    @property
    def shortest(self) -> int:
        """The length of a row without noise."""
        return 2 * self.needles * (2 + self.value_tokens)

    @property
    def chance(self) -> float:
        """How often a random guess among all values is right."""
        return len(VALUES) ** -self.value_tokens

    def batch(self, size: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Tokens and targets, each `[size, length]`; `IGNORE` where nothing is asked."""
        check_batch(size, length, generator)
        if length < self.shortest:
            raise ValueError(
                f"length: got {length}, expected at least {self.shortest} "
                f"for {self.needles} needles of kind {self.kind!r}"
            )
        n, width = self.needles, 2 + self.value_tokens
        keys = KEYS.start + torch.rand(size, len(KEYS), generator=generator).argsort(1)[:, :n]
        values = torch.randint(
            VALUES.start, VALUES.stop, (size, n, self.value_tokens), generator=generator
        )
        facts = torch.cat([keys[..., None], values], -1)  # [size, n, 1 + value_tokens]

        # A needle goes before noise word number `cut`; the needles before it push it back.
        cuts = torch.randint(length - self.shortest + 1, (size, n), generator=generator)
        starts = cuts.sort(1).values + width * torch.arange(n)
        places = starts[..., None] + torch.arange(width)  # [size, n, width]
        tokens = self.noise(size, length, generator)
        tokens.scatter_(1, places.flatten(1), _with_marker(MARK, facts).flatten(1))

        order = torch.rand(size, n, generator=generator).argsort(1)
        asked = facts.gather(1, order[..., None].expand_as(facts))
        tokens[:, -n * width :] = _with_marker(ASK, asked).flatten(1)
        answers = torch.full((size, n, width), IGNORE)
        answers[:, :, 1:-1] = asked[:, :, 1:]  # one earlier than the token itself
        targets = torch.full_like(tokens, IGNORE)
        targets[:, -n * width :] = answers.flatten(1)
        return tokens, targets

    def noise(self, size: int, length: int, generator: torch.Generator) -> Tensor:
        """Haystacks without a needle, `[size, length]`."""
        if self.kind == "pk":
            first = torch.randint(SENTENCE, (size, 1), generator=generator)
            return NOISE.start + (first + torch.arange(length)) % SENTENCE
        return torch.randint(NOISE.start, NOISE.stop, (size, length), generator=generator)


def _with_marker(marker: int, facts: Tensor) -> Tensor:
    """`[marker, key, value …]` for every `[key, value …]` in the last dimension."""
    return torch.cat([torch.full_like(facts[..., :1], marker), facts], -1)


@torch.no_grad()
def accuracy(
    model: Any,
    task: Needle,
    length: int,
    samples: int = 128,
    seed: int = 0,
    batch: int = 16,
    block: int = 1024,
) -> float:
    """How often `model` says the whole value, with one needle anywhere in `length` tokens.

    model: any function from tokens `[batch, time]` and a state to logits and the next state. It
           reads `block` tokens at a time, so that long rows need no more memory than short ones.

    >>> def guess(tokens, state):  # always says the first of the 16 values
    ...     return torch.nn.functional.one_hot(torch.full_like(tokens, VALUES.start), 64), None
    >>> 0 < accuracy(guess, Needle("pk"), length=32) < 0.2
    True
    """
    if not callable(model):
        raise TypeError(f"model: got {shown(model)}, expected a function (tokens, state)")
    if not isinstance(task, Needle):
        raise TypeError(f"task: got {shown(task)}, expected a Needle")
    for name, number in {"samples": samples, "batch": batch, "block": block}.items():
        whole(1).check(name, number)
    task, hits = replace(task, needles=1), 0
    for number, first in enumerate(range(0, samples, batch)):
        size = min(batch, samples - first)
        rows = task.batch(size, length, generator(seed, number, stream=1))
        right, state = torch.ones(size, dtype=torch.bool), None
        for tokens, targets in zip(*(row.split(block, dim=1) for row in rows)):
            logits, state = model(tokens, state)
            right &= ((logits.argmax(-1) == targets) | (targets == IGNORE)).all(1)
        hits += int(right.sum())
    return hits / samples


def generator(seed: int, step: int, stream: int = 0) -> torch.Generator:
    """The random numbers of one step: training takes stream 0, reading stream 1."""
    for name, number in {"seed": seed, "step": step, "stream": stream}.items():
        whole(0, most=SEEDS).check(name, number)
    mixed = np.random.SeedSequence([seed, step, stream]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(mixed[0]))
