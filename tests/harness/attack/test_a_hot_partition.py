"""A hot partition whose records are lost or slow must be red, though every total and the p99 of all hide it."""

from dataclasses import replace

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import round_of
from perfgate.measure.flaw import of_parts
from perfgate.measure.validity import accounting_of, round_flaws
from perfgate.model import Load, Measurement, Round, Verdict, with_changes
from perfgate.model.metrics import HOTTEST
from tests.harness.build import measurement, profile, scenario, threshold
from tests.harness.build.loads import load_result, sent
from tests.harness.build.rounds import histogram

ROW = with_changes(
    replace(scenario("hot-key"), load=Load(kind="paced", rate=1000)),
    [("record.keys", "hot:count=100,share=0.5"), ("producer.acks", -1)],
)
WRITTEN = [400, 2200, 400]
"""Records acknowledged by partition: the second one is hot."""
HELD = profile(
    *(
        replace(threshold(metric, baseline, tolerance), scenario="hot-key")
        for metric, baseline, tolerance in (
            ("latency_ms.p99", 1.0, 0.5),
            ("hottest_partition_latency_ms.p99", 4.0, 0.5),
            ("broker_cpu_us_per_record", 50.0, 0.1),
        )
    )
)


def rounds(ends: list[int], hottest_ms: float = 4.0, *, promised: bool = True) -> Measurement:
    def one(index: int) -> Round:
        result = load_result(
            sent=sent(acked_by_partition=WRITTEN, schedule_delay=histogram([1e-4]), latency=histogram([0.001] * 99))
        )
        whole = accounting_of(result.sent, [0, 0, 0], ends)
        found = round_flaws(ROW.load, result, whole, {}, shares_cores=False, promised=promised)
        brokers = {"broker_cpu_us_per_record": 50.0, f"{HOTTEST}.p99": hottest_ms}
        return round_of(index, result, whole, brokers, tuple(of_parts(flaw, [HOTTEST]) for flaw in found), "")

    return replace(measurement([1000.0], "hot-key"), scenario=ROW, rounds=tuple(map(one, range(1, 6))))


@pytest.mark.parametrize("ends", [[400, 2199, 400], [400, 2199, 401], [401, 2100, 499]])
def test_records_of_the_hot_partition_that_are_lost_are_red(ends: list[int]) -> None:
    """Also where as many came into the other partitions, so that the sum is right."""
    outcome = judge_scenario(rounds(ends), HELD)
    assert outcome.verdict is Verdict.BROKEN
    assert any("partition 1: 2,200 and" in reason for reason in outcome.reasons), outcome.reasons


def test_all_of_them_there_is_green() -> None:
    assert judge_scenario(rounds(WRITTEN), HELD).verdict is Verdict.PASS


def test_a_hot_partition_that_waits_is_red_by_itself() -> None:
    outcome = judge_scenario(rounds(WRITTEN, 40.0), HELD)
    assert outcome.verdict is Verdict.REGRESSED
    red = [one.metric for one in outcome.judgements if one.verdict is Verdict.REGRESSED]
    assert red == ["hottest_partition_latency_ms.p99"]
