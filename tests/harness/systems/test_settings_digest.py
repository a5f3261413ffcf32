"""What stands for the settings of real brokers: others when one is set, the same wherever a broker lies."""

from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import ConfigSource

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.attached import identity as module
from perfgate.systems.kafka.attached.identity import settings_digest

STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value


def setting(value: str, source: int = STATIC, *, sensitive: bool = False) -> Any:
    return Mock(value=value, source=source, is_sensitive=sensitive)


def digest_of(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> str:
    """Return the digest of two brokers with eight I/O threads each, with `changed` settings on both."""

    def told(_admin: object, broker: str) -> dict[str, Any]:
        own = {"node.id": setting(broker), "advertised.listeners": setting(f"PLAINTEXT://kafka-{broker}:9092")}
        return {**own, "num.io.threads": setting("8"), "a.default": setting("1", DEFAULT), **changed}

    monkeypatch.setattr(module, "broker_config", told)
    return settings_digest(Mock(), (1, 2))


def test_it_changes_with_what_is_set_and_with_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = digest_of(monkeypatch)
    assert len(plain) == 12
    assert digest_of(monkeypatch, **{"num.io.threads": setting("4")}) != plain
    assert digest_of(monkeypatch, **{"background.threads": setting("20")}) != plain
    assert digest_of(monkeypatch, **{"a.default": setting("2", DEFAULT)}) == plain
    assert digest_of(monkeypatch, **{"log.dirs": setting("/data")}) == plain
    assert digest_of(monkeypatch, **{"ssl.key.password": setting("", sensitive=True)}) == plain


def test_brokers_that_do_not_tell_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "broker_config", Mock(side_effect=TargetError("not authorized")))
    assert settings_digest(Mock(), (1, 2)) == ""
