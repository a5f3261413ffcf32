"""A topic of several that nothing was written to: a rate over the others alone passed for that of all."""

from unittest.mock import MagicMock, Mock

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.model import Measurement, TopicSpec, Verdict
from tests.harness.build import load_result, scenario, sent
from tests.harness.build.benches import Cluster, bench_of
from tests.harness.live_load import row

TOPICS = TopicSpec(partitions=2, replication_factor=1, count=3)
WHOLE = [100, 100, 100, 100, 100, 100]
SAMPLER = Mock(metrics=Mock(return_value={}), gives=(), unavailable="", why_missing="")


@pytest.mark.parametrize(
    ("acked", "failed", "verdict", "words"),
    [
        (WHOLE, {}, None, ""),
        ([150, 150, 150, 150, 0, 0], {}, Verdict.INVALID, "1 of 3 topics were left unwritten: 002"),
        ([100, 100, 100, 100, 0, 0], {"_MSG_TIMED_OUT": 200}, Verdict.BROKEN, "1 of 3 topics were left unwritten: 002"),
    ],
)
def test_a_round_that_left_a_topic_unwritten_is_never_green(
    acked: list[int], failed: dict[str, int], verdict: Verdict | None, words: str
) -> None:
    several = row(scenario(), topic=TOPICS)
    done = sum(acked)
    offered = sent(
        attempted=done + sum(failed.values()),
        acked=done,
        failed=failed,
        errors=dict.fromkeys(failed, ""),
        attempted_in_window=done,
        acked_in_window=done,
        acked_by_partition=acked,
    )
    cluster = Cluster()
    cluster.dedicated = True
    bench = bench_of(cluster, MagicMock(), SAMPLER)
    found = bench.finished(several, 1, load_result(sent=offered), [0] * 6, acked, [-1], SAMPLER).round
    assert any("left unwritten" in text for text in found.invalid) is bool(words)
    if verdict:
        rounds = Measurement(scenario=several, rounds=(found, found), rtt_ms={})
        outcome = judge_scenario(rounds, None)
        assert outcome.verdict is verdict
        assert any(words in reason for reason in outcome.reasons)
