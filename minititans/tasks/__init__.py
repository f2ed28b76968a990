"""What a model can be trained on: each task makes batches of tokens and targets from a seed.

A task is any object like `Task` below. The ones in `TASKS` can be named: `minititans train --task
NAME`. To add one, write a class of its own file and a line here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from minititans.arguments import shown

if TYPE_CHECKING:
    import torch
    from torch import Tensor

IGNORE = -100  # a target that counts for nothing, as in torch's cross_entropy


class Task(Protocol):
    """What training asks of a task.

    vocab_size: tokens are from 0 to `vocab_size - 1`
    held_out:   bytes `[time]` that no batch contains, to be read in one go; None where there is
                no text, and then new batches serve
    """

    @property
    def vocab_size(self) -> int: ...

    @property
    def held_out(self) -> "Tensor | None": ...

    def batch(
        self, size: int, length: int, generator: "torch.Generator"
    ) -> "tuple[Tensor, Tensor]":
        """Tokens and targets, each `[size, length]`, `IGNORE` where a target does not count.

        All that is random comes from `generator`. Two more things a task may have: `fingerprint`,
        a text that changes with the data, and, if it reads a stream, `position()`, which JSON can
        hold, with `seek(position)`: training stores where it was and goes back to it.
        """
        ...


# Name -> module and class; imported when asked for, so that this file needs no torch.
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
