"""The verdict over a fault at its edges: promises by their settings, sessions, halves of the rounds, and growth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from perfgate.judge.faults.expectation import expected_outage
from perfgate.judge.faults.rules import judge_fault
from perfgate.judge.scenario_case import judge_scenario
from perfgate.model import ClusterSpec, Fault, FaultScenario, Judgement, Load, Measurement, Round, Verdict, settings
from tests.harness.build import scenario, threshold
from tests.harness.build.faults import history, one_fault

RATE = 200.0
SAFE = {"acks": "all", "enable.idempotence": "true"}
QUIET = {"receive_outage_s.max": 0.1, "outage_resolution_s": 0.02}


def row(kind: str = "kill-leader", producer: Mapping[str, str] = SAFE, **fault: float) -> FaultScenario:
    found = replace(scenario(kind), producer=settings(producer), load=Load(kind="paced", rate=RATE))
    return FaultScenario.of(found, Fault(kind=kind, hold_s=fault.get("hold_s", 15.0)))


@cache
def a_round() -> Round:
    """Return a round with an outage of 8 s, of the 12.1 s that the settings predict."""
    return one_fault(history())


def measured(of: FaultScenario, *rounds: Mapping[str, Any]) -> Measurement:
    """Return a measurement whose rounds have these metrics, fields of what happened, or counts of damage.

    A metric that is None is left out.
    """
    made = []
    for index, given in enumerate(rounds, 1):
        one, failover = a_round(), a_round().failover
        assert failover
        fields = {name: value for name, value in given.items() if hasattr(failover, name) and name != "integrity"}
        damage = {name: given[name] for name in given if name in (*failover.integrity, "failed", "timed_out")}
        rest = {name: value for name, value in given.items() if name not in fields and name not in damage}
        metrics = {name: value for name, value in {**one.metrics, **QUIET, **rest}.items() if value is not None}
        failover = replace(failover, **fields, integrity={**failover.integrity, **damage})
        made.append(replace(one, index=index, metrics=metrics, failover=failover))
    return Measurement(scenario=of, rounds=tuple(made), rtt_ms={})


def verdict(of: FaultScenario, *rounds: Mapping[str, Any]) -> Verdict:
    return judge_scenario(measured(of, *rounds), None).verdict


def judgements(of: FaultScenario, metric: str, *rounds: Mapping[str, Any], held: Sequence[Any] = ()) -> list[Judgement]:
    return [one for one in judge_fault(of, measured(of, *rounds), held).judgements if one.metric == metric]


def test_what_these_rounds_are_without_a_change() -> None:
    assert verdict(row(), {}, {}) is Verdict.PASS
    assert expected_outage(row()).high_s == pytest.approx(12.125)


@pytest.mark.parametrize(
    ("acks", "idempotence", "promise"),
    [
        ("all", "true", "all"),
        ("-1", "true", "all"),
        ("ALL", "True", "all"),
        ("-1", "t", "all"),
        ("all", "1", "all"),
        ("-1", "false", "lost"),
        ("all", "", "lost"),
        ("1", "false", "none"),
        ("0", "false", "none"),
        ("2", "false", "none"),
    ],
)
def test_which_damage_is_red_follows_from_acks_and_idempotence(acks: str, idempotence: str, promise: str) -> None:
    """`acks=-1` is `all` by its other name: lost records of it were "allowed" in a mutant that nobody saw."""
    ruled_out = {
        "all": {"lost", "duplicated", "reordered", "divergent", "regressed", "phantom"},
        "lost": {"lost", "phantom"},
        "none": {"phantom"},
    }[promise]
    producer = {"acks": acks, **({"enable.idempotence": idempotence} if idempotence else {})}
    for kind in ("lost", "duplicated", "reordered", "divergent", "regressed", "phantom"):
        found = verdict(row(producer=producer), {}, {kind: 1})
        assert (found is Verdict.REGRESSED) is (kind in ruled_out), kind


@pytest.mark.parametrize("kind", ["lost", "duplicated"])
@pytest.mark.parametrize(("count", "red"), [(200, False), (201, True)])
def test_without_a_promise_what_is_sent_in_a_second_may_be_lost_and_no_more(kind: str, count: int, red: bool) -> None:
    loose = row(producer={"acks": "1"})
    assert (verdict(loose, {kind: count}, {}) is Verdict.REGRESSED) is red
    assert verdict(loose, {kind: 150}, {kind: 150}) is Verdict.PASS, "of one round, not of all"


@pytest.mark.parametrize(
    ("sessions", "outage_s", "wanted"),
    [
        ((18.0, 18.0), 19.0, Verdict.PASS),
        ((18.0, 3.0), 19.0, Verdict.PASS),
        ((3.0, 18.0), 19.0, Verdict.PASS),
        ((3.0, 3.0), 19.0, Verdict.REGRESSED),
        ((None, 18.0), 19.0, Verdict.PASS),
        ((0.0, 18.0), 19.0, Verdict.INCONCLUSIVE),
        ((18.0, 0.0), 19.0, Verdict.INCONCLUSIVE),
        ((0.0, 18.0), 23.0, Verdict.REGRESSED),
        ((None, None), 19.0, Verdict.REGRESSED),
    ],
)
def test_of_sessions_that_differ_the_longest_counts_and_none_where_one_is_not_known(
    sessions: tuple[float | None, ...], outage_s: float, wanted: Verdict
) -> None:
    rounds = [{"session_s": session_s, "outage_s.max": outage_s} for session_s in sessions]
    assert verdict(row(), *rounds) is wanted


@pytest.mark.parametrize(
    ("session_s", "outage_s", "effect"),
    [
        (None, 3.5, True),
        (None, 3.49, False),
        (3.0, 1.0, True),
        (3.0, 0.99, False),
        (18.0, 8.0, True),
        (18.0, 7.9, False),
        (0.0, 3.5, True),
        (0.0, 3.49, False),
    ],
)
def test_half_of_the_least_that_a_fault_costs_is_an_effect(
    session_s: float | None, outage_s: float, effect: bool
) -> None:
    """A session of 9 s, or what brokers tell, less their heartbeat of 2 s, or a third of the session."""
    rounds = [{"session_s": session_s, "outage_s.max": found} for found in (outage_s, max(outage_s, 8.0))]
    outcome = judge_scenario(measured(row(), *rounds), None)
    assert ("the fault had no effect" in str(outcome.reasons)) is not effect


@pytest.mark.parametrize(
    ("kind", "usual_ms", "outage_s", "wanted"),
    [
        ("stop-leader", 10.0, 3.1, Verdict.PASS),
        ("stop-leader", 10.0, 3.11, Verdict.REGRESSED),
        ("stop-leader", 200.0, 5.0, Verdict.PASS),
        ("stop-leader", 300.0, 5.0, Verdict.PASS),
        ("stop-leader", 300.0, 5.1, Verdict.INCONCLUSIVE),
        ("stop-leader", 300.0, 6.0, Verdict.INCONCLUSIVE),
        ("stop-leader", 300.0, 6.1, Verdict.REGRESSED),
        ("stop-leader", 900.0, 7.0, Verdict.INCONCLUSIVE),
        ("stop-leader", 900.0, 7.1, Verdict.REGRESSED),
        ("slow-follower", 10.0, 1.1, Verdict.PASS),
        ("slow-follower", 10.0, 1.11, Verdict.REGRESSED),
    ],
)
def test_what_moving_leaders_may_cost_is_known_to_the_hundredth_of_a_second(
    kind: str, usual_ms: float, outage_s: float, wanted: Verdict
) -> None:
    """3 s and ten requests, of which only 0.2 s each are surely not the brokers' doing; at most what a kill costs."""
    found = {"outage_s.max": outage_s, "latency_before_ms.p99": usual_ms}
    of_outage = judgements(row(kind), "outage_s.max", found, found)
    assert [one.verdict for one in of_outage] == [wanted]


