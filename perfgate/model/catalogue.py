"""Families of scenarios: one declaration says the base, what is varied, and the names of what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfgate.model.changes import setting_of, with_changes
from perfgate.model.declared import Scenario, settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Scenarios that belong together; `about` says what differs between them, and what that is known to do."""

    name: str
    about: str
    scenarios: tuple[Scenario, ...]


def family(
    name: str,
    about: str,
    *,
    base: Scenario,
    varies: str,
    scenarios: Mapping[str, object],
    says: Mapping[str, str] | None = None,
) -> Family:
    """Return the family that varies one dotted path of `base`.

    `scenarios`: each one's name with its value of the path; `says`: what is to be said of it, where the value is not
    enough. Raises ConfigurationError for an unknown path or an illegal value.
    """
    setting = setting_of(varies)
    factor = setting[1] if setting else varies
    made = tuple(
        replace(
            with_changes(base, [(varies, value)]),
            name=scenario,
            summary=(says or {}).get(scenario, f"{factor} {value}"),
            families=(name,),
            factor=settings({factor: value}),
        )
        for scenario, value in scenarios.items()
    )
    return Family(name=name, about=about, scenarios=made)
