"""The verdict over faults of Pulsar: what its own settings predict, and what the next test of a fault owes to them."""

from dataclasses import replace

import pytest

from perfgate.catalogue.pulsar_failover import SCENARIOS
from perfgate.judge.faults.expectation import expected_outage, had_no_effect
from perfgate.model import Fault, FaultScenario, settings

BY_NAME = {row.name: row for row in SCENARIOS}


def held(kind: str, seconds: float, **broker: int) -> FaultScenario:
    row = next(row for row in SCENARIOS if row.fault.kind == kind)
    return replace(
        row,
        fault=Fault(kind=kind, hold_s=seconds),
        cluster=replace(row.cluster, config=settings(dict(broker))),
    )


def test_a_crash_costs_the_session_at_the_metadata_store_and_the_taking_over() -> None:
    """Measured with a session of 10 s: 13.4 s on 4.0.8, 15.2 s on 4.2.4; of 30 s: 49.0 to 50.6 s on 4.0.8."""
    usual, short = expected_outage(BY_NAME["kill-broker"]), expected_outage(BY_NAME["kill-broker-session-10s"])
    assert (usual.low_s, short.low_s) == pytest.approx((20.0, 10.0 - 10.0 / 3))
    assert short.low_s < 13.4 < 15.2 < short.high_s < usual.low_s + 15
    assert usual.low_s < 49.0 < 50.6 < usual.high_s
    assert usual.high_s == pytest.approx(51.1 + 5), "clients look at 25.5 s and at 51.1 s"
    assert "20 to 33.75 s after its last sign of life" in usual.why


def test_kafkas_session_is_none_of_pulsars() -> None:
    plain = expected_outage(held("kill-broker", 15.0))
    assert expected_outage(held("kill-broker", 15.0, **{"broker.session.timeout.ms": 3_000})) == plain


def test_brokers_that_do_not_report_their_session_have_pulsars_default() -> None:
    """Kafka's 18 s were assumed: an outage of 30 s by a broker that stood still was too long, of 30 s a session."""
    for name in ("kill-broker", "pause-broker"):
        usual, unreported = expected_outage(BY_NAME[name]), expected_outage(BY_NAME[name], reported_s=0.0)
        assert (unreported.low_s, unreported.high_s) == (usual.low_s, usual.high_s)
        assert unreported.why == f"{usual.why} (the brokers do not tell their session: it may be 30 s)"


@pytest.mark.parametrize("hold_s", [5.0, 15.0, 60.0])
def test_without_a_spare_bookie_the_outage_is_as_long_as_it_is_away(hold_s: float) -> None:
    expected = expected_outage(held("kill-bookie-no-spare", hold_s))
    assert expected.low_s < hold_s < expected.high_s
    assert had_no_effect(held("kill-bookie-no-spare", hold_s), expected, [0.4])
    assert not had_no_effect(held("kill-bookie-no-spare", hold_s), expected, [hold_s])


@pytest.mark.parametrize("name", ["kill-bookie-delayed", "kill-bookie-spare", "stop-broker", "metadata-away"])
def test_where_service_is_to_go_on_an_outage_as_long_as_the_fault_is_too_long(name: str) -> None:
    row = BY_NAME[name]
    expected = expected_outage(row)
    assert expected.low_s == 0
    assert expected.high_s < row.fault.hold_s / 2
    assert not had_no_effect(row, expected, [0.0])


def test_a_broker_that_stands_still_costs_at_least_the_shorter_of_session_and_hold() -> None:
    row = BY_NAME["pause-broker"]
    expected = expected_outage(row)
    assert expected.low_s == min(20.0, row.fault.hold_s)
    assert expected.high_s > row.fault.hold_s
