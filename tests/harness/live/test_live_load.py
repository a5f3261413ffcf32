"""The load engine on a real broker: rates, records and latencies are what was declared, and what went wrong is told."""

import struct
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from perfgate.fixtures.wiring_kafka import make_driver
from perfgate.host.waiting import NotYet, poll_until
from perfgate.load import engine, journaled
from perfgate.load.instructions import Requests
from perfgate.load.payload import run_tag
from perfgate.measure.assembly import timed_out_share
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import (
    SAME_ZONE,
    ClusterSpec,
    Consumers,
    Keys,
    Load,
    Payload,
    Scenario,
    TopicSpec,
    settings,
)
from perfgate.model.histogram import figures_of, merged
from perfgate.model.load import LoadError, LoadSpec, Received, Sent
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions, LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.build import accounting
from tests.harness.live_load import RUN_ID, LiveLoad, row

MEMORY_BOUND_MIB = 300
STALL_S = 1.0
BASE = Scenario(
    name="live",
    summary="a load of the tests",
    families=("live",),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1),
    producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 0}),
    record_bytes=1024,
    load=Load(kind="capped", rate=20_000),
)
DRIVER = LibrdkafkaDriver()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLoad[EmbeddedCluster]]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    try:
        load = LiveLoad(target.cluster(ClusterSpec(brokers=1)))
        load.run(DRIVER, row(BASE, load=Load(kind="capped", rate=50_000)), window_s=5)  # warm the broker up
        yield load
    finally:
        target.close()


def sound(sent: Sent | None, end_offsets: int) -> Sent:
    """Return what was sent once every record of it is accounted for."""
    assert sent is not None
    assert sent.attempted == sent.acked == end_offsets > 0
    assert (sent.failed, sent.unresolved, sent.unsent) == ({}, 0, 0)
    return sent


def clean(received: Received | None, expected: int) -> Received:
    """Return what was received once every record of it is the one expected."""
    assert received is not None
    assert received.received == received.read == expected
    assert (received.foreign, received.corrupt, received.duplicated, received.reordered) == (0, 0, 0, 0)
    return received


@pytest.mark.parametrize("rate", [1, 100, 5_000])
def test_a_paced_load_offers_its_rate(live: LiveLoad[EmbeddedCluster], rate: int) -> None:
    """Every slot of the window was used: the count is exact but for the record on its edge."""
    result, end_offsets = live.run(DRIVER, row(BASE, load=Load(kind="paced", rate=rate)), window_s=4)
    sent = sound(result.sent, end_offsets)
    assert merged([sent.schedule_delay]).get_total_count() == pytest.approx(4 * rate, abs=1)
    assert merged([sent.latency]).get_total_count() == pytest.approx(4 * rate, abs=1)


def test_processes_and_threads_share_the_rate_and_the_window(live: LiveLoad[EmbeddedCluster]) -> None:
    scenario = row(BASE, producers=2, threads=2, load=Load(kind="paced", rate=400), keys=Keys(kind="set", count=10))
    result, end_offsets = live.run(DRIVER, scenario)
    sent = sound(result.sent, end_offsets)
    assert merged([sent.latency]).get_total_count() == pytest.approx(800, abs=4)
    apart = figures_of(sent.latency_by_partition)
    assert sum(records for records, _ in apart) == merged([sent.latency]).get_total_count()
    assert len(apart) == 3


def written(live: LiveLoad[EmbeddedCluster], topic: str, least: int) -> int:
    """Return the topic's end offsets added up, once they are as many: a commit is answered before its markers are."""

    def all_there() -> int:
        if (ends := sum(live.topics.end_offsets(topic, 3))) < least:
            raise NotYet(f"{ends:,} of {least:,} records and markers are in the log")
        return ends

    return poll_until("the log", all_there, within_s=10, every_s=0.1)


