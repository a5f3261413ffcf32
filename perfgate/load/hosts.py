"""The transport of many hosts: generator processes started and followed by agents on Dask workers."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import dask
from distributed import Client

from perfgate.host.clocks import Estimate, Exchange, Track, estimate, interpolated, off_by
from perfgate.host.machine_use import boot_id
from perfgate.load.agent import Agent, versions
from perfgate.load.history import HostJournals
from perfgate.load.hosts_file import Zones
from perfgate.load.scheduler import (
    ANSWER_S,
    CONNECT_S,
    SETTINGS,
    certificate_and_key,
    check_scheduler,
    client_of,
    own_cluster,
)
from perfgate.load.transport import WORKER, Heard, HostClock, Message
from perfgate.model import Link
from perfgate.model.errors import ConfigurationError
from perfgate.model.load import LoadError
from perfgate.model.measured import MachineUse

LEAD_S = 0.5
PATIENCE_S = 0.25
EXCHANGES = 16
"""Number of exchanges with a clock, of which the one with the smallest round trip counts."""
LOCAL = "local:"
MOMENTS = ("start", "window")
"""Messages to a generator process in which numbers are moments of its own clock."""

H = TypeVar("H")


class _Host:
    """The run's side of the connection to an agent."""

    def __init__(self, name: str, address: str, client: Client, agent: type[Agent]) -> None:
        self.name, self._address, self._client = name, address, client
        self._lost = ""
        self._ended, self._over = threading.Event(), True
        self._listener: threading.Thread | None = None
        future = client.submit(agent, actor=True, workers=[address], allow_other_workers=False, retries=0, pure=False)
        try:
            self._actor = future.result(timeout=CONNECT_S)
            there = self.ask("version")
            self.begin_anew()
        except Exception as error:  # a missing package, say, arrives as whatever the worker raised
            raise ConfigurationError(f"--hosts: no agent can be started on {name} ({address}): {error!r}") from error
        if there != (here := versions()):
            raise ConfigurationError(
                f"--hosts: {name} ({address}) has another version than this machine: {there} there, {here} "
                "here; install the same Python and the same checkout on both"
            )

    def ask(self, method: str, *args: object) -> Any:
        """The agent's answer. Raises LoadError: the agent's own, or that it is lost, from then on at once."""
        if self._lost:
            raise LoadError(self._lost)
        try:
            return getattr(self._actor, method)(*args).result(timeout=ANSWER_S)
        except LoadError as error:  # the agent's own
            raise LoadError(f"the load host {self.name}: {error}") from error
        except Exception as error:  # whatever it is, the host's state is not known
            ended = "" if self._client.status == "running" else "the connection to the Dask scheduler has ended; "
            why = f"it did not answer within {ANSWER_S:.0f} s" if isinstance(error, TimeoutError) else repr(error)
            self._lost = f"the load host {self.name} ({self._address}) is lost: {ended}{why}"
            raise LoadError(self._lost) from error

    def look(self) -> Estimate:
        """The offset of this host's clock now."""
        return estimate(self._exchange() for _ in range(EXCHANGES))

    def begin_anew(self) -> None:
        self.clock = Track(self.look())
        self.journals = HostJournals(self.name, self.ask)

    @property
    def before(self) -> Estimate:
        """The offset of this host's clock before the round."""
        return self.clock.before

    def clock_at(self, at: float) -> HostClock:
        """The clock at a moment of the round, by what it is now. Raises LoadError."""
        after, used = self.look(), self.before.offset
        estimated = interpolated(self.before, after, at)
        return HostClock(
            self.name,
            ahead_s=estimated.offset,
            bound_s=estimated.bound,
            used_s=used,
            off_by_s=off_by(used, self.before, after),
            stepped_s=self.clock.stepped(after),
            service=self.ask("time_service"),
        )

    def _exchange(self) -> Exchange:
        sent = time.monotonic()
        received, replied = self.ask("clock")
        return Exchange(sent, received, replied, time.monotonic())

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard, worker: Sequence[str]) -> None:
        """Start the processes, given the clock as it was `before`, and listen to them."""
        own = {name: {**spec, "ahead_s": self.before.offset} for name, spec in specs.items()}
        self._ended, self._over, self._listener = threading.Event(), False, None
        self.ask("start", own, tuple(worker))
        self._listener = threading.Thread(target=self._listen, args=(sorted(specs)[0], heard, self._ended), daemon=True)
        self._listener.start()

    def post(self, name: str, message: Mapping[str, object]) -> None:
        with contextlib.suppress(LoadError):
            self.ask("post", name, {key: self._to_host_time(key, value) for key, value in message.items()})

    def listen_no_more(self) -> None:
        """Let the listener end, after PATIENCE_S in which it may still pass on messages."""
        self._ended.set()

    def end(self) -> None:
        self.listen_no_more()
        if not self._over:
            self._over = True
            if self._listener:
                self._listener.join()  # an agent without processes would refuse to be listened to
            with contextlib.suppress(LoadError):
                self.ask("end")

    def _to_host_time(self, key: str, value: Any) -> Any:
        if key not in MOMENTS:
            return value
        return [edge + self.before.offset for edge in value] if key == "window" else value + self.before.offset

    def _to_run_time(self, message: Message | None) -> Message | None:
        if message and message["event"] == "failure":
            return {**message, "reason": f"{message['reason']} (on {self.name})"}
        return {**message, "at": message["at"] - self.before.offset} if message and "at" in message else message

    def _listen(self, first: str, heard: Heard, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                if self._client.status != "running":
                    self._lost = "the connection to the Dask scheduler has ended: nobody leads the load hosts"
                sent = time.monotonic()
                received, replied, messages = self.ask("listen", PATIENCE_S)
                self.clock.heard(Exchange(sent, received, replied, time.monotonic()))
            except LoadError as error:
                if not ended.is_set():
                    heard(first, {"event": "failure", "reason": str(error)})
                return
            for name, message in messages:
                heard(name, self._to_run_time(message))


class _RemoteProcess:
    """See :class:`perfgate.load.transport.Channel`."""

    def __init__(self, name: str, host: _Host, hosts: Sequence[_Host]) -> None:
        """`hosts`: all that were started together, which end together."""
        self._name, self._host, self._hosts = name, host, hosts

    def post(self, message: Mapping[str, object]) -> None:
        self._host.post(self._name, message)

    def kill(self) -> None:
        with contextlib.suppress(LoadError):
            self._host.ask("kill", self._name)

    def end(self) -> None:
        for host in self._hosts:
            host.listen_no_more()
        self._host.end()

    def obituary(self) -> str:
        return f"{self._host.ask('obituary', self._name)} (on {self._host.name})"


class DaskTransport:
    """See :class:`perfgate.load.transport.Transport`. The processes are dealt out to the hosts in turn, a role a time,
    so that a host reads its own records where it has a consumer."""

    def __init__(
        self, hosts: Sequence[_Host], *, here: bool, worker: Sequence[str], zones: Zones | None = None
    ) -> None:
        """`zones` of the hosts; None where they are not known, and every link goes through a proxy."""
        self.here, self.size, self._hosts, self._worker, self._zones = here, len(hosts), hosts, worker, zones
        self.lead_s = LEAD_S
        self._placed: dict[str, _Host] = {}

    @property
    def names(self) -> list[str]:
        return [host.name for host in self._hosts]

    def on(self, link: Link) -> DaskTransport:
        return self.only(self._zones.hosts(link)) if self._zones else self

    def first(self, count: int) -> DaskTransport:
        return DaskTransport(self._hosts[:count], here=self.here, worker=self._worker)

    def cannot(self, link: Link) -> str | None:
        return self._zones.cannot(link) if self._zones else None

    def only(self, names: Collection[str], zones: Zones | None = None) -> DaskTransport:
        """The transport of these hosts alone. Raises ConfigurationError for a host that is not there."""
        if missing := [name for name in names if name not in self.names]:
            raise ConfigurationError(
                f"--hosts: the scheduler has no worker named {missing[0]!r}; it has {', '.join(self.names)}"
            )
        hosts = [host for host in self._hosts if host.name in names]
        return DaskTransport(hosts, here=self.here, worker=self._worker, zones=zones)

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard) -> dict[str, _RemoteProcess]:
        self._placed = placed = dealt(specs, self._hosts)
        used = dict.fromkeys(placed.values())

        def start(host: _Host) -> None:
            own = {name: spec for name, spec in specs.items() if self._placed[name] is host}
            host.start(own, heard, self._worker)

        try:
            for host in used:  # in turn: exchanges side by side would take longer, and their bounds be wider
                host.begin_anew()
            # Each process is sent its messages in turn, which takes a round trip: twice the bound of its host's clock.
            self.lead_s = LEAD_S + 2 * sum(2 * host.before.bound for host in placed.values())
            # Side by side: in turn, those of the first of 64 hosts heard nothing for 10 s, and gave the run up.
            with ThreadPoolExecutor(max(1, len(used))) as starting:
                list(starting.map(start, used))
        except BaseException:
            for host in used:
                host.end()
            raise
        return {name: _RemoteProcess(name, self._placed[name], list(used)) for name in specs}

    def clocks(self, at: float) -> dict[str, HostClock]:
        of_hosts = {host: host.clock_at(at) for host in dict.fromkeys(self._placed.values())}
        return {name: of_hosts[host] for name, host in self._placed.items()}

    def machines(self) -> dict[str, MachineUse]:
        answers = {host.name: host.ask("machine", boot_id()) for host in dict.fromkeys(self._placed.values())}
        return {name: machine for name, machine in answers.items() if machine is not None}

    def collect(self, folder: Path) -> None:
        hosts = dict.fromkeys(self._placed.values())
        offsets = {host: host.look() for host in hosts}
        with ThreadPoolExecutor(max(1, len(hosts))) as collecting:
            list(collecting.map(lambda host: host.journals.bring(folder, host.before, offsets[host]), hosts))


