"""How the models of the needle experiment are trained: the same batches, one rule for how long.

A loop of its own: `minititans.training` has no haystacks that grow when a model is ready, no rule
for starting over, and a different schedule.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from minititans.arguments import choice
from minititans.config import TitansConfig
from minititans.experiments.results import Attempt
from minititans.model import TitansLM
from minititans.tasks import IGNORE
from minititans.tasks.needle import Needle, generator

# The highest learning rate where 4e-3 was not the best: tried with seed 101, which no result uses.
# results/needle/tuning has the runs.
LEARNING_RATES = {"deltanet": 8e-3, "transformer": 2e-3, "swa": 2e-3}
# The LMM without one of the decisions that make it last (docs/choices.md), and as a matrix.
ABLATIONS = {
    "lmm-matrix": {"depth": 1},
    "lmm-frozen": {"exact": False},
    "lmm-plain": {"residual": False},
    "lmm-forgets": {"alpha_start": 1e-3},
}
# Of the first attempt: after 1,400, a MAC had not begun to learn numbers (seed 101).
STEPS = {"pk": 1400, "n": 2800, "w": 2800}
# Of the first haystacks. Numbers begin in shorter ones, with two needles instead of four:
# three MACs (seeds 101 to 103) then had a loss below 0.3 after 400 steps, otherwise one of them.
FIRST = {"pk": 32, "n": 16, "w": 32}
# Losses. Guessing one of 16 values costs 2.8.
READY = 1.0  # below it, a model has begun to learn, and is ready for longer haystacks
LEARNED = 0.2  # below it, it knows the task


@dataclass(frozen=True)
class NeedleConfig:
    """Everything that the numbers depend on, except the variant and the seed.

    kind:       of needle, see `Needle`
    model:      what all models share; `ff` follows from `parameters`
    parameters: of every model, by the size of its feed-forward layers
    lengths:    of the haystacks in training: the first alone for a while, where answers are dense
                and within sight of every window, then each step draws one of the others; () for
                that of `FIRST`, 64, 128 and 256
    warm:       the largest share of the steps that sees the first; it ends as soon as the mean
                loss of 50 steps is below 1
    tokens:     in a step: short haystacks come in larger batches
    needles:    in a haystack in training, or as many as fit
    steps:      of the first attempt to train; 0 for that of `STEPS`
    most_steps: of the longest attempt, see `learn`
    lr:         highest learning rate, see `one_cycle`; None for that of `LEARNING_RATES`
    read_at:    lengths to test at, and how many haystacks of each
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
    steps: int = 0
    most_steps: int = 5600
    lengths: tuple[int, ...] = ()
    warm: float = 0.5
    tokens: int = 1024
    needles: int = 8
    lr: float | None = None
    weight_decay: float = 0.01
    read_at: tuple[tuple[int, int], ...] = (
        (24, 128), (256, 128), (1024, 128), (4096, 128), (16384, 128),
    )  # fmt: skip

    def __post_init__(self):
        choice(*STEPS).check("kind", self.kind)

    @property
    def training_steps(self) -> int:
        """`steps`, or those of the kind."""
        return self.steps or STEPS[self.kind]

    @property
    def training_lengths(self) -> tuple[int, ...]:
        """`lengths`, or those of the kind."""
        return self.lengths or (FIRST[self.kind], 64, 128, 256)

    def resolved(self) -> "NeedleConfig":
        """With its steps and lengths filled in, as results store it.

        >>> replace(NeedleConfig(), kind="n").resolved().lengths
        (16, 64, 128, 256)
        """
        return replace(self, steps=self.training_steps, lengths=self.training_lengths)


def learn(
    config: NeedleConfig, variant: str, seed: int, progress: bool = True
) -> tuple[TitansLM, list[float], list[Attempt]]:
    """Train until more training no longer helps, by the same rule for every model.

    A model that has not learned the task, with a last loss above `LEARNED`, starts over with twice
    the steps, up to `most_steps`. If it has begun to learn and its loss is not a fifth lower than
    before, that is the end. Returns the best of these models, its losses, and all attempts.
    """
    model, losses = train(config, variant, seed, progress)
    attempts = [Attempt(config.training_steps, losses[-1])]
    while attempts[-1].loss > LEARNED and 2 * attempts[-1].steps <= config.most_steps:
        longer = replace(config, steps=2 * attempts[-1].steps)
        again = train(longer, variant, seed, progress)
        attempts.append(Attempt(longer.steps, again[1][-1]))
        before, after = attempts[-2].loss, attempts[-1].loss
        if after < losses[-1]:
            model, losses = again
        if 0.8 * before <= after < READY:
            break
    return model, losses, attempts


def train(
    config: NeedleConfig, variant: str, seed: int, progress: bool = True
) -> tuple[TitansLM, list[float]]:
    """A model after its training, and its losses: the mean of every 50 steps."""
    model = new_model(config, variant, seed)
    bar = tqdm(
        each_loss(config, model, variant, seed), f"{variant} {seed} trains", config.training_steps,
        leave=False, disable=not progress,
    )  # fmt: skip
    losses: list[float] = []
    for loss in bar:
        losses.append(loss)
        bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
    return model, [round(mean(losses[i : i + 50]), 5) for i in range(0, len(losses), 50)]


def new_model(config: NeedleConfig, variant: str, seed: int) -> TitansLM:
    """A model before its first step."""
    torch.manual_seed(seed)
    return TitansLM(model_config(config, variant))


def each_loss(config: NeedleConfig, model: TitansLM, variant: str, seed: int) -> Iterator[float]:
    """Train a model, and yield the loss of every step."""
    highest, steps = rate(config, variant), config.training_steps
    optimiser = torch.optim.AdamW(
        model.parameters(), highest, betas=(0.9, 0.99), weight_decay=config.weight_decay
    )
    losses: list[float] = []
    first = True  # only haystacks of the first length yet
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = highest * one_cycle(step / steps)
        first = first and step < config.warm * steps
        first = first and not (step >= 50 and mean(losses[-50:]) < READY)
        tokens, targets = training_batch(config, seed, step, first)
        logits, _ = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        yield losses[-1]


def rate(config: NeedleConfig, variant: str) -> float:
    """The highest learning rate of this model."""
    return LEARNING_RATES.get(variant, 4e-3) if config.lr is None else config.lr


def training_batch(
    config: NeedleConfig, seed: int, step: int, first: bool
) -> tuple[Tensor, Tensor]:
    """Tokens and targets of one step, of the first length or of any other."""
    rng = generator(seed, step)
    lengths = config.training_lengths
    lengths = lengths[:1] if first else lengths[1:] or lengths
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
    """The model behind a name: a variant, or one of `ABLATIONS`."""
    changes = ABLATIONS.get(variant)
    changes = {"variant": variant} if changes is None else {"variant": "lmm"} | changes
    return replace(config.model, **changes).with_parameters(config.parameters)
