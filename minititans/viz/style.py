"""One look for matplotlib's figures; the colours are those of `minititans.palette`."""

from contextlib import contextmanager

import matplotlib.pyplot as plt

from minititans.palette import COLOURS


@contextmanager
def house_style():
    """`with house_style(): fig, ax = plt.subplots()`, or `@house_style()` above a function."""
    settings = {
        "axes.prop_cycle": plt.cycler(color=COLOURS),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 13,
        "axes.labelsize": 12,
        "xtick.labelsize": 11,
        "ytick.labelsize": 11,
        "legend.fontsize": 11,
        "legend.frameon": False,
        "lines.linewidth": 2,
        "figure.dpi": 110,
        "savefig.bbox": "tight",
    }
    with plt.rc_context(settings):
        yield
