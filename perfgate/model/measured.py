"""Metrics with unit and direction, rounds, and the accounting of every record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from annotated_types import Ge

from perfgate.model.declared import Amount, Count, Scenario
from perfgate.model.hosts import HostReport


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricInfo:
    """Unit and direction of a metric, and how its name reads in a sentence."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    label: str


def _metric(name: str, unit: str, better: Literal["higher", "lower"], label: str) -> tuple[str, MetricInfo]:
    return name, MetricInfo(name=name, unit=unit, better=better, label=label)


COMPILING = 0.10
"""A broker that spends more of its CPU than this on compiling its code is not the broker that it will be."""
FEWEST_READINGS = 3
"""So many canary readings are taken before a cluster starts."""
DECIDES_PACED = "latency_ms.p99"
"""What a paced load is judged by: its rate is declared."""
TOLD_S = 0.05
"""A load whose gaps without a fault (p99) are shorter tells an outage as exactly as it is stated."""
LATENCY_QUANTILES: Mapping[str, float] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
PHASES = {"before": "before the fault", "unread": "unread", "during": "during the fault", "after": "after the fault"}
METRICS: Mapping[str, MetricInfo] = dict(
    [
        _metric("records_per_s", "records/s", "higher", "records acknowledged per second"),
        _metric("mib_per_s", "MiB/s", "higher", "payload acknowledged per second"),
        _metric("received_records_per_s", "records/s", "higher", "records received per second"),
        _metric("received_mib_per_s", "MiB/s", "higher", "payload received per second"),
        _metric("fetch_latency_ms.avg", "ms", "lower", "average time of a broker's answer to a consumer"),
        *(
            _metric(f"{kind}.{name}", "ms", "lower", f"{name} {label}")
            for kind, label in (("latency_ms", "latency"), ("end_to_end_latency_ms", "latency from send to receipt"))
            for name in (*LATENCY_QUANTILES, "max", "avg")
        ),
        _metric("broker_cpu_cores.max", "cores", "lower", "CPU of the busiest broker"),
        _metric("broker_cpu_cores.sum", "cores", "lower", "CPU of all brokers"),
        _metric("broker_cpu_us_per_record", "us/record", "lower", "CPU of all brokers per record"),
        _metric("broker_compile_share.max", "", "lower", "largest share of a broker's CPU that compiled its code"),
        _metric("broker_rss_mib.max", "MiB", "lower", "memory of the largest broker"),
        _metric("broker_rss_mib.sum", "MiB", "lower", "memory of all brokers"),
        _metric("broker_disk_write_mib_per_s", "MiB/s", "lower", "written by all brokers"),
        _metric("broker_network_in_mib_per_s", "MiB/s", "lower", "received by all brokers, from one another too"),
        _metric("broker_network_out_mib_per_s", "MiB/s", "lower", "sent by all brokers, to one another too"),
        _metric("broker_network_in_bytes_per_record", "B/record", "lower", "received by all brokers for each record"),
        _metric("under_replicated_partitions.max", "partitions", "lower", "most partitions under-replicated at a time"),
        _metric("offline_partitions.max", "partitions", "lower", "most partitions offline at a time"),
        _metric("isr_shrinks", "shrinks", "lower", "times that a set of in-sync replicas shrank"),
        _metric("request_handler_idle_ratio.min", "", "higher", "least share of time that request handlers were idle"),
        _metric("gc_s_per_s", "s/s", "lower", "time that all brokers collected garbage"),
        _metric("network_in_mib_per_s", "MiB/s", "higher", "received by all brokers from producers"),
        _metric("network_out_mib_per_s", "MiB/s", "higher", "sent by all brokers to consumers"),
        _metric("outage_resolution_s", "s", "lower", "gaps that the load had before the fault already (p99)"),
        _metric("outage_s.max", "s", "lower", "longest time that a partition took no record"),
        _metric("outage_s.median", "s", "lower", "that of the median partition"),
        _metric("outage_affected", "partitions", "lower", "partitions that were down"),
        _metric("outage_partition_seconds", "s", "lower", "time without service, partitions added up"),
        _metric("outage_all_s", "s", "lower", "time in which no partition took a record"),
        _metric("receive_outage_s.max", "s", "lower", "longest time that nothing was received of a partition"),
        _metric("recovery_s", "s", "lower", "time until rate and p99 were as before for 10 s"),
        _metric("rate_recovery_s", "s", "lower", "time until the rate was as before for 10 s"),
        _metric("full_isr_s", "s", "lower", "time until all replicas were in sync"),
        _metric("preferred_leaders_s", "s", "lower", "time until every partition had its preferred leader"),
        *(
            _metric(f"latency_{phase}_ms.{name}", "ms", "lower", f"{name} latency {when}")
            for phase, when in PHASES.items()
            for name in (*LATENCY_QUANTILES, "max", "avg")
        ),
        _metric("lost_records", "records", "lower", "records acknowledged and not in the log"),
        _metric("duplicated_records", "records", "lower", "second copies of records in the log"),
        _metric("reordered_records", "records", "lower", "records behind a later one of the same producer"),
        _metric("redelivered_records", "records", "lower", "records given to the group again"),
        _metric("delivered_records", "records", "lower", "records given to the share group, each as often as it was"),
        _metric("accepted_records", "records", "higher", "records that the share group accepted"),
        _metric("late_accepts_records", "records", "lower", "acceptances that were refused, or after another member's"),
        _metric("given_after_accepted_records", "records", "lower", "deliveries of records that had been accepted"),
        _metric("unaccepted_records", "records", "lower", "acknowledged, and not known to be accepted by the group"),
        _metric("unknown_records", "records", "lower", "records whose delivery ended in an error"),
        _metric("vanished_records", "records", "lower", "records handed over, never acknowledged, and not in the log"),
        _metric("lag_drained_s", "s", "lower", "time until the consumers were no more behind than usual"),
        _metric("p99_growth", "", "lower", "p99 latency at the end of a long load over that at its start"),
        _metric("cpu_per_record_growth", "", "lower", "the same of the brokers' CPU per record"),
        _metric("memory_growth", "", "lower", "the same of the brokers' memory"),
        _metric("unread_records", "records", "lower", "records unread when the consumers came back"),
        _metric("catch_up_s", "s", "lower", "time from there until they were no more behind than usual"),
        _metric("catch_up_records_per_s", "records/s", "higher", "what they read in that time"),
        *(
            _metric(f"end_to_end_{phase}_ms.{name}", "ms", "lower", f"{name} from send to receipt {when}")
            for phase, when in PHASES.items()
            for name in (*LATENCY_QUANTILES, "max", "avg")
        ),
        *(
            _metric(f"broker_cpu_{phase}_cores", "cores", "lower", f"CPU of all brokers {when}")
            for phase, when in PHASES.items()
        ),
        _metric("leader_changes", "changes", "lower", "times that a partition got another leader"),
        _metric("unclean_elections", "elections", "lower", "leaders elected that were not in sync"),
        _metric("controller_changes", "changes", "lower", "times that another controller became the active one"),
        _metric("client_cpu_us_per_record", "us/record", "lower", "CPU of the generator per record"),
        _metric("timed_out_share", "", "lower", "share of the records due in the window that timed out"),
        _metric("unloaded_latency_ms.p99", "ms", "lower", "p99 latency at the first step of a ramp"),
        _metric("knee_records_per_s", "records/s", "higher", "highest rate that met the service level"),
    ]
)
PER_BROKER_METRICS: Mapping[str, MetricInfo] = dict(
    [_metric("broker_cpu_cores", "cores", "lower", "CPU of one broker")]
)
"""Metrics that also exist per broker, as `<name>.<broker id>`."""


