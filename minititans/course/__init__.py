"""What the course in `notebooks/` needs besides the library.

claims.py                              what a notebook says it found
checks.py, hints.py, progress_file.py  what an exercise calls
labs/                                  the tasks: references, inputs, mistakes
checking/                              behind `check`: run an answer and judge it
grading/                               `minititans grade`: the same for a whole class
making/                                how notebooks and exercises are made
"""

from importlib import import_module

from minititans.course.claims import ClaimError, claim, does_not_reproduce

# Name -> module. Imported when first used: these need torch, and the command line, which takes its
# options for grading from this package, must answer even where torch is missing.
_LATER = {"check": "checks", "example": "checks", "hint": "hints", "progress": "progress_file"}
__all__ = ["ClaimError", "claim", "does_not_reproduce", *_LATER]


def __getattr__(name: str):
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