@pytest.mark.parametrize(
    "load", [Load(kind="capped", rate=5_000), Load(kind="paced", rate=1_000)], ids=lambda o: o.kind
)
def test_transactions_are_accounted_for_with_their_markers(live: LiveLoad[EmbeddedCluster], load: Load) -> None:
    """Two clients with ids of their own, the same in the second round; consumers are given no marker, and no less."""
    scenario = row(
        BASE,
        load=load,
        producer=settings({"acks": -1, "enable.idempotence": "true", "queue.buffering.max.kbytes": 512}),
        threads=2,
        transaction_ms=100,
        consumers=Consumers(membership="assigned", config=settings({"isolation.level": "read_committed"})),
    )
    for _ in range(2):
        with live.topic(scenario) as topic:
            result = DRIVER.run(live.spec(scenario, topic), live.observer(topic, 3))
            sent = result.sent
            assert sent is not None
            markers = sum(sent.markers_by_partition)
            # 3 to 5 s of 2 clients, 3 partitions and at most 10 transactions/s, of which a slow broker takes 2.
            assert 12 < markers < 400
            ends = written(live, topic, sent.acked + markers)
            time.sleep(0.5)
            assert written(live, topic, 0) == ends == sent.acked + markers, "nothing else comes"
        clean(result.received, sent.acked)
        accounting = accounting_of(sent, [0, 0, 0], [ends, 0, 0])
        assert accounting.offset_delta == accounting.acked + accounting.markers
        lost = flaws(load, result, replace(accounting, offset_delta=ends - 1, partitions=()))
        assert [(flaw.whose == "brokers") for flaw in lost if "records unaccounted" in flaw.text] == [True]


def test_a_transaction_that_cannot_be_committed_is_an_error_of_the_load(live: LiveLoad[EmbeddedCluster]) -> None:
    """Records that are larger than the topic takes fail, which aborts their transaction."""
    scenario = row(
        BASE,
        topic=TopicSpec(partitions=3, replication_factor=1, config=settings({"max.message.bytes": 500})),
        load=Load(kind="paced", rate=100),
        producer=settings({"acks": -1, "enable.idempotence": "true"}),
        transaction_ms=100,
    )
    with live.topic(scenario) as topic, pytest.raises(LoadError, match=r"transaction: committing: .*aborted"):
        DRIVER.run(live.spec(scenario, topic), live.observer(topic, 3))


def test_records_that_time_out_are_counted_and_bound_what_the_log_may_hold(live: LiveLoad[EmbeddedCluster]) -> None:
    """A broker that stands still for 3.5 s of a window of 5 s: librdkafka looks once a second for what is 1 s old."""
    load = Load(kind="paced", rate=1_000, times_out=True)
    scenario = row(
        BASE,
        load=load,
        producer=settings(
            {
                "acks": 1,
                "retries": 0,
                "socket.max.fails": 0,
                "delivery.timeout.ms": 1_000,
                "request.timeout.ms": 1_000,
                "queue.buffering.max.messages": 20_000,
            }
        ),
    )
    broker = psutil.Process(live.cluster.broker_pids()[1])
    waking = threading.Timer(3.5, broker.resume)
    edges: list[float] = []

    def at_edge() -> None:
        if not edges:
            broker.suspend()
            waking.start()
        edges.append(time.monotonic())

    try:
        with live.topic(scenario) as topic:
            result = DRIVER.run(live.spec(scenario, topic, window_s=5), live.observer(topic, 3, edge=at_edge))
            ends = live.topics.end_offsets(topic, 3)
    finally:
        waking.cancel()
        broker.resume()
    sent = result.sent
    assert sent is not None
    accounting = accounting_of(sent, [0, 0, 0], ends)
    share = timed_out_share(load, sent)["timed_out_share"]
    print(f"share {share:.3f}, {sent.failed}, acked {sent.acked:,}, in the log {sum(ends):,}")
    assert set(sent.failed) == {"_MSG_TIMED_OUT"}
    assert sent.due_in_window == pytest.approx(5_000, abs=2)
    # What was due in its first 1.5 s is seen to be too old before it ends, and nothing that was due after it.
    assert 0.29 < share < 0.71
    assert [flaw.text for flaw in flaws(load, result, accounting) if not flaw.metrics] == []


@pytest.mark.parametrize("membership", ["assigned", "group"])
def test_what_is_sent_is_received_and_timed_from_its_intended_send(
    live: LiveLoad[EmbeddedCluster], membership: str
) -> None:
    consumers = Consumers(membership=membership, processes=2)  # type: ignore[arg-type]  # one of the two legal values
    scenario = row(BASE, load=Load(kind="paced", rate=1000), consumers=consumers, producers=2)
    result, end_offsets = live.run(DRIVER, scenario)
    sent = sound(result.sent, end_offsets)
    received = clean(result.received, end_offsets)
    assert received.negative_latencies == 0
    end_to_end, acknowledged = merged([received.latency]), merged([sent.latency])
    assert end_to_end.get_total_count() == acknowledged.get_total_count() == pytest.approx(2000, abs=4)
    assert end_to_end.get_min_value() > 0
    assert received.fetch_ms is not None


