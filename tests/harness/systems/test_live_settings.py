"""Settings of living brokers: changed, put back, and left alone where somebody else has changed them."""

from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.model import settings
from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client import live_settings as module
from perfgate.systems.kafka.client.live_settings import LiveSettings

NAME = "num.io.threads"


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """Two brokers' dynamic value of the setting; 8 counts where there is none."""
    values: dict[str, str | None] = {"1": None, "2": "16"}

    def set_broker(_admin: object, broker: str, _name: str, value: str | None, _effective: str) -> None:
        values[broker] = value

    monkeypatch.setattr(module, "broker_config", lambda _admin, broker: broker)
    monkeypatch.setattr(module, "told_of", lambda _, broker, name: (values[broker], values[broker] or "8"))
    monkeypatch.setattr(module, "set_broker", set_broker)
    monkeypatch.setattr(module, "await_broker", lambda *_: None)
    return values


def test_a_change_and_the_way_back_again_and_again(brokers: dict[str, str | None]) -> None:
    noted: list[Any] = []
    live = LiveSettings(Mock(), ["1", "2"], lambda *change: noted.append(change))
    for _ in range(3):
        live.change(settings({NAME: 2}))
        assert brokers == {"1": "2", "2": "2"}
        live.restore()
        assert brokers == {"1": None, "2": "16"}
    assert noted == [("1", NAME, None, "8", "2"), ("2", NAME, "16", "16", "2")], "once, before the first change"


@pytest.mark.parametrize("changed_first", [True, False])
def test_what_somebody_else_sets_meanwhile_stays(brokers: dict[str, str | None], changed_first: bool) -> None:
    live = LiveSettings(Mock(), ["1", "2"])
    live.change(settings({NAME: 2}))
    if not changed_first:
        live.restore()
    brokers["2"] = "32"
    with pytest.raises(TargetError, match=r"somebody else has set num\.io\.threads of broker 2 to 32"):
        live.restore() if changed_first else live.change(settings({NAME: 2}))
    assert brokers["2"] == "32"
