"""Faults: what is known of each kind, and the scenario that has one.

A kind has an entry here, a script in `measure/faults/scripts.py`, and what it should cost in
`judge/faults/expectation.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from perfgate.model.declared import Scenario, Tier
from perfgate.model.doubt import Doubt, Whose
from perfgate.model.errors import ConfigurationError
from perfgate.model.metrics import PHASES
from perfgate.model.nodes import Action

ROUND_S = 90.0
"""What a round with a fault takes besides the fault: load before and after it, coming back, the final read."""
TOLD_S = 0.05
"""A load whose gaps without a fault (p99) are shorter tells an outage as exactly as it is stated."""
LATE = "late load"
"""The kind of doubts of a load that was sent late, before the fault or since: the largest of these counts."""
OUTAGES = ("outage_s", "receive_outage_s", "others_receive_outage_s", "outage_all_s")
"""Beginnings of the names of times without service: a late load makes them longer by no more than it was late."""
OF_THE_LOAD = (
    *(f"{kind}_{phase}_ms" for kind in ("latency", "end_to_end") for phase in PHASES),
    "recovery_s",
    "rate_recovery_s",
    "catch_up_s",
    "catch_up_records_per_s",
    "lag_drained_s",
    "outage_affected",
    "outage_partition_seconds",
    "records_per_s",
    "p99_growth",
    "cpu_per_record_growth",
)
"""The same of figures that a load which was not as declared may have made whatever they are."""
RETRIES = ("retries", "message.send.max.retries")
"""A scenario that sets these may have sends fail by design."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultKind:
    """What a kind of fault takes, and leaves.

    `commands`: those of a target file's `[faults]` that bring it about on real brokers; None: no command can.
    `brokers_down`: so many at a time. `every_broker`: each that holds the topic is taken away in turn. `ends_load`: a
    part of the load is gone for good, so that nothing gets to be as before. `leaves_unread`: consumers stay away, and
    have to catch up. `harmless`: nothing is done to anybody, so that real brokers need no permission for it.
    """

    commands: tuple[Action, ...] | None
    brokers_down: int = 1
    every_broker: bool = False
    ends_load: bool = False
    leaves_unread: bool = False
    harmless: bool = False
    meanwhile: str = "with the fault"
    """What is said of the time for which it is held."""


FAULTS: Mapping[str, FaultKind] = {
    "kill-leader": FaultKind(commands=("kill", "start")),
    "stop-leader": FaultKind(commands=("stop", "start")),
    "pause-leader": FaultKind(commands=("pause", "resume")),
    "cut-off": FaultKind(commands=("cut-off", "heal")),
    "slow-follower": FaultKind(commands=None),  # it stands still several times a second
    "kill-controller": FaultKind(commands=None),  # nothing tells which one is active
    "rolling-restart": FaultKind(commands=("stop", "start"), every_broker=True),
    "two-down": FaultKind(commands=("kill", "start"), brokers_down=2),
    "return": FaultKind(commands=("kill", "start")),
    "scale-out": FaultKind(commands=None),  # a target file declares no spare broker
    "consumer-kill": FaultKind(commands=(), brokers_down=0),
    "consumer-slow": FaultKind(commands=(), brokers_down=0, meanwhile="with a slow consumer"),
    "consumers-away": FaultKind(commands=(), brokers_down=0, leaves_unread=True, meanwhile="with nobody reading"),
    "time": FaultKind(commands=(), brokers_down=0, harmless=True, meanwhile="going on"),
    "client-crash": FaultKind(commands=(), brokers_down=0, ends_load=True),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What goes wrong while the load goes on, and for how long it stays so (`hold_s`) before it is put right.

    `repeats`: how often it is done in the nightly tier, each time a round. Raises ConfigurationError for an unknown
    kind.
    """

    kind: str
    hold_s: float = 15.0
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise ConfigurationError(f"unknown fault {self.kind!r}; legal: {', '.join(FAULTS)}")

    @property
    def about(self) -> FaultKind:
        """What is known of its kind."""
        return FAULTS[self.kind]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class FaultScenario(Scenario):
    """A scenario of which each round is one such fault, and what it costs."""

    fault: Fault
    confirmable: ClassVar[bool] = False
    """A fault is not done to brokers a second time: a lost record is lost."""

    @classmethod
    def of(cls, scenario: Scenario, fault: Fault) -> FaultScenario:
        """Return the scenario with this fault."""
        return cls(**{field.name: getattr(scenario, field.name) for field in fields(Scenario)}, fault=fault)

    def rounds(self, tier: Tier) -> int:
        """Return how often this tier has the fault."""
        return 1 if tier.name == "smoke" else self.fault.repeats

    def seconds(self, tier: Tier) -> float:
        """Return how long its rounds in this tier take, at about the most (s)."""
        return self.rounds(tier) * (ROUND_S + self.fault.hold_s)


def but_outages(kind: str, whose: Whose, text: str, offset_s: float = 0.0) -> tuple[Doubt, Doubt]:
    """Return the doubts of a load that was not as declared: it may have made outages longer by `offset_s` at most.

    What depends on the whole load may be anything.
    """
    return (
        Doubt(kind=kind, whose=whose, text=text, offset=offset_s, metrics=OUTAGES),
        Doubt(kind=kind, whose=whose, text=text, factor=None, metrics=OF_THE_LOAD),
    )


LOCK = "group.share.record.lock.duration.ms"
LOCK_MS = 30_000.0
"""Kafka's default of it."""


def record_lock_s(row: Scenario) -> float:
    """Return how long a member of a share group may take over a record before others are given it, in s."""
    return float(dict(row.cluster.config).get(LOCK, LOCK_MS)) / 1e3


def parted(scenarios: Iterable[Scenario]) -> tuple[list[Scenario], list[FaultScenario]]:
    """Return the scenarios without a fault, and those with one."""
    rows = list(scenarios)
    faulty = [row for row in rows if isinstance(row, FaultScenario)]
    return [row for row in rows if not isinstance(row, FaultScenario)], faulty
