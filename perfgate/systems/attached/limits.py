"""Limits on real brokers of every system: which scenarios keep those of the target file, and bounds of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from perfgate.model import CROSS_ZONE, MIB, ClusterSpec, FaultScenario, Scenario
from perfgate.model.pages import page
from perfgate.model.target import OfCluster
from perfgate.systems.attached.command_faults import lacking
from perfgate.systems.attached.target_file import Described, Limits


def lacking_permissions(described: Described) -> str:
    """The permission for a change of the brokers' settings that the file or the run lacks."""
    if described.broker_config_allowed:
        return "the run must say --allow-broker-config"
    return "the target file must say [broker-config] allowed = true, and the run --allow-broker-config"


def no_zone(scenario: Scenario, described: Described) -> str | None:
    """The reason why there is no client in the scenario's other zone; None where there is, or it needs none."""
    if scenario.link.crosses_zones and not described.cross_zone_bootstrap:
        return "no client in the other zone: the target file states no [zones] cross-zone"
    if scenario.link.crosses_zones and scenario.link != CROSS_ZONE:
        return f"its link adds {scenario.link.added_rtt_ms} ms; real zones are as far apart as they are"
    return None


def no_fault(
    scenario: FaultScenario, described: Described, brokers: Mapping[int, str], *, allowed: bool, blind: str
) -> str | None:
    """The reason why these brokers may not get such a fault; None: they may. `blind`: why its effect is not seen."""
    if scenario.fault.about.harmless:
        return None
    if not allowed:
        return "faults on real brokers need --allow-faults"
    if reason := lacking(scenario.fault.kind, described.faults.lines, brokers, described.fault_brokers):
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
        return OfCluster(blind)
    return None


def another_kind(scenario: Scenario) -> str | None:
    """The reason why the scenario needs brokers of another kind; None where it does not."""
    if scenario.cluster.log_dirs != 1:
        return "how many log folders real brokers have is not this suite's to change"
    if scenario.cluster.security != ClusterSpec().security:
        return "how real brokers let clients in is not this suite's to change"
    return None


def beyond_limits(limits: Limits, scenario: Scenario, *, of_transactions: str) -> str | None:
    """The limit of the file that the scenario would exceed; None when it keeps all.

    The rate of a capped load and of a ramp is lowered to the limits instead. `of_transactions`: what they leave behind.
    """
    loads = (scenario, *scenario.parts)
    if (topics := sum(load.topic.count for load in loads)) > limits.topics:
        return f"it has {topics:,} topics, and the file allows {limits.topics:,} ([limits] topics)"
    partitions = sum(load.topic.in_all * load.topic.replication_factor for load in loads)
    if partitions > limits.partitions and not scenario.refusal:
        return f"its topics have {partitions:,} partitions with replicas, and the file allows {limits.partitions:,}"
    if scenario.load.times_out and not limits.time_outs:
        return "it offers more than brokers take, so that sends time out: the file must say [limits] time-outs = true"
    if scenario.transaction_ms and not limits.transactions:
        return f"{of_transactions}: the file must say [limits] transactions = true"
    fixed = scenario.load.fixed_rate or scenario.beside  # of loads side by side none is lowered
    if fixed and scenario.offered_bytes_per_s > limits.bytes_per_s:
        return (
            f"it offers {scenario.offered_bytes_per_s / MIB:,.1f} MiB/s with its replicas, and the file allows "
            f"{limits.bytes_per_s / MIB:,.1f}"
        )
    # After a rate that was too high a ramp sends the overdue records, and reads them, as fast as it can.
    ramp = scenario.load.searches and scenario.consumers is not None
    reads_all = scenario.has_fault or not scenario.load.sends or ramp
    if reads_all and limits.read_bytes_per_s < math.inf:
        return "it reads as fast as it can, and the file bounds that ([limits] read-mib-per-s)"
    read = scenario.read_bytes_per_s
    if fixed and read > limits.read_bytes_per_s:
        return f"its consumers read {read / MIB:,.1f} MiB/s, and the file allows {limits.read_bytes_per_s / MIB:,.1f}"
    return None


@dataclass(frozen=True, slots=True)
class Rule:
    """Settings by name (`*`: anything), the smallest and the largest value that is harmless, and why."""

    names: tuple[str, ...]
    why: str
    least: float = -math.inf
    most: float = math.inf

    def has(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.names)


def bounds(rule: Rule) -> str:
    least, most = (f"{number:,.15g}" for number in (rule.least, rule.most))
    if math.isinf(rule.most):
        return f"{least} or more"
    return f"{most} at most" if math.isinf(rule.least) else f"{least} to {most}"


def outside(rule: Rule, value: str) -> bool:
    """Whether a value is outside of the bounds; a text, which the brokers refuse, is not."""
    number = number_of(value)
    return number < rule.least or number > rule.most


def number_of(value: object) -> float:
    """Return a setting's number; nan for a text that is none."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan


def never_set(name: str, value: str, never: Sequence[Rule], bounded: Sequence[Rule]) -> str | None:
    """The reason why a run never sets a broker setting to this value on brokers that others share."""
    if rule := next((rule for rule in never if rule.has(name)), None):
        return f"{name} is never changed on real brokers: {rule.why}"
    rule = next((rule for rule in bounded if rule.has(name)), None)
    if rule is None:
        where = page("safety")
        return f"{name} is never changed on real brokers: it is none of those that a run may change ({where})"
    if outside(rule, value):
        return f"{name} = {value}: on real brokers it may be {bounds(rule)}: {rule.why}"
    return None
