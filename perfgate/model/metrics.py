"""The catalogue of metrics: unit, direction and words of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge

Amount = Annotated[float, Ge(0)]
Count = Annotated[int, Ge(0)]
"""Checked where they are read from a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricInfo:
    """Unit and direction of a metric, and how its name reads in a sentence."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    label: str

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return 1 if self.better == "higher" else -1

    @property
    def bound(self) -> str:
        """How a limit reads: at least, or at most."""
        return "at least" if self.better == "higher" else "at most"


def _metric(name: str, unit: str, better: Literal["higher", "lower"], label: str) -> tuple[str, MetricInfo]:
    return name, MetricInfo(name=name, unit=unit, better=better, label=label)


COMPILING = 0.10
"""A broker that spends more of its CPU than this on compiling its code is not the broker that it will be."""
DECIDES_PACED = "latency_ms.p99"
"""What a paced load is judged by: its rate is declared."""
LATENCY_QUANTILES: Mapping[str, float] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
PHASES = {"before": "before the fault", "unread": "unread", "during": "during the fault", "after": "after the fault"}
PEAK_PHASES = {"before": "before the peak", "peak": "in the peak", "after": "after the peak"}
"""Of a shaped load, with their words."""
_PEAK = {"before": "before_peak", "peak": "peak", "after": "after_peak"}
PHASE_LATENCY = {phase: f"{name}_latency_ms" for phase, name in _PEAK.items()}
PHASE_CPU = {phase: f"broker_cpu_{name}_cores" for phase, name in _PEAK.items()}
HOTTEST = "hottest_partition_latency_ms"
SLOWEST_TOPIC = "slowest_topic_latency_ms"
HOTTEST_P99, HOTTEST_SHARE = f"{HOTTEST}.p99", "hottest_partition_share"
"""Of the partition that most records went to."""
P99_BACK, OWED, UNSENT = "p99_back_s", "owed_records", "unsent_records"
LAG, LAG_GROWTH, DRAIN = "lag_records.max", "lag_growth_records_per_s", "drain_s"
"""Of consumers that work."""


def _latencies(kinds: Mapping[str, str]) -> Iterator[tuple[str, MetricInfo]]:
    """Give quantiles, maximum and average of each kind, whose words follow theirs."""
    for kind, words in kinds.items():
        for name in (*LATENCY_QUANTILES, "max", "avg"):
            yield _metric(f"{kind}.{name}", "ms", "lower", f"{name} {words}")


METRICS: Mapping[str, MetricInfo] = dict(
    [
        _metric("records_per_s", "records/s", "higher", "records acknowledged per second"),
        _metric("mib_per_s", "MiB/s", "higher", "payload acknowledged per second"),
        _metric("received_records_per_s", "records/s", "higher", "records received per second"),
        _metric("received_mib_per_s", "MiB/s", "higher", "payload received per second"),
        _metric("fetch_latency_ms.avg", "ms", "lower", "average time of a broker's answer to a consumer"),
        *_latencies({"latency_ms": "latency", "end_to_end_latency_ms": "latency from send to receipt"}),
        _metric("broker_cpu_cores.max", "cores", "lower", "CPU of the busiest broker"),
        _metric("broker_cpu_cores.sum", "cores", "lower", "CPU of all brokers"),
        _metric("broker_cpu_us_per_record", "us/record", "lower", "CPU of all brokers per record"),
        _metric("broker_compile_share.max", "", "lower", "largest share of a broker's CPU that compiled its code"),
        _metric("client_held_back_share", "", "lower", "share of its CPU quota's periods that held the client back"),
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
        _metric("late_sends_s", "s", "lower", "what of that is of sends that were late themselves"),
        _metric("outage_s.median", "s", "lower", "that of the median partition"),
        _metric("outage_affected", "partitions", "lower", "partitions that were down"),
        _metric("outage_partition_seconds", "s", "lower", "time without service, partitions added up"),
        _metric("outage_all_s", "s", "lower", "time in which no partition took a record"),
        _metric("receive_outage_s.max", "s", "lower", "longest time that nothing was received of a partition"),
        _metric(
            "receive_outage_affected", "partitions", "lower", "partitions of which nothing was received for a time"
        ),
        _metric(
            "receive_outage_partition_seconds",
            "s",
            "lower",
            "time without a record beyond the pace, partitions added up",
        ),
        _metric("receive_outage_all_s", "s", "lower", "time in which nothing was received of any partition"),
        _metric("others_receive_outage_s.max", "s", "lower", "the same of the groups that no fault is done to"),
        _metric("recovery_s", "s", "lower", "time until rate and p99 were as before for 10 s"),
        _metric("rate_recovery_s", "s", "lower", "time until the rate was as before for 10 s"),
        _metric("full_isr_s", "s", "lower", "time until all replicas were in sync"),
        _metric("preferred_leaders_s", "s", "lower", "time until every partition had its preferred leader"),
        *_latencies({f"latency_{phase}_ms": f"latency {when}" for phase, when in PHASES.items()}),
        *_latencies({PHASE_LATENCY[phase]: f"latency {when}" for phase, when in PEAK_PHASES.items()}),
        *(
            _metric(PHASE_CPU[phase], "cores", "lower", f"CPU of all brokers {when}")
            for phase, when in PEAK_PHASES.items()
        ),
        _metric(HOTTEST_P99, "ms", "lower", "p99 latency of the partition with most records"),
        _metric(HOTTEST_SHARE, "", "lower", "share of all records that the partition with most has"),
        _metric(P99_BACK, "s", "lower", "time after the peak until p99 was as before it"),
        _metric(OWED, "records", "lower", "most records that were due and not acknowledged"),
        _metric(UNSENT, "records", "lower", "most records that were due and not handed over"),
        _metric("lost_records", "records", "lower", "records acknowledged and not in the log"),
        _metric("duplicated_records", "records", "lower", "second copies of records in the log"),
        _metric("reordered_records", "records", "lower", "records behind a later one of the same producer"),
        _metric("redelivered_records", "records", "lower", "records given to the group again"),
        _metric(
            "missed_records", "records", "lower", "acknowledged, and never given to the group, though later ones were"
        ),
        _metric("delivered_records", "records", "lower", "records given to the share group, each as often as it was"),
        _metric("accepted_records", "records", "higher", "records that the share group accepted"),
        _metric("late_accepts_records", "records", "lower", "acceptances that were refused, or after another member's"),
        _metric("given_after_accepted_records", "records", "lower", "deliveries of records that had been accepted"),
        _metric("unaccepted_records", "records", "lower", "acknowledged, and not known to be accepted by the group"),
        _metric("unknown_records", "records", "lower", "records whose delivery ended in an error"),
        _metric("vanished_records", "records", "lower", "records handed over, never acknowledged, and not in the log"),
        _metric("lag_drained_s", "s", "lower", "time until the consumers were no more behind than usual"),
        _metric(LAG, "records", "lower", "most records acknowledged that consumers had not worked off"),
        _metric(LAG_GROWTH, "records/s", "lower", "what that grew by in the window"),
        _metric(DRAIN, "s", "lower", "time from the last acknowledgement until all was worked off"),
        _metric("p99_growth", "", "lower", "p99 latency at the end of a long load over that at its start"),
        _metric("cpu_per_record_growth", "", "lower", "the same of the brokers' CPU per record"),
        _metric("memory_growth", "", "lower", "the same of the brokers' memory"),
        _metric("unread_records", "records", "lower", "records unread when the consumers came back"),
        _metric("catch_up_s", "s", "lower", "time from there until they were no more behind than usual"),
        _metric("catch_up_records_per_s", "records/s", "higher", "what they read in that time"),
        *_latencies({f"end_to_end_{phase}_ms": f"from send to receipt {when}" for phase, when in PHASES.items()}),
        *(
            _metric(f"broker_cpu_{phase}_cores", "cores", "lower", f"CPU of all brokers {when}")
            for phase, when in PHASES.items()
        ),
        _metric("leader_changes", "changes", "lower", "times that a partition got another leader"),
        _metric("unclean_elections", "elections", "lower", "leaders elected that were not in sync"),
        _metric("controller_changes", "changes", "lower", "times that another controller became the active one"),
        _metric("client_cpu_us_per_record", "us/record", "lower", "CPU of the generator per record"),
        _metric(f"{SLOWEST_TOPIC}.p99", "ms", "lower", "p99 latency of the slowest topic"),
        _metric("all_sent_s", "s", "lower", "time until all connections of a crowd had their first answer"),
        _metric("timed_out_share", "", "lower", "share of the records due in the window that timed out"),
        _metric("unloaded_latency_ms.p99", "ms", "lower", "p99 latency at the first step of a ramp"),
        _metric("knee_records_per_s", "records/s", "higher", "highest rate that met the service level"),
    ]
)
ROLES: Mapping[str, str] = {"brokers": "brokers", "bookies": "bookies", "metadata": "the metadata store"}
"""Kinds of nodes, where a system has several; figures of all of them together have the names of brokers'."""
PER_ROLE_METRICS: Mapping[str, MetricInfo] = dict(
    [
        _metric("broker_cpu_cores", "cores", "lower", "CPU of {}"),
        _metric("broker_rss_mib", "MiB", "lower", "memory of {}"),
        _metric("broker_disk_write_mib_per_s", "MiB/s", "lower", "written by {}"),
        _metric("broker_network_in_mib_per_s", "MiB/s", "lower", "received by {}"),
        _metric("broker_network_out_mib_per_s", "MiB/s", "lower", "sent by {}"),
    ]
)
"""Metrics that also exist per role, as `<name>.<role>`."""
PER_BROKER_METRICS: Mapping[str, MetricInfo] = dict(
    [_metric("broker_cpu_cores", "cores", "lower", "CPU of one broker")]
)
"""Metrics that also exist per broker, as `<name>.<broker id>`."""


