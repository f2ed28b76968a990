"""What an experiment with needles gave: a file for each trained model, and tables of them."""

import json
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from minititans.files import write_whole

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
class Result:
    """One trained model, and how it did."""

    variant: str
    seed: int
    parameters: int
    seconds: float  # of training
    losses: list[float]  # the mean of every 50 steps
    readings: list[Reading]


def save(file: Path, result: Result, config: dict[str, Any]) -> None:
    """The result with all that it depends on, written whole or not at all."""
    readings = [asdict(r) | {"error": round(r.error, 4)} for r in result.readings]
    versions = {name: metadata.version(name) for name in ("minititans", "torch", "numpy")}
    versions["python"] = platform.python_version()
    about = {"config": config, "versions": versions, "threads": torch.get_num_threads()}
    text = json.dumps(asdict(result) | {"readings": readings} | about, indent=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(file) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def load(file: Path) -> Result:
    """A result that `save` wrote."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    readings = [Reading(r["length"], r["samples"], r["accuracy"]) for r in stored["readings"]]
    names = ("variant", "seed", "parameters", "seconds", "losses")
    return Result(**{name: stored[name] for name in names}, readings=readings)


def load_all(folder: str | Path) -> list[Result]:
    """Every result in a folder, sorted by `ORDER`, then by name and seed."""
    results = [load(file) for file in Path(folder).glob("*-seed*.json")]
    place = {variant: number for number, variant in enumerate(ORDER)}
    return sorted(results, key=lambda r: (place.get(r.variant, len(place)), r.variant, r.seed))


def check_folder(folder: Path, wanted: dict[str, Any]) -> None:
    """Refuse to mix results of two configurations."""
    for file in sorted(folder.glob("*-seed*.json")):
        stored = json.loads(file.read_text(encoding="utf-8"))["config"]
        different = [name for name in wanted if stored.get(name) != wanted[name]]
        if different:
            raise ValueError(
                f"folder: {file} is a result of another configuration (different: "
                f"{', '.join(different)}); give another folder, or remove the results in this one"
            )


def table(results: list[Result]) -> str:
    """Accuracy in percent, a row for each variant, the mean of its seeds, as Markdown.

    The error is one standard error: over haystacks for one seed, and over seeds for several.

    >>> print(table([Result("lmm", 0, 1000, 1.0, [], [Reading(256, 98, 0.5)])]))
    | model | seeds | parameters | training | 256 |
    | --- | --- | --- | --- | --- |
    | lmm | 1 | 1,000 | 1 s | 50 ± 5 |
    """
    lengths = [str(reading.length) for reading in results[0].readings] if results else []
    head = ["model", "seeds", "parameters", "training", *(f"{int(n):,}" for n in lengths)]
    rows = [head, ["---"] * len(head)]
    for variant, runs in by_variant(results).items():
        cells = [f"{100 * p:.0f} ± {100 * e:.0f}" for _, p, e in summary(runs)]
        seconds = mean(result.seconds for result in runs)
        rows.append([variant, len(runs), f"{runs[0].parameters:,}", f"{seconds:.0f} s", *cells])
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def by_variant(results: list[Result]) -> dict[str, list[Result]]:
    """Results of the same variant together, in the order in which variants first come."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.variant, []).append(result)
    return groups


def summary(runs: list[Result]) -> list[tuple[int, float, float]]:
    """`(length, accuracy, error)` over the seeds of one variant, for each length."""
    rows = []
    for readings in zip(*(result.readings for result in runs)):
        shares = [reading.accuracy for reading in readings]
        error = readings[0].error
        if len(shares) > 1:
            spread = torch.tensor(shares).std().item() / len(shares) ** 0.5
            pooled = Reading(0, sum(r.samples for r in readings), mean(shares)).error
            error = max(spread, pooled)
        rows.append((readings[0].length, mean(shares), error))
    return rows