def test_a_share_group_is_given_each_record_once(live: LiveLoad[EmbeddedCluster]) -> None:
    """Five members of a group on three partitions; whoever is given a record, it counts once."""
    consumers = Consumers(membership="share", threads=5)
    result, end_offsets = live.run(DRIVER, row(BASE, load=Load(kind="paced", rate=1000), consumers=consumers))
    sent = sound(result.sent, end_offsets)
    received = result.received
    assert received is not None
    assert received.received == end_offsets
    assert received.read == received.received + received.redelivered
    assert (received.foreign, received.corrupt, received.negative_latencies, received.failed) == (0, 0, 0, {})
    end_to_end, acknowledged = merged([received.latency]), merged([sent.latency])
    assert end_to_end.get_total_count() >= acknowledged.get_total_count() > 0
    assert end_to_end.get_min_value() > 0


def test_every_group_receives_every_record(live: LiveLoad[EmbeddedCluster]) -> None:
    """Three groups of two members each; latencies are those of all deliveries."""
    consumers = Consumers(membership="group", groups=3, processes=2)
    result, end_offsets = live.run(DRIVER, row(BASE, load=Load(kind="paced", rate=1000), consumers=consumers))
    sent = sound(result.sent, end_offsets)
    received = clean(result.received, 3 * end_offsets)
    assert [taken for taken, _ in received.by_group] == [end_offsets] * 3
    assert merged([received.latency]).get_total_count() == 3 * merged([sent.latency]).get_total_count()


def test_a_group_that_misses_records_is_found(live: LiveLoad[EmbeddedCluster], monkeypatch: pytest.MonkeyPatch) -> None:
    """The second group is not given partition 1, the first everything."""

    consumers_of = KafkaInstructions.consumers_of

    def short(self: KafkaInstructions, spec: LoadSpec) -> Requests:
        return {
            name: {**worker, "assigned": [[0, 1, 2], [0, 2]] if worker["first"] else worker["assigned"]}
            for name, worker in consumers_of(self, spec).items()
        }

    monkeypatch.setattr(KafkaInstructions, "consumers_of", short)
    monkeypatch.setattr(engine, "CATCH_UP_S", 2)
    scenario = row(BASE, load=Load(kind="paced", rate=300), consumers=Consumers(membership="assigned", groups=2))
    result, end_offsets = live.run(DRIVER, scenario)
    found = [flaw.text for flaw in flaws(scenario.load, result, accounting(end_offsets)) if not flaw.metrics]
    assert len(found) == 1
    assert f"{end_offsets:,} acknowledged" in found[0]
    assert "received by group 2 of 2 (-" in found[0]


def test_groups_read_a_backlog_each_as_a_whole(live: LiveLoad[EmbeddedCluster]) -> None:
    backlog = row(BASE, load=Load(kind="backlog", records=15_000), consumers=Consumers(membership="assigned", groups=2))
    with live.topic(backlog) as topic:
        spec, observer = live.spec(backlog, topic), live.observer(topic, 3)
        DRIVER.fill(spec, observer)
        received = DRIVER.run(spec, observer).received
    assert received is not None
    clean(received, received.read)
    assert received.missed == 0
    assert all(in_window > 0 for _, in_window in received.by_group)
    assert sum(in_window for _, in_window in received.by_group) == received.received_in_window


def test_a_backlog_is_read_over_and_over(live: LiveLoad[EmbeddedCluster]) -> None:
    backlog = row(
        BASE,
        load=Load(kind="backlog", records=15_000),
        consumers=Consumers(membership="assigned", config=settings({"fetch.wait.max.ms": 50})),
    )
    with live.topic(backlog) as topic:
        spec, observer = live.spec(backlog, topic), live.observer(topic, 3)
        LibrdkafkaDriver().fill(spec, observer)
        result = DRIVER.run(spec, observer)
    assert result.sent is None
    assert result.received is not None
    clean(result.received, result.received.read)
    assert result.received.read > 2 * 15_000
    assert result.rss_mib < MEMORY_BOUND_MIB


def test_small_records_at_full_speed_are_all_accounted_for_in_little_memory(live: LiveLoad[EmbeddedCluster]) -> None:
    small = row(
        BASE,
        record_bytes=40,
        load=Load(kind="capped", rate=1e9),
        producer=settings({"acks": 1, "batch.size": 1_000_000, "linger.ms": 5}),
    )
    result, end_offsets = live.run(DRIVER, small, window_s=4)
    sound(result.sent, end_offsets)
    assert result.rss_mib < MEMORY_BOUND_MIB


