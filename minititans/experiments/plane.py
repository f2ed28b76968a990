"""A memory of two dimensions, small enough to draw: what a matrix does to the plane, pair by pair.

Two pairs are read in turn, A and B; halfway through, A gets a new value. A write changes M by an
outer product with its key, so it moves the answer to every other key by the cosine of the angle
between the two:

    M ← M + theta (v − M k) kᵀ        the other key's answer moves by  theta (v − M k) cos(angle)
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

STORY = ("A1", "B2", "A1", "B2", "A1", "B2", "A3", "B2", "A3", "B2", "A3", "B2")
DIRECTIONS = {"1": 75.0, "2": 165.0, "3": -40.0}  # of the values, in degrees
RULES = ("delta", "Hebb")


@dataclass(frozen=True)
class Plane:
    """What was read and what it made of the memory; time counts pairs."""

    names: tuple[str, ...]
    keys: Tensor  # [time, 2]
    values: Tensor  # [time, 2]
    memory: Tensor  # [time + 1, 2, 2], from M_0 = 0 on

    @property
    def errors(self) -> Tensor:
        """`v_t − M_{t−1} k_t`, what was missing before each write: `[time, 2]`."""
        return self.values - torch.einsum("tij, tj -> ti", self.memory[:-1], self.keys)


def unit_vector(degrees: float) -> Tensor:
    """The direction at this angle, measured from the right: `[2]`."""
    radians = math.radians(degrees)
    return torch.tensor([math.cos(radians), math.sin(radians)], dtype=torch.float64)


def watch(angle: float, theta: float = 1.0, rule: str = "delta") -> Plane:
    """Read the story with two keys at this angle, in degrees, and keep every memory.

    rule: "delta" writes the error, equation (8); "Hebb" writes the value, equation (4)

    >>> [f"{error:.2f}" for error in watch(angle=90).errors.norm(dim=1)[:4]]  # once is enough
    ['1.00', '1.00', '0.00', '0.00']
    """
    if rule not in RULES:
        raise ValueError(f"rule: got {rule!r}, expected one of {', '.join(RULES)}")
    key = {"A": unit_vector(20), "B": unit_vector(20 + angle)}
    keys = torch.stack([key[name[0]] for name in STORY])
    values = torch.stack([unit_vector(DIRECTIONS[name[1]]) for name in STORY])
    memory = [torch.zeros(2, 2, dtype=torch.float64)]
    for k, v in zip(keys, values):
        M = memory[-1]
        written = v - M @ k if rule == "delta" else v
        memory.append(M + theta * torch.outer(written, k))
    return Plane(STORY, keys, values, torch.stack(memory))


def falls_by_the_cosine(angles: tuple[float, ...] = (30, 45, 60, 75)) -> bool:
    """Whether each error is |cos(angle)| times the one before, while A1 and B2 come in turn.

    From the second pair on, with theta = 1: a write corrects the answer to its own key, disturbs
    the other by the cosine, and nothing else is wrong there.
    """
    for angle in angles:
        sizes = watch(angle).errors.norm(dim=1)[1:6]
        expected = sizes[:-1] * abs(math.cos(math.radians(angle)))
        if not torch.allclose(sizes[1:], expected, atol=1e-9):
            return False
    return True
