"""Limits of a target file: how much is written and read, and what needs permission."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.measure.bench import Bench, Means
from perfgate.measure.load_watch import LoadWatch
from perfgate.measure.plan import at_most
from perfgate.model import ClusterSpec, Consumers, Fault, FaultScenario, Load, Part, Tier, TopicSpec, settings
from perfgate.model.declared import LINKS, Keys
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.load import Progress
from perfgate.model.target import Meter
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget
from perfgate.systems.kafka.attached.limits import beyond, lacks_permission
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build import load_result, scenario, sent
from tests.harness.build.real_brokers import FILE, target


def test_a_run_that_could_write_more_than_the_file_allows_is_refused(tmp_path: Path) -> None:
    attached = target(tmp_path, [])
    attached.check_room(0, 1e9)
    with pytest.raises(ConfigurationError, match=r"\[limits\] bytes allows 1\.0 GB, and this run could write 1\.1 GB"):
        attached.check_room(0, 1.1e9)


def test_loads_are_capped_at_what_the_file_allows() -> None:
    row = scenario()
    offered = row.offered_bytes_per_s
    assert at_most(row, 2 * offered) == row
    assert at_most(row, offered / 4).offered_bytes_per_s == pytest.approx(offered / 4)


@pytest.mark.parametrize(("keys", "bytes_each"), [(Keys(), 25), (Keys(kind="set", count=9), 41)])
def test_what_stands_around_a_short_record_counts_against_the_limits(keys: Keys, bytes_each: int) -> None:
    """Of records of 10 B more than twice as much was written as the file allows."""
    row = replace(scenario(), record_bytes=10, keys=keys, topic=TopicSpec(partitions=1, replication_factor=2))
    assert row.logged_bytes == bytes_each
    assert at_most(row, 1e6).load.rate == pytest.approx(1e6 / (2 * bytes_each))


@pytest.mark.parametrize(
    ("load", "most_bytes_per_s", "most_rate"),
    [
        (Load(kind="capped", rate=100.0), 2000.0, 20.0),
        (Load(kind="capped", rate=10.0), 2000.0, 10.0),
        (Load(kind="paced", rate=10.0), 2000.0, 20.0),  # what it owes after a stall
        (Load(kind="backlog", records=5), 2000.0, 20.0),
        (Load(kind="capped", rate=100.0), math.inf, math.inf),
    ],
)
def test_every_load_is_told_what_the_target_allows(
    generators_by: Callable[[Callable[..., object]], None], load: Load, most_bytes_per_s: float, most_rate: float
) -> None:
    row = replace(scenario(), load=load, record_bytes=35, topic=TopicSpec(partitions=1, replication_factor=2))
    cluster = Mock(most_bytes_per_s=most_bytes_per_s, most_read_bytes_per_s=math.inf)
    cluster.client_settings.return_value, cluster.bootstrap.return_value = (), "b:1"
    tier = Tier(name="t", window_s=1, rounds=2, warmup_max_s=1, broker_warmup_s=0)
    means = Means(tier=tier, driver=Mock(), engine=Mock(), sampler=Mock(), say=Mock(), histories=Path())
    bench = Bench(means, cluster, "r")
    spec = bench.load_spec(row, "kpg-x")
    assert spec.most_rate == pytest.approx(most_rate)
    # It was sent, and read, twenty times as fast as the file lets consumers read, after a stall of ten seconds.
    cluster.most_read_bytes_per_s = 1500.0
    reading = bench.load_spec(replace(row, consumers=replace(READS, groups=3)), "kpg-x")
    assert reading.most_rate == pytest.approx(min(most_rate, 10.0))
    assert bench.load_spec(row, "kpg-x").most_rate == pytest.approx(most_rate)
    if load.kind == "backlog":
        told: list[dict[str, Any]] = []
        running = MagicMock()
        running.__enter__.return_value.wait_for.return_value = [{"acked": 5}]

        def generators(specs: dict[str, dict[str, Any]], **_: str) -> MagicMock:
            told.extend(specs.values())
            return running

        generators_by(generators)
        LibrdkafkaDriver().fill(spec, Mock())
        assert [(one["rate"], one["most_rate"]) for one in told] == [(20.0, 20.0)], "1e9 records/s once"


READS = Consumers(membership="group")


@pytest.mark.parametrize(
    ("most_bytes_per_s", "most_read_bytes_per_s", "own", "others"),
    [
        (1800.0, math.inf, 60.0, 12.0),  # three times what both offer together
        (1800.0, 600.0, 40.0, 8.0),  # the load beside it is read by three groups: twice what they are sent
        (600.0, 300.0, 20.0, 4.0),  # no more than they offer, and no less
        (math.inf, math.inf, math.inf, math.inf),
    ],
)
def test_loads_beside_one_another_catch_up_within_the_limits_together(
    most_bytes_per_s: float, most_read_bytes_per_s: float, own: float, others: float
) -> None:
    """Each was let send at the file's rate after a stall; and one that many read, less than it has to offer."""
    part = Part(
        name="noisy",
        topic=TopicSpec(partitions=1, replication_factor=2),
        producer=(),
        record_bytes=10,
        load=Load(kind="paced", rate=4.0),
        consumers=replace(READS, groups=3),
    )
    row = replace(
        scenario(),
        load=Load(kind="paced", rate=20.0),
        record_bytes=5,
        topic=TopicSpec(partitions=1, replication_factor=1),
        beside=(part,),
    )
    assert row.offered_bytes_per_s == 600
    cluster = Mock(most_bytes_per_s=most_bytes_per_s, most_read_bytes_per_s=most_read_bytes_per_s, prefix="kpg-")
    tier = Tier(name="t", window_s=1, rounds=2, warmup_max_s=1, broker_warmup_s=0)
    driver = Mock(run=Mock(side_effect=KeyboardInterrupt))
    means = Means(tier=tier, driver=driver, engine=Mock(), sampler=Mock(), say=Mock(), histories=Path())
    with pytest.raises(KeyboardInterrupt):
        Bench(means, cluster, "r").round(row, 0, None, "measuring")
    (spec, _), _ = driver.run.call_args
    assert (spec.most_rate, *(each.most_rate for each in spec.beside)) == pytest.approx((own, others))