def test_a_stall_of_the_broker_shows_in_latency_from_the_intended_send_only(live: LiveLoad[EmbeddedCluster]) -> None:
    """Coordinated omission: 1 s without answers at 1,000 records/s must cost 1,000 records up to a second each.

    The client's buffer holds 200 records, as a client does that waits: measured from the actual send, the others of
    that second were quick.
    """
    rate, window_s = 1000, 6.0
    broker = psutil.Process(live.cluster.broker_pids()[1])
    stalled: list[float] = []

    def stall() -> None:
        time.sleep(2)
        begin = time.monotonic()
        broker.suspend()
        time.sleep(STALL_S)
        broker.resume()
        stalled.append(time.monotonic() - begin)

    edges: list[threading.Thread] = []

    def at_edge() -> None:
        if not edges:
            edges.append(threading.Thread(target=stall))
            edges[0].start()

    scenario = row(
        BASE,
        load=Load(kind="paced", rate=rate),
        producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 0, "queue.buffering.max.messages": 200}),
    )
    try:
        result, end_offsets = live.run(DRIVER, scenario, window_s=window_s, edge=at_edge)
    finally:
        broker.resume()
    edges[0].join()
    sent = sound(result.sent, end_offsets)
    intended, actual = merged([sent.latency]), merged([sent.send_latency])
    # A record due t s into the stall waits for its rest. Those that wait more than 0.5 s were due in its first part.
    slow = rate * (stalled[0] - 0.5)
    p999 = 1e6 * (stalled[0] - window_s * 0.001)
    for basis, found in (("intended send", intended), ("actual send", actual)):
        print(
            f"from the {basis}: p99.9 {found.get_value_at_percentile(99.9) / 1e3:,.0f} ms, {over_half_a_second(found)} "
            f"above 500 ms; by the schedule p99.9 {p999 / 1e3:,.0f} ms, {slow:.0f} above 500 ms"
        )
    # A slow machine adds to what the stall costs and takes nothing from it.
    assert over_half_a_second(intended) > 0.9 * slow
    assert intended.get_value_at_percentile(99.9) > 0.9 * p999
    assert over_half_a_second(actual) < 0.6 * over_half_a_second(intended)


def over_half_a_second(histogram: object) -> int:
    """Return how many values of the histogram lie above 500 ms."""
    return sum(
        item.count_added_in_this_iter_step
        for item in histogram.get_recorded_iterator()  # type: ignore[attr-defined]
        if item.value_iterated_to > 500_000
    )


def value(sequence: int, *, run: str = RUN_ID, producer: int = 0, crc: int | None = None) -> bytes:
    """Return a record value as a generator makes it, or as none does."""
    body = b"x" * 68
    header = struct.pack("<QIIQq", run_tag(run), producer, zlib.crc32(body) if crc is None else crc, sequence, 0)
    return header + body


def test_a_topic_with_foreign_duplicated_and_reordered_records_is_told(live: LiveLoad[EmbeddedCluster]) -> None:
    scenario = row(
        BASE,
        topic=TopicSpec(partitions=1, replication_factor=1),
        load=Load(kind="backlog", records=1),
        consumers=Consumers(membership="assigned"),
    )
    good = [value(n) for n in range(1000)]
    foreign = [value(0, run="another"), b"too short", value(1000, producer=9)]
    log = [*good[:500], *foreign, good[499], good[100], good[501], good[500], *good[502:]]
    damaged = [value(1000 + n, crc=1) for n in range(128)]  # the CRC of 1 in 64 is looked at
    with live.topic(scenario) as topic:
        producer = Producer({"bootstrap.servers": live.cluster.bootstrap(SAME_ZONE), "acks": "1"})
        for record in [*log, *damaged]:
            producer.produce(topic, record)
        assert producer.flush(60) == 0
        received = DRIVER.run(live.spec(scenario, topic, window_s=1), live.observer(topic, 1)).received
    assert received is not None
    laps = received.read / (len(log) + len(damaged))  # the topic is read over and over
    assert laps >= 1
    assert received.foreign == pytest.approx(3 * laps, abs=3)
    assert received.duplicated == pytest.approx(2 * laps, abs=2)
    assert received.reordered == pytest.approx(1 * laps, abs=1)
    assert received.corrupt == pytest.approx(2 * laps, abs=2)


