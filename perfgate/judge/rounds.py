"""Rounds and metrics that do not count, were repeated, or have no usable latency, and the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfgate.judge.statistics import many
from perfgate.model import Comparison, Measurement, Round
from perfgate.model.compared import SENT_LATE
from perfgate.model.counting import counted
from perfgate.model.flaw import Flaw
from perfgate.model.metrics import PART

MOST_LATE_MS = 20.0
"""What lateness explains of a latency that is judged with it: ECHO times SCHEDULE_DELAY_LIMIT_MS of measure/flaw.py."""
FEWEST_SOUND = 2
"""Rounds that count and suffice to show that a scenario is slow: a spread needs two."""


def values_of(rounds: Sequence[Round], metric: str) -> list[float]:
    return [r.metrics[metric] for r in rounds if metric in r.metrics]


def rounds_with(rounds: Iterable[Round], metric: str) -> list[Round]:
    """The rounds in which this metric was measured as a number."""
    return [r for r in rounds if metric in r.metrics and not r.no_number(metric)]


def had_less_beside(r: Round) -> bool:
    """Whether a load beside the scenario's was not all made: brokers had less to do, so its own figures flatter them.

    Such a round shows a loss all the same, and is no reference for another.
    """
    parts = [part for flaw in r.flaws if not flaw.metrics for part in flaw.explains]
    return any(name.startswith(PART) for part in parts for name in part.metrics)


def arms_of(comparison: Comparison) -> tuple[tuple[str, Measurement], ...]:
    return ("baseline", comparison.baseline), ("candidate", comparison.candidate)


def spoilt(measurement: Measurement, metric: str) -> str:
    """Why this metric must not be judged although the rounds are valid; empty when it may."""
    flawed = [f"round {r.index}: {reason}" for r in measurement.rounds if (reason := r.spoilt(metric))]
    return f"{flawed[0]} ({len(flawed)} of {len(measurement.rounds)} rounds)" if flawed else ""


def only_sent_late(measurement: Measurement, metric: str) -> bool:
    """Whether records that were sent late, in few rounds by little, are all that spoils (lengthens) a latency.

    Much later, or in most rounds, they come together in fewer requests, which is another load.
    """
    rounds = measurement.rounds
    by_round = [[flaw for flaw in r.flaws if any(metric.startswith(f"{n}.") for n in flaw.metrics)] for r in rounds]
    few = sum(map(bool, by_round)) < min(many(len(rounds)), len(rounds))
    whole = all(metric in r.metrics and not r.no_number(metric) for r in rounds)
    little = all(flaw.kind == SENT_LATE and _is_little(flaw, metric) for flaws in by_round for flaw in flaws)
    return few and whole and "latency_ms." in metric and little


def _is_little(flaw: Flaw, metric: str) -> bool:
    parts = [doubt for doubt in flaw.doubts if doubt.touches(metric)]
    return all(doubt.factor is not None and doubt.offset <= MOST_LATE_MS for doubt in parts)


def spoilt_metrics(measurement: Measurement) -> dict[str, str]:
    """All metrics that must not be judged although the rounds are valid, with the reason."""
    names = dict.fromkeys(name for r in measurement.rounds for name in r.invalid_metrics)
    return {name: spoilt(measurement, name) for name in names}


def flaws_by_arm(arms: Iterable[tuple[str, Measurement]], metrics: Sequence[str]) -> tuple[str, ...]:
    """Why these metrics must not be judged although the loads were valid, by metric and the arm's name."""
    named = tuple(arms)
    return tuple(f"{arm}: {name}: {why}" for name in metrics for arm, m in named if (why := spoilt(m, name)))


def starved_by_brokers(measurement: Measurement) -> str:
    """That most rounds were repeated since brokers used the processors: the rest needed less by chance; else empty."""
    again = [r for r in measurement.discarded if any(flaw.whose == "brokers" for flaw in r.flaws)]
    if 2 * len(again) <= len(measurement.rounds):
        return ""
    text = next(flaw.text for flaw in again[0].flaws if flaw.whose == "brokers")
    repeated = counted(len(again), "round was", "rounds were")
    return (
        f"{repeated} measured again, {len(measurement.rounds)} count: the brokers "
        f"used most of the processors, and the generator lacked them ({text})"
    )


NEARLY = 0.9
"""Records that lay in the buffer since the load's start have waited for all of the time but that until it was full."""
SINCE_THE_START = (
    "the latency of these is how long the load had run: the client's buffer was not turned over once by the middle of "
    "the window, in most rounds; rates are not touched by that, and a longer --warmup-max gives the latency"
)


def filling_notes(measured: Mapping[str, Measurement]) -> list[str]:
    """One line that names the scenarios whose latency is no figure of the brokers; none without any."""
    names = [name for name, measurement in measured.items() if since_the_start(measurement)]
    return [f"{', '.join(names)}: {SINCE_THE_START}"] if names else []


def since_the_start(measurement: Measurement) -> bool:
    """Whether half of a capped load's records had waited since its start, in most of the rounds."""
    if not measurement.scenario.load.capped:
        return False
    sound = [r for r in measurement.rounds if not r.invalid and "latency_ms.p50" in r.metrics]
    return never_turned_over([(r.metrics["latency_ms.p50"], r.warmup_s, r.window_s) for r in sound])


def never_turned_over(rounds: Sequence[tuple[float, float, float]]) -> bool:
    """Whether records lay in the buffer since the load's start, in most rounds: p50 in ms, warm-up and window in s."""
    long = [p50 for p50, warmup_s, window_s in rounds if p50 / 1e3 > NEARLY * (warmup_s + window_s / 2)]
    return 2 * len(long) > len(rounds)