def test_every_group_is_sent_every_record() -> None:
    limits = Limits(total_bytes=1e12, bytes_per_s=1e9, read_bytes_per_s=2 * 2**20)
    row = replace(scenario(), load=Load(kind="paced", rate=1000), consumers=replace(READS, groups=3))
    assert "its consumers read 3.0 MiB/s, and the file allows 2.0" in str(beyond(limits, row))
    assert beyond(limits, replace(row, consumers=READS)) is None
    capped = at_most(replace(row, load=Load(kind="capped", rate=5000)), limits.bytes_per_s, limits.read_bytes_per_s)
    assert capped.load.rate * capped.logged_bytes * 3 == pytest.approx(2 * 2**20)


@pytest.mark.parametrize(
    ("load", "reads", "refusal"),
    [
        (Load(kind="capped", rate=5000), True, None),
        (Load(kind="paced", rate=1000), True, None),
        (Load(kind="paced", rate=5000), True, "its consumers read 5.0 MiB/s, and the file allows 2.0"),
        (Load(kind="paced", rate=5000), False, None),
        (Load(kind="backlog", records=10), True, "it reads as fast as it can, and the file bounds that"),
        (Load(kind="paced", rate=10), None, "it reads as fast as it can, and the file bounds that"),
    ],
)
def test_reading_is_bounded_where_the_file_says_so(
    tmp_path: Path, load: Load, reads: bool | None, refusal: str | None
) -> None:
    """`reads` None: a row with a fault, which reads everything in the end."""
    path = tmp_path / "target.toml"
    path.write_text(FILE.replace("mib-per-s = 5", "mib-per-s = 50\nread-mib-per-s = 2"))
    described = load_target(path, lambda stores: {})
    attached = ExternalTarget(described, run_id="r", manifests=tmp_path / "m", note=print)
    attached._brokers, attached._faults_allowed = {1: "kafka-1:9093"}, True
    row = replace(scenario(), load=load, consumers=READS if reads else None)
    row = FaultScenario.of(row, Fault(kind="client-crash")) if reads is None else row
    told = attached.cannot(row)
    assert (told is None) is (refusal is None)
    assert (told or "").startswith(refusal or "")
    if load.kind == "capped":
        capped = at_most(row, described.limits.bytes_per_s, described.limits.read_bytes_per_s)
        assert capped.load.rate * capped.logged_bytes == pytest.approx(2 * 2**20)
        assert at_most(replace(row, consumers=None), 50 * 2**20, 2 * 2**20) == replace(row, consumers=None)


