"""Does a layer see the future? And what is a leak worth?

`influence` answers the first question: change a token, and see which answers move. It works with
any function from a sequence to answers. `learn_noise` answers the second: digits drawn at random
cannot be predicted, so a model that predicts them cheats.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.config import TitansConfig
from minititans.model import TitansLM


@torch.no_grad()
def influence(read: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """How far every answer moves when one token is changed: `[changed, answered]`.

    read: from `[1, time, dim]` to answers `[1, time, dim]`; x: what it reads. Each token in turn
    is replaced by its negative. Without a leak there is nothing below the diagonal.

    >>> influence(lambda x: x.cumsum(1), torch.ones(1, 3, 1))
    tensor([[2., 2., 2.],
            [0., 2., 2.],
            [0., 0., 2.]])
    """
    before, rows = read(x), []
    for changed in range(x.shape[1]):
        other = x.clone()
        other[:, changed] = -other[:, changed]
        rows.append((read(other) - before)[0].norm(dim=-1))
    return torch.stack(rows)


@dataclass(frozen=True)
class NoiseConfig:
    """A MAC with one layer, trained to predict digits that are drawn at random."""

    digits: int = 10
    dim: int = 32
    segment: int = 4
    time: int = 8  # tokens of a training sequence
    batch: int = 32
    steps: int = 70
    lr: float = 1e-2
    tests: int = 256  # sequences that are read afterwards
    seeds: tuple[int, ...] = (0, 1)


@dataclass(frozen=True)
class Noise:
    """Losses in nats; guessing gets `log(digits)`.

    losses:   while training, by the model's name: `[seeds, steps]`
    shown:    afterwards, at the middle of the second segment, `[seeds]`
    hidden:   at the same place, when the digits after it are replaced by others
    """

    config: NoiseConfig
    losses: dict[str, Tensor]
    shown: dict[str, Tensor]
    hidden: dict[str, Tensor]

    @property
    def guessing(self) -> float:
        return math.log(self.config.digits)


LITERAL, CAUSAL = "to the letter", "causal"


def learn_noise(config: NoiseConfig) -> Noise:
    """Train MAC to the letter and causal MAC on the same random digits."""
    losses, shown, hidden = ({CAUSAL: [], LITERAL: []} for _ in range(3))
    for seed in config.seeds:
        for name in (CAUSAL, LITERAL):
            model, curve = _train(config, seed, literal=name == LITERAL)
            with_future, without = _test(model, config, seed)
            losses[name].append(curve)
            shown[name].append(with_future)
            hidden[name].append(without)
    stacked = ({name: torch.tensor(each) for name, each in d.items()} for d in (shown, hidden))
    return Noise(config, {name: torch.stack(each) for name, each in losses.items()}, *stacked)


def _train(config: NoiseConfig, seed: int, literal: bool) -> tuple[TitansLM, Tensor]:
    torch.manual_seed(seed)
    model = TitansLM(
        TitansConfig(
            variant="mac", vocab_size=config.digits, dim=config.dim, layers=1, heads=2, depth=1,
            segment=config.segment, chunk_size=config.segment, persistent=2, literal=literal,
        )
    )  # fmt: skip
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr)
    rng, losses = torch.Generator().manual_seed(seed), []
    for _ in range(config.steps):
        digits = _digits(config, config.batch, rng)
        logits, _ = model(digits[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), digits[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return model, torch.stack(losses)


@torch.no_grad()
def _test(model: TitansLM, config: NoiseConfig, seed: int) -> tuple[float, float]:
    """The loss in the middle of the second segment, with its future and with another one."""
    rng = torch.Generator().manual_seed(10_000 + seed)
    digits, others = (_digits(config, config.tests, rng) for _ in range(2))
    middle = config.segment + config.segment // 2
    elsewhere = torch.cat([digits[:, : middle + 1], others[:, middle + 1 :]], 1)
    logits = (model(each[:, :-1])[0][:, middle] for each in (digits, elsewhere))
    return tuple(F.cross_entropy(each, digits[:, middle + 1]).item() for each in logits)


def _digits(config: NoiseConfig, batch: int, rng: torch.Generator) -> Tensor:
    return torch.randint(config.digits, (batch, config.time + 1), generator=rng)
