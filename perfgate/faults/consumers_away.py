"""consumers-away: the first group's consumers read nothing for a while, then come back to the unread records."""

import time
from collections.abc import Callable

from perfgate.faults.costs import FIND_S, unmoved
from perfgate.model.faults import LOOK_EVERY_S, READ_AGAIN, Expectation, FaultKind, FaultScenario, Figures, Scene

CATCH_UP_WITHIN = 1.0
"""Bound on catching up, as a multiple of the time away: they read at twice the rate of the load."""
CAUGHT_UP_RECORDS = 100


def stay_away(scene: Scene, before_reading: Callable[[], None] = lambda: None) -> None:
    """Have the first group read nothing for a while, call `before_reading`, and wait until they have caught up."""
    usual = max(scene.load.unread(), CAUGHT_UP_RECORDS)
    scene.mark("consumers stop reading")
    scene.load.rest_readers()
    scene.hold()
    before_reading()
    scene.mark(READ_AGAIN)
    scene.load.wake_readers()
    deadline = time.monotonic() + CATCH_UP_WITHIN * scene.scenario.fault.hold_s
    while scene.load.unread() > 2 * usual and time.monotonic() < deadline:
        scene.load.follow_until(time.monotonic() + LOOK_EVERY_S, "reading what was left unread")


def back_after(scenario: FaultScenario, longer_s: float = 0.0) -> Expectation:
    """Expected longest time without a record of consumers that stay away, `longer_s` more at most."""
    hold = scenario.fault.hold_s
    return Expectation(
        hold, hold + longer_s + FIND_S, f"they stay away for {hold:g} s, then read on from where they were"
    )


def catching_up(figures: Figures, source: str = "") -> str:
    """Message about the unread records (read from `source`), the catching up, and the cost to others."""
    unread, took, rate = map(figures.value, ("unread_records", "catch_up_s", "catch_up_records_per_s"))
    if unread is None:
        return ""
    read = "not read to the end" if took is None else f"read in {took:.1f} s"
    note = f"{source}{unread:,.0f} records unread, {read}"
    note += "" if rate is None else f" ({figures.number(rate)}/s)"
    return note + _p99_of("producers", "latency", figures) + _p99_of("other groups", "end_to_end", figures)


def _p99_of(clients: str, stem: str, figures: Figures) -> str:
    before, unread, during = (figures.value(f"{stem}_{phase}_ms.p99") for phase in ("before", "unread", "during"))
    if before is None or during is None:
        return ""
    number = figures.number
    between = "" if unread is None else f" -> {number(unread)} with it unread"
    return f"; p99 of {clients} {number(before)}{between} -> {number(during)} ms meanwhile"


FAULT = FaultKind(
    name="consumers-away",
    act=stay_away,
    sending=unmoved,
    receiving=back_after,
    commands=(),
    brokers_down=0,
    leaves_unread=True,
    meanwhile="with nobody reading",
    note=catching_up,
)
