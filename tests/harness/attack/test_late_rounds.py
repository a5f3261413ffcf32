"""Rounds that a busy generator spoilt in part: what the brokers did in them still counts, and what it did explains."""

from dataclasses import replace
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.model import Load, TopicSpec
from perfgate.model.compared import SENT_LATE
from perfgate.model.flaw import explained
from perfgate.model.metrics import SLOWEST_TOPIC
from tests.harness.build import histogram, load_result, scenario, sent
from tests.harness.build.benches import Cluster, bench_of
from tests.harness.live_load import row

SAMPLER = Mock(metrics=Mock(return_value={}), gives=(), unavailable="", why_missing="")
PACED = row(scenario(), load=Load(kind="paced", rate=1000.0))
LATE = sent(
    attempted=2000,
    acked=2000,
    attempted_in_window=2000,
    acked_in_window=2000,
    acked_by_partition=[500] * 4,
    schedule_delay=histogram([0.004] * 995 + [0.03] * 5),
    latency=histogram([0.02] * 1000),
)


@pytest.mark.parametrize(("acked_in_window", "repeatable"), [(2000, True), (1700, False)])
def test_a_round_of_late_sends_is_measured_again_but_where_brokers_did_not_take_the_rate(
    acked_in_window: int, repeatable: bool
) -> None:
    """Four bad rounds of seven became one: each that was also sent late had another try."""
    bench = bench_of(Cluster(), MagicMock(), SAMPLER)
    done = load_result(sent=replace(LATE, acked_in_window=acked_in_window))
    found = bench.finished(PACED, 1, done, [0] * 4, [500] * 4, [-1], SAMPLER)
    assert [flaw.kind for flaw in found.round.flaws] == [SENT_LATE]
    assert bool(found.round.not_sustained) is not repeatable
    assert found.repeatable is repeatable


def test_late_sends_explain_the_wait_of_the_slowest_topic_too() -> None:
    """Its p99 was red by the generator's own lateness, beside a p99 of all that was not judged."""
    several = replace(PACED, topic=TopicSpec(partitions=2, replication_factor=1, count=2))
    bench = bench_of(Cluster(), MagicMock(), SAMPLER)
    found = bench.finished(several, 1, load_result(sent=LATE), [0] * 4, [500] * 4, [-1], SAMPLER).round
    (flaw,) = found.flaws
    assert SLOWEST_TOPIC in flaw.metrics
    _, longest = explained(flaw.doubts, "latency_ms.max")
    assert explained(flaw.doubts, f"{SLOWEST_TOPIC}.p99") == (1.0, longest)
    assert longest > 59
