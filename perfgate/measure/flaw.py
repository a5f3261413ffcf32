"""Flaws of a round, each with what it explains of a loss, and those of the load generator. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from perfgate.model import LATENCY_QUANTILES, Load
from perfgate.model.compared import SATURATED, SENT_LATE, STOOD_STILL
from perfgate.model.flaw import EVERYTHING, NOTHING, Flaw, Part
from perfgate.model.histogram import latency_metrics, merged
from perfgate.model.load import LoadResult, Sent

LATENCIES = ("latency_ms", "end_to_end_latency_ms")
"""Beginnings of the metrics that a late load makes flawed; its rate is not."""
COUNTED = (
    "records_per_s",
    "mib_per_s",
    "received_records_per_s",
    "received_mib_per_s",
    "broker_cpu_us_per_record",
    "broker_network_in_bytes_per_record",
    "client_cpu_us_per_record",
)
"""Metrics that are worse by the share of the load that was not made, or not counted: rates, and costs of a record."""
NO_DELAY: Mapping[str, float] = MappingProxyType({})
ECHO = 2.0
"""Records that are sent late come together: brokers that take twice the rate work them off within that delay once more,
so that latencies are longer by twice the delay."""


Explained = tuple[Part, ...]


def share(factor: float = 1.0, late_ms: Mapping[str, float] = NO_DELAY) -> Explained:
    """Parts of a loss that a flaw explains: a factor of COUNTED, and ms of latencies by the start of their names."""
    parts = [*NOTHING]
    if factor > 1:
        # A share of the records that timed out says nothing of the others.
        parts += [Part(factor=factor, metrics=COUNTED), Part(factor=None, metrics=("timed_out_share",))]
    parts += [Part(offset=ms, metrics=(name,)) for name, ms in late_ms.items() if ms > 0]
    return tuple(parts)


def of_generator(text: str, explains: Explained = EVERYTHING, *, kind: str, metrics: tuple[str, ...] = ()) -> Flaw:
    """A flaw that lies with the generator, so that the round is worth another try."""
    return Flaw(text, kind=kind, whose="load", again=True, metrics=metrics, explains=explains)


def of_brokers(text: str, *, theirs: bool = True, late: bool = False, lost: bool = False, kind: str = "flaw") -> Flaw:
    """A flaw that lies with the brokers, and so explains nothing of their loss, unless it may not be `theirs`. `lost`:
    what they had promised to keep, a result wherever they run."""
    if not theirs:
        return Flaw(text, kind=kind)
    return Flaw(text, kind=kind, whose="brokers", late=late, broken=lost, explains=NOTHING)


def of_parts(flaw: Flaw, latencies: Sequence[str], wholly: tuple[str, ...] = (), *, by: str = "p999") -> Flaw:
    """The flaw, where it concerns latencies, extended to these `latencies` of a part of the records.

    The p99 of a part with a tenth of the records or more is delayed by no more than the p99.9 of all, of any other by
    the longest: `by` which. `wholly`: metrics that it explains all of then.
    """
    metrics = (*flaw.metrics, *latencies, *wholly) if "latency_ms" in flaw.metrics else flaw.metrics
    offsets = {name: part.offset for part in flaw.explains for name in part.metrics}
    parts = [
        replace(
            part,
            offset=offsets.get(f"latency_ms.{by}", part.offset) if name == "latency_ms.p99" else part.offset,
            metrics=tuple(name.replace("latency_ms", latency, 1) for latency in latencies),
        )
        for part in flaw.explains
        for name in part.metrics
        if name.partition(".")[0] == "latency_ms"
    ]
    rest = [Part(factor=None, metrics=wholly)] if parts and wholly else []
    return replace(flaw, metrics=metrics, explains=(*flaw.explains, *parts, *rest))


def lost_of(window_s: float, lost_s: float) -> float:
    """The factor by which a rate is lower that was made, or counted, for all of a window but `lost_s`."""
    return window_s / (window_s - lost_s) if lost_s < window_s else math.inf


def standing_still(window_s: float, lost_s: float, longest_s: float) -> Explained:
    """The loss that a load explains that lacked `lost_s` of its window, in pauses of `longest_s` at most."""
    if not lost_s < window_s:
        return EVERYTHING
    return share(lost_of(window_s, lost_s), dict.fromkeys((*LATENCIES, "fetch_latency_ms"), 1e3 * ECHO * longest_s))


def sent_late(sent: Sent, metrics: tuple[str, ...] = LATENCIES) -> dict[str, float]:
    """Time in ms by which each latency may be longer because its records were sent late: a percentile of a sum is at
    most the sum of both parts' percentiles halfway to 100 from there."""
    delays = merged([sent.schedule_delay])
    late_us = {name: delays.get_value_at_percentile((100 + q) / 2) for name, q in LATENCY_QUANTILES.items()}
    late_us |= {"max": delays.get_max_value(), "avg": delays.get_mean_value()}
    return {f"{metric}.{name}": ECHO * us / 1e3 for metric in metrics for name, us in late_us.items()}


