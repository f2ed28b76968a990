"""Which model finds a needle in a haystack longer than any it was trained on?

Every model has the same number of parameters and is trained on haystacks of up to 256 tokens, with
one rule for when it has been trained enough (`learn`). Then it is tested at up to 64 times that
length, and with `read_further` at up to 4,096 times.

`run` goes from a `NeedleConfig` to a list of `Result`s, one for each variant and seed. Each is kept
in a file of its own, so that a run that was stopped continues where it was.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from tqdm.auto import tqdm

from minititans.experiments.needle_training import (
    ABLATIONS,
    NeedleConfig,
    learn,
    model_config,
    rate,
)
from minititans.experiments.results import ORDER, Reading, Result, check_folder, load, save
from minititans.model import TitansLM, count_parameters
from minititans.relatives import RELATIVES
from minititans.tasks.needle import Needle, accuracy

EVERYONE = (*ORDER, *RELATIVES, "gated_deltanet+swa")
# Twenty lines in one figure would be too many. The README shows the first.
FIGURES = {
    "needle": (
        "mac", "mag", "mal", "lmm", "deltanet", "gated_deltanet", "mamba2", "transformer", "swa",
    ),
    "relatives": ("lmm", *RELATIVES, "gated_deltanet+swa"),
    "ablations": ("lmm", *ABLATIONS),
}  # fmt: skip
SLOW = {"transformer": 32}  # reads fewer of the longest haystacks: full attention is slow


def run(
    config: NeedleConfig,
    variants: Iterable[str] = ORDER,
    seeds: Iterable[int] = (0,),
    folder: str | Path | None = None,
    progress: bool = True,
    models: str | Path | None = None,
) -> list[Result]:
    """Train and test every variant with every seed, except those that `folder` already has.

    A folder belongs to one configuration: one with results of another is refused. Trained models
    are kept in the folder `models`, for `read_further`.
    """
    folder = None if folder is None else Path(folder)
    if folder is not None:
        check_folder(folder, config)
    jobs = [(variant, seed) for seed in seeds for variant in variants]
    for variant in {variant for variant, _ in jobs}:
        model_config(config, variant)  # a wrong name is refused before the first hour of work
    results = []
    for variant, seed in jobs:
        file = None if folder is None else result_file(folder, variant, seed)
        if file is not None and file.exists():
            results.append(load(file))
            continue
        result, model = run_one(config, variant, seed, progress)
        results.append(result)
        if models is not None:
            Path(models).mkdir(parents=True, exist_ok=True)
            model.save(model_file(models, variant, seed))
        if file is not None:
            save(file, result, config)
    return results


def run_one(
    config: NeedleConfig, variant: str, seed: int, progress: bool = True
) -> tuple[Result, TitansLM]:
    """Train one model and test it at every length."""
    began = time.perf_counter()
    model, losses, attempts = learn(config, variant, seed, progress)
    seconds = round(time.perf_counter() - began, 3)
    readings = read(config, model, variant, seed, config.read_at, progress)
    parameters = count_parameters(model.config)
    result = Result(
        variant, seed, parameters, rate(config, variant), attempts, seconds, losses, readings
    )
    return result, model


def read(
    config: NeedleConfig,
    model: TitansLM,
    name: str,
    seed: int,
    read_at: Iterable[tuple[int, int]],
    progress: bool = True,
) -> list[Reading]:
    """How many needles a model finds at each length."""
    task, readings = Needle(config.kind), []
    bar = tqdm(list(read_at), f"{name} {seed} reads", leave=False, disable=not progress)
    for length, samples in bar:
        bar.set_postfix(length=f"{length:,}")
        if length > 4096:
            samples = min(samples, SLOW.get(name, samples))
        # Many rows and few tokens at a time were quickest on a CPU.
        share = accuracy(model, task, length, samples, seed, batch=64, block=256)
        readings.append(Reading(length, samples, share))
    return readings


def read_further(
    config: NeedleConfig,
    variants: Iterable[str],
    seeds: Iterable[int],
    folder: str | Path,
    models: str | Path,
    lengths: Iterable[int],
    samples: int = 16,
    progress: bool = True,
) -> None:
    """Test models that `run` kept at more lengths, and add that to their results."""
    variants, seeds, lengths = list(variants), list(seeds), list(lengths)
    check_models(variants, seeds, folder, models, lengths)
    for seed in seeds:
        for variant in variants:
            file = result_file(folder, variant, seed)
            result = load(file)
            new = [(length, samples) for length in unread(result, lengths)]
            if not new:
                continue
            model = TitansLM.load(model_file(models, variant, seed))
            readings = result.readings + read(config, model, variant, seed, new, progress)
            save(file, replace(result, readings=readings), config)


def check_models(
    variants: Sequence[str],
    seeds: Sequence[int],
    folder: str | Path,
    models: str | Path,
    lengths: Sequence[int],
) -> None:
    """Refuse to read results further whose models are missing, before any work.

    A fresh clone has results without their models, and `run` does not train those again.
    """
    for variant, seed in product(variants, seeds):
        file, model = result_file(folder, variant, seed), model_file(models, variant, seed)
        if file.exists() and not model.exists() and unread(load(file), lengths):
            raise ValueError(
                f"models: there is no {model}, so {file} cannot be read further. To train the "
                "model again, pass --out with another folder, or delete that result"
            )


def unread(result: Result, lengths: Iterable[int]) -> list[int]:
    """Those of the lengths at which the model was not tested yet."""
    known = {reading.length for reading in result.readings}
    return [length for length in lengths if length not in known]


def figures(variants: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Which of `FIGURES` have something to compare, and what they show of these variants.

    >>> figures(["lmm", "swa", "lmm-plain"])
    {'needle': ('lmm', 'swa'), 'ablations': ('lmm', 'lmm-plain')}
    """
    variants = set(variants)
    shown = {name: tuple(v for v in all_ if v in variants) for name, all_ in FIGURES.items()}
    comparing = {name: some for name, some in shown.items() if len(some) > 1}
    return comparing or {"needle": tuple(sorted(variants))}


def result_file(folder: str | Path, variant: str, seed: int) -> Path:
    return Path(folder) / f"{variant}-seed{seed}.json"


def model_file(models: str | Path, variant: str, seed: int) -> Path:
    return Path(models) / f"{variant}-seed{seed}.safetensors"
