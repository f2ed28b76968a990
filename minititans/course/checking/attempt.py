"""Call a student's function on the inputs of a check, and record everything that it does.

Nothing is judged here. What comes out is plain: tensors, numbers and words, and none of the
student's own objects, so that it can also be sent to another process and judged there.
"""

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from minititans.course.checking.errors import error_words, explained, is_a_hole, kind_of, where
from minititans.course.checking.guard import no_way_out, settings_kept
from minititans.course.checking.limit import Budget, OutOfTime, call_within
from minititans.course.checking.record import Attempt
from minititans.course.checking.rules import LENGTHS, Forbidden, operations, without_autograd
from minititans.course.labs.task import Task

LIMIT = 10.0  # seconds of work for all calls of one check; right answers need a tenth of one
PRINTED = 1_000  # characters of what a function prints that are kept
DEPTH = 4  # lists inside lists that are looked into


def run_all(
    task: Task, function: Any, seed: int | None = 0, limit: float = LIMIT, rules: bool = True
) -> list[Attempt]:
    """One attempt for each case of the task, up to the first that is hopeless.

    A last one repeats case 0, for functions whose answer depends on what was asked before.
    rules: whether to enforce what the task forbids; our own functions need not obey
    """
    return list(run_each(task, function, seed, limit, rules))


def run_each(
    task: Task, function: Any, seed: int | None, limit: float, rules: bool = True
) -> Iterator[Attempt]:
    """The same, one at a time, for a caller that may have seen enough before the last."""
    if not callable(function) or inspect.isclass(function):
        yield Attempt("not a function", kind_of(function))
        return
    budget = Budget(limit)
    cases = task.cases(seed)
    for number, arguments in enumerate([*cases, cases[0]]):
        attempt = run_one(task, function, arguments, budget, rules)
        if number == len(cases) and rules and "loop" in task.forbids and not attempt.problem:
            count_operations(task, function, budget, attempt)
        yield attempt
        if attempt.problem not in ("", "raised"):  # what raises here may tell more elsewhere
            return


def run_one(
    task: Task, function: Callable, arguments: dict[str, Any], budget: Budget, rules: bool = True
) -> Attempt:
    """Call the function with copies of the arguments, once for values and once for gradients."""
    attempt = Attempt()

    def call(arguments):
        forbidding = rules and "autograd" in task.forbids
        with without_autograd() if forbidding else contextlib.nullcontext():
            return call_within(budget, function, *arguments.values())

    def differentiate(arguments):
        answer = call(arguments)
        total = call_within(budget, _generic_sum, answer, task.names)
        leaves = dict(_leaves(arguments))
        if total is None:
            return dict.fromkeys(leaves)
        grads = call_within(budget, _gradients, total, list(leaves.values()))
        return dict(zip(leaves, grads))

    try:
        inspect.signature(function).bind(*arguments.values())
    except TypeError as error:
        return Attempt("signature", str(error))
    except Exception:  # builtins have no signature: the call itself will show
        pass
    with _noting(task, attempt):
        given = _copy(arguments)
        answer = call(given)
        _write_down(answer, task.names, attempt)
        attempt.changed = _changed(arguments, given)
        if task.gradients and not attempt.changed and not attempt.odd:
            attempt.gradients = differentiate(_copy(arguments, requires_grad=True))
    return attempt


def count_operations(task: Task, function: Callable, budget: Budget, attempt: Attempt) -> None:
    """How many operations the answer takes for fewer and for more tokens, all else being equal.

    Only operations on matrices count: a loop over numbers, such as gates, is allowed.
    """
    with _noting(task, attempt):
        for tokens in LENGTHS:
            given = _copy(task.of_length(tokens), requires_grad=True, at_least=2)
            answer = call_within(budget, function, *given.values())
            attempt.counts.append(operations(list(flatten(answer, task.names).values())))


@contextlib.contextmanager
def _noting(task: Task, attempt: Attempt) -> Iterator[None]:
    """Record whatever goes wrong inside as the attempt's problem, and keep what is printed."""
    printed = _Beginning()
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            settings_kept(),
            no_way_out(),
            torch.enable_grad(),
        ):
            yield
    except OutOfTime:
        attempt.problem = "too slow"
    except KeyboardInterrupt:
        attempt.problem = "stopped"
    except Forbidden as error:
        attempt.problem, attempt.detail = "forbidden", where(error)
    except BaseException as error:  # SystemExit too
        if is_a_hole(task, error):
            attempt.problem, attempt.detail = "not written", str(error)[:500]
        else:
            attempt.problem = "raised"
            attempt.detail = f"{error_words(error)}{where(error)}{explained(error)}"
    attempt.printed = attempt.printed or printed.getvalue()


