"""Topics that a run makes on real brokers: the unsure ones are deleted, replicas stay where the scenario says."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from perfgate.model import TopicSpec
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.systems.attached.manifest import Manifest, leftovers
from perfgate.systems.kafka.attached.cluster import JournaledTopics
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import answered, partition


class Cluster:
    """Stands in for what topics need of a cluster."""

    def bootstrap(self, _link: object) -> str:
        return "127.0.0.1:1"

    def client_settings(self) -> tuple[tuple[str, str], ...]:
        return ()

    def check(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "may_be_there"),
    [
        (KafkaException(KafkaError(KafkaError.POLICY_VIOLATION)), False),
        (KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)), False),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), True),
        (KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)), True),
        (TimeoutError(), True),
    ],
)
def test_a_topic_of_which_nobody_knows_whether_it_was_made_is_deleted_in_the_end(
    tmp_path: Path, error: Exception, may_be_there: bool
) -> None:
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    topics = JournaledTopics(Cluster(), manifest)  # type: ignore[arg-type]
    reply = Mock(result=Mock(side_effect=error))
    deleted: list[str] = []

    def delete_topics(names: list[str], **_: object) -> dict[str, Any]:
        deleted.extend(names)
        return {
            name: Mock(result=Mock(side_effect=KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))))
            for name in names
        }

    topics._admin = Mock(
        create_topics=Mock(return_value={"kpg-x": reply}),
        delete_topics=delete_topics,
        list_consumer_groups=Mock(return_value=Mock(result=Mock(return_value=Mock(valid=[])))),
    )
    with pytest.raises(BrokersFailedError if may_be_there else TopicRefusedError):
        topics.create("kpg-x", TopicSpec(partitions=1, replication_factor=1))
    assert topics.delete_all() == [], "a topic that is not there is deleted"
    assert deleted == (["kpg-x"] if may_be_there else [])
    manifest.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answers", "left"),
    [
        ([None, KafkaError.POLICY_VIOLATION, None], []),
        ([KafkaError.POLICY_VIOLATION, KafkaError._TIMED_OUT, None], ["kpg-x-000", "kpg-x-001", "kpg-x-002"]),
    ],
)
def test_of_several_topics_none_stays_where_one_is_refused(
    tmp_path: Path, answers: list[int | None], left: list[str]
) -> None:
    """Where an answer got lost all stay noted, and are deleted in the end."""
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    topics = JournaledTopics(Cluster(), manifest)  # type: ignore[arg-type]
    names = [f"kpg-x-{number:03d}" for number in range(3)]
    deleted: list[str] = []

    def delete_topics(names: list[str], **_: object) -> dict[str, Any]:
        deleted.extend(names)
        return {name: Mock() for name in names}

    said = [None if code is None else KafkaException(KafkaError(code)) for code in answers]
    replies = {name: Mock(result=Mock(side_effect=error)) for name, error in zip(names, said, strict=True)}
    topics._admin = Mock(
        create_topics=Mock(return_value=replies),
        delete_topics=delete_topics,
        list_consumer_groups=Mock(return_value=Mock(result=Mock(return_value=Mock(valid=[])))),
    )
    with pytest.raises(BrokersFailedError if left else TopicRefusedError):
        topics.create("kpg-x", TopicSpec(partitions=1, replication_factor=1, count=3))
    assert deleted == ([] if left else ["kpg-x-000", "kpg-x-002"])
    deleted.clear()
    assert topics.delete_all() == []
    assert deleted == left
    manifest.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unknown", [1, 1000], ids=["at first", "for good"])
def test_no_load_begins_before_the_id_of_its_topic_is_noted(tmp_path: Path, clock: Clock, unknown: int) -> None:
    """Where a broker did not know the topic yet none was noted, and after a kill a topic with records stayed."""
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    topics = JournaledTopics(Cluster(), manifest)  # type: ignore[arg-type]
    not_there = Mock(result=Mock(side_effect=KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))))
    known = Mock(result=Mock(return_value=Mock(topic_id="id-1")))
    topics._admin = Mock(
        create_topics=Mock(return_value={"kpg-x": Mock()}),
        list_topics=Mock(return_value=Mock(topics={"kpg-x": Mock(error=None, partitions={0: partition(1, [1])})})),
        list_offsets=Mock(return_value={"kpg-x": Mock(result=Mock(return_value=Mock(offset=0)))}),
        describe_topics=Mock(side_effect=[{"kpg-x": one} for one in [not_there] * unknown + [known]]),
    )
    for_good = pytest.raises(TargetError, match=r"did not say the ids of new topics within 60 s: .* not know kpg-x")
    with for_good if unknown > 1 else nullcontext():
        topics.create("kpg-x", TopicSpec(partitions=1, replication_factor=1))
    manifest.close()
    (left,) = leftovers(tmp_path, "c")
    assert left.topics == {"kpg-x": "" if unknown > 1 else "id-1"}


def test_replicas_stay_on_the_brokers_that_a_row_asks_for(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    topics = JournaledTopics(Cluster(), manifest)  # type: ignore[arg-type]
    partitions = {number: partition(1, [1, 2], [1, 2]) for number in range(2)}
    topics._admin = admin = Mock(
        create_topics=Mock(return_value={"kpg-x": Mock()}),
        list_topics=Mock(return_value=Mock(topics={"kpg-x": Mock(error=None, partitions=partitions)})),
        list_offsets=Mock(return_value={}),
        describe_topics=Mock(return_value={"kpg-x": answered(Mock(topic_id="id-1"))}),
    )
    topics.create("kpg-x", TopicSpec(partitions=2, replication_factor=2, on_brokers=2))
    manifest.close()
    (made,) = admin.create_topics.call_args.args[0]
    assert made.replica_assignment == [[1, 2], [2, 1]]
    assert made.config["retention.ms"] == "3600000"
