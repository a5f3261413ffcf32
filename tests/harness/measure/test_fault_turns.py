"""The order of rounds with a fault: no compared scenario has the warmer brokers, one that fails ends alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest

from perfgate.catalogue.cold import COLD
from perfgate.measure.assembly import unmeasured
from perfgate.measure.faults.fault_turns import measure_faults
from perfgate.model import Fault, FaultScenario, Measurement, Round
from perfgate.model.errors import TargetError
from tests.harness.build.faults import faulty

WARM, COLD_READ = (row for row in COLD.scenarios if isinstance(row, FaultScenario))


def measured_by(
    scenarios: list[FaultScenario], failing: Mapping[tuple[str, int], TargetError]
) -> tuple[list[tuple[str, int]], list[Measurement], Any]:
    """Return the rounds in the order in which they were made, the measurements as they were done, and the set-up."""
    order: list[tuple[str, int]] = []

    def fault_round(scenario: FaultScenario, index: int, _doing: str) -> Round:
        order.append((scenario.name, index))
        if error := failing.get(order[-1]):
            raise error
        return unmeasured(index, "")

    setup: Any = MagicMock()
    setup.warm_bench.return_value.fault_round.side_effect = fault_round
    setup.warm_bench.return_value.round_trips.return_value = {}
    setup.engine.latency_basis.return_value = setup.engine.by_hand.return_value = ""
    done = list(measure_faults(setup, scenarios, "run"))
    return order, done, setup


def times(scenario: FaultScenario, repeats: int) -> FaultScenario:
    return replace(scenario, fault=replace(scenario.fault, repeats=repeats))


def test_scenarios_that_leave_brokers_alone_take_turns_and_each_begins_a_pass_as_often() -> None:
    """read-warm had all its rounds before read-cold had one, on brokers that still compiled: a ratio of 0.45."""
    order, done, setup = measured_by([times(WARM, 3), times(COLD_READ, 2)], {})
    w, c = WARM.name, COLD_READ.name
    assert order == [(w, 1), (c, 1), (c, 2), (w, 2), (w, 3)]
    assert [(one.scenario.name, len(one.rounds)) for one in done] == [(c, 2), (w, 3)]
    assert setup.cluster.call_count == setup.warm_bench.call_count == 1


@pytest.mark.parametrize("kind", ["kill-leader", "stop-leader", "pause-leader", "cut-off", "rolling-restart"])
def test_what_is_done_to_brokers_is_done_as_often_as_asked_before_the_next_scenario(kind: str) -> None:
    one = times(FaultScenario.of(faulty(), Fault(kind=kind)), 2)
    order, done, setup = measured_by([one, replace(one, name="other")], {})
    assert order == [(one.name, 1), (one.name, 2), ("other", 1), ("other", 2)]
    assert setup.cluster.call_count == len(done) == 2


def test_a_scenario_whose_brokers_fail_ends_and_the_others_go_on_with_new_ones() -> None:
    w, c = WARM.name, COLD_READ.name
    order, done, setup = measured_by([times(WARM, 3), times(COLD_READ, 3)], {(w, 2): TargetError("broker 1 is gone")})
    assert order == [(w, 1), (c, 1), (c, 2), (w, 2), (c, 3)]
    assert [(one.scenario.name, len(one.rounds)) for one in done] == [(w, 2), (c, 3)]
    assert "broker 1 is gone" in done[0].rounds[-1].invalid[0]
    assert setup.cluster.call_count == 2
    assert setup.target.close.call_count == 1
