"""What a student's function sets is put back, and what would end the notebook becomes an error."""

import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import torch


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)


# Settings of the whole process: how to get them, and how to set them.
SETTINGS = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, _set_default_device),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.get_num_threads, torch.set_num_threads),
    (np.geterr, lambda how: np.seterr(**how)),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (os.getcwd, os.chdir),
)
RANDOM = (
    (torch.get_rng_state, torch.set_rng_state),
    (np.random.get_state, np.random.set_state),
    (random.getstate, random.setstate),
)


@contextlib.contextmanager
def settings_kept() -> Iterator[None]:
    """Put back whatever is set inside: precision, random numbers, folder, warnings.

    >>> with settings_kept():
    ...     torch.set_default_dtype(torch.float64)
    >>> torch.get_default_dtype()
    torch.float32
    """
    before = [(get, put, get()) for get, put in SETTINGS]
    states = [(put, get()) for get, put in RANDOM]
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for get, put, value in before:
            if get() != value:
                put(value)
        for put, state in states:
            put(state)


@contextlib.contextmanager
def no_way_out() -> Iterator[None]:
    """Inside, `exit()`, `quit()` and `os._exit()` raise SystemExit, in this process.

    IPython's `exit` itself raises nothing: it asks the kernel to stop, which does so a little
    later. Python's own closes the standard input first.
    """
    process, leave, stdin = os.getpid(), os._exit, sys.stdin

    def refuse(code: int = 0) -> None:
        if os.getpid() != process:  # a fork may end as it likes
            leave(code)
        raise SystemExit(code)

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    try:
        os._exit, sys.stdin = refuse, io.StringIO()
        if shell is not None:
            shell.ask_exit = refuse
        yield
    finally:
        os._exit, sys.stdin = leave, stdin
        if shell is not None:
            shell.__dict__.pop("ask_exit", None)  # the class has its own