def metric_info(name: str) -> MetricInfo | None:
    """Return the metric of this name, or None; `broker_cpu_cores.2` is the CPU of broker 2."""
    if name in METRICS:
        return METRICS[name]
    stem, _, broker = name.rpartition(".")
    return replace(PER_BROKER_METRICS[stem], name=name) if broker.isdigit() and stem in PER_BROKER_METRICS else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Accounting:
    """Where every record of a round went.

    The law: attempted = acked + failed + unresolved + withdrawn, offset_delta = acked + markers. A record is withdrawn
    that still waited in the client's buffer after the window: it never left, so none of them may be in the log.
    `markers`: control records, one of each committed transaction in each partition that it wrote to. `partitions`: of
    each, the records acknowledged with their markers, and the change of its end offset, which must be equal too; empty
    when the driver does not know which partition a record went to. Of a load whose records are to time out any number
    of those that did may be in the log besides.
    """

    attempted: Count
    acked: Count
    failed: Mapping[str, Count]
    unresolved: Count
    offset_delta: int
    withdrawn: Count = 0
    markers: Count = 0
    partitions: tuple[tuple[int, int], ...] = ()

    @property
    def failed_total(self) -> int:
        """Records whose delivery ended in an error, of any code."""
        return sum(self.failed.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorReport:
    """What the load generator says of itself in one round's window.

    `cpu_cores` of all its processes, `busiest_thread_cores` of the thread that used most, `rss_mib` of the largest
    process. `pushback_share`: share of the window in which the clients' buffers refused records (average
    client). `schedule_delay_p99_ms`: how late a paced load was, None for another; `wake_delay_p99_ms`: how late this
    machine woke another sleeping thread in the same window, None where it was not measured.
    """

    cpu_cores: float
    busiest_thread_cores: float
    rss_mib: float
    pushback_share: float
    schedule_delay_p99_ms: float | None
    wake_delay_p99_ms: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What the consumers of one round were given; see :class:`perfgate.model.load.Received`."""

    read: Count
    received: Count
    foreign: Count
    corrupt: Count
    duplicated: Count
    reordered: Count
    redelivered: Count
    negative_latencies: Count
    missed: Count = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Failover:
    """What happened in a round with a fault. All times in s since the fault.

    `marks`: what was done to the cluster, and when. `phases`: begin and end by name. `shares`: of the records due in
    a phase, the part that was acknowledged in the end, by partition; `shares_at_once`: within 1 s. `split`: when the
    broker was fenced, new leaders were elected, and the first record was acknowledged after the outage;
    `split_source` says how that is known.
    `down`: when each partition was not served. `leaders` and `in_sync`: of every partition its leader (-1: none) and
    how many replicas were in sync, whenever one of them changed. `integrity`: how many records of each kind of fault
    there were, and `findings` names the first. `seconds`: the timeline, from its first second on: per partition the
    records acknowledged, the p99 of all (ms; None: nothing was). `unread`: the records that consumers who stayed away
    had not been given, at the end of each such second; empty where none stayed away.
    """

    marks: tuple[tuple[float, str], ...]
    phases: Mapping[str, tuple[float, float]]
    shares: Mapping[str, Mapping[str, float]]
    shares_at_once: Mapping[str, Mapping[str, float]]
    split: Mapping[str, float]
    split_source: str
    down: Mapping[str, tuple[tuple[float, float], ...]]
    leaders: tuple[tuple[float, tuple[int, ...]], ...]
    in_sync: tuple[tuple[float, tuple[int, ...]], ...]
    integrity: Mapping[str, int]
    findings: Mapping[str, tuple[str, ...]]
    seconds_from: float
    acknowledged: Mapping[str, tuple[int, ...]]
    p99_ms: tuple[float | None, ...]
    unread: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionFigures:
    """What one partition took in a window, and the broker that led it at its end (-1: none).

    `records_per_s` acknowledged in the window (capped) or due in it (paced), `p99_ms` of them, up to 1/16 too high.
    """

    leader: int
    records_per_s: Amount
    p99_ms: Amount


StepPart = Literal["unloaded", "step", "bisection", "confirmation", "below"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One rate of a ramp, in records/s, and what came of it.

    `part` of the search it belongs to; `received`: by consumers, None without any. `missed`: why it does not meet the
    service level, empty when it does; `by_generator`: because more could not be sent.
    """

    rate: Amount
    part: StepPart
    metrics: Mapping[str, float]
    accounting: Accounting
    received: Count | None = None
    missed: str = ""
    by_generator: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One measured window of one scenario; `invalid` holds the reasons why its numbers must not be judged.

    `broken`: those of them that brokers of the suite's own are to blame for, which is a result; `perhaps_late`: those
    of `invalid` that brokers, or a machine which was busy with something else, bring about.
    `invalid_metrics`: why some of them must not although the others may, by the beginning of the metrics' names
    (`latency_ms` for `latency_ms.p99`).
    `not_sustained` says how much of a paced load the brokers did not take, when they did not: a result, not a flaw.
    `usage_unavailable`: why the brokers' CPU (and more) is not among the metrics, when it is not.
    `untold`: which of the brokers' CPU, memory, disk and network are not among the metrics, and why.
    `broker_cpu_over_time`: by broker id, pairs of the moment at which a part of the window ends (s since it opened) and
    the cores used in it; empty where its source cannot tell.
    `steps`: those of a ramp, in their order; the metrics are those of the step at the knee then.
    `hosts`: what each load host did, where the load came from others than this machine (--hosts).
    `partitions`: of each, in their order; empty where there are more than 100, or the driver does not tell.
    """

    index: Annotated[int, Ge(1)]
    window_s: Amount
    warmup_s: Amount
    steady: bool
    metrics: Mapping[str, float]
    accounting: Accounting
    generator: GeneratorReport | None
    latency_histogram: str
    end_to_end_histogram: str = ""
    reading: Reading | None = None
    not_sustained: str = ""
    usage_unavailable: str = ""
    untold: Mapping[str, str] = field(default_factory=dict)
    broker_cpu_over_time: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    failover: Failover | None = None
    steps: tuple[Step, ...] = ()
    hosts: tuple[HostReport, ...] = ()
    partitions: tuple[PartitionFigures, ...] = ()
    invalid: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    perhaps_late: tuple[str, ...] = ()
    invalid_metrics: Mapping[str, str] = field(default_factory=dict)

    def spoilt(self, metric: str) -> str:
        """Return why this metric of the round must not be judged; empty when it may."""
        value = self.metrics.get(metric, 0.0)
        if not (math.isfinite(value) and value >= 0):
            return f"{metric} was measured as {value:g}: a counter that started anew, or was never read"
        return self.invalid_metrics.get(metric.partition(".")[0], "")


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryReading:
    """How quick the machine itself was at one moment between rounds, by a fixed load on all cores and on loopback.

    `deflate_mib_per_s`: MiB of text that all cores compress in a second; `loopback_per_s`: round trips over TCP.

    `pressure`: share of that time in which some task waited for a processor; `steal`: share of the processors' time
    that the host took. Both 0 where Linux does not tell. `brokers`: share of it that the suite's
    own brokers used.
    """

    deflate_mib_per_s: float
    loopback_per_s: float
    pressure: float
    steal: float
    brokers: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """All rounds of one scenario on one cluster. `latency_basis`: the moment from which latencies count.

    `discarded` holds rounds that the generator itself limited, or in which brokers were late, and that were measured
    again. `warm_up` holds rounds
    that are not judged because brokers were still warming up, which later rounds showed; `warming` says so of
    `rounds` themselves, with the figures, when it did not end. `rtt_ms` is the round
    trip of one request by link name, measured before the rounds. `one_host_fewer`: rounds of the same numbers without
    the last of the load hosts and what ran on it (--confirm-with-more-hosts). `canary`: readings before, between and
    after them.
    `by_hand`: the official command that makes the same load.
    """

    scenario: Scenario
    rounds: tuple[Round, ...]
    discarded: tuple[Round, ...] = ()
    warm_up: tuple[Round, ...] = ()
    warming: str = ""
    one_host_fewer: tuple[Round, ...] = ()
    rtt_ms: Mapping[str, float]
    latency_basis: str = ""
    by_hand: str = ""
    broker_log_tail: str = ""
    canary: tuple[CanaryReading, ...] = ()
