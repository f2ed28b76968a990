"""Two ways of writing a pair into a matrix: Hebb adds it, the delta rule corrects what is there.

Hebb    M ← M + v kᵀ                       (4)
delta   M ← M + theta (v − M k) kᵀ         (8), with the gradient of (12) written out
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from minititans.viz.charts import ERROR, Box, Series, bars, chart
from minititans.viz.drawing import Drawing
from minititans.viz.recall import crosstalk, random_pairs
from minititans.viz.style import BLUE, GREEN, RED


def hebb(M: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Write one pair by adding it: M `[..., d_v, d_k]`, k `[..., d_k]`, v `[..., d_v]`."""
    return M + v[..., :, None] * k[..., None, :]


def delta(M: Tensor, k: Tensor, v: Tensor, theta: float = 1.0) -> Tensor:
    """Write one pair by taking a share theta of the error away.

    >>> k, v = torch.tensor([1.0, 0.0]), torch.tensor([3.0, 4.0])
    >>> delta(torch.ones(2, 2), k, v) @ k  # whatever M held, it now answers v
    tensor([3., 4.])
    """
    error = v - (M @ k[..., None])[..., 0]
    return M + theta * error[..., :, None] * k[..., None, :]


@dataclass(frozen=True)
class Overwrite:
    """One key, first with an old value and then with a new one: what each rule answers."""

    old: Tensor  # [dim]
    new: Tensor
    hebb: Tensor
    delta: Tensor


def overwrite(dim: int = 12, seed: int = 0) -> Overwrite:
    """Write an old value and then a new one under the same key, with both rules."""
    keys, (old, new) = random_pairs(2, dim, seed)
    k, M = keys[0], torch.zeros(dim, dim)
    blended = hebb(hebb(M, k, old), k, new) @ k
    corrected = delta(delta(M, k, old), k, new) @ k
    return Overwrite(old, new, blended, corrected)


def draw_overwrite(result: Overwrite) -> Drawing:
    drawing = Drawing(900, 150)
    titles = ("old value", "new value", "Hebb answers", "delta answers")
    for place, (title, vector) in enumerate(zip(titles, vars(result).values())):
        bars(drawing, Box(30 + 215 * place, 40, 190, 95), vector, title=title, limit=1.0)
    return drawing


@lru_cache(maxsize=256)
def delta_error(pairs: int, dim: int, passes: int, seeds: tuple[int, ...] = (0, 1, 2)) -> float:
    """Squared error, in units of ‖v‖², after reading all pairs `passes` times with theta = 1."""
    drawn = [random_pairs(pairs, dim, seed) for seed in seeds]
    keys, values = (torch.stack(each) for each in zip(*drawn))  # [seeds, pairs, dim]
    M = torch.zeros(len(seeds), dim, dim)
    for _ in range(passes):
        for i in range(pairs):
            M = delta(M, keys[:, i], values[:, i])
    return float((keys @ M.mT - values).square().sum(-1).mean())


def draw_comparison(
    dim: int, counts: tuple[int, ...], passes: tuple[int, int] = (1, 10)
) -> Drawing:
    """Error against the number of pairs: Hebb's curve, and delta after few and many readings."""
    few, many = passes
    series = [
        Series(counts, [crosstalk(n, dim) for n in counts], "Hebb, (n − 1)/d", RED, dash="7 4"),
        *(
            Series(counts, [delta_error(n, dim, p) for n in counts], label, colour, dots=4)
            for p, label, colour in (
                (few, f"delta, {few} reading{'s' if few > 1 else ''}", BLUE),
                (many, f"delta, {many} readings", GREEN),
            )
        ),
    ]
    drawing = Drawing(900, 380)
    chart(
        drawing, Box(80, 70, 790, 250), series, ylim=(0, 1.5),
        title=f"Correcting holds more than adding (d = {dim})",
        xlabel="pairs n in the matrix", ylabel=ERROR,
    )  # fmt: skip
    return drawing
