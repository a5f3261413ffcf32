"""Steps of a fault: controller, fencing, leaders, by the controllers' log or as the brokers were asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.measure.faults.outage import Interval, Outage
from perfgate.measure.faults.written import Written
from perfgate.model.nodes import ASK_EVERY_S, LoggedChange, State

POLLED = "asked of the brokers every 100 ms"


LOGGED = "from the controllers' metadata log"


def first_outage(lost: Outage, marks: Sequence[tuple[float, str]]) -> list[Interval]:
    """Return the intervals of the outage that the fault itself brought, in order.

    Later ones are not of it: those after every partition was served again, and those since something else was done.
    """
    fault, until = marks[0][0], marks[1][0] if len(marks) > 1 else float("inf")
    found: list[Interval] = []
    for begin, closes in sorted(interval for one in lost.partitions.values() for interval in one.down):
        if begin >= until or (found and begin > max(end for _, end in found)):
            break
        if closes > fault:
            found.append((begin, closes))
    return found


def leader_changes(states: Sequence[State], fault: float) -> int:
    """Return how often partitions got another leader; to have had none in between is no change."""
    changes, last = 0, list(states[0].leaders)
    for state in states:
        for partition, leader in enumerate(state.leaders):
            if leader >= 0 and leader != last[partition]:
                changes += state.at >= fault
                last[partition] = leader
    return changes


def steps_of(written: Written, lost: Outage, fault: float) -> dict[str, float]:
    """Return when the fault's steps came about: fenced, elected, first record acknowledged where one had waited."""
    steps = _steps_polled(written.states, fault) if written.changes is None else _steps_logged(written.changes, fault)
    elected = steps["elected_s"] or 0.0
    ends = [end for _, end in first_outage(lost, written.marks) if end >= elected - ASK_EVERY_S]
    found = {**steps, "first_ack_s": min(ends, default=None)}
    return {name: at - fault for name, at in found.items() if at is not None}


def _steps_polled(states: Sequence[State], fault: float) -> dict[str, float | None]:
    before = next((s for s in reversed(states) if s.at < fault), states[0])
    return {
        "fenced_s": next((s.at for s in states if s.at >= fault and len(s.brokers) < len(before.brokers)), None),
        "elected_s": next(
            (s.at for s in states if s.at >= fault and s.leaders != before.leaders and min(s.leaders) >= 0), None
        ),
    }


def _steps_logged(changes: Sequence[LoggedChange], fault: float) -> dict[str, float | None]:
    """Elected: the last of the leaders that were elected before any broker came back."""
    since = [change for change in changes if change.at >= fault]
    back = min((change.at for change in since if change.what == "back"), default=float("inf"))
    elected = [change.at for change in since if change.what == "leader" and change.leader >= 0 and change.at < back]
    return {
        "controller_s": next((change.at for change in since if change.what == "controller"), None),
        "fenced_s": next((change.at for change in since if change.what == "fenced"), None),
        "elected_s": max(elected, default=None),
    }


def log_metrics(written: Written, fault: float) -> dict[str, float]:
    if written.changes is None:
        return {}
    since = [change for change in written.changes if change.at >= fault]
    found = {"unclean_elections": float(sum(change.unclean for change in since))}
    if any(change.what == "controller" for change in written.changes):  # a log without the first one tells of none
        found["controller_changes"] = float(sum(change.what == "controller" for change in since))
    return found
