"""Set-up of Pulsar's nodes that this suite starts: settings of each role, JVM options and memory.

Settings are those of the files that a release ships (conf/zookeeper.conf, bookkeeper.conf, broker.conf), but for those
here: sizes for a single machine, and no background work that could disturb a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perfgate.host.java import largest_heap_mib
from perfgate.host.ports import HOST
from perfgate.model import ClusterSpec
from perfgate.systems.own_processes import last_lines

Role = Literal["metadata store", "bookie", "broker"]
ROLES: tuple[Role, ...] = ("metadata store", "bookie", "broker")
"""In the order in which they start."""
METRICS_ROLES: Mapping[Role, str] = {"metadata store": "metadata", "bookie": "bookies", "broker": "brokers"}
"""Roles in names of metrics (:data:`perfgate.model.metrics.ROLES`)."""
FIRST_BOOKIE, METADATA_STORE = 11, 21
CLUSTER = "perfgate"
CROSS_ZONE_LISTENER, SAME_ZONE_LISTENER = "cross-zone", "same-zone"
MAIN: Mapping[Role, str] = {
    "metadata store": "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    "bookie": "org.apache.bookkeeper.server.Main",
    "broker": "org.apache.pulsar.PulsarBrokerStarter",
}
METADATA_SETUP = "org.apache.pulsar.PulsarClusterMetadataSetup"
CONF_OPTION: Mapping[Role, tuple[str, ...]] = {
    "metadata store": (),
    "bookie": ("--conf",),
    "broker": ("--broker-conf",),
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Limits of a JVM, in MB: heap, and direct memory (network buffers and caches)."""

    heap: int
    direct: int
    seen: int
    """RSS of such a process (4.0.8, under load)."""


MEMORY: Mapping[Role, Memory] = {
    "metadata store": Memory(heap=64, direct=64, seen=150),
    # With a heap of 128 MB bookies ended in an OutOfMemoryError when a client had 64 MiB in flight.
    "bookie": Memory(heap=256, direct=192, seen=500),
    "broker": Memory(heap=192, direct=192, seen=480),
}
SETUP_MEMORY = ("-Xmx96m", "-XX:TieredStopAtLevel=1")
# Packages that Pulsar's and BookKeeper's start scripts open to reflection (bin/pulsar, "Required by Netty" and after).
OPENED = (
    *(
        f"java.base/{package}"
        for package in (
            "jdk.internal.loader",
            "java.io",
            "java.nio",
            "jdk.internal.misc",
            "jdk.internal.platform",
            "java.lang",
            "java.util.zip",
            "sun.net",
        )
    ),
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=10",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetectionLevel=disabled",
    "-Dzookeeper.4lw.commands.whitelist=srvr",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)
SINCE: Mapping[str, int] = {"--enable-native-access=ALL-UNNAMED": 21, "--sun-misc-unsafe-memory-access=allow": 23}
"""Options that older Java refuses, or does not need, by its first release that knows them."""
USAGE = "usage: BookieServer"


def broker_ids(spec: ClusterSpec) -> range:
    return range(1, spec.brokers + 1)


def bookie_ids(spec: ClusterSpec) -> range:
    return range(FIRST_BOOKIE, FIRST_BOOKIE + spec.bookies)


def role_of(node: int) -> Role:
    if node == METADATA_STORE:
        return "metadata store"
    return "bookie" if node >= FIRST_BOOKIE else "broker"


def node_name(node: int) -> str:
    """Name of a node's log and data: broker-1, bookie-11, metadata-store."""
    role = role_of(node).replace(" ", "-")
    return role if node == METADATA_STORE else f"{role}-{node}"


def node_ids(spec: ClusterSpec) -> list[int]:
    """Every node in the order in which they start."""
    return [METADATA_STORE, *bookie_ids(spec), *broker_ids(spec)]


def needed_mib(spec: ClusterSpec) -> float:
    """Approximate memory of all nodes of such a cluster under load, in MiB."""
    more = max(0.0, largest_heap_mib(spec.jvm_options) - MEMORY["broker"].heap)
    return sum(MEMORY[role_of(node)].seen for node in node_ids(spec)) + more * spec.brokers


def memory_options(role: Role) -> tuple[str, ...]:
    memory = MEMORY[role]
    return f"-Xms{memory.heap}m", f"-Xmx{memory.heap}m", f"-XX:MaxDirectMemorySize={memory.direct}m"


def jvm_options(role: Role, asked: Sequence[str], release: int) -> list[str]:
    """A role's JVM options for this release of Java; a run's own options come last, for brokers alone."""
    known = [option for option in JVM_OPTIONS if SINCE.get(option, 0) <= release]
    return [*known, *memory_options(role), *(asked if role == "broker" else ())]


