"""Targets, and what each must offer: the seam between the scenarios and where their Kafka runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from perfgate.model import ClusterSpec, Link, Scenario, Settings, TopicSpec
from perfgate.model.load import PREFIX as PREFIX
from perfgate.model.meter import Meter
from perfgate.model.nodes import Faults, Watch


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
