"""Results of the needle experiment: a file for each trained model, and tables of them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from minititans.experiments.storing import as_json, check_config, from_json, markdown, read, store

ORDER = ("mac", "mag", "mal", "lmm", "swa", "transformer")  # in tables; then all others by name


@dataclass(frozen=True)
class Reading:
    """How a model did at one length: `accuracy` of `samples` haystacks, with a binomial error."""

    length: int
    samples: int
    accuracy: float

    @property
    def error(self) -> float:
        """One standard error, with one hit and one miss added so that it is never zero.

        >>> round(Reading(length=256, samples=98, accuracy=0.5).error, 3)
        0.05
        """
        p = (self.accuracy * self.samples + 1) / (self.samples + 2)
        return (p * (1 - p) / (self.samples + 2)) ** 0.5


@dataclass(frozen=True)
class Attempt:
    """A training with this many steps, and the mean loss of its last 50."""

    steps: int
    loss: float


@dataclass(frozen=True)
class Result:
    """One trained model, and how it did."""

    variant: str
    seed: int
    parameters: int
    lr: float  # the highest learning rate
    attempts: list[Attempt]  # the one with the lowest loss counts
    seconds: float  # of training, all attempts
    losses: list[float]  # the mean of every 50 steps
    readings: list[Reading]

    @property
    def steps(self) -> int:
        """The steps of the attempt that counts."""
        return min(self.attempts, key=lambda attempt: attempt.loss).steps


def save(file: Path, result: Result, config: Any) -> None:
    """One result; config: the `NeedleConfig` it was made with."""
    readings = [asdict(r) | {"error": round(r.error, 4)} for r in result.readings]
    store(file, asdict(result) | {"readings": readings}, config.resolved())


def load(file: Path) -> Result:
    """A result that `save` wrote."""
    return from_json(Result, read(file))


def load_all(folder: str | Path) -> list[Result]:
    """Every result in a folder, sorted by `ORDER`, then by name and seed."""
    results = [load(file) for file in Path(folder).glob("*-seed*.json")]
    place = {variant: number for number, variant in enumerate(ORDER)}
    return sorted(results, key=lambda r: (place.get(r.variant, len(place)), r.variant, r.seed))


def check_folder(folder: Path, config: Any) -> None:
    """Refuse a folder with results of a configuration other than this `NeedleConfig`."""
    wanted = as_json(config.resolved())
    for file in sorted(folder.glob("*-seed*.json")):
        stored = read(file)["config"]
        # A setting of the model that did not exist yet counts as its default.
        stored["model"] = wanted["model"] | stored.get("model", {})
        check_config(file, stored, wanted)


def table(results: list[Result]) -> str:
    """Accuracy in percent, one row per variant with the mean of its seeds, as Markdown.

    The error is one standard error: over haystacks for one seed, and over seeds for several.
    Steps are those of the attempts that count, from the fewest to the most.

    >>> attempts, readings = [Attempt(1400, 0.002)], [Reading(256, 98, 0.5)]
    >>> print(table([Result("lmm", 0, 1000, 4e-3, attempts, 1.0, [], readings)]))
    | model | seeds | parameters | rate | steps | loss | 256 |
    | --- | --- | --- | --- | --- | --- | --- |
    | lmm | 1 | 1,000 | 0.004 | 1,400 | 0.0020 | 50 ± 5 |
    """
    lengths = sorted({reading.length for result in results for reading in result.readings})
    head = ["model", "seeds", "parameters", "rate", "steps", "loss", *(f"{n:,}" for n in lengths)]
    rows = []
    for variant, runs in by_variant(results).items():
        found = {length: f"{100 * p:.0f} ± {100 * e:.0f}" for length, p, e in summary(runs)}
        steps = sorted({result.steps for result in runs})
        loss = mean(min(attempt.loss for attempt in result.attempts) for result in runs)
        rows.append([
            variant, len(runs), f"{runs[0].parameters:,}", f"{runs[0].lr:g}",
            " to ".join(f"{n:,}" for n in dict.fromkeys((steps[0], steps[-1]))), f"{loss:.4f}",
            *(found.get(length, "") for length in lengths),
        ])  # fmt: skip
    return markdown(head, rows)


def by_variant(results: list[Result]) -> dict[str, list[Result]]:
    """Results grouped by variant, in the order in which variants first appear."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.variant, []).append(result)
    return groups


def found_at(results: list[Result], length: int) -> dict[str, tuple[float, float]]:
    """For each variant that was read at this length, its accuracy and error over its seeds.

    >>> runs = [Result("lmm", 0, 1000, 4e-3, [], 1.0, [], [Reading(256, 98, 0.5)])]
    >>> {name: (share, round(error, 2)) for name, (share, error) in found_at(runs, 256).items()}
    {'lmm': (0.5, 0.05)}
    """
    return {
        variant: (share, error)
        for variant, runs in by_variant(results).items()
        for at, share, error in summary(runs)
        if at == length
    }


def summary(runs: list[Result]) -> list[tuple[int, float, float]]:
    """`(length, accuracy, error)` over the seeds of one variant, for each length."""
    at: dict[int, list[Reading]] = {}
    for reading in (reading for result in runs for reading in result.readings):
        at.setdefault(reading.length, []).append(reading)
    rows = []
    for length, readings in sorted(at.items()):
        shares = [reading.accuracy for reading in readings]
        error = readings[0].error
        if len(shares) > 1:
            spread = torch.tensor(shares).std().item() / len(shares) ** 0.5
            pooled = Reading(0, sum(r.samples for r in readings), mean(shares)).error
            error = max(spread, pooled)
        rows.append((length, mean(shares), error))
    return rows
