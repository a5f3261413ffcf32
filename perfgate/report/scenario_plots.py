"""Pictures of a scenario: its rounds with their limits, latency on the scale of nines, CPU of each broker, lag."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from perfgate.judge.phrases import number
from perfgate.judge.statistics import median_interval
from perfgate.model import Judgement, Measurement, Outcome, Round, Step, metric_info
from perfgate.model.counting import counted
from perfgate.model.histogram import latency_metrics
from perfgate.model.summary import centre
from perfgate.report.style import BLACK, BLUE, CYCLE, GREY, LINES, MARKERS, ORANGE, RED, new_figure, plain_log, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NINES = {"p50": 0.3, "p95": 1.3, "p99": 2.0, "p99.9": 3.0, "p99.99": 4.0, "max": 5.0}
"""How many nines percentiles have; the largest value is drawn a nine further."""
BROKER_CPU = "broker_cpu_cores."
MOST_MARKERS = 24
"""More on a line blur, and are half of the file."""
Former = Mapping[str, Sequence[float]]
"""Values of former runs by metric, oldest first."""


def scenario_pictures(measurement: Measurement, outcome: Outcome | None, former: Former) -> dict[str, Figure]:
    """Return the figures for which a scenario's rounds have data, by name."""
    drawn = {
        "rounds": rounds_figure(measurement, outcome, former),
        "latency": latency_figure(measurement),
        "cpu": cpu_figure(measurement),
        "lag": lag_figure(measurement),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


@styled
def rounds_figure(measurement: Measurement, outcome: Outcome | None, former: Former) -> Figure | None:
    """Return each judged metric's rounds with their centre, baseline, limit and former runs; else the rate's."""
    judged = {judgement.metric: judgement for judgement in (outcome.judgements if outcome else ())}
    series = {name: _rounds(measurement, name) for name in judged or ("records_per_s", "broker_cpu_us_per_record")}
    series = {name: values for name, values in series.items() if values}
    if not series:
        return None

    figure = new_figure(9, 2.9 * len(series) + 0.4)
    for axes, (name, values) in zip(figure.subplots(len(series), squeeze=False).flat, series.items(), strict=True):
        _draw_rounds(axes, name, values, judged.get(name), former.get(name, ()))
    axes.set_xlabel("round")
    word = f" ({outcome.verdict.value})" if outcome else ""
    figure.suptitle(f"{measurement.scenario.name}: each round of this run{word}", fontsize="medium")
    return figure


def _draw_rounds(
    axes: Axes, name: str, values: Mapping[int, float], judgement: Judgement | None, former: Sequence[float]
) -> None:
    info, numbers = metric_info(name), list(values.values())
    middle, (low, high) = centre(numbers), median_interval(numbers)
    axes.axhspan(low, high, color=BLUE, alpha=0.15, linewidth=0, label="interval of the median")
    axes.axhline(middle, color=BLUE, linewidth=2, label=f"centre {number(middle)}")
    axes.plot(list(values), numbers, "o", color=BLACK, markersize=6, label="a round", zorder=3)
    for place, value in enumerate(former):
        label = None if place else counted(len(former), "former run")
        axes.axhline(value, color=GREY, linewidth=0.7, alpha=0.8, label=label, zorder=1)
    edges = [*numbers, low, high, *former]
    if judgement and judgement.baseline is not None:
        axes.axhline(judgement.baseline, color=GREY, linestyle="--", label=f"baseline {number(judgement.baseline)}")
        edges.append(judgement.baseline)
    if judgement and judgement.limit is not None:
        axes.axhline(judgement.limit, color=RED, linestyle="-.", label=f"limit {number(judgement.limit)}")
        edges.append(judgement.limit)
    room = (max(edges) - min(edges)) * 0.15 or abs(middle) * 0.05 or 1.0
    bottom, top = min(edges) - room, max(edges) + room
    if judgement and judgement.limit is not None and info is not None:
        beyond = (bottom, judgement.limit) if info.better == "higher" else (judgement.limit, top)
        axes.axhspan(*beyond, color=RED, alpha=0.12, linewidth=0, label="beyond the limit")
    axes.set_ylim(bottom, top)
    axes.set_xticks(list(values))
    axes.set_ylabel(f"{name}\n{info.unit if info else ''}")
    axes.yaxis.set_major_formatter("{x:,.6g}")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


@styled
def latency_figure(measurement: Measurement) -> Figure | None:
    """Return the percentiles of each round with a valid latency, and of all of them (bold); None without any."""
    names = [f"latency_ms.{name.replace('.', '')}" for name in NINES]
    rounds = [r for r in measurement.rounds if set(names) <= r.metrics.keys() and not r.spoilt(names[0])]
    together = latency_metrics(r.latency_histogram for r in rounds)
    if not together:
        return None
    places = [*NINES.values()]
    figure = new_figure(9, 4)
    axes = figure.subplots()
    for place, r in enumerate(rounds):
        label = "a round" if not place else None
        axes.plot(places, [r.metrics[name] for name in names], color=GREY, linewidth=0.8, alpha=0.7, label=label)
    axes.plot(places, [together[name] for name in names], "o-", color=BLUE, linewidth=2.5, label="all rounds together")
    axes.set_xticks(places, [*NINES])
    plain_log(axes, "y", [r.metrics[name] for r in rounds for name in names])
    axes.set_xlabel("percentile of records (each step right: ten times rarer)")
    axes.set_ylabel(f"latency, ms\n(from {measurement.latency_basis or 'the send'})")
    axes.legend(fontsize="small", loc="upper left")
    axes.set_title(f"{measurement.scenario.name}: latency", fontsize="medium")
    return figure


@styled
def cpu_figure(measurement: Measurement) -> Figure | None:
    """Return the CPU of each broker over the windows, or each window's mean where its source has no more."""
    over_time = [r for r in measurement.rounds if r.broker_cpu_over_time]
    indexes = [r.index for r in measurement.rounds]
    brokers = brokers_of(measurement.rounds)
    if not brokers:
        return None

    figure = new_figure(9, 3.4)
    axes = figure.subplots()
    looks = zip(itertools.cycle(CYCLE), itertools.cycle(MARKERS), itertools.cycle(LINES), strict=False)
    for broker, (colour, marker, line) in zip(brokers, looks, strict=False):
        means = [r.metrics.get(f"{BROKER_CPU}{broker}", math.nan) for r in measurement.rounds]
        xs, values = _cpu_over_time(over_time, broker) if over_time else (indexes, means)
        often = 1 + len(xs) // MOST_MARKERS
        axes.plot(xs, values, marker=marker, markevery=often, linestyle=line, color=colour, label=f"broker {broker}")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    if over_time:
        _mark_rounds(axes, over_time)
    else:
        for before, after in itertools.pairwise(indexes):
            axes.axvline((before + after) / 2, color=GREY, linewidth=0.6, linestyle=":")
        axes.set_xticks(indexes)
        axes.set_xlabel("round (dotted: where one ends and the next begins)")
        axes.set_ylabel("CPU of the round's\nwindow, cores")
    axes.set_title(f"{measurement.scenario.name}: CPU of each broker", fontsize="medium")
    return figure


@styled
def lag_figure(measurement: Measurement) -> Figure | None:
    """Return the lag of consumers that work over the windows, a line a round; None where none work."""
    rounds = [r for r in measurement.rounds if r.lag_over_time]
    if not rounds:
        return None
    figure = new_figure(9, 3.4)
    axes = figure.subplots()
    looks = zip(itertools.cycle(CYCLE), itertools.cycle(LINES), strict=False)
    for r, (colour, line) in zip(rounds, looks, strict=False):
        xs, values = zip(*r.lag_over_time, strict=True)
        axes.plot(xs, values, linestyle=line, color=colour, label=f"round {r.index}")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.6g}")
    axes.set_xlabel("seconds since the window opened")
    axes.set_ylabel("records acknowledged\nand not worked off")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title(f"{measurement.scenario.name}: lag of the consumers", fontsize="medium")
    return figure


