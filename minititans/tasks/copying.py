"""Copying: read random tokens, then say them again in the same order.

The smallest task that needs a memory. A row is `[tokens | start | tokens]`, and only the second
half counts, because the first cannot be predicted.
"""

import torch
from torch import Tensor

from minititans.arguments import whole
from minititans.tasks import IGNORE
from minititans.tensors import check_batch


class Copying:
    """Random tokens from 1 to `vocab_size - 1`, with 0 for "start".

    >>> tokens, targets = Copying(vocab_size=8).batch(1, 7, torch.Generator().manual_seed(0))
    >>> tokens[0, :3].tolist() == tokens[0, 4:].tolist() == targets[0, 3:6].tolist()
    True
    >>> targets[0, :3].tolist(), targets[0, 6:].tolist()
    ([-100, -100, -100], [-100])
    """

    held_out = None

    def __init__(self, vocab_size: int = 64):
        whole(3).check("vocab_size", vocab_size)
        self.vocab_size = vocab_size

    def batch(self, size: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        check_batch(size, length, generator, least=3)
        half = (length - 1) // 2
        said = torch.randint(1, self.vocab_size, (size, half), generator=generator)
        start = torch.zeros(size, length - 2 * half, dtype=torch.long)
        tokens = torch.cat([said, start, said], dim=1)  # [size, length]
        targets = torch.full_like(tokens, IGNORE)
        targets[:, -half - 1 : -1] = said
        return tokens, targets
