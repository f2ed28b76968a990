"""Claims: what a notebook says it found, checked by the run that says it.

A `claim` prints its sentence with a tick when its condition holds, and stops the notebook when it
does not. `does_not_reproduce` does the same for what the paper says and a run of this size does not
show. Both name the place in the paper that they are about: an equation, a section, a figure, or
`OURS` where the paper has nothing of the kind. `claim_list` collects the claims of the stored
notebooks in `docs/claims.md`.
"""

import re

HOLDS = "✓ "
ABSENT = "✗ not at this size: "
OURS = "ours"
PLACE = re.compile(r"(equations? \(\d+\)|sections? \d|figures? \d|table \d|appendix [A-Z]).*")


class ClaimError(AssertionError):
    """A sentence in a notebook is not true."""


def claim(sentence: str, condition, belongs_to: str) -> None:
    """Print the sentence with a tick; raise `ClaimError` when the condition is false.

    belongs_to: the equation, section or figure of the paper that the claim is about, as in
    "equation (12)"; it need not say the same. "ours" if nothing in the paper fits.

    >>> claim("two and two make four", 2 + 2 == 4, "equation (1)")
    ✓ two and two make four [equation (1)]
    """
    _check_words(sentence, belongs_to)
    if not _true(condition):
        raise ClaimError(f"this run does not show that {sentence}")
    print(f"{HOLDS}{sentence} [{belongs_to}]")


def does_not_reproduce(sentence: str, condition, belongs_to: str, because: str) -> None:
    """Say which of the paper's statements this run does not confirm, and why that may be.

    sentence: what the paper says; belongs_to: where; because: what we find instead, and why
    condition: true when the effect is absent here. The day it does appear, the notebook stops with
    a `ClaimError` and must be rewritten.

    >>> does_not_reproduce("more is better", 1 >= 1, "figure 7", because="one is all there is")
    ✗ not at this size: more is better [figure 7]
      because one is all there is
    """
    _check_words(sentence, belongs_to)
    if not _true(condition):
        raise ClaimError(f"this run does show, against what the notebook says, that {sentence}")
    print(f"{ABSENT}{sentence} [{belongs_to}]")
    print(f"  because {because}")


def _true(condition) -> bool:
    """A plain true or false: a number, almost any of which would count as true, is refused."""
    if isinstance(condition, bool):
        return condition
    if "bool" in str(getattr(condition, "dtype", "")) and condition.shape == ():
        return bool(condition)  # of torch or numpy
    raise TypeError(
        f"condition: got {condition!r}, expected True or False; compare it, as in `error < 0.1`, "
        "and for many values use `.all()`"
    )


def _check_words(sentence: str, belongs_to: str) -> None:
    """One line each, and no bracket at the end: that is where the reference goes."""
    if not sentence.strip() or "\n" in sentence + belongs_to or sentence.endswith("]"):
        raise ValueError(f"sentence: got {sentence!r}, expected one line that does not end in ]")
    if belongs_to != OURS and not PLACE.fullmatch(belongs_to):
        raise ValueError(
            f"belongs_to: got {belongs_to!r}, expected a place in the paper, as in "
            f'"equation (12)", "section 3.1" or "figure 7", or {OURS!r}'
        )
