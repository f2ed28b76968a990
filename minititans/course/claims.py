"""Claims: what a notebook says it found, checked by the run that says it.

A `claim` prints its sentence with a tick when its condition holds, and stops the notebook when it
does not. `does_not_reproduce` is the same for an effect that the paper reports and that a run of
this size does not show. `claim_list` collects what the stored notebooks claim in `docs/claims.md`.
"""

HOLDS = "✓ "
ABSENT = "✗ not at this size: "


class ClaimError(AssertionError):
    """A sentence in a notebook is not true."""


def claim(sentence: str, condition, paper: str = "") -> None:
    """Print the sentence with a tick; raise `ClaimError` when the condition is false.

    paper: the equation, section or figure that says so, as in "equation (12)".

    >>> claim("two and two make four", 2 + 2 == 4, "equation (1)")
    ✓ two and two make four [equation (1)]
    """
    _check_words(sentence, paper)
    if not _true(condition):
        raise ClaimError(f"this run does not show that {sentence}")
    print(HOLDS + sentence + (f" [{paper}]" if paper else ""))


def does_not_reproduce(sentence: str, condition, paper: str = "", because: str = "") -> None:
    """Say which of the paper's effects this run does not show, and why that may be.

    sentence: what the paper reports; condition: true when it is absent here, so that the day it
    does show, the notebook stops with a `ClaimError` and has to be written anew.

    >>> does_not_reproduce("more is better", 1 >= 1, "figure 7", because="one is all there is")
    ✗ not at this size: more is better [figure 7]
      because one is all there is
    """
    _check_words(sentence, paper)
    if not _true(condition):
        raise ClaimError(f"this run does show, against what the notebook says, that {sentence}")
    print(ABSENT + sentence + (f" [{paper}]" if paper else ""))
    if because:
        print(f"  because {because}")


def _true(condition) -> bool:
    """A plain true or false: a number, which would mostly count as true, is refused."""
    if isinstance(condition, bool):
        return condition
    if "bool" in str(getattr(condition, "dtype", "")) and condition.shape == ():
        return bool(condition)  # of torch or numpy
    raise TypeError(
        f"condition: got {condition!r}, expected True or False; compare it, as in `error < 0.1`, "
        "and for many values use `.all()`"
    )


def _check_words(sentence: str, paper: str) -> None:
    """One line each, and no bracket at the end: that is where the reference stands."""
    if not sentence.strip() or "\n" in sentence + paper or sentence.endswith("]"):
        raise ValueError(f"sentence: got {sentence!r}, expected one line that does not end in ]")
