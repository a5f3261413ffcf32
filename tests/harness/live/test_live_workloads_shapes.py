"""Shaped loads, mixed sizes and skewed keys on real brokers: what the engine counts, a second way finds too."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from perfgate.load import journaled
from perfgate.load.engine import SuiteEngine
from perfgate.load.instructions import Requests
from perfgate.measure.assembly import hottest
from perfgate.measure.shaped import not_reached, shape_figures
from perfgate.model import ClusterSpec, Consumers, Keys, Load, Scenario, TopicSpec, settings
from perfgate.model.load import LoadSpec, Observer
from perfgate.model.metrics import OWED, PHASE_LATENCY
from perfgate.model.shape import read_shape
from perfgate.model.sizes import read_sizes
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions, LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.build.second_way import recorded
from tests.harness.live_load import LiveLoad, row

BASE = Scenario(
    name="live",
    summary="a load of the tests",
    families=("live",),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1),
    producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 0}),
    record_bytes=1024,
    load=Load(kind="paced", rate=1_000),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLoad[EmbeddedCluster]]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    try:
        load = LiveLoad(target.cluster(ClusterSpec(brokers=1)))
        load.run(LibrdkafkaDriver(), row(BASE, load=Load(kind="capped", rate=50_000)), window_s=3)  # warm the broker up
        yield load
    finally:
        target.close()


class Journaling(KafkaInstructions):
    """Has every producer write down what becomes of each record."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def producers_of(self, spec: LoadSpec) -> Requests:
        requests: Mapping[str, dict[str, object]] = super().producers_of(spec)
        return {name: {**one, "history": str(self._folder)} for name, one in requests.items()}


@pytest.mark.parametrize(
    "text",
    [
        "spike:base=300,peak=1500,seconds=2,period=8",
        pytest.param("spike:base=1000,peak=5000,seconds=10,period=40", marks=pytest.mark.slow),
        pytest.param("wave:base=200,peak=3000,period=30", marks=pytest.mark.slow),
        pytest.param("steps:rates=500/2000/4000/500,seconds=6", marks=pytest.mark.slow),
    ],
)
def test_a_second_way_finds_the_same_over_time_and_every_record(
    live: LiveLoad[EmbeddedCluster], tmp_path: Path, text: str
) -> None:
    shape = read_shape("load.shape", text)
    scenario = row(
        BASE,
        load=Load(kind="shaped", rate=shape.mean, shape=shape),
        producers=2,
        consumers=Consumers(membership="assigned"),
    )
    edges: list[float] = []
    with live.topic(scenario) as topic:
        spec = live.spec(scenario, topic, window_s=shape.seconds)
        plain = live.observer(topic, 3)
        observer = Observer(edge=edges.append, check=plain.check, progress=plain.progress, written=plain.written)
        result = SuiteEngine(Journaling(tmp_path)).run(spec, observer)
        ends = live.topics.end_offsets(topic, 3)
        rows = journaled.read_everything(KafkaInstructions(), spec, tmp_path / "log", ends, observer)
    sent, received = result.sent, result.received
    assert sent
    assert received
    assert sent.over_time
    assert sent.attempted == sent.acked == sum(ends) == len(rows) == received.received
    assert not_reached(shape, sent.over_time) == {}
    figures, metrics = shape_figures(shape, sent.over_time, result.window_late_s)
    again = recorded(tmp_path, 2, shape, edges[0] - result.warmup_s, edges[0])
    for second, p99 in enumerate(figures.p99_ms):
        low, high = again.p99_bounds_ms(second, second + 1) or (0.0, 0.0)
        assert p99 is not None
        assert low <= p99 <= high, f"second {second}"
    for phase, (begin, end) in shape.phases.items():
        low, high = again.p99_bounds_ms(begin, end) or (0.0, 0.0)
        assert low * (1 - 1e-3) <= metrics[f"{PHASE_LATENCY[phase]}.p99"] <= high
    assert metrics[OWED] == pytest.approx(again.owed(shape), abs=3)
    assert sum(figures.offered) == pytest.approx(len(again.due), abs=3)
    in_log = np.column_stack([rows[name] for name in ("partition", "offset", "producer", "sequence")])
    assert {*map(tuple, again.acked.tolist())} == {*map(tuple, in_log.tolist())}


@pytest.mark.slow
@pytest.mark.parametrize("load", [Load(kind="capped", rate=20_000), Load(kind="paced", rate=2_000)])
def test_records_of_several_sizes_are_whole_and_counted_in_bytes(live: LiveLoad[EmbeddedCluster], load: Load) -> None:
    """Consumers know each record's length from its number: one row out of turn would make all others damaged."""
    sizes = read_sizes("record.sizes", "values:100=70/1000=25/10000=4/100000=1")
    scenario = row(
        BASE,
        load=load,
        sizes=sizes,
        record_bytes=sizes.mean,
        producers=2,
        threads=2,
        consumers=Consumers(membership="group"),
        producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 0, "queue.buffering.max.kbytes": 2048}),
    )
    result, ends = live.run(LibrdkafkaDriver(), scenario, window_s=5)
    sent, received = result.sent, result.received
    assert sent
    assert received
    assert sent.acked == ends == received.received == received.read
    assert (received.corrupt, received.foreign, received.reordered, sent.failed) == (0, 0, 0, {})
    assert sent.acked_bytes_in_window / sent.acked_in_window == pytest.approx(sizes.mean, rel=0.05)
    assert received.received_bytes_in_window / received.received_in_window == pytest.approx(sizes.mean, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "least", "most"),
    [
        (Keys(kind="hot", count=1000, share=0.7), 0.75, 0.85),  # and a third of the rest
        (Keys(kind="zipf", count=1000, exponent=2.0), 0.6, 0.9),
        (Keys(kind="newest", count=1000, exponent=1.0), 0.33, 0.6),
    ],
)
def test_skewed_keys_make_one_partition_hot(
    live: LiveLoad[EmbeddedCluster], keys: Keys, least: float, most: float
) -> None:
    scenario = row(BASE, load=Load(kind="paced", rate=3_000), keys=keys, consumers=Consumers(membership="assigned"))
    result, ends = live.run(LibrdkafkaDriver(), scenario, window_s=4)
    sent, received = result.sent, result.received
    assert sent
    assert received
    assert sent.acked == ends == received.received
    found = hottest(scenario, sent)
    assert least < found["hottest_partition_share"] < most
    assert found["hottest_partition_latency_ms.p99"] > 0
