"""Families of scenarios: a base, the path that is varied, and the names of the scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from perfgate.model.changes import beside_the_point, setting_of, with_changes
from perfgate.model.declared import TIER_NAMES, Scenario, TierName, settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.system import System

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""Of a scenario: its pytest id, the key of its thresholds, part of topics and files. A family is also a marker."""
TAKEN = (*TIER_NAMES, "benchmark", "filterwarnings", "parametrize", "skip", "skipif", "slow", "usefixtures", "xfail")
"""Markers with another meaning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Scenarios that vary one factor; `about`: the difference and its known effect; `source`: its publication."""

    name: str
    about: str
    scenarios: tuple[Scenario, ...]
    source: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for scenarios of two systems, of which no run measures both."""
        if len({scenario.cluster.system for scenario in self.scenarios}) > 1:
            raise ConfigurationError(f"family {self.name}: its scenarios are of two systems: declare a family of each")

    @property
    def system(self) -> System:
        """The system that its scenarios are of; Kafka of a family without any."""
        return self.scenarios[0].cluster.system if self.scenarios else "kafka"


def family(
    name: str,
    about: str,
    *,
    base: Scenario,
    varies: str = "",
    smoke: Mapping[str, object] | None = None,
    nightly_1h: Mapping[str, object] | None = None,
    nightly: Mapping[str, object] | None = None,
    full: Mapping[str, object] | None = None,
    says: Mapping[str, str] | None = None,
    source: str = "",
    refused: Mapping[str, str] | None = None,
) -> Family:
    """Return the family that varies one dotted path of `base`.

    `smoke` to `full`: what each tier adds, a scenario's name with its value of the path, or with a mapping of
    several paths. `says`: summaries, where the value is not enough; `refused`: the error with which the brokers must
    refuse its topic. Raises ConfigurationError for an unknown path, an illegal value, one that changes nothing of the
    base, and a name in `says` or `refused` that is not declared.
    """
    if not NAME.fullmatch(name) or name in TAKEN:
        raise ConfigurationError(
            f"family name {name!r}; legal: small letters, digits and single dashes, and none of {', '.join(TAKEN)}"
        )
    tiers = dict(zip(TIER_NAMES, (smoke, nightly_1h, nightly, full), strict=True))
    for tier, declared in tiers.items():
        if not isinstance(declared or {}, Mapping):
            raise ConfigurationError(f"family {name}: {tier} = {declared!r} must be names with their values")
    names = {scenario for declared in tiers.values() for scenario in declared or {}}
    for what, given in (("says", says), ("refused", refused)):
        if unknown := (given or {}).keys() - names:
            legal = ", ".join(sorted(names))
            raise ConfigurationError(f"family {name}: {what} names {min(unknown)!r}, no scenario of it; legal: {legal}")

    def scenarios() -> Iterator[Scenario]:
        for tier, declared in tiers.items():
            for scenario, value in (declared or {}).items():
                yield _scenario(scenario, tier, value if isinstance(value, Mapping) else {varies: value})

    def _scenario(scenario: str, tier: TierName, changes: Mapping[str, object]) -> Scenario:
        if not NAME.fullmatch(scenario):
            raise ConfigurationError(f"scenario name {scenario!r}; legal: small letters, digits and single dashes")
        for path in changes:
            if why := beside_the_point(base, path):
                raise ConfigurationError(f"{scenario}: {path} changes nothing of its base, {base.name}: {why}")
        factor = {(setting[1] if (setting := setting_of(path)) else path): value for path, value in changes.items()}
        return replace(
            with_changes(base, changes.items()),
            name=scenario,
            summary=(says or {}).get(scenario) or ", ".join(f"{what} {value}" for what, value in factor.items()),
            families=(name,),
            tier=tier,
            factor=settings(factor),
            refusal=(refused or {}).get(scenario, ""),
        )

    return Family(name=name, about=about, scenarios=tuple(scenarios()), source=source)
