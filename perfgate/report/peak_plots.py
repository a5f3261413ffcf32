"""Picture of a load whose rate changes over a window: offered and achieved, p99 and what was owed over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perfgate.model import ShapeFigures
from perfgate.model.metrics import PEAK_PHASES
from perfgate.report.style import BLACK, BLUE, GREY, ORANGE, PURPLE, new_figure, plain_log, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def peak_figure(name: str, figures: ShapeFigures) -> Figure:
    """Return a round's records offered and achieved, its p99 and what was owed, second by second."""
    from matplotlib.ticker import StrMethodFormatter

    edges = list(range(len(figures.offered) + 1))
    middles = [edge + 0.5 for edge in edges[:-1]]
    figure = new_figure(9, 7)
    rate, latency, owed = figure.subplots(3, 1, sharex=True, gridspec_kw={"height_ratios": [3, 2, 2]})
    rate.stairs(figures.offered, edges, color=BLACK, label="offered")
    rate.stairs(figures.achieved, edges, color=BLUE, linestyle="--", label="achieved")
    rate.set_ylim(bottom=0)
    rate.set_ylabel("records/s")
    rate.legend(fontsize="small", loc="best")
    latency.plot(middles, [math.nan if p99 is None else p99 for p99 in figures.p99_ms], color=BLUE, marker=".")
    plain_log(latency, "y", [p99 for p99 in figures.p99_ms if p99 is not None])
    latency.set_ylabel("p99 from intended\nsend, ms")
    owed.stairs(figures.owed, edges, color=ORANGE)
    owed.set_ylim(bottom=0)
    owed.set_ylabel("most records due and\nnot acknowledged")
    owed.set_xlabel("seconds since the window opened")
    for axes in (rate, owed):
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for phase, (begin, end) in figures.phases.items():
        rate.text((begin + end) / 2, 1.02, PEAK_PHASES[phase], transform=rate.get_xaxis_transform(), ha="center")
        for axes in (rate, latency, owed):
            axes.axvline(begin, color=PURPLE, linewidth=1, linestyle="--")
            if phase == "peak":
                axes.axvspan(begin, end, color=GREY, alpha=0.15, linewidth=0)
    figure.suptitle(f"{name}: the load over time", fontsize="medium")
    return figure
