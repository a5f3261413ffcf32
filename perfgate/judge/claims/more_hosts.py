"""--confirm-with-more-hosts: whether load hosts, not brokers, limited a load that is not paced. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfgate.judge.claim import Case, Ruling, guard, judge, ruled
from perfgate.judge.phrases import number
from perfgate.judge.rates import AT_THE_CAP, at_its_cap, paired_ratios
from perfgate.judge.rounds import values_of
from perfgate.judge.statistics import centre_of, median_of, too_many_beyond
from perfgate.model import Measurement, MoreHosts, Outcome, Round, Verdict
from perfgate.model.compared import SAME_WITHIN, SATURATED
from perfgate.model.flaw import Doubt
from perfgate.model.judged import Finding

RECEIVED_RATES = ("received_records_per_s", "received_mib_per_s")
RATES = ("records_per_s", "mib_per_s", *RECEIVED_RATES)
WAITED = 0.5
"""Share of the window in which buffers were full of records that were under way or waited for it."""
SENT, RECEIVED, BROKERS_CPU = "records_per_s", "received_records_per_s", "broker_cpu_cores.sum"
AS_MUCH_CPU = "the brokers took more with as much CPU, so that they may be the limit"
FINDINGS: Mapping[Verdict, Finding] = {
    Verdict.INVALID: "saturated",
    Verdict.INCONCLUSIVE: "unknown",
    Verdict.PASS: "confirmed",
}


def more_hosts(measurement: Measurement) -> MoreHosts | None:
    """The effect of one load host more, on reads too if consumers fall behind; None where it was not measured."""
    if not measurement.one_host_fewer or not measurement.rounds:
        return None
    limits = [_of(measurement, metric) for metric in ([SENT, RECEIVED] if _fall_behind(measurement) else [SENT])]
    return min(limits, key=lambda limit: list(FINDINGS.values()).index(limit.finding))


def host_doubts(measurement: Measurement) -> tuple[Doubt, ...]:
    """Doubts about a load whose rates load hosts limited, or may have.

    Saturated generators explain everything; those that waited for the brokers, or of which it is not known, once more
    what one load host more made.
    """
    limit = more_hosts(measurement)
    if limit is None or limit.finding == "confirmed":
        return ()
    most = limit.ratio_interval[1] if limit.ratio_interval else limit.hosts / max(1, limit.fewer_hosts)
    reads = limit.metric == RECEIVED or not measurement.scenario.load.sends
    everything = limit.finding == "saturated" and not _waited(measurement.rounds, reads=reads)
    factor = None if everything else max(1.0, most)
    metrics = RATES if limit.metric == SENT else RECEIVED_RATES
    return (Doubt(kind="hosts", whose="load", text=limit.words, factor=factor, metrics=metrics),)


def _waited(rounds: Sequence[Round], *, reads: bool) -> bool:
    """Whether the clients of every host waited for brokers in all rounds; consumers (`reads`) always wait."""
    full = (reads or host.pushback_share >= WAITED for r in rounds for host in r.hosts)
    return all(full) and not any(doubt.kind == SATURATED for r in rounds for doubt in r.doubts)


def most_ratio(measurement: Measurement) -> float:
    """The largest ratio that counts as no rise: a comparison's margin, or half of what a host of many adds (log)."""
    whole, fewer = (
        max(sum(host.processes for host in r.hosts) for r in rounds)
        for rounds in (measurement.rounds, measurement.one_host_fewer)
    )
    return min(1 + SAME_WITHIN, math.sqrt(whole / fewer)) if whole > fewer > 0 else 1 + SAME_WITHIN


