"""Pictures for the report: of a comparison's units, faults, ramps and peaks; and all of a scenario or a family."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.judge.scatter import Known
from perfgate.judge.sequential import FEWEST_BESIDE_KNOWN, FEWEST_UNITS, MARGIN, estimate, looks_until
from perfgate.judge.statistics import share_of
from perfgate.judge.units import known_scatter, part_logs
from perfgate.model import Comparison, ComparisonOutcome, Failover, Measurement, Outcome, Round, ShapeFigures
from perfgate.model.metrics import PEAK_PHASES
from perfgate.report.scenario_plots import BROKER_CPU, Former, brokers_of, family_figure, scenario_pictures
from perfgate.report.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LINES,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    new_figure,
    plain_log,
    png,
    styled,
    svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LINE_APART = 0.06
"""Distance between the lines of partitions that have the same leader."""
HEADROOM = 1.5
"""The first intervals are very wide; the picture ends at this many times the largest unit."""
PERCENTILES = (("p50", SKY), ("p99", BLUE), ("p999", BLACK))


@styled
def paired_rounds_figure(
    unit_effects: Sequence[float], planned_units: int, metric: str, margin: float = MARGIN, known: Known | None = None
) -> Figure:
    """Return each unit's difference in percent, and the estimate after each; `known`: of the scatter, besides."""
    from matplotlib.ticker import MaxNLocator

    logs = [math.log1p(effect) for effect in unit_effects]
    numbers = range(1, len(logs) + 1)
    fewest = FEWEST_BESIDE_KNOWN if known else FEWEST_UNITS
    looks = {n: looks_until(n, planned_units, last=True, fewest=fewest) for n in numbers if n > 1}
    running = {n: estimate(logs, look, known=known) for n, look in looks.items()}
    figure = new_figure(9, 4)
    axes = figure.subplots()
    same = f"same: within {margin * 100:g} %"
    axes.axhspan((1 / (1 + margin) - 1) * 100, margin * 100, color=GREEN, alpha=0.15, label=same)
    axes.axhline(0, color=BLACK, linewidth=0.8)
    axes.plot(numbers, [effect * 100 for effect in unit_effects], "o", color=GREY, label="each unit")
    if running:
        low, high = ([share_of(e.interval[end]) * 100 for e in running.values()] for end in (0, 1))
        axes.fill_between([*running], low, high, color=SKY, alpha=0.4, label="95 % interval so far")
        means = [share_of(e.mean) * 100 for e in running.values()]
        axes.plot([*running], means, color=BLUE, label="estimate so far")
    widest = HEADROOM * max(map(abs, (*unit_effects, margin))) * 100
    axes.set_ylim(-widest, widest)
    axes.set_title(f"{metric}: with the change against as declared")
    axes.set_xlabel("unit (both sides in turn)")
    axes.set_ylabel("difference, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper right", fontsize="small")
    return figure


def _in_sync(axes: Axes, failover: Failover, partitions: int, end: float) -> None:
    moments = [at for at, _ in failover.in_sync] + [end]
    for number in range(partitions):
        sizes = [state[number] + LINE_APART * number for _, state in failover.in_sync]
        axes.step(moments, [*sizes, sizes[-1]], where="post", label=f"{number}")
    axes.set_yticks(range(max(size for _, state in failover.in_sync for size in state) + 1))
    axes.set_ylabel("in-sync replicas\nof a partition")


