"""Drivers of each system and tiers, the usual ones first, and the options that name others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.model.declared import Tier
from perfgate.model.system import System

DRIVERS: Mapping[System, tuple[str, ...]] = {"kafka": ("librdkafka", "java"), "pulsar": ("libpulsar", "pulsar-perf")}
"""Of each system, the suite's own first."""
TIERS = {
    tier.name: tier
    for tier in (
        Tier(name="smoke", rounds=3, window_s=3, warmup_max_s=4, broker_warmup_s=90),
        Tier(name="nightly-1h", rounds=7, window_s=10, warmup_max_s=6, broker_warmup_s=120),
        Tier(name="nightly", rounds=7, window_s=10, warmup_max_s=6, broker_warmup_s=120),
        Tier(name="full", rounds=15, window_s=15, warmup_max_s=8, broker_warmup_s=150),
    )
}
OF_TIER = {
    "--rounds": "rounds",
    "--window": "window_s",
    "--warmup-max": "warmup_max_s",
    "--broker-warmup": "broker_warmup_s",
}
"""The field of the tier that each option replaces."""


def driver_option(system: System, driver: str) -> tuple[str, ...]:
    """Return the option that names this driver; none for the system's usual driver."""
    return ("--driver", driver) if driver in DRIVERS[system][1:] else ()


def tier_options(tier: Mapping[str, Any]) -> list[str]:
    """Return the options by which a recorded tier differs from the usual tier of its name."""
    usual = TIERS.get(str(tier["name"]))
    differing = {option: field for option, field in OF_TIER.items() if usual and field in tier}
    return [f"{option}={tier[field]:g}" for option, field in differing.items() if tier[field] != getattr(usual, field)]
