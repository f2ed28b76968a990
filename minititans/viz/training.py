"""A loss curve that is drawn while a model is being trained, beside that of a stored one."""

from IPython.display import display

from minititans.experiments.live_training import BITS, stored_curve
from minititans.experiments.models import PART, Record
from minititans.palette import BLUE, GREY
from minititans.viz.charts import Series
from minititans.viz.drawing import Drawing
from minititans.viz.single import single_chart

UNIFORM = 8.0  # bits per byte of a model that knows nothing: log₂ 256


class LiveCurve:
    """Shown as soon as it is made, and redrawn with every tenth loss that is added.

    >>> from minititans.experiments.models import Record
    >>> stored = Record("", 0, 607440, [5.5] * 20, [4.0, 2.0], {}, {}, 1)
    >>> curve = LiveCurve(steps=200, stored=stored)
    Drawing(900 × 380)
    >>> for loss in (5.5, 5.0, 4.0):
    ...     curve.add(loss)
    >>> len(curve.bits)
    3
    """

    def __init__(self, steps: int, stored: Record, every: int = 10):
        self.steps, self.stored, self.every = steps, stored, every
        self.bits: list[float] = []
        self.shown = display(self.draw(), display_id=True)

    def add(self, nats: float) -> None:
        """The loss of one more step, as `cross_entropy` gives it."""
        self.bits.append(nats * BITS)
        if self.shown is not None and len(self.bits) % self.every == 0:
            self.shown.update(self.draw())

    def draw(self) -> Drawing:
        return draw_losses(self.bits, self.steps, self.stored)


def draw_losses(bits: list[float], steps: int, stored: Record) -> Drawing:
    """The loss of every step so far, and the stored model's curve."""
    stored_steps, stored_bits = stored_curve(stored)
    in_all = len(stored.losses) * PART
    now = list(range(1, len(bits) + 1))
    label = f"stored: {stored.parameters:,} parameters, {in_all:,} steps"
    return single_chart(
        [
            Series(stored_steps, stored_bits, label, GREY, dash="6 4"),
            Series(now, bits, "this one", BLUE),
        ],
        title=f"Loss while training: step {len(bits)} of {steps}",
        xlabel="step", ylabel="bits per byte", log_x=True,
        xlim=(1, max(steps, in_all)), ylim=(1, UNIFORM + 0.5),
    )  # fmt: skip