PART = "part."
PER_PART_METRICS = (
    "records_per_s",
    "mib_per_s",
    "received_records_per_s",
    *(f"{kind}.{name}" for kind in ("latency_ms", "end_to_end_latency_ms") for name in ("p50", "p99", "p999")),
)
"""Metrics that also exist of each load beside a scenario's, as `part.<name>.<metric>`."""


def part_of(name: str) -> tuple[str, str]:
    """Return the load beside a scenario's that a metric is of, and the metric; of the scenario's own: "" and itself."""
    if not name.startswith(PART):
        return "", name
    part, _, inner = name.removeprefix(PART).partition(".")
    return part, inner


def metric_info(name: str) -> MetricInfo | None:
    """Return the metric of this name, or None.

    `broker_cpu_cores.2` is the CPU of broker 2, `broker_cpu_cores.bookies` that of all bookies,
    `part.noisy.records_per_s` the rate of the load of that name beside a scenario's.
    """
    if name in METRICS:
        return METRICS[name]
    part, inner = part_of(name)
    if part and inner in PER_PART_METRICS:
        info = METRICS[inner]
        return replace(info, name=name, label=f"{info.label}, of the load {part}")
    stem, _, of = name.rpartition(".")
    if of in ROLES and stem in PER_ROLE_METRICS:
        info = PER_ROLE_METRICS[stem]
        return replace(info, name=name, label=info.label.format(ROLES[of]))
    return replace(PER_BROKER_METRICS[stem], name=name) if of.isdigit() and stem in PER_BROKER_METRICS else None
