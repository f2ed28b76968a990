"""Who sees whom: the attention masks of the variants as pictures (the paper's figure of masks)."""

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from minititans.attention import segment_mask, window_mask
from minititans.palette import BLUE, GREEN, ORANGE
from minititans.viz.style import house_style

KINDS = {"persistent": GREEN, "retrieved": ORANGE, "tokens": BLUE}


def mac_mask(
    time: int, segment: int, persistent: int, literal: bool = False
) -> tuple[Tensor, Tensor]:
    """MAC's mask over a whole sequence, `[time, persistent + 2 · time]`, and each key's kind.

    Retrieved tokens stand beside their segment. Kinds are indices into `KINDS`.
    """
    mask = torch.zeros(time, persistent + 2 * time, dtype=torch.bool)
    kinds = [0] * persistent
    mask[:, :persistent] = True
    for first in range(0, time, segment):
        size = min(segment, time - first)
        column = persistent + 2 * first
        inside = segment_mask(size, size, persistent, literal)[:, persistent:]
        mask[first : first + size, column : column + 2 * size] = inside
        kinds += [1] * size + [2] * size
    return mask, torch.tensor(kinds)


def mag_mask(time: int, window: int | None, persistent: int) -> tuple[Tensor, Tensor]:
    """The sliding window with its prefix, `[time, persistent + time]`, and each key's kind."""
    kinds = torch.tensor([0] * persistent + [2] * time)
    return window_mask(time, time, window, persistent), kinds


def draw_mask(mask: Tensor, kinds: Tensor, title: str) -> Figure:
    """A row for each query, a column for each key, coloured where the query may look."""
    cells = torch.where(mask, kinds + 1, 0)
    size = (2.6 + 0.22 * mask.shape[1], 1.2 + 0.22 * mask.shape[0])
    with house_style():
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        colours = ListedColormap(["#F2F2F2", *KINDS.values()])
        axes.imshow(cells.numpy(), cmap=colours, vmin=0, vmax=len(KINDS), interpolation="nearest")
        axes.set_xticks(torch.arange(mask.shape[1] + 1).numpy() - 0.5, minor=True)
        axes.set_yticks(torch.arange(mask.shape[0] + 1).numpy() - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
        axes.tick_params(which="both", length=0)
        axes.set(title=title, xlabel="what can be seen", ylabel="who looks (token)")
        used = [kind for number, kind in enumerate(KINDS) if (kinds == number).any()]
        handles = [Patch(color=KINDS[kind], label=kind) for kind in used]
        figure.legend(handles=handles, loc="outside right upper")
    return figure
