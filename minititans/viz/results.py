"""Figures of stored results: from a table of numbers to a matplotlib figure."""

from collections.abc import Iterable
from itertools import cycle

from matplotlib.figure import Figure

from minititans.experiments.alive import Alive
from minititans.experiments.chunk_recall import ChunkConfig, Recall
from minititans.experiments.needle import NeedleConfig
from minititans.experiments.results import Result, by_variant, summary
from minititans.palette import BLUE, GREEN, GREY, MIST, ORANGE, PALE, RED
from minititans.tasks.needle import Needle
from minititans.viz.models import LOOKS, NAMES, OTHERS
from minititans.viz.style import house_style

TITLES = {
    "pk": "Finding a passkey in repetitive noise",
    "n": "Finding a number in varied noise",
    "w": "Finding a word in varied noise",
}


@house_style()
def needle_figure(
    results: list[Result], config: NeedleConfig, only: Iterable[str] | None = None
) -> Figure:
    """Accuracy against the length of the haystack, one line per model; `only`: just these."""
    figure = Figure(figsize=(10, 6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    spare = cycle(OTHERS)
    groups = by_variant(results)
    if only is not None:
        groups = {name: groups[name] for name in only if name in groups}
    order = [name for name in LOOKS if name in groups] + [v for v in groups if v not in LOOKS]
    for place, variant in enumerate(order):
        colour, marker, line = LOOKS.get(variant) or next(spare)
        lengths, shares, errors = zip(*summary(groups[variant]))
        # Lines that coincide at 100 % are moved apart by a hair.
        lengths = [length * 1.2 ** (place / len(order) - 0.5) for length in lengths]
        # A bar ends where its line could not be: below 0 and above 100 %.
        down = [100 * min(error, share) for share, error in zip(shares, errors)]
        up = [100 * min(error, 1 - share) for share, error in zip(shares, errors)]
        axes.errorbar(
            lengths, [100 * share for share in shares], (down, up),
            color=colour, marker=marker, linestyle=line, markersize=10, linewidth=2.5, capsize=4,
            label=NAMES.get(variant, variant),
        )  # fmt: skip
    chance = 100 * Needle(config.kind).chance
    axes.axhline(chance, color=GREY, linestyle=(0, (1, 2)), linewidth=2)
    axes.text(
        0.01, chance + 1, f"chance: {chance:.2g} %", transform=axes.get_yaxis_transform(),
        va="bottom", fontsize=13, color=GREY,
    )  # fmt: skip
    longest = max(config.training_lengths)
    axes.axvspan(axes.get_xlim()[0] / 2, longest * 1.2, color=MIST, zorder=0)
    axes.annotate(f"trained up to {longest}", (longest * 1.25, 104), fontsize=13, color=GREY)
    ticks = sorted({length for runs in groups.values() for length, *_ in summary(runs)})
    axes.set_xscale("log", base=2)
    axes.set_xlim(ticks[0] * 0.8, ticks[-1] * 1.25)
    axes.set_ylim(-3, 110)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=15 if len(ticks) < 6 else 12)
    axes.set_yticks(range(0, 101, 25), [f"{tick} %" for tick in range(0, 101, 25)], fontsize=15)
    axes.set_xlabel("length of the haystack in tokens", fontsize=17)
    axes.set_ylabel("needles found", fontsize=17)
    axes.set_title(TITLES[config.kind], fontsize=19)
    axes.grid(axis="y", color=PALE)
    figure.legend(loc="outside right center", fontsize=15)
    return figure


@house_style()
def chunk_figure(found: list[Recall], config: ChunkConfig) -> Figure:
    """Needles found against the chunk size, one panel per model."""
    models = list(dict.fromkeys(each.model for each in found))
    figure = Figure(figsize=(4 * len(models) + 1, 4), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axes, model in zip(panels, models):
        for each in (each for each in found if each.model == model):
            colour, line, name = (
                (BLUE, "-", "exact last layer") if each.exact
                else (RED, "--", "all layers frozen")
            )  # fmt: skip
            for shares in each.found:
                axes.plot(each.sizes, [100 * x for x in shares], color=colour, alpha=0.25)
            axes.plot(each.sizes, [100 * x for x in each.mean], line, marker="o", color=colour,
                      linewidth=2.5, label=name)  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks(config.sizes, map(str, config.sizes))
        axes.set_title(NAMES.get(model, model))
        axes.set_xlabel("tokens in a chunk")
        axes.grid(axis="y", color=PALE)
        panels[0].set_ylabel(f"needles found at {config.length:,} tokens (%)")
    panels[0].set_ylim(-3, 103)
    panels[0].legend()
    return figure


@house_style()
def alive_figure(found: list[Alive]) -> Figure:
    """How much a probe teaches against the tokens read, one panel per kind of layer."""
    kinds = list(dict.fromkeys(each.layers for each in found))
    titles = {"residual": "Layers that add to a vector of length 1", "plain": "Plain layers"}
    figure = Figure(figsize=(5 * len(kinds) + 1, 4.5), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    colours = (BLUE, GREEN, ORANGE, RED)
    for axes, kind in zip(panels, kinds):
        for each in (each for each in found if each.layers == kind):
            line = "-" if each.chunk_size == max(x.chunk_size for x in found) else ":"
            axes.plot(
                each.after, [100 * share for share in each.learned], line, marker="o",
                color=colours[each.depth - 1], linewidth=2,
                label=f"depth {each.depth}, chunks of {each.chunk_size}",
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks(each.after, [f"{n:,}" for n in each.after])
        axes.set_title(titles[kind])
        axes.set_xlabel("tokens read before the new text")
        axes.grid(axis="y", color=PALE)
        panels[0].set_ylabel("loss removed by reading it eight times (%)")
    panels[0].set_ylim(bottom=-1)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    return figure
