"""Validity of a round's load on several hosts: a common start, known clocks, and no host at its limit. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfgate.measure.flaw import (
    BROKERS_IDLE_CORES,
    ECHO,
    LATENCIES,
    THREAD_LIMIT_CORES,
    Explained,
    beside_push_back,
    of_generator,
    schedule_delay_limit_ms,
    sent_late,
    share,
    standing_still,
    woken,
)
from perfgate.model import HostReport, Load, MachineUse
from perfgate.model.compared import SATURATED, SENT_LATE
from perfgate.model.faults import but_outages
from perfgate.model.flaw import EVERYTHING, Doubt, Flaw
from perfgate.model.histogram import latency_metrics
from perfgate.model.load import LoadResult

OUT_OF_STEP = "out of step"
START_LIMIT_MS = 50.0
"""Within this time of the agreed moment each load host has begun."""
CLOCK_SHARE = 0.1
"""An end-to-end latency across clocks that are not known to this share of its median says nothing."""
CPU_LIMIT = 0.95
"""Share of all processors. The rest is a twentieth of one window: records wait for a processor, not for brokers."""
QUOTA_LIMIT = 0.1
"""Share of the periods of a container's CPU quota (0.1 s each by default) in which it may have stopped generators:
buffers fill in each such pause, too short to count as "stood still"."""
NETWORK_LIMIT = 0.9
"""Share of an interface's speed: an average of nine tenths is the whole link for a good part of the window. Its
counters hold at most 98 % of what is on the wire (1,514 of 1,538 bytes)."""
SENT_AGAIN_LIMIT, FEWEST_SENT_AGAIN = 0.01, 100
"""Share of the TCP segments. A connection that loses one of a hundred has some twelve segments under way (Mathis et al.
1997: 1.22 / sqrt(loss)), whatever the brokers could take. Fewer than a hundred may be one burst."""
SENT_AGAIN_AFTER_S, BACKED_OFF, ACKED_TOGETHER, DUPLICATES = 0.2, 3, 2, 3
"""A lost segment holds its connection up until it is sent again: after a round trip where others follow it, else after
Linux's least time-out (TCP_RTO_MIN), which doubles each time, BACKED_OFF times for one segment. Of losses at the
share p the share min(1, 3 / w) is found by a time-out, w = sqrt(8 / 3bp) segments under way, b of them acknowledged at
once (Padhye et al. 1998): the others are found by three duplicate acknowledgements."""
QUOTA_PERIOD_S, IN_A_ROW = 0.1, 5
"""Periods that hold clients back follow one another 1 / (1 - share) times on average, at most a few times as often."""
DELAY_FACTOR = 2.0
"""One host's schedule delay may be this many times the limit of all: its p99 is of fewer records."""


def host_flaws(
    load: Load, result: LoadResult, busiest_broker_cores: float | None = None, *, shares_cores: bool = False
) -> list[Flaw]:
    """Flaws of the load hosts. `shares_cores`: the brokers are on the machine of the run."""
    flaws = []
    for host in result.hosts:
        # A machine that also has the brokers is theirs to use up.
        machine = None if shares_cores and host.machine and host.machine.with_run else host.machine
        for reason, apart_s in _out_of_step(host):
            explains = standing_still(result.window_s, apart_s, apart_s)
            flaws.append(of_generator(reason, explains, kind=OUT_OF_STEP))
        for why in _at_its_limit(host, machine, busiest_broker_cores):
            flaws.append(of_generator(f"{SATURATED} on {host.name}: {why}", kind=SATURATED))
        if machine is not None:
            flaws += _held_back(host, machine, result.window_s)
            flaws += _packets_lost(host, machine, result.window_s)
        if why := _late(host, result):
            latencies = LATENCIES if result.received else LATENCIES[:1]
            reason = f"{SATURATED} on {host.name}: {why}"
            explains = share(late_ms=_host_late_ms(host, result, latencies))
            flaw = of_generator(reason, explains, kind=SENT_LATE, metrics=latencies)
            flaws.append(replace(flaw, whose="unknown", again=False) if load.times_out else flaw)
    return [*flaws, *_clock_flaws(result)]


