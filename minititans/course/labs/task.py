"""What a lab is made of: tasks, each with its reference, inputs, typical mistakes and hints.

A lab is a file `labNN.py` beside this one. It reads like this:

    LAB = Lab("02", "Surprise is a gradient")

    @LAB.task("02.3", "Surprise, by hand", returns="u [d_value, d_key]", inputs=pair, hints=(…))
    def surprise(W, key, value):                  # the reference, which answers are held to
        …

    @surprise.mistake("sign of the gradient", "Your answer points the other way: …")
    def _(W, key, value):                         # the name a teacher sees, what the student reads
        return -surprise(W, key, value)           # a task can be called: that is its reference
"""

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CASES = 12  # inputs that one check looks at
LARGE = 10  # the case with sizes of more than four


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give: `answer` behaves as theirs does, `says` helps them."""

    name: str
    says: str
    answer: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Task:
    """One function for the student to write.

    id:        "02.3"
    title:     a few words, for lists
    reference: the right answer; `function`, its name, is the name that the student defines
    inputs:    from a `Draw` to the arguments, in the order of the function's signature
    returns:   a name and axes for each result, "W [d_value, d_key]"; one result or a tuple
    hints:     three, each says more than the one before
    gradients: whether derivatives by the tensors among the arguments are compared too
    forbids:   "autograd", "loop": ways to the right numbers that the task's text rules out
    """

    id: str
    title: str
    reference: Callable[..., Any]
    inputs: Callable[["Draw"], dict[str, Any]]
    returns: tuple[str, ...]
    hints: tuple[str, str, str]
    gradients: bool = True
    forbids: tuple[str, ...] = ()
    mistakes: list[Mistake] = field(default_factory=list)

    def __call__(self, *args, **kwargs):
        return self.reference(*args, **kwargs)

    @property
    def function(self) -> str:
        return self.reference.__name__

    @property
    def lab(self) -> str:
        return self.id.split(".")[0]

    @property
    def signature(self) -> str:
        return f"{self.function}({', '.join(inspect.signature(self.reference).parameters)})"

    @property
    def names(self) -> list[str]:
        """What the results are called: "W" of "W [d_value, d_key]"."""
        return [text.split(" ")[0] for text in self.returns]

    def mistake(self, name: str, says: str) -> Callable:
        """Add the decorated function to the bank of typical mistakes."""

        def add(answer):
            self.mistakes.append(Mistake(name, says, answer))
            return answer

        return add

    def cases(self, seed: int) -> list[dict[str, Any]]:
        """The arguments that a check with this seed calls the function with."""
        return [self.inputs(Draw(seed, case)) for case in range(CASES)]

    def draws(self, seed: int) -> list["Draw"]:
        """What was drawn for each of these cases: sizes, tokens, gates at their limits."""
        draws = [Draw(seed, case) for case in range(CASES)]
        for draw in draws:
            self.inputs(draw)
        return draws

    def of_length(self, seed: int, tokens: int) -> dict[str, Any]:
        """The arguments of the large case, with so many tokens."""
        return self.inputs(Draw(seed, LARGE, tokens))


@dataclass(frozen=True)
class Lab:
    """The tasks that belong to one notebook; `number` is the notebook's, "02"."""

    number: str
    title: str
    tasks: list[Task] = field(default_factory=list)

    def task(
        self,
        id: str,
        title: str,
        *,
        inputs: Callable[["Draw"], dict[str, Any]],
        returns: str | tuple[str, ...],
        hints: tuple[str, str, str],
        gradients: bool = True,
        forbids: tuple[str, ...] = (),
    ) -> Callable[[Callable], Task]:
        """Make the decorated function the reference of a task of this lab."""

        def add(reference):
            names = (returns,) if isinstance(returns, str) else returns
            task = Task(id, title, reference, inputs, names, hints, gradients, forbids)
            self.tasks.append(task)
            return task

        return add


class Draw:
    """Sizes, tensors and gates for one case, from a seed; everything is float64.

    Case 0 is a small one to calculate by hand: every size is 3 and numbers have one decimal.
    Case 1 has size 1 throughout. In every third case half of the gates are exactly 0 or 1. Case
    `LARGE` has sizes beyond those of all other cases, no two of them equal. The rest is random,
    but every size has its turn.
    """

    def __init__(self, seed: int, case: int, tokens: int | None = None):
        self.seed, self.case = seed, case
        self.length = tokens  # in place of what `tokens` would draw
        self.limits = case % 3 == 2
        self.at_limits = False  # whether a gate really was exactly at one of them
        self.gates = 0  # how many were drawn
        self.sizes: list[int] = []
        self.time: int | None = None  # how many tokens
        self.turns = 0  # how many whole numbers were drawn
        self.rng = torch.Generator().manual_seed(1_000 * seed + case)

    def size(self, low: int = 1, high: int = 4) -> int:
        """Of an axis: usually from low to high, in the large case a little more."""
        if self.case == LARGE:
            free = [n for n in range(high + 1, high + 6) if n not in self.sizes]
            free = free or list(range(high + 1, high + 6))
            self.sizes.append(free[self._deal(0, len(free) - 1)])
        else:
            self.sizes.append(self._deal(low, high))
        return self.sizes[-1]

    def tokens(self, high: int = 4) -> int:
        """How many there are in a sequence: from 1 to high, in the large case from 12 to 20."""
        if self.length is not None:
            self.time = self.length
        else:
            self.time = self._deal(12, 20) if self.case == LARGE else self._deal(1, high)
        self.sizes.append(self.time)
        return self.time

    def number(self, low: int, high: int) -> int:
        """A whole number that must not be larger than high, nor smaller than low."""
        return high if self.case == LARGE else self._deal(low, high)

    def _deal(self, low: int, high: int) -> int:
        self.turns += 1
        if self.case in (0, 1):
            return max(low, min(high, 3 if self.case == 0 else 1))
        # Cases draw from one shuffled pack: every number comes once before any comes twice.
        turn = self.case - 2 - (self.case > LARGE)
        rounds, place = divmod(turn, high - low + 1)
        pack = list(range(low, high + 1))
        random.Random(f"{self.seed} {self.turns} {rounds}").shuffle(pack)
        return pack[place]

    def normal(self, *shape: int) -> Tensor:
        numbers = torch.randn(shape, generator=self.rng, dtype=torch.float64)
        return numbers.round(decimals=1) if self.case == 0 else numbers

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
            self.at_limits |= bool((turn % 2 == 1).any())
        self.gates += 1
        values = low + (high - low) * share
        return values.round(decimals=1) if self.case == 0 else values
