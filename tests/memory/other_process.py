"""Run a test in a process with different environment variables.

Triton decides at its import whether kernels are compiled or interpreted (`TRITON_INTERPRET`),
so the tests of one kind share a process of their own, started when the first of them runs.
"""

import importlib
import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache, wraps
from multiprocessing import get_context


def with_environment(**variables: str):
    """A decorator: the test's body runs elsewhere, its result and its exceptions come back."""

    def decorate(test):
        @wraps(test)
        def run(**parameters):
            process = _process(tuple(sorted(variables.items())))
            done = process.submit(_call, test.__module__, test.__name__, parameters)
            done.result(timeout=600)

        return run

    return decorate


interpreted = with_environment(TRITON_INTERPRET="1")
compiled = with_environment(TRITON_INTERPRET="0")


@cache
def _process(variables: tuple[tuple[str, str], ...]) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1, get_context("spawn"), initializer=_set_environment, initargs=(dict(variables),)
    )


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def _call(module: str, test: str, parameters: dict) -> None:
    getattr(importlib.import_module(module), test).__wrapped__(**parameters)
