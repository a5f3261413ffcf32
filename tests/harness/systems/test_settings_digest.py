"""The digest of real brokers' settings: another when one is set, the same wherever a broker lies."""

from typing import Any
from unittest.mock import Mock

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigSource

from perfgate.systems.attached.target import digest_of as digest
from perfgate.systems.kafka.attached.identity import settings_of

STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value


def setting(value: str, source: int = STATIC, *, sensitive: bool = False) -> Any:
    return Mock(value=value, source=source, is_sensitive=sensitive)


def digest_of(**changed: Any) -> str:
    """Return the digest of two brokers with eight I/O threads each, with `changed` settings on both."""

    def told(broker: str) -> dict[str, Any]:
        own = {"node.id": setting(broker), "advertised.listeners": setting(f"PLAINTEXT://kafka-{broker}:9092")}
        return {**own, "num.io.threads": setting("8"), "a.default": setting("1", DEFAULT), **changed}

    def describe(asked: list[Any], **_: object) -> dict[Any, Any]:
        return {one: Mock(result=Mock(return_value=told(one.name))) for one in asked}

    return digest(settings_of(Mock(describe_configs=describe), (1, 2)))


def test_it_changes_with_what_is_set_and_with_nothing_else() -> None:
    plain = digest_of()
    assert len(plain) == 12
    assert digest_of(**{"num.io.threads": setting("4")}) != plain
    assert digest_of(**{"background.threads": setting("20")}) != plain
    assert digest_of(**{"a.default": setting("2", DEFAULT)}) == plain
    assert digest_of(**{"log.dirs": setting("/data")}) == plain
    assert digest_of(**{"ssl.key.password": setting("", sensitive=True)}) == plain


def test_brokers_that_do_not_tell_have_none() -> None:
    refused = Mock(side_effect=KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)))
    admin = Mock(describe_configs=lambda asked, **_: {asked[0]: Mock(result=refused)})
    assert digest(settings_of(admin, (1, 2))) == ""
