"""AdamW with decay on matrices only; a learning rate that warms up, then follows a cosine."""

import math

import torch
from torch import Tensor, nn

from minititans.training.config import TrainConfig


def make_optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """Matrices decay; norms, biases and other vectors do not: decay would only weaken them."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in parameters if not is_vector(p)]
    vectors = [p for p in parameters if is_vector(p)]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, config.beta2), fused=True)


def is_vector(parameter: Tensor) -> bool:
    """One number per channel or head, `[channels]`, or per channel of each: `[heads, 1, channels]`.

    >>> [is_vector(torch.ones(shape)) for shape in ((8,), (2, 1, 4), (2, 4, 4), (1, 8))]
    [True, True, False, False]
    """
    return parameter.dim() < 2 or (parameter.dim() == 3 and parameter.shape[1] == 1)


def learning_rate(step: int, config: TrainConfig) -> float:
    """The rate of a step, counted from 0: a line up to `lr`, then half a cosine wave down.

    >>> config = TrainConfig(steps=100, warmup=10, lr=1.0, final_lr=0.1)
    >>> [round(learning_rate(step, config), 2) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.54, 0.1]
    """
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, config.steps - 1 - config.warmup)
    share = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return config.lr * (config.final_lr + (1 - config.final_lr) * share)
