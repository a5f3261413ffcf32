"""Zones: which load hosts have the clients of a link. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.model import Link


@dataclass(frozen=True, kw_only=True, slots=True)
class Zones:
    """The zone of each load host, by the host's name, and that of the brokers; all empty where a file states none."""

    brokers: str
    of: Mapping[str, str]

    @property
    def real(self) -> bool:
        """Whether a host is in another zone than the brokers: links across zones are then real ones."""
        return any(zone != self.brokers for zone in self.of.values())

    def hosts(self, link: Link) -> tuple[str, ...]:
        """Return the names of the hosts that have this link to the brokers, or have it emulated."""
        away = link.crosses_zones and self.real
        return tuple(name for name, zone in self.of.items() if (zone != self.brokers) is away)

    def cannot(self, link: Link) -> str | None:
        """Return why no host has this link; None when one does."""
        if self.hosts(link):
            return None
        others = ", ".join(f"{name} ({zone})" for name, zone in self.of.items())
        return f"no load host is in the zone of the brokers, {self.brokers}: there are {others}"

    def facts(self) -> dict[str, object]:
        """Return what run.json says of them."""
        return {
            "zone_of_brokers": self.brokers,
            "zones": dict(self.of),
            "cross_zone": "real: hosts of another zone" if self.real else "emulated, where a scenario asks for it",
        }
