"""A cold read whose records stay in memory measures nothing, and one that never ends is red."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from perfgate.faults.cold_read import MOST_LEFT
from perfgate.judge.faults.expectation import expected_outage, expected_receiving
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.faults.analysis import analyse
from perfgate.model import (
    FAULTS,
    ClusterSpec,
    Consumers,
    Fault,
    FaultScenario,
    Load,
    Measurement,
    Scenario,
    TopicSpec,
    Verdict,
    settings,
)
from perfgate.model.errors import TargetError
from perfgate.model.faults import READ_AGAIN, Scene
from perfgate.report.terminal_tables import kind_notes
from perfgate.systems.attached.command_faults import lacking
from perfgate.systems.kafka.managed import tiered
from perfgate.systems.kafka.managed.containers import ContainersTarget
from tests.harness.build import scenario
from tests.harness.build.clock import Clock
from tests.harness.build.faults import FAULT, RATE, faulty, one_fault
from tests.harness.measure.test_unread import AWAY, away

READ = replace(faulty(), consumers=Consumers(membership="assigned"), load=Load(kind="paced", rate=RATE))
COLD = FaultScenario.of(READ, Fault(kind="cold-read", hold_s=0.0))


def scene(left: float) -> Scene:
    load = Mock(unread=lambda: 0)
    return Scene(COLD, Mock(drop_cache=lambda: left), load, Mock())


def test_what_is_read_was_dropped_before() -> None:
    done = scene(0.02)
    COLD.fault.about.act(done)
    words = [words for _, words in done.marks]
    assert words == ["consumers stop reading", "dropped from the page cache, 2.0% left", READ_AGAIN]


@pytest.mark.parametrize(("left", "cold"), [(MOST_LEFT, True), (MOST_LEFT + 0.01, False), (1.0, False)])
def test_a_read_from_memory_is_no_cold_one(left: float, cold: bool) -> None:
    done = scene(left)
    if cold:
        COLD.fault.about.act(done)
        return
    with pytest.raises(TargetError, match="of the brokers' logs stay in the page cache: what is read is not cold"):
        COLD.fault.about.act(done)
    assert READ_AGAIN not in [words for _, words in done.marks]


@pytest.mark.parametrize(("read_per_s", "verdict"), [(1_000.0, Verdict.PASS), (RATE / 2, Verdict.REGRESSED)])
def test_one_that_never_ends_is_red(read_per_s: float, verdict: Verdict) -> None:
    written = away(read_per_s=read_per_s)
    stop, again = written.marks
    written = replace(written, marks=[stop, (FAULT + AWAY - 0.1, "dropped from the page cache, 0.0% left"), again])
    assert analyse(written)[1]["unread_records"] > 0
    row = replace(COLD, fault=replace(COLD.fault, hold_s=AWAY))
    found = Measurement(scenario=row, rounds=(one_fault(written),), rtt_ms={})
    assert judge_scenario(found, None).verdict is verdict
    (note,) = kind_notes({"read-cold": found})
    assert note.startswith("note: read-cold: from disk: ")


def test_how_long_they_stay_away_has_room_for_what_is_done_meanwhile() -> None:
    """A minute of 3,000 records/s was written out in 5.5 s, and the wait for that was red."""
    row = replace(COLD, fault=replace(COLD.fault, hold_s=20.0))
    writes_s = row.offered_bytes_per_s * 20.0 / 20e6
    assert expected_receiving(row, expected_outage(row)).high_s == pytest.approx(20 + 5 + writes_s + 5)
    tiers = replace(TIERED, fault=replace(TIERED.fault, hold_s=20.0))
    assert expected_receiving(tiers, expected_outage(tiers)).high_s == 20 + 30 + 5


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (COLD, ""),
        (scenario(), ""),
        (replace(COLD, consumers=None), "cold-read is about what consumers read: there are none"),
        (replace(COLD, cluster=ClusterSpec(system="pulsar")), "Pulsar's bookies keep entries in caches of their own"),
        (replace(COLD, fault=Fault(kind="tiered-read")), "needs a topic whose segments move to the remote tier"),
    ],
)
def test_it_is_refused_where_it_means_nothing(row: Scenario, words: str) -> None:
    found = row.unfit_for_fault
    assert words in found
    assert bool(found) is bool(words)


TIERED = replace(
    COLD,
    fault=Fault(kind="tiered-read", hold_s=0.0),
    topic=TopicSpec(partitions=2, replication_factor=3, config=settings({"remote.storage.enable": "true"})),
)


def test_records_that_brokers_still_have_are_no_read_of_the_remote_tier(clock: Clock) -> None:
    shares = iter([float("inf"), 3.0, 0.2])
    faults = Mock(local_share=lambda topic, replicas: next(shares))
    done = Scene(TIERED, faults, Mock(unread=lambda: 0), Mock(topic="t"))
    TIERED.fault.about.act(done)
    assert [words for _, words in done.marks] == [
        "consumers stop reading",
        "20.0% of it still on the brokers",
        READ_AGAIN,
    ]
    never = Scene(
        TIERED, Mock(local_share=lambda *_: 3.0), Mock(unread=lambda: 0, follow_until=clock.until), Mock(topic="t")
    )
    with pytest.raises(TargetError, match="the brokers keep 3 times of what is in the remote tier"):
        TIERED.fault.about.act(never)
    assert READ_AGAIN not in [words for _, words in never.marks]


def test_the_remote_tier_is_kafkas_own_where_none_is_stated(tmp_path: Path) -> None:
    spec = ClusterSpec(brokers=2, config=settings({"remote.log.storage.system.enable": "true"}))
    assert tiered.is_tiered(spec)
    assert not tiered.is_tiered(ClusterSpec())
    stated = settings({**dict(spec.config), "remote.log.storage.manager.class.name": "org.example.S3"})
    assert not tiered.is_tiered(replace(spec, config=stated))
    found = tiered.tiered_settings(spec, tmp_path, Path("/jars/storage.jar"))
    assert found["remote.log.storage.manager.class.path"] == "/jars/storage.jar"
    assert found["rsm.config.dir"] == str(tmp_path / "remote-tier")
    assert found["rlmm.config.remote.log.metadata.topic.replication.factor"] == "2"


def test_what_is_local_is_one_replica_of_the_topic_over_what_has_moved(tmp_path: Path) -> None:
    logs = [tmp_path / f"broker-{n}" for n in (1, 2)]
    tier = tmp_path / "remote-tier"
    for path, size in (
        (logs[0] / "t-0" / "0.log", 100),
        (logs[1] / "t-0" / "0.log", 100),
        (logs[1] / "other-0" / "0.log", 900),
        (logs[1] / "t-0" / "0.index", 900),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    assert tiered.local_share("t", 2, logs, tier) == float("inf")
    for name in ("t-0", "other-0"):
        (tier / name).mkdir(parents=True)
        (tier / name / "0-uuid.log").write_bytes(bytes(400))
    assert tiered.local_share("t", 2, logs, tier) == 0.25


def test_a_file_that_brokers_delete_while_it_is_counted_counts_nothing(tmp_path: Path) -> None:
    """The whole run ended with a traceback: they delete local segments just then."""
    tier = tmp_path / "remote-tier"
    for folder, size in ((tmp_path / "logs" / "t-0", 100), (tier / "t-0", 400)):
        folder.mkdir(parents=True)
        (folder / "0.log").write_bytes(bytes(size))
        (folder / "1.log").symlink_to(tmp_path / "gone")  # listed, and not there any more
    assert tiered.local_share("t", 1, [tmp_path / "logs"], tier) == 0.25


def test_brokers_whose_files_are_out_of_reach_are_not_asked(tmp_path: Path) -> None:
    target = ContainersTarget(log_folder=tmp_path, toxiproxy_image=None, say=print, note=print)
    assert "cold reads need --target embedded" in (target.cannot(COLD) or "")
    assert target.cannot(replace(COLD, fault=Fault(kind="consumers-away"))) is None
    tiers = ClusterSpec(config=settings({"remote.log.storage.system.enable": "true"}))
    assert "tiered storage needs --target embedded" in (target.cannot(replace(scenario(), cluster=tiers)) or "")
    assert FAULTS["cold-read"].commands is None
    assert "cannot be brought about on real brokers" in (lacking("cold-read", {}, {}) or "")
