"""Rounds: what each measured, the accounting of every record, what load hosts report; arms, whose rounds they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge

from perfgate.model.declared import Scenario
from perfgate.model.flaw import Doubt, Flaw
from perfgate.model.metrics import Amount, Count

FEWEST_READINGS = 3
"""Number of canary readings before a cluster starts."""
NO_USAGE = "the target file states no [prometheus]"
"""Why all that is `untold` of real brokers is missing, where no source is named."""


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
class MachineUse:
    """What a load host's machine did in a round's window, whichever process it did it for.

    `with_run`: it is the machine of the run. Shares are of 1: of all processors, of the busiest one; what a hypervisor
    took counts as used. `network`: the interface that came nearest to the speed it states, in its busier direction;
    empty, and `network_share` None, where none states one. `tcp_sent`: segments; `tcp_sent_again` come on top.
    `throttled_share`: of the periods of its container's CPU quota those in which it held the container back; None
    where no quota is seen.
    """

    with_run: bool
    cores: Count
    cpu_share: float
    busiest_core_share: float
    sent_mib_per_s: float
    received_mib_per_s: float
    network: str
    network_share: float | None
    tcp_sent: Count
    tcp_sent_again: Count
    throttled_share: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeService:
    """What chrony says of a load host's wall clock; nothing of this engine's times is taken from that one.

    `offset_ms`: so far it is from what chrony takes for the true time. `bound_ms`: it is no further from the time of
    chrony's sources than this: |offset| + root dispersion + root delay / 2; None where it follows none.
    """

    stratum: Count
    synchronised: bool
    offset_ms: float
    root_delay_ms: float
    root_dispersion_ms: float
    bound_ms: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostReport:
    """What one load host did in one round's window, and its clock against that of the machine the run is on.

    `done_in_window`: records acknowledged, or received where nothing is sent, by `done_by` of its `processes` (None:
    unknown, as in runs of earlier versions); `latency_histogram` of its producers.
    `clock_ahead_ms` at the start, give or take `clock_bound_ms`; times that were translated by it were wrong by
    `clock_off_by_ms` at most, the round over. `started_late_ms`: how long after the agreed moment the last of its
    clients began. `busiest_thread_cores` of its generators; `pushback_share` of the window, of its average producer;
    `schedule_delay_p99_ms` of its paced records. `machine`: None where its counters were not read.
    `clock_stepped_ms`: its clock moved by so much at once. `time_service`: None where no chrony answered.
    """

    name: str
    processes: Count
    done_in_window: Count
    cpu_cores: float
    latency_histogram: str
    clock_ahead_ms: float
    clock_bound_ms: float
    clock_off_by_ms: float
    started_late_ms: float
    busiest_thread_cores: float = 0.0
    pushback_share: float = 0.0
    schedule_delay_p99_ms: float | None = None
    machine: MachineUse | None = None
    clock_stepped_ms: float = 0.0
    time_service: TimeService | None = None
    done_by: Count | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failover:
    """What happened in a round with a fault. All times in s since the fault.

    `marks`: what was done to the cluster, and when. `phases`: begin and end by name. `shares`: of the records due in
    a phase, the part that was acknowledged in the end, by partition; `shares_at_once`: within 1 s. `split`: when the
    broker was fenced, new leaders were elected, and the first record was acknowledged after the outage;
    `split_source` says how that is known.
    `down`: when each partition was not served, or not read where consumers came and went. `leaders` and `in_sync`: of
    every partition its leader (-1: none) and how many replicas were in sync, whenever one of them changed. `integrity`:
    how many records of each kind of fault there were, and `findings` names the first. `seconds`: the timeline, from its
    first second on: per partition the records acknowledged, the p99 of all (ms; None: nothing was). `unread`: the
    records that consumers who stayed away, or came and went, had not been given, at the end of each such second; else
    empty. `session_s`: how long real brokers wait for a silent one, as they report (0: they do not); None where that is
    as the scenario has it.
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
    session_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapeFigures:
    """What came of a shaped load, second by second since its window opened.

    `phases`: begin and end (s) of the time before, in and after the peak. `offered`, `achieved`: records/s that were
    due, and of those due in the window acknowledged. `p99_ms` of the records due in a second, up to 1/16 too high;
    None: none was acknowledged. `owed`: the most records that were due and not acknowledged.
    """

    phases: Mapping[str, tuple[float, float]]
    offered: tuple[float, ...]
    achieved: tuple[float, ...]
    p99_ms: tuple[float | None, ...]
    owed: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionFigures:
    """What one partition took in a window, and the broker that led it at its end (-1: none).

    `records_per_s` acknowledged in the window (capped) or due in it (paced), `p99_ms` of them, up to 1/16 too high.
    """

    leader: int
    records_per_s: Amount
    p99_ms: Amount


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicFigures:
    """What one of several topics took in a window, counted as of :class:`PartitionFigures`.

    `differs`: in which figures it differs from the others by more than chance.
    """

    number: Count
    records_per_s: Amount
    p99_ms: Amount
    differs: tuple[Literal["rate", "p99"], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PartFigures:
    """What a load beside the scenario's did in a round. Its figures are among the round's metrics, as `part.<name>.*`.

    `not_sustained` and `latency_histogram`: as of a :class:`Round`.
    """

    name: str
    accounting: Accounting
    reading: Reading | None = None
    latency_histogram: str = ""
    not_sustained: str = ""


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
    """One measured window of one scenario; `flaws`: the reasons why its numbers, or some of them, must not be judged.

    `target_unhealthy`: nothing was measured after it, because the target was no longer healthy.
    `not_sustained` says how much of a paced load the brokers did not take, when they did not: a result, not a flaw.
    `usage_unavailable`: why the brokers' CPU (and more) is not among the metrics, when it is not.
    `untold`: which of the brokers' CPU, memory, disk and network are not among the metrics, and why.
    `broker_cpu_over_time`: by broker id, pairs of the moment at which a part of the window ends (s since it opened) and
    the cores used in it; empty where its source has no such figures.
    `steps`: those of a ramp, in their order; the metrics are those of the step at the knee then.
    `hosts`: what each load host did, where the load came from others than this machine (--hosts).
    `partitions`: of each, in their order; empty where there are more than 100, or the driver does not know.
    `beside`: the loads at the same time. `topics`: of several those that differ from the others by more than chance.
    `growth`: the rate in the second half of the window over that in the first, where the driver knows it; else 1.
    `shape`: of a shaped load what came of it over time.
    `lag_over_time`: of consumers that work, pairs of s since the window opened and records not worked off.
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
    topics: tuple[TopicFigures, ...] = ()
    beside: tuple[PartFigures, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    target_unhealthy: bool = False
    growth: Annotated[float, Ge(0)] = 1.0
    shape: ShapeFigures | None = None
    lag_over_time: tuple[tuple[float, float], ...] = ()

    @property
    def invalid(self) -> tuple[str, ...]:
        """The reasons why none of it counts."""
        return tuple(dict.fromkeys(flaw.text for flaw in self.flaws if not flaw.metrics))

    @property
    def broken(self) -> tuple[str, ...]:
        """What brokers that serve nobody else are to blame for, and what was lost."""
        return tuple(dict.fromkeys(flaw.text for flaw in self.flaws if flaw.broken))

    @property
    def invalid_metrics(self) -> Mapping[str, str]:
        """Why some metrics do not count although the others may, by the beginning of their names (`latency_ms`)."""
        return {metric: flaw.text for flaw in self.flaws for metric in flaw.metrics}

    @property
    def only_late(self) -> bool:
        """Whether nothing is wrong with it but that something, of the brokers or the generator, was late."""
        return all(flaw.late for flaw in self.flaws if not flaw.metrics)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What was wrong with it, with what each explains of a loss."""
        return tuple(doubt for flaw in self.flaws for doubt in flaw.doubts)

    def spoilt(self, metric: str) -> str:
        """Return the reason why this metric of the round must not be judged; empty when it may."""
        if self.no_number(metric):
            return f"{metric} was measured as {self.metrics[metric]:g}: a counter that started anew, or was never read"
        if not self.flaws:
            return ""
        named = self.invalid_metrics.items()
        return next((why for name, why in named if metric == name or metric.startswith(f"{name}.")), "")

    def no_number(self, metric: str) -> bool:
        """Whether this metric was measured as what no figure can be."""
        value = self.metrics.get(metric, 0.0)
        return not (math.isfinite(value) and value >= 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryReading:
    """How quick the machine itself was at one moment between rounds, by a fixed load on all cores and on loopback.

    `deflate_mib_per_s`: MiB of text that all cores compress in a second; `loopback_per_s`: round trips over TCP.

    `pressure`: share of that time in which some task waited for a processor; `steal`: share of the processors' time
    that the host took. Both 0 where Linux does not report it. `brokers`: share of it that the suite's own brokers used,
    in the worse of the two loads. `others`: share of it that processes used which are neither the run's own nor its
    brokers; `busiest`: the name of the one that used most. `deflate_mib_per_cpu_s`: MiB compressed in a second of the
    processors' own time; None in recordings without it.
    """

    deflate_mib_per_s: float
    loopback_per_s: float
    pressure: float
    steal: float
    brokers: float = 0.0
    others: float = 0.0
    busiest: str = ""
    deflate_mib_per_cpu_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """All rounds of one scenario on one cluster. `latency_basis`: the moment from which latencies count.

    `discarded`: rounds that the generator limited, or in which brokers were late, and that were measured again.
    `warm_up`: rounds that are not judged, since later ones showed that brokers were still warming up; `warming` says so
    of `rounds` themselves, with the figures. `enough`: why fewer rounds than the tier's were. `rtt_ms`: a request's
    round trip by link name, before the rounds. `one_host_fewer`: rounds of the same numbers without the last load host
    (--confirm-with-more-hosts). `canary`: readings before, between and after. `by_hand`: the official command.
    """

    scenario: Scenario
    rounds: tuple[Round, ...]
    discarded: tuple[Round, ...] = ()
    warm_up: tuple[Round, ...] = ()
    warming: str = ""
    enough: str = ""
    one_host_fewer: tuple[Round, ...] = ()
    rtt_ms: Mapping[str, float]
    latency_basis: str = ""
    by_hand: str = ""
    broker_log_tail: str = ""
    canary: tuple[CanaryReading, ...] = ()


Form = Literal["as declared", "candidate", "one host fewer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """A form of a scenario, and how many of its link's load hosts load the brokers with it (0: all).

    A confirmation run measures the same arms on a fresh cluster; the reference of a gate is the candidate.
    """

    scenario: Scenario
    form: Form = "as declared"
    hosts: int = 0


@dataclass(slots=True)
class Series:
    """The rounds of an arm; those that were measured again are `discarded`. `rtt_ms`: round trips by link name."""

    arm: Arm
    rounds: list[Round] = field(default_factory=list)
    discarded: list[Round] = field(default_factory=list)
    rtt_ms: Mapping[str, float] = field(default_factory=dict)
