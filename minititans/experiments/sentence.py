"""A memory reads a sentence it has never seen, several times: what it guesses, what surprises it.

For every letter the memory is asked: after these letters, which one? Then it is shown the letter
and writes it down with the delta rule, (8) for a matrix. Nothing is trained beforehand.
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

DIM = 128


@dataclass(frozen=True)
class Reading:
    """A text read letter by letter.

    text:     the letters, one reading after another
    guesses:  what the memory expected before it saw each letter; "" where it had no idea
    surprise: the norm of the momentary surprise at each letter, `[time]`
    """

    text: str
    guesses: list[str]
    surprise: Tensor

    def right(self) -> Tensor:
        """Which guesses were right, `[time]`."""
        return torch.tensor([a == b for a, b in zip(self.text, self.guesses)])


@lru_cache(maxsize=4096)
def direction(name: str, seed: int = 0) -> Tensor:
    """A random unit vector, always the same for the same name: `[DIM]`.

    >>> a, b = direction("a"), direction("b")
    >>> torch.equal(a, direction("a")), bool((a @ b).abs() < 0.5)
    (True, True)
    """
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    return F.normalize(torch.randn(DIM, generator=generator), dim=0)


def pairs(text: str, look_back: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """For every letter a key, the letters before it, and a value, itself: `[time, DIM]` both.

    The text is taken as a ring, so that its first letter has letters before it too.
    """
    ring = text[-look_back:].rjust(look_back) + text
    contexts = [ring[i : i + look_back] for i in range(len(text))]
    keys = torch.stack([direction("after " + context, seed) for context in contexts])
    values = torch.stack([direction("letter " + letter, seed) for letter in text])
    return keys, values


@lru_cache(maxsize=64)
def read_text(
    text: str, look_back: int = 3, theta: float = 1.0, times: int = 3, seed: int = 0
) -> Reading:
    """Read a text several times with a matrix memory that starts with zeros.

    >>> reading = read_text("a rose is a rose is ", times=2)
    >>> int(reading.right()[:3].sum()), int(reading.right()[20:].sum())
    (0, 20)
    """
    keys, values = pairs(text, look_back, seed)
    letters = sorted(set(text))
    known = torch.stack([direction("letter " + letter, seed) for letter in letters])
    M = torch.zeros(DIM, DIM)
    guesses, surprise = [], []
    for key, value in zip(keys.repeat(times, 1), values.repeat(times, 1)):
        answer = M @ key
        score, best = (known @ answer).max(0)
        guesses.append(letters[best] if score > 0.5 else "")  # near enough to be meant
        error = value - answer
        surprise.append(error.norm())  # of the gradient error·keyᵀ, as the key has norm 1
        M = M + theta * torch.outer(error, key)
    return Reading(text * times, guesses, torch.stack(surprise))
