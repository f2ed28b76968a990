"""The inputs of one case: sizes, tensors and gates, drawn from a seed or laid down by a corner."""

import random
from collections.abc import Callable
from itertools import chain, count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# What a corner lays down, by the name of a size or of an argument: a whole number for a size, a
# number for every entry of an argument, or a function that changes what was drawn for it.
Corner = dict[str, int | float | Callable[[Tensor], Tensor]]

GATES = ("theta", "eta", "alpha", "gate")
SMALL, ONES, LARGE, EQUAL = 0, 1, 10, 12  # the cases that are like no other
DIFFERENT = (2, 4, 6, 5)  # sizes of a small case: no two are equal, and none is its 3 tokens


class Draw:
    """Sizes, tensors and gates for one case; everything is float64.

    Case `SMALL` is for calculating by hand: small sizes, no two equal, numbers with one decimal.
    In case `ONES` every size is 1, in case `EQUAL` every size is 3. Case `LARGE` has sizes beyond
    those of all others. The rest is random, but every size has its turn, and in every third case
    half of the gates are exactly 0 or 1. A corner has the sizes of `SMALL` where it names none.
    """

    def __init__(
        self, seed: int, case: int, tokens: int | None = None, corner: Corner | None = None
    ):
        self.seed, self.case, self.corner = seed, case, corner or {}
        self.plain = case == SMALL or corner is not None
        self.length = tokens  # in place of what `tokens` would draw
        self.limits = case % 3 == 2 and not self.plain
        self.at_limits = False  # whether a gate is exactly 0 or exactly 1
        self.gates = 0  # how many were drawn
        self.sizes: list[int] = []
        self.lowest: dict[str, int] = {}  # how small each size or number may be, by its name
        self.time: int | None = None  # how many tokens
        self.turns = 0  # how many whole numbers were drawn
        self.different = chain(DIFFERENT, count(7))
        self.rng = torch.Generator().manual_seed(1_000 * seed + case)

    def size(self, name: str = "", low: int = 1, high: int = 4) -> int:
        """The size of an axis: usually from low to high, in the large case a little more."""
        self.lowest[name] = low
        if name in self.corner:
            size = self.corner[name]
        elif self.plain:
            size = next(self.different)
        elif self.case == LARGE:
            free = [n for n in range(high + 1, high + 6) if n not in self.sizes]
            free = free or list(range(high + 1, high + 6))
            size = free[self._deal(0, len(free) - 1)]
        else:
            size = self._deal(low, high)
        self.sizes.append(size)
        return size

    def tokens(self, high: int = 4) -> int:
        """How many tokens a sequence has: from 1 to high, in the large case from 12 to 20."""
        self.lowest["time"] = 1
        if self.length is not None:
            self.time = self.length
        elif self.plain:
            self.time = self.corner.get("time", 3)
        else:
            self.time = self._deal(12, 20) if self.case == LARGE else self._deal(1, high)
        self.sizes.append(self.time)
        return self.time

    def number(self, name: str, low: int, high: int) -> int:
        """A whole number that must not be larger than high, nor smaller than low."""
        self.lowest[name] = low
        if self.plain:
            return max(low, min(high, self.corner.get(name, 2)))
        return high if self.case == LARGE else self._deal(low, high)

    def _deal(self, low: int, high: int) -> int:
        self.turns += 1
        if self.case in (ONES, EQUAL):
            return max(low, min(high, 1 if self.case == ONES else 3))
        # Cases draw from one shuffled pack: every number comes once before any comes twice.
        turn = self.case - 2 - (self.case > LARGE)
        rounds, place = divmod(turn, high - low + 1)
        pack = list(range(low, high + 1))
        random.Random(f"{self.seed} {self.turns} {rounds}").shuffle(pack)
        return pack[place]

    def normal(self, *shape: int) -> Tensor:
        numbers = torch.randn(shape, generator=self.rng, dtype=torch.float64)
        return numbers.round(decimals=1) if self.case == SMALL else numbers

    def unit(self, *shape: int) -> Tensor:
        """Vectors of length 1 along the last axis."""
        return F.normalize(self.normal(*shape), dim=-1)

    def gate(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Numbers between low and high, in some cases many of them exactly low or exactly high.

        Which ones is not left to chance: every place has its turn at both.
        """
        share = 0.1 + 0.8 * torch.rand(shape, generator=self.rng, dtype=torch.float64)
        if self.limits:
            turn = (torch.arange(share.numel()).reshape(shape) + self.case // 3 + self.gates) % 4
            share = share.masked_fill(turn == 1, 0.0).masked_fill(turn == 3, 1.0)
        self.gates += 1
        values = low + (high - low) * share
        return values.round(decimals=1) if self.case == SMALL else values

    def finish(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Put into the arguments what the corner lays down for them."""
        for name in arguments.keys() & self.corner.keys():
            arguments[name] = _change(arguments[name], self.corner[name])
        gates = [arguments[name] for name in GATES if name in arguments]
        self.at_limits = any(bool(((gate == 0) | (gate == 1)).any()) for gate in gates)
        return arguments


def _change(value: Any, to: float | Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor in an argument; whole numbers were drawn as the corner wants them."""
    if isinstance(value, Tensor):
        return to(value) if callable(to) else torch.full_like(value, to)
    if isinstance(value, list | tuple):
        return type(value)(_change(item, to) for item in value)
    return value
