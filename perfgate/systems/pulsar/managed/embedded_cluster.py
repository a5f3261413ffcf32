"""A cluster of Pulsar as processes of this machine: one metadata store, bookies and brokers."""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path

from perfgate.host.aot import cache_path
from perfgate.host.guard import Guard
from perfgate.host.java import java_release
from perfgate.host.journal import LockedFolder
from perfgate.host.machine_use import limit_cpu
from perfgate.host.ports import HOST, free_ports, listens
from perfgate.host.starting import check_while_starting, start_error, tail_of
from perfgate.host.toxiproxy import ToxiproxyApi, ask_here, start_toxiproxy
from perfgate.host.waiting import wait_while_it_progresses
from perfgate.model import CROSS_ZONE, ClusterSpec, Link, Settings
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import Meter
from perfgate.systems.pulsar.client.admin import Admin, TopicName
from perfgate.systems.pulsar.client.live_settings import LiveSettings
from perfgate.systems.pulsar.client.roundtrip import OF_PINGS, ping_rtt_ms
from perfgate.systems.pulsar.client.topics import Topics
from perfgate.systems.pulsar.jars import PulsarJars
from perfgate.systems.pulsar.managed.aot import AotCaches
from perfgate.systems.pulsar.managed.faults import ProcessFaults
from perfgate.systems.pulsar.managed.nodes import (
    CLUSTER,
    CONF_OPTION,
    CROSS_ZONE_LISTENER,
    LOG4J,
    MAIN,
    METADATA_SETUP,
    METADATA_STORE,
    ROLES,
    SETUP_MEMORY,
    Role,
    as_properties,
    bookie_ids,
    bookie_settings,
    broker_ids,
    broker_settings,
    default_quorums,
    jvm_options,
    metadata_store_settings,
    node_ids,
    node_name,
    role_of,
)
from perfgate.systems.pulsar.managed.placement import BUNDLES, place
from perfgate.systems.pulsar.observe import ANSWER_WITHIN_S as WATCH_ANSWER_WITHIN_S
from perfgate.systems.pulsar.observe import OwnerWatch

DATA = "kafka-perf-gate-pulsar-data-"
"""Prefix of the names of folders with nodes' data."""
TENANT, NAMESPACE = "kpg", "run"
PREFIX = f"persistent://{TENANT}/{NAMESPACE}/kpg-"
SETUP = "metadata set-up"
HEALTH: Mapping[Role, str] = {"bookie": "/api/v1/bookie/is_ready", "broker": "/admin/v2/brokers/ready"}
ANSWER_WITHIN_S, ASK_HEALTH_EVERY_S = 2.0, 1.0
USAGE, LAST_LINES = "usage: BookieServer", 15


def last_words(log: str) -> str:
    """Return the last lines of a log, without the usage that a bookie prints after it said what is wrong."""
    return "\n".join(log.partition(USAGE)[0].splitlines()[-LAST_LINES:])


