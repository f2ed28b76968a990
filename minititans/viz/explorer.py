"""The base of every widget: controls, and a picture that is redrawn when one of them moves.

    explorer(draw, theta=slider(0.5, 0, 1, 0.05), step=player(1, 1, 40))

`draw(theta=..., step=...)` is a pure function and all there is to test: it returns a `Drawing`
(fast), a matplotlib figure (slow), or a string, which is shown as a plain message. The view only
carries values to `draw` and its result to the screen. In a stored notebook, where no kernel
answers, the picture of the starting values takes the widget's place.

Controls and picture are meant to be seen together on a small screen, so a drawing is scaled down
to `TALLEST` pixels; beside up to three rows of controls a widget is then at most 620 pixels high.
"""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from minititans.viz.drawing import Drawing, Text

VIEW = "application/vnd.jupyter.widget-view+json"
WIDE = {"description_width": "initial"}
TALLEST = 510  # pixels of a picture in a widget
SPEEDS = {"½×": 2.0, "1×": 1.0, "4×": 0.25}  # of a player, and what its interval is multiplied by


def slider(start, low, high, step=None, label: str = "") -> widgets.Widget:
    """A slider over whole numbers if all are whole, else over decimals."""
    whole = all(isinstance(number, int) for number in (start, low, high, step or 1))
    kind = widgets.IntSlider if whole else widgets.FloatSlider
    step = step or (1 if whole else (high - low) / 100)
    # As many decimals as the step has: a slider in steps of 0.05 shows 0.30.
    decimals = 0 if whole else max(1, len(f"{step:.6f}".rstrip("0").split(".")[1]))
    readout = {"readout_format": "d" if whole else f".{decimals}f"}
    return kind(start, min=low, max=high, step=step, description=label, style=WIDE, **readout)


def steps(start, options, label: str = "") -> widgets.Widget:
    """A slider over a list, for numbers that do not grow evenly: `steps(16, [1, 4, 16, 64])`."""
    return widgets.SelectionSlider(value=start, options=options, description=label, style=WIDE)


def choice(start, options, label: str = "") -> widgets.Widget:
    """A drop-down list."""
    return widgets.Dropdown(value=start, options=options, description=label, style=WIDE)


def player(start: int, low: int, high: int, label: str = "", interval: int = 400) -> widgets.Widget:
    """A slider over whole numbers with buttons to play, pause and repeat, and a choice of speed.

    interval: milliseconds from one number to the next at normal speed
    """
    control = slider(start, low, high, 1, label)
    control.player = widgets.Play(value=start, min=low, max=high, interval=interval)
    control.speed = widgets.ToggleButtons(
        options=SPEEDS, value=1.0, style={"button_width": "46px"}, layout={"width": "160px"},
        tooltips=["slow", "normal speed", "fast"],
    )  # fmt: skip

    def set_interval(change) -> None:
        control.player.interval = round(interval * change["new"])

    control.speed.observe(set_interval, "value")
    return control


@dataclass(frozen=True, eq=False)
class Explorer:
    """What `explorer` returns. Show it as the last line of a cell."""

    draw: Callable[..., Drawing | Figure | str]
    controls: dict[str, widgets.Widget]
    picture: widgets.HTML
    view: widgets.Widget

    @property
    def values(self) -> dict[str, Any]:
        return {name: control.value for name, control in self.controls.items()}

    def corners(self) -> list[dict[str, Any]]:
        """The values at every corner of the controls' ranges, all choices of a list included."""
        extremes = {name: _extremes(control) for name, control in self.controls.items()}
        return [dict(zip(extremes, values)) for values in product(*extremes.values())]

    def redraw(self, change=None) -> None:
        self.picture.value = _html(_attempt(self.draw, self.values))

    def __repr__(self) -> str:
        return f"Explorer({', '.join(self.controls)})"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.view.model_id}
        still = base64.b64encode(_png(_attempt(self.draw, self.values))).decode()
        return {"text/plain": repr(self), "image/png": still, VIEW: view}


def explorer(draw: Callable[..., Drawing | Figure | str], **controls: widgets.Widget) -> Explorer:
    """Make a widget of a function that draws; each control is a keyword argument of `draw`.

    >>> def square(size):
    ...     return f"{size} squared is {size**2}"
    >>> widget = explorer(square, size=slider(3, 0, 10))
    >>> widget
    Explorer(size)
    >>> widget.controls["size"].value = 4
    >>> "4 squared is 16" in widget.picture.value
    True
    """
    rows = []
    for name, control in controls.items():
        control.description = control.description or name
        if control.layout.width is None:  # or a long description leaves the slider no room
            control.layout.width = f"{230 + 7 * len(control.description)}px"
        row = [control]
        if isinstance(play := getattr(control, "player", None), widgets.Play):
            widgets.jslink((play, "value"), (control, "value"))  # in the browser, without a detour
            row = [play, control, control.speed]
        rows.append(widgets.HBox(row))
    panel = widgets.Box(rows, layout={"flex_flow": "row wrap"})
    picture = widgets.HTML(layout={"width": "100%"})
    view = widgets.VBox([panel, picture])
    view.add_class("minititans-explorer")
    result = Explorer(draw, controls, picture, view)
    for control in controls.values():
        control.observe(result.redraw, "value")
    result.redraw()
    return result


def _attempt(draw: Callable, values: dict[str, Any]) -> Drawing | Figure | str:
    """A widget never breaks the notebook: what goes wrong is said in its picture's place."""
    try:
        return draw(**values)
    except Exception as error:
        return f"These settings cannot be drawn. {type(error).__name__}: {error}"


def _html(drawn: Drawing | Figure | str) -> str:
    if isinstance(drawn, Drawing):
        if drawn.height <= TALLEST:
            return drawn.svg()
        width = drawn.width * TALLEST / drawn.height
        return f'<div style="max-width:{width:.0f}px">{drawn.svg()}</div>'
    if isinstance(drawn, Figure):
        data = base64.b64encode(_png(drawn)).decode()
        width, height = (100 * inches for inches in drawn.get_size_inches())
        width *= min(1, TALLEST / height)
        return f'<img src="data:image/png;base64,{data}" style="width:100%;max-width:{width:g}px">'
    return f'<div style="font-size:16px;padding:2em">{escape(drawn)}</div>'


def _png(drawn: Drawing | Figure | str) -> bytes:
    if isinstance(drawn, Drawing):
        return drawn.png()
    if isinstance(drawn, Figure):
        buffer = io.BytesIO()
        drawn.savefig(buffer, format="png", dpi=100, bbox_inches=None)
        return buffer.getvalue()
    note = Drawing(900, 60)
    note.add(Text(20, 36, drawn))
    return note.png()


def _extremes(control: widgets.Widget) -> list[Any]:
    if isinstance(control, widgets.Text | widgets.Textarea):
        return ["", control.value, "x", "Ω≈ç√ <b>&\"' " * 20]
    if hasattr(control, "min"):
        return [control.min, control.max]
    if isinstance(control, widgets.SelectionSlider):
        return [_value(control.options[0]), _value(control.options[-1])]
    if hasattr(control, "options"):
        return [_value(option) for option in control.options]
    return [False, True]  # a checkbox


def _value(option: Any) -> Any:
    """An option is a value, or a pair of words and a value."""
    return option[1] if isinstance(option, tuple) else option