def brokers_of(parts: Iterable[Round | Step]) -> list[str]:
    """Return the ids of the brokers whose CPU some of these rounds or steps have, in their order."""
    names = {name for part in parts for name in part.metrics if name.startswith(BROKER_CPU)}
    return sorted((end for name in names if (end := name.removeprefix(BROKER_CPU)).isdigit()), key=int)


def _cpu_over_time(rounds: Sequence[Round], broker: str) -> tuple[list[float], list[float]]:
    """Return seconds of all windows and the cores there, with a gap in the line between two rounds."""
    xs, values, begin = [], [], 0.0
    for r in rounds:
        for at, cores in r.broker_cpu_over_time.get(broker, ()):
            xs.append(begin + at)
            values.append(cores)
        begin += r.window_s
        xs.append(begin)
        values.append(math.nan)
    return xs, values


def _mark_rounds(axes: Axes, rounds: Sequence[Round]) -> None:
    ends = list(itertools.accumulate(r.window_s for r in rounds))
    for end in ends[:-1]:
        axes.axvline(end, color=GREY, linewidth=0.6, linestyle=":")
    middles = [end - r.window_s / 2 for r, end in zip(rounds, ends, strict=True)]
    above = axes.secondary_xaxis("top")
    numbers = [str(r.index) for r in rounds]
    above.set_xticks(middles, [f"round {numbers[0]}", *numbers[1:]])
    above.tick_params(length=0, labelsize="small")
    axes.set_xlim(0, ends[-1])
    axes.set_xlabel("measured time, s (windows of the rounds one after the other; dotted: between two)")
    axes.set_ylabel("CPU, cores")


