"""Targets, clusters and their nodes: what each must offer to be measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, Protocol, Self, get_args

from perfgate.model.declared import ClusterSpec, Link, Scenario, Settings, TopicSpec
from perfgate.model.errors import LimitReachedError, TargetError
from perfgate.model.load import PREFIX as PREFIX

Action = Literal["kill", "stop", "start", "pause", "resume", "cut-off", "heal"]
"""What is done to a node. `kill`: SIGKILL; `stop`: SIGTERM; `start`: again, with its data and addresses; `pause`:
SIGSTOP, its connections stay open; `resume`: SIGCONT; `cut-off`: sever a broker's links to clients, brokers and
controllers, closing none; `heal`: mend them."""
ACTIONS = get_args(Action)
BACK: Mapping[Action, Action] = {"kill": "start", "stop": "start", "pause": "resume", "cut-off": "heal"}
"""The action that undoes each."""
ASK_EVERY_S = 0.1
"""How often a watch asks the brokers: the resolution of what it sees."""


@dataclass(frozen=True, slots=True)
class State:
    """The state that brokers report at a moment (s on the monotonic clock): per partition its leader (-1: none) and its
    in-sync replicas, and which brokers take part."""

    at: float
    leaders: tuple[int, ...]
    in_sync: tuple[tuple[int, ...], ...]
    replicas: tuple[tuple[int, ...], ...]
    brokers: tuple[int, ...]

    @property
    def full(self) -> bool:
        """Whether every partition has a leader, and all its replicas in sync; not where its replicas are unknown."""
        return min(self.leaders) >= 0 and all(
            all_ and set(here) == set(all_) for here, all_ in zip(self.in_sync, self.replicas, strict=True)
        )

    @property
    def preferred(self) -> bool:
        """Whether every partition is led by its first replica; not where its replicas are unknown."""
        return all(replicas[:1] == (leader,) for leader, replicas in zip(self.leaders, self.replicas, strict=True))


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change at a moment (s on the monotonic clock): a broker `fenced`, or `back`; a partition's new `leader` (-1:
    it has none), `unclean` if it was not in sync; a `controller` that became active.

    `number`: of the broker, partition or controller.
    """

    at: float
    what: Literal["fenced", "back", "leader", "controller"]
    number: int
    leader: int = -1
    unclean: bool = False