RATE_REACHED = 0.995
"""A load that offered this share of its rate was not limited by the generator."""
CLEARLY_LESS = 0.7
"""Brokers that took a smaller share of what was offered would not have taken all of it either. What starved generators
send last is under way when the window closes: at most an eighth of it (3 s)."""
PUSHED_BACK = 0.01
"""Least share of the window in which a capped load's buffer pushes back where the brokers were the limit."""
EDGE_S = 0.1
"""This many seconds' acknowledgements may lie beyond the window's edge although the rate was not too high."""
EDGE_SHARE = 0.02
"""A machine that wakes threads late may cost a rate at most this share of its window."""
SCHEDULE_DELAY_LIMIT_MS = 10.0
SCHEDULE_DELAY_FLOOR_MS = 1.0
SCHEDULE_DELAY_SHARE = 0.05
WAKE_FACTOR, WAKE_SHARE = 2.0, 0.25
"""The latency of a load that was sent later than SCHEDULE_DELAY_SHARE of it (p99 of both) is not the brokers'. Below
the floor it always is: twice the delay (p99) with which this machine woke another thread meanwhile, but at most a
quarter of the latency, which would consist of waiting for a processor. Above the limit none is valid."""
PROCESSORS_FULL = 0.9
"""Share of a machine's processors that is all of them."""
THREAD_LIMIT_CORES = 0.95
BROKERS_IDLE_CORES = 0.5
"""A generator thread at its limit while the busiest broker uses less than that was the bottleneck itself."""
STALLED, STALLED_S = 0.05, 0.5
"""Share of the window for which generators may have stood still, but at least one pause of a busy machine."""
NEVER_PUSHED_BACK = "although its buffer never pushed back"


def schedule_delay_p99_ms(sent: Sent) -> float | None:
    """The 99th percentile of how late records were sent, in ms; None for a capped load."""
    if not sent.schedule_delay:
        return None
    delays = merged([sent.schedule_delay])
    return float(delays.get_value_at_percentile(99.0)) / 1e3 if delays.get_total_count() else None


def processors_used_up(room: float | None) -> bool:
    """Whether brokers and generators used up the machine that they share (`room`: of `validity.processors_left`). A
    capped rate is then the brokers': those that need more for a record take fewer."""
    return room is not None and room <= 1 / PROCESSORS_FULL


def generator_flaws(load: Load, result: LoadResult, sent: Sent, room: float | None) -> list[Flaw]:
    """Flaws in the sending of a load; see :func:`perfgate.measure.validity.flaws`."""
    stalled = sent.stalled_in_window_s > max(STALLED * result.window_s, STALLED_S)
    flaws = [_stood_still(result, sent)] if stalled else []
    if load.capped:
        # While its loop stands still, a full buffer seems to push back.
        pushed_back_s = sent.pushback_in_window_s - (sent.stalled_in_window_s if stalled else 0.0)
        limited = pushed_back_s >= PUSHED_BACK * result.window_s or processors_used_up(room)
        if offered_too_little(load, result, sent) and not limited:
            flaws.append(_saturated_capped(load, result, sent, room))
        return flaws
    return [*flaws, *_paced_flaws(load, result, sent)]


def _stood_still(result: LoadResult, sent: Sent) -> Flaw:
    reason = (
        f"{STOOD_STILL} for {sent.stalled_in_window_s:.2f} of the window's {result.window_s:.2f} s: "
        "stopped, or starved of a processor"
    )
    # The average client's time. The first record after the longest pause was sent as late as that lasted.
    delays = merged([sent.schedule_delay])
    # Without a schedule it is not known; clients that are starved of a processor stand still together.
    longest_s = delays.get_max_value() / 1e6 if delays.get_total_count() else sent.stalled_in_window_s
    longest_s = min(result.window_s, longest_s)
    explains = standing_still(result.window_s, sent.stalled_in_window_s, longest_s)
    return of_generator(reason, explains, kind=STOOD_STILL)


def _saturated_capped(load: Load, result: LoadResult, sent: Sent, room: float | None) -> Flaw:
    reason = (
        f"{SATURATED}: it offered {sent.attempted_in_window / result.window_s:,.0f} records/s of the cap of "
        f"{load.rate:,.0f}, although its buffer did not push back; the brokers could have taken more"
    )
    explains: Explained = EVERYTHING
    if room is not None:
        reason += f", {room:.2f} times as much with all processors"
        explains = share(room, dict.fromkeys(LATENCIES, 1e3 * result.window_s))
    return of_generator(reason, explains, kind=SATURATED)


