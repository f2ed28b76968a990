"""What a task may forbid, and how a check notices: `forbids=("autograd",)` or `("loop",)`.

autograd: while the function runs, every way into autograd raises `Forbidden`
loop:     the function is called with fewer and with more tokens; a loop over the tokens takes
          more operations when there are more of them

Both notice what a student does in good faith. Someone who wants to get around them can.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

RULES = ("autograd", "loop")
LENGTHS = (12, 24)  # tokens; a scan in log₂ steps takes one step more for the second

# The ways into autograd. `_engine_run_backward` is behind every backward pass, under whatever name
# a student has imported it; the others are for a torch that has another name for it.
DOORS = [
    *((torch.func, name) for name in ("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd")),
    *((torch.autograd, name) for name in ("grad", "backward", "_engine_run_backward")),
    *((forward_ad, name) for name in ("enter_dual_level", "make_dual")),
]


class Forbidden(Exception):
    """The function used something that its task forbids."""


@contextlib.contextmanager
def without_autograd() -> Iterator[None]:
    """In this thread, derivatives raise `Forbidden`; afterwards everything is as before.

    >>> with without_autograd():
    ...     torch.func.grad(torch.sin)(torch.tensor(0.0))
    Traceback (most recent call last):
    ...
    minititans.course.checking.rules.Forbidden
    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    """
    owner = threading.get_ident()

    def closed(function: Callable) -> Callable:
        def door(*arguments, **options):
            if threading.get_ident() == owner:
                raise Forbidden
            return function(*arguments, **options)

        return door

    found = [(place, name, getattr(place, name)) for place, name in DOORS if hasattr(place, name)]
    try:
        for place, name, function in found:
            setattr(place, name, closed(function))
        yield
    finally:
        for place, name, function in found:
            setattr(place, name, function)


def operations(leaves: list[Any]) -> int:
    """How many operations lie between the tensors that require a gradient and these results.

    The tensors themselves count too.

    >>> x = torch.ones(3, requires_grad=True)
    >>> operations([x.exp().sin()]), operations([torch.stack([row + 1 for row in x])])
    (3, 6)
    """
    seen = {leaf.grad_fn for leaf in leaves if isinstance(leaf, Tensor)} - {None}
    todo = list(seen)
    while todo:
        before = {function for function, _ in todo.pop().next_functions} - {None} - seen
        seen |= before
        todo += before
    return len(seen)


def loops(counts: list[int]) -> bool:
    """Does each additional token take at least one more operation?"""
    return bool(counts) and counts[1] - counts[0] >= LENGTHS[1] - LENGTHS[0]
