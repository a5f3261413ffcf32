"""Whether a scenario keeps within what real brokers and their target file allow, as far as that is known beforehand."""

from __future__ import annotations

import math

from perfgate.model import MIB, FaultScenario, Scenario
from perfgate.systems.kafka.attached.described import Limits


def beyond(limits: Limits, scenario: Scenario) -> str | None:
    """Return which limit the scenario would not keep, or what it asks of the brokers; None when it keeps all.

    The rate of a capped load and of a ramp is lowered to the limits instead.
    """
    if scenario.cluster.log_dirs != 1:
        return "how many log folders real brokers have is not this suite's to change"
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
    read = scenario.load.rate * scenario.record_bytes * scenario.groups
    if paced and read > limits.read_bytes_per_s:
        return f"its consumers read {read / MIB:,.1f} MiB/s, and the file allows {limits.read_bytes_per_s / MIB:,.1f}"
    return None