@pytest.mark.parametrize(
    ("topic", "limits", "refusal"),
    [
        (TopicSpec(partitions=1, replication_factor=1, count=10), "", None),
        (TopicSpec(partitions=1, replication_factor=1, count=11), "", "it has 11 topics, and the file allows 10"),
        (TopicSpec(partitions=1, replication_factor=1, count=11), "topics = 11", None),
        (TopicSpec(partitions=31, replication_factor=1, count=10), "", "its topics have 310 partitions with replicas"),
        (TopicSpec(partitions=11, replication_factor=3, count=10), "partitions = 329", "its topics have 330 "),
        (TopicSpec(partitions=11, replication_factor=3, count=10), "partitions = 330", None),
    ],
)
def test_topics_and_their_partitions_are_bounded_before_any_is_made(
    tmp_path: Path, topic: TopicSpec, limits: str, refusal: str | None
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(f"{FILE}{limits}\n")
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    told = attached.cannot(replace(scenario(), topic=topic))
    assert (told is None) is (refusal is None)
    assert (told or "").startswith(refusal or "")


@pytest.mark.parametrize(
    ("part", "limits", "refusal"),
    [
        ({}, "", None),
        ({"topic": TopicSpec(partitions=1, replication_factor=1, count=10)}, "", "it has 11 topics"),
        ({"topic": TopicSpec(partitions=300, replication_factor=1)}, "", "its topics have 303 partitions"),
        ({"load": Load(kind="capped", rate=1e6)}, "", "it offers "),
        (
            {"quota_mib_per_s": 1.0},
            "",
            "it sets a quota of a client id of its own: the target file must say [broker-config]",
        ),
        ({"quota_mib_per_s": 1.0}, "[broker-config]\nallowed = true", None),
        (
            {"quota_mib_per_s": 1.0},
            '[broker-config]\nallowed = true\n[client]\n"security.protocol" = "SSL"',
            "its quota is set by Kafka's own tool, which cannot log in",
        ),
        ({"topic": TopicSpec(partitions=1, replication_factor=4)}, "", "of a load beside it: it needs 4 replicas"),
        (
            {"topic": TopicSpec(partitions=1, replication_factor=1, config=settings({"retention.ms": -1}))},
            "",
            "of a load beside it: a topic that cannot be deleted may keep",
        ),
    ],
)
def test_loads_beside_one_another_keep_the_limits_together(
    tmp_path: Path, part: dict[str, Any], limits: str, refusal: str | None
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(f"{FILE}{limits}\n")
    attached = ExternalTarget(
        load_target(path, lambda stores: {}),
        run_id="r",
        manifests=tmp_path / "m",
        note=print,
        broker_config_allowed=True,
    )
    attached._brokers = dict.fromkeys((1, 2, 3), "kafka:9093")
    one = Part(
        **{
            "name": "noisy",
            "topic": TopicSpec(partitions=3, replication_factor=1),
            "producer": (),
            "record_bytes": 100,
            "load": Load(kind="paced", rate=10.0),
            **part,
        }
    )
    told = attached.cannot(replace(scenario(), load=Load(kind="paced", rate=10.0), beside=(one,)))
    assert (told is None) is (refusal is None), told
    assert (told or "").startswith(refusal or "")


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"factor": (("cluster.brokers", "3"),)}, None),
        ({"factor": (("cluster.brokers", "1"),)}, "it is about 1 brokers, and the cluster has 3"),
        ({"topic": TopicSpec(partitions=1, replication_factor=4)}, "it needs 4 replicas, and the cluster has 3"),
        ({"topic": TopicSpec(partitions=1, replication_factor=4), "refusal": "X"}, None),
        ({"refusal": "X"}, "its 1 replicas are to be refused, and the cluster has 3 brokers"),
        ({"link": LINKS["cross-zone"]}, "no client in the other zone"),
    ],
)
def test_what_is_about_other_brokers_is_not_run(tmp_path: Path, change: dict[str, Any], refusal: str | None) -> None:
    """One broker against three was measured on the same three, and the relation between them held."""
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    attached._brokers = dict.fromkeys((1, 2, 3), "kafka:9093")
    told = attached.cannot(replace(scenario(), **change))
    assert (told is None) is (refusal is None)
    assert (told or "").startswith(refusal or "")


