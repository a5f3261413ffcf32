"""Rounds, made from what load and metrics gave, and measurements, made from series. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from perfgate.measure.flaw import schedule_delay_p99_ms
from perfgate.model import (
    MIB,
    Accounting,
    CanaryReading,
    GeneratorReport,
    Load,
    Measurement,
    PartFigures,
    PartitionFigures,
    Reading,
    Round,
    Scenario,
    TopicFigures,
)
from perfgate.model.delivery import LATE
from perfgate.model.errors import BrokersFailedError, InterferedError, LimitReachedError, TargetError
from perfgate.model.flaw import Flaw
from perfgate.model.histogram import figures_of, latency_metrics
from perfgate.model.load import Driver, LoadResult, SendsFailedError, Sent
from perfgate.model.measured import Series
from perfgate.model.metrics import HOTTEST_P99, HOTTEST_SHARE


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A round, and whether the generator alone is to blame for its flaws."""

    round: Round
    repeatable: bool


def break_off(scenarios: Iterable[Iterable[Series]], reason: str, **why: bool) -> None:
    """Add a round with the reason, whole for the first scenario; `why`: of :func:`unmeasured`."""
    for number, every in enumerate(scenarios):
        words = reason if not number else reason.partition("\n")[0]
        for series in every:
            series.rounds.append(unmeasured(len(series.rounds) + 1, words, **why))


def break_off_by(error: TargetError, scenarios: Iterable[Iterable[Series]], *, dedicated: bool) -> None:
    """Let an unhealthy target, or a limit of the run, end these series; `dedicated`: its brokers serve nothing else."""
    words = str(error) if isinstance(error, InterferedError) else f"target unhealthy: {error}"
    break_off(
        scenarios,
        words,
        **blame(error, dedicated=dedicated),
        unhealthy=not isinstance(error, LimitReachedError | InterferedError),
    )


def blame(error: TargetError, *, dedicated: bool) -> dict[str, bool]:
    """Whether brokers are to blame for this end of a target, as :func:`unmeasured` takes it."""
    return {"broken": dedicated and isinstance(error, BrokersFailedError), "perhaps_late": error.perhaps_late}


def measurement_of(
    driver: Driver, series: Series, *, log_tail: str = "", canary: Sequence[CanaryReading] = ()
) -> Measurement:
    scenario = series.arm.scenario
    return Measurement(
        scenario=scenario,
        rounds=tuple(series.rounds),
        discarded=tuple(series.discarded),
        rtt_ms=series.rtt_ms,
        latency_basis=driver.latency_basis(scenario.load),
        by_hand=driver.by_hand(scenario),
        broker_log_tail=log_tail,
        canary=tuple(canary),
    )


def unmeasured(
    index: int, reason: str, *, broken: bool = False, perhaps_late: bool = False, unhealthy: bool = False
) -> Round:
    """A round that has a reason instead of numbers; `broken`: brokers of the suite's own are to blame, `perhaps_late`:
    or a busy machine. `unhealthy`: it is the last because the target was no longer healthy."""
    return Round(
        index=index,
        window_s=0.0,
        warmup_s=0.0,
        steady=False,
        metrics={},
        accounting=Accounting(attempted=0, acked=0, failed={}, unresolved=0, offset_delta=0),
        generator=None,
        latency_histogram="",
        flaws=(Flaw(reason, broken=broken, late=perhaps_late),),
        target_unhealthy=unhealthy,
    )


def sends_failed(index: int, error: SendsFailedError, *, own_brokers: bool) -> Round:
    """A round that ended because the brokers took no record, or did not commit them."""
    failed, owed = error.failed, error.attempted - error.failed
    accounting = Accounting(
        attempted=error.attempted, acked=0, failed={"every": failed}, unresolved=owed, offset_delta=0
    )
    # Without an error there was no answer at all.
    late = LATE.fullmatch(error.code) is not None if error.code else not error.failed
    return replace(unmeasured(index, str(error), broken=own_brokers, perhaps_late=late), accounting=accounting)


