"""Which model finds a needle in a haystack longer than any it was trained on?

Every model is trained on haystacks of up to 256 tokens, with the same number of parameters, the
same batches and the same number of steps, and then read at up to 64 times that length.

`run` goes from a `NeedleConfig` to a list of `Result`s, one for each variant and seed. A finished
one is kept in a file of its own, so that a run which was stopped goes on where it was.
"""

import json
import math
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from minititans.config import TitansConfig
from minititans.memory.convolution import CausalConv
from minititans.model import TitansLM, count_parameters
from minititans.tasks import IGNORE
from minititans.tasks.needle import Needle, accuracy, generator

EVERYONE = ("mac", "mag", "mal", "lmm", "swa", "transformer")


@dataclass(frozen=True)
class NeedleConfig:
    """All that the numbers depend on, but for the variant and the seed.

    kind:       of needle, see `Needle`
    model:      what all models share; `ff` follows from `parameters`
    parameters: of every model, by the size of its feed-forward layers
    lengths:    of the haystacks in training; each step draws one
    warm:       share of the steps that only sees the shortest, where answers are dense
    tokens:     in a step: short haystacks come in larger batches
    needles:    in a haystack in training, or as many as fit
    lr:         highest learning rate, see `one_cycle`
    read_at:    lengths to read at, and with how many haystacks each
    """

    kind: str = "pk"
    model: TitansConfig = field(
        default_factory=lambda: TitansConfig(
            vocab_size=Needle.vocab_size,
            dim=64,
            layers=2,
            heads=2,
            tie=False,
            window=32,
            segment=32,
        )
    )
    parameters: int = 130_000
    steps: int = 700
    lengths: tuple[int, ...] = (64, 128, 256)
    warm: float = 0.5
    tokens: int = 2048
    needles: int = 8
    lr: float = 4e-3
    weight_decay: float = 0.01
    read_at: tuple[tuple[int, int], ...] = ((256, 128), (1024, 128), (4096, 64), (16384, 32))

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


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


def run(
    config: NeedleConfig,
    variants: Iterable[str] = EVERYONE,
    seeds: Iterable[int] = (0,),
    folder: str | Path | None = None,
    progress: bool = True,
) -> list[Result]:
    """Train and read every variant with every seed; what `folder` already has is not done again.

    A folder belongs to one configuration: one that holds results of another is refused.
    """
    folder = None if folder is None else Path(folder)
    if folder is not None:
        check_folder(folder, config)
    jobs = [(variant, seed) for seed in seeds for variant in variants]
    for variant in {variant for variant, _ in jobs}:
        model_config(config, variant)  # a wrong name is refused before the first hour of work
    results = []
    for variant, seed in jobs:
        file = None if folder is None else folder / f"{variant}-seed{seed}.json"
        if file is not None and file.exists():
            results.append(load(file))
            continue
        results.append(run_one(config, variant, seed, progress))
        if file is not None:
            save(file, results[-1], config)
    return results


def run_one(config: NeedleConfig, variant: str, seed: int, progress: bool = True) -> Result:
    """Train one model and read it at every length."""
    began = time.perf_counter()
    model, losses = train(config, variant, seed, progress)
    seconds = time.perf_counter() - began
    task, readings = Needle(config.kind), []
    bar = tqdm(config.read_at, f"{variant} {seed} reads", leave=False, disable=not progress)
    for length, samples in bar:
        bar.set_postfix(length=f"{length:,}")
        share = accuracy(model, task, length, samples, seed)
        readings.append(Reading(length, samples, share))
    parameters = count_parameters(model.config)
    return Result(variant, seed, parameters, round(seconds, 1), losses, readings)


