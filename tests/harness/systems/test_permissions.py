"""Permissions for topics, tried with one that the brokers' own policy lets the client make."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.topic_trial import check_permissions, may_make


class Admin:
    """Brokers that let a topic have so many replicas (-1: as many as is their default), or none at all."""

    def __init__(self, *fit: int, otherwise: int) -> None:
        self._fit, self._otherwise = fit, otherwise

    def create_topics(self, topics: Sequence[NewTopic], **_: object) -> dict[str, Future[None]]:
        (topic,) = topics
        replied: Future[None] = Future()
        if topic.replication_factor in self._fit:
            replied.set_result(None)
        else:
            replied.set_exception(KafkaException(KafkaError(self._otherwise, "refused")))
        return {topic.topic: replied}

    def describe_topics(self, _topics: TopicCollection, **_: object) -> dict[str, Any]:
        return {"kpg-probe": Mock(result=lambda: Mock(authorized_operations=None))}

    def delete_topics(self, names: Sequence[str], **_: object) -> dict[str, Any]:
        return {name: Mock() for name in names}


@pytest.mark.parametrize(
    ("fit", "otherwise"),
    [
        ((1, 3, -1), KafkaError.POLICY_VIOLATION),
        ((3,), KafkaError.POLICY_VIOLATION),
        ((3, -1), KafkaError.INVALID_REPLICATION_FACTOR),
        ((-1,), KafkaError.POLICY_VIOLATION),
    ],
)
def test_a_policy_for_replicas_refuses_no_run(fit: tuple[int, ...], otherwise: int) -> None:
    """Brokers that want three replicas were left alone as a whole, though scenarios with three could run."""
    admin, manifest = Mock(wraps=Admin(*fit, otherwise=otherwise)), Mock()
    check_permissions(admin, "kpg-probe", manifest, "gate", pytest.fail)
    assert admin.create_topics.call_args.args[0][0].replication_factor == fit[0]
    manifest.gone.assert_called_once_with("kpg-probe")


@pytest.mark.parametrize(
    ("otherwise", "words", "asked"),
    [
        (KafkaError.POLICY_VIOLATION, "trying to create a topic: refused", 3),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "do not let gate create topics", 1),
        (KafkaError.INVALID_CONFIG, "trying to create a topic: refused", 1),
    ],
)
def test_a_topic_that_cannot_be_made_at_all_is_told(otherwise: int, words: str, asked: int) -> None:
    admin = Mock(wraps=Admin(otherwise=otherwise))
    with pytest.raises(ConfigurationError, match=words):
        check_permissions(admin, "kpg-probe", Mock(), "gate", pytest.fail)
    assert admin.create_topics.call_count == asked


@pytest.mark.parametrize("within", ["create_topics", "describe_topics", "delete_topics"])
@pytest.mark.parametrize("ended", [KeyboardInterrupt("SIGTERM"), ConfigurationError("not described")])
def test_a_trial_that_ends_early_leaves_no_topic(within: str, ended: BaseException) -> None:
    """It stayed until the next start, and nobody was told."""
    admin, manifest = Mock(wraps=Admin(1, otherwise=0)), Mock()
    # The first time topics are to be made the brokers are only asked whether they would.
    getattr(admin, within).side_effect = [*[DEFAULT] * (within == "create_topics"), ended, DEFAULT]
    with pytest.raises(type(ended)):
        check_permissions(admin, "kpg-probe", manifest, "gate", pytest.fail)
    assert admin.delete_topics.call_args.args == (["kpg-probe"],)
    manifest.gone.assert_called_once_with("kpg-probe")


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")), True),
        (KeyboardInterrupt("SIGINT"), True),
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "gone")), False),
    ],
)
def test_a_topic_that_may_stay_after_a_trial_that_ended_early_is_named(fails: BaseException, *, told: bool) -> None:
    admin, manifest, notes = Mock(wraps=Admin(1, otherwise=0)), Mock(), list[str]()
    admin.describe_topics.side_effect = KeyboardInterrupt("SIGTERM")
    admin.delete_topics.return_value = {"kpg-probe": Mock(result=Mock(side_effect=fails))}
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        check_permissions(admin, "kpg-probe", manifest, "gate", notes.append)
    assert admin.delete_topics.call_count == 1
    assert [text.partition(" is ")[0] for text in notes] == ["topic kpg-probe"] * told
    manifest.gone.assert_not_called()  # the next start looks for it


def test_without_making_one_the_doctor_tells_whether_topics_may_be_made() -> None:
    admin = Mock(wraps=Admin(3, otherwise=KafkaError.POLICY_VIOLATION))
    absent = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    admin.delete_topics.side_effect = lambda names, **_: {names[0]: Mock(result=Mock(side_effect=absent))}
    may_make(admin, "kpg-x", "gate")
    assert [call.kwargs["validate_only"] for call in admin.create_topics.call_args_list] == [True, True]
    denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    admin.delete_topics.side_effect = lambda names, **_: {names[0]: Mock(result=Mock(side_effect=denied))}
    with pytest.raises(ConfigurationError, match=r"do not let gate delete topics kpg-\*; grant it"):
        may_make(admin, "kpg-x", "gate")
    admin = Mock(wraps=Admin(otherwise=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ConfigurationError, match="do not let gate create topics"):
        may_make(admin, "kpg-x", "gate")
    admin.delete_topics.assert_not_called()
