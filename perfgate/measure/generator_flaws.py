"""Flaws of a round that lie with the load generator: stalls, late sends, and loads that were offered in part. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfgate.measure.flaw import LATENCIES, Explained, of_generator, sent_late, share, standing_still
from perfgate.model import Load
from perfgate.model.compared import SATURATED, SENT_LATE, STOOD_STILL
from perfgate.model.flaw import EVERYTHING, Flaw
from perfgate.model.histogram import latency_metrics, merged
from perfgate.model.load import LoadResult, Sent

RATE_REACHED = 0.995
"""A load that offered this share of its rate was not limited by the generator."""
CLEARLY_LESS = 0.7
"""Brokers that took less than this share of what was offered would not have taken all of it either. What generators
that are starved send last, in bursts, is under way when the window closes: an eighth of it at the most (3 s)."""
PUSHED_BACK = 0.01
"""Share of the window for which a capped load's buffer must push back to show that the brokers were the limit."""
EDGE_S = 0.1
"""So many seconds' acknowledgements may lie beyond the window's edge without meaning that the rate was too high."""
EDGE_SHARE = 0.02
"""A machine that wakes threads late may cost a rate this share of its window at the most."""
SCHEDULE_DELAY_LIMIT_MS = 10.0
SCHEDULE_DELAY_FLOOR_MS = 1.0
SCHEDULE_DELAY_SHARE = 0.05
WAKE_FACTOR, WAKE_SHARE = 2.0, 0.25
"""The latency of a load that was sent later than SCHEDULE_DELAY_SHARE of it (p99 of both) is not that of the brokers.
Below the floor it always is. The floor follows the machine: it is twice the delay (p99) with which the machine woke
another thread in the same window, because the brokers occupy the processors under this load, but a quarter of the
latency at most: one that consists of waiting for a processor says nothing of brokers. Above the limit none is valid."""
THREAD_LIMIT_CORES = 0.95
BROKERS_IDLE_CORES = 0.5
"""A generator thread at its limit while the busiest broker uses less than that was the bottleneck itself."""
STALLED, STALLED_S = 0.05, 0.5
"""Share of the window for which generators may have stood still, but this time at the least: one pause of a busy
machine. What brokers seem slower by beyond that is the generators'."""
NEVER_PUSHED_BACK = "although its buffer never pushed back"


def schedule_delay_p99_ms(sent: Sent) -> float | None:
    """Return the 99th percentile of how late records were sent, in ms; None for a capped load."""
    if not sent.schedule_delay:
        return None
    delays = merged([sent.schedule_delay])
    return float(delays.get_value_at_percentile(99.0)) / 1e3 if delays.get_total_count() else None


def generator_flaws(load: Load, result: LoadResult, sent: Sent, *, used_up: bool, room: float | None) -> list[Flaw]:
    """Return what was wrong with the sending of a load; see :func:`perfgate.measure.validity.flaws`."""
    stalled = sent.stalled_in_window_s > max(STALLED * result.window_s, STALLED_S)
    found = [_stood_still(result, sent)] if stalled else []
    if load.kind == "capped":
        # While its loop stands still, a full buffer seems to push back.
        pushed_back_s = sent.pushback_in_window_s - (sent.stalled_in_window_s if stalled else 0.0)
        if offered_too_little(load, result, sent) and not used_up and pushed_back_s < PUSHED_BACK * result.window_s:
            found.append(_saturated_capped(load, result, sent, room))
        return found
    return [*found, *_paced_flaws(load, result, sent)]


