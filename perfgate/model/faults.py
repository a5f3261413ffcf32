"""Faults: what each kind offers, what its action sees and does, and the scenario that has a fault.

Each kind is a file in `perfgate/faults`.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import ClassVar

from perfgate.model.declared import Membership, Scenario, Tier
from perfgate.model.errors import BrokersFailedError, ConfigurationError
from perfgate.model.flaw import Doubt, Whose
from perfgate.model.load import JournaledLoad
from perfgate.model.metrics import PHASES
from perfgate.model.target import BACK, Action, Faults, State, Watch

FOLDER = "perfgate.faults"
"""Its modules are imported by name when a fault is first asked for: this package imports no other."""
ROUND_S = 90.0
"""What a round with a fault takes besides the fault: load before and after it, coming back, the final read."""
BEFORE_S = 10.0
"""This time before the fault shows what is normal."""
READ_AGAIN = "consumers read again"
"""Mark of the moment at which consumers that stayed away come back."""
LEAVES, JOINS = "leaves", "joins"
"""End of the marks of a member of a consumer group that comes or goes."""
NOTHING_DONE = "nothing is done"
"""Mark of a load that only goes on, until the next mark."""
BACK_WITHIN_S = 90.0
"""A node that is started again has to be back, in sync everywhere, within this time."""
LOOK_EVERY_S = 0.1
WORDS: Mapping[Action, str] = {"cut-off": "cut off", "heal": "mend the links of"}
"""What is noted of an action, where that is not its name."""
NEGLIGIBLE_GAP_S = 0.05
"""A load whose gaps without a fault (p99) are shorter shows an outage as exactly as it is stated."""
LATE = "late load"
"""The kind of doubts of a load that was sent late, before the fault or since: the largest of these counts."""
OUTAGES = ("outage_s", "receive_outage_s", "others_receive_outage_s", "outage_all_s", "receive_outage_all_s")
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
    "receive_outage_affected",
    "receive_outage_partition_seconds",
    "records_per_s",
    "p99_growth",
    "cpu_per_record_growth",
)
"""The same of figures that a load which was not as declared may have made whatever they are."""
STATIC = "group.instance.id"
"""The setting of static members (KIP-345); of a scenario: how their names begin."""
FEWEST_MEMBERS = 2
"""Members of a group of which some come and go: another has to be there to take over."""
RETRIES = ("retries", "message.send.max.retries")
"""A scenario that sets these may have sends fail by design."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An outage between `low_s` and `high_s`, and why. Beyond `sure_s` (None: never) it may be too long already."""

    low_s: float
    high_s: float
    why: str
    sure_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What an outage depends on, in s: when a silent broker is fenced (`first` .. `last`, in words `fenced`), how long
    the fault is held, and the p99 of the latency before it."""

    first: float
    last: float
    fenced: str
    hold: float
    usual: float


@dataclass(frozen=True, slots=True)
class Figures:
    """A scenario's figure of a metric (None: it has none), and how reports write a number."""

    value: Callable[[str], float | None]
    number: Callable[[float], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultKind:
    """A kind of fault: what is done, what that should cost, and what is known of it.

    `act` ends once what it took away is given back. `sending`: the longest time in which a partition takes no record;
    `receiving`: in which nothing of it is received, None where that follows from the former. `commands`: those of a
    target file's `[faults]` that bring it about on real brokers; None: no command can. `brokers_down` at a time.
    `every_broker`: each that holds the topic is taken away in turn. `ends_load`: a part of the load is gone for good.
    `leaves_unread`: consumers stay away, and have to catch up. `redelivers`: a share group's records are delivered
    again, and each is still accepted once. `harmless`: nothing is done, so that real brokers need no permission, and
    what time alone makes worse is judged. `drops_cache`: of the brokers' logs. `tiered`: these lie in a remote tier.
    `prepared`: brokers are touched before the first mark. `elects_controller`: another one has to take over.
    """

    name: str
    act: Callable[[Scene], None]
    sending: Callable[[Case], Expectation]
    receiving: Callable[[FaultScenario], Expectation] | None = None
    commands: tuple[Action, ...] | None
    brokers_down: int = 1
    every_broker: bool = False
    ends_load: bool = False
    leaves_unread: bool = False
    redelivers: bool = False
    harmless: bool = False
    drops_cache: bool = False
    tiered: bool = False
    prepared: bool = False
    elects_controller: bool = False
    follows: bool = False
    """It is done to a broker that follows others."""
    others_read: tuple[Membership, ...] = ()
    """Memberships of which a group can be whose other members read what one of them does not."""
    joins: Callable[[int], Sequence[int]] | None = None
    """Members of the first group come and go. Given how many there are at first: the place that each one takes which
    joins later, from 0 on; a static member is known by its place. None: nothing of it changes."""
    meanwhile: str = "with the fault"
    """Words for the time for which it is held."""
    no_effect: str = ""
    """What may be the reason where it had no effect, in words that end with "; "."""
    note: Callable[[Figures], str] = lambda _figures: ""
    """What stands below the tables of a scenario with it; empty: nothing."""


class _Folder(Mapping[str, FaultKind]):
    """Kinds of fault by name: FAULT of each module in the folder that defines it."""

    def _kinds(self) -> dict[str, FaultKind]:
        modules = _modules(tuple(import_module(FOLDER).__path__))
        kinds: list[FaultKind] = [module.FAULT for module in modules if hasattr(module, "FAULT")]
        return {kind.name: kind for kind in kinds}

    def __getitem__(self, name: str) -> FaultKind:
        return self._kinds()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds())

    def __len__(self) -> int:
        return len(self._kinds())


