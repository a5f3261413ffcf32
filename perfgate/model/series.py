"""Arms, the forms of a scenario that are measured, and series: the rounds of an arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfgate.model.declared import Scenario
from perfgate.model.measured import Round

Form = Literal["as declared", "candidate", "one host fewer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """A form of a scenario, and how many of its link's load hosts load the brokers with it (0: all).

    A confirmation run measures the same arms on a fresh cluster; the reference of a gate is the candidate.
    """

    scenario: Scenario
    form: Form = "as declared"
    hosts: int = 0


@dataclass(slots=True)
class Series:
    """The rounds of an arm; those that were measured again are `discarded`. `rtt_ms`: round trips by link name."""

    arm: Arm
    rounds: list[Round] = field(default_factory=list)
    discarded: list[Round] = field(default_factory=list)
    rtt_ms: Mapping[str, float] = field(default_factory=dict)
