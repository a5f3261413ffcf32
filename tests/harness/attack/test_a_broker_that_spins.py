"""A broker that kept a core busy for nothing lowered the canary, and its rows were excused as on a busy machine."""

from dataclasses import replace
from typing import Any

import pytest

from perfgate.judge.noise import disturbed
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.canary import read_canary
from perfgate.model import CanaryReading, Verdict
from tests.harness.build import measurement, profile, threshold

QUIET = CanaryReading(deflate_mib_per_s=100, loopback_per_s=20_000, pressure=0.1, steal=0.0)
HELD = profile(threshold("records_per_s", 1000.0, 0.1), threshold("broker_cpu_us_per_record", 50.0, 0.1))


@pytest.mark.parametrize(
    ("changes", "excused"),
    [
        ({"deflate_mib_per_s": 50, "brokers": 0.5}, False),
        ({"deflate_mib_per_s": 50, "brokers": 0.26}, False),
        ({"loopback_per_s": 6_000, "brokers": 0.5}, False),
        ({"deflate_mib_per_s": 50, "brokers": 0.0}, True),
        ({"deflate_mib_per_s": 50, "brokers": 0.1}, True),
        ({"loopback_per_s": 6_000, "brokers": 0.1}, True),
        ({"deflate_mib_per_s": 50, "brokers": 0.5, "steal": 0.3}, True),
    ],
)
def test_the_machine_is_disturbed_by_others_only(changes: dict[str, Any], excused: bool) -> None:
    readings = (*([QUIET] * 3), replace(QUIET, **changes))
    assert bool(disturbed(readings, None)) is excused
    slow = replace(measurement([700, 710, 705], cpu_us=70), canary=readings)
    assert judge_scenario(slow, HELD).verdict is (Verdict.INCONCLUSIVE if excused else Verdict.REGRESSED)


def test_one_reading_that_brokers_explain_hides_none_that_they_do_not() -> None:
    spun, other = replace(QUIET, deflate_mib_per_s=30, brokers=0.7), replace(QUIET, deflate_mib_per_s=50)
    assert "ran at 50 %" in disturbed((*([QUIET] * 3), spun, other), None)


def test_a_reading_says_what_the_brokers_used_meanwhile() -> None:
    looks = iter([10.0, 10.05, 10.1])
    reading = read_canary(lambda: next(looks))
    assert 0 < reading.brokers <= 0.1 / 0.4
    assert read_canary().brokers == 0.0
