"""Timetable of two loads that take turns on the same brokers, in seconds on one monotonic clock. Pure.

The brokers' speed wanders by 15 % within seconds (measured: 2 cores, three brokers), so that loads are compared best
when they alternate faster than that. Each turn begins with a gap in which the other side's buffer drains and this
side's fills; only then it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.model import KIB, Scenario
from perfgate.model.load import Pace

SIDES = "AB"
WINDOW_S = 1.0
LEAST_GAP_S = 0.4
BUFFER_S = 0.1
"""A side's buffer holds what the brokers take in this time: more than most requests take, so that they never wait for
records (with 20 ms of buffer a saturated scenario lost a third of its rate), and little enough to drain in the gap."""
LEAST_BUFFER_KIB = 256
GAP_BUFFERS = 4.0
LARGEST_GAP_S = 2.0
"""What slow brokers have not taken of a capped load's buffer by then is withdrawn, so that they spoil no turn."""
WARM_S = 0.4


@dataclass(frozen=True, slots=True)
class Turn:
    """One side sends from `starts` until `closes` and is measured from `opens` on."""

    side: str
    starts: float
    opens: float
    closes: float


def pace(sides: Sequence[Scenario], records_per_s: float) -> Pace:
    """Return the pace for two forms of a scenario that the brokers take at about this rate.

    The buffer must hold all requests in flight twice over, or it would be the limit; the gap must suffice to drain it.
    """
    sizes = [side.record_bytes for side in sides]
    bytes_per_s, slowest = (max(1.0, records_per_s * size) for size in (max(sizes), min(sizes)))
    needed = LEAST_BUFFER_KIB
    for side in sides:
        producer = dict(side.producer)
        batch = int(producer.get("batch.size", 16 * KIB))
        in_flight = min(int(producer.get("max.in.flight.requests.per.connection", 5)), 100)
        needed = max(needed, 2 * side.topic.partitions * batch * (in_flight + 1) // KIB)
    clients = max(side.producers * side.threads for side in sides)  # each has a buffer of its own
    declared = min(int(dict(side.producer).get("queue.buffering.max.kbytes", 32 * KIB)) for side in sides)
    buffer_kib = min(declared, max(needed, round(BUFFER_S * bytes_per_s / KIB / clients)))
    lingers = [float(dict(side.producer).get("linger.ms", 0)) / 1e3 for side in sides]
    gap = max(LEAST_GAP_S, GAP_BUFFERS * clients * buffer_kib * KIB / slowest, 2 * max(lingers))
    return Pace(gap_s=min(gap, LARGEST_GAP_S), window_s=max(WINDOW_S, 2 * max(lingers)), buffer_kib=buffer_kib)


def timetable(order: str, begin: float, at: Pace) -> tuple[Turn, ...]:
    """Return the turns of `order` (letters A and B; spaces do not count), after one unmeasured turn of each side.

    The side that begins warms up first, so that its first turn follows one of the other side, as in the mirrored order:
    a turn that follows one's own is faster (with A always warming up first, B was 2.6 % faster than itself).
    """
    turns, moment = [], begin
    for side in order[:2]:
        turns.append(Turn(side, moment, moment + WARM_S, moment + WARM_S))
        moment += WARM_S
    for side in order.replace(" ", ""):
        opens = moment + at.gap_s
        turns.append(Turn(side, moment, opens, opens + at.window_s))
        moment = opens + at.window_s
    return tuple(turns)
