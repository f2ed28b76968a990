"""One look for every figure: colours that colour-blind readers tell apart, letters one can read."""

from contextlib import contextmanager

import matplotlib.pyplot as plt

# Okabe and Ito's palette, in an order in which neighbours differ in lightness too.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
COLOURS = [BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK]


@contextmanager
def house_style():
    """Use as `with house_style(): fig, ax = plt.subplots()`."""
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
