"""Targets, and what each must offer: the seam between the scenarios and where their Kafka runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, Protocol, Self, get_args

from perfgate.model.declared import ClusterSpec, Link, Scenario, Settings, TopicSpec
from perfgate.model.errors import LimitReachedError, TargetError
from perfgate.model.load import PREFIX as PREFIX

Action = Literal["kill", "stop", "start", "pause", "resume", "cut-off", "heal"]
"""What is done to a node. `kill`: end it at once (SIGKILL); `stop`: ask it to end in an orderly way (SIGTERM); `start`:
start it again with its data and addresses; `pause`: let it stand still with its connections open (SIGSTOP); `resume`:
let it go on (SIGCONT); `cut-off`: sever a broker's links to clients, brokers and controllers, closing none; `heal`:
mend them."""
ACTIONS = get_args(Action)
BACK: Mapping[Action, Action] = {"kill": "start", "stop": "start", "pause": "resume", "cut-off": "heal"}
"""What gives back what each takes away."""
ASK_EVERY_S = 0.1
"""How often a watch asks the brokers: what it sees is known to this."""


@dataclass(frozen=True, slots=True)
class State:
    """What the brokers said at one moment (s on the monotonic clock): per partition its leader (-1: none) and its
    in-sync replicas, and which brokers take part."""

    at: float
    leaders: tuple[int, ...]
    in_sync: tuple[tuple[int, ...], ...]
    replicas: tuple[tuple[int, ...], ...]
    brokers: tuple[int, ...]

    @property
    def full(self) -> bool:
        """Whether every partition has a leader, and all its replicas in sync."""
        return min(self.leaders) >= 0 and all(
            set(here) == set(all_) for here, all_ in zip(self.in_sync, self.replicas, strict=True)
        )

    @property
    def preferred(self) -> bool:
        """Whether every partition is led by its first replica."""
        return all(leader == replicas[0] for leader, replicas in zip(self.leaders, self.replicas, strict=True))


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change at a moment (s on the monotonic clock): a broker `fenced`, or `back`; a partition's new `leader` (-1:
    it has none), `unclean` if that one was not in sync; a `controller` that became the active one.

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
    """Every state that differs from the one before."""

    def __enter__(self) -> Self:
        """Begin to ask."""

    def __exit__(self, *_: object) -> None:
        """Ask no more."""

    @property
    def last(self) -> State:
        """The newest state. Raises TargetError when the brokers have never answered, or are no longer asked."""


class Faults(Protocol):
    """Nodes are named by id. What a fault takes away is no longer missed by the cluster's `check` until it is back.

    Each raises TargetError when the fault cannot be brought about.
    """

    @property
    def allowed(self) -> Collection[int]:
        """The brokers that may be taken away; all when there are none."""

    def do(self, action: Action, node: int) -> None:
        """Do this to a node, and go on."""

    def session_s(self) -> float | None:
        """Return how long a broker may be silent (s), as real brokers tell; 0: they do not; None: as was declared."""

    def wait_until_ended(self, node: int) -> None:
        """Wait until a node that was asked to end has ended."""

    def active_controller(self) -> int:
        """Return the node that leads the controllers' quorum."""

    def changes(self, topic: str) -> Sequence[LoggedChange] | None:
        """Return what the controllers wrote down of this topic and the brokers; None where that is out of reach."""

    def move_replicas(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Ask the controllers to move each partition's replicas to these brokers, and go on."""


class TopicKeeper(Protocol):
    """Creates, inspects and deletes topics; see :class:`perfgate.systems.kafka.client.topics.Topics`."""

    def create(self, name: str, spec: TopicSpec) -> None:
        """Create the topic and wait until it can be written to. Raises TopicRefusedError."""

    def exists(self, name: str) -> bool:
        """Return whether the brokers have a topic of this name."""

    def end_offsets(self, name: str, partitions: int) -> tuple[int, ...]:
        """Return every partition's end offset."""

    def leaders(self, name: str) -> tuple[int, ...]:
        """Return the broker that leads each partition now, -1 for none. Raises TargetError."""

    def delete(self, name: str) -> None:
        """Delete the topic, and the consumer groups named after it."""


class LiveSettings(Protocol):
    """The settings of a cluster's brokers that can be changed while they run."""

    def fixed(self, names: Iterable[str]) -> list[str]:
        """Return those that take effect at a broker's start only.

        Raises ConfigurationError for one that the brokers do not know.
        """

    def change(self, values: Settings) -> float:
        """Have every broker take these values; return how long it took until the last one said so, in s.

        Raises ConfigurationError for a value that brokers refuse; TargetError where one does not take it.
        """

    def still(self, values: Settings) -> float:
        """Raise InterferedError where somebody has changed what brokers were given; return how long that took, in s."""

    def restore(self) -> float:
        """Have every setting as it was before it was first changed; return how long that took, in s."""


class OutsideChange(LiveSettings, Protocol):
    """A change that something else than the suite makes, and reverts."""

    rehearsals: int
    """So many times it is made and reverted before anything is measured."""

    def close(self) -> tuple[str, ...]:
        """Revert the change if it is applied; return what a person has to do where that fails. May be called again."""


class Reachable(Protocol):
    """Brokers that a client can be made for."""

    def bootstrap(self, link: Link) -> str:
        """Return the bootstrap servers (`host:port,...`) that a client on this link uses."""

    def client_settings(self) -> Settings:
        """Return what a client needs besides the bootstrap servers (security), in librdkafka's names."""

    def check(self) -> None:
        """Raise TargetError, with the broker and the reason, when a broker is gone."""


class Cluster(Reachable, Protocol):
    """A running cluster that fits one ClusterSpec."""

    spec: ClusterSpec
    own: bool
    """Whether the suite started it, on this machine, so that the links to its other zones are the suite's doing too."""
    dedicated: bool
    """Whether its brokers serve nobody else, so that what they fail to do is their doing: BROKEN."""
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
        """Return what asks the brokers for the state of a topic while something is done to them."""

    def topics(self) -> TopicKeeper:
        """Return what creates topics on these brokers."""

    def live_settings(self) -> LiveSettings:
        """Return what changes the brokers' settings while they run; what it changed ends with the cluster, or is put
        back then."""

    def rtt_ms(self, link: Link) -> float:
        """Measure one request's round trip to a broker over this link, in ms (median over brokers and repeats)."""

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of every broker's log."""

    def facts(self) -> Mapping[str, object]:
        """Return what run.json says of the target: kind, name, kafka_version, brokers, racks, java."""


class OfCluster(str):
    """Why a scenario cannot be run on a cluster as it is now, and not as the target file or the run's options are."""

    __slots__ = ()


class Target(Protocol):
    """Starts clusters. One is alive at a time, or two that are compared and loaded in turns."""

    kind: str
    own: bool
    """Whether its brokers are started for the run, and end with it."""
    dedicated: bool
    """Whether they serve nobody else; those of a run of its own do not."""
    left_behind: tuple[str, ...]
    """What `close` could not put back, as what a person has to do."""

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the brokers have no room for so many bytes, replicas counted."""

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Fetch what these clusters need, before anything is started. Raises ConfigurationError."""

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return what is known of such a cluster before it has started: kind, name, kafka_version at the least."""

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why this target cannot run the scenario, or None when it can. Asked once it is prepared.

        What lies with the cluster is an `OfCluster`.
        """

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """Return the cluster of this spec, started if it is not the one now alive. Raises TargetError."""

    def beside(self, spec: ClusterSpec) -> Cluster:
        """Return another cluster, of this spec, that lives beside the one now alive. Raises TargetError."""

    def keep_aot_cache(self) -> None:
        """Keep what Java learnt of the brokers, for later runs to warm up sooner; where nothing can be, do nothing."""

    def gone(self) -> str:
        """Return which brokers of the start are not there any more, or that none tells; empty where all are."""

    def close(self) -> None:
        """End everything that was started, and put back what was changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledRecords:
    """What a sample of records is like. `record_bytes` and those after it are of their values: mean, median and p99.

    `keyed`: how many have a key; `keys`: how many different ones there are among them. `gzip_ratio`: how many times
    smaller gzip makes their values, 16 KiB at a time. `packed`: bytes of records in each byte that the brokers sent:
    more than one where batches are compressed, whoever did that; None where it could not be told.
    """

    records: int
    record_bytes: int
    record_bytes_median: int
    record_bytes_p99: int
    keyed: int
    keys: int
    gzip_ratio: float
    packed: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedTopic:
    """A topic as its brokers describe it, its rate (records/s over `rate_over_s`) and what its records are like.

    `config`: its settings that bear on performance, where they are not Kafka's defaults.
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
    """Counts the bytes that a run has had acknowledged, replicas counted, and stops it when they are too many."""

    most: float = math.inf
    written: float = 0.0
    """By loads that have ended."""
    stopped: str = ""
    """Why nothing more is done to the brokers."""
    by_limit: bool = False
    """Whether that is a limit of the run's, and not the brokers' state."""
    _under_way: float = 0.0

    def stop(self, reason: str, failed: type[TargetError] = TargetError, *, by_limit: bool = False) -> NoReturn:
        """Raise TargetError, now and whenever another load is to begin; now the kind that `failed` says."""
        self.stopped, self.by_limit = reason, by_limit
        raise (LimitReachedError if by_limit else failed)(reason)

    def stay_stopped(self) -> NoReturn:
        """Raise what stopped the run."""
        raise (LimitReachedError if self.by_limit else TargetError)(self.stopped)

    def begin(self) -> None:
        """Note that another load begins."""
        self.written, self._under_way = self.written + self._under_way, 0.0

    def under_way(self, bytes_: float) -> None:
        """Take in what the load under way has written so far. Raises TargetError once it is too much."""
        self._under_way = max(self._under_way, bytes_)
        if self.written + self._under_way > self.most:
            self.stop(
                f"stopped: the run has written {(self.written + self._under_way) / 1e9:,.1f} GB, replicas counted, and "
                f"[limits] bytes allows {self.most / 1e9:,.1f}",
                by_limit=True,
            )