def metadata_store_settings(*, port: int, folder: object, bound: str = HOST) -> dict[str, str]:
    """The metadata store's settings; `bound`: the address that it listens at, as of the other roles."""
    values = {
        "tickTime": 2000,
        "dataDir": folder,
        "clientPort": port,
        "clientPortAddress": bound,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "autopurge.purgeInterval": 0,
    }
    return {name: str(value) for name, value in values.items()}


def bookie_settings(
    spec: ClusterSpec, *, port: int, http_port: int, metadata: str, folder: object, host: str = HOST, bound: str = HOST
) -> dict[str, str]:
    """A bookie's settings; the spec's own come last and win.

    `metadata`: host:port of the metadata store; `folder`: of its journal and its ledgers; `host`: its name for brokers.
    """
    values = {
        "bookiePort": port,
        **({"allowLoopback": "true", "listeningInterface": "lo"} if host == HOST else {}),
        "advertisedAddress": host,
        "metadataServiceUri": f"zk+hierarchical://{metadata}/ledgers",
        "zkTimeout": 30_000,
        "journalDirectories": f"{folder}/journal",
        "ledgerDirectories": f"{folder}/ledgers",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "nettyMaxFrameSizeBytes": 5_253_120,
        "numAddWorkerThreads": 0,
        "journalMaxGroupWaitMSec": 1,
        # Unneeded journals and ledgers of deleted topics are deleted soon: the disk holds a round or two.
        "journalMaxSizeMB": 256,
        "journalMaxBackups": 0,
        "logSizeLimit": 128 * 2**20,
        "gcWaitTime": 20_000,
        "isForceGCAllowWhenNoSpace": "true",
        "diskUsageThreshold": 0.99,
        "diskUsageWarnThreshold": 0.985,
        "minUsableSizeForIndexFileCreation": 64 * 2**20,
        # Caches of DbLedgerStorage; as shares of direct memory they would leave too little for network buffers.
        "dbStorage_writeCacheMaxSizeMb": 64,
        "dbStorage_readAheadCacheMaxSizeMb": 32,
        "dbStorage_rocksDB_blockCacheSize": 16 * 2**20,
        "dbStorage_rocksDB_writeBufferSizeMB": 8,
        # A bookie's loss or return starts no copying during a measurement.
        "autoRecoveryDaemonEnabled": "false",
        "httpServerEnabled": "true",
        "httpServerHost": bound,
        "httpServerPort": http_port,
        "httpServerClass": "org.apache.bookkeeper.http.vertx.VertxHttpServer",
        "statsProviderClass": "org.apache.bookkeeper.stats.prometheus.PrometheusMetricsProvider",
        # The provider's own server needs a Jetty that Pulsar 4.2 does not have.
        "prometheusStatsHttpEnable": "false",
        **dict(spec.bookie_config),
    }
    return {name: str(value) for name, value in values.items()}


def broker_settings(
    spec: ClusterSpec, *, port: int, web_port: int, metadata: str, listeners: Mapping[str, str], bound: str = HOST
) -> dict[str, str]:
    """A broker's settings; the spec's own come last and win.

    `metadata`: host:port of the metadata store; `listeners`: host:port by name, first the listener for other brokers.
    Pulsar refuses two listeners at the same address.
    """
    ensemble, write, ack = default_quorums(spec)
    store = f"zk:{metadata}"
    values = {
        "clusterName": CLUSTER,
        "metadataStoreUrl": store,
        "configurationMetadataStoreUrl": store,
        "bindAddress": bound,
        "brokerServicePort": port,
        "webServicePort": web_port,
        "advertisedListeners": ",".join(f"{name}:pulsar://{at}" for name, at in listeners.items()),
        "internalListenerName": next(iter(listeners)),
        "managedLedgerDefaultEnsembleSize": ensemble,
        "managedLedgerDefaultWriteQuorum": write,
        "managedLedgerDefaultAckQuorum": ack,
        "managedLedgerCacheSizeMB": 32,
        "defaultRetentionTimeInMinutes": 0,
        "defaultRetentionSizeInMB": 0,
        "defaultNumberOfNamespaceBundles": 12,
        "allowAutoTopicCreation": "false",
        "allowAutoSubscriptionCreation": "true",
        "brokerDeleteInactiveTopicsEnabled": "false",
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        "loadBalancerAutoUnloadSplitBundlesEnabled": "false",
        "transactionCoordinatorEnabled": "false",
        "systemTopicEnabled": "false",
        "topicLevelPoliciesEnabled": "false",
        "functionsWorkerEnabled": "false",
        "webSocketServiceEnabled": "false",
        **dict(spec.config),
    }
    return {name: str(value) for name, value in values.items()}


def default_quorums(spec: ClusterSpec) -> tuple[int, int, int]:
    ensemble = min(3, spec.bookies)
    return ensemble, ensemble, ensemble // 2 + 1


def last_words(log: str) -> str:
    """The last lines of a log, without the usage that a bookie prints after an error."""
    return last_lines(log.partition(USAGE)[0])
