"""Topics as scenarios declare them, tried at the start: what brokers refuse, and what they take and ignore."""

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from confluent_kafka import KafkaError, KafkaException

from perfgate.model import TopicSpec, settings
from perfgate.systems.kafka.attached.topic_trial import TopicTrial

PLAIN = TopicSpec(partitions=3, replication_factor=1)


def done(value: object = None, code: int | None = None) -> Future[Any]:
    reply: Future[Any] = Future()
    if code is None:
        reply.set_result(value)
    else:
        reply.set_exception(KafkaException(KafkaError(code, "as they say")))
    return reply


class Brokers:
    """Brokers that refuse what `refuses` has, and have `in_force` of the settings that a topic states."""

    def __init__(self, refuses: Mapping[int, int] | None = None, in_force: Mapping[str, str] | None = None) -> None:
        self._refuses, self._in_force = refuses or {}, in_force
        self.asked: list[Any] = []
        self.makes_it = False
        """Also what they are only to look at."""
        self.there: list[str] = []

    def create_topics(self, topics: list[Any], *, validate_only: bool, request_timeout: float) -> dict[str, Any]:
        (topic,) = topics
        self.asked.append(topic)
        code = self._refuses.get(topic.replication_factor)
        if code is None and (self.makes_it or not validate_only):
            self.there.append(topic.topic)
        return {topic.topic: done(code=code)}

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Any]:
        if self._in_force is None:
            return {resources[0]: done(code=KafkaError.TOPIC_AUTHORIZATION_FAILED)}
        return {resources[0]: done({name: SimpleNamespace(value=value) for name, value in self._in_force.items()})}

    def delete_topics(self, names: list[str], request_timeout: float) -> dict[str, Any]:
        if names[0] not in self.there:
            return {names[0]: done(code=KafkaError.UNKNOWN_TOPIC_OR_PART)}
        self.there.remove(names[0])
        return {names[0]: done()}


def trial(brokers: Any, notes: list[str] | None = None) -> tuple[TopicTrial, Mock]:
    manifest = Mock()
    told = notes if notes is not None else []
    return TopicTrial(brokers, "kpg-r-trial", lambda: manifest, told.append), manifest


def test_what_a_policy_refuses_is_told_once_with_the_brokers_words() -> None:
    brokers = Brokers(refuses={1: KafkaError.POLICY_VIOLATION})
    tried, _ = trial(brokers)
    assert tried.refusal(PLAIN) == tried.refusal(PLAIN) == "the brokers refuse its topic: as they say"
    assert len(brokers.asked) == 1
    assert tried.refusal(TopicSpec(partitions=3, replication_factor=3)) is None
    assert not brokers.there, "nothing was made"


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TIMED_OUT,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN,
        KafkaError.NOT_CONTROLLER,
        KafkaError.INVALID_REPLICATION_FACTOR,
    ],
)
def test_no_answer_no_permission_and_brokers_that_are_not_well_are_no_policy(code: int) -> None:
    """Brokers that fail were "not run", which is no verdict."""
    brokers = Brokers(refuses={1: code})
    brokers.delete_topics = Mock(side_effect=AssertionError)  # type: ignore[method-assign]  # they might not answer
    tried, manifest = trial(brokers)
    assert tried.refusal(PLAIN) is None
    manifest.close.assert_called_once()


def test_a_setting_that_is_taken_and_ignored_is_told_and_nothing_stays() -> None:
    """A comparison of it was SAME: neither side had it."""
    topic = TopicSpec(partitions=3, replication_factor=1, config=settings({"flush.ms": 1, "segment.bytes": 1048576}))
    brokers = Brokers(in_force={"flush.ms": "9223372036854775807", "segment.bytes": "1048576"})
    tried, manifest = trial(brokers)
    assert tried.refusal(topic) == (
        "the brokers take settings of its topic and do not have them in force: flush.ms = 1 (is 9223372036854775807)"
    )
    assert not brokers.there
    tried_topics = [call("kpg-r-trial-0"), call("kpg-r-trial-1")]
    assert manifest.plans.call_args_list == manifest.gone.call_args_list == tried_topics
    in_force = Brokers(in_force={"flush.ms": "1", "segment.bytes": "1048576"})
    assert trial(in_force)[0].refusal(topic) is None


def test_a_topic_that_was_to_be_looked_at_alone_does_not_stay() -> None:
    """Brokers of 2.8 with KRaft make it all the same, and it stayed."""
    brokers = Brokers()
    brokers.makes_it = True
    tried, manifest = trial(brokers)
    assert tried.refusal(PLAIN) is None
    assert brokers.there == []
    manifest.close.assert_called_once()


def test_a_trial_that_fails_leaves_neither_topic_nor_open_manifest() -> None:
    """The answer to its creation was lost: the topic stayed, and the manifest was held until the run's end."""
    topic = TopicSpec(partitions=1, replication_factor=1, config=settings({"flush.ms": 1}))
    brokers = Brokers(in_force={})
    made = brokers.create_topics

    def lost(topics: list[Any], *, validate_only: bool, request_timeout: float) -> dict[str, Any]:
        found = made(topics, validate_only=validate_only, request_timeout=request_timeout)
        return found if validate_only else {topics[0].topic: done(code=KafkaError._TIMED_OUT)}

    brokers.create_topics = lost  # type: ignore[method-assign]
    tried, manifest = trial(brokers)
    assert tried.refusal(topic) is None
    assert not brokers.there
    assert manifest.gone.call_count == 2
    assert manifest.close.call_count == 2


def test_settings_that_may_not_be_seen_are_noted() -> None:
    topics = [TopicSpec(partitions=n, replication_factor=1, config=settings({"flush.ms": 1})) for n in (1, 2)]
    notes: list[str] = []
    tried, _ = trial(Brokers(in_force=None), notes)
    assert [tried.refusal(topic) for topic in topics] == [None, None]
    (note,) = notes
    assert "grant DescribeConfigs on the run's topics" in note


@pytest.mark.parametrize(
    ("stated", "now", "same"),
    [
        ("1", "1", True),
        ("0.50", "0.5", True),
        ("delete, Compact", "delete,compact", True),
        ("delete,compact", "compact,delete", False),  # brokers keep the order: these have not taken it
        ("1", "2", False),
        ("1", None, False),
    ],
)
def test_a_value_is_in_force_in_whichever_form(stated: str, now: str | None, same: bool) -> None:
    topic = TopicSpec(partitions=1, replication_factor=1, config=settings({"x": stated}))
    tried, _ = trial(Brokers(in_force={"y": "1"} if now is None else {"x": now}))
    assert (tried.refusal(topic) is None) is same
