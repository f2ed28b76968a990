"""Maps to be learned in context: keys, and the values that a random map gives them.

Every sequence has a map of its own, `v = B φ(A k)` with random A and B. The function φ has a bend
at zero: it is x above and `slope · x` below. One number leads from maps that a matrix can learn to
maps of which it can learn nothing:

    slope  1    φ(x) = x            straight: v = B A k
    slope  0    φ(x) = max(x, 0)    bent: half straight, half not
    slope −1    φ(x) = |x|          folded: k and −k have one value, so the best matrix is zero
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.arguments import Argument, shown, whole
from minititans.tensors import check_generator, check_tensor

STRAIGHT, BENT, FOLDED = 1.0, 0.0, -1.0


@dataclass(frozen=True)
class Maps:
    """A family of random maps.

    dim:   of keys and of values
    units: rows of A, each a place where the map bends
    slope: see above; None draws one for each map, evenly from −1 to 1
    """

    dim: int = 4
    units: int = 8
    slope: float | None = None

    def __post_init__(self):
        for name in ("dim", "units"):
            whole(1).check(name, getattr(self, name))
        Argument(float, none="one that is drawn for each map").check("slope", self.slope)

    def batch(
        self, maps: int, pairs: int, generator: torch.Generator, asked: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values, each `[maps, pairs, dim]`, followed by `asked` and its values.

        Random keys have norm 1. Values have mean zero, so that a matrix is not penalised for having
        no offset, and a mean square norm of 1, so that answering zero has an error of 1.

        >>> keys, values = Maps().batch(2, 1000, torch.Generator().manual_seed(0))
        >>> values.mean(1).abs().max() < 1e-6, values.square().sum(-1).mean(1)
        (tensor(True), tensor([1.0000, 1.0000]))
        """
        for name, number in {"maps": maps, "pairs": pairs}.items():
            whole(1).check(name, number)
        check_generator(generator)
        if asked is not None:
            check_tensor("asked", asked, "asked dim", {"dim": self.dim})
        keys = unit_vectors(maps, pairs, self.dim, generator)
        if asked is not None:  # [asked, dim], the same for every map
            keys = torch.cat([keys, asked.expand(maps, *asked.shape)], dim=1)
        A = normal(maps, self.units, self.dim, generator)
        B = normal(maps, self.dim, self.units, generator)
        slope = 2 * torch.rand(maps, 1, 1, generator=generator, dtype=torch.float32) - 1
        if self.slope is not None:
            slope = torch.full_like(slope, self.slope)
        x = keys @ A.mT  # [maps, pairs + asked, units]
        values = torch.where(x > 0, x, slope * x) @ B.mT
        values = values - values.mean(1, keepdim=True)
        norm = values.square().sum(-1).mean(1).sqrt()  # [maps]
        return keys, values / norm[:, None, None].clamp(min=1e-6)


def unit_vectors(*shape_and_generator) -> Tensor:
    """Random directions: `unit_vectors(maps, pairs, dim, generator)`."""
    return F.normalize(normal(*shape_and_generator), dim=-1)


def normal(*shape_and_generator) -> Tensor:
    """Normal random numbers in float32, whatever torch's default, so that they never differ."""
    *shape, generator = shape_and_generator
    return torch.randn(*shape, generator=generator, dtype=torch.float32)


def generators(name: str, seeds: Sequence[int]) -> list[torch.Generator]:
    """A source of random numbers for each seed; a different name gives different ones.

    >>> a, b = generators("training", [0]) + generators("reading", [0])
    >>> torch.rand(1, generator=a) == torch.rand(1, generator=b)
    tensor([False])
    """
    Argument(str).check("name", name)
    if not isinstance(seeds, Sequence):
        raise TypeError(f"seeds: got {shown(seeds)}, expected a list of whole numbers")
    for seed in seeds:
        whole(0).check("seeds", seed)
    offset = int.from_bytes(name.encode(), "little") % 1_000_003
    return [torch.Generator().manual_seed(1_000_003 * seed + offset) for seed in seeds]
