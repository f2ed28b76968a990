"""How large a memory can get: with forgetting its norm stays below s / alpha, (13).

s is the largest surprise. With `theta = 1 − eta`, (14) says that S, which starts at zero, never
gets longer than s: `‖S_t‖ ≤ eta ‖S_{t−1}‖ + (1 − eta) ‖u_t‖`. And (13) adds S to what is left of M.
"""

import torch
from torch import Tensor

from minititans.experiments.overflow import random_units
from minititans.memory import Gates, MemoryState, chunked

ETA = 0.5


def norms_of_streams(alpha: float = 0.02, time: int = 300, dim: int = 8) -> tuple[Tensor, Tensor]:
    """The memory's norm over time for three streams, `[3, time]`, and the largest surprise, `[3]`.

    The streams: random pairs; one key that surprises by 1 in the same direction forever; and the
    same without forgetting.
    """
    k = random_units(1, 1, time, dim, seed=0)
    one = k[:, :, :1].expand_as(k)
    v = torch.cat(
        [k.roll(1, 2), always_one_more(alpha, time) * one, always_one_more(0, time) * one]
    )
    k = torch.cat([k, one, one])  # [streams, heads, time, dim]
    gates = Gates.constant(1 - ETA, ETA, alpha, k.shape[:3])
    gates.alpha[2] = 0.0
    start = MemoryState.start([torch.zeros(1, dim, dim)], batch=3)
    _, _, trace = chunked(k, k, v, gates, start, chunk_size=1, trace=True)
    return trace.memory[:, 0], trace.surprise[:, 0].amax(-1)


def always_one_more(alpha: float, time: int) -> Tensor:
    """Values that are always 1 more than what the memory answers: `[time, 1]`."""
    answer, S, values = 0.0, 0.0, []
    for _ in range(time):
        values.append(answer + 1)
        S = ETA * S + (1 - ETA)  # (14), with a surprise of 1
        answer = (1 - alpha) * answer + S  # (13)
    return torch.tensor(values)[:, None]