@pytest.mark.parametrize(("brokers", "run"), [((1, 2), False), ((1, 2, 3), True), ((), True)])
@pytest.mark.parametrize("known", [False, True])
def test_every_broker_is_restarted_only_where_the_file_lists_every_one(
    tmp_path: Path, brokers: tuple[int, ...], run: bool, known: bool
) -> None:
    """Two brokers of somebody's cluster were restarted, then the third was refused and the scenario INVALID."""
    path = tmp_path / "target.toml"
    commands = 'stop = "x {host}"\nstart = "x {host}"\nkill = "x {host}"\n'
    path.write_text(f"{FILE}[faults]\n{commands}" + (f"brokers = {list(brokers)}\n" if brokers else ""))
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    attached._faults_allowed = True
    attached._brokers = {one: f"kafka-{one}:9093" for one in (1, 2, 3)} if known else {}
    row = replace(scenario(), topic=TopicSpec(partitions=3, replication_factor=3))
    told = attached.cannot(FaultScenario.of(row, Fault(kind="rolling-restart")))
    assert told == (
        None if run else "it restarts every broker that holds its topic, and [faults] brokers does not list them all"
    )
    assert attached.cannot(FaultScenario.of(row, Fault(kind="kill-leader"))) is None


def test_a_run_that_lasts_longer_than_the_file_allows_is_stopped(
    tmp_path: Path, cluster: Callable[..., ExternalCluster]
) -> None:
    made = cluster()
    made.check()
    made._ends_at = time.monotonic() - 1
    for away in (False, True):
        made.faults._away = {1: "start"} if away else {}
        with pytest.raises(TargetError, match=r"\[limits\] minutes allows"):
            made.check()
    attached = target(tmp_path, [])
    attached._ends_at = time.monotonic() - 1
    with pytest.raises(TargetError, match=r"\[limits\] minutes allows"):
        attached.cluster(ClusterSpec())


@given(st.lists(st.lists(st.floats(0, 1e9), min_size=1, max_size=5), max_size=6), st.floats(1e8, 5e9))
def test_what_a_run_has_written_is_metered_over_all_its_loads(loads: list[list[float]], most: float) -> None:
    meter, written = Meter(most), 0.0
    for load in loads:
        meter.begin()
        for told in load:
            so_far = written + max(load[: load.index(told) + 1])
            if so_far > most:
                with pytest.raises(TargetError, match=r"\[limits\] bytes allows"):
                    meter.under_way(told)
                return
            meter.under_way(told)
        written += max(load)
    meter.begin()
    assert meter.written == pytest.approx(written)


def test_a_load_is_stopped_by_its_limits_whatever_is_shown() -> None:
    one = LoadWatch(Mock(meter=Meter(1e6), most_failed=0.1), Mock(), Mock())
    row, backlog = scenario(), replace(scenario(), load=Load(kind="backlog", records=10))
    one.hold_limits(row, Progress(at=0, attempted=100, done=90, failed=10))
    with pytest.raises(TargetError, match=r"11 of 100 sends failed"):
        one.hold_limits(row, Progress(at=0, attempted=100, done=80, failed=11))
    one.hold_limits(backlog, Progress(at=0, attempted=1000, done=1000, failed=0))
    with pytest.raises(TargetError, match=r"\[limits\] bytes allows"):
        one.hold_limits(row, Progress(at=0, attempted=1000, done=1000, failed=0))


def test_loads_beside_one_another_are_metered_each_by_its_own_bytes() -> None:
    meter = Meter(1e9)
    one = LoadWatch(Mock(meter=meter, most_failed=0.1), Mock(), Mock())
    noisy = Part(
        name="noisy",
        topic=TopicSpec(partitions=1, replication_factor=3),
        producer=(),
        record_bytes=85,
        load=Load(kind="capped", rate=1.0),
    )
    row = replace(scenario(), beside=(noisy,))
    done = {"producer-1": 10, "noisy-producer-1": 4, "noisy-producer-2": 6, "noisy-consumer-1": 99}
    one.hold_limits(row, Progress(at=0, attempted=10, done=10, failed=0, by_process=done))
    meter.begin()
    assert meter.written == 10 * scenario().logged_bytes + 10 * 100 * 3
    sides = (
        load_result(sent=sent(attempted=10, acked=10)),
        load_result(sent=sent(attempted=40, acked=30, failed={"x": 5})),
    )
    one.hold_outcome(row, replace(sides[0], beside=(sides[1],)))
    meter.begin()
    assert meter.written == 2 * 10 * scenario().logged_bytes + (10 + 30) * 100 * 3
    with pytest.raises(TargetError, match=r"6 of 50 sends failed"):
        one.hold_limits(row, Progress(at=0, attempted=10, done=10, failed=0, attempted_beside=40, failed_beside=6))
    with pytest.raises(TargetError, match=r"6 of 50 sends failed: x"):
        one.hold_outcome(
            row, replace(sides[0], beside=(load_result(sent=sent(attempted=40, acked=30, failed={"x": 6})),))
        )