def dealt(names: Iterable[str], hosts: Sequence[H]) -> dict[str, H]:
    """A host for each process name ("producer-1"): in turn, beginning anew with each role."""
    turns: dict[str, Iterator[H]] = {}
    return {name: next(turns.setdefault(name.rpartition("-")[0], itertools.cycle(hosts))) for name in names}


@contextlib.contextmanager
def dask_hosts(
    where: str, *, worker: Sequence[str] = WORKER, agents: Sequence[type[Agent]] = (Agent,)
) -> Iterator[DaskTransport]:
    """The transport of `where`: "local:N", or a running scheduler's tcp://... Raises ConfigurationError.

    `worker`: Python's arguments for a generator process; `agents` of the first hosts, the last of all others too.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        if not (here := where.startswith(LOCAL)):
            check_scheduler(where)
        try:
            address: object = where
            if here:
                workers = int(where.removeprefix(LOCAL))
                address = stack.enter_context(own_cluster(certificate_and_key(), workers=workers))
            client = stack.enter_context(client_of(address))
        except RuntimeError as error:
            raise ConfigurationError(f"--hosts={where}: no Dask cluster can be started here: {error}") from error
        except (OSError, TimeoutError) as error:
            raise ConfigurationError(f"--hosts={where}: no Dask scheduler answers there: {error}") from error
        known = client.scheduler_info(n_workers=-1)["workers"]
        if not known:
            raise ConfigurationError(f"--hosts={where}: this scheduler has no worker; start one on each load host")
        # A nanny restarts a worker that has ended; with limits a worker is paused or ended while it generates load.
        unfit = [str(f["name"]) for f in known.values() if f["nthreads"] != 1 or f["nanny"] or f["memory_limit"]]
        if unfit and not here:
            raise ConfigurationError(
                f"--hosts={where}: start the workers with --nthreads 1 --no-nanny --memory-limit 0, as "
                f"{', '.join(unfit)} {'was' if len(unfit) == 1 else 'were'} not"
            )
        names = {f"host-{facts['name'] + 1}" if here else str(facts["name"]): at for at, facts in known.items()}
        in_order = {name: names[name] for name in sorted(names, key=lambda name: (len(name), name))}  # host-2, host-10
        yield DaskTransport(led_by(client, in_order, agents), here=here, worker=worker)


def led_by(client: Client, addresses: Mapping[str, str], agents: Sequence[type[Agent]] = (Agent,)) -> list[_Host]:
    """The hosts of these workers (address by name), an agent started on each. Raises ConfigurationError."""
    kinds = itertools.chain(agents, itertools.repeat(agents[-1]))
    return [_Host(name, address, client, next(kinds)) for name, address in addresses.items()]
