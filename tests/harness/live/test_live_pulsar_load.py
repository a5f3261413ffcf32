"""The load engine on real Pulsar brokers: every record is accounted for, read in order, and found when it is twice."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfgate.load.history import OUTCOME, RECEIPT, SEND, outcomes_path, read_journal, receipts_path, sends_path
from perfgate.load.transport import LocalTransport
from perfgate.measure.validity import accounting_of
from perfgate.model import SAME_ZONE, ClusterSpec, Consumers, Keys, Load, Scenario, TopicSpec, settings
from perfgate.model.load import LoadError, LoadResult, LoadSpec, Observer, Received, Sent
from perfgate.systems.pulsar.load.libpulsar import LibpulsarDriver
from perfgate.systems.pulsar.managed.embedded import EmbeddedCluster, PulsarTarget

pytestmark = pytest.mark.slow
SPEC = ClusterSpec(
    system="pulsar",
    bookies=3,
    config=settings({"metadataStoreSessionTimeoutMillis": 6_000, "bookkeeper_delayEnsembleChange": "true"}),
)
BASE = Scenario(
    name="live",
    summary="a load of the tests",
    families=("live",),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=3),
    producer=(),
    record_bytes=1024,
    load=Load(kind="capped", rate=20_000),
    cluster=SPEC,
)
PACED = Load(kind="paced", rate=1_000)
DRIVER = LibpulsarDriver()
WITHOUT_COMPILER = """
import runpy
from perfgate.systems.pulsar.load import native
native.cannot_have = lambda: "not asked for"
runpy.run_module("perfgate.load.worker", run_name="__main__")
"""
OUTAGE_S = 60.0
"""So long after a broker was killed its partitions may take to be served by another one."""


class Live:
    """One cluster, and loads on it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster, self.topics, self._made = cluster, cluster.topics(), 0

    @contextmanager
    def topic(self, scenario: Scenario) -> Iterator[str]:
        self._made += 1
        name = f"{self.cluster.prefix}load-{self._made}"
        self.topics.create(name, scenario.topic)
        try:
            yield name
        finally:
            self.topics.delete(name)

    def spec(self, scenario: Scenario, topic: str) -> LoadSpec:
        return LoadSpec(
            scenario=scenario,
            bootstrap=self.cluster.bootstrap(SAME_ZONE),
            security=self.cluster.client_settings(),
            topic=topic,
            run_id="live",
            seed=1,
            window_s=2,
            warmup_max_s=2,
        )

    def observer(self, topic: str) -> Observer:
        return Observer(
            edge=lambda _at: None,
            check=self.cluster.check,
            progress=lambda phase, last: None,
            written=lambda: sum(self.ends(topic)),
        )

    def ends(self, topic: str) -> tuple[int, ...]:
        return self.topics.end_offsets(topic, BASE.topic.partitions)

    def run(self, scenario: Scenario, driver: LibpulsarDriver = DRIVER) -> LoadResult:
        """Run one round; its records are accounted for by the brokers' own counts."""
        assert driver.cannot(scenario) is None
        with self.topic(scenario) as topic:
            result = driver.run(self.spec(scenario, topic), self.observer(topic))
            accounting = accounting_of(result.sent, (0, 0, 0), self.ends(topic))
            assert accounting.attempted == accounting.acked == accounting.offset_delta > 0
            return result


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    target = PulsarTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    target.prepare([SPEC])
    try:
        found = Live(target.cluster(SPEC))
        found.run(BASE)  # warm the brokers up
        yield found
    finally:
        target.close()


def sound(received: Received | None) -> Received:
    """Return what was read, once no record of it was strange."""
    assert received is not None
    assert (received.foreign, received.corrupt, received.duplicated, received.reordered) == (0, 0, 0, 0)
    assert not received.failed
    return received


def sent_of(result: LoadResult) -> Sent:
    assert result.sent is not None
    assert not result.sent.failed
    return result.sent


@pytest.mark.parametrize("producer", [{}, {"batchingEnabled": "false"}, {"compressionType": "ZSTD"}], ids=str)
def test_a_paced_load_sends_what_is_due(live: Live, producer: dict[str, str]) -> None:
    sent = sent_of(live.run(replace(BASE, load=PACED, producer=settings(producer))))
    assert sent.due_in_window == pytest.approx(PACED.rate * 2, abs=2)
    assert sent.unsent == 0


def test_without_a_compiler_the_counts_are_as_exact(live: Live) -> None:
    slow = LibpulsarDriver(LocalTransport(("-c", WITHOUT_COMPILER)))
    result = live.run(replace(BASE, load=PACED, consumers=Consumers(membership="assigned")), slow)
    assert sound(result.received).received == sent_of(result).acked


