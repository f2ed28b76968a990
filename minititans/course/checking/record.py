"""What one call of a student's function did: plain data, for this process or another to judge."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

PROBLEMS = (
    "", "not a function", "signature", "not written", "raised", "forbidden", "too slow", "stopped",
)  # fmt: skip


@dataclass
class Attempt:
    """What one call did.

    problem:   why there are no values: "raised", "too slow", ...; `detail` says it in words
    values:    each result by its name, `M` or `weights[1]`: a tensor or a whole number
    odd:       results that are neither, with their type in words
    gradients: the derivative with respect to each tensor among the arguments; None where none flows
    changed:   the arguments that the call changed
    printed:   the beginning of what it printed
    counts:    in the last attempt at a task that forbids loops: operations for fewer tokens and for
               more
    """

    problem: str = ""
    detail: str = ""
    values: dict[str, Tensor | int] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    printed: str = ""
    counts: list[int] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """For `torch.save`; `torch.load(..., weights_only=True)` reads it back."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Attempt":
        """Refuse what `to_plain` cannot have written: it may come from a hostile process."""
        empty = asdict(cls())
        if not isinstance(plain, dict) or plain.keys() != empty.keys():
            raise ValueError(f"plain: expected a dict with {', '.join(empty)}")
        for name, value in empty.items():
            if type(plain[name]) is not type(value):
                raise ValueError(f"plain: {name} is a {type(plain[name]).__name__}")
        if plain["problem"] not in PROBLEMS:
            raise ValueError(f"plain: problem is {plain['problem'][:40]!r}")
        leaves = {"values": (Tensor, int), "odd": (str,), "gradients": (Tensor, type(None))}
        for name, allowed in leaves.items():
            for key, leaf in plain[name].items():
                if type(key) is not str or type(leaf) not in allowed:
                    raise ValueError(f"plain: {name} holds a {type(leaf).__name__}")
        if not all(type(name) is str for name in plain["changed"]):
            raise ValueError("plain: changed holds something other than names")
        if not all(type(count) is int for count in plain["counts"]) or len(plain["counts"]) == 1:
            raise ValueError("plain: counts are not whole numbers, one for each length")
        return cls(**{f.name: plain[f.name] for f in fields(cls)})
