"""The client's paths to two existing clusters: whether they alone may explain a difference. Pure."""

from __future__ import annotations

import math
from statistics import fmean, median

from perfgate.judge.phrases import PATHS
from perfgate.judge.rounds import values_of
from perfgate.model import Comparison, MetricInfo
from perfgate.model.flaw import Doubt

IN_FLIGHT = 5
"""Requests of a client to a broker that may be under way. Where they can carry a broker's share of the rate with a
record each, batches, and so the brokers' CPU for a record, do not depend on round trips."""
AS_DECLARED = ("the cluster as declared", "the other")
"""The names of the two sides: the baseline's and the candidate's."""
LEAST_LEFT = 0.01
"""At least this share of a latency is the brokers', however long the path was measured to be."""


def paths_ms(comparison: Comparison) -> tuple[float, float] | None:
    """The client's round trips, in ms, to two existing clusters: the baseline's and the candidate's."""
    link = comparison.scenario.link.name
    before, after = (m.rtt_ms.get(link) for m in comparison.sides)
    return (before, after) if comparison.two_clusters and before and after else None


def path_differs(
    comparison: Comparison, metric: MetricInfo, log_effect: float, margin: float, sides: tuple[str, str]
) -> str:
    """Why the client's paths to the two clusters may explain the effect; empty where they cannot.

    `log_effect`: logarithm of candidate over baseline. `margin`: paths that explain less hide no effect that counts.
    """
    if not comparison.two_clusters:
        return ""
    if paths_ms(comparison) is None:
        return f"{PATHS}: they were not measured"
    gained = _gained(comparison, metric)
    # As logarithms: a path that doubles explains a half of a rate, and no loss of nine tenths.
    by_path, effect, within = abs(gained), abs(log_effect), math.log1p(margin)
    if by_path <= max(effect, within) or (effect > within and gained * metric.sign * log_effect < 0):
        return ""  # the path makes less than that, or the opposite of it
    return (
        f"{PATHS} by more than the effect: {_round_trips(comparison, sides)}, which may be "
        f"{math.expm1(by_path) * 100:.1f} % of {metric.name}; measure from where both are equally far"
    )


def _round_trips(comparison: Comparison, sides: tuple[str, str]) -> str:
    before, after = paths_ms(comparison) or (0.0, 0.0)
    return f"a round trip takes {before:.2f} ms to {sides[0]} and {after:.2f} ms to {sides[1]}"


def path_doubts(comparison: Comparison, metric: MetricInfo) -> tuple[Doubt, ...]:
    """Doubts by how much the path to the candidate's cluster may worsen this metric; all, where not measured."""
    if not comparison.two_clusters:
        return ()
    paths = paths_ms(comparison)
    if paths is None:
        return (Doubt(kind="path", whose="unknown", text=f"{PATHS}: they were not measured", factor=None),)
    if not (by := handicap(comparison, metric)):
        return ()
    before, after = paths
    text = f"{PATHS}: a round trip takes {before:.2f} and {after:.2f} ms"
    if "latency_ms." in metric.name:
        return (Doubt(kind="path", whose="unknown", text=text, offset=after - before),)
    return (Doubt(kind="path", whose="unknown", text=text, factor=math.exp(by)),)


def favour(comparison: Comparison, metric: MetricInfo) -> float:
    """How much the candidate's path may have bettered this metric, a logarithm: it may hide this much of a slowdown."""
    return max(0.0, _gained(comparison, metric))


def handicap(comparison: Comparison, metric: MetricInfo) -> float:
    """How much the candidate's path may have worsened this metric, a logarithm: this much of a slowdown may be its."""
    return max(0.0, -_gained(comparison, metric))


def _gained(comparison: Comparison, metric: MetricInfo) -> float:
    """By how much the candidate's path alone may make a metric better (worse: below 0), a logarithm; 0: not known.

    A longer path adds to latencies, makes rates smaller by its ratio, and batches larger, so that a record costs less.
    """
    if not (paths := paths_ms(comparison)):
        return 0.0
    before, after = paths
    if "latency_ms." in metric.name:
        farther = comparison.candidate if after > before else comparison.baseline
        values = values_of(farther.rounds, metric.name)
        share = abs(before - after) / median(values) if values else 0.0
        return math.copysign(-math.log(max(1 - share, LEAST_LEFT)), before - after)
    if metric.name.startswith("client_cpu_"):
        return math.log(after / before)
    if not metric.name.startswith("broker_"):
        return math.log(before / after)
    rates = [r.metrics["records_per_s"] for r in comparison.baseline.rounds if r.metrics.get("records_per_s")]
    leaders = min(comparison.scenario.cluster.brokers, comparison.scenario.topic.in_all)
    least = 1e3 * IN_FLIGHT * leaders / median(rates) if rates else 0.0
    return math.log(max(after, least) / max(before, least))


def favoured(comparison: Comparison, metric: MetricInfo, sides: tuple[str, str]) -> str:
    return (
        f"{PATHS}: {_round_trips(comparison, sides)}, which may hide a loss of "
        f"{math.expm1(favour(comparison, metric)) * 100:.1f} % of {metric.name}; measure from where both are equally "
        "far, or give it more time (--budget)"
    )


def handicapped(comparison: Comparison, metric: MetricInfo, sides: tuple[str, str]) -> str:
    return (
        f"{PATHS}: {_round_trips(comparison, sides)}, which may be "
        f"{math.expm1(handicap(comparison, metric)) * 100:.1f} % of {metric.name}, and the rest tells of no loss; "
        "measure from where both are equally far"
    )


def not_taken_by_path(comparison: Comparison, metric: MetricInfo, margin: float, sides: tuple[str, str]) -> str:
    """Why the paths may be why only the candidate did not take a paced load, by its `metric`; else empty."""
    pairs = zip(comparison.baseline.rounds, comparison.candidate.rounds, strict=False)
    values = [(before.metrics.get(metric.name, 0.0), after.metrics.get(metric.name, 0.0)) for before, after in pairs]
    logs = [math.log(after / before) for before, after in values if before > 0 and after > 0]
    return path_differs(comparison, metric, fmean(logs) if logs else 0.0, margin, sides)
