"""--confirm-with-more-hosts: whether load hosts, not brokers, limited a load that is not paced. Pure.

Rounds on all load hosts are paired with rounds on one host fewer, taken beside them on the same brokers. The ratios are
held against a maximum as those of a relation are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from perfgate.judge.messages import number
from perfgate.judge.rates import AT_THE_CAP, at_its_cap, paired_ratios
from perfgate.judge.statistics import many, median_error, median_interval
from perfgate.model import Measurement, MoreHosts, Outcome, Round, Verdict
from perfgate.model.compared import SAME_WITHIN, SATURATED
from perfgate.model.doubt import Doubt
from perfgate.model.judged import Finding, severity
from perfgate.model.summary import centre

RECEIVED_RATES = ("received_records_per_s", "received_mib_per_s")
RATES = ("records_per_s", "mib_per_s", *RECEIVED_RATES)
WAITED = 0.5
"""Share of the window for which buffers were full of records that were under way or waited for it."""
SENT, RECEIVED, BROKERS_CPU = "records_per_s", "received_records_per_s", "broker_cpu_cores.sum"
AS_MUCH_CPU = "the brokers took more with as much CPU, so that they may be the limit"
MEANS: Mapping[Finding, Verdict] = {
    "saturated": Verdict.INVALID,
    "unknown": Verdict.INCONCLUSIVE,
    "confirmed": Verdict.PASS,
}
"""What each makes of a green scenario."""


def more_hosts(measurement: Measurement) -> MoreHosts | None:
    """Return what one load host more made of the load; None where it was not measured on one host fewer.

    Where consumers read along and do not keep up, what they are given is looked at too; the worse finding counts.
    """
    if not measurement.one_host_fewer or not measurement.rounds:
        return None
    metrics = [SENT, RECEIVED] if _fall_behind(measurement) else [SENT]
    return min((_of(measurement, metric) for metric in metrics), key=lambda one: severity(MEANS[one.finding]))


def host_doubts(measurement: Measurement) -> tuple[Doubt, ...]:
    """Return that load hosts were, or may have been, what limited the rates of a load, and what that explains.

    Saturated generators explain everything, but for those that waited for the brokers: a load whose records, or
    fetches, are under way for longer rises with each host that brings more of them. That one, and one where it is not
    known, may do once more what one load host more made of it.
    """
    found = more_hosts(measurement)
    if found is None or found.finding == "confirmed":
        return ()
    most = found.ratio_interval[1] if found.ratio_interval else found.hosts / max(1, found.fewer_hosts)
    reads = found.metric == RECEIVED or measurement.scenario.load.kind == "backlog"
    everything = found.finding == "saturated" and not _waited(measurement.rounds, reads=reads)
    factor = None if everything else max(1.0, most)
    metrics = RATES if found.metric == SENT else RECEIVED_RATES
    return (Doubt(kind="hosts", whose="load", text=found.words, factor=factor, metrics=metrics),)


def _waited(rounds: Sequence[Round], *, reads: bool) -> bool:
    """Return whether the clients of every host waited for brokers in all rounds: no host was at its limit.

    Of producers their full buffers tell; whoever `reads` does nothing else but wait where no limit is reached.
    """
    full = (reads or host.pushback_share >= WAITED for r in rounds for host in r.hosts)
    return all(full) and not any(doubt.kind == SATURATED for r in rounds for doubt in r.doubts)


def most_ratio(measurement: Measurement) -> float:
    """Return the largest ratio that counts as no rise.

    It is the margin within which a comparison calls loads the same. Of many hosts one more adds less than that even
    where they are the limit: then it is half of what the processes of that host would add (of the logarithm).
    """
    whole, fewer = (
        max(sum(host.processes for host in r.hosts) for r in rounds)
        for rounds in (measurement.rounds, measurement.one_host_fewer)
    )
    return min(1 + SAME_WITHIN, math.sqrt(whole / fewer)) if whole > fewer > 0 else 1 + SAME_WITHIN


def notes_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each scenario whose limit is known, or might be known from more rounds.

    Of one that was INVALID for it the reasons tell.
    """
    found = [(outcome.name, outcome.more_hosts) for outcome in outcomes if outcome.more_hosts]
    return [f"{name}: {one.words}" for name, one in found if one.finding != "saturated"]


