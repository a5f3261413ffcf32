"""Broker settings that Kafka changes while it runs: which these are, changing them, proof that brokers took them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka.admin import AdminClient, ConfigEntry

from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError, InterferedError, TargetError
from perfgate.systems.kafka.client.admin import (
    await_broker,
    broker_config,
    is_own,
    perhaps_own,
    same_value,
    set_broker,
    setting_of,
    value_now,
)

SECRETS = ("password", "passphrase", "secret", "key", "jaas", "certificate")
"""In the names of secrets, whose values brokers do not report."""
Noted = Callable[[str, str, "str | None", str, str], None]
"""Called before a setting is first changed: broker, name, dynamic value, effective value, new value."""


class LiveSettings:
    """See :class:`perfgate.model.target.LiveSettings`."""

    def __init__(
        self,
        admin: AdminClient,
        brokers: Sequence[str],
        noted: Noted = lambda *_: None,
        require: Callable[[AdminClient], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
        *,
        shared: bool = False,
    ) -> None:
        """`brokers`: their ids; `require` raises TargetError when the client's brokers are not those meant.

        `say` reports a value that may have been another client's. `shared`: others can change the brokers too.
        """
        self._shared = shared
        self._admin, self._brokers, self._noted, self._require, self._say = admin, brokers, noted, require, say
        self._before: dict[str, dict[str, tuple[str | None, str]]] = {broker: {} for broker in brokers}
        self._own: dict[str, set[str]] = {}
        """Values to which this object may have set each setting, by name."""

    def fixed(self, names: Iterable[str]) -> list[str]:
        """See the protocol. Kafka would read and forget the value of a setting that it does not know."""
        described = broker_config(self._admin, self._brokers[0])
        if unknown := [name for name in names if name not in described or _only_stated(name, described[name])]:
            raise ConfigurationError(f"these brokers do not know {', '.join(unknown)}: Kafka takes no notice of it")
        return [name for name in names if described[name].is_read_only]

    def change(self, values: Settings) -> float:
        """See the protocol. Raises ConfigurationError also for a setting that brokers do not report."""
        self._require(self._admin)
        for name, value in values:
            self._own.setdefault(name, set()).add(value)
        for broker, before in self._before.items():
            described = broker_config(self._admin, broker) if set(dict(values)) - set(before) else {}
            for name, value in values:
                if name not in before:
                    setting = setting_of(described, broker, name)
                    self._noted(broker, name, *setting, value)
                    before[name] = setting
        return self._bring({broker: {name: (value, value) for name, value in values} for broker in self._brokers})

    def still(self, values: Settings) -> float:
        def look(broker: str) -> None:
            described = broker_config(self._admin, broker)
            for name, value in values:
                now = setting_of(described, broker, name)[1]
                if not described[name].is_sensitive and not same_value(now, value):
                    raise InterferedError(
                        f"somebody reverted the change while it was measured: {name} of broker {broker} is {now}, not "
                        f"{value}; have whatever keeps the brokers' settings (an operator, a tool) leave it alone "
                        "while the comparison lasts"
                    )

        begin = time.monotonic()
        if self._shared:
            with ThreadPoolExecutor(len(self._brokers)) as pool:
                list(pool.map(look, self._brokers))
        return time.monotonic() - begin if self._shared else 0.0

    def restore(self) -> float:
        """See the protocol. Raises TargetError, as `change`; another client's value stays."""
        self._require(self._admin)
        return self._bring(self._before)

    def _bring(self, wanted: Mapping[str, Mapping[str, tuple[str | None, str]]]) -> float:
        ended = threading.Event()

        def go_on() -> None:
            if ended.is_set():
                raise TargetError("the run was ended while it changed the brokers' settings")

        def bring(broker: str) -> None:
            for name, (dynamic, effective) in wanted[broker].items():
                is_ours = partial(self._is_ours, broker, name)
                if not is_ours(now := value_now(self._admin, broker, name, is_ours)):
                    raise InterferedError(f"somebody else has set {name} of broker {broker} to {now}: it is left alone")
                if words := perhaps_own(broker, name, now, self._before[broker][name][0], *self._own[name]):
                    self._say(words)
                set_broker(self._admin, broker, name, dynamic, effective, go_on)
            await_broker(self._admin, broker, {name: effective for name, (_, effective) in wanted[broker].items()})

        begin = time.monotonic()
        with ThreadPoolExecutor(len(self._brokers)) as pool:
            try:
                list(pool.map(bring, self._brokers))
            except (TargetError, ConfigurationError):
                raise  # of this broker: the others are brought there all the same
            except BaseException:
                ended.set()  # what puts everything back must not be undone by a pool that was half-way
                raise
        return time.monotonic() - begin

    def _is_ours(self, broker: str, name: str, now: str | None) -> bool:
        """Whether this may be a value that this object sets, or the previous value."""
        return any(is_own(name, now, *self._before[broker][name], value) for value in self._own[name])


def _only_stated(name: str, entry: ConfigEntry) -> bool:
    """Whether the brokers know only that they were started with this setting.

    Of a setting without a type they report no value, as of a secret (log.message.downconversion.enable of Kafka 4.3.1).
    """
    secret = any(word in name for word in SECRETS)
    return bool(entry.is_sensitive and entry.is_read_only and entry.value is None and not secret)