@pytest.mark.parametrize(
    ("beyond", "wanted"),
    [
        ((False, False), Verdict.PASS),
        ((True, False, False), Verdict.INCONCLUSIVE),
        ((True, True, False), Verdict.REGRESSED),
        ((True, True), Verdict.REGRESSED),
    ],
)
def test_an_outage_beyond_the_prediction_is_red_by_its_median(beyond: tuple[bool, ...], wanted: Verdict) -> None:
    assert verdict(row(), *[{"outage_s.max": 12.13 if one else 12.12} for one in beyond]) is wanted


@pytest.mark.parametrize(
    ("failed", "wanted"),
    [
        ((0, 0), Verdict.PASS),
        ((1, 0), Verdict.INCONCLUSIVE),
        ((200, 200), Verdict.INCONCLUSIVE),
        ((201, 0), Verdict.INCONCLUSIVE),
        ((201, 201), Verdict.REGRESSED),
        ((201, 201, 0), Verdict.REGRESSED),
        ((201, 201, 0, 0), Verdict.INCONCLUSIVE),
    ],
)
def test_sends_that_failed_are_red_where_they_are_more_than_a_seconds_in_most_rounds(
    failed: tuple[int, ...], wanted: Verdict
) -> None:
    assert verdict(row(), *[{"failed": count} for count in failed]) is wanted


