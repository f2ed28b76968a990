"""What the outer loop sees of the inner one: how wrong a memory is while it reads, for each theta.

A sequence of random pairs is read twice with the delta rule, (8) for a matrix. The loss is measured
before each pair is written and summed over the whole reading.
"""

import torch
from torch import Tensor

from minititans.experiments.overflow import random_units


def reading_loss(
    thetas: Tensor, sequences: int = 32, pairs: int = 8, dim: int = 16, seed: int = 0
) -> Tensor:
    """The loss of a reading for each theta, averaged over sequences: `[thetas]`.

    >>> reading_loss(torch.tensor([0.0]))  # nothing is written: 16 times ½ ‖v‖²
    tensor([8.])
    """
    keys, values = random_units(
        2, sequences, 1, pairs, dim, seed=seed
    )  # [sequences, 1, pairs, dim]
    M, loss = torch.zeros(sequences, len(thetas), dim, dim), torch.zeros(len(thetas))
    for i in (*range(pairs), *range(pairs)):
        k, v = keys[:, :, i], values[:, :, i]  # [sequences, 1, dim]
        error = v - (M @ k[..., None])[..., 0]  # [sequences, thetas, dim]
        loss = loss + error.square().sum(-1).mean(0) / 2
        M = M + thetas[:, None, None] * error[..., :, None] * k[..., None, :]
    return loss
