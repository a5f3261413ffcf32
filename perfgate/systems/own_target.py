"""Bases of the targets whose clusters the suite starts itself, one at a time or two, and of faults of their nodes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import psutil

from perfgate.host.machine_use import available_memory
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.host.waiting import NotYet, check_while_starting, poll_until, wait_while_it_progresses
from perfgate.model import MIB, ClusterSpec, Link, Scenario
from perfgate.model.errors import BrokersFailedError, ConfigurationError
from perfgate.model.target import Action, Meter

START_TRIES = 2
STOP_TIMEOUT_S = 60
"""A broker that hands its leaders over on SIGTERM takes seconds; Kafka's own limit for that is 3 tries of 5 s."""
ASK_EVERY_S = 0.05


class Supervisor(Protocol):
    """What runs the nodes of a cluster, as processes or containers, and all that is beside them."""

    @property
    def recording(self) -> bool:
        """Whether nodes record a cache of Java's."""

    def keep_caches(self) -> None:
        """End the nodes that record, and keep their caches for later runs. They are missing afterwards."""

    def check(self, absent: Collection[int]) -> None:
        """Raise BrokersFailedError for a node that has ended and is not `absent`, TargetError for another process."""

    def tail(self, node: int, lines: int) -> str:
        """Return the last lines of a node's log."""

    def logged(self) -> Hashable:
        """Return a value that differs once a node has logged more."""

    def close(self) -> None:
        """End everything; the logs stay."""


class StartedCluster(ABC):
    """A cluster that the suite starts and ends; half of a :class:`perfgate.model.target.Cluster`."""

    own = dedicated = True
    most_bytes_per_s = most_read_bytes_per_s = math.inf
    most_failed = 1.0  # these brokers are there to be loaded; sends that fail are judged
    supervisor: Supervisor
    faults: NodeFaults

    def __init__(self, spec: ClusterSpec, logs: Path) -> None:
        self.spec, self._logs = spec, logs
        self._ids = range(1, spec.brokers + 1)
        self.meter = Meter()
        self._started_s = 0.0
        self.proxy: ToxiproxyApi | None = None
        """The link to the other zone, if any."""

    @abstractmethod
    def start(self) -> None:
        """Start all nodes and wait until they say that they are ready. Raises TargetError."""

    @property
    @abstractmethod
    def node_logs(self) -> Mapping[int, object]:
        """Name of the log of each node, by node."""

    @abstractmethod
    def _begin_at(self, *, cross_zone: bool) -> str:
        """Where clients begin, as the system's clients take it; those of another zone at the proxies."""

    def bootstrap(self, link: Link) -> str:
        """Return where clients begin; the proxies of a link across zones emulate the last one that was asked for."""
        if link.crosses_zones and self.proxy:
            self.proxy.emulate(link, self._ids)
        return self._begin_at(cross_zone=link.crosses_zones)

    def _logged(self) -> Hashable:
        return self.supervisor.logged()

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(f"--- {name}\n{self.supervisor.tail(node, lines)}" for node, name in self.node_logs.items())

    def _wait(self, missing: Callable[[], str], failure: str) -> None:
        """Wait while something is missing and the nodes make progress. Raises BrokersFailedError with the logs' end."""
        stated = (*self.spec.config, *((f"bookie {name}", value) for name, value in self.spec.bookie_config))
        check = partial(check_while_starting, self.check, stated)
        try:
            wait_while_it_progresses(missing, logged=self._logged, check=check)
        except TimeoutError as error:
            raise _late(f"{failure} {error}\n{self.log_tail(10)}") from error

    def check(self) -> None:
        self.supervisor.check(self.faults.absent)

    @abstractmethod
    def facts(self) -> Mapping[str, object]: ...

    def close(self) -> None:
        self.supervisor.close()


Started = TypeVar("Started", bound=StartedCluster)


