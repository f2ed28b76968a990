"""Which query sees which key: one row per query, one column per key, True where it may look."""

import torch
import torch.nn.functional as F
from torch import Tensor

from minititans.arguments import check, whole

WINDOW = whole(1, none="all that came before")


def window_mask(queries: int, keys: int, window: int | None, prefix: int = 0) -> Tensor:
    """True where a query may look: `[queries, prefix + keys]`.

    The queries are the last of the keys. Each sees itself and what came before, up to `window`
    tokens altogether, and every prefix token at any distance. `window=None` is causal attention.

    >>> window_mask(queries=4, keys=4, window=2, prefix=1).int()
    tensor([[1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [1, 0, 1, 1, 0],
            [1, 0, 0, 1, 1]], dtype=torch.int32)
    """
    check_window(queries, keys, window)
    check(prefix=prefix)
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)  # [queries, keys]
    seen = distance >= 0
    if window is not None:
        seen &= distance < window
    return F.pad(seen, (prefix, 0), value=True)


def check_window(queries: int, keys: int, window: int | None) -> None:
    WINDOW.check("window", window)
    check(queries=queries, keys=keys)
    if queries > keys:
        raise ValueError(f"queries: got {queries}, expected at most as many as keys, {keys}")


def segment_mask(queries: int, length: int, persistent: int, literal: bool = False) -> Tensor:
    """MAC's `[persistent | retrieved | segment]` for the last queries of a segment so far.

    `length` tokens of the segment are there, and as many retrieved ones. Retrieved token j is
    what the memory says about token j, so only positions from j on may see it; the paper, taken
    literally (`literal=True`), shows all of them to every token, and the future with them.

    >>> segment_mask(queries=2, length=2, persistent=1).int()
    tensor([[1, 1, 0, 1, 0],
            [1, 1, 1, 1, 1]], dtype=torch.int32)
    """
    check(length=length, persistent=persistent, literal=literal)
    causal = window_mask(queries, length, window=None)
    retrieved = torch.ones_like(causal) if literal else causal
    return torch.cat([F.pad(retrieved, (persistent, 0), value=True), causal], 1)


def attention_weights(q: Tensor, k: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The softmax of (2) as a table, `[..., queries, keys]`: each row adds up to 1."""
    scores = (q @ k.mT * scale).masked_fill(~mask.to(q.device), -torch.inf)
    return scores.softmax(-1)