def fault_host_flaws(hosts: Sequence[HostReport]) -> list[Doubt]:
    """Doubts about hosts of a round with a fault: an outage is longer by no more than a host was out of step."""
    reasons = [(reason, off_s) for host in hosts for reason, off_s in _out_of_step(host)]
    return [doubt for reason, off_s in reasons for doubt in but_outages("clocks", "machine", reason, off_s)]


def spoilt_by_clocks(hosts: Sequence[HostReport], metrics: Mapping[str, float]) -> list[Doubt]:
    """Doubts about phases of a round with a fault whose latencies the error of a host's clock makes meaningless."""
    off_by_ms = max((host.clock_off_by_ms for host in hosts), default=0.0)
    kinds = [name.removesuffix(".p50") for name in metrics if name.endswith("_ms.p50")]
    text = f"the clocks of the load hosts are known to {off_by_ms:,.2f} ms, over {CLOCK_SHARE:.0%} of the median"
    return [
        Doubt(kind="clocks", whose="machine", text=text, offset=off_by_ms, metrics=(kind,))
        for kind in kinds
        if kind.startswith(("latency_", "end_to_end_")) and off_by_ms > CLOCK_SHARE * metrics[f"{kind}.p50"]
    ]


def _out_of_step(host: HostReport) -> list[tuple[str, float]]:
    """Reasons why the host's window is not that of the others, each with the seconds of it that are concerned."""
    reasons = []
    # By a clock that has stepped since it may seem to have begun early.
    apart_ms = host.started_late_ms if host.clock_stepped_ms else abs(host.started_late_ms)
    if apart_ms + host.clock_bound_ms > START_LIMIT_MS:
        side = "after" if host.started_late_ms > 0 else "before"
        reason = (
            f"the load hosts did not start together: {host.name} began {abs(host.started_late_ms):,.1f} ms {side} the "
            f"agreed moment, give or take {host.clock_bound_ms:,.1f} ms (limit {START_LIMIT_MS:g} ms)"
        )
        reasons.append((reason, (apart_ms + host.clock_bound_ms) / 1e3))
    if host.clock_stepped_ms:
        reason = (
            f"the clock of the load host {host.name} stepped by {host.clock_stepped_ms:+,.1f} ms against that of the "
            "run, in the round"
        )
        reasons.append((reason, abs(host.clock_stepped_ms) / 1e3))
    return reasons


def _clock_flaws(result: LoadResult) -> list[Flaw]:
    if result.one_clock or not (len(result.hosts) > 1 and result.sent and result.received):
        return []
    off_by_ms = sum(sorted(host.clock_off_by_ms for host in result.hosts)[-2:])
    median_ms = latency_metrics([result.received.latency]).get("latency_ms.p50", 0.0)
    if off_by_ms <= CLOCK_SHARE * median_ms:
        return []
    reason = (
        f"the clocks of the load hosts are known to {off_by_ms:,.2f} ms, over {CLOCK_SHARE:.0%} of the "
        f"median, which is {median_ms:,.2f} ms"
    )
    return [of_generator(reason, share(late_ms={LATENCIES[1]: off_by_ms}), kind="clocks", metrics=LATENCIES[1:])]