@cache
def _modules(path: tuple[str, ...]) -> list[ModuleType]:
    return [import_module(f"{FOLDER}.{module.name}") for module in pkgutil.iter_modules(path)]


FAULTS: Mapping[str, FaultKind] = _Folder()


@dataclass
class Scene:
    """What a fault's action can see and do; what it does is noted with its time."""

    scenario: FaultScenario
    faults: Faults
    load: JournaledLoad
    watch: Watch
    marks: list[tuple[float, str]] = field(default_factory=list)

    def mark(self, words: str) -> None:
        self.marks.append((time.monotonic(), words))

    def do(self, action: Action, node: int, called: str = "broker", *, noted: bool = True) -> None:
        """Do this to a node, with the load and the cluster's health watched for as long as that takes."""
        words = f"{WORDS.get(action, action)} {called} {node}"
        if noted:
            self.mark(words)
        self.faults.do(action, node, lambda: self.load.follow_until(time.monotonic() + LOOK_EVERY_S, words))

    def leader(self) -> int:
        """Return the broker that leads the first partition whose leader may be taken away."""
        return self.one_of(self.watch.last.leaders)

    def one_of(self, brokers: Sequence[int]) -> int:
        """Return the first that may be taken away; the first of all where none may: doing the fault then fails."""
        allowed = self.faults.allowed or brokers
        return next((broker for broker in brokers if broker in allowed), brokers[0])

    @property
    def holders(self) -> list[int]:
        return sorted({broker for ids in self.watch.last.replicas for broker in ids})

    def hold(self, seconds: float | None = None) -> None:
        """Let the load go on for these seconds, or for as long as the fault is to be held."""
        held_s = self.scenario.fault.hold_s if seconds is None else seconds
        self.load.follow_until(time.monotonic() + held_s, self.scenario.fault.about.meanwhile)

    def leave(self, number: int) -> None:
        """Have the member of this number, from 1 on, close, and note it."""
        self.mark(f"consumer {number} {LEAVES}")
        self.load.leave(f"consumer-{number}")

    def join(self, number: int, within_s: float) -> None:
        """Have the member of this number join, note it, and wait until it is given records, for `within_s` at most."""
        self.mark(f"consumer {number} {JOINS}")
        self.load.join(name := f"consumer-{number}")
        deadline = time.monotonic() + within_s
        while not self.load.received(name) and time.monotonic() < deadline:
            self.load.follow_until(
                time.monotonic() + LOOK_EVERY_S, f"waiting for the first record of consumer {number}"
            )

    def until(self, come: Callable[[State], bool], what: str) -> None:
        """Let the load go on until the brokers report it. Raises BrokersFailedError when they do not in time."""
        deadline = time.monotonic() + BACK_WITHIN_S
        while not come(self.watch.last):
            if time.monotonic() > deadline:
                reason = f"{what}: not so within {BACK_WITHIN_S:.0f} s; the brokers say {self.watch.last}"
                raise BrokersFailedError(reason, perhaps_late=True)
            self.load.follow_until(time.monotonic() + LOOK_EVERY_S, f"waiting until {what}")

    def gone(self, broker: int) -> None:
        """Wait until the cluster has dropped this broker; otherwise the fault had no effect."""
        self.until(lambda state: broker not in state.brokers, f"the cluster no longer counts broker {broker}")

    def bring_back(self, node: int) -> None:
        """Start a node again and wait until it is in sync everywhere."""
        self.do("start", node, "node")
        if any(node in state.brokers for state in self.watch.states):  # no controller is among these
            self.until(lambda state: node in state.brokers, f"broker {node} is back")
        self.until(lambda state: state.full, f"all replicas are in sync after node {node} came back")

    def away_for_a_while(self, action: Action) -> None:
        """Take a leader away by this action, hold the fault, and undo it.

        Where this is broken off the target undoes it: an error in that must not hide what broke it off.
        """
        broker = self.leader()
        self.do(action, broker)
        self.hold()
        self.gone(broker)
        self.do(BACK[action], broker)
        self.until(lambda state: state.full and broker in state.brokers, f"all replicas are in sync again on {broker}")


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
        return FAULTS[self.kind]


