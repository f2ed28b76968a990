"""What a model can be trained on: each task makes batches of tokens and targets from a seed.

A task is any object like `Task` below. Those in `TASKS` have names: `minititans train --task NAME`.
To add one, write a class in a file of its own and add a line here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from minititans.arguments import shown

if TYPE_CHECKING:
    import torch
    from torch import Tensor

IGNORE = -100  # a target that does not count, as in torch's cross_entropy


class Task(Protocol):
    """What training needs from a task.

    vocab_size: tokens are from 0 to `vocab_size - 1`
    held_out:   bytes `[time]` that no batch contains, for evaluation; None where there is no text,
                and new batches are used instead
    """

    @property
    def vocab_size(self) -> int: ...

    @property
    def held_out(self) -> "Tensor | None": ...

    def batch(
        self, size: int, length: int, generator: "torch.Generator"
    ) -> "tuple[Tensor, Tensor]":
        """Tokens and targets, each `[size, length]`, `IGNORE` where a target does not count.

        All randomness comes from `generator`. A task may have two more things: `fingerprint`, a
        string that changes with the data, and, if it reads a stream, `position()`, which JSON can
        hold, with `seek(position)`: training stores where it was and returns there.
        """
        ...


# Name -> module and class; imported when needed, so that this file does without torch.
TASKS = {
    "text": ("minititans.tasks.text", "Text"),
    "copying": ("minititans.tasks.copying", "Copying"),
    "needle": ("minititans.tasks.needle", "Needle"),
}


def load_task(name: str, **options: Any) -> Task:
    """Make a task by its name.

    >>> load_task("copying").vocab_size
    64
    """
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"task: got {shown(name)}, expected one of {', '.join(sorted(TASKS))}")
    module, task = TASKS[name]
    return getattr(import_module(module), task)(**options)
