"""Broker settings that Pulsar changes while its brokers run: one value for all, proof that each took it, undoing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError, InterferedError
from perfgate.systems.pulsar.client.admin import PRECONDITION, Admin, may_hold_a_secret
from perfgate.systems.pulsar.client.http import RefusedError

TAKEN_WITHIN_S = 30.0
ASK_EVERY_S = 0.05
Noted = Callable[[str, "str | None", str, str], None]
"""Called before a setting is first changed: name, dynamic value (None: not set), effective value ("" where the brokers
have several, each by its own file), new value."""


class LiveSettings:
    """See :class:`perfgate.model.target.LiveSettings`."""

    def __init__(
        self,
        admin: Admin,
        brokers: Sequence[str],
        noted: Noted = lambda *_: None,
        require: Callable[[], None] = lambda: None,
        *,
        shared: bool = False,
    ) -> None:
        """`brokers`: base URLs; `require` raises TargetError for others. `shared`: others can change them too."""
        self._admin, self._brokers, self._noted, self._require, self._shared = admin, brokers, noted, require, shared
        self._before: dict[str, tuple[str | None, Mapping[str, str]]] = {}
        """Dynamic value (None: not set) and effective values, by broker, of each setting before its first change."""
        self._own: dict[str, set[str]] = {}
        """Values to which this object may have set each setting."""

    def fixed(self, names: Iterable[str]) -> list[str]:
        if not (names := list(names)):
            return []
        known = self._admin.effective(names, self._brokers[0])
        if unknown := [name for name in names if name not in known]:
            raise ConfigurationError(f"these brokers do not know {', '.join(unknown)}: Pulsar takes no notice of it")
        dynamic = set(self._admin.dynamic_names())
        return [name for name in names if name not in dynamic]

    def change(self, values: Settings) -> float:
        """See the protocol. Raises ConfigurationError for what would be stored and not taken, InterferedError."""
        self._require()
        if secrets := [name for name, _ in values if may_hold_a_secret(name)]:
            raise ConfigurationError(f"{secrets[0]} holds a secret: it is neither read from the brokers nor changed")
        new = [name for name, _ in values if name not in self._before]
        if fixed := self.fixed(new):
            raise ConfigurationError(f"{', '.join(fixed)}: brokers take it at their start only")
        reported = {at: self._admin.effective(new, at) for at in self._brokers} if new else {}
        dynamic = self._admin.dynamic_values()
        for name, value in values:
            if name in new:
                refuse_another_type(name, value, reported[self._brokers[0]][name])
        for name, value in values:
            if name not in self._before:
                effective = {at: settings.get(name, "") for at, settings in reported.items()}
                one, *others = set(effective.values())
                self._noted(name, dynamic.get(name), "" if others else one, value)
                self._before[name] = (dynamic.get(name), effective)
            self._refuse_anothers(name, dynamic)
            self._own.setdefault(name, set()).add(value)
        return self._bring({name: (value, dict.fromkeys(self._brokers, value)) for name, value in values})

    def still(self, values: Settings) -> float:
        """Raise InterferedError where shared brokers do not have these values; return the time that this took, in s."""
        begin = time.monotonic()
        if not self._shared:
            return 0.0
        for at in self._brokers:
            now = self._admin.effective([name for name, _ in values], at)
            for name, value in values:
                if not same_value(now.get(name, ""), value):
                    raise InterferedError(
                        f"somebody reverted the change while it was measured: {name} of {at} is {now.get(name)}, not "
                        f"{value}; have whatever keeps the brokers' settings (an operator, a tool) leave it alone "
                        "while the comparison lasts"
                    )
        return time.monotonic() - begin

    def restore(self) -> float:
        """See the protocol. Raises TargetError, as `change`; another client's setting stays."""
        self._require()
        dynamic = self._admin.dynamic_values() if self._before else {}
        for name in self._before:
            self._refuse_anothers(name, dynamic)
        return self._bring(self._before)

    def _refuse_anothers(self, name: str, dynamic: Mapping[str, str]) -> None:
        known = {self._before[name][0], *self._own.get(name, ())}
        if dynamic.get(name) not in known:
            raise InterferedError(f"somebody else has set {name} to {dynamic.get(name)}: it is left alone")

    def _bring(self, wanted: Mapping[str, tuple[str | None, Mapping[str, str]]]) -> float:
        begin = time.monotonic()
        for name, (dynamic, _) in wanted.items():
            put(self._admin, name, dynamic)
        for at in self._brokers:
            await_broker(self._admin, at, {name: effective[at] for name, (_, effective) in wanted.items()})
        return time.monotonic() - begin


def put(admin: Admin, name: str, value: str | None) -> None:
    """Set a dynamic setting; None: back to the brokers' own. Raises ConfigurationError where they refuse."""
    try:
        if value is None:
            admin.remove_dynamic(name)
        else:
            admin.set_dynamic(name, value)
    except RefusedError as refused:
        if refused.status != PRECONDITION:
            raise
        raise ConfigurationError(f"the brokers refuse {name} = {value}: {refused.reason.strip()}") from refused


def await_broker(admin: Admin, at: str, wanted: Mapping[str, str]) -> None:
    """Wait until a broker (base URL) reports that these values take effect. Raises TargetError."""

    def ask() -> None:
        now = admin.effective(list(wanted), at)
        for name, value in wanted.items():
            if not same_value(now.get(name, ""), value):
                raise NotYet(f"it has {name} = {now.get(name)}")

    settings = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    poll_until(f"broker {at} did not take {settings}", ask, within_s=TAKEN_WITHIN_S, every_s=ASK_EVERY_S)


KINDS: Mapping[str, re.Pattern[str]] = {
    "a whole number": re.compile(r"\s*[+-]?[0-9]+\s*"),
    "a number": re.compile(r"\s*[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*"),
    "true or false": re.compile(r"\s*(true|false)\s*", re.IGNORECASE),
}
"""Types of settings, by the texts that Java reads for them: 1e2, 1_000 and nan are no whole numbers there."""


def refuse_another_type(name: str, value: str, effective: str) -> None:
    """Raise ConfigurationError for a text in place of a number or flag: Pulsar 4.0.8 stores it, no broker takes it."""
    for kind, legal in KINDS.items():
        if legal.fullmatch(effective) and not legal.fullmatch(value):
            raise ConfigurationError(f"{name} = {value!r}: it must be {kind}, as it is now ({effective})")


def same_value(reported: str, wanted: str) -> bool:
    """Whether two texts are the same value: brokers report 0.50 as 0.5, True as true."""
    try:
        return float(reported) == float(wanted)
    except ValueError:
        return reported.strip().lower() == wanted.strip().lower()
