"""Rounds of a scenario whose topic the brokers must refuse, as more replicas than there are brokers."""

from __future__ import annotations

from dataclasses import replace

from perfgate.measure.assembly import unmeasured
from perfgate.measure.round_topics import RoundTopics
from perfgate.model import Round, Scenario
from perfgate.model.errors import TopicRefusedError


def refusal_round(topics: RoundTopics, scenario: Scenario, index: int, *, own_brokers: bool) -> Round:
    """Ask for the scenario's topic; the round has no metrics, and is broken or invalid unless it was refused.

    It must be refused with the error that the scenario names, and nothing may be left behind. On brokers of the
    suite's own (`own_brokers`) anything else is their doing: BROKEN.
    """
    wanted = topics.fresh(scenario)
    try:
        with wanted:
            problem = f"the brokers created its topic, which they must refuse with {scenario.refusal}"
    except TopicRefusedError as error:
        problem = ""
        if error.code != scenario.refusal:
            problem = f"its topic was to be refused with {scenario.refusal}, but: {error}"
    if not problem and topics.keeper.exists(wanted.name):
        problem = f"the brokers refused topic {wanted.name}, and yet it is there"
    found = unmeasured(index, problem, broken=own_brokers)
    return found if problem else replace(found, steady=True, flaws=())
