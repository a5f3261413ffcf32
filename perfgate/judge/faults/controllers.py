"""The rule that the other controllers elect a new one when the active one is gone. Pure."""

from __future__ import annotations

from perfgate.model import FaultScenario, Judgement, Measurement, Round, Verdict

CHANGES = "controller_changes"
"""A round that has it was told of by the controllers' own log."""

FEWEST = 3
"""Of fewer controllers those that are left are no majority, and elect nobody."""
LEAST_S = 10.0
"""One that is started again sooner may come back before the others had the time to elect."""


def took_over(row: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """Return a judgement when no other controller became active before the one that was killed was started again.

    Measured on 2 busy cores: 3.2 s, of the 15 s that it is away. In doubt where the log does not tell: no partition
    notices, so that nothing else shows it.
    """
    if not row.fault.about.elects_controller or (row.cluster.controllers or row.cluster.brokers) < FEWEST:
        return []
    if row.fault.hold_s < LEAST_S:
        return []
    rounds = [r for r in measurement.rounds if r.failover]
    told = [r for r in rounds if CHANGES in r.metrics]
    never, untold = sum(not _in_time(r) for r in told), len(rounds) - len(told)
    if not never and not untold:
        return []
    verdict = Verdict.REGRESSED if 2 * never > len(told) else Verdict.INCONCLUSIVE
    reason = f"in {never} of {len(told)} rounds no new controller was elected while the active one was away"
    if not never:
        reason = f"in {untold} of {len(rounds)} rounds the controllers' log does not tell which one became active"
    return [Judgement(verdict=verdict, metric=CHANGES, reason=reason)]


def _in_time(found: Round) -> bool:
    if not found.failover:
        return False
    back = next((at for at, what in found.failover.marks if what.startswith("start ")), float("inf"))
    return found.failover.split.get("controller_s", float("inf")) < back