class EmbeddedCluster:
    """See :class:`perfgate.model.target.Cluster`."""

    own = dedicated = True
    prefix = PREFIX
    most_bytes_per_s = most_read_bytes_per_s = math.inf
    most_failed = 1.0  # these brokers are there to be loaded; sends that fail are judged

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        java: Path,
        jars: PulsarJars,
        logs: Path,
        cross_zone: bool,
        warm_start: bool = True,
    ) -> None:
        """`cross_zone`: put proxies in front of the brokers, for clients of another zone. `warm_start`: use, or record,
        what Java learnt of such nodes.
        """
        self.spec = spec
        self.meter = Meter()
        self._ids, self._nodes = broker_ids(spec), node_ids(spec)
        self._java, self._jars, self._release, self._logs = java, jars, java_release(java), logs
        ports = iter(free_ports(2 * len(self._nodes) + len(self._ids) + 1))
        self._ports = {node: next(ports) for node in self._nodes}
        self._web_ports = {node: next(ports) for node in self._nodes}
        """Of bookies and brokers; where their health and their metrics are asked for."""
        self._proxy_ports = {broker: next(ports) for broker in self._ids} if cross_zone else {}
        self._proxy_api_port = next(ports)
        self._emulated = CROSS_ZONE
        self.proxy: ToxiproxyApi | None = None
        """The link to the other zone, when there is one."""
        self._guard = Guard()
        self._folder = LockedFolder(DATA)
        self._data = self._folder.path
        self._guard.owns(self._data)
        self._pids: dict[int, int] = {}
        self._proxy_pid = 0
        self._proxy_log, self._setup_log = logs / "toxiproxy.log", logs / "metadata-setup.log"
        self._ready: set[int] = set()
        self._registered: tuple[str, ...] = ()
        self._healthy_at: dict[int, float] = {}
        self._started_s = 0.0
        # Options of a run's own make another JVM; a cache for each would be made once and never used.
        options: dict[str, list[str]] = {
            role: jvm_options(role, (), self._release) for role in ROLES if role != "broker" or not spec.jvm_options
        }
        caches: dict[str, list[str]] = {**options, SETUP: self._setup_options()} if warm_start else {}
        self._aot = AotCaches(
            {
                what: cache_path(java, f"pulsar-{jars.version}-{what.replace(' ', '-')}", jars.classpath, of_it)
                for what, of_it in caches.items()
            }
        )
        self.faults = ProcessFaults(self._guard, self._pids, spawn=self._spawn)

    def start(self) -> None:
        """Start all nodes and wait until they say that they are ready. Raises TargetError."""
        self._logs.mkdir(parents=True, exist_ok=True)
        (self._data / "log4j2.properties").write_text(LOG4J)
        for node in self._nodes:
            self._conf(node).write_text(as_properties(self._settings(node)))
        begin = time.monotonic()
        self._spawn(METADATA_STORE)
        self._wait(self._metadata_store_closed)
        self._set_metadata_up()
        for node in self._nodes:
            if node != METADATA_STORE:
                self._spawn(node)
        if self._proxy_ports:
            self._proxy_pid, self.proxy = start_toxiproxy(
                self._guard, api_port=self._proxy_api_port, log=self._proxy_log
            )
            for broker, port in self._proxy_ports.items():
                self.proxy.add_proxy(
                    f"broker-{broker}",
                    listen=f"{HOST}:{port}",
                    upstream=f"{HOST}:{self._ports[broker]}",
                    added_rtt_ms=CROSS_ZONE.added_rtt_ms,
                )
        self._wait(self._not_ready)
        self.admin.create_tenant(TENANT, [CLUSTER])
        self.admin.create_namespace(f"{TENANT}/{NAMESPACE}", {"bundles": {"numBundles": BUNDLES}})
        self._started_s = time.monotonic() - begin

    @cached_property
    def admin(self) -> Admin:
        return Admin([f"http://{HOST}:{self._web_ports[broker]}" for broker in self._ids])

    def bootstrap(self, link: Link) -> str:
        """Return the service URL; on a link across zones that of the proxies, which then add its delay.

        They emulate one link at a time: the last one that was asked for.
        """
        if not link.crosses_zones:
            return self._service_url(self._ports)
        if self.proxy and link != self._emulated:
            for broker in self._ids:
                self.proxy.set_added_rtt(f"broker-{broker}", link.added_to(broker))
            self._emulated = link
        return f"{self._service_url(self._proxy_ports)}#{CROSS_ZONE_LISTENER}"

    def client_settings(self) -> Settings:
        return ()

    def watch(self, topic: str, link: Link) -> OwnerWatch:
        """Return a watch of the topic's state; `link` plays no part: it asks the brokers' web services."""
        impatient = Admin(self.admin.web.urls, timeout_s=WATCH_ANSWER_WITHIN_S, tries=1)
        return OwnerWatch(
            impatient,
            topic,
            brokers=self._broker_addresses(),
            bookies={f"{HOST}:{self._ports[bookie]}": bookie for bookie in bookie_ids(self.spec)},
            there=self._others_there,
        )

    def topics(self) -> Topics:
        return Topics(self, self.admin, self._broker_addresses, self._place)

    def live_settings(self) -> LiveSettings:
        return LiveSettings(self.admin, list(self.admin.web.urls))

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        """Raise TargetError: no scenario with a quota is run here."""
        raise TargetError(f"no quota is set here ({client_id}: {bytes_per_s:,} bytes/s)")

    def rtt_ms(self, link: Link) -> float:
        """Median over the brokers of one round trip."""
        url = self.bootstrap(link).removeprefix("pulsar://").partition("#")[0]
        addresses = (address.split(":") for address in url.split(","))
        return statistics.median(ping_rtt_ms(host, int(port)) for host, port in addresses)

    def pids(self) -> Mapping[int, int]:
        """Return the process of every node, bookies and the metadata store among them."""
        return dict(self._pids)

    def check(self) -> None:
        """Raise TargetError with the log's tail when a node (BrokersFailedError) or the links' proxy has ended."""
        watched = {
            node_name(node).replace("-", " "): (pid, self._log(node))
            for node, pid in self._pids.items()
            if node not in self.faults.absent
        }
        if self.proxy is not None:
            watched["Toxiproxy"] = (self._proxy_pid, self._proxy_log)
        for name, (pid, log) in watched.items():
            status = self._guard.exit_status(pid)
            if status is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"exited with code {status}"
                failed = TargetError if pid == self._proxy_pid else BrokersFailedError
                raise failed(f"{name} (pid {pid}) {how}; end of its log:\n{last_words(tail_of(log, 60))}")

    def log_tail(self, lines: int = 40) -> str:
        logs = [self._log(node) for node in self._nodes]
        return "\n".join(f"--- {log}\n{tail_of(log, lines)}" for log in logs)

    def facts(self) -> Mapping[str, object]:
        return {
            "kind": "embedded",
            "name": "embedded",
            "system": "pulsar",
            "pulsar_version": self.spec.version,
            "brokers": self.spec.brokers,
            "bookies": self.spec.bookies,
            "metadata_stores": 1,
            "quorums": "/".join(map(str, default_quorums(self.spec))),
            "durability": self.spec.durability,
            "rtt_of": OF_PINGS,
            "java": str(self._java),
            "jvm_options": {role: jvm_options(role, self.spec.jvm_options, self._release) for role in ROLES},
            "aot_cache": self._aot.used,
            "ready_s": round(self._started_s, 2),
        }

    def close(self) -> None:
        """Kill every process and remove the data; the logs stay."""
        self._guard.close()
        self._folder.delete()
        self._aot.delete_drafts()

    @property
    def recording(self) -> bool:
        return bool(self._aot.recording)

    def keep_aot_cache(self) -> None:
        """End the nodes that record, and keep their caches for later runs. They are missing afterwards."""
        self._aot.keep(
            lambda node: self._guard.signal(self._pids[node], signal.SIGTERM),
            lambda node: self._guard.exit_status(self._pids[node]),
        )

    def _spawn(self, node: int) -> None:
        role = role_of(node)
        argv = [
            self._java,
            *jvm_options(role, self.spec.jvm_options, self._release),
            *self._aot.options(role, node),
            *self._common_options(),
            MAIN[role],
            *CONF_OPTION[role],
            self._conf(node),
        ]
        self._pids[node] = self._guard.spawn(argv, log=self._log(node))
        if self.spec.cpus_per_broker and node in self._ids:
            self._guard.owns(limit_cpu(self._pids[node], self.spec.cpus_per_broker))

    def _common_options(self) -> list[str]:
        return [f"-Dlog4j2.configurationFile={self._data}/log4j2.properties", "-cp", self._jars.classpath]

    def _set_metadata_up(self) -> None:
        """Write what the cluster's metadata begins with, by Pulsar's own tool."""
        store, broker = f"zk:{HOST}:{self._ports[METADATA_STORE]}", self._ids[0]
        options = {
            "--cluster": CLUSTER,
            "--metadata-store": store,
            "--configuration-metadata-store": store,
            "--web-service-url": f"http://{HOST}:{self._web_ports[broker]}",
            "--broker-service-url": f"pulsar://{HOST}:{self._ports[broker]}",
        }
        argv = [self._java, *self._setup_options(), *self._aot.options(SETUP, 0), *self._common_options()]
        argv += [METADATA_SETUP, *(word for option in options.items() for word in option)]
        pid = self._guard.spawn(argv, log=self._setup_log)

        def running() -> str:
            return "" if self._guard.exit_status(pid) is not None else "the metadata's set-up runs"

        self._wait(running)
        if self._guard.exit_status(pid):
            raise start_error("Pulsar refused its metadata store", tail_of(self._setup_log, 40), self.spec.config)
        self._aot.keep_of(SETUP)

    def _setup_options(self) -> list[str]:
        return [*jvm_options("metadata store", (), self._release), *SETUP_MEMORY]

    def _wait(self, missing: Callable[[], str]) -> None:
        """Wait while something is missing and the nodes make progress. Raises BrokersFailedError with the logs' end."""
        try:
            wait_while_it_progresses(
                missing, logged=self._logged, check=partial(check_while_starting, self.check, self._stated())
            )
        except TimeoutError as error:
            reason = f"Pulsar's nodes were not ready {error}\n{self.log_tail(10)}"
            raise BrokersFailedError(reason, perhaps_late=True) from error

    def _metadata_store_closed(self) -> str:
        at = f"{HOST}:{self._ports[METADATA_STORE]}"
        return "" if listens(at, timeout_s=1) else "the metadata store takes no connection"

    def _not_ready(self) -> str:
        """Return which nodes do not say that they are ready; each is asked until it says so once."""
        for node in self._nodes:
            if node not in self._ready and node != METADATA_STORE and self._is_healthy(node):
                self._ready.add(node)
        lacking = [node_name(node) for node in self._nodes if node not in {*self._ready, METADATA_STORE}]
        if not lacking:
            self._registered = tuple(self.admin.brokers())
            if len(self._registered) < len(self._ids):
                return f"{len(self._registered)} of {len(self._ids)} brokers are registered"
        return f"not ready: {', '.join(lacking)}" if lacking else ""

    def _is_healthy(self, node: int) -> bool:
        url = f"http://{HOST}:{self._web_ports[node]}{HEALTH[role_of(node)]}"
        try:
            ask_here(url, timeout_s=ANSWER_WITHIN_S)
        except OSError:
            return False
        return True

    def _others_there(self) -> list[int]:
        """Return the bookies that are there, and the metadata store where it takes connections.

        A bookie is there while its port is open and it was healthy when it was last asked, a second ago at most: asking
        ten times a second would cost it, and the load beside it, several percent of a core.
        """
        there = [] if self._metadata_store_closed() else [METADATA_STORE]
        for bookie in bookie_ids(self.spec):
            if not listens(f"{HOST}:{self._ports[bookie]}", timeout_s=1):
                self._healthy_at.pop(bookie, None)
            elif time.monotonic() - self._healthy_at.get(bookie, -math.inf) < ASK_HEALTH_EVERY_S:
                there.append(bookie)
            elif self._is_healthy(bookie):
                self._healthy_at[bookie] = time.monotonic()
                there.append(bookie)
            else:
                self._healthy_at.pop(bookie, None)
        return there

    def _stated(self) -> Settings:
        return (*self.spec.config, *((f"bookie {name}", value) for name, value in self.spec.bookie_config))

    def _logged(self) -> int:
        logs = [self._setup_log, *(self._log(node) for node in self._nodes)]
        return sum(log.stat().st_size for log in logs if log.exists())

    def _log(self, node: int) -> Path:
        return self._logs / f"{node_name(node)}.log"

    def _conf(self, node: int) -> Path:
        return self._data / f"{node_name(node)}.conf"

    def _service_url(self, ports: Mapping[int, int]) -> str:
        return "pulsar://" + ",".join(f"{HOST}:{ports[broker]}" for broker in self._ids)

    def _broker_addresses(self) -> Mapping[str, int]:
        """Return the brokers by the addresses of their listeners, and by the names under which they registered.

        The host of such a name is what this machine calls itself; its port is the web service's.
        """
        of_port = {self._web_ports[broker]: broker for broker in self._ids}
        listeners = (self._ports, self._web_ports)
        return {
            **{name: of_port[int(name.rpartition(":")[2])] for name in self._registered},
            **{f"{HOST}:{ports[broker]}": broker for ports in listeners for broker in self._ids},
        }

    def _place(self, topic: TopicName, partitions: int) -> None:
        """Spread a new topic's partitions, where all brokers are there; otherwise they are where Pulsar puts them."""
        of_port = {self._web_ports[broker]: broker for broker in self._ids}
        names = {of_port[int(name.rpartition(":")[2])]: name for name in self.admin.brokers()}
        if len(names) == len(self._ids):
            addresses = self._broker_addresses()
            place(self.admin, topic, partitions, names=names, brokers=addresses, check=self.check)

    def _settings(self, node: int) -> Mapping[str, str]:
        store, folder = self._ports[METADATA_STORE], self._data / node_name(node)
        match role_of(node):
            case "metadata store":
                return metadata_store_settings(port=store, folder=folder)
            case "bookie":
                return bookie_settings(
                    self.spec,
                    port=self._ports[node],
                    http_port=self._web_ports[node],
                    metadata_port=store,
                    folder=folder,
                )
            case "broker":
                return broker_settings(
                    self.spec,
                    port=self._ports[node],
                    web_port=self._web_ports[node],
                    metadata_port=store,
                    cross_zone_port=self._proxy_ports.get(node),
                )
