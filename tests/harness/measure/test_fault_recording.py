"""Recording of a round with a fault: the controllers' log, CPU counters, newcomers and the watch."""

import subprocess
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.faults.scale_out import with_newcomer
from perfgate.host.session import run_in_session
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.history import cores
from perfgate.metrics.process import process_sampler
from perfgate.metrics.usage import WATCH_EVERY_S, UsageWatch
from perfgate.model import TopicSpec
from perfgate.model.errors import TargetError
from perfgate.model.faults import Scene
from perfgate.model.load import LoadError
from perfgate.systems.kafka.client.topics import assignment
from perfgate.systems.kafka.managed.faults import KafkaTools
from perfgate.systems.kafka.observe import changes
from tests.harness.build.faults import OUTAGE, faulty, history, round_that_left

FAULTY = faulty()
LOG = """\
Dumping /data/__cluster_metadata-0/00000000000000000000.log
baseOffset: 0 lastOffset: 0 count: 1 partitionLeaderEpoch: 1 isControl: true CreateTime: 1000000 size: 106
| offset: 0 CreateTime: 1000000 keySize: 4 valueSize: 34 sequence: -1 headerKeys: [] LeaderChange: {"version":0,"leaderId":102,"voters":[{"voterId":101}]}
| offset: 4 CreateTime: 1001000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"ours","topicId":"A"}}
| offset: 5 CreateTime: 1001000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0,"topicId":"A","isr":[1,2],"leader":1}}
| offset: 6 CreateTime: 1001000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0,"topicId":"B","isr":[1,2],"leader":1}}
| offset: 7 CreateTime: 1023500 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":2,"data":{"brokerId":1,"brokerEpoch":7,"fenced":1}}
| offset: 8 CreateTime: 1023500 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"A","isr":[2],"leader":2}}
| offset: 9 CreateTime: 1023600 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"B","isr":[2],"leader":2}}
| offset: 10 CreateTime: 1024000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"A","isr":[2]}}
| offset: 11 CreateTime: 1024000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"NO_OP_RECORD","version":0,"data":{}}
| offset: 12 CreateTime: 1035000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":2,"data":{"brokerId":1,"brokerEpoch":7,"fenced":-1}}
| offset: 13 CreateTime: 1040000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"A","leader":1,"leaderRecoveryState":1}}
"""  # noqa: E501 - as the dump tool prints it; shortened


def test_the_controllers_log_tells_the_steps_of_an_outage() -> None:
    found = changes(LOG, "ours", -900.0)
    assert [(change.at, change.what, change.number, change.leader) for change in found] == [
        (100.0, "controller", 102, -1),
        (101.0, "leader", 0, 1),
        (123.5, "fenced", 1, -1),
        (123.5, "leader", 0, 2),
        (135.0, "back", 1, -1),
        (140.0, "leader", 0, 1),
    ]
    failover, metrics, _ = analyse(replace(history(), changes=found))
    assert failover.split == pytest.approx({"fenced_s": 3.5, "elected_s": 3.5, "first_ack_s": OUTAGE}, abs=0.02)
    assert "log" in failover.split_source
    assert (metrics["unclean_elections"], metrics["controller_changes"]) == (1, 0)