@styled
def fault_timeline_figure(name: str, failover: Failover) -> Figure:
    """Return a round with a fault: records taken, p99, in-sync replicas and leaders on a common time axis."""
    count = len(failover.p99_ms)
    edges = [failover.seconds_from + second for second in range(count + 1)]
    middles = [edge + 0.5 for edge in edges[:-1]]
    figure = new_figure(11, 8)
    taken, latency, replicas, leaders = figure.subplots(
        4, 1, sharex=True, gridspec_kw={"height_ratios": [3, 2, 1.2, 1.8]}
    )
    partitions = sorted(failover.acknowledged, key=int)
    heat = [failover.acknowledged[partition] for partition in partitions]
    # When an outage ends, what waited is taken at once: the usual rate must still differ visibly from none.
    usual = statistics.median(records for place in heat for records in place)
    mesh = taken.pcolormesh(edges, range(len(partitions) + 1), heat, cmap="cividis", vmin=0, vmax=2 * max(usual, 1))
    taken.set_yticks([n + 0.5 for n in range(len(partitions))], [f"partition {partition}" for partition in partitions])
    figure.colorbar(mesh, ax=taken, extend="max", label="records/s acknowledged")
    for place, partition in enumerate(partitions):
        for begin, end in failover.down.get(partition, ()):
            taken.plot([begin, end], [place + 0.5, place + 0.5], color=RED, linewidth=2)
    latency.plot(middles, [math.nan if p99 is None else p99 for p99 in failover.p99_ms], color=BLUE, marker=".")
    plain_log(latency, "y", [p99 for p99 in failover.p99_ms if p99 is not None])
    latency.set_ylabel("p99 from intended\nsend, ms")
    if failover.unread:  # of consumers that stayed away: no broker did
        replicas.plot([edge + 1 for edge in edges[: len(failover.unread)]], failover.unread, color=BLUE, marker=".")
        replicas.set_ylim(bottom=0)
        replicas.yaxis.set_major_formatter("{x:,.0f}")
        replicas.set_ylabel("records\nunread")
    else:
        _in_sync(replicas, failover, len(partitions), edges[-1])
    times = [at for at, _ in failover.leaders] + [edges[-1]]
    for number in range(len(partitions)):
        led = [state[number] for _, state in failover.leaders]
        values = [math.nan if leader < 0 else leader + LINE_APART * number for leader in led]
        leaders.step(times, [*values, values[-1]], where="post", label=f"{number}")
    leaders.set_ylabel("leader\n(broker id)")
    leaders.set_yticks(sorted({leader for _, state in failover.leaders for leader in state if leader >= 0}))
    leaders.legend(title="partition", fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    leaders.set_xlabel("seconds since the fault")
    leaders.set_xlim(edges[0], edges[-1])
    for axes in (taken, latency, replicas, leaders):
        for at, _ in failover.marks:
            axes.axvline(at, color=PURPLE, linewidth=1, linestyle="--")
    for at, words in failover.marks:
        taken.annotate(words, (at, len(partitions)), rotation=20, fontsize="small", color=PURPLE, annotation_clip=False)
    middle = "unread records" if failover.unread else "replicas"
    figure.suptitle(f"{name}: records taken (red: partition down), latency, {middle} and leaders", fontsize="medium")
    return figure


@styled
def knee_curve_figure(name: str, r: Round) -> Figure:
    """Return a ramp's steps over the rate offered: records taken, latency, CPU of each broker; the knee."""
    steps = sorted(r.steps, key=lambda step: step.rate)
    offered = [step.rate for step in steps]
    knee = None if r.invalid else r.metrics.get("knee_records_per_s")
    figure = new_figure(9, 9)
    taken, latency, cpu = figure.subplots(3, 1, sharex=True)
    for words, marker, colour, kept in (
        ("meets the service level", "o", BLUE, [step for step in steps if not step.missed]),
        ("misses it", "x", RED, [step for step in steps if step.missed]),
    ):
        rates = [step.rate for step in kept]
        achieved = [step.metrics.get("records_per_s", math.nan) / step.rate * 100 for step in kept]
        taken.plot(rates, achieved, marker, color=colour, label=words)
    for words, marker, colour, ends in (
        ("of all attempted, acknowledged", "+", SKY, [(s.accounting.acked, s.accounting.attempted) for s in steps]),
        ("of these, received", "_", BLACK, [(s.received, s.accounting.acked) for s in steps]),
    ):
        shares = [math.nan if part is None or not whole else part / whole * 100 for part, whole in ends]
        if not all(map(math.isnan, shares)):
            taken.plot(offered, shares, marker, color=colour, label=words)
    taken.axhline(100, color=BLACK, linewidth=0.8)
    taken.set_ylabel("of the records offered,\nacknowledged in the window, %")
    for quantile, colour in PERCENTILES:
        values = [step.metrics.get(f"latency_ms.{quantile}", math.nan) for step in steps]
        latency.plot(offered, values, marker=".", color=colour, label=quantile)
    plain_log(latency, "y", [v for step in steps for k, v in step.metrics.items() if k.startswith("latency_ms.p")])
    latency.set_ylabel("latency from\nintended send, ms")
    for line, broker in zip(itertools.cycle(LINES), brokers_of(steps), strict=False):
        values = [step.metrics.get(f"{BROKER_CPU}{broker}", math.nan) for step in steps]
        cpu.plot(offered, values, line, marker=".", label=f"broker {broker}")
    cpu.set_ylim(bottom=0)
    cpu.set_ylabel("CPU, cores")
    cpu.set_xlabel("records/s offered")
    plain_log(cpu, "x", offered)
    for axes in (taken, latency, cpu):
        if knee:
            axes.axvline(knee, color=PURPLE, linewidth=1, linestyle="--", label=f"knee: {knee:,.0f} records/s")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small", loc="best")
    figure.suptitle(f"{name}: the highest rate that meets the service level", fontsize="medium")
    return figure


def pictures(measurement: Measurement, outcome: Outcome | None, former: Former) -> dict[str, bytes]:
    """Return all pictures of a scenario by file name: its rounds, latency and CPU, each fault, shape and ramp."""
    name = measurement.scenario.name
    figures = scenario_pictures(measurement, outcome, former)
    drawn = {f"{name}-{what}.svg": svg(figure) for what, figure in figures.items()}
    for r in measurement.rounds:
        if r.failover is not None:
            drawn[f"{name}-fault-{r.index}.png"] = png(fault_timeline_figure(f"{name}, fault {r.index}", r.failover))
        if r.shape is not None:
            drawn[f"{name}-shape-{r.index}.png"] = png(peak_figure(f"{name}, round {r.index}", r.shape))
        if r.steps:
            drawn[f"{name}-ramp-{r.index}.png"] = png(knee_curve_figure(f"{name}, round {r.index}", r))
    return drawn


def comparison_pictures(outcome: ComparisonOutcome, comparison: Comparison) -> dict[str, bytes]:
    """Return the picture of a comparison's units by file name, if anything was judged."""
    if not (outcome.unit_effects and outcome.primary):
        return {}
    metric, margin = outcome.primary.metric.name, outcome.decides.margin
    known = known_scatter(comparison, metric, part_logs(comparison, metric))
    figure = paired_rounds_figure(outcome.unit_effects, comparison.planned_units, metric, margin, known)
    return {f"{outcome.name}-paired-rounds.png": png(figure)}


def family_pictures(measurements: Sequence[Measurement], outcomes: Mapping[str, Outcome]) -> dict[str, bytes]:
    """Return a picture of each family that has several scenarios with a rate, by file name."""
    families: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        families.setdefault(measurement.scenario.families[0], []).append(measurement)
    published = {
        name: figure.value
        for name, outcome in outcomes.items()
        for figure in outcome.published
        if figure.metric == "records_per_s"
    }
    figures = {family: family_figure(family, members, published) for family, members in families.items()}
    return {f"family-{family}.svg": svg(figure) for family, figure in figures.items() if figure is not None}


def write_pictures(drawn: Mapping[str, bytes], run_dir: Path) -> None:
    """Write pictures into the run's folder `pictures`."""
    folder = run_dir / "pictures"
    for name, picture in drawn.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture)


@styled
def peak_figure(name: str, figures: ShapeFigures) -> Figure:
    """Return a round's records offered and achieved, its p99 and what was owed, second by second."""
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
        axes.yaxis.set_major_formatter("{x:,.0f}")
    for phase, (begin, end) in figures.phases.items():
        rate.text((begin + end) / 2, 1.02, PEAK_PHASES[phase], transform=rate.get_xaxis_transform(), ha="center")
        for axes in (rate, latency, owed):
            axes.axvline(begin, color=PURPLE, linewidth=1, linestyle="--")
            if phase == "peak":
                axes.axvspan(begin, end, color=GREY, alpha=0.15, linewidth=0)
    figure.suptitle(f"{name}: the load over time", fontsize="medium")
    return figure
