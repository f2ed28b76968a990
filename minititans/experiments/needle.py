"""Which model finds a needle in a haystack longer than any it was trained on?

Every model is trained on haystacks of up to 256 tokens, with the same number of parameters, the
same batches and the same number of steps, and then read at up to 64 times that length.

`run` goes from a `NeedleConfig` to a list of `Result`s, one for each variant and seed. A finished
one is kept in a file of its own, so that a run which was stopped goes on where it was.
"""

import json
import math
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from minititans.config import TitansConfig
from minititans.experiments.results import ORDER, Reading, Result, check_folder, load, save
from minititans.model import TitansLM, count_parameters
from minititans.relatives import RELATIVES
from minititans.tasks import IGNORE
from minititans.tasks.needle import Needle, accuracy, generator

EVERYONE = (*ORDER, *RELATIVES, "gated_deltanet+swa")


@dataclass(frozen=True)
class NeedleConfig:
    """All that the numbers depend on, but for the variant and the seed.

    kind:       of needle, see `Needle`
    model:      what all models share; `ff` follows from `parameters`
    parameters: of every model, by the size of its feed-forward layers
    lengths:    of the haystacks in training: the first alone for a while, where answers are dense
                and within sight of every window, then each step draws one of the others
    warm:       the share of the steps that sees the first
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
    steps: int = 1400
    lengths: tuple[int, ...] = (32, 64, 128, 256)
    warm: float = 0.3
    tokens: int = 1024
    needles: int = 8
    lr: float = 4e-3
    weight_decay: float = 0.01
    read_at: tuple[tuple[int, int], ...] = (
        (24, 128), (256, 128), (1024, 128), (4096, 64), (16384, 16),
    )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


def run(
    config: NeedleConfig,
    variants: Iterable[str] = ORDER,
    seeds: Iterable[int] = (0,),
    folder: str | Path | None = None,
    progress: bool = True,
) -> list[Result]:
    """Train and read every variant with every seed; what `folder` already has is not done again.

    A folder belongs to one configuration: one that holds results of another is refused.
    """
    folder = None if folder is None else Path(folder)
    if folder is not None:
        check_folder(folder, config.to_json())
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
            save(file, results[-1], config.to_json())
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
    return Result(variant, seed, parameters, round(seconds, 3), losses, readings)


def train(
    config: NeedleConfig, variant: str, seed: int, progress: bool = True
) -> tuple[TitansLM, list[float]]:
    """A model that has learned to answer, and its losses."""
    torch.manual_seed(seed)
    model = TitansLM(model_config(config, variant))
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
    first, *others = config.lengths
    lengths = others if others and step >= config.warm * config.steps else [first]
    length = lengths[int(torch.randint(len(lengths), (), generator=rng))]
    fits = length // Needle(config.kind, needles=1).shortest
    task = Needle(config.kind, min(config.needles, fits))
    return task.batch(max(1, config.tokens // length), length, rng)


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
