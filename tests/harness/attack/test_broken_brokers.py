"""The worse it was, the less red: brokers that failed were INVALID, exit 6, and one bad round hid that others are slow.

Now what brokers of the suite's own failed to do is BROKEN and red; what the generator or the machine did is INVALID.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.confirmation import second_look, to_measure_again
from perfgate.judge.scenario_case import invalid_reasons, judge_scenario
from perfgate.judge.wording import comparison_message, recommendation, scenario_message
from perfgate.measure.assembly import break_off, round_of, unmeasured
from perfgate.measure.faults.fault_round import fault_round
from perfgate.measure.faults.fault_turns import measure_faults
from perfgate.measure.validity import flaws
from perfgate.model import Accounting, CanaryReading, Comparison, Effect, Load, Measurement, Round, Verdict
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.flaw import Flaw
from perfgate.model.measured import Arm, Series
from tests.harness.build import (
    accounting,
    late_texts,
    load_result,
    measurement,
    profile,
    received,
    relation,
    sent,
    threshold,
)
from tests.harness.build.faults import faulty

RATE = threshold("records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)
HELD = profile(RATE, CPU)
CAPPED = Load(kind="capped", rate=1000.0)
QUIET = CanaryReading(deflate_mib_per_s=100, loopback_per_s=20_000, pressure=0.1, steal=0.0)
BUSY = (*([QUIET] * 3), replace(QUIET, steal=0.5))
STARVED = (*([QUIET] * 3), replace(QUIET, steal=0.95))
DIED = "target unhealthy: broker 1 was killed by signal -9"


def accounted(acked: int, in_log: int, failed: int = 0, unresolved: int = 0) -> Accounting:
    return Accounting(
        attempted=acked + failed + unresolved,
        acked=acked,
        failed={"_MSG_TIMED_OUT": failed} if failed else {},
        unresolved=unresolved,
        offset_delta=in_log,
    )


def taken(*rates: float, last: Round | None = None, canary: tuple[CanaryReading, ...] = ()) -> Measurement:
    found = measurement(rates)
    return replace(found, rounds=(*found.rounds, *([last] if last else [])), canary=canary)


def bad(index: int, *, broken: bool, late: bool = False) -> Round:
    return unmeasured(index, DIED if broken else "generator saturated", broken=broken, perhaps_late=late)


@pytest.mark.parametrize(
    ("where", "to_blame"),
    [
        (accounted(3000, 3000), None),
        (accounted(2000, 2000, failed=1000), True),
        (accounted(2000, 2000, unresolved=1000), True),
        (accounted(3000, 2999), True),
        (accounted(3000, 3001), True),  # sent again after a stall: nobody else writes there
        (replace(accounting(3000), attempted=3001), False),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_who_is_to_blame_for_a_record(where: Accounting, to_blame: bool | None, own: bool) -> None:
    told = load_result(sent=sent())
    found = flaws(CAPPED, told, where)
    assert bool(found) is (to_blame is not None)
    r = round_of(1, told, where, {}, found, "", own_brokers=own)
    assert bool(r.invalid) is (to_blame is not None)
    assert bool(r.broken) is bool(to_blame and own), "brokers that serve others too may have had other reasons"


@pytest.mark.parametrize(
    ("changes", "to_blame"),
    [
        ({"corrupt": 1}, True),
        ({"failed": {"_TRANSPORT": 2}}, True),
        ({"failed": {"_MAX_POLL_EXCEEDED": 2}}, False),
        ({"missed": 1}, True),
        ({"duplicated": 1}, True),
        ({"foreign": 1}, False),
    ],
)
def test_who_is_to_blame_for_what_was_read(changes: dict[str, object], to_blame: bool) -> None:
    told = load_result(sent=sent(), received=received(**changes))
    r = round_of(1, told, accounting(3000), {}, flaws(CAPPED, told, accounting(3000)), "", own_brokers=True)
    assert r.invalid
    assert bool(r.broken) is to_blame


def test_a_generators_flaw_is_never_the_brokers() -> None:
    r = round_of(
        1, load_result(), accounting(3000), {}, (Flaw("late", whose="load", again=True),), "", own_brokers=True
    )
    assert (r.invalid, r.broken) == (("late",), ())


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (taken(1000, 1010, last=bad(3, broken=True)), Verdict.BROKEN),
        (taken(last=bad(1, broken=True)), Verdict.BROKEN),
        (taken(600, 610, last=bad(3, broken=True)), Verdict.BROKEN),
        (taken(600, 610, 605, last=bad(4, broken=False)), Verdict.REGRESSED),
        (taken(600, 610, last=bad(3, broken=False)), Verdict.REGRESSED),
        (taken(1000, 1010, 990, last=bad(4, broken=False)), Verdict.INVALID),
        (taken(600, last=bad(2, broken=False)), Verdict.INVALID),
        (taken(last=bad(1, broken=False)), Verdict.INVALID),
        (taken(1000, 1010, last=bad(3, broken=True), canary=BUSY), Verdict.BROKEN),
        (taken(1000, 1010, last=bad(3, broken=True, late=True), canary=STARVED), Verdict.INVALID),
        (taken(1000, 1010, last=bad(3, broken=True, late=True), canary=BUSY), Verdict.BROKEN),
    ],
)
def test_the_worse_it_is_the_redder(given: Measurement, verdict: Verdict) -> None:
    outcome = judge_scenario(given, HELD)
    assert outcome.verdict is verdict
    message = scenario_message(outcome, given, HELD)
    assert message.startswith(f"{verdict.value} batch-1k")
    if verdict is not Verdict.PASS:
        assert (DIED if any(r.broken for r in given.rounds) else "generator saturated") in message
    if verdict is Verdict.BROKEN:
        assert "  next       the brokers failed" in message


def test_without_thresholds_it_is_broken_too() -> None:
    assert judge_scenario(taken(1000, last=bad(2, broken=True)), None).verdict is Verdict.BROKEN


def test_brokers_that_failed_are_not_given_another_chance() -> None:
    broken = taken(1000, last=bad(2, broken=True))
    assert to_measure_again({"batch-1k": broken}, HELD, []) == set()
    slow = judge_scenario(taken(600, 610, 605), HELD)
    again = second_look(slow, judge_scenario(broken, HELD))
    assert again.verdict is Verdict.BROKEN
    assert "confirms" in again.reasons[-1]


def test_a_relation_to_a_broken_row_is_not_judged() -> None:
    fast = replace(taken(1000, last=bad(2, broken=True)), scenario=measurement([1], "fast").scenario)
    held = judge_relation(relation(1.5), {"fast": fast, "slow": measurement([500, 510], "slow")})
    assert held.verdict is Verdict.INVALID


def test_every_row_of_a_cluster_that_broke_says_so() -> None:
    for broken in (True, False):
        every = [[Series(Arm(scenario=measurement([1], name).scenario))] for name in ("one", "two")]
        break_off(every, DIED, broken=broken)
        assert [bool(one.rounds[-1].broken) for (one,) in every] == [broken, broken]


def compared(baseline: Measurement, candidate: Measurement) -> Comparison:
    return Comparison(
        change="acks=all",
        baseline=baseline,
        candidate=candidate,
        method="rounds",
        rounds_per_unit=2,
        planned_units=6,
        orders=("ABBA",),
        minutes=1.0,
    )


FAILS = replace(unmeasured(2, "1,000 sends failed"), accounting=accounted(0, 0, failed=1000))


@pytest.mark.parametrize(
    ("baseline", "candidate", "effect"),
    [
        (taken(1000, 1010), taken(1000, last=FAILS), Effect.BROKEN),
        (taken(1000), taken(1000, last=bad(2, broken=True)), Effect.BROKEN),
        (taken(1000, last=FAILS), taken(1000, last=FAILS), Effect.INVALID),
        (taken(1000, last=FAILS), taken(1000, 1010), Effect.INVALID),
        (taken(1000, 1010), taken(1000, last=bad(2, broken=False)), Effect.INVALID),
    ],
)
def test_a_change_with_which_sends_fail_is_not_undecided(
    baseline: Measurement, candidate: Measurement, effect: Effect
) -> None:
    outcome = judge_comparison(compared(baseline, candidate))
    assert outcome.effect is effect
    assert outcome.effect.red is (effect is Effect.BROKEN)
    text = recommendation([outcome], "acks=all")
    assert text.startswith("Do not apply" if effect is Effect.BROKEN else "Do not decide")
    assert comparison_message(outcome, "acks=all").startswith(effect.value)


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ([1000, 1010, 990], Verdict.INCONCLUSIVE),
        ([850, 860, 1000], Verdict.INCONCLUSIVE),
        ([600, 605, 610], Verdict.REGRESSED),
    ],
)
def test_a_second_look_does_not_make_up_for_rounds_that_did_not_count(second: list[float], verdict: Verdict) -> None:
    """Rounds 1 to 3 slow, round 4 with acknowledged records missing, a clean confirmation run: that was PASS."""
    first = taken(600, 610, 605, last=bad(4, broken=False))
    outcome = second_look(judge_scenario(first, HELD), judge_scenario(taken(*second), HELD), invalid_reasons(first))
    assert outcome.verdict is verdict
    assert outcome.first_look is not None
    if verdict is Verdict.INCONCLUSIVE:
        assert "round 4: generator saturated" in outcome.reasons[-1]
        assert "round 4: generator saturated" in scenario_message(outcome, first, HELD)


def failing_setup(error: TargetError, *, own: bool) -> Any:
    setup = MagicMock()
    setup.target.dedicated = own
    setup.cluster.side_effect = error
    setup.engine.latency_basis.return_value = setup.engine.by_hand.return_value = ""
    return setup


@pytest.mark.parametrize(
    ("error", "own", "broken", "late"),
    [
        (BrokersFailedError("broker 3 ended"), True, True, False),
        (BrokersFailedError("broker 3 ended", perhaps_late=True), True, True, True),
        (BrokersFailedError("broker 3 ended"), False, False, False),
        (TargetError("no port was free"), True, False, False),
    ],
)
def test_a_broker_that_ends_of_itself_is_red_beside_a_fault_too(
    error: TargetError, own: bool, broken: bool, late: bool
) -> None:
    """Another one than the fault took away: it was INVALID, and the night undecided."""
    (found,) = measure_faults(failing_setup(error, own=own), [faulty()], "r")
    (one,) = found.rounds
    assert bool(one.broken) is broken
    assert bool(late_texts(one)) is late
    assert str(error) in one.invalid[0]


def test_what_ended_in_a_round_with_a_fault_is_not_forgotten(tmp_path: Path) -> None:
    dead = BrokersFailedError("broker 3 ended", perhaps_late=True)
    cluster, any_ = MagicMock(), MagicMock()
    cluster.watch.side_effect = dead
    with pytest.raises(BrokersFailedError, match="round 1 of kill-leader: broker 3 ended") as caught:
        fault_round(faulty(), cluster, any_, any_, any_, 1, any_, any_, tmp_path)
    assert caught.value.perhaps_late
