"""Validity of a round: what was wrong with its load, its accounting, its load hosts and its brokers.

Besides a target that is not healthy these are the only reasons for the verdict INVALID.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.measure.canary import usable_cores
from perfgate.measure.flaw import (
    EDGE_S,
    EDGE_SHARE,
    LATENCIES,
    PROCESSORS_FULL,
    RATE_REACHED,
    THREAD_LIMIT_CORES,
    generator_flaws,
    of_brokers,
    of_generator,
    offered_too_little,
    share,
    standing_still,
    thread_flaws,
    took_clearly_less,
)
from perfgate.measure.host_validity import QUOTA_LIMIT, held_back_by_quota, host_flaws
from perfgate.measure.round_topics import unwritten
from perfgate.metrics.health import unhealthy
from perfgate.metrics.samplers import HELD_BACK
from perfgate.model import Accounting, Load, Scenario
from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, WAITED
from perfgate.model.delivery import LATE, TIMED_OUT, is_idempotent, is_promised
from perfgate.model.flaw import EVERYTHING, NOTHING, Flaw
from perfgate.model.load import LoadResult, Received, Sent

PROCESSORS_THERE, BROKERS_PART = 1.05, 0.5
"""Where brokers and generators share a machine: the most of its processors that they can have used between them (more
is of another machine's brokers, behind a tunnel), and the brokers' least part of it where they limit a capped load."""
OF_THE_CLIENT = "_MAX_POLL_EXCEEDED"
"""The error of a consumer that did not poll in time."""
LATE_TURNS = 0.5
"""Share of one side's turns before a measured turn of the other whose records may still be under way in that. A burst
has one or two of them a side."""
FULL_FOR = 0.5
"""Share of a window for which buffers were full of clients whose brokers acknowledged nothing."""
SHARED = 2.0
"""Of two loads at a time each has half of the brokers."""
NO_TURNS = "the loads did not take turns"


def late_turns(late: int, turns: int, *, own: bool = True, turn_s: float = 0.0) -> Flaw:
    """The flaw of a side whose turns, its `own` or the other's, ran into those of the other. Its own records explain no
    loss; the other's took at most half of the brokers, and its records may have waited for a turn (`turn_s`)."""
    who = OUTLASTED if own else WAITED
    waited_ms = dict.fromkeys((*LATENCIES, "fetch_latency_ms"), 1e3 * turn_s)
    explains, kind = (NOTHING, OUTLASTED) if own else (share(SHARED, waited_ms), WAITED)
    return of_generator(f"{NO_TURNS}: in {late} of {turns} turns {who}", explains, kind=kind)


def accounting_of(sent: Sent | None, before: Sequence[int], after: Sequence[int]) -> Accounting:
    """Accounting of the round's records; `before` and `after` are the partitions' end offsets."""
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


def processors_left(
    result: LoadResult, brokers_cores: float | None, cores: float, others_cores: float = 0.0
) -> float | None:
    """Ratio of the machine's `cores` to those in use: with all of them a load comes to this many times as much. None:
    not known, or the generators used more than the brokers."""
    if brokers_cores is None or result.hosts:
        return None
    used = brokers_cores + result.cpu_cores + others_cores
    if not 0 < used <= PROCESSORS_THERE * cores or brokers_cores < BROKERS_PART * used:
        return None
    return max(1.0, cores / used)


def flaws(
    load: Load,
    result: LoadResult,
    accounting: Accounting,
    busiest_broker_cores: float | None = None,
    *,
    room: float | None = None,
    at_ease: bool = False,
    idempotent: bool = False,
    promised: bool = False,
    clients: int = 1,
) -> tuple[Flaw, ...]:
    """Every reason why the load, or some of its metrics, are INVALID; empty when it is valid. See :func:`round_flaws`.
    `at_ease`: consumers had the processors that they asked for, and waited for brokers."""
    flaws = []
    if result.sent:
        flaws += _accounting_flaws(
            load, result.sent, accounting, window_s=result.window_s, idempotent=idempotent, promised=promised
        )
        flaws += generator_flaws(load, result, result.sent, room)
    flaws += thread_flaws(result, busiest_broker_cores)
    if result.window_late_s > EDGE_SHARE * result.window_s:
        reason = (
            f"{HEARD_LATE} {result.window_late_s:.2f} of {result.window_s:.2f} s after it had "
            "opened, and counted nothing until then"
        )
        explains = standing_still(result.window_s, result.window_late_s, result.window_late_s)
        flaws.append(of_generator(reason, explains, kind=HEARD_LATE))
    if reason := throttled(result):
        held_back_s = _held_back_ms(result) / 1e3
        explains = standing_still(result.window_s, held_back_s / clients, held_back_s)
        flaws.append(Flaw(reason, explains=explains, kind="quota"))
    if result.received:
        at_work = result.busiest_thread_cores < THREAD_LIMIT_CORES
        sound = at_work and all(flaw.whose == "brokers" for flaw in flaws)
        # What else is wrong explains its part of this, too.
        in_part = at_work and not any(flaw.explains_all for flaw in flaws)
        flaws += _reading_flaws(
            result,
            result.received,
            timed_out=_timed_out(load, accounting),
            sound=sound,
            at_ease=sound and at_ease,
            room=(room or 1.0) if in_part else None,
            idempotent=idempotent,
        )
    return tuple(flaws)


def throttled(result: LoadResult) -> str:
    """Message about a quota that held the load back; empty when none did."""
    held_back = _held_back_ms(result)
    if not held_back:
        return ""
    return (
        f"the brokers throttled this client (a quota held answers back for {held_back:,} ms in all): the numbers would "
        "be the quota's; lift it for this client (kafka-configs --entity-type users or clients), or lower the rate"
    )


def _held_back_ms(result: LoadResult) -> int:
    """Time in ms for which a quota held answers back, over all requests and clients: none waited longer."""
    return sum(side.throttled_ms for side in (result.sent, result.received) if side)


def not_sustained(load: Load, result: LoadResult) -> str:
    """Message about a paced load that was offered and that brokers did not take in full; empty when they took it."""
    sent = result.sent
    if not load.fixed_rate or load.times_out or sent is None:
        return ""
    if sent.unsent and sent.pushback_s:
        return f"not sustained: {sent.unsent:,} records of the schedule could not be handed over before the wait ended"
    offered, pushed_back = load.rate * result.window_s, sent.pushback_in_window_s > 0
    if not pushed_back:
        offered = min(offered, sent.attempted_in_window)  # what came after the window was not the brokers' to take
    missing = offered - sent.acked_in_window
    if missing <= max((1 - RATE_REACHED) * result.window_s, EDGE_S) * load.rate or missing <= 1:
        return ""
    if not pushed_back and offered_too_little(load, result, sent) and not took_clearly_less(load, result, sent):
        return ""  # the generator's own doing
    return (
        f"not sustained: the brokers took {sent.acked_in_window / result.window_s:,.0f} of {load.rate:,.0f} records/s"
    )


def _accounting_flaws(
    load: Load, sent: Sent, accounting: Accounting, *, window_s: float, idempotent: bool, promised: bool
) -> list[Flaw]:
    timed_out = _timed_out(load, accounting)
    failed = {code: n for code, n in accounting.failed.items() if not (load.times_out and TIMED_OUT.fullmatch(code))}
    flaws = []
    accounted = accounting.acked + accounting.failed_total + accounting.unresolved + accounting.withdrawn
    if accounting.attempted != accounted:
        flaws.append(
            Flaw(
                f"records unaccounted: attempted {accounting.attempted:,}, but acked {accounting.acked:,} + failed "
                f"{accounting.failed_total:,} + unresolved {accounting.unresolved:,} + withdrawn "
                f"{accounting.withdrawn:,} = {accounted:,}"
            )
        )
    if failed:
        codes = ", ".join(f"{n:,} x {code} ({sent.errors.get(code, '')})" for code, n in failed.items())
        reason = f"{sum(failed.values()):,} of {accounting.attempted:,} sends failed: {codes}"
        flaws.append(of_brokers(reason, late=all(map(LATE.fullmatch, failed))))
    if accounting.unresolved:
        reason = f"{accounting.unresolved:,} of {accounting.attempted:,} records had no outcome when the wait ended"
        flaws.append(of_brokers(reason, late=True))
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
        # Acknowledged and not there, or there twice although it was dropped, comes of brokers alone. Else what is more
        # in the log was sent again, or its end was not seen, because they answered late: no other client writes there.
        wrong = lost = accounting.offset_delta < written or any(moved < here for _, here, moved in astray)
        unseen = accounting.failed_total + accounting.unresolved + accounting.markers
        wrong = wrong or (idempotent and not unseen)
        of_late = not wrong and all(flaw.late for flaw in flaws)
        flaws.append(of_brokers(reason, theirs=wrong or of_late, lost=lost and promised, late=of_late))
    if sent.crowd and sent.crowd.reached < sent.crowd.asked:
        lacking = sent.crowd.asked - sent.crowd.reached
        why = "; ".join(f"{name}: {text}" for name, text in sent.errors.items() if name not in sent.failed)
        reason = f"{lacking:,} of {sent.crowd.asked:,} connections had no answer at the end"
        flaws.append(of_brokers(f"{reason} ({why})" if why else reason, late=True))
    if not sent.acked_in_window:
        # Brokers that stand still for a part of it are judged; those that do for all of it did no better.
        # Clients whose buffers were full throughout had nothing to attempt.
        stalled = sent.attempted_in_window > 0 or sent.pushback_in_window_s >= FULL_FOR * window_s
        flaws.append(of_brokers("no record was acknowledged in the window", theirs=stalled, late=True))
    return flaws


def _timed_out(load: Load, accounting: Accounting) -> int:
    """Number of records that timed out where that is what is measured: any number of them may be in the log."""
    return sum(n for code, n in accounting.failed.items() if load.times_out and TIMED_OUT.fullmatch(code))


def _reading_flaws(
    result: LoadResult,
    received: Received,
    *,
    timed_out: int,
    sound: bool,
    at_ease: bool,
    room: float | None,
    idempotent: bool,
) -> list[Flaw]:
    """Flaws of the records that consumers received, who may be given those that `timed_out`, too. `sound`: only the
    lack of a processor kept them from it, which explains as much as there was `room` for (None: everything)."""
    sent = result.sent
    held_up = share(room, dict.fromkeys(LATENCIES[1:], 1e3 * result.window_s)) if room else EVERYTHING
    flaws = _wrongly_given(received, idempotent=idempotent)
    # They were waited for after the last acknowledgement (CATCH_UP_S): what they still lack brokers did not give them.
    due = sent is not None and sent.acked > 0
    late = at_ease and not flaws and due
    uncommitted = sent is not None and any(sent.markers_by_partition)  # may be for all of a window
    groups = received.by_group or [(received.received, received.received_in_window)]
    for number, (taken, in_window) in enumerate(groups, 1):
        whose = f" by group {number} of {len(groups)}" if len(groups) > 1 else ""
        if sent is not None and not 0 <= taken - sent.acked <= timed_out:
            reason = f"{sent.acked:,} acknowledged, {taken:,} received{whose} ({taken - sent.acked:+,})"
            short = (late and taken < sent.acked) or (due and not taken)
            flaw = of_brokers(f"records unaccounted: {reason}", theirs=short, late=True)
            flaws.append(flaw if short or not 0 < taken < sent.acked else replace(flaw, explains=held_up))
        if not in_window:
            # Nothing at all for a whole window is no lack of a processor. A backlog is there before it is read.
            none = (sound and (due or sent is None) and not uncommitted) or (due and not taken)
            flaws.append(of_brokers(f"no record was received in the window{whose}", theirs=none, late=True))
    return flaws


def _wrongly_given(received: Received, *, idempotent: bool) -> list[Flaw]:
    """The flaw of wrong records that brokers delivered; where foreign ones come from is not known. A producer that is
    not idempotent sends again what was answered late: it is twice in the log, or out of order."""
    again = received.duplicated + received.reordered
    failed = [code for code in received.failed if code != OF_THE_CLIENT]
    late = all(map(LATE.fullmatch, failed)) and not (again and idempotent)
    late = late and not (received.corrupt or received.missed)
    brokers = bool(received.corrupt or received.missed or failed or again)
    wrong = {
        "foreign records": received.foreign,
        "records whose content is not what was sent": received.corrupt,
        "records twice in the log": received.duplicated,
        "records out of order": received.reordered,
        "records less than the log holds": received.missed,
        "fetches that failed": sum(received.failed.values()),
    }
    counts = ", ".join(f"{count:,} {what}" for what, count in wrong.items() if count)
    if not counts:
        return []
    words = "; ".join(received.errors.values())
    reason = f"the consumers were given {counts}, of {received.read:,}" + (f" ({words})" if words else "")
    return [of_brokers(reason, theirs=brokers, late=late)]


QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container's control group (version 2): us of processor time in a period of this many us, or max."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Processors:
    """Processors of the machine, of which brokers may use all, and those that this process may use (`allowed`)."""

    there: float
    allowed: float


def round_flaws(
    load: Load,
    result: LoadResult,
    accounting: Accounting,
    brokers: Mapping[str, float],
    *,
    shares_cores: bool,
    idempotent: bool = False,
    promised: bool = False,
    clients: int = 1,
    others_cores: float = 0.0,
    processors: Processors | None = None,
) -> tuple[Flaw, ...]:
    """Every reason why the round, or some of its metrics, are INVALID; empty when it is valid.

    `brokers`: their metrics in its window; `shares_cores`: they are on this machine. `idempotent`: they drop what a
    producer sends again. `promised`: they acknowledge what all replicas in sync have. `clients`: how many send and
    receive. `others_cores`: of loads at the same time, on a machine with these `processors` (None: this one).
    """
    processors = processors or Processors(there=os.cpu_count() or math.inf, allowed=processors_allowed())
    busiest, used = brokers.get("broker_cpu_cores.max"), brokers.get("broker_cpu_cores.sum")
    of_hosts = host_flaws(load, result, busiest, shares_cores=shares_cores)
    at_ease = _had_processors_left(result, used if shares_cores else 0.0, others_cores, processors.allowed)
    at_ease = at_ease and not any(flaw.again for flaw in of_hosts)
    room = processors_left(result, used, processors.there, others_cores) if shares_cores else None
    held_back = brokers.get(HELD_BACK, 0.0)
    by_quota = of_generator(
        f"{SATURATED}: the CPU quota of the container that this run is in held its clients back in {held_back:.0%} of "
        f"the quota's periods (limit {QUOTA_LIMIT:.0%}): give the job more processors",
        held_back_by_quota(result.window_s, held_back),
        kind=SATURATED,
    )
    every_flaw = (
        *((by_quota,) if held_back > QUOTA_LIMIT and not shares_cores else ()),
        *flaws(
            load,
            result,
            accounting,
            busiest,
            room=room,
            at_ease=at_ease,
            idempotent=idempotent,
            promised=promised,
            clients=clients,
        ),
        *of_hosts,
    )
    if room is not None and used is not None and used >= BROKERS_PART * processors.there:
        every_flaw = tuple(replace(flaw, whose="brokers") if flaw.again else flaw for flaw in every_flaw)
    reason = unhealthy(brokers)
    return (*every_flaw, of_brokers(reason, late=True, kind="unhealthy")) if reason else every_flaw


def accounted(
    scenario: Scenario,
    result: LoadResult,
    before: Sequence[int],
    after: Sequence[int],
    brokers: Mapping[str, float],
    clients_cores: float,
    *,
    shares_cores: bool,
) -> tuple[Accounting, tuple[Flaw, ...]]:
    """Accounting of a load's records, by its partitions' end offsets `before` and `after`, and all its flaws.
    `clients_cores`: of the generators of all loads."""
    accounting = accounting_of(result.sent, before, after)
    flaws = round_flaws(
        scenario.load,
        result,
        accounting,
        brokers,
        shares_cores=shares_cores,
        idempotent=is_idempotent(scenario),
        promised=is_promised(scenario),
        clients=_clients_of(scenario),
        others_cores=clients_cores - result.cpu_cores,
    )
    return accounting, (*flaws, *unwritten(scenario.topic, accounting))


def _clients_of(scenario: Scenario) -> int:
    consumers = scenario.consumers
    reading = consumers.groups * consumers.processes * consumers.threads if consumers else 0
    return max(1, scenario.producers * scenario.threads + reading)


def _had_processors_left(result: LoadResult, brokers_cores: float | None, others_cores: float, allowed: float) -> bool:
    """Whether this machine had some of its `allowed` processors left; load hosts elsewhere are checked on their own."""
    machines = [host.machine for host in result.hosts]
    if machines and all(machine is not None and not machine.with_run for machine in machines):
        return True
    used = math.inf if brokers_cores is None else brokers_cores + result.cpu_cores + others_cores
    return used < PROCESSORS_FULL * allowed


def processors_allowed(quota: Path = QUOTA) -> float:
    """Number of processors this process may use, by its affinity and the `quota` of its container."""
    try:
        most, period = quota.read_text().split()
        allowed = float(most) / float(period)
    except (OSError, ValueError):
        allowed = math.inf
    return min(usable_cores(), allowed)