def test_two_sides_that_take_turns_are_metered_each_by_its_own_bytes() -> None:
    """Both were counted as the first: a candidate with three replicas wrote twice what was counted."""
    meter = Meter(1e9)
    one = LoadWatch(Mock(meter=meter, most_failed=0.1), Mock(), Mock())
    row = scenario()
    sides = {"A": row, "B": replace(row, topic=replace(row.topic, replication_factor=3))}
    done = {"A-producer-1": 100, "B-producer-1": 100, "B-producer-2": 10}
    one.hold_limits(row, Progress(at=0, attempted=210, done=210, failed=0, by_process=done), sides)
    meter.begin()
    assert meter.written == row.logged_bytes * (100 + 3 * 110)


@pytest.mark.parametrize(
    ("name", "never"),
    [
        ("log.retention.ms", True),
        ("log.local.retention.bytes", True),
        ("log.cleanup.policy", True),
        ("unclean.leader.election.enable", True),
        ("max.connections.per.ip", True),
        ("max.connection.creation.rate", True),
        ("min.insync.replicas", True),
        ("message.max.bytes", True),
        ("log.message.timestamp.type", True),
        ("log.message.timestamp.before.max.ms", True),
        ("log.message.downconversion.enable", True),
        ("log.cleaner.max.compaction.lag.ms", True),
        ("compression.type", True),
        ("producer.id.expiration.ms", True),
        ("transaction.partition.verification.enable", True),
        ("cordoned.log.dirs", True),
        ("follower.replication.throttled.rate", True),
        ("principal.builder.class", True),
        ("listener.security.protocol.map", True),
        ("listener.name.external.max.connections", True),
        ("num.io.threads", False),
        ("log.flush.interval.messages", False),
        ("log.segment.bytes", True),
        ("log.cleaner.backoff.ms", False),
        ("replica.fetch.max.bytes", True),
    ],
)
def test_what_putting_back_does_not_undo_is_never_changed_on_real_brokers(
    tmp_path: Path, name: str, never: bool
) -> None:
    """With both permissions an hour of log.retention.ms deleted other people's records, and was put back well.

    So min.insync.replicas of three had every acks=all producer fail while one broker lagged.
    """
    (tmp_path / "t.toml").write_text(FILE)
    described = load_target(tmp_path / "t.toml", lambda stores: {})
    row = replace(scenario(), cluster=ClusterSpec(config=settings({name: "1000" if name.startswith("log.") else "8"})))
    reason = lacks_permission(row, described, broker_config_allowed=True)
    assert (reason is not None) == never
    if reason:
        assert reason.startswith(f"{name} is never changed on real brokers")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("segment.ms", "1", "begin file after file (segment.ms = 1)"),
        ("segment.bytes", "14", "begin file after file (segment.bytes = 14)"),
        ("segment.ms", "1000", ""),
        ("segment.bytes", "1048576", ""),
        ("segment.bytes", "1 MiB", ""),  # the brokers refuse it
        ("flush.messages", "1", "written through again and again (flush.messages = 1)"),
        ("flush.messages", "many", ""),
    ],
)
def test_what_wears_out_real_brokers_needs_permission(tmp_path: Path, name: str, value: str, words: str) -> None:
    """A file for every batch uses up a broker's open files and memory maps, and those are everybody's."""
    (tmp_path / "t.toml").write_text(FILE)
    described = load_target(tmp_path / "t.toml", lambda stores: {})
    row = replace(scenario(), topic=replace(scenario().topic, config=settings({name: value})))
    reason = lacks_permission(row, described, broker_config_allowed=False) or ""
    assert words in reason
    assert bool(reason) == bool(words)
    assert lacks_permission(row, described, broker_config_allowed=True) is None
