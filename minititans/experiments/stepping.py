"""One token at a time through the rule of a matrix memory, everything kept.

u_t = (M_{t-1} k_t − v_t) k_tᵀ             momentary surprise, the gradient of (12)
S_t = eta · S_{t-1} − theta · u_t          surprise with momentum          (14)
M_t = (1 − alpha) · M_{t-1} + S_t          write, with forgetting          (13)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# A pair is a key (capital letter) and a value (digit). A, B and C come again and again; D is new;
# then A has a new value.
STORY = (
    "A1", "B2", "C3", "A1", "B2", "C3", "A1", "B2", "C3", "D4", "A1", "B2", "C3", "D4",
    "A5", "B2", "C3", "A5", "B2", "C3", "D4", "A5", "B2", "C3",
)  # fmt: skip


@dataclass(frozen=True)
class Steps:
    """All that the memory saw, thought and wrote; time counts tokens."""

    names: tuple[str, ...]
    keys: Tensor  # [time, dim]
    values: Tensor  # [time, dim]
    predictions: Tensor  # [time, dim]            M_{t-1} k_t
    gradients: Tensor  # [time, dim, dim]         u_t
    momentum: Tensor  # [time + 1, dim, dim]      S_t, from S_0 = 0 on
    memory: Tensor  # [time + 1, dim, dim]        M_t, from M_0 = 0 on
    theta: float
    eta: float
    alpha: float

    @property
    def errors(self) -> Tensor:
        """What was missing, `v_t − M_{t-1} k_t`: `[time, dim]`."""
        return self.values - self.predictions

    @property
    def surprise(self) -> Tensor:
        """The norm of u_t: `[time]`."""
        return self.gradients.flatten(1).norm(dim=1)


def story(names: tuple[str, ...] = STORY, dim: int = 8, seed: int = 3) -> tuple[Tensor, Tensor]:
    """A random unit vector for every letter and for every digit: keys and values `[time, dim]`."""
    generator = torch.Generator().manual_seed(seed)
    signs = sorted({sign for name in names for sign in name})
    vectors = torch.randn(len(signs), dim, generator=generator, dtype=torch.float64)
    of = dict(zip(signs, vectors / vectors.norm(dim=1, keepdim=True)))
    letters, digits = zip(*names)
    return torch.stack([of[a] for a in letters]), torch.stack([of[a] for a in digits])


def step_through(
    keys: Tensor, values: Tensor, names: tuple[str, ...], theta: float, eta: float, alpha: float
) -> Steps:
    """Read the pairs one by one, keeping everything: keys, values `[time, dim]`.

    >>> keys, values = story()
    >>> steps = step_through(keys, values, STORY, theta=1.0, eta=0.0, alpha=0.0)
    >>> bool(steps.surprise[3] < steps.surprise[0])  # the second A1 surprises less than the first
    True
    """
    M = [torch.zeros(values.shape[1], keys.shape[1], dtype=keys.dtype)]
    S, predictions, gradients = [M[0]], [], []
    for k, v in zip(keys, values):
        predictions.append(M[-1] @ k)
        gradients.append(torch.outer(predictions[-1] - v, k))
        S.append(eta * S[-1] - theta * gradients[-1])
        M.append((1 - alpha) * M[-1] + S[-1])
    kept = (torch.stack(each) for each in (predictions, gradients, S, M))
    return Steps(names, keys, values, *kept, theta, eta, alpha)
