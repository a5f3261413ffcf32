"""Small charts of HTML pages as inline SVG, and the round numbers on an axis."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from markupsafe import Markup

from perfgate.judge.phrases import number
from perfgate.model.counting import counted

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 110, 58, 8, 14, 18
SPARK_WIDTH, SPARK_HEIGHT, SPARK_EDGE = 96, 22, 4
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_TICKS = 3
HEADROOM = 1.08
ENDS = Markup('text-anchor="end"')


def ticks(top: float) -> list[float]:
    """Return round numbers from 0 up to `top`, at most MOST_TICKS of them above 0."""
    if not (top / MOST_TICKS >= sys.float_info.min and math.isfinite(top)):
        return [0.0]  # numbers below the smallest normal number have no decades
    size = 10.0 ** math.floor(math.log10(top / MOST_TICKS))
    counts = ((size * each, math.floor(top / (size * each) * (1 + 1e-9))) for each in STEPS)
    step, count = next((step, count) for step, count in counts if count <= MOST_TICKS)
    return [step * n for n in range(count + 1)]


def rounds_chart(rounds: Sequence[float], unit: str, baseline: float | None, limit: float | None) -> Markup:
    """Return the rounds of a metric as points, on an axis from zero, with lines at its baseline and its limit."""
    held = [value for value in (baseline, limit) if value is not None]
    most = max([*rounds, *held], default=0.0) * HEADROOM
    top = most if most >= sys.float_info.min else 1.0
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def y(value: float) -> float:
        return round(TOP + (bottom - TOP) * (1 - value / top), 1)

    axis = Markup('<line class="axis" x1="{0}" y1="{2}" x2="{1}" y2="{2}"/><text x="{3}" y="{4}" {5}>{6}</text>')
    parts = [axis.format(LEFT, right, y(at), LEFT - 5, y(at) + 4, ENDS, number(at)) for at in ticks(top)]
    line = Markup('<line class="{0}" x1="{1}" y1="{3}" x2="{2}" y2="{3}"/><text x="{4}" y="{5}" {6}>{0} {7}</text>')
    # Their words stand at either end of the lines, which may be close to each other.
    for kind, at, end, anchor in (("baseline", baseline, LEFT + 3, Markup("")), ("limit", limit, right, ENDS)):
        if at is not None:
            parts.append(line.format(kind, LEFT, right, y(at), end, y(at) - 3, anchor, number(at)))
    step = (right - LEFT) / (len(rounds) + 1)
    point = Markup('<circle class="o" cx="{:.1f}" cy="{}" r="4"><title>round {}: {}</title></circle>')
    parts += [point.format(LEFT + step * n, y(value), n, number(value)) for n, value in enumerate(rounds, 1)]
    count = counted(len(rounds), "round")
    words = f"{count}, {unit}" if unit else count
    parts.append(Markup('<text x="{}" y="{}" {}>{}</text>').format(right, HEIGHT - 4, ENDS, words))
    shown = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return shown.format(WIDTH, HEIGHT, words, Markup("").join(parts))


def sparkline(values: Sequence[float], limit: float | None) -> Markup:
    """Return values of runs, oldest first, as a line between their least and most; empty for fewer than two."""
    if len(values) < 2:
        return Markup("")
    low, high = min(values), max(values)
    step, span = (SPARK_WIDTH - 2 * SPARK_EDGE) / (len(values) - 1), (high - low) or 1.0

    def y(value: float) -> float:
        return round(SPARK_EDGE + (SPARK_HEIGHT - 2 * SPARK_EDGE) * (1 - (value - low) / span), 1)

    points = [(round(SPARK_EDGE + step * n, 1), y(value)) for n, value in enumerate(values)]
    words = f"{counted(len(values), 'run')}, from {number(low)} to {number(high)}, this one {number(values[-1])}"
    held = Markup("")
    if limit is not None and low <= limit <= high:
        held = Markup('<line class="limit" x1="0" y1="{0}" x2="{1}" y2="{0}"/>').format(y(limit), SPARK_WIDTH)
    shown = Markup(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}'
        '<polyline class="series" points="{}"/><circle class="o" cx="{}" cy="{}" r="3"/></svg>'
    )
    line = " ".join(f"{x},{at}" for x, at in points)
    return shown.format(SPARK_WIDTH, SPARK_HEIGHT, words, words, held, line, *points[-1])
