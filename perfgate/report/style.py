"""Style of all pictures: colours for the colour-blind, a background of their own for light and dark pages."""

from __future__ import annotations

import functools
import io
import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito, 2008: https://jfly.uni-koeln.de/color/ (the grey is not theirs)
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, RED, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#666666"
MARKERS = "osD^vP"
"""Brokers and quantiles also differ by marker: print has no colours."""
LINES = ("-", "--", "-.", ":")
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)
SHARP = 200
"""Dots per inch: twice a page's resolution."""
ENOUGH_COLOURS = 64
COORDINATES = re.compile(rb' (?:d|x|y)="[^"]*"')
FRACTION = re.compile(rb"(\.\d\d)\d+")
STYLE: Any = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    "text.parse_math": False,  # a name with $ in it is a name
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # every word of an SVG names all of them
    "svg.fonttype": "none",
    "svg.hashsalt": "kafka-performance-gate",  # the same figures make the same file
}


def styled(draws: Callable[P, T]) -> Callable[P, T]:
    """Let a function draw within :data:`STYLE`, whatever else uses matplotlib in this process."""

    @functools.wraps(draws)
    def within(*args: P.args, **kwargs: P.kwargs) -> T:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draws(*args, **kwargs)

    return within


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches at 100 dots each, for a function that is :func:`styled`."""
    from matplotlib.figure import Figure  # takes half a second to import, and few runs draw

    return Figure(figsize=(width, height), layout="constrained")


def plain_log(axes: Axes, which: Literal["x", "y"], values: Iterable[float]) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks even for a small range of `values`."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    known = [value for value in values if math.isfinite(value) and value > 0]
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log"})
    axis.set_major_locator(
        LogLocator(subs=(1, 2, 5)) if known and max(known) > 10 * min(known) else MaxNLocator(nbins=5)
    )
    axis.set_major_formatter("{x:,.6g}")
    axis.set_minor_formatter(NullFormatter())


def png(figure: Figure) -> bytes:
    from PIL import Image

    picture, small = Image.open(io.BytesIO(_saved(figure, "png"))).convert("RGB"), io.BytesIO()
    picture.quantize(ENOUGH_COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG, its coordinates cut: matplotlib's millionths of a point are a third of the file."""
    return COORDINATES.sub(lambda match: FRACTION.sub(rb"\1", match[0]), _saved(figure, "svg"))


@styled
def _saved(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=SHARP, metadata={"Date": None} if kind == "svg" else None)
    return picture.getvalue()
