"""How long things take, measured on a machine that may be busy with other things."""

import time
from collections.abc import Callable, Hashable
from typing import TypeVar

import torch

Name = TypeVar("Name", bound=Hashable)


def fastest(sides: dict[Name, Callable[[], object]], rounds: int = 7) -> dict[Name, float]:
    """Seconds of each side's fastest call; the sides take turns, so that a busy spell hits all.

    In one thread, and in processor time rather than wall time where the clock is fine enough, so
    that what other programs do at the same time hardly matters.

    >>> seconds = fastest({"little": lambda: sum(range(100)), "much": lambda: sum(range(100_000))})
    >>> seconds["little"] < seconds["much"]
    True
    """
    threads = torch.get_num_threads()
    fine = time.get_clock_info("process_time").resolution < 1e-5
    clock = time.process_time if fine else time.perf_counter
    torch.set_num_threads(1)
    try:
        for run in sides.values():
            run()  # the first call is slower and does not count
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(rounds):
            for name, run in sides.items():
                began = clock()
                run()
                best[name] = min(best[name], clock() - began)
        return best
    finally:
        torch.set_num_threads(threads)


def straight_line(x: list[float], y: list[float]) -> tuple[float, float, float]:
    """The least-squares line `y = a + b x` and the share of the variance it explains: a, b, R².

    >>> straight_line([1, 2, 3], [3, 5, 7])
    (1.0, 2.0, 1.0)
    """
    X, Y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    dx, dy = X - X.mean(), Y - Y.mean()
    slope = (dx * dy).sum() / dx.square().sum()
    left = (dy - slope * dx).square().sum()
    explained = 1 - left / dy.square().sum()
    return (Y.mean() - slope * X.mean()).item(), slope.item(), explained.item()