@pytest.mark.parametrize(
    ("membership", "processes"), [("assigned", 3), ("exclusive", 1), ("shared", 2), ("failover", 2), ("key-shared", 2)]
)
def test_every_record_is_read_once(live: Live, membership: Any, processes: int) -> None:
    keyed = membership == "key-shared"
    scenario = replace(
        BASE,
        load=PACED,
        consumers=Consumers(membership=membership, processes=processes, groups=2),
        producer=settings({"batchingEnabled": "false"} if keyed else {}),
        keys=Keys(kind="random") if keyed else BASE.keys,
    )
    result = live.run(scenario)
    assert sound(result.received).received == 2 * sent_of(result).acked
    assert [read for read, _ in result.received.by_group] == [sent_of(result).acked] * 2  # type: ignore[union-attr]


def test_a_backlog_is_read_over_and_over(live: Live) -> None:
    scenario = replace(BASE, load=Load(kind="backlog", records=20_000), consumers=Consumers(membership="assigned"))
    with live.topic(scenario) as topic:
        spec, observer = live.spec(scenario, topic), live.observer(topic)
        DRIVER.fill(spec, observer)
        assert sum(live.ends(topic)) == 20_000
        for _ in range(2):
            assert sound(DRIVER.run(spec, observer).received).received > 2 * 20_000


def test_records_that_are_in_the_log_twice_are_found(live: Live, tmp_path: Path) -> None:
    scenario = replace(BASE, load=Load(kind="backlog", records=1_000), consumers=Consumers(membership="assigned"))
    with live.topic(scenario) as topic:
        spec, observer = live.spec(scenario, topic), live.observer(topic)
        for _ in range(2):
            DRIVER.fill(spec, observer)
        rows = DRIVER.read_everything(spec, tmp_path, live.ends(topic), observer)
        assert len(rows) == 2_000
        assert np.array_equal(np.unique(rows["sequence"], return_counts=True)[1], [2] * 1_000)
        received = DRIVER.run(spec, observer).received
        assert received is not None
        assert received.duplicated >= 1_000
        assert (received.foreign, received.corrupt, received.reordered) == (0, 0, 0)


def test_a_topic_that_is_not_there_is_a_reason(live: Live) -> None:
    with pytest.raises(LoadError, match="its partitions are not known"):
        DRIVER.run(live.spec(BASE, f"{live.cluster.prefix}missing"), live.observer("missing"))


def until(live: Live, topic: str, answers: Callable[[], bool]) -> None:
    deadline = time.monotonic() + OUTAGE_S
    while not answers() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert answers(), live.topics.leaders(topic)


def test_a_broker_that_is_killed_loses_nothing(live: Live, tmp_path: Path) -> None:
    """The last test of this cluster. Sequences go on in order in each partition, through the change of its broker."""
    scenario = replace(
        BASE,
        load=PACED,
        producer=settings({"maxPendingMessages": 0, "sendTimeoutMs": 120_000}),
        consumers=Consumers(membership="assigned"),
    )
    with live.topic(scenario) as topic:
        spec, observer = live.spec(scenario, topic), live.observer(topic)
        killed = live.topics.leaders(topic)[0]
        with DRIVER.journaled(spec, tmp_path / "load", observer) as load:
            load.begin()
            load.follow_until(time.monotonic() + 3, "before the fault")
            live.cluster.faults.do("kill", killed)
            load.follow_until(time.monotonic() + 3, "without the broker")
            until(live, topic, lambda: killed not in live.topics.leaders(topic))
            load.follow_until(time.monotonic() + 3, "after the fault")
            assert not load.finish()
        sends = read_journal(sends_path(tmp_path / "load", 0), SEND)
        outcomes = read_journal(outcomes_path(tmp_path / "load", 0), OUTCOME)
        receipts = read_journal(receipts_path(tmp_path / "load", 0), RECEIPT)
        assert len(outcomes) == sends["count"].sum()
        acked = outcomes[outcomes["error"] == 0]
        assert len(acked) == len(outcomes), np.unique(outcomes["error"], return_counts=True)
        ends = [len(np.unique(receipts["offset"][receipts["partition"] == number])) for number in range(3)]
        rows = DRIVER.read_everything(spec, tmp_path / "read", ends, observer)
        assert set(acked["sequence"].tolist()) <= set(rows["sequence"].tolist()), "an acknowledged record is lost"
        assert {*zip(acked["partition"].tolist(), acked["offset"].tolist(), strict=True)} <= {
            *zip(rows["partition"].tolist(), rows["offset"].tolist(), strict=True)
        }, "an acknowledged record lies where its receipt says"
        for number in range(3):
            here = rows[rows["partition"] == number]
            assert (np.diff(here["offset"]) > 0).all()
            first = np.unique(here["sequence"], return_index=True)[1]
            assert (np.diff(first) > 0).all(), "in the log each sequence first appears in order"
