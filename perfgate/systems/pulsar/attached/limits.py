"""Limits on real Pulsar brokers: which scenarios keep those of the target file, which settings may be changed there.

The tables are in docs/safety.md too. Of the brokers' dynamic settings only those of BOUNDED_OF_BROKERS are ever
changed; namespace policies are of the run's own namespace, which is removed with its content.
"""

from __future__ import annotations

from perfgate.model import MIB, Scenario
from perfgate.model.target import OfCluster
from perfgate.systems.attached.limits import (
    Rule,
    another_kind,
    beyond_limits,
    lacking_permissions,
    never_set,
    no_zone,
    number_of,
)
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.pulsar.attached.described import DescribedPulsar

MOST_KEPT_S = 8 * 3600
"""Time that a namespace which cannot be deleted may keep its messages: twice the duration of endurance-4h."""
BOOKIE, SYNC = "bookie.", "journalSyncData"

NEVER_OF_BROKERS = (
    Rule(
        ("*retention*", "ttlDuration*", "*backlogQuota*", "*InactiveTopic*", "compaction*", "*Offload*"),
        "messages of others are deleted, refused or moved, and putting back brings none back",
    ),
    Rule(("loadBalancer*", "loadManager*", "namespaceBundle*", "defaultNumberOf*"), "topics of others change brokers"),
    Rule(("max*", "*PerTopic*", "*PerIp*", "dispatchThrottling*", "*Throttling*"), "clients of others are held up"),
    Rule(("allowAuto*", "*Allowed", "*Enabled"), "what others may do, and how their messages are kept, changes"),
    Rule(
        ("*Class*", "*Provider*", "*interceptor*", "*FilterNames", "superUserRoles", "proxyRoles", "cluster*"),
        "brokers load code, or let others in",
    ),
)
BOUNDED_OF_BROKERS = (
    Rule(
        ("dispatcherMaxReadBatchSize", "dispatcherMaxRoundRobinBatchSize", "dispatcherMinReadBatchSize"),
        "memory of each read, of every topic",
        least=1,
        most=1000,
    ),
    Rule(("dispatcherMaxReadSizeBytes",), "memory of each read, of every topic", least=64 * 1024, most=16 * MIB),
    Rule(("managedLedgerCacheEvictionTimeThresholdMillis",), "readers of others find less", least=100, most=10_000),
    Rule(
        ("dispatcherReadFailureBackoffInitialTimeInMs", "dispatcherReadFailureBackoffMandatoryStopTimeInMs"),
        "readers of others wait so long",
        least=0,
        most=60_000,
    ),
)


def never_of_brokers(name: str, value: str) -> str | None:
    rule = next((rule for rule in BOUNDED_OF_BROKERS if rule.has(name)), None)
    return never_set(name, value, () if rule else NEVER_OF_BROKERS, BOUNDED_OF_BROKERS)


def lacks_nodes(scenario: Scenario, brokers: int, bookies: int) -> OfCluster | None:
    """The reason why the scenario has no meaning on a cluster of this many nodes (0: not known); None when it has."""
    factor = dict(scenario.factor)
    for kind, there in (("brokers", brokers), ("bookies", bookies)):
        if there and int(asked := factor.get(kind, factor.get(f"cluster.{kind}", there))) != there:
            return OfCluster(f"it is about {asked} {kind}, and the cluster has {there}")
    if not bookies:
        return None
    needed = max(scenario.topic.ensemble, scenario.topic.replication_factor)
    if scenario.refusal and needed <= bookies:
        return OfCluster(f"its ensemble of {needed} is to be refused, and the cluster has {bookies} bookies")
    if needed > bookies and not scenario.refusal:
        return OfCluster(f"it needs {needed} bookies, and the cluster has {bookies}")
    return None


def lacks_permission(scenario: Scenario, described: DescribedPulsar, *, broker_config_allowed: bool) -> str | None:
    """The zone or setting that the target file and the run's options do not permit; None when they permit all."""
    if reason := no_zone(scenario, described):
        return reason
    varied = {name.removeprefix(BOOKIE) for name, _ in scenario.factor}
    for name, value in scenario.cluster.bookie_config:
        if name == SYNC and name in varied and described.durability != scenario.cluster.durability:
            there = described.durability or "not stated in the target file"
            return f"it is about durability {scenario.cluster.durability}, and that of these bookies is {there}"
        if name != SYNC:
            return f"{name} = {value}: bookies take it at their start only, and real ones are not this suite's to start"
    for name, value in scenario.cluster.config:
        if reason := never_of_brokers(name, value):
            return reason
    if scenario.cluster.config and not broker_config_allowed:
        return f"it needs broker settings: {lacking_permissions(described)}"
    return None


def beyond(limits: Limits, scenario: Scenario) -> str | None:
    """The limit that the scenario would exceed, or the other reason against it; None when there is none."""
    if reason := another_kind(scenario):
        return reason
    topic = dict(scenario.topic.config)
    kept = {
        "messageTTLInSeconds": number_of(topic.get("messageTTLInSeconds", 1)),
        "retentionTimeInMinutes": number_of(topic.get("retentionTimeInMinutes", 1)) * 60,
    }
    for name, seconds in kept.items():
        if not 0 < seconds <= MOST_KEPT_S:
            return (
                f"a namespace that cannot be deleted may keep what it holds for {MOST_KEPT_S // 3600} h at most: {name}"
            )
    return beyond_limits(limits, scenario, of_transactions="brokers keep the state of transactions")