@styled
def family_figure(family: str, measurements: Sequence[Measurement], published: Mapping[str, float]) -> Figure | None:
    """Return rate and broker CPU of a family over its factor; None for a single scenario.

    `published`: records/s by scenario, of other hardware; drawn scaled so that their median is this run's.
    """
    kept = [(m, _centre(m, "records_per_s")) for m in measurements]
    kept = [(m, rate) for m, rate in kept if not math.isnan(rate)]
    if len(kept) < 2:
        return None

    labels = [" ".join(str(v) for v in dict(m.scenario.factor).values()) or m.scenario.name for m, _ in kept]
    places = range(len(kept))
    cpu = [_centre(m, "broker_cpu_us_per_record") for m, _ in kept]
    with_cpu = not all(map(math.isnan, cpu))
    figure = new_figure(9, 5.5 if with_cpu else 3.2)
    rate_axes, *others = figure.subplots(1 + with_cpu, sharex=True, squeeze=False).flat
    rates = [rate for _, rate in kept]
    rate_axes.plot(places, rates, "o-", color=BLUE, label="this run, centre of the rounds")
    pairs = [(x, published[m.scenario.name], rate) for x, (m, rate) in enumerate(kept) if m.scenario.name in published]
    if len(pairs) > 1:
        scale = statistics.median(here / there for _, there, here in pairs if there)
        ys = [there * scale for _, there, _ in pairs]
        rate_axes.plot([x for x, *_ in pairs], ys, "s--", color=ORANGE, label="published shape, scaled to this run")
    plain_log(rate_axes, "y", rates)
    rate_axes.set_ylabel("records/s")
    rate_axes.legend(fontsize="small")
    for cpu_axes in others:
        cpu_axes.plot(places, cpu, "o-", color=BLUE)
        cpu_axes.set_ylabel("broker CPU,\nus per record")
        cpu_axes.set_ylim(bottom=0)
    lowest = [rate_axes, *others][-1]
    lowest.set_xticks(places, labels)
    factor = ", ".join(dict(kept[0][0].scenario.factor)) or "scenario"
    lowest.set_xlabel(factor)
    figure.suptitle(f"{family}: rate and CPU over {factor}", fontsize="medium")
    return figure


def _rounds(measurement: Measurement, name: str) -> dict[int, float]:
    return {r.index: r.metrics[name] for r in measurement.rounds if math.isfinite(r.metrics.get(name, math.nan))}


def _centre(measurement: Measurement, name: str) -> float:
    values = list(_rounds(measurement, name).values())
    return centre(values) if values else math.nan