def _of(measurement: Measurement, metric: str) -> MoreHosts:
    """Return what one host more made of one metric.

    saturated: the interval of the median ratio lies beyond the maximum as a whole, or the median by more than its
    standard error, and the brokers' CPU did not stay what it was. confirmed: the median keeps the maximum by at least
    that, and fewer than :func:`many` rounds lie beyond; or the load reached its own cap. Else unknown.
    """
    of, over, most = measurement.rounds, measurement.one_host_fewer, most_ratio(measurement)
    ratios = paired_ratios(metric, of, over)
    if flaw := _flaw(metric, of, over, len(ratios)):
        words = f"not confirmed with one load host fewer: {flaw}"
        return _found("unknown", metric, of, over, at_most=most, words=words)
    if metric == SENT and measurement.scenario.load.kind == "capped" and at_its_cap(measurement):
        words = f"confirmed: its own cap of {measurement.scenario.load.rate:,.0f} records/s held it, not its load hosts"
        return _found("confirmed", metric, of, over, ratios, at_most=most, words=words)
    middle, error, interval = statistics.median(ratios), median_error(ratios), median_interval(ratios)
    figures = f"{_figures(metric, of)} on {_hosts(of)} load hosts, {_figures(metric, over)} on {_hosts(over)} of them"
    told = f"{figures}: {middle:.3g} x ({interval[0]:.3g} .. {interval[1]:.3g}, at most {most:.3g})"
    # Conditions are written so that what is no number (NaN) confirms nothing.
    if interval[0] > most or middle - error > most:
        if _as_much_cpu(of, over, most):
            words = f"not confirmed with one load host fewer: {told}; {AS_MUCH_CPU}"
            return _found("unknown", metric, of, over, ratios, at_most=most, words=words)
        words = f"generator saturated: {told}; the generators, not the brokers, were the limit: give it more load hosts"
        return _found("saturated", metric, of, over, ratios, at_most=most, words=words)
    if middle + error <= most and sum(not ratio <= most for ratio in ratios) < many(len(ratios)):
        words = f"confirmed with one load host fewer: {told}; the load hosts were not the limit"
        return _found("confirmed", metric, of, over, ratios, at_most=most, words=words)
    words = f"not confirmed with one load host fewer: {told}; rounds scatter too much to tell"
    return _found("unknown", metric, of, over, ratios, at_most=most, words=words)


def _as_much_cpu(of: Sequence[Round], over: Sequence[Round], most: float) -> bool:
    """Return whether the brokers' CPU, where it is known of all rounds, keeps the maximum with one host more.

    Requests that more clients have under way are answered several at a time, with less CPU for each record: a broker of
    half a core took 1.13 times as many records from four hosts as from three, with 0.47 cores from either.
    """
    ratios = paired_ratios(BROKERS_CPU, of, over)
    return len(ratios) >= max(2, len(of)) and statistics.median(ratios) + median_error(ratios) <= most


def _flaw(metric: str, of: Sequence[Round], over: Sequence[Round], pairs: int) -> str:
    """Return why the two loads cannot be held against one another; empty when they can."""
    for r in over:
        if reason := next(iter(r.invalid), "") or r.spoilt(metric):
            return f"round {r.index} on {len(r.hosts) or 'these'} load hosts: {reason}"
    if pairs < max(2, len(of)):
        return f"{metric} was measured in {pairs} of {len(of)} rounds of both"
    return ""


def _found(
    finding: Finding,
    metric: str,
    of: Sequence[Round],
    over: Sequence[Round],
    ratios: Sequence[float] = (),
    *,
    at_most: float,
    words: str,
) -> MoreHosts:
    facts: dict[str, Any] = {}
    if ratios:
        above, below = _values(metric, of), _values(metric, over)
        facts = {
            "value": centre(above),
            "interval": median_interval(above),
            "fewer_value": centre(below),
            "fewer_interval": median_interval(below),
            "ratio": statistics.median(ratios),
            "ratio_interval": median_interval(ratios),
        }
    return MoreHosts(
        finding=finding,
        metric=metric,
        hosts=_hosts(of),
        fewer_hosts=_hosts(over),
        at_most=at_most,
        words=words,
        **facts,
    )


def _figures(metric: str, rounds: Sequence[Round]) -> str:
    values = _values(metric, rounds)
    low, high = median_interval(values)
    what = "records/s read" if metric == RECEIVED else "records/s"
    return f"{number(centre(values))} {what} ({number(low)} .. {number(high)})"


def _values(metric: str, rounds: Sequence[Round]) -> list[float]:
    return [r.metrics[metric] for r in rounds if metric in r.metrics]


def _hosts(rounds: Sequence[Round]) -> int:
    return max(len(r.hosts) for r in rounds)


def _fall_behind(measurement: Measurement) -> bool:
    """Return whether consumers who read along were given less than all that was sent, over the rounds."""
    if measurement.scenario.load.kind != "capped" or not measurement.scenario.consumers:
        return False
    sent, received = (_values(metric, measurement.rounds) for metric in (SENT, RECEIVED))
    if not sent or not received:
        return True
    return not statistics.median(received) >= AT_THE_CAP * measurement.scenario.groups * statistics.median(sent)
