"""How much of what token i wrote does token t meet, with all the decay between them?

    overlap[t, i] = x_t · Diag(decay_{i+1} ⋯ decay_t) · z_i            for i ≤ t, else 0

With one decay per head the product is a number, and the overlaps of a chunk are one matmul times
a matrix of products. With one decay per column of S they are not; the usual way out divides
`decay_1 ⋯ decay_t` by `decay_1 ⋯ decay_i`, which underflows and is 0/0 for a decay of 0.
Here the chunk is halved again and again instead. Exactly one cut separates a pair i < t, and

    decay_{i+1} ⋯ decay_t  =  (decay_{i+1} ⋯ up to the cut) · (from the cut ⋯ decay_t):

one factor goes to z_i, the other to x_t, and between the halves the overlap is a matmul again.
Nothing is divided, so decays may be tiny, and exactly 0.
"""

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from minititans.memory import segment_products


class Overlaps(NamedTuple):
    """Overlaps in a chunk, and its vectors decayed from its start or to its end."""

    matrix: Tensor  # [..., x, z, time, time]
    x: Tensor  # [..., x, time, dim]   each decayed from the chunk's start
    z: Tensor  # [..., z, time, dim]   each decayed to the chunk's end
    total: Tensor  # [..., 1, 1 or dim]  the whole chunk's decay


def overlaps_one_decay(x: Tensor, z: Tensor, decay: Tensor, before: list[bool]) -> Overlaps:
    """x: `[..., x, time, dim]`, z: `[..., z, time, dim]`, decay: `[..., time]`.

    before: one flag for each kind of x. Such an x reads the state that token t finds, before
    token t's own decay and write; the others read the state that it leaves.
    """
    P = segment_products(decay)  # [..., time, time]
    since_start = P[..., 0] * decay[..., :1]  # decay_1 ⋯ decay_t
    total, to_end = since_start[..., -1:], P[..., -1, :]
    # Before token t: the products up to t − 1, which are the rows of P moved down by one.
    P_before = torch.cat([torch.zeros_like(P[..., :1, :]), P[..., :-1, :]], -2)
    start_before = torch.cat([torch.ones_like(decay[..., :1]), since_start[..., :-1]], -1)
    weight = torch.stack([P_before if flag else P for flag in before], -3)
    from_start = torch.stack([start_before if flag else since_start for flag in before], -2)

    kinds = {"x": x.shape[-3], "z": z.shape[-3]}
    matrix = x.flatten(-3, -2) @ z.flatten(-3, -2).mT  # all kinds in one matmul
    matrix = rearrange(matrix, "... (x t) (z i) -> ... x z t i", **kinds)
    return Overlaps(
        matrix * weight[..., None, :, :],
        x * from_start[..., None],
        z * to_end[..., None, :, None],
        total[..., None],
    )


def overlaps_many_decays(x: Tensor, z: Tensor, decay: Tensor, before: list[bool]) -> Overlaps:
    """The same for decay `[..., time, dim]`; time must be a power of 2.

    From the bottom up: blocks of one token, then pairs of blocks are joined until one is left.
    """
    kinds = {"x": x.shape[-3], "z": z.shape[-3]}
    reads_before = torch.tensor(before, device=x.device)[:, None, None]
    x_now = torch.where(reads_before, x, x * decay[..., None, :, :])
    own = torch.einsum("...xtd,...ztd->t...xz", x, z).masked_fill(reads_before[:, 0], 0.0)

    # The blocks come first: [blocks, ..., kind, size, dim] and [blocks, ..., x, z, size, size].
    x, z = (rearrange(part, "... kind t d -> t ... kind 1 d") for part in (x_now, z))
    total = rearrange(decay, "... t d -> t ... 1 1 d")
    matrix = own[..., None, None]
    while len(x) > 1:
        x_left, x_right = _pairs(x)
        z_left, z_right = _pairs(z)
        total_left, total_right = _pairs(total)
        matrix_left, matrix_right = _pairs(matrix)
        across = x_right.flatten(-3, -2) @ z_left.flatten(-3, -2).mT
        across = rearrange(across, "... (x t) (z i) -> ... x z t i", **kinds)
        first = torch.cat([matrix_left, torch.zeros_like(across)], -1)
        second = torch.cat([across, matrix_right], -1)
        matrix = torch.cat([first, second], -2)
        x = torch.cat([x_left, x_right * total_left], -2)
        z = torch.cat([z_left * total_right, z_right], -2)
        total = total_left * total_right
    return Overlaps(matrix[0], x[0], z[0], total[0].squeeze(-2))


def _pairs(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The left and the right block of every pair of neighbours."""
    return blocks.unflatten(0, (-1, 2)).unbind(1)
