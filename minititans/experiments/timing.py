"""How long things take, measured on a machine that may be busy with other things."""

import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
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
        return {name: min(each) for name, each in in_turns(sides, range(rounds), clock).items()}
    finally:
        torch.set_num_threads(threads)


def in_turns(
    sides: Mapping[Name, Callable[[], object]],
    rounds: Iterable[object],
    clock: Callable[[], float] = time.perf_counter,
    calls: Mapping[Name, int] | None = None,
) -> dict[Name, list[float]]:
    """Seconds per call: for each side one number per round, the median of its calls.

    calls: of each side in a round, 1 if it is not named. A fast side may run several times while a
    slow one runs once, so that both are seen under the same load.
    """
    for run in sides.values():
        run()  # the first call is slower and does not count
    seconds: dict[Name, list[float]] = {name: [] for name in sides}
    for _ in rounds:
        for name, run in sides.items():
            times = (timed(run, clock) for _ in range((calls or {}).get(name, 1)))
            seconds[name].append(statistics.median(times))
    return seconds


def timed(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long one call takes, in seconds."""
    start = clock()
    run()
    return clock() - start


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
