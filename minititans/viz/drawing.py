"""A drawing: a list of shapes, shown as SVG where speed counts and as a picture where it is kept.

A matplotlib figure with several axes takes a tenth of a second and more to draw, too long for a
slider. A drawing becomes SVG in about a millisecond, and matplotlib paints the same shapes once,
for the stored notebook. Coordinates are pixels, from the upper left corner.
"""

import base64
import io
import struct
import zlib
from dataclasses import dataclass, field
from html import escape

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minititans.palette import BLUE, INK, RED

FONT = "DejaVu Sans, Verdana, Helvetica, sans-serif"
DPI = 100  # a drawing's pixel is a hundredth of an inch in its picture


def _palette() -> np.ndarray:
    """From blue over white to red, for numbers from −1 over 0 to 1: `[255, 3]`, uint8."""
    share = np.linspace(-1, 1, 255)[:, None]
    below, above = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in (BLUE, RED))
    return np.round(255 + np.abs(share) * (np.where(share < 0, below, above) - 255)).astype(
        np.uint8
    )


PALETTE = _palette()


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"


@dataclass(frozen=True)
class Line:
    points: tuple[tuple[float, float], ...]
    colour: str = INK
    width: float = 2.0
    dash: str = ""  # as in SVG: "6 4" is six pixels of line, four of gap
    dots: float = 0.0  # radius of a dot at each point; with width=0 there are only dots
    clip: tuple[float, float, float, float] | None = None  # x, y, width, height: shown only there


@dataclass(frozen=True)
class Text:
    x: float
    y: float  # of the baseline
    text: str
    size: float = 15.0
    anchor: str = "start"  # or "middle" or "end"
    colour: str = INK
    bold: bool = False
    upwards: bool = False  # turned by 90°, for the label of a vertical axis


@dataclass(frozen=True, eq=False)
class Pixels:
    x: float
    y: float
    width: float
    height: float
    levels: np.ndarray  # [rows, columns], uint8: places in PALETTE


Shape = Rect | Line | Text | Pixels


@dataclass
class Drawing:
    """Shapes on a white sheet; what was added later lies on top.

    >>> drawing = Drawing(200, 100)
    >>> drawing.add(Rect(0, 0, 50, 50, fill="#0072B2"), Text(60, 20, "a square"))
    >>> drawing
    Drawing(200 × 100)
    >>> "a square" in drawing.svg()
    True
    """

    width: float
    height: float
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes.extend(shapes)

    def texts(self) -> list[str]:
        """All that is written on it: what a test can ask for."""
        return [shape.text for shape in self.shapes if isinstance(shape, Text)]

    def svg(self) -> str:
        w, h = self.width, self.height
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:g} {h:g}" width="100%" '
        style = f'style="max-width:{w:g}px;background:white" font-family="{FONT}">'
        return head + style + "".join(map(_svg, self.shapes)) + "</svg>"

    def figure(self) -> Figure:
        """The same shapes painted by matplotlib."""
        figure = Figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(self.shapes):
            _paint(axes, shape, zorder=order + 1)
        return figure

    def png(self, dpi: float = 120) -> bytes:
        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=dpi, bbox_inches=None)
        return buffer.getvalue()

    def __repr__(self) -> str:
        return f"Drawing({self.width:g} × {self.height:g})"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/plain": repr(self), "image/png": base64.b64encode(self.png()).decode()}


def _svg(shape: Shape) -> str:
    match shape:
        case Rect(x, y, width, height, fill, stroke):
            place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            return f'<rect {place} fill="{fill}" stroke="{stroke}"/>'
        case Line(points, colour, width, dash, dots, clip):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            line = f'<polyline points="{path}" fill="none" stroke="{colour}" '
            line += f'stroke-width="{width:g}" stroke-dasharray="{dash}" stroke-linejoin="round"/>'
            circles = "".join(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{dots:g}" fill="{colour}"/>'
                for x, y in points
                if dots
            )
            inside = (line if width else "") + circles
            if clip is None:
                return inside
            x, y, w, h = clip  # an <svg> inside the <svg> shows nothing beyond its own borders
            place = f'x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"'
            return f'<svg {place} viewBox="{x:g} {y:g} {w:g} {h:g}">{inside}</svg>'
        case Text(x, y, text, size, anchor, colour, bold, upwards):
            turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if upwards else ""
            weight = ' font-weight="bold"' if bold else ""
            look = f'font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"{weight}{turn}'
            return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}</text>'
        case Pixels(x, y, width, height, levels):
            data = base64.b64encode(palette_png(levels)).decode()
            place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            style = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
            return f'<image {place} {style} href="data:image/png;base64,{data}"/>'


def palette_png(levels: np.ndarray) -> bytes:
    """`[rows, columns]` places in the palette as a PNG file, one pixel for each.

    Written here because it must be fast: a heat map is most of what a widget draws.
    """

    def part(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows, columns = levels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)  # 8 bits, a palette
    pixels = b"".join(b"\0" + row.tobytes() for row in levels)  # 0: a row as it is
    parts = (b"IHDR", header), (b"PLTE", PALETTE.tobytes()), (b"IDAT", zlib.compress(pixels, 1))
    return b"\x89PNG\r\n\x1a\n" + b"".join(part(*each) for each in (*parts, (b"IEND", b"")))


def _paint(axes, shape: Shape, zorder: int) -> None:
    points_per_pixel = 72 / DPI
    match shape:
        case Rect(x, y, width, height, fill, stroke):
            look = {"facecolor": fill, "edgecolor": stroke, "linewidth": points_per_pixel}
            axes.add_patch(Rectangle((x, y), width, height, zorder=zorder, **look))
        case Line(points, colour, width, dash, dots, clip):
            x, y = zip(*points) if points else ((), ())
            pattern = [float(length) / width for length in dash.split()] if dash and width else []
            (line,) = axes.plot(
                x, y, color=colour, zorder=zorder, linewidth=width * points_per_pixel,
                linestyle=(0, pattern) if pattern else "-" if width else "none",
                marker="o" if dots else "", markersize=2 * dots * points_per_pixel,
                markeredgewidth=0, scalex=False, scaley=False,
            )  # fmt: skip
            if clip is not None:
                line.set_clip_path(Rectangle(clip[:2], *clip[2:], transform=axes.transData))
        case Text(x, y, text, size, anchor, colour, bold, upwards):
            side = {"start": "left", "middle": "center", "end": "right"}[anchor]
            # Turned by 90°, "anchor" runs along the text, which is upwards.
            align = {"ha": side, "va": "baseline"}
            if upwards:
                align["rotation"] = 90
                align["rotation_mode"] = "anchor"
            weight = "bold" if bold else "normal"
            axes.text(
                x, y, text, fontsize=size * points_per_pixel, color=colour, weight=weight,
                zorder=zorder, parse_math=False, **align,
            )  # fmt: skip
        case Pixels(x, y, width, height, levels):
            rgb, extent = PALETTE[levels], (x, x + width, y + height, y)
            limits = axes.get_xlim(), axes.get_ylim()
            axes.imshow(rgb, extent=extent, aspect="auto", interpolation="nearest", zorder=zorder)
            axes.set(xlim=limits[0], ylim=limits[1])
