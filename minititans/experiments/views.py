"""Who sees whom, and through what, in every variant.

For each variant a table of queries and what they can see, with one of four numbers in each place.
A test holds it to the layers themselves: what cannot be seen changes nothing.
"""

import torch
from torch import Tensor

from minititans.attention import window_mask

NOT, ATTENTION, MEMORY, PERSISTENT = range(4)


def views(variant: str, time: int, window: int, persistent: int) -> Tensor:
    """Through what each token sees each other one, `[time, persistent + time]`: NOT, ATTENTION, …

    Where there are two ways, attention is named: it is the exact one. window: tokens in a sliding
    window, or in a segment of MAC. The plain baselines have no persistent tokens.

    >>> views("mag", time=4, window=2, persistent=1)
    tensor([[3, 1, 0, 0, 0],
            [3, 1, 1, 0, 0],
            [3, 2, 1, 1, 0],
            [3, 2, 2, 1, 1]])
    """
    causal = window_mask(time, time, None)
    place = torch.arange(time)
    near = {
        "transformer": causal,
        "mac": causal & (place[:, None] // window == place // window),
        "lmm": torch.zeros_like(causal),
    }.get(variant, window_mask(time, time, window))
    far = MEMORY if variant in ("mac", "mag", "mal", "lmm") else NOT
    tokens = torch.where(near, ATTENTION, torch.where(causal, far, NOT))
    if variant in ("transformer", "swa"):
        return tokens
    p = torch.full((time, persistent), PERSISTENT)
    if variant == "lmm":
        p.fill_(MEMORY)
    if variant == "mal":  # p comes before the text, and leaves the window as the text goes on
        distance = place[:, None] + persistent - torch.arange(persistent)  # [time, persistent]
        p = torch.where(distance < window, PERSISTENT, MEMORY)
    return torch.cat([p, tokens], 1)