@pytest.mark.parametrize(
    ("tried_ms", "kind", "wanted"),
    [
        (None, "timed_out", Verdict.REGRESSED),
        (24_251, "timed_out", Verdict.REGRESSED),
        (24_250, "timed_out", Verdict.INCONCLUSIVE),
        (24_250, "failed", Verdict.REGRESSED),
        (12_126, "failed", Verdict.REGRESSED),
        (12_125, "failed", Verdict.PASS),
        (0, "timed_out", Verdict.REGRESSED),
    ],
)
@pytest.mark.parametrize("name", ["delivery.timeout.ms", "message.timeout.ms"])
def test_a_time_out_is_red_where_it_was_tried_for_twice_as_long_as_service_takes(
    tried_ms: int | None, kind: str, wanted: Verdict, name: str
) -> None:
    producer = {**SAFE, **({} if tried_ms is None else {name: str(tried_ms)})}
    assert verdict(row(producer=producer), {kind: 500}, {kind: 500}) is wanted


@pytest.mark.parametrize("producer", [{**SAFE, "retries": "0"}, {"acks": "1"}])
def test_sends_may_fail_that_are_not_tried_again_or_promise_nothing(producer: dict[str, str]) -> None:
    assert verdict(row(producer=producer), {"failed": 500}, {"failed": 500}) is Verdict.PASS


@pytest.mark.parametrize(
    ("lacking", "wanted"),
    [(0, Verdict.PASS), (1, Verdict.INCONCLUSIVE), (2, Verdict.INCONCLUSIVE), (3, Verdict.REGRESSED)],
)
def test_half_of_the_rounds_that_never_were_as_before_are_not_most(lacking: int, wanted: Verdict) -> None:
    never: dict[str, Any] = {"recovery_s": None, "rate_recovery_s": None}
    assert verdict(row(), *[never] * lacking, *[{}] * (4 - lacking)) is wanted
    behind: dict[str, Any] = {"lag_drained_s": None}
    assert verdict(row(), *[behind] * lacking, *[{}] * (4 - lacking)) is wanted


@pytest.mark.parametrize(("lasted_s", "wanted"), [(17.1, Verdict.INCONCLUSIVE), (17.2, Verdict.REGRESSED)])
def test_consumers_that_never_caught_up_had_time_enough_in_each_round(lasted_s: float, wanted: Verdict) -> None:
    """12.1 s of outage and 5 s to find the leaders: the shortest of the rounds counts."""
    behind: dict[str, Any] = {"lag_drained_s": None}
    brief = {**behind, "phases": {"before": (-10.0, 0.0), "restored": (5.0, lasted_s), "no leader": (0.0, 5.0)}}
    assert verdict(row(), behind, brief, behind) is wanted


def test_of_catching_up_and_of_staying_so_the_worse_counts() -> None:
    away = row("consumers-away")
    again: dict[str, Any] = {"catch_up_s": 1.0, "lag_drained_s": None, "phases": {"restored": (5.0, 900.0)}}
    never = {**again, "catch_up_s": None}
    for rounds in ([again] * 3, [never, again, again]):
        assert [one.verdict for one in judgements(away, "lag_drained_s", *rounds)] == [Verdict.REGRESSED]
    assert [one.verdict for one in judgements(away, "catch_up_s", *[never] * 3)] == [Verdict.REGRESSED]


def elected(*in_s: float | None, hold_s: float = 15.0, brokers: int = 3) -> list[Verdict]:
    """Return what is said of rounds in which another controller was elected after so many seconds (None: never)."""
    found = row("kill-controller", hold_s=hold_s)
    cluster = ClusterSpec(brokers=brokers)
    marks = ((0.0, "kill node 1"), (hold_s, "start node 1"))
    rounds = [
        {"controller_changes": 1.0, "marks": marks, "split": {} if s is None else {"controller_s": s}} for s in in_s
    ]
    return [one.verdict for one in judgements(replace(found, cluster=cluster), "controller_changes", *rounds)]


