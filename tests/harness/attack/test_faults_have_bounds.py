"""15,000 records of an acks=1 row lost, or six unclean elections, and PASS: nothing bounded what was not promised."""

from dataclasses import replace

import pytest

from perfgate.judge.faults.rules import UNPROMISED_S
from perfgate.judge.limits import reach_of
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import largest_reach
from perfgate.model import Measurement, Verdict, settings
from perfgate.report.proposal import proposed
from perfgate.report.results import scenario_entry
from perfgate.report.terminal_tables import outage_note
from tests.harness.build import measurement, profile, threshold
from tests.harness.build.faults import faulty, history, measured

ACKS_1 = {"acks": "1", "enable.idempotence": "false"}
DOUBLES = {"enable.idempotence": "false"}


def with_count(taken: Measurement, kind: str, count: int) -> Measurement:
    (one,) = taken.rounds
    assert one.failover is not None
    failover = replace(one.failover, integrity={**one.failover.integrity, kind: count})
    return replace(taken, rounds=(replace(one, failover=failover),))


@pytest.mark.parametrize(
    ("producer", "kind", "seconds", "verdict"),
    [
        (ACKS_1, "lost", 0.01, Verdict.PASS),
        (ACKS_1, "lost", 1.0, Verdict.PASS),
        (ACKS_1, "lost", 1.01, Verdict.REGRESSED),
        (ACKS_1, "lost", 25.0, Verdict.REGRESSED),
        (ACKS_1, "duplicated", 0.5, Verdict.PASS),
        (ACKS_1, "duplicated", 2.0, Verdict.REGRESSED),
        (DOUBLES, "duplicated", 0.5, Verdict.PASS),
        (DOUBLES, "duplicated", 2.0, Verdict.REGRESSED),
        (DOUBLES, "lost", 0.001, Verdict.REGRESSED),
    ],
)
def test_what_is_not_promised_is_bounded_all_the_same(
    producer: dict[str, str], kind: str, seconds: float, verdict: Verdict
) -> None:
    row = faulty(producer)
    count = round(seconds / UNPROMISED_S * row.load.rate)
    outcome = judge_scenario(with_count(measured(row, history()), kind, count), None)
    assert outcome.verdict is verdict
    if verdict is Verdict.REGRESSED:
        assert f"{count:,} {kind}" in outcome.reasons[0]


@pytest.mark.parametrize(
    ("kind", "config", "verdict"),
    [
        ("kill-leader", {}, Verdict.REGRESSED),
        ("stop-leader", {"unclean.leader.election.enable": "false"}, Verdict.REGRESSED),
        ("kill-leader", {"unclean.leader.election.enable": "true"}, Verdict.PASS),
        ("two-down", {}, Verdict.PASS),
    ],
)
def test_a_leader_that_was_not_in_sync_is_red(kind: str, config: dict[str, str], verdict: Verdict) -> None:
    row = faulty(kind=kind)
    row = replace(row, cluster=replace(row.cluster, config=settings(config)))
    taken = measured(row, history(down=kind != "stop-leader"))
    assert judge_scenario(taken, None).verdict is Verdict.PASS
    (one,) = taken.rounds
    elected = replace(taken, rounds=(replace(one, metrics={**one.metrics, "unclean_elections": 6.0}),))
    outcome = judge_scenario(elected, None)
    assert outcome.verdict is verdict
    assert any("6 leaders were elected" in reason for reason in outcome.reasons) is (verdict is Verdict.REGRESSED)


def test_a_row_without_a_stored_outage_says_so() -> None:
    taken = {"kill-leader": measured(faulty(), history())}
    assert "no outage is stored for 1 of these scenarios" in outage_note(taken, None, "baseline")
    assert "1 of these" in outage_note(taken, profile(threshold("recovery_s", 9.0, name="kill-leader")), "baseline")
    assert outage_note(taken, profile(threshold("outage_s.max", 8.0, name="kill-leader")), "baseline") == ""
    assert outage_note({"batch-1k": measurement([1000, 1010])}, None, "baseline") == ""


def with_rounds(metric: str, *values: float | None) -> Measurement:
    taken = measured(faulty(kind="stop-leader"), history(down=False))
    (one,) = taken.rounds
    others = {name: value for name, value in one.metrics.items() if name != metric}
    metrics = [others if value is None else {**others, metric: value} for value in values]
    return replace(taken, rounds=tuple(replace(one, index=i, metrics=found) for i, found in enumerate(metrics, 1)))