def flatten(answer: Any, names: list[str]) -> dict[str, Any]:
    """Results by their names: a tuple's members, and `weights[0]` for what is in a list.

    >>> flatten((1, [2, 3]), ["position", "sizes"])
    {'position': 1, 'sizes[0]': 2, 'sizes[1]': 3}
    """
    if len(names) > 1 and isinstance(answer, tuple | list) and len(answer) == len(names):
        parts = dict(zip(names, answer))
    else:
        parts = {names[0] if len(names) == 1 else "your answer": answer}
    return {name: leaf for part in parts.items() for name, leaf in _walk(*part)}


def _walk(name: str, value: Any, depth: int = DEPTH):
    if isinstance(value, tuple | list) and depth > 0:
        for number, item in enumerate(value):
            yield from _walk(f"{name}[{number}]", item, depth - 1)
    else:
        yield name, value


def _write_down(answer: Any, names: list[str], attempt: Attempt) -> None:
    for name, leaf in flatten(answer, names).items():
        if isinstance(leaf, Tensor):
            # A copy, and a plain tensor even if the student's is of a class of its own.
            with torch._C.DisableTorchFunctionSubclass():
                if leaf.layout != torch.strided or leaf.device.type != "cpu":
                    attempt.odd[name] = f"a tensor on {leaf.device} with {leaf.layout}"
                elif leaf.is_complex():
                    attempt.odd[name] = "a tensor of complex numbers"
                else:
                    attempt.values[name] = leaf.detach().as_subclass(Tensor).clone()
        elif type(leaf) is int:
            attempt.values[name] = leaf
        else:
            attempt.odd[name] = kind_of(leaf)
    if not (attempt.values or attempt.odd):
        attempt.odd["your answer"] = kind_of(answer)


def _generic_sum(answer: Any, names: list[str]) -> Tensor | None:
    """A number that depends on every number in the answer, each with a weight of its own."""
    total = None
    with torch._C.DisableTorchFunctionSubclass():
        for number, leaf in enumerate(flatten(answer, names).values()):
            if isinstance(leaf, Tensor) and leaf.requires_grad:
                wave = torch.arange(leaf.numel(), dtype=leaf.dtype).add(number + 1).sin()
                part = (leaf.as_subclass(Tensor).reshape(-1) * wave).sum()
                total = part if total is None else total + part
    return total


def _gradients(total: Tensor, leaves: list[Tensor]) -> list[Tensor | None]:
    return [
        None if grad is None else grad.detach()
        for grad in torch.autograd.grad(total, leaves, allow_unused=True)
    ]


def _copy(
    arguments: dict[str, Any], requires_grad: bool = False, at_least: int = 0
) -> dict[str, Any]:
    """Copies of all tensors; a tensor that is there twice is still one tensor.

    at_least: tensors with this many axes or more require a gradient
    """
    copies: dict[int, Tensor] = {}

    def copy(value):
        if isinstance(value, Tensor):
            wanted = requires_grad and value.is_floating_point() and value.dim() >= at_least
            new = value.clone().requires_grad_(wanted)
            return copies.setdefault(id(value), new)
        if isinstance(value, list | tuple):
            return type(value)(copy(item) for item in value)
        return value

    return {name: copy(value) for name, value in arguments.items()}


def _leaves(arguments: dict[str, Any]):
    """The tensors among the arguments that can have a gradient, by name."""
    for name, value in arguments.items():
        for path, leaf in _walk(name, value):
            if isinstance(leaf, Tensor) and leaf.requires_grad:
                yield path, leaf


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Which arguments are no longer what they were: values, lengths, or the flag for gradients."""
    found = []
    for name in before:
        old, new = dict(_walk(name, before[name])), dict(_walk(name, after[name]))
        same = old.keys() == new.keys() and all(
            torch.equal(old[path], new[path]) and not new[path].requires_grad
            if isinstance(old[path], Tensor)
            else old[path] == new[path]
            for path in old
        )
        if not same:
            found.append(name)
    return found


class _Beginning(io.StringIO):
    """Keeps the beginning of what is printed: a function may print forever, or close the stream."""

    def write(self, text: str) -> int:
        super().write(text[: max(0, PRINTED - self.tell())])
        return len(text)

    def close(self) -> None:
        pass