def _at_its_limit(host: HostReport, machine: MachineUse | None, busiest_broker_cores: float | None) -> list[str]:
    reasons = []
    idle = busiest_broker_cores is not None and busiest_broker_cores < BROKERS_IDLE_CORES
    if idle and host.busiest_thread_cores >= THREAD_LIMIT_CORES:
        reasons.append(
            f"a thread used {host.busiest_thread_cores:.2f} of a core, while the busiest broker used "
            f"{busiest_broker_cores:.2f}"
        )
    if machine is None:
        return reasons
    if machine.cpu_share > CPU_LIMIT:
        reasons.append(
            f"its {machine.cores} cores were {machine.cpu_share:.0%} busy (limit {CPU_LIMIT:.0%}), of which its "
            f"generators used {host.cpu_cores:.2f} cores"
        )
    if machine.network_share is not None and machine.network_share > NETWORK_LIMIT:
        reasons.append(
            f"{machine.network} carried {machine.network_share:.0%} of its speed (limit {NETWORK_LIMIT:.0%}; "
            f"{machine.sent_mib_per_s:,.0f} MiB/s sent, {machine.received_mib_per_s:,.0f} received)"
        )
    return reasons


def held_back_by_quota(window_s: float, part: float) -> Explained:
    """The loss that a CPU quota explains that held clients back in this `part` of its periods, few in a row."""
    if part >= 1:
        return EVERYTHING
    lost_s = part * window_s
    return standing_still(window_s, lost_s, min(lost_s, IN_A_ROW * QUOTA_PERIOD_S / (1 - part)))


def _held_back(host: HostReport, machine: MachineUse, window_s: float) -> list[Flaw]:
    if machine.throttled_share is None or machine.throttled_share <= QUOTA_LIMIT:
        return []
    reason = (
        f"{SATURATED} on {host.name}: its container's CPU quota held it back in {machine.throttled_share:.0%} of the "
        f"quota's periods (limit {QUOTA_LIMIT:.0%}), while its generators used {host.cpu_cores:.2f} cores"
    )
    explains = held_back_by_quota(window_s, machine.throttled_share)
    return [of_generator(reason, explains, kind=SATURATED)]


def _packets_lost(host: HostReport, machine: MachineUse, window_s: float) -> list[Flaw]:
    """Loss in the host's network: packets found by a time-out each hold up a connection; every process has one."""
    again, sent = machine.tcp_sent_again, machine.tcp_sent + machine.tcp_sent_again
    if again < FEWEST_SENT_AGAIN or again <= SENT_AGAIN_LIMIT * sent:
        return []
    reason = (
        f"{SATURATED} on {host.name}: its network lost packets: {again:,} of {sent:,} TCP segments "
        f"({again / sent:.1%}, limit {SENT_AGAIN_LIMIT:.0%}) were sent again"
    )
    longest_s = SENT_AGAIN_AFTER_S * (2**BACKED_OFF - 1)
    under_way = math.sqrt(8 / (3 * ACKED_TOGETHER * again / sent))
    lost_s = again * min(1.0, DUPLICATES / under_way) * SENT_AGAIN_AFTER_S
    explains = standing_still(window_s, lost_s / max(1, host.processes), longest_s)
    return [of_generator(reason, explains, kind=SATURATED)]


def _host_late_ms(host: HostReport, result: LoadResult, metrics: tuple[str, ...]) -> dict[str, float]:
    """Time in ms by which each latency may be longer because this host sent its share late."""
    assert result.sent is not None
    late_ms = ECHO * (host.schedule_delay_p99_ms or 0.0)
    all_late_ms = sent_late(result.sent, metrics) if result.sent.schedule_delay else dict.fromkeys(metrics, 0.0)
    return {name: max(ms, late_ms) for name, ms in all_late_ms.items()}


def _late(host: HostReport, result: LoadResult) -> str:
    """Message about a host that sent late; empty where it kept its schedule, or its buffer was full for longer."""
    if host.schedule_delay_p99_ms is None or result.sent is None:
        return ""
    limit_ms = DELAY_FACTOR * schedule_delay_limit_ms(host.latency_histogram, result.wake_delay_p99_ms)
    full_ms = 1e3 * host.pushback_share * result.window_s
    if host.schedule_delay_p99_ms <= max(limit_ms, full_ms):
        return ""
    return (
        f"p99 of its schedule delay is {host.schedule_delay_p99_ms:,.1f} ms (limit {limit_ms:.1f} ms{woken(result)}), "
        f"{beside_push_back(full_ms)}"
    )