@pytest.mark.parametrize(
    ("error", "in_fault"), [(LoadError("a full disk"), False), (LoadError("killed"), True), (TargetError("gone"), True)]
)
def test_a_round_that_failed_leaves_no_journals(
    error: Exception, in_fault: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for every record and outcome, hundreds of MB, which nothing reads again: each red night left its own."""

    def script(_scene: Scene) -> None:
        (tmp_path / f"{FAULTY.name}-1" / "producer-0.sends").write_bytes(bytes(24))
        if in_fault:
            raise error

    with pytest.raises(TargetError) if in_fault else nullcontext():
        found = round_that_left(history(), tmp_path, monkeypatch, row=FAULTY, read=error, script=script)
        assert [flaw.text for flaw in found.flaws] == ["a full disk"]
    assert [*tmp_path.iterdir()] == []


def test_a_broker_that_starts_again_counts_its_cpu_from_the_start() -> None:
    looks = [(0.0, {"1": 10.0, "2": 5.0}), (1.0, {"1": 11.0}), (2.0, {"1": 12.0, "2": 0.5}), (3.0, {"2": 1.5})]
    assert cores(looks, 0.0, 1.0) == pytest.approx(1.0)
    assert cores(looks, 0.0, 2.0) == pytest.approx((1.0 + 1.0 + 0.5) / 2)
    assert cores(looks, 2.0, 3.0) == pytest.approx(1.0)
    assert cores(looks, 2.5, 3.0) is None


def test_a_broker_whose_counter_is_not_read_once_uses_what_it_did_meanwhile() -> None:
    """It used all of its life's CPU within half a second: 11.7 cores in place of 1.5."""
    looks = [(at / 2, {"1": 300 + at / 4, "2": 300 + at / 4}) for at in range(61)]
    for unread in (0, 20, 60):
        seen = [(at, {"1": used["1"]} if at == unread / 2 else used) for at, used in looks]
        assert cores(seen, 0.0, 30.0) == pytest.approx(1.0, abs=0.02)
        assert cores(seen, 10.0, 20.0) == pytest.approx(1.0, abs=0.03)


@given(partitions=st.integers(1, 30), brokers=st.integers(1, 6), data=st.data())
def test_a_newcomer_takes_its_share_and_no_more(partitions: int, brokers: int, data: st.DataObject) -> None:
    replicas = assignment(
        TopicSpec(partitions=partitions, replication_factor=data.draw(st.integers(1, brokers)), on_brokers=brokers)
    )
    before = tuple(map(tuple, replicas))
    after = with_newcomer(before, brokers + 1)
    held = sum(brokers + 1 in ids for ids in after)
    present = {broker for ids in before for broker in ids}
    assert held == min(sum(map(len, before)) // (len(present) + 1), partitions)
    for old, new in zip(before, after, strict=True):
        assert len(set(new)) == len(old)
        assert len(set(new) - set(old)) <= 1


def test_a_broker_that_is_gone_is_told_at_an_edge_and_left_out_by_the_watch() -> None:
    with subprocess.Popen(["sleep", "60"]) as broker, subprocess.Popen(["sleep", "60"]) as other:
        sampler = process_sampler(lambda: {1: broker.pid, 2: other.pid})
        try:
            sampler.edge()
            with UsageWatch(sampler.read) as watch:
                time.sleep(2 * WATCH_EVERY_S)
                broker.kill()
                broker.wait()
                time.sleep(3 * WATCH_EVERY_S)
            assert (set(watch.cpu[0][1]), set(watch.cpu[-1][1])) == ({"1", "2"}, {"2"})
            with pytest.raises(TargetError, match="broker 1 was gone when its CPU was read"):
                sampler.edge()
        finally:
            broker.kill()
            other.kill()


def test_a_tool_that_takes_too_long_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_in_session(["/bin/bash", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"], 0.5)
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30  # killed processes of a busy machine take a moment to be gone
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


class OldKafka(KafkaTools):
    """A Kafka whose tools bear their old names, and print what they were given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        java = folder / "java"
        java.write_text('#!/bin/bash\n[[ "$*" == *" kafka.tools.DumpLogSegments "* ]] && echo "${@: -1}"\n')
        java.chmod(0o755)

    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        given = {"java": str(self._folder / "java"), "classpath": "", "metadata": str(self._folder), **variables}
        code, output = run_in_session(["/bin/bash", "-c", script], 10, given)
        return output if code == 0 else f"ended with {code}"


def test_every_segment_is_dumped_by_whichever_tool_there_is(tmp_path: Path) -> None:
    for name in ("1.log", "2.log", "2.index"):
        (tmp_path / name).touch()
    assert OldKafka(tmp_path).metadata_log() == "1.log,2.log\n"


def test_an_empty_dump_is_not_a_log_in_which_nothing_happened(tmp_path: Path) -> None:
    tools = OldKafka(tmp_path)
    (tmp_path / "1.log").touch()
    assert tools.changes("t") == []
    (tmp_path / "java").write_text("#!/bin/bash\nexit 0\n")
    assert tools.changes("t") is None, "unclean elections would be none, as if looked for"


def test_a_tool_that_is_not_there_fails(tmp_path: Path) -> None:
    tools = OldKafka(tmp_path)
    (tmp_path / "java").write_text("#!/bin/bash\nexit 1\n")
    assert tools.metadata_log() == "ended with 1"
