"""kill-broker: what a client's waits make of an outage that a broker's session begins."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.catalogue.pulsar_failover import SCENARIOS
from perfgate.faults.kill_broker import FIRST_WAIT_S, LESS_AT_RANDOM, LONGEST_WAIT_S, next_look_s
from perfgate.judge.faults.expectation import expected_outage
from perfgate.model import FaultScenario


def scenario(name: str) -> FaultScenario:
    (found,) = [one for one in SCENARIOS if one.name == name]
    assert isinstance(found, FaultScenario)
    return found


@pytest.mark.parametrize(
    ("name", "measured_s", "too_long_s"),
    [("kill-broker", [50.59, 49.15, 49.66, 48.97, 49.75], 60.0), ("kill-broker-session-10s", [13.2], 35.0)],
)
def test_what_brokers_in_order_cost_is_expected(name: str, measured_s: list[float], too_long_s: float) -> None:
    """The session of 30 s is over after 32 s; the client, which had looked at 25 s, looks again at 51 s."""
    expected = expected_outage(scenario(name))
    assert all(expected.low_s <= each <= expected.high_s for each in measured_s)
    assert too_long_s > expected.high_s


@given(served_s=st.floats(0.01, 200), seed=st.integers(0, 2**32))
def test_a_client_looks_again_before_that(served_s: float, seed: int) -> None:
    draw, at, wait = random.Random(seed), 0.0, FIRST_WAIT_S
    while at < served_s:
        at += wait * (1 - draw.uniform(0, LESS_AT_RANDOM))
        wait = min(2 * wait, LONGEST_WAIT_S)
    assert at <= next_look_s(served_s) + 1e-9
