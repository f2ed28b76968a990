"""What each argument may be, declared once: its type, its range and the words of its error.

`ARGUMENTS` is the table, and `check(dim=0)` checks a value against it; an `Argument` also works on
its own, where a name means something special. Nothing here imports torch, so a command line can
use the same declarations and still answer `--help` at once.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

LARGEST = 10**9  # of any size or count; beyond it torch's own errors speak of overflow and bytes
SEEDS = 2**63 - 1  # the largest number that every generator of torch takes


@dataclass(frozen=True)
class Argument:
    """One argument. kind: `int`, `float` (takes whole numbers too), `bool` or `str`.

    least, most:  bounds that a number may reach
    above, below: bounds that it may not reach
    choices:      the strings that are allowed; empty for any
    none:         what None means; without it None is refused

    >>> Argument(float, least=0, below=1).expected
    'a finite number of at least 0 and below 1'
    >>> Argument(int, least=1, none="all of them").check("top_k", 0)
    Traceback (most recent call last):
    ValueError: top_k: got 0, expected a whole number of at least 1, or None for all of them
    """

    kind: type
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    none: str | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError that names the argument, unless `value` is allowed."""
        if not self.fits(value):
            huge = self.kind is int and isinstance(value, int) and self.most is None
            allowed = replace(self, most=LARGEST) if huge and value > LARGEST else self
            scalar = getattr(value, "ndim", None) == 0  # of numpy or torch
            hint = f"; use {name}.item()" if scalar and self.fits(value.item()) else ""
            raise ValueError(f"{name}: got {shown(value)}, expected {allowed.expected}{hint}")

    def fits(self, value: Any) -> bool:
        if value is None:
            return self.none is not None
        if self.kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if isinstance(value, bool) or self.kind is bool:
            return isinstance(value, bool) and self.kind is bool
        if not isinstance(value, int if self.kind is int else (int, float)):
            return False
        largest = sys.float_info.max if self.kind is float else self.most or LARGEST
        return (
            abs(value) <= largest  # so neither NaN nor infinite
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    @property
    def expected(self) -> str:
        """What is allowed, in words."""
        if self.kind is str:
            words = f"one of {', '.join(map(repr, self.choices))}" if self.choices else "a string"
        elif self.kind is bool:
            words = "True or False"
        else:
            known = {"at least": self.least, "above": self.above}
            known |= {"at most": self.most, "below": self.below}
            bounds = " and ".join(f"{name} {x:,}" for name, x in known.items() if x is not None)
            of = " of " if bounds.startswith("at") else " "
            number = "a whole number" if self.kind is int else "a finite number"
            words = number + of + bounds if bounds else number
        return words if self.none is None else f"{words}, or None for {self.none}"


def whole(least: int, most: int | None = None, none: str | None = None) -> Argument:
    return Argument(int, least=least, most=most, none=none)


def choice(*names: str) -> Argument:
    return Argument(str, choices=names)


SWITCH = Argument(bool)

ARGUMENTS = {
    # a model
    "variant": Argument(str),
    "vocab_size": whole(1),
    "dim": whole(1),
    "layers": whole(1, 10_000),
    "heads": whole(1),
    "ff": whole(1, none="8/3 of dim"),
    "tie": SWITCH,
    "window": whole(1),
    "segment": whole(1),
    "persistent": whole(0),
    "queries": whole(1),
    "keys": whole(1),
    "prefix": whole(0),
    "literal": SWITCH,
    "checkpoint": SWITCH,
    "target": Argument(float, above=0, most=10**12),
    # a memory
    "depth": whole(1, 4),
    "expansion": whole(1),
    "chunk_size": whole(1),
    "momentum": SWITCH,
    "forgetting": SWITCH,
    "conv": whole(0),
    "backend": choice("auto", "sequential", "chunked", "fast", "scan", "triton"),
    "gates": choice("token", "chunk"),
    "exact": SWITCH,
    "residual": SWITCH,
    "theta_start": Argument(float, above=0, below=1),
    "eta_start": Argument(float, above=0, below=0.7),
    "alpha_start": Argument(float, above=0, below=1),
    # generation
    "max_new_tokens": whole(0),
    "temperature": Argument(float, least=0),
    "top_k": whole(1, none="all tokens"),
    "seed": whole(0, SEEDS, none="a different result each time"),
    # batches of a task
    "size": whole(1),
    "length": whole(1),
}


def check(**values: Any) -> None:
    """Refuse the first value that `ARGUMENTS` does not allow, by its name.

    >>> check(dim=64, conv=-1)
    Traceback (most recent call last):
    ValueError: conv: got -1, expected a whole number of at least 0
    """
    for name, value in values.items():
        ARGUMENTS[name].check(name, value)


def check_heads(dim: int, heads: int) -> None:
    """Check the sizes of a layer whose heads share its channels equally."""
    check(dim=dim, heads=heads)
    if dim % heads:
        raise ValueError(f"dim: got {dim}, expected a multiple of heads, {heads}")


def shown(value: Any) -> str:
    """A value as an error shows it: short, whatever it is."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of more than 4300 digits
        text = ""
    short = 0 < len(text) <= 60 and "\n" not in text
    return text if short else f"a value of type {type(value).__name__}"
