"""A broker that had died was excused, INVALID instead of BROKEN, because the machine was busy besides."""

from dataclasses import replace

import pytest

from perfgate.judge.noise import disturbed
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import round_of
from perfgate.measure.validity import flaws
from perfgate.model import Accounting, CanaryReading, Load, Measurement, Verdict
from tests.harness.build import flawed, late_texts, load_result, measurement, profile, sent, threshold

HELD = profile(threshold("records_per_s", 1000.0), threshold("broker_cpu_us_per_record", 50.0))
QUIET = CanaryReading(deflate_mib_per_s=70.0, loopback_per_s=20_000.0, pressure=0.0, steal=0.0)
BUSY = (QUIET, QUIET, QUIET, replace(QUIET, deflate_mib_per_s=20.0))
STARVED = (QUIET, QUIET, QUIET, replace(QUIET, deflate_mib_per_s=2.0))
DIED, SHRANK = "target unhealthy: broker 2 was killed by signal 9", "target unhealthy: 1 ISR shrink"


def broken(*reasons: str, perhaps_late: tuple[str, ...] = ()) -> Measurement:
    made = measurement([1000, 1000, 1000])
    last = flawed(made.rounds[-1], invalid=reasons, broken=reasons, perhaps_late=perhaps_late)
    return replace(made, rounds=(*made.rounds[:-1], last), canary=BUSY)


@pytest.mark.parametrize(
    ("reasons", "perhaps_late", "verdict"),
    [
        ((DIED,), (), Verdict.BROKEN),
        ((SHRANK,), (SHRANK,), Verdict.INVALID),
        ((DIED, SHRANK), (SHRANK,), Verdict.BROKEN),
    ],
)
def test_a_starved_machine_excuses_what_is_late_and_nothing_else(
    reasons: tuple[str, ...], perhaps_late: tuple[str, ...], verdict: Verdict
) -> None:
    """Brokers are late by ten times what they need and more: half of a machine's speed is no reason for that."""
    assert disturbed(BUSY, None)
    assert judge_scenario(broken(*reasons, perhaps_late=perhaps_late), HELD).verdict is Verdict.BROKEN
    starved = replace(broken(*reasons, perhaps_late=perhaps_late), canary=STARVED)
    assert judge_scenario(starved, HELD).verdict is verdict
    quiet = replace(broken(*reasons, perhaps_late=perhaps_late), canary=(QUIET,) * 4)
    assert judge_scenario(quiet, HELD).verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    ("slow", "verdict"),
    [((3, 4), Verdict.BROKEN), ((5,), Verdict.INVALID), ((6,), Verdict.INVALID), ((7, 8), Verdict.BROKEN)],
)
@pytest.mark.parametrize("ended", [False, True])
def test_a_starved_machine_excuses_the_rounds_beside_it_alone(
    slow: tuple[int, ...], verdict: Verdict, *, ended: bool
) -> None:
    """One reading anywhere in a block of scenarios excused whatever was late in it."""
    readings = [STARVED[-1] if n in slow else QUIET for n in range(9)]
    late = broken(SHRANK, perhaps_late=(SHRANK,))
    if ended and slow == (6,):  # the target failed: no reading came after the round
        verdict = Verdict.BROKEN
    found = replace(late, canary=tuple(readings[:6] if ended else readings))
    assert judge_scenario(found, HELD).verdict is verdict
    twice = flawed(late.rounds[1], invalid=(SHRANK,), broken=(SHRANK,), perhaps_late=(SHRANK,))
    both = replace(found, rounds=(found.rounds[0], twice, found.rounds[2]))
    excused = slow == (5,)  # between the second and the third round
    assert judge_scenario(both, HELD).verdict is (Verdict.INVALID if excused else Verdict.BROKEN)


@pytest.mark.parametrize(
    ("failed", "unresolved", "in_log", "late"),
    [
        ({"_MSG_TIMED_OUT": 10}, 0, 2990, True),
        ({"_MSG_TIMED_OUT": 9, "NOT_ENOUGH_REPLICAS": 1}, 0, 2990, True),
        ({"_TIMED_OUT_QUEUE": 10}, 0, 2990, True),
        ({"TimeoutException": 9, "NotEnoughReplicasException": 1}, 0, 2990, True),
        ({"RecordTooLargeException": 10}, 0, 2990, False),
        ({"MSG_SIZE_TOO_LARGE": 10}, 0, 2990, False),
        ({"_MSG_TIMED_OUT": 9, "TOPIC_AUTHORIZATION_FAILED": 1}, 0, 2990, False),
        ({}, 10, 2990, True),
        ({}, 10, 2989, False),
        # A send that timed out on its way may be in the log all the same.
        ({"_MSG_TIMED_OUT": 10}, 0, 2997, True),
        ({}, 10, 2997, True),
        ({"MSG_SIZE_TOO_LARGE": 10}, 0, 2997, False),
    ],
)
def test_what_may_only_have_been_late(failed: dict[str, int], unresolved: int, in_log: int, late: bool) -> None:
    where = Accounting(attempted=3000, acked=2990, failed=failed, unresolved=unresolved, offset_delta=in_log)
    told = load_result(sent=sent())
    made = round_of(1, told, where, {}, flaws(Load(kind="capped", rate=1000.0), told, where), "", own_brokers=True)
    assert made.broken
    assert (made.broken == late_texts(made)) is late
    assert (set(made.invalid) == set(late_texts(made))) is late