@pytest.mark.parametrize(
    ("metric", "values", "verdict"),
    [
        ("outage_s.max", (1.4, 1.5, 1.6), Verdict.PASS),
        # Within what the settings predict: 3 s where leaders move in good order.
        ("outage_s.max", (1.4, 1.5, 2.6), Verdict.PASS),
        ("outage_s.max", (1.4, 1.5, 30.0), Verdict.INCONCLUSIVE),
        ("outage_s.max", (1.4, 1.5, 1.5, 1.6, 30.0), Verdict.INCONCLUSIVE),
        ("outage_s.max", (1.4, 30.0, 30.0), Verdict.REGRESSED),
        ("recovery_s", (1.4, 1.5, 30.0), Verdict.PASS),
        ("recovery_s", (1.4, 1.5, 1.5, 30.0, 30.0), Verdict.INCONCLUSIVE),
        ("recovery_s", (1.4, 30.0, 30.0), Verdict.REGRESSED),
    ],
)
def test_no_median_hides_a_long_outage(metric: str, values: tuple[float, ...], verdict: Verdict) -> None:
    """A minority of rounds far beyond a stored limit was green: kill a leader five times, 40 s without it twice."""
    outcome = judge_scenario(with_rounds(metric, *values), profile(threshold(metric, 1.5, 0.5, name="kill-leader")))
    assert outcome.verdict is verdict, outcome.judgements
    assert verdict is not Verdict.INCONCLUSIVE or "rounds beyond" in outcome.reasons[0]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((1.4, 1.5, None), Verdict.INCONCLUSIVE),
        ((1.4, None), Verdict.INCONCLUSIVE),
        ((30.0, 30.0, None), Verdict.REGRESSED),
        ((1.4, None, None), Verdict.REGRESSED),
        ((None,), Verdict.REGRESSED),
    ],
)
def test_a_round_of_several_that_never_got_there_is_not_red(values: tuple[float | None, ...], verdict: Verdict) -> None:
    """One round without a p99 as before, which happens by chance, was red: worse than one of 30 s, which was PASS."""
    held = profile(threshold("recovery_s", 1.5, 0.5, name="kill-leader"))
    outcome = judge_scenario(with_rounds("recovery_s", *values), held)
    assert outcome.verdict is verdict, outcome.judgements
    assert verdict is not Verdict.INCONCLUSIVE or "1 of " in outcome.reasons[0]


def test_no_baseline_is_proposed_of_a_time_that_a_recorded_round_lacks() -> None:
    def found(*values: float | None) -> set[str]:
        taken = with_rounds("recovery_s", *values)
        entry = scenario_entry(taken, judge_scenario(taken, None))
        return {one.metric for one in proposed([{"scenarios": [entry]}] * 5)}

    assert "recovery_s" in found(1.4, 1.5)
    assert found(1.4, 1.5) - found(1.4, None) == {"recovery_s"}, "the median of the others hides what happens by chance"


@pytest.mark.parametrize("metric", ["receive_outage_s.max", "others_receive_outage_s.max"])
@pytest.mark.parametrize(("waited_s", "verdict"), [(7.0, Verdict.PASS), (9.0, Verdict.REGRESSED)])
def test_what_consumers_wait_is_bounded_where_noise_made_its_limit_wide(
    metric: str, waited_s: float, verdict: Verdict
) -> None:
    """The settings predict 8 s where leaders move in good order; a stored limit of 9.5 s took that away."""
    held = profile(threshold(metric, 5.0, 0.1, name="kill-leader", reach=0.9))
    assert judge_scenario(with_rounds(metric, waited_s), held).verdict is verdict


@pytest.mark.parametrize(
    ("metric", "baseline", "spread", "found", "verdict"),
    [
        ("recovery_s", 12.0, 0.1, 17.0, Verdict.PASS),  # ten runs: 16.2 s for two looks, 18.9 s for one
        ("recovery_s", 12.0, 0.1, 19.0, Verdict.REGRESSED),
        # A limit lies at 1.9 times its baseline at most: beyond it, noise may explain it.
        ("recovery_s", 12.0, 0.4, 30.0, Verdict.INCONCLUSIVE),
        ("recovery_s", 12.0, 0.4, 45.0, Verdict.REGRESSED),
        # And so may the settings: 3 s where leaders move in good order.
        ("outage_s.max", 0.12, 0.4, 0.2, Verdict.PASS),
        ("outage_s.max", 0.12, 0.4, 2.5, Verdict.INCONCLUSIVE),
        ("outage_s.max", 0.12, 0.4, 3.5, Verdict.REGRESSED),
        ("outage_s.max", 0.12, 0.1, 2.5, Verdict.REGRESSED),
    ],
)
def test_a_fault_has_one_look_and_a_limit_for_one(
    metric: str, baseline: float, spread: float, found: float, verdict: Verdict
) -> None:
    """Limits were made for two looks that have to be red; a fault is not done again."""
    reach = min(largest_reach(metric), reach_of(0.1, spread, 10))
    stored = replace(threshold(metric, baseline, 0.1, name="kill-leader", reach=reach), spread=spread, runs=10)
    outcome = judge_scenario(with_rounds(metric, found), profile(stored))
    assert outcome.verdict is verdict, outcome.judgements
    assert verdict is not Verdict.INCONCLUSIVE or "runs scatter by 40 %" in outcome.reasons[0]
