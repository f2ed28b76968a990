"""What a lab is made of: tasks, each with its reference, inputs, typical mistakes and hints.

A lab is a file `labNN.py` beside this one. It reads like this:

    LAB = Lab("02", "Surprise is a gradient")

    @LAB.task("02.3", "Surprise, by hand", returns="u [d_value, d_key]", inputs=pair, hints=(…))
    def surprise(M, key, value):                  # the reference, which answers are held to
        …

    @surprise.mistake("sign of the gradient", "Your answer points the other way: …")
    def _(M, key, value):                         # the name a teacher sees, what the student reads
        return -surprise(M, key, value)           # a task can be called: that is its reference
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minititans.course.labs.corners import usual_corners
from minititans.course.labs.draw import EQUAL, LARGE, SMALL, Corner, Draw

RANDOM = range(6, EQUAL)  # the cases that are different with every seed
FIXED_SEED = 10**6  # of the cases that are in every check; no check has a seed as large


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
    returns:   a name and axes for each result, "M [d_value, d_key]"; one result or a tuple
    hints:     three, each says more than the one before
    gradients: whether derivatives with respect to the arguments are compared too
    forbids:   "autograd", "loop": ways to the right numbers that the task's text rules out
    corners:   inputs that are in every check, beside those that every task has (see corners.py)
    never_zero: arguments for which a tensor of zeros makes no sense
    """

    id: str
    title: str
    reference: Callable[..., Any]
    inputs: Callable[["Draw"], dict[str, Any]]
    returns: tuple[str, ...]
    hints: tuple[str, str, str]
    gradients: bool = True
    forbids: tuple[str, ...] = ()
    corners: tuple[Corner, ...] = ()
    never_zero: tuple[str, ...] = ()
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
        """What the results are called: "M" of "M [d_value, d_key]"."""
        return [text.split(" ")[0] for text in self.returns]

    def mistake(self, name: str, says: str) -> Callable:
        """Add the decorated function to the bank of typical mistakes."""

        def add(answer):
            self.mistakes.append(Mistake(name, says, answer))
            return answer

        return add

    def cases(self, seed: int | None) -> list[dict[str, Any]]:
        """The arguments that a check with this seed calls the function with.

        The fixed ones come first: a wrong answer that they show is wrong whatever the seed. With
        `None` there are no others.
        """
        return [draw.finish(self.inputs(draw)) for draw in self._draws(seed)]

    def draws(self, seed: int | None) -> list[Draw]:
        """What was drawn for each of these cases: sizes, tokens, and which corner it is."""
        draws = self._draws(seed)
        for draw in draws:
            draw.finish(self.inputs(draw))
        return draws

    def _draws(self, seed: int | None) -> list[Draw]:
        small = Draw(FIXED_SEED, SMALL)
        corners = [*usual_corners(small, self.inputs(small), self.never_zero), *self.corners]
        fixed = [Draw(FIXED_SEED, case) for case in range(EQUAL + 1)]
        fixed += [Draw(FIXED_SEED, EQUAL + n, corner=c) for n, c in enumerate(corners, start=1)]
        return fixed + [Draw(seed, case) for case in RANDOM if seed is not None]

    def of_length(self, tokens: int) -> dict[str, Any]:
        """The arguments of the large case, with this many tokens."""
        return self.inputs(Draw(FIXED_SEED, LARGE, tokens))


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
        corners: tuple[Corner, ...] = (),
        never_zero: tuple[str, ...] = (),
    ) -> Callable[[Callable], Task]:
        """Make the decorated function the reference of a task of this lab."""

        def add(reference):
            names = (returns,) if isinstance(returns, str) else returns
            asked = (names, hints, gradients, forbids, corners, never_zero)
            task = Task(id, title, reference, inputs, *asked)
            self.tasks.append(task)
            return task

        return add