TIERED = "remote.storage.enable"
"""The setting of a topic whose older segments move to the remote tier (KIP-405)."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class FaultScenario(Scenario):
    """A scenario of which each round is one such fault, and what it costs."""

    fault: Fault
    has_fault: ClassVar[bool] = True
    confirmable: ClassVar[bool] = False
    """A fault is not done to brokers a second time: a lost record is lost."""

    @classmethod
    def of(cls, scenario: Scenario, fault: Fault) -> FaultScenario:
        return cls(**{field.name: getattr(scenario, field.name) for field in fields(Scenario)}, fault=fault)

    @property
    def measured_with(self) -> tuple[str, ...]:
        return self.families[:1]

    @property
    def joining(self) -> Sequence[int]:
        joins = self.fault.about.joins
        return joins(self.consumers.processes) if self.consumers and joins else ()

    @property
    def held_s(self) -> float:
        return self.fault.hold_s

    @property
    def unfit_for_fault(self) -> str:
        if self.groups > 1 and not self.fault.about.leaves_unread:
            return "a round with a fault follows every record to one group of consumers; the scenario has several"
        if self.topic.count > 1:
            return "a round with a fault watches one topic; the scenario has several"
        if self.beside:
            return "a round with a fault follows one load; the scenario has others beside it"
        return self._cannot_spare() or self._cannot_rebalance() or self._cannot_be_cold()

    def _cannot_spare(self) -> str:
        """Why no follower or client of it can be done without, though the fault is about those that are left."""
        about, consumers = self.fault.about, self.consumers
        if about.follows and self.topic.replication_factor < 2:
            return f"{about.name} needs a follower of each partition: topic.replicas=2 or more"
        if about.ends_load and self.producers < 2:
            return f"{about.name} kills a producer while others send: it needs 2 producers.processes or more"
        members = consumers.processes if consumers and consumers.membership in about.others_read else 0
        if about.others_read and members < FEWEST_MEMBERS:
            return (
                f"{about.name} is about what the other members of a group read: it needs consumers.membership="
                f"{', '.join(about.others_read)}, and {FEWEST_MEMBERS} consumers.processes or more"
            )
        return ""

    def _cannot_rebalance(self) -> str:
        """Why members of its group cannot come and go; empty where they can, or need not."""
        consumers, kind = self.consumers, self.fault.kind
        if self.fault.about.joins is None:
            return ""
        if self.cluster.system != "kafka":
            return f"{kind} moves members of a consumer group, which a subscription of Pulsar does not share out"
        if consumers is None or consumers.membership != "group":
            return f"{kind} moves members of a consumer group: it needs consumers.membership=group"
        clients = (consumers.processes + 1) * consumers.threads
        if consumers.processes < FEWEST_MEMBERS or clients > self.topic.partitions:
            return (
                f"{kind} needs {FEWEST_MEMBERS} consumers.processes or more, and a topic partition for each of "
                f"{clients} members, one process more than at first: there are {self.topic.partitions}"
            )
        return ""

    def _cannot_be_cold(self) -> str:
        """Why its consumers cannot read what brokers have no longer at hand; empty where they can, or need not."""
        kind = self.fault.about
        if not (kind.drops_cache or kind.tiered):
            return ""
        if self.cluster.system != "kafka":
            return f"{kind.name} is of Kafka's logs: Pulsar's bookies keep entries in caches of their own"
        if self.consumers is None:
            return f"{kind.name} is about what consumers read: there are none"
        if kind.tiered and dict(self.topic.config).get(TIERED) != "true":
            return f"{kind.name} needs a topic whose segments move to the remote tier: topic.{TIERED}=true"
        return ""

    def rounds(self, tier: Tier) -> int:
        """Return the number of rounds, each with the fault, in this tier."""
        return 1 if tier.name == "smoke" else self.fault.repeats

    def seconds(self, tier: Tier) -> float:
        """Return the time that its rounds in this tier take, at about the most, in s."""
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


def record_lock_s(scenario: Scenario) -> float:
    """Return the time that a member of a share group may take over a record before others are given it, in s."""
    return float(dict(scenario.cluster.config).get(LOCK, LOCK_MS)) / 1e3


def parted(scenarios: Iterable[Scenario]) -> tuple[list[Scenario], list[FaultScenario]]:
    given = list(scenarios)
    faulty = [scenario for scenario in given if isinstance(scenario, FaultScenario)]
    return [scenario for scenario in given if not scenario.has_fault], faulty
