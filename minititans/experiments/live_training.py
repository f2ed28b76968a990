"""A MAC small enough to be trained while the reader watches, and a curve to compare it with."""

import math

from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from minititans.config import TitansConfig
from minititans.experiments.models import FIRST, PART, Record
from minititans.model import TitansLM

BITS = 1 / math.log(2)  # in a nat
STEPS, BATCH, LENGTH = 160, 8, 128  # about half a minute on one thread

SMALL = TitansConfig(variant="mac", dim=64, layers=2, heads=2, segment=64, chunk_size=32)


def optimiser_for(model: TitansLM, steps: int = STEPS) -> tuple[AdamW, OneCycleLR]:
    """AdamW and a learning rate that rises for a tenth of the steps and then falls."""
    optimiser = AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    schedule = OneCycleLR(optimiser, 8e-3, steps, pct_start=0.1, cycle_momentum=False)
    return optimiser, schedule


def stored_curve(record: Record) -> tuple[list[int], list[float]]:
    """Steps and bits per byte of a stored model: the first ones exactly, then means of 50 steps.

    A mean is placed in the middle of its steps; the first mean, which includes the first steps, is
    left out.
    """
    steps, losses = list(range(1, FIRST + 1)), record.first_losses[:FIRST]
    for number, loss in enumerate(record.losses[1:], 1):
        steps.append(number * PART + PART // 2)
        losses.append(loss)
    return steps, [loss * BITS for loss in losses]