def test_half_of_the_rounds_without_a_new_controller_are_in_doubt_and_most_are_red() -> None:
    assert elected(3.0, 14.99) == []
    assert elected(3.0, 15.0) == [Verdict.INCONCLUSIVE], "it came when the old one was there again"
    assert elected(3.0, None) == [Verdict.INCONCLUSIVE]
    assert elected(None, None, 3.0) == [Verdict.REGRESSED]
    assert elected(None, hold_s=10.0) == [Verdict.REGRESSED]
    assert elected(None, hold_s=9.99) == [], "it may be back before the others had the time"
    assert elected(None, brokers=2) == [], "the one that is left is no majority"


@pytest.mark.parametrize(
    ("metric", "doubtful", "limit"),
    [("p99_growth", 1.5, 2.0), ("cpu_per_record_growth", 1.5, 2.0), ("memory_growth", 1.25, 1.5)],
)
def test_growth_is_in_doubt_beyond_a_half_and_red_beyond_twice(metric: str, doubtful: float, limit: float) -> None:
    long = row("time", hold_s=36.0)
    for value, wanted in (
        (doubtful, Verdict.PASS),
        (doubtful + 0.01, Verdict.INCONCLUSIVE),
        (limit, Verdict.INCONCLUSIVE),
        (limit + 0.01, Verdict.REGRESSED),
    ):
        found = judgements(long, metric, {metric: value}, {metric: value})
        assert [one.verdict for one in found] == [wanted]


@pytest.mark.parametrize(("hold_s", "lacking"), [(29.9, False), (30.0, True)])
def test_a_long_load_without_its_growth_is_in_doubt(hold_s: float, lacking: bool) -> None:
    found = judgements(row("time", hold_s=hold_s), "memory_growth", {}, {})
    assert [one.verdict for one in found] == [Verdict.INCONCLUSIVE] * lacking
    assert not judgements(row("kill-leader", hold_s=hold_s), "memory_growth", {}, {})


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ((1.0, None), Verdict.INCONCLUSIVE),
        ((1.0, 1.0, None), Verdict.INCONCLUSIVE),
        ((1.4, 1.4, None), Verdict.INCONCLUSIVE),
        ((1.6, 1.6, None), Verdict.REGRESSED),
    ],
)
def test_growth_that_a_round_lacks_is_not_known_to_be_none(times: tuple[float | None, ...], wanted: Verdict) -> None:
    """The other rounds alone said PASS."""
    rounds = [{} if one is None else {"memory_growth": one} for one in times]
    found = judgements(row("time", hold_s=36.0), "memory_growth", *rounds)
    assert [one.verdict for one in found] == [wanted]


@pytest.mark.parametrize(
    ("outages_s", "wanted"),
    [
        ((10.0, 10.0, 10.0), Verdict.PASS),
        ((10.0, 10.0, 12.5), Verdict.INCONCLUSIVE),
        ((10.0, 12.0, 12.0), Verdict.REGRESSED),
        ((11.0, 11.0, 11.0), Verdict.PASS),
        ((11.01, 11.01, 11.01), Verdict.REGRESSED),
    ],
)
def test_one_outage_beyond_its_stored_limit_and_the_prediction_is_in_doubt(
    outages_s: tuple[float, ...], wanted: Verdict
) -> None:
    held = [threshold("outage_s.max", 10.0, name="kill-leader")]
    found = judgements(row(), "outage_s.max", *[{"outage_s.max": s} for s in outages_s], held=held)
    assert found[0].verdict is wanted


@pytest.mark.parametrize(
    ("recovered_s", "wanted"),
    [
        ((10.0, 10.0, 10.0), Verdict.PASS),
        ((10.0, 10.0, 30.0), Verdict.PASS),
        ((10.0, 30.0, 30.0), Verdict.REGRESSED),
        ((10.0, 10.0, None), Verdict.INCONCLUSIVE),
        ((10.0, None, None), Verdict.REGRESSED),
        ((None,), Verdict.REGRESSED),
        ((30.0,), Verdict.REGRESSED),
        ((10.0, 30.0), Verdict.PASS),
        ((10.0, 34.1), Verdict.INCONCLUSIVE),
        ((10.0, 40.0), Verdict.INCONCLUSIVE),
    ],
)
def test_a_time_that_never_ended_is_beyond_every_limit_and_once_it_may_be_chance(
    recovered_s: tuple[float | None, ...], wanted: Verdict
) -> None:
    held = [threshold("recovery_s", 20.0, name="kill-leader")]
    found = judgements(row(), "recovery_s", *[{"recovery_s": s} for s in recovered_s], held=held)
    assert [one.verdict for one in found] == [wanted]