def notes_of(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each scenario whose limit is known, or might be from more rounds; not of INVALID ones."""
    limits = [(outcome.name, outcome.more_hosts) for outcome in outcomes if outcome.more_hosts]
    return [f"{name}: {limit.words}" for name, limit in limits if limit.finding != "saturated"]


class HostsCase(Case):
    """The claim that one load host more makes no more than `most` times of a metric."""

    def __init__(self, measurement: Measurement, metric: str) -> None:
        self.measurement, self.metric, self.most = measurement, metric, most_ratio(measurement)
        self.of, self.over = measurement.rounds, measurement.one_host_fewer
        self.ratios = paired_ratios(metric, self.of, self.over)

    def test(self) -> Ruling:
        """INVALID: the median ratio is known to lie beyond the maximum. PASS: it keeps it by at least its error."""
        ratio = median_of(self.ratios)
        if ratio.beyond(self.most, -1):
            reason = "the generators, not the brokers, were the limit: give it more load hosts"
            return ruled(Verdict.INVALID, f"generator saturated: {self.figures}; {reason}")
        if ratio.keeps(self.most, -1) and not too_many_beyond(self.ratios, self.most, -1):
            reason = f"confirmed with one load host fewer: {self.figures}; the load hosts were not the limit"
            return ruled(Verdict.PASS, reason)
        return self.unknown(f"{self.figures}; rounds scatter too much to tell")

    def unknown(self, why: str) -> Ruling:
        return ruled(Verdict.INCONCLUSIVE, f"not confirmed with one load host fewer: {why}")

    @property
    def figures(self) -> str:
        of, over, ratio = self.of, self.over, median_of(self.ratios)
        low, high = ratio.interval
        return (
            f"{_figures(self.metric, of)} on {_hosts(of)} load hosts, {_figures(self.metric, over)} on {_hosts(over)} "
            f"of them: {ratio.middle:.3g} x ({low:.3g} .. {high:.3g}, at most {self.most:.3g})"
        )


@guard(-20, HostsCase)
def loads_are_not_comparable(case: HostsCase, _: Ruling) -> Ruling | None:
    """A round on fewer hosts that does not count, or rounds without the metric."""
    for r in case.over:
        if reason := next(iter(r.invalid), "") or r.spoilt(case.metric):
            return case.unknown(f"round {r.index} on {len(r.hosts) or 'these'} load hosts: {reason}")
    if len(case.ratios) < max(2, len(case.of)):
        return case.unknown(f"{case.metric} was measured in {len(case.ratios)} of {len(case.of)} rounds of both")
    return None


@guard(-10, HostsCase)
def its_own_cap_held_it(case: HostsCase, _: Ruling) -> Ruling | None:
    """A load at its own cap needs no more hosts."""
    if case.metric != SENT or not at_its_cap(case.measurement):
        return None
    cap = case.measurement.scenario.load.rate
    reason = f"confirmed: its own cap of {cap:,.0f} records/s held it, not its load hosts"
    return ruled(Verdict.PASS, reason)


@guard(10, HostsCase)
def brokers_may_be_the_limit(case: HostsCase, ruling: Ruling) -> Ruling | None:
    """Brokers that took more with as much CPU, as they answer several requests of more clients at a time.

    A broker of half a core took 1.13 times as many records from four hosts as from three, with 0.47 cores from either.
    """
    cpu = paired_ratios(BROKERS_CPU, case.of, case.over)
    as_much = len(cpu) >= max(2, len(case.of)) and median_of(cpu).keeps(case.most, -1)
    return case.unknown(f"{case.figures}; {AS_MUCH_CPU}") if as_much and ruling.verdict is Verdict.INVALID else None


def _of(measurement: Measurement, metric: str) -> MoreHosts:
    case = HostsCase(measurement, metric)
    ruling = judge(case)
    limit = MoreHosts(
        finding=FINDINGS[ruling.verdict],
        metric=metric,
        hosts=_hosts(case.of),
        fewer_hosts=_hosts(case.over),
        at_most=case.most,
        words=ruling.reasons[0],
    )
    if not case.ratios or ruling.guard == loads_are_not_comparable.__name__:
        return limit
    above, below = (centre_of(values_of(rounds, metric)) for rounds in (case.of, case.over))
    ratio = median_of(case.ratios)
    return replace(
        limit,
        value=above.middle,
        interval=above.interval,
        fewer_value=below.middle,
        fewer_interval=below.interval,
        ratio=ratio.middle,
        ratio_interval=ratio.interval,
    )


def _figures(metric: str, rounds: Sequence[Round]) -> str:
    centre = centre_of(values_of(rounds, metric))
    low, high = centre.interval
    what = "records/s read" if metric == RECEIVED else "records/s"
    return f"{number(centre.middle)} {what} ({number(low)} .. {number(high)})"


def _hosts(rounds: Sequence[Round]) -> int:
    return max(len(r.hosts) for r in rounds)


def _fall_behind(measurement: Measurement) -> bool:
    """Whether consumers that read along received less than all that was sent."""
    if not measurement.scenario.load.capped or not measurement.scenario.consumers:
        return False
    sent, received = (values_of(measurement.rounds, metric) for metric in (SENT, RECEIVED))
    if not sent or not received:
        return True
    return not statistics.median(received) >= AT_THE_CAP * measurement.scenario.groups * statistics.median(sent)