def train(
    config: NeedleConfig, variant: str, seed: int, progress: bool = True
) -> tuple[TitansLM, list[float]]:
    """A model that has learned to answer, and its losses."""
    torch.manual_seed(seed)
    model = TitansLM(model_config(config, variant))
    prepare(model)
    optimiser = torch.optim.AdamW(
        model.parameters(), config.lr, betas=(0.9, 0.99), weight_decay=config.weight_decay
    )
    losses: list[float] = []
    bar = tqdm(range(config.steps), f"{variant} {seed} trains", leave=False, disable=not progress)
    for step in bar:
        for group in optimiser.param_groups:
            group["lr"] = config.lr * one_cycle(step / config.steps)
        tokens, targets = training_batch(config, seed, step)
        logits, _ = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return model, [round(mean(losses[i : i + 50]), 4) for i in range(0, len(losses), 50)]


def training_batch(config: NeedleConfig, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets of one step, the same for every variant."""
    rng = generator(seed, step)
    lengths = sorted(config.lengths)[: 1 if step < config.warm * config.steps else None]
    length = lengths[int(torch.randint(len(lengths), (), generator=rng))]
    fits = length // Needle(config.kind, needles=1).shortest
    task = Needle(config.kind, min(config.needles, fits))
    return task.batch(max(1, config.tokens // length), length, rng)


def prepare(model: TitansLM) -> None:
    """Begin every short convolution with random numbers instead of the identity.

    The memory must learn to store a value under the key that stands before it, and convolutions
    that begin as the identity show no token its neighbour. In a trial with one seed the LMM's loss
    was still at chance after 300 steps from the identity; from random numbers it fell after 140.
    """
    for module in model.modules():
        if isinstance(module, CausalConv):
            torch.nn.init.normal_(module.taps, std=len(module.taps) ** -0.5)


def one_cycle(done: float) -> float:
    """The learning rate as a share of the highest: up in a tenth of the run, then down to zero.

    >>> [round(one_cycle(done), 2) for done in (0, 0.05, 0.1, 0.55, 1)]
    [0.05, 0.53, 1.0, 0.5, 0.0]
    """
    rise = 0.1
    if done < rise:
        return 0.05 + 0.95 * done / rise
    return 0.5 + 0.5 * math.cos(math.pi * (done - rise) / (1 - rise))


def model_config(config: NeedleConfig, variant: str) -> TitansConfig:
    return replace(config.model, variant=variant).with_parameters(config.parameters)


# Files


def save(file: Path, result: Result, config: NeedleConfig) -> None:
    """The result with all that it depends on, written whole or not at all."""
    readings = [asdict(r) | {"error": round(r.error, 4)} for r in result.readings]
    versions = {name: metadata.version(name) for name in ("minititans", "torch", "numpy")}
    versions["python"] = platform.python_version()
    about = {"config": config.to_json(), "versions": versions, "threads": torch.get_num_threads()}
    text = json.dumps(asdict(result) | {"readings": readings} | about, indent=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def load(file: Path) -> Result:
    """A result that `save` wrote."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    readings = [Reading(r["length"], r["samples"], r["accuracy"]) for r in stored["readings"]]
    names = ("variant", "seed", "parameters", "seconds", "losses")
    return Result(**{name: stored[name] for name in names}, readings=readings)


def load_all(folder: str | Path) -> list[Result]:
    """Every result in a folder: those of `EVERYONE` first and in that order, then by name."""
    results = [load(file) for file in Path(folder).glob("*-seed*.json")]
    place = {variant: number for number, variant in enumerate(EVERYONE)}
    return sorted(results, key=lambda r: (place.get(r.variant, len(place)), r.variant, r.seed))


def check_folder(folder: Path, config: NeedleConfig) -> None:
    """Refuse to mix results of two configurations."""
    for file in sorted(folder.glob("*-seed*.json")):
        stored, wanted = json.loads(file.read_text(encoding="utf-8"))["config"], config.to_json()
        different = [name for name in wanted if stored.get(name) != wanted[name]]
        if different:
            raise ValueError(
                f"folder: {file} is a result of another configuration (different: "
                f"{', '.join(different)}); give another folder, or remove the results in this one"
            )


# Tables


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