class Watch(Protocol):
    """Asks for a topic's state again and again while the context is open."""

    topic: str
    states: list[State]
    """Every state that differs from that before."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def last(self) -> State:
        """The newest state. Raises TargetError when the brokers have never answered, or are no longer asked."""


class Faults(Protocol):
    """Actions on nodes, by id; each raises TargetError. The cluster's `check` does not miss what a fault took away."""

    @property
    def allowed(self) -> Collection[int]:
        """The brokers that may be taken away; empty: all."""

    def do(self, action: Action, node: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Do this to a node, without waiting for its effect; `meanwhile` is called again and again if it takes time."""

    def session_s(self) -> float | None:
        """Return the time that a broker may be silent, in s, by real brokers' report; 0: unknown; None: as declared."""

    def wait_until_ended(self, node: int) -> None: ...

    def active_controller(self) -> int: ...

    def changes(self, topic: str) -> Sequence[LoggedChange] | None:
        """Return the logged changes of this topic and the brokers; None where the controllers' log cannot be read."""

    def move_replicas(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Ask the controllers to move each partition's replicas to these brokers, without waiting."""

    def drop_cache(self) -> float:
        """Drop the brokers' logs from the page cache; return the share of them that stays in it."""

    def local_share(self, topic: str, replicas: int) -> float:
        """Return the bytes of a topic in a replica's own logs over those in the remote tier; infinity: none there."""


class TopicKeeper(Protocol):
    """Creates, inspects and deletes the topics of the round `name` (:func:`perfgate.model.declared.topic_names`)."""

    def create(self, name: str, spec: TopicSpec, progress: Callable[[str], None] = lambda _: None) -> None:
        """Create the topics and wait until they can be written to; `progress` takes words. Raises TopicRefusedError."""

    def reuse(self, name: str, spec: TopicSpec) -> None:
        """Have topics that were kept be as `create` made them, whatever other topics were created since."""

    def exists(self, name: str) -> bool: ...

    def end_offsets(self, name: str, partitions: int, count: int = 1) -> tuple[int, ...]:
        """Return every partition's end offset, `partitions` of each of `count` topics."""

    def leaders(self, name: str, count: int = 1) -> tuple[int, ...]:
        """Return the broker that leads each partition of `count` topics now, -1 for none. Raises TargetError."""

    def delete(self, name: str, count: int = 1, progress: Callable[[str], None] = lambda _: None) -> None:
        """Delete `count` topics, and the consumer groups named after them; `progress` as for `create`."""


class LiveSettings(Protocol):
    """The settings of a cluster's brokers that can be changed while they run."""

    def fixed(self, names: Iterable[str]) -> list[str]:
        """Return those that take effect at a broker's start only. Raises ConfigurationError for an unknown name."""

    def change(self, values: Settings) -> float:
        """Have every broker take these values; return the time until the last confirmed them, in s.

        Raises ConfigurationError for a value that brokers refuse; TargetError where a broker does not take it.
        """

    def still(self, values: Settings) -> float:
        """Raise InterferedError where another client changed the values; return the time that the check took, in s."""

    def restore(self) -> float:
        """Put every setting back as it was before its first change; return the time that it took, in s."""


class OutsideChange(LiveSettings, Protocol):
    """A change that something else than the suite makes and reverts; `rehearsals` times before anything is measured."""

    rehearsals: int

    def close(self) -> tuple[str, ...]:
        """Revert the change if it is applied; return what a person has to do where that failed. May be repeated."""


class Reachable(Protocol):
    """Brokers that a client can be made for."""

    def bootstrap(self, link: Link) -> str:
        """Return the bootstrap servers (`host:port,...`) that a client on this link uses."""

    def client_settings(self) -> Settings:
        """Return the settings that a client needs besides the bootstrap servers (security), in librdkafka's names."""

    def check(self) -> None:
        """Raise TargetError, with the broker and the reason, when a broker is gone."""


class Cluster(Reachable, Protocol):
    """A running cluster that fits a ClusterSpec."""

    spec: ClusterSpec
    own: bool
    """Whether the suite started it, on this machine, and emulates the links to its other zones."""
    dedicated: bool
    """Whether its brokers serve no one else, so that a failure of theirs is BROKEN."""
    prefix: str
    """What the names of topics, groups and transactional ids on it begin with."""
    most_failed: float
    """The share of sends that may fail; more stop the run at once."""
    most_bytes_per_s: float
    """How fast records may be written, replicas counted."""
    most_read_bytes_per_s: float
    """How fast they may be read, each group of consumers counted."""
    meter: Meter
    """What all loads of the run together have written."""

    @property
    def faults(self) -> Faults | None:
        """What can be done to its nodes; None where nothing can."""

    def watch(self, topic: str, link: Link) -> Watch:
        """Return a watch of the topic's state, for while something is done to the brokers."""

    def topics(self) -> TopicKeeper: ...

    def live_settings(self) -> LiveSettings:
        """Return the settings that can change while the brokers run; put back, or gone, with the cluster's end."""

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        """Bound the bytes/s that each broker takes from producers of a client id, until its end. Raises TargetError."""

    def rtt_ms(self, link: Link) -> float:
        """Return a request's round trip over this link, in ms (median over brokers and repeats)."""

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of every broker's log."""

    def facts(self) -> Mapping[str, object]:
        """Return the facts of the target that run.json has: kind, name, kafka_version, brokers, racks, java."""


class OfCluster(str):
    """The reason why a cluster as it is now cannot run a scenario, whatever the target file or the options say."""

    __slots__ = ()


class Target(Protocol):
    """Starts clusters: singly, or two that are compared."""

    kind: str
    own: bool
    """Whether its brokers are started for the run, and end with it."""
    dedicated: bool
    """Whether they serve no one else."""
    left_behind: tuple[str, ...]
    """What a person has to do where `close` could not put everything back."""

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the brokers lack room for these bytes, replicas counted."""

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Fetch what these clusters need before any starts. Raises ConfigurationError."""

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return the facts of such a cluster that are known before it starts: at least kind, name, kafka_version."""

    def cannot(self, scenario: Scenario) -> str | None:
        """Return the reason why this target, once prepared, cannot run the scenario, if any; `OfCluster`: as it is."""

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """Return the cluster of this spec: that which is alive, or a new cluster. Raises TargetError."""

    def beside(self, spec: ClusterSpec) -> Cluster:
        """Return a second cluster, of this spec, next to that which is alive. Raises TargetError."""

    def keep_aot_cache(self) -> None:
        """Keep Java's AOT cache, so that later runs warm up sooner; nothing where there is none."""

    def gone(self) -> str:
        """Return which brokers of the start are gone, or that this is not known; empty where none is."""

    def close(self) -> None:
        """End all that was started, and put back what was changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledRecords:
    """What a sample of records is like. `record_bytes`: mean, median and p99 of their values.

    `keyed`: how many have a key; `keys`: how many different keys. `gzip_ratio`: how many times smaller gzip makes their
    values, 16 KiB at a time. `packed`: bytes of records in each byte that the brokers sent, above 1 where batches are
    compressed; None: unknown.
    """

    records: int
    record_bytes: int
    record_bytes_median: int
    record_bytes_p99: int
    keyed: int
    keys: int
    gzip_ratio: float
    packed: float | None = None
    record_sizes: tuple[int, ...] = ()
    """The mean length of each twentieth of the values, the shortest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedTopic:
    """A topic in use: as its brokers describe it, its rate (records/s over `rate_over_s`) and a sample of its records.

    `config`: settings that bear on performance and are not Kafka's defaults.
    """

    name: str
    cluster: str
    partitions: int
    replication_factor: int
    config: Settings
    rate: float
    rate_over_s: float
    sample: SampledRecords


@dataclass
class Meter:
    """Counts acknowledged bytes, replicas counted, and stops the run when they are too many."""

    most: float = math.inf
    written: float = 0.0
    """By loads that have ended."""
    stopped: str = ""
    """The reason why nothing more is done to the brokers; `by_limit`: a limit of the run, not the brokers' state."""
    by_limit: bool = False
    _under_way: float = 0.0

    def stop(self, reason: str, failed: type[TargetError] = TargetError, *, by_limit: bool = False) -> NoReturn:
        """Raise `failed` now, and TargetError whenever another load is to begin."""
        self.stopped, self.by_limit = reason, by_limit
        raise (LimitReachedError if by_limit else failed)(reason)

    def stay_stopped(self) -> NoReturn:
        raise (LimitReachedError if self.by_limit else TargetError)(self.stopped)

    def begin(self) -> None:
        self.written, self._under_way = self.written + self._under_way, 0.0

    def under_way(self, bytes_: float) -> None:
        """Take what the load under way has written so far. Raises TargetError once it is too much."""
        self._under_way = max(self._under_way, bytes_)
        if self.written + self._under_way > self.most:
            self.stop(
                f"stopped: the run has written {(self.written + self._under_way) / 1e9:,.1f} GB, replicas counted, and "
                f"[limits] bytes allows {self.most / 1e9:,.1f}",
                by_limit=True,
            )
