"""Limits of real brokers and their target file: which scenarios keep them, as far as that is known beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping

from perfgate.model import CROSS_ZONE, MIB, ClusterSpec, FaultScenario, Scenario
from perfgate.model.target import OfCluster
from perfgate.systems.kafka.attached.command_faults import lacking
from perfgate.systems.kafka.attached.described import DescribedTarget, Limits
from perfgate.systems.kafka.attached.shared_settings import never_of_brokers, never_of_topics, wears_out

MOST_KEPT_H = 8
"""So long what a run wrote may be kept where its topic cannot be deleted: twice as long as endurance-4h lasts."""


def lacks_brokers(scenario: Scenario, brokers: int) -> OfCluster | None:
    """Return why the scenario says nothing on a cluster of so many brokers; None when it does."""
    replicas = scenario.topic.replication_factor
    asked = dict(scenario.factor).get("cluster.brokers", brokers)
    if int(asked) != brokers:
        return OfCluster(f"it is about {asked} brokers, and the cluster has {brokers}")
    if scenario.refusal and replicas <= brokers:
        return OfCluster(f"its {replicas} replicas are to be refused, and the cluster has {brokers} brokers")
    if replicas > brokers and not scenario.refusal:
        return OfCluster(f"it needs {replicas} replicas, and the cluster has {brokers} brokers")
    return None


def no_fault(
    scenario: FaultScenario, described: DescribedTarget, brokers: Mapping[int, str], *, allowed: bool, blind: bool
) -> str | None:
    """Return why these brokers may not be done such a fault; None when they may. `blind`: other topics are not seen."""
    if scenario.fault.about.harmless:
        return None
    if not allowed:
        return "faults on real brokers need --allow-faults"
    if reason := lacking(scenario.fault.kind, described.faults, brokers):
        return reason
    if scenario.fault.about.brokers_down > 1 and not described.two_down_allowed:
        return "it takes two brokers away at a time: [faults] two-down = true allows that"
    if scenario.fault.about.brokers_down > 1 and described.fault_brokers:
        return "it takes any two brokers that hold its topic away, and [faults] brokers bounds which may be"
    listed = described.fault_brokers
    unlisted = set(brokers) - set(listed) or len(listed) < scenario.topic.replication_factor
    if scenario.fault.about.every_broker and listed and unlisted:
        return "it restarts every broker that holds its topic, and [faults] brokers does not list them all"
    if blind:
        return OfCluster("a fault would hit topics that cannot be seen: grant Describe on all topics (docs/targets.md)")
    return None


def lacks_permission(scenario: Scenario, described: DescribedTarget, *, broker_config_allowed: bool) -> str | None:
    """Return which zone or broker setting the target file and the run's options do not give; None when they do."""
    if scenario.link.crosses_zones and not described.cross_zone_bootstrap:
        return "no client in the other zone: the target file states no [zones] cross-zone"
    if scenario.link.crosses_zones and scenario.link != CROSS_ZONE:
        return f"its link adds {scenario.link.added_rtt_ms} ms; real zones are as far apart as they are"
    topic = dict(scenario.topic.config)
    wanted = "the file must say [broker-config] allowed = true, and the run --allow-broker-config"
    for name, value in scenario.cluster.config:
        if reason := never_of_brokers(name, value):
            return reason
    if reason := never_of_topics(topic):
        return reason
    if scenario.cluster.config and not broker_config_allowed:
        return f"it needs broker settings: {wanted}"
    if not broker_config_allowed and (worn := next(wears_out(topic), None)):
        return f"{worn}: {wanted}"
    return None


def _number(value: object) -> float:
    """Return a setting's number; of a text, which the brokers refuse, one that is neither small nor large."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def beyond(limits: Limits, scenario: Scenario) -> str | None:
    """Return which limit the scenario would not keep, or what it asks of the brokers; None when it keeps all.

    The rate of a capped load and of a ramp is lowered to the limits instead.
    """
    if scenario.cluster.log_dirs != 1:
        return "how many log folders real brokers have is not this suite's to change"
    if scenario.cluster.security != ClusterSpec().security:
        return "how real brokers let clients in is not this suite's to change"
    if scenario.consumers and scenario.consumers.membership == "share":
        return "where its share group begins is a setting of the group that would stay on real brokers"
    topic = dict(scenario.topic.config)
    if not 0 < _number(topic.get("retention.ms", 1)) <= MOST_KEPT_H * 3_600_000:
        return f"a topic that cannot be deleted may keep what it holds for {MOST_KEPT_H} h at the most: retention.ms"
    if "delete" not in [one.strip() for one in topic.get("cleanup.policy", "delete").split(",")]:
        return "a topic that cannot be deleted would keep what it holds for good: its cleanup.policy is without delete"
    partitions = scenario.topic.partitions * scenario.topic.replication_factor
    if partitions > limits.partitions and not scenario.refusal:
        return f"its topics have {partitions:,} partitions with replicas, and the file allows {limits.partitions:,}"
    if scenario.load.times_out and not limits.time_outs:
        return "it offers more than brokers take, so that sends time out: the file must say [limits] time-outs = true"
    if scenario.transaction_ms and not limits.transactions:
        return "brokers keep each transactional.id for days: the file must say [limits] transactions = true"
    paced = scenario.load.kind == "paced"
    if paced and scenario.offered_bytes_per_s > limits.bytes_per_s:
        return (
            f"it offers {scenario.offered_bytes_per_s / MIB:,.1f} MiB/s with its replicas, and the file allows "
            f"{limits.bytes_per_s / MIB:,.1f}"
        )
    # What a ramp owes after a rate that was too high is sent, and read, as fast as it can be.
    ramp = scenario.load.kind == "ramp" and scenario.consumers is not None
    reads_all = isinstance(scenario, FaultScenario) or scenario.load.kind == "backlog" or ramp
    if reads_all and limits.read_bytes_per_s < math.inf:
        return "it reads as fast as it can, and the file bounds that ([limits] read-mib-per-s)"
    read = scenario.load.rate * scenario.logged_bytes * scenario.groups
    if paced and read > limits.read_bytes_per_s:
        return f"its consumers read {read / MIB:,.1f} MiB/s, and the file allows {limits.read_bytes_per_s / MIB:,.1f}"
    return None