@pytest.mark.parametrize(
    "codec", ["gzip", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lz4", "snappy", "zstd"))]
)
def test_text_is_as_compressible_as_stated(live: LiveLoad[EmbeddedCluster], codec: str) -> None:
    """Stated for gzip in batches of 16 KiB; what the other codecs make of it lies within a factor of two."""
    scenario = row(
        BASE,
        payload=Payload(kind="text", ratio=4.0),
        producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 20, "compression.type": codec}),
    )
    with live.topic(scenario) as topic:
        sent = DRIVER.run(live.spec(scenario, topic, window_s=1), live.observer(topic, 3)).sent
        data = Path(next(p for p in live.cluster.log_dirs()))
        stored = sum(segment.stat().st_size for segment in data.glob(f"{topic}-*/*.log"))
    assert sent is not None
    ratio = sent.acked * scenario.record_bytes / stored
    print(f"{codec}: {ratio:.2f} for a stated 4.0")
    assert ratio == pytest.approx(4.0, rel=0.1 if codec == "gzip" else 0.5)


def test_lines_of_a_file_are_the_records(live: LiveLoad[EmbeddedCluster], tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {n} {'x' * (n % 50)}\n" for n in range(1000)) + "\n")
    scenario = row(BASE, payload=Payload(kind="lines", path=str(lines)), consumers=Consumers(membership="assigned"))
    result, end_offsets = live.run(DRIVER, scenario)
    sent = sound(result.sent, end_offsets)
    clean(result.received, end_offsets)
    assert sent.acked_bytes_in_window / sent.acked_in_window == pytest.approx(32 + 33.4, abs=1)


def test_the_official_producer_agrees_with_the_end_offsets(live: LiveLoad[EmbeddedCluster]) -> None:
    java = make_driver("java", ClusterSpec())
    result, end_offsets = live.run(java, row(BASE, producers=2, load=Load(kind="capped", rate=10_000)))
    sent = sound(result.sent, end_offsets)
    # The tool's throttle holds the average since its start: after a slow start it sends faster than that.
    assert 0 < sent.acked_in_window / result.window_s < 50_000
    assert set(sent.percentiles) == {"latency_ms.avg", "latency_ms.max"}, "percentiles of two clients do not merge"


@pytest.mark.slow
def test_the_official_consumer_reads_the_backlog(live: LiveLoad[EmbeddedCluster]) -> None:
    backlog = row(
        BASE, load=Load(kind="backlog", records=5_000_000), consumers=Consumers(membership="group"), record_bytes=100
    )
    java = make_driver("java", ClusterSpec())
    with live.topic(backlog) as topic:
        spec, observer = live.spec(backlog, topic, window_s=0.3, warmup_max_s=0.2), live.observer(topic, 3)
        LibrdkafkaDriver().fill(spec, observer)
        result = java.run(spec, observer)
    assert result.received is not None
    assert 0 < result.received.received_in_window < 5_000_000


def test_a_backlog_that_is_read_too_soon_says_so(live: LiveLoad[EmbeddedCluster]) -> None:
    backlog = row(BASE, load=Load(kind="backlog", records=200_000), consumers=Consumers(membership="group"))
    java = make_driver("java", ClusterSpec())
    with live.topic(backlog) as topic:
        spec, observer = live.spec(backlog, topic, window_s=20, warmup_max_s=0.2), live.observer(topic, 3)
        LibrdkafkaDriver().fill(spec, observer)
        with pytest.raises(LoadError, match="had read the backlog of 200,000 records before its window"):
            java.run(spec, observer)


def test_a_final_read_that_does_not_reach_the_end_is_told(
    live: LiveLoad[EmbeddedCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journaled, "LEAST_READ_S", 10.0)
    scenario = row(BASE, load=Load(kind="backlog", records=1_000))
    with live.topic(scenario) as topic:
        spec, observer = live.spec(scenario, topic), live.observer(topic, 3)
        LibrdkafkaDriver().fill(spec, observer)
        ends = live.topics.end_offsets(topic, 3)
        rows = journaled.read_everything(KafkaInstructions(), spec, tmp_path / "whole", ends, observer)
        assert len(rows) == sum(ends) == 1_000
        beyond = (ends[0], ends[1] + 5, ends[2])
        with pytest.raises(LoadError, match=rf"did not reach the end .* partition 1 {ends[1]} of {ends[1] + 5}$"):
            journaled.read_everything(KafkaInstructions(), spec, tmp_path / "short", beyond, observer)
