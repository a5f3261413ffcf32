"""Validity of a round's load, as a whole and for its latency: pure rules.

Besides a sick target these are the only reasons for the verdict INVALID.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.model import Accounting, Load
from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, SENT_LATE, STOOD_STILL
from perfgate.model.histogram import latency_metrics, merged
from perfgate.model.load import LoadResult, Received, Sent

RATE_REACHED = 0.995
"""A load that offered this share of its rate was not limited by the generator."""
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
LATENCIES = ("latency_ms", "end_to_end_latency_ms")
"""What a late load spoils: metrics whose names begin so. Its rate is what it is."""
THREAD_LIMIT_CORES = 0.95
BROKERS_IDLE_CORES = 0.5
"""A generator thread at its limit while the busiest broker uses less than that was the bottleneck itself."""

PROCESSORS_FULL, PROCESSORS_THERE, BROKERS_PART = 0.9, 1.05, 0.5
"""Where brokers and generators share a machine: the share of its processors that they use up between them (more than
there are is of another machine's brokers, behind a tunnel), and what of that the brokers use at the least, for these to
be what limits a capped load."""
STALLED, STALLED_S = 0.05, 0.5
"""Share of the window for which generators may have stood still, but this time at the least: one pause of a busy
machine. What brokers seem slower by beyond that is the generators'."""
LATE = re.compile(
    r"\w*TIMED_OUT(_QUEUE)?|NOT_ENOUGH_REPLICAS\w*|(told: )?((Timeout|NotEnoughReplicas\w*)Exception(, )?)+"
)
"""Names of the errors that brokers which get no processor time answer with, or that come of no answer; librdkafka's and
the Java client's."""
TIMED_OUT = re.compile("_MSG_TIMED_OUT|REQUEST_TIMED_OUT")
"""Names of the errors of records that time out, at the client or at a broker that waited for its followers."""
LATE_TURNS = 0.5
"""Share of one side's turns, of those that the other side's measured one follows, whose records may still be under
way when that is measured. A burst has one or two of them a side."""

NO_TURNS = "the loads did not take turns"
NEVER_PUSHED_BACK = "although its buffer never pushed back"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One reason why a round does not count, or why its `metrics` do not (beginnings of names; empty: all of it).

    One that lies with the `generator` is worth another try. One that lies with the `brokers`, because they did not do
    what they are there for, is a result where they are the suite's own; one that is `perhaps_late` is none where the
    machine was busy with something else.
    """

    reason: str
    generator: bool = False
    brokers: bool = False
    perhaps_late: bool = False
    metrics: tuple[str, ...] = ()


def late_turns(late: int, turns: int, *, own: bool = True) -> Flaw:
    """Return the flaw of a side whose turns, its `own` or the other side's, ran into those of the other."""
    who = OUTLASTED if own else "the other side's records were still under way when this one was measured"
    return Flaw(f"{NO_TURNS}: in {late} of {turns} turns {who}", generator=True)


def accounting_of(sent: Sent | None, before: Sequence[int], after: Sequence[int]) -> Accounting:
    """Return where every record of the round went; `before` and `after` are the partitions' end offsets."""
    moved = [new - old for old, new in zip(before, after, strict=True)]
    if sent is None:
        return Accounting(attempted=0, acked=0, failed={}, unresolved=0, offset_delta=sum(moved))
    markers = sent.markers_by_partition or [0] * len(sent.acked_by_partition)
    written = [acked + more for acked, more in zip(sent.acked_by_partition, markers, strict=True)]
    return Accounting(
        attempted=sent.attempted,
        acked=sent.acked,
        failed=sent.failed,
        unresolved=sent.unresolved,
        withdrawn=sent.withdrawn,
        markers=sum(markers),
        offset_delta=sum(moved),
        partitions=tuple(zip(written, moved, strict=True)) if written else (),
    )


def schedule_delay_p99_ms(sent: Sent) -> float | None:
    """Return the 99th percentile of how late records were sent, in ms; None for a capped load."""
    if not sent.schedule_delay:
        return None
    delays = merged([sent.schedule_delay])
    return float(delays.get_value_at_percentile(99.0)) / 1e3 if delays.get_total_count() else None


def processors_used_up(result: LoadResult, brokers_cores: float | None, cores: float) -> bool:
    """Return whether brokers and generators used up the `cores` of the machine that they share, the brokers most.

    The rate is then what the brokers' need of processors leaves, as where a buffer pushes back: brokers that need more
    for each record take fewer, and those that wait for something else leave processors free.
    """
    if brokers_cores is None or result.hosts:
        return False
    used = brokers_cores + result.cpu_cores
    return PROCESSORS_FULL * cores <= used <= PROCESSORS_THERE * cores and brokers_cores >= BROKERS_PART * used


def flaws(
    load: Load,
    result: LoadResult,
    accounting: Accounting,
    busiest_broker_cores: float | None = None,
    *,
    used_up: bool = False,
    at_ease: bool = False,
) -> tuple[Flaw, ...]:
    """Return every reason why the load, or some of its metrics, are INVALID; empty when it is valid.

    `used_up`: of :func:`processors_used_up`; a capped load has then offered what it could without its buffer's help.
    `at_ease`: consumers could have the processors that they asked for, so that they waited for brokers.
    """
    found = []
    if result.sent:
        found += _accounting_flaws(load, result.sent, accounting)
        found += _generator_flaws(load, result, result.sent, used_up)
    found += _thread_flaws(result, busiest_broker_cores)
    if result.window_late_s > EDGE_SHARE * result.window_s:
        reason = (
            f"{HEARD_LATE} {result.window_late_s:.2f} of {result.window_s:.2f} s after it had "
            "opened, and counted nothing until then"
        )
        found.append(Flaw(reason, generator=True))
    if reason := throttled(result):
        found.append(Flaw(reason))
    if result.received:
        at_ease = at_ease and result.busiest_thread_cores < THREAD_LIMIT_CORES and all(flaw.brokers for flaw in found)
        found += _reading_flaws(result.received, result.sent, at_ease=at_ease)
    return tuple(found)


def throttled(result: LoadResult) -> str:
    """Return that a quota held the load back; empty when none did."""
    held_back = sum(side.throttled_ms for side in (result.sent, result.received) if side)
    if not held_back:
        return ""
    return (
        f"the brokers throttled this client (a quota held answers back for {held_back:,} ms in all): the numbers would "
        "be the quota's; lift it for this client (kafka-configs --entity-type users or clients), or lower the rate"
    )


def not_sustained(load: Load, result: LoadResult) -> str:
    """Return how much of a paced load the brokers did not take although it was offered; empty when they took it."""
    sent = result.sent
    if load.kind != "paced" or load.times_out or sent is None:
        return ""
    if sent.unsent and sent.pushback_s:
        return f"not sustained: {sent.unsent:,} records of the schedule could not be handed over before the wait ended"
    offered = load.rate * result.window_s
    if not sent.pushback_s:
        offered = min(offered, sent.attempted_in_window)  # what came after the window was not the brokers' to take
    missing = offered - sent.acked_in_window
    if missing <= max((1 - RATE_REACHED) * result.window_s, EDGE_S) * load.rate or missing <= 1:
        return ""
    if not sent.pushback_s and _offered_too_little(load, result, sent):
        return ""  # the generator's own doing
    return (
        f"not sustained: the brokers took {sent.acked_in_window / result.window_s:,.0f} of {load.rate:,.0f} records/s"
    )


def _accounting_flaws(load: Load, sent: Sent, accounting: Accounting) -> list[Flaw]:
    failed = {code: n for code, n in accounting.failed.items() if not (load.times_out and TIMED_OUT.fullmatch(code))}
    timed_out = accounting.failed_total - sum(failed.values())
    found = []
    told = accounting.acked + accounting.failed_total + accounting.unresolved + accounting.withdrawn
    if accounting.attempted != told:
        found.append(
            Flaw(
                f"records unaccounted: attempted {accounting.attempted:,}, but acked {accounting.acked:,} + failed "
                f"{accounting.failed_total:,} + unresolved {accounting.unresolved:,} + withdrawn "
                f"{accounting.withdrawn:,} = {told:,}"
            )
        )
    if failed:
        codes = ", ".join(f"{n:,} x {code} ({sent.errors.get(code, '')})" for code, n in failed.items())
        reason = f"{sum(failed.values()):,} of {accounting.attempted:,} sends failed: {codes}"
        found.append(Flaw(reason, brokers=True, perhaps_late=all(map(LATE.fullmatch, failed))))
    if accounting.unresolved:
        reason = f"{accounting.unresolved:,} of {accounting.attempted:,} records had no outcome when the wait ended"
        found.append(Flaw(reason, brokers=True, perhaps_late=True))
    # What timed out may have been on its way: any number of those records may be in the log.
    astray = [(n, w, moved) for n, (w, moved) in enumerate(accounting.partitions) if not 0 <= moved - w <= timed_out]
    written = accounting.acked + accounting.markers
    if not 0 <= accounting.offset_delta - written <= timed_out or astray:
        where = "".join(f"; partition {n}: {here:,} and {moved:,}" for n, here, moved in astray)
        markers = f" and {accounting.markers:,} markers written" if accounting.markers else ""
        reason = (
            f"records unaccounted: {accounting.acked:,} acknowledged{markers}, but the partitions' end offsets moved "
            f"by {accounting.offset_delta:,} ({accounting.offset_delta - written:+,}){where}"
            + (f"; {accounting.withdrawn:,} were withdrawn" if accounting.withdrawn else "")
            + (f"; {timed_out:,} timed out" if timed_out else "")
        )
        # More in the log than was acknowledged may come from anybody; acknowledged and not there only from brokers.
        short = accounting.offset_delta < written or any(moved < here for _, here, moved in astray)
        # A send that failed, or whose end nobody saw, may be in the log all the same: that is part of being late.
        of_late = not short and all(flaw.perhaps_late for flaw in found) and bool(found)
        found.append(Flaw(reason, brokers=short or of_late, perhaps_late=of_late))
    if not sent.acked_in_window:
        # Brokers that stand still for a part of it are judged; those that do for all of it did no better.
        stalled = sent.attempted_in_window > 0
        found.append(Flaw("no record was acknowledged in the window", brokers=stalled, perhaps_late=stalled))
    return found


def _reading_flaws(received: Received, sent: Sent | None, *, at_ease: bool) -> list[Flaw]:
    found = []
    wrong = {
        "foreign records": received.foreign,
        "records whose content is not what was sent": received.corrupt,
        "records twice in the log": received.duplicated,
        "records out of order": received.reordered,
        "records less than the log holds": received.missed,
        "fetches that failed": sum(received.failed.values()),
    }
    counts = ", ".join(f"{count:,} {what}" for what, count in wrong.items() if count)
    if counts:
        words = "; ".join(received.errors.values())
        reason = f"the consumers were given {counts}, of {received.read:,}" + (f" ({words})" if words else "")
        found.append(Flaw(reason, brokers=bool(received.corrupt)))
    # They were waited for after the last acknowledgement (CATCH_UP_S): what they still lack brokers did not give them.
    late = at_ease and not counts and sent is not None and sent.acked > 0
    uncommitted = sent is not None and any(sent.markers_by_partition)  # may be for all of a window
    groups = received.by_group or [(received.received, received.received_in_window)]
    for number, (taken, in_window) in enumerate(groups, 1):
        whose = f" by group {number} of {len(groups)}" if len(groups) > 1 else ""
        if sent is not None and taken != sent.acked:
            reason = f"{sent.acked:,} acknowledged, {taken:,} received{whose} ({taken - sent.acked:+,})"
            short = late and taken < sent.acked
            found.append(Flaw(f"records unaccounted: {reason}", brokers=short, perhaps_late=short))
        if not in_window:
            none = late and not uncommitted
            found.append(Flaw(f"no record was received in the window{whose}", brokers=none, perhaps_late=none))
    return found


def _generator_flaws(load: Load, result: LoadResult, sent: Sent, used_up: bool) -> list[Flaw]:
    if sent.stalled_in_window_s > max(STALLED * result.window_s, STALLED_S):
        reason = (
            f"{STOOD_STILL} for {sent.stalled_in_window_s:.2f} of the window's {result.window_s:.2f} s: "
            "stopped, or starved of a processor"
        )
        return [Flaw(reason, generator=True)]
    offered = sent.attempted_in_window / result.window_s
    short = _offered_too_little(load, result, sent)
    if load.kind == "capped":
        short = short and not used_up and sent.pushback_in_window_s < PUSHED_BACK * result.window_s
        reason = (
            f"{SATURATED}: it offered {offered:,.0f} records/s of the cap of {load.rate:,.0f}, although its "
            "buffer did not push back; the brokers could have taken more"
        )
        return [Flaw(reason, generator=True)] if short else []
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
    if delay is None or (not sent.pushback_s and (short or sent.unsent)):
        late += f", {offered:,.0f} records/s offered"
        late += f", {sent.unsent:,} records unsent" if sent.unsent else ""
        reason = f"{SATURATED}: {late} at {load.rate:,.0f} records/s, {NEVER_PUSHED_BACK}"
        return [Flaw(reason, generator=True)]
    if delay <= limit:
        return []
    spoilt = LATENCIES if result.received else LATENCIES[:1]
    reason = f"{SENT_LATE}: {late}, {beside_push_back(1e3 * sent.pushback_in_window_s)}"
    # No other try for latencies of which nothing is held.
    return [Flaw(reason, generator=not load.times_out, metrics=spoilt)]


def beside_push_back(pushed_ms: float) -> str:
    """Return what a buffer has to do with records that were sent late; `pushed_ms`: how long it was full."""
    return f"without the {pushed_ms:,.1f} ms for which its buffer was full" if pushed_ms else NEVER_PUSHED_BACK


def woken(result: LoadResult) -> str:
    delay = result.wake_delay_p99_ms
    return "" if delay is None else f"; this machine woke other threads {delay:.1f} ms late"


def _offered_too_little(load: Load, result: LoadResult, sent: Sent) -> bool:
    # What may fall behind the window's end; on a machine that wakes threads late that is more.
    machine_s = min(WAKE_FACTOR * (result.wake_delay_p99_ms or 0.0) / 1e3, EDGE_S, EDGE_SHARE * result.window_s)
    late = load.rate * max(SCHEDULE_DELAY_LIMIT_MS / 1e3, machine_s) + 1
    free_s = result.window_s - sent.committing_in_window_s
    return sent.attempted_in_window < RATE_REACHED * load.rate * free_s - late


def schedule_delay_limit_ms(latency_histogram: str, wake_delay_ms: float | None = None) -> float:
    """Return how late a paced load may be sent (p99) where the machine wakes threads so late (p99), in ms."""
    latency = latency_metrics([latency_histogram]).get("latency_ms.p99", 0.0)
    machine = min(WAKE_FACTOR * (wake_delay_ms or 0.0), WAKE_SHARE * latency)
    return min(SCHEDULE_DELAY_LIMIT_MS, max(SCHEDULE_DELAY_FLOOR_MS, SCHEDULE_DELAY_SHARE * latency, machine))


def _thread_flaws(result: LoadResult, busiest_broker_cores: float | None) -> list[Flaw]:
    if result.hosts or busiest_broker_cores is None or busiest_broker_cores >= BROKERS_IDLE_CORES:
        return []  # of load hosts each is looked at
    if result.busiest_thread_cores < THREAD_LIMIT_CORES:
        return []
    reason = (
        f"{SATURATED}: one of its threads used {result.busiest_thread_cores:.2f} of a core, while the busiest "
        f"broker used {busiest_broker_cores:.2f}; spread the load over more producers or threads"
    )
    return [Flaw(reason, generator=True)]
