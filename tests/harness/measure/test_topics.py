"""Several topics of a round: those that differ are named, by chance as rarely as is said; unwritten ones are a flaw."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from perfgate.measure.round_topics import CHANCE, RoundTopics, latency_by_topic, slowest, that_differ, unwritten
from perfgate.model import TopicSpec
from perfgate.model.declared import topic_names
from perfgate.model.errors import TopicRefusedError
from perfgate.model.histogram import LatencyRecorder
from tests.harness.build import accounting, load_result, scenario, sent
from tests.harness.corpus.fake_run import Keeper, World

TEN = TopicSpec(partitions=3, replication_factor=1, count=10)


def counts(topics: list[tuple[int, float]], seed: int, batch: int = 1) -> np.ndarray:
    """Coarse counts of topics with so many records, whose latencies are this many times others; batches share one."""
    chance = np.random.default_rng(seed)
    recorder = LatencyRecorder(len(topics))
    for number, (records, factor) in enumerate(topics):
        each = chance.lognormal(-6.0, 0.5, records // batch) * factor
        recorder.record(np.repeat(each, batch), number)
    return np.array(recorder.by_partition(), np.int64).reshape(len(topics), -1)


def test_several_topics_have_numbers_and_a_lone_one_has_none() -> None:
    assert topic_names("t", 1) == ("t",)
    assert topic_names("t", 1000)[::999] == ("t-000", "t-999")
    assert TEN.in_all == 30


@pytest.mark.parametrize("batch", [1, 20])
def test_topics_that_are_alike_are_named_as_rarely_as_is_said(batch: int) -> None:
    chance = np.random.default_rng(5)
    named = 0
    for seed in range(200):
        records = batch * chance.poisson(4_000 / batch, 10)
        named += bool(that_differ(counts([(int(n), 1.0) for n in records], seed, batch), 10.0))
    assert named <= 200 * 2 * CHANCE * 4


def test_a_topic_that_is_slower_or_gets_fewer_records_is_named() -> None:
    slow = that_differ(counts([(4_000, 1.0)] * 9 + [(4_000, 3.0)], 1), 10.0)
    assert [(topic.number, topic.differs) for topic in slow] == [(9, ("p99",))]
    few = that_differ(counts([(2_000, 1.0)] + [(4_000, 1.0)] * 9, 1), 10.0)
    assert [(topic.number, topic.differs, topic.records_per_s) for topic in few] == [(0, ("rate",), 200.0)]


def test_without_scatter_to_hold_it_against_none_is_named() -> None:
    assert that_differ(counts([(4_000, 1.0)] * 3 + [(40, 9.0)], 1), 10.0) == ()


def test_the_slowest_topic_is_found_over_its_partitions() -> None:
    recorder = LatencyRecorder(4)
    for partition, ms in enumerate((1, 2, 8, 4)):
        recorder.record(np.full(10, ms / 1e3), partition)
    result = load_result(sent=sent(latency_by_partition=recorder.by_partition()))
    two = TopicSpec(partitions=2, replication_factor=1, count=2)
    by_topic = latency_by_topic(two, result)
    assert by_topic.sum(axis=1).tolist() == [20, 20]
    assert slowest(by_topic)["slowest_topic_latency_ms.p99"] == pytest.approx(8, rel=1 / 16)
    assert slowest(latency_by_topic(replace(two, partitions=4, count=1), result)) == {}
    apart = load_result(sent=sent(latency_by_topic=recorder.by_partition()))
    assert len(latency_by_topic(TopicSpec(partitions=50, replication_factor=1, count=4), apart)) == 4


@pytest.mark.parametrize(
    ("partitions", "failed", "whose"),
    [
        ([1] * 30, {}, None),
        ([0, 0, 1] * 10, {}, None),
        ([0, 0, 0] + [1] * 27, {}, "load"),
        ([0, 0, 0] + [1] * 27, {"_MSG_TIMED_OUT": 3}, "brokers"),
        ([], {}, None),
    ],
)
def test_topics_left_unwritten_are_the_loads_fault_or_that_of_brokers_that_took_no_record(
    partitions: list[int], failed: dict[str, int], whose: str | None
) -> None:
    told = replace(accounting(), partitions=tuple((n, n) for n in partitions), failed=failed)
    assert [flaw.whose for flaw in unwritten(TEN, told)] == ([whose] if whose else [])
    assert unwritten(TopicSpec(partitions=30, replication_factor=1), told) == (), "a lone topic has no such claim"


def test_the_refusal_of_another_topic_leaves_none_of_a_round() -> None:
    """Where the candidate's topic of a burst was refused, the one of the other side stayed."""
    keeper = Keeper(World(), "cluster-1")
    refused = Mock(side_effect=TopicRefusedError("the other one", "POLICY_VIOLATION"))
    with pytest.raises(TopicRefusedError), RoundTopics(keeper, "r").fresh(scenario()):
        refused()
    assert keeper.ends == {}