def round_of(
    index: int,
    result: LoadResult,
    accounting: Accounting,
    broker_metrics: Mapping[str, float],
    flaws: tuple[Flaw, ...],
    not_sustained: str,
    usage_unavailable: str = "",
    missing: Mapping[str, str] | None = None,
    *,
    own_brokers: bool = False,
    leaders: Sequence[int] = (),
    topics: tuple[TopicFigures, ...] = (),
    beside: tuple[PartFigures, ...] = (),
) -> Round:
    """The round of this load. `own_brokers`: no other client uses them, so what they failed to do is a result.
    `leaders`: of each partition. `topics`: those that differ. `beside`: other loads."""
    sent, received = result.sent, result.received
    metrics = {**load_metrics(result), **broker_metrics}
    if done := done_in_window(result):
        metrics["client_cpu_us_per_record"] = result.cpu_cores * result.window_s / done * 1e6
    no_numbers = {name: value for name, value in metrics.items() if not math.isfinite(value)}
    return Round(
        index=index,
        window_s=result.window_s,
        warmup_s=result.warmup_s,
        steady=result.steady,
        growth=result.growth,
        lag_over_time=result.lag.over_time if result.lag else (),
        metrics={name: value for name, value in metrics.items() if name not in no_numbers},
        accounting=accounting,
        generator=GeneratorReport(
            cpu_cores=result.cpu_cores,
            busiest_thread_cores=result.busiest_thread_cores,
            rss_mib=result.rss_mib,
            pushback_share=sent.pushback_in_window_s / result.window_s if sent else 0.0,
            schedule_delay_p99_ms=schedule_delay_p99_ms(sent) if sent else None,
            wake_delay_p99_ms=result.wake_delay_p99_ms,
        ),
        latency_histogram=sent.latency if sent else "",
        end_to_end_histogram=received.latency if received and sent else "",
        reading=reading_of(result),
        not_sustained=not_sustained,
        usage_unavailable=usage_unavailable,
        untold=missing or {},
        hosts=result.hosts,
        partitions=_partitions(result, leaders),
        topics=topics,
        beside=beside,
        flaws=(
            *(
                Flaw(f"{name} was measured as {value:g}", kind="no number", metrics=(name.partition(".")[0],))
                for name, value in no_numbers.items()
            ),
            *(blamed(flaw, own_brokers=own_brokers) for flaw in flaws),
        ),
    )


def blamed(flaw: Flaw, *, own_brokers: bool) -> Flaw:
    """The flaw, as a result where brokers that no other client uses are to blame."""
    theirs = own_brokers and flaw.whose == "brokers" and not flaw.again
    return replace(flaw, broken=True) if theirs else flaw


def _partitions(result: LoadResult, leaders: Sequence[int]) -> tuple[PartitionFigures, ...]:
    figures = figures_of(result.sent.latency_by_partition) if result.sent else []
    if len(leaders) != len(figures):
        return ()  # no figure can be assigned to its partition
    return tuple(
        PartitionFigures(leader=leader, records_per_s=records / result.window_s, p99_ms=p99_ms)
        for leader, (records, p99_ms) in zip(leaders, figures, strict=True)
    )


def timed_out_share(load: Load, sent: Sent | None) -> dict[str, float]:
    """Share of the records due in the window that timed out, where that is what a load measures."""
    if not load.times_out or sent is None or not sent.due_in_window:
        return {}
    return {"timed_out_share": sent.timed_out_in_window / sent.due_in_window}


def hottest(scenario: Scenario, sent: Sent | None) -> dict[str, float]:
    """Share of the partition that most records went to, where keys choose it, and its p99 where that is known."""
    if scenario.keys.kind == "none" or sent is None or not any(sent.acked_by_partition):
        return {}
    most = max(sent.acked_by_partition)
    apart = figures_of(sent.latency_by_partition)
    p99 = {HOTTEST_P99: apart[sent.acked_by_partition.index(most)][1]} if apart else {}
    return {HOTTEST_SHARE: most / sum(sent.acked_by_partition), **p99}


def done_in_window(result: LoadResult) -> int:
    """Records that count for a load's rate: acknowledged, or received where nothing is sent."""
    if result.sent:
        return result.sent.acked_in_window
    return result.received.received_in_window if result.received else 0


def reading_of(result: LoadResult) -> Reading | None:
    """Counts of the records that a round's consumers received; None without consumers."""
    received = result.received
    return Reading(**{f.name: getattr(received, f.name) for f in fields(Reading)}) if received else None


def load_metrics(result: LoadResult) -> dict[str, float]:
    sent, received, seconds = result.sent, result.received, result.window_s
    metrics = {"records_per_s": done_in_window(result) / seconds}
    if sent:
        metrics["mib_per_s"] = sent.acked_bytes_in_window / seconds / MIB
        metrics.update(sent.percentiles or latency_metrics([sent.latency]))
        if sent.crowd and sent.crowd.settled_s:
            metrics["all_sent_s"] = sent.crowd.settled_s
    if received:
        mib_per_s = received.received_bytes_in_window / seconds / MIB
        metrics["received_records_per_s"] = received.received_in_window / seconds
        metrics["received_mib_per_s"] = mib_per_s
        metrics.setdefault("mib_per_s", mib_per_s)
        if received.fetch_ms is not None:
            metrics["fetch_latency_ms.avg"] = received.fetch_ms
        if sent:
            metrics.update(latency_metrics([received.latency], "end_to_end_latency_ms"))
    if lag := result.lag:
        metrics |= {"lag_records.max": lag.most, "lag_growth_records_per_s": max(0.0, lag.growth_per_s)}
        metrics |= {} if lag.drained_s is None else {"drain_s": lag.drained_s}
    return metrics