def _paced_flaws(load: Load, result: LoadResult, sent: Sent) -> list[Flaw]:
    if sent.pushback_s > 0 and load.times_out:
        reason = (
            f"the client's buffer was full for {sent.pushback_s:.1f} s, and records that it refused cannot time out: "
            "raise queue.buffering.max.kbytes and queue.buffering.max.messages"
        )
        return [Flaw(reason)]
    delay, limit = schedule_delay_p99_ms(sent), schedule_delay_limit_ms(sent.latency, result.wake_delay_p99_ms)
    if sent.pushback_s > 0 and (delay is None or delay <= 1e3 * sent.pushback_in_window_s):
        return []  # a shorter push-back may be of the burst with which the generator caught up
    late = "no record was sent in the window" if delay is None else f"p99 of the schedule delay is {delay:,.1f} ms"
    late += f" (limit {limit:.1f} ms{woken(result)})"
    latencies = LATENCIES if result.received else LATENCIES[:1]
    # A buffer that was full before the window, or after it, says nothing of what was offered in it.
    too_little = not sent.pushback_in_window_s and offered_too_little(load, result, sent)
    if delay is None or too_little or (sent.unsent and not sent.pushback_s):
        late += f", {sent.attempted_in_window / result.window_s:,.0f} records/s offered"
        late += f", {sent.unsent:,} records unsent" if sent.unsent else ""
        reason = f"{SATURATED}: {late} at {load.rate:,.0f} records/s, {NEVER_PUSHED_BACK}"
        if delay is None:
            return [of_generator(reason, kind=SATURATED)]
        due, refused = load.rate * result.window_s, took_clearly_less(load, result, sent)
        # Brokers that took clearly less than was offered would not have taken all of it either: a result.
        counted = sent.attempted_in_window if refused else min(sent.attempted_in_window, sent.acked_in_window)
        explains = share(max(1.0, due / counted), sent_late(sent, latencies)) if counted else EVERYTHING
        flaw = of_generator(reason, explains, kind=SATURATED, metrics=latencies if refused else ())
        return [replace(flaw, whose="unknown", again=False) if refused else flaw]
    if delay <= limit:
        return []
    reason = f"{SENT_LATE}: {late}, {beside_push_back(1e3 * sent.pushback_in_window_s)}"
    # No other try for latencies that are not judged.
    flaw = of_generator(reason, share(late_ms=sent_late(sent, latencies)), kind=SENT_LATE, metrics=latencies)
    return [replace(flaw, whose="unknown", again=False) if load.times_out else flaw]


def beside_push_back(pushed_ms: float) -> str:
    """Text about the buffer's part in records that were sent late; `pushed_ms`: time for which it was full."""
    return f"without the {pushed_ms:,.1f} ms for which its buffer was full" if pushed_ms else NEVER_PUSHED_BACK


def woken(result: LoadResult) -> str:
    delay = result.wake_delay_p99_ms
    return "" if delay is None else f"; this machine woke other threads {delay:.1f} ms late"


def offered_too_little(load: Load, result: LoadResult, sent: Sent) -> bool:
    """Whether clearly less was offered than the load's rate asks for."""
    # What may fall behind the window's end; on a machine that wakes threads late that is more.
    machine_s = min(WAKE_FACTOR * (result.wake_delay_p99_ms or 0.0) / 1e3, EDGE_S, EDGE_SHARE * result.window_s)
    late = load.rate * max(SCHEDULE_DELAY_LIMIT_MS / 1e3, machine_s) + 1
    free_s = result.window_s - sent.committing_in_window_s
    return sent.attempted_in_window < RATE_REACHED * load.rate * free_s - late


def took_clearly_less(load: Load, result: LoadResult, sent: Sent) -> bool:
    """Whether the brokers took clearly less than what was offered of a paced load, little as that may be."""
    missing = sent.attempted_in_window - sent.acked_in_window
    edge = load.rate * max(EDGE_S, sent.stalled_in_window_s, result.window_late_s)
    return missing > edge and sent.acked_in_window < CLEARLY_LESS * sent.attempted_in_window


def schedule_delay_limit_ms(latency_histogram: str, wake_delay_ms: float | None = None) -> float:
    """Limit on the p99 of a paced load's schedule delay, in ms; `wake_delay_ms`: p99 with which threads are woken."""
    latency = latency_metrics([latency_histogram]).get("latency_ms.p99", 0.0)
    machine = min(WAKE_FACTOR * (wake_delay_ms or 0.0), WAKE_SHARE * latency)
    return min(SCHEDULE_DELAY_LIMIT_MS, max(SCHEDULE_DELAY_FLOOR_MS, SCHEDULE_DELAY_SHARE * latency, machine))


def thread_flaws(result: LoadResult, busiest_broker_cores: float | None) -> list[Flaw]:
    """The flaw of a generator thread at its limit while the brokers were idle; load hosts are checked on their own."""
    if result.hosts or busiest_broker_cores is None or busiest_broker_cores >= BROKERS_IDLE_CORES:
        return []
    if result.busiest_thread_cores < THREAD_LIMIT_CORES:
        return []
    reason = (
        f"{SATURATED}: one of its threads used {result.busiest_thread_cores:.2f} of a core, while the busiest "
        f"broker used {busiest_broker_cores:.2f}; spread the load over more producers or threads"
    )
    return [of_generator(reason, kind=SATURATED)]