@pytest.mark.parametrize(
    ("rate", "outage_s", "wanted"),
    [
        (0.0, 11.5, Verdict.REGRESSED),
        (182.0, 11.5, Verdict.REGRESSED),
        (181.0, 11.5, Verdict.INCONCLUSIVE),
        (181.0, 13.0, Verdict.REGRESSED),
        (181.0, 10.0, Verdict.PASS),
        (223.0, 10.0, Verdict.INCONCLUSIVE),
        (222.0, 10.0, Verdict.PASS),
        (223.0, 11.5, Verdict.REGRESSED),
    ],
)
def test_a_limit_of_another_rate_explains_as_much_as_there_was_more_and_holds_nothing_for_less(
    rate: float, outage_s: float, wanted: Verdict
) -> None:
    """Of 200 records/s; a limit that lies 10 % off is of no load that is more off than that."""
    held = [replace(threshold("outage_s.max", 10.0, name="kill-leader"), rate=rate)]
    found = judgements(row(), "outage_s.max", {"outage_s.max": outage_s}, {"outage_s.max": outage_s}, held=held)
    assert found[0].verdict is wanted


def test_recordings_that_do_not_count_failed_sends_have_none() -> None:
    found = measured(row(), {}, {})
    rounds = []
    for one in found.rounds:
        assert one.failover
        kept = {name: n for name, n in one.failover.integrity.items() if name not in ("failed", "timed_out")}
        rounds.append(replace(one, failover=replace(one.failover, integrity=kept)))
    assert judge_scenario(replace(found, rounds=tuple(rounds)), None).verdict is Verdict.PASS


def test_what_a_late_load_explains_of_an_outage_is_said_in_its_unit() -> None:
    late = {"outage_s.max": 13.0, "late_sends_s": 2.0}
    (judged, *_) = judgements(row(), "outage_s.max", late, late)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "without that it is 11.00 s, which explains 2 s of the 13 s measured" in judged.reason
    (judged, *_) = judgements(row(), "outage_s.max", *[{**late, "outage_s.max": 15.0}] * 2)
    assert judged.verdict is Verdict.REGRESSED
    assert "red in spite of: sends were late themselves" in judged.reason


@pytest.mark.parametrize(
    ("kind", "of_cluster", "of_topic", "red"),
    [
        ("kill-leader", None, None, True),
        ("kill-leader", "false", None, True),
        ("kill-leader", "true", None, False),
        ("kill-leader", None, "true", False),
        ("two-down", None, None, False),
    ],
)
def test_a_leader_that_was_not_in_sync_is_red_unless_a_setting_or_the_fault_allows_it(
    kind: str, of_cluster: str | None, of_topic: str | None, red: bool
) -> None:
    found, name = row(kind), "unclean.leader.election.enable"
    cluster = replace(found.cluster, config=settings({name: of_cluster} if of_cluster else {}))
    topic = replace(found.topic, config=settings({name: of_topic} if of_topic else {}))
    told = judgements(replace(found, cluster=cluster, topic=topic), "unclean_elections", {"unclean_elections": 1.0}, {})
    assert [one.verdict for one in told] == [Verdict.REGRESSED] * red


def test_sends_of_which_nothing_is_known_were_not_late() -> None:
    unknown: dict[str, Any] = {"late_sends_s": None, "outage_s.max": 12.5}
    assert verdict(row(), unknown, unknown) is Verdict.REGRESSED
    assert verdict(row(), *[{**unknown, "late_sends_s": 1.0}] * 2) is Verdict.INCONCLUSIVE


def test_where_no_latency_before_is_known_none_is_allowed_for() -> None:
    unknown: dict[str, Any] = {"latency_before_ms.p99": None}
    for outage_s, wanted in ((3.0, Verdict.PASS), (3.01, Verdict.REGRESSED)):
        found = {**unknown, "outage_s.max": outage_s}
        assert [one.verdict for one in judgements(row("stop-leader"), "outage_s.max", found, found)] == [wanted]