class OwnTarget(ABC, Generic[Started]):
    """Starts clusters, one at a time; see :class:`perfgate.model.target.Target`."""

    kind: str
    own = dedicated = True
    left_behind: tuple[str, ...] = ()
    port_taken: tuple[str, ...] = ()
    """Words of a start that failed because a port was taken between choice and use: worth another set, once."""
    nodes_called = "the brokers"
    _paired = False
    """Whether there was memory for two clusters once."""

    def __init__(self, *, log_folder: Path, say: Callable[[str], None]) -> None:
        self._log_folder, self._say = log_folder, say
        self._alive: Started | None = None
        self._beside: Started | None = None
        self._started = 0

    @abstractmethod
    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], Started]:
        """Announce the start; return a factory of such clusters, which are not started yet."""

    def start(self, spec: ClusterSpec, logs: Path) -> Started:
        """Return a cluster of this spec that has started. Raises TargetError."""
        make = self._maker(spec, logs)
        for attempt in range(START_TRIES):
            cluster = make()
            try:
                cluster.start()
            except BaseException as error:
                cluster.close()
                if any(words in str(error) for words in self.port_taken) and attempt + 1 < START_TRIES:
                    continue
                raise
            return cluster
        raise AssertionError("unreachable")

    @abstractmethod
    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Facts about such a cluster that are known before it starts."""

    def cannot(self, scenario: Scenario) -> str | None:
        return None

    def gone(self) -> str:
        """Return nothing: brokers of the suite's own that end make a scenario BROKEN."""
        return ""

    def cluster(self, spec: ClusterSpec) -> Started:
        if self._alive is None or self._alive.spec != spec:
            self.close()
            self._alive = self._another(spec)
        return self._alive

    def _needed_mib(self, spec: ClusterSpec) -> float:
        """Return the memory that such a cluster takes under load, in MiB; 0: not known."""
        return 0.0

    def _free_mib(self) -> float:
        """Return the memory that nodes can take, in MiB: containers have control groups of their own."""
        return (psutil.virtual_memory().available if self.kind == "containers" else available_memory()) / MIB

    def _check_memory(self, needed_mib: float, nodes: str) -> None:
        """Raise ConfigurationError for too little memory: the kernel would kill a node, which is then blamed for it."""
        if needed_mib > (free := self._free_mib()):
            raise ConfigurationError(
                f"too little memory: {nodes} take about {needed_mib:,.0f} MiB, and {free:,.0f} MiB are available: end "
                "what else runs here, or run on a larger machine"
            )

    def beside(self, spec: ClusterSpec) -> Started:
        """Start a second cluster next to that now alive. Raises ConfigurationError where memory would run out."""
        needed, free = self._needed_mib(spec), self._free_mib()
        if not self._paired and needed > free:  # what was measured is not given up for what is less later
            raise ConfigurationError(
                f"a second cluster side by side takes about {needed:,.0f} MiB of memory, and {free:,.0f} MiB are "
                "available: end what else runs here, or compare on a larger machine"
            )
        self._paired = True
        self._beside = self._another(spec)
        return self._beside

    def _another(self, spec: ClusterSpec) -> Started:
        self._started += 1
        return self.start(spec, self._log_folder / f"cluster-{self._started}")

    def keep_aot_cache(self) -> None:
        """Keep what Java learnt of the nodes that are alive, where no run has done so; they end then."""
        if self._alive and self._alive.supervisor.recording:
            self._say(f"keeping what Java learnt of {self.nodes_called}, once: later runs warm up sooner")
            self._alive.supervisor.keep_caches()
            self.close()

    def close(self) -> None:
        """End the clusters that are alive; their logs stay. After an interruption the next call ends the rest."""
        alive, beside = self._alive, self._beside
        self._alive = self._beside = None
        try:
            with ExitStack() as stack:
                for cluster in filter(None, (beside, alive)):
                    stack.callback(cluster.close)
        except KeyboardInterrupt:
            self._alive, self._beside = alive, beside
            raise


def _late(reason: str) -> BrokersFailedError:
    return BrokersFailedError(reason, perhaps_late=True)


class NodeFaults:
    """Actions on nodes that this suite has started, by a function each."""

    allowed: Collection[int] = ()

    def __init__(self, actions: Mapping[Action, Callable[[int], None]], runs: Callable[[int], bool]) -> None:
        self._actions, self._runs = actions, runs
        self.absent: set[int] = set()
        """Nodes that are meant to have ended."""

    def do(self, action: Action, node: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Act on a node at once, and go on; one that is to end is expected to be absent until it is started again."""
        if action in ("kill", "stop"):
            self.absent.add(node)
        self._actions[action](node)
        if action == "start":
            self.absent.discard(node)

    def session_s(self) -> float | None:
        """Return None: its nodes have the declared session."""
        return None

    def wait_until_ended(self, node: int) -> None:
        def ended() -> None:
            if self._runs(node):
                raise NotYet("it still runs")

        failure = f"node {node} was asked to end and has not done so"
        poll_until(failure, ended, within_s=STOP_TIMEOUT_S, every_s=ASK_EVERY_S, error=_late)
