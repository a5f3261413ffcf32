"""Scenarios that a change can be compared on, and why the others cannot."""

from __future__ import annotations

from perfgate.measure.setup import Setup
from perfgate.model import Change, Deciding, Scenario
from perfgate.model.compared import OF_A_PROCESS


def cannot_be_compared(
    scenario: Scenario, change: Change, setup: Setup, decides: Deciding, *, against: bool
) -> str | None:
    """Return why the scenario cannot be compared with itself changed, or None when it can.

    `against`: each side has a cluster of its own that exists, so that they differ whatever the change concerns.
    """
    candidate = setup.form(scenario, change)
    if not against and (why := _unconcerned(scenario, candidate, change)):
        return why
    if scenario.load.kind == "ramp":
        return "a search for the knee takes minutes a round: compare a scenario at a rate of its own"
    if scenario.load.times_out:
        return "its records are to time out, which in a comparison means that the brokers failed"
    blind = [name for name in decides.metrics if name.startswith("broker_")]
    if blind and (untold := setup.target_facts.get("no_usage")):
        return f"{blind[0]} cannot decide: {untold}"
    shared = [name for name in blind if name.startswith(OF_A_PROCESS)]
    if shared and not (against or change.on_pairs or change.restarts_brokers):
        return (
            f"{shared[0]} cannot decide: the same brokers serve both sides; "
            "`pairs = true` in the change file gives each side its own"
        )
    return decides.cannot(scenario) or setup.cannot(scenario) or setup.cannot(candidate)


def _unconcerned(scenario: Scenario, candidate: Scenario, change: Change) -> str | None:
    if change.concerns_consumers and scenario.consumers is None:
        return "the change concerns consumers, and this scenario has none"
    if scenario.load.kind == "backlog" and change.concerns_sending_alone:
        return "the change concerns how records are sent, and this scenario only reads"
    if change.changes and candidate == scenario:
        return "the change leaves it as it is: there would be nothing to compare"
    return None
