"""Load from two agents on a real broker: every record is accounted for, and timed although the clocks differ.

Both are on this machine. The clock of the second one and of its generators is a wrapper that adds AHEAD_S.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from perfgate.load.agent import Agent
from perfgate.load.hosts import dask_hosts
from perfgate.measure.host_validity import host_flaws
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import ClusterSpec, Consumers, Load, Scenario, TopicSpec, settings
from perfgate.model.histogram import latency_metrics
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from tests.harness.live_load import LiveLoad
from tests.harness.run_gate import gate

AHEAD_S = 0.25
AHEAD_WORKER = f"""
import time
right = time.monotonic
time.monotonic = lambda: right() + {AHEAD_S}
from perfgate.load import worker
worker.main()
"""


class Ahead(Agent):
    def now(self) -> float:
        return super().now() + AHEAD_S

    async def start(self, specs: Mapping[str, Mapping[str, object]], worker: Sequence[str]) -> None:
        await super().start(specs, ("-c", AHEAD_WORKER))


SCENARIO = Scenario(
    name="live",
    summary="a load of the tests",
    families=("live",),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1),
    producer=settings({"acks": 1}),
    record_bytes=1024,
    load=Load(kind="paced", rate=2_000),
    producers=2,
    consumers=Consumers(membership="assigned", processes=2),
)


@pytest.mark.slow
def test_records_from_two_hosts_are_all_accounted_for(tmp_path: Path) -> None:
    target = EmbeddedTarget(log_folder=tmp_path, cross_zone=False, say=print)
    try:
        live = LiveLoad(target.cluster(ClusterSpec(brokers=1)))
        with dask_hosts("local:2", agents=(Agent, Ahead)) as transport, live.topic(SCENARIO) as topic:
            driver = LibrdkafkaDriver(transport)
            result = driver.run(live.spec(SCENARIO, topic, window_s=4, warmup_max_s=6), live.observer(topic, 3))
            ends = live.topics.end_offsets(topic, 3)
    finally:
        target.close()
    assert result.sent is not None
    assert result.received is not None
    assert result.sent.attempted == result.sent.acked == result.received.received == sum(ends) > 8_000
    found = flaws(SCENARIO.load, result, accounting_of(result.sent, [0, 0, 0], ends))
    found = (*found, *host_flaws(SCENARIO.load, result, shares_cores=True))
    assert [flaw.text for flaw in found if not flaw.metrics] == []
    assert [(host.name, host.processes) for host in result.hosts] == [("host-1", 2), ("host-2", 2)]
    assert sum(host.done_in_window for host in result.hosts) == result.sent.acked_in_window
    right, ahead = result.hosts
    assert abs(right.clock_ahead_ms) <= right.clock_bound_ms
    assert abs(ahead.clock_ahead_ms - AHEAD_S * 1e3) <= ahead.clock_bound_ms
    # Each consumer reads what both hosts wrote: without correction a third of it took less than nothing, and a sixth
    # 250 ms (measured).
    assert result.received.negative_latencies == 0
    end_to_end = latency_metrics([result.received.latency])
    assert 0 < end_to_end["latency_ms.p50"] < AHEAD_S * 1e3 / 2


@pytest.mark.slow
def test_a_failover_from_two_hosts_is_told_as_from_one_machine(tmp_path: Path) -> None:
    """A broker is killed; what became of each record is journaled on both hosts, and every one is accounted for."""
    done = gate(
        tmp_path,
        *("--hosts=local:2", "--set", "producers.processes=2", "--set", "consumers.processes=2"),
        *("-k", "kill-leader-session-3s", "--family", "failover", "--broker-warmup", "5", "--relations-only"),
    )
    entry = done.scenario("kill-leader-session-3s")
    (measured,) = entry["rounds"]
    metrics, failover = measured["metrics"], measured["failover"]
    assert entry["verdict"] != "INVALID", done.output
    assert 1.0 < metrics["outage_s.max"] < 60
    assert metrics["outage_affected"] == 6
    for kind in ("lost", "duplicated", "reordered", "phantom", "divergent"):
        assert failover["integrity"][kind] == 0
    assert metrics["end_to_end_before_ms.p50"] >= metrics["latency_before_ms.p50"] / 2
    assert [(host["name"], host["processes"]) for host in measured["hosts"]] == [("host-1", 2), ("host-2", 2)]
    assert [host["clock_stepped_ms"] for host in measured["hosts"]] == [0.0, 0.0]