def _stood_still(result: LoadResult, sent: Sent) -> Flaw:
    reason = (
        f"{STOOD_STILL} for {sent.stalled_in_window_s:.2f} of the window's {result.window_s:.2f} s: "
        "stopped, or starved of a processor"
    )
    # That is the average client's time. The first record after the longest pause was sent as late as that lasted.
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
    spoilt = LATENCIES if result.received else LATENCIES[:1]
    if delay is None or (not sent.pushback_s and (offered_too_little(load, result, sent) or sent.unsent)):
        late += f", {sent.attempted_in_window / result.window_s:,.0f} records/s offered"
        late += f", {sent.unsent:,} records unsent" if sent.unsent else ""
        reason = f"{SATURATED}: {late} at {load.rate:,.0f} records/s, {NEVER_PUSHED_BACK}"
        if delay is None:
            return [of_generator(reason, kind=SATURATED)]
        due, refused = load.rate * result.window_s, took_clearly_less(load, result, sent)
        # What the brokers took clearly less of than was offered they would not have taken in full: a result.
        made = sent.attempted_in_window if refused else min(sent.attempted_in_window, sent.acked_in_window)
        explains = share(max(1.0, due / made), sent_late(sent, spoilt)) if made else EVERYTHING
        flaw = of_generator(reason, explains, kind=SATURATED, metrics=spoilt if refused else ())
        return [replace(flaw, whose="unknown", again=False) if refused else flaw]
    if delay <= limit:
        return []
    reason = f"{SENT_LATE}: {late}, {beside_push_back(1e3 * sent.pushback_in_window_s)}"
    # No other try for latencies of which nothing is held.
    flaw = of_generator(reason, share(late_ms=sent_late(sent, spoilt)), kind=SENT_LATE, metrics=spoilt)
    return [replace(flaw, whose="unknown", again=False) if load.times_out else flaw]


def beside_push_back(pushed_ms: float) -> str:
    """Return what a buffer has to do with records that were sent late; `pushed_ms`: how long it was full."""
    return f"without the {pushed_ms:,.1f} ms for which its buffer was full" if pushed_ms else NEVER_PUSHED_BACK


def woken(result: LoadResult) -> str:
    delay = result.wake_delay_p99_ms
    return "" if delay is None else f"; this machine woke other threads {delay:.1f} ms late"


def offered_too_little(load: Load, result: LoadResult, sent: Sent) -> bool:
    """Return whether clearly less was offered than the load's rate asks for."""
    # What may fall behind the window's end; on a machine that wakes threads late that is more.
    machine_s = min(WAKE_FACTOR * (result.wake_delay_p99_ms or 0.0) / 1e3, EDGE_S, EDGE_SHARE * result.window_s)
    late = load.rate * max(SCHEDULE_DELAY_LIMIT_MS / 1e3, machine_s) + 1
    free_s = result.window_s - sent.committing_in_window_s
    return sent.attempted_in_window < RATE_REACHED * load.rate * free_s - late


def took_clearly_less(load: Load, result: LoadResult, sent: Sent) -> bool:
    """Return whether the brokers took clearly less than what was offered of a paced load, little as that may be."""
    missing = sent.attempted_in_window - sent.acked_in_window
    edge = load.rate * max(EDGE_S, sent.stalled_in_window_s, result.window_late_s)
    return missing > edge and sent.acked_in_window < CLEARLY_LESS * sent.attempted_in_window


def schedule_delay_limit_ms(latency_histogram: str, wake_delay_ms: float | None = None) -> float:
    """Return how late a paced load may be sent (p99) where the machine wakes threads so late (p99), in ms."""
    latency = latency_metrics([latency_histogram]).get("latency_ms.p99", 0.0)
    machine = min(WAKE_FACTOR * (wake_delay_ms or 0.0), WAKE_SHARE * latency)
    return min(SCHEDULE_DELAY_LIMIT_MS, max(SCHEDULE_DELAY_FLOOR_MS, SCHEDULE_DELAY_SHARE * latency, machine))


def thread_flaws(result: LoadResult, busiest_broker_cores: float | None) -> list[Flaw]:
    """Return that a thread of the generators was at its limit while the brokers were idle; of load hosts each is looked
    at for itself.
    """
    if result.hosts or busiest_broker_cores is None or busiest_broker_cores >= BROKERS_IDLE_CORES:
        return []
    if result.busiest_thread_cores < THREAD_LIMIT_CORES:
        return []
    reason = (
        f"{SATURATED}: one of its threads used {result.busiest_thread_cores:.2f} of a core, while the busiest "
        f"broker used {busiest_broker_cores:.2f}; spread the load over more producers or threads"
    )
    return [of_generator(reason, kind=SATURATED)]
