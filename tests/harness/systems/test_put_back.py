"""Putting back what a run has changed on real brokers: every step, in spite of failures, before it is reported."""

import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from fixtures import wiring
from fixtures.book import Book
from fixtures.live import put_back
from perfgate.host.journal import claimed
from perfgate.host.session import run_in_session
from perfgate.measure.bench import Bench
from perfgate.measure.load_watch import LoadWatch
from perfgate.measure.plan import at_most
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.model import ClusterSpec, Consumers, Fault, FaultScenario, Load, Tier, TopicSpec, settings
from perfgate.model.declared import LINKS, Keys
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError, TopicRefusedError
from perfgate.model.load import Progress
from perfgate.model.target import Meter
from perfgate.systems.kafka.attached import cluster as cluster_module
from perfgate.systems.kafka.attached import external as module
from perfgate.systems.kafka.attached import identity
from perfgate.systems.kafka.attached.cluster import BACK_S, HEALTH_AT_MOST_S, ExternalCluster
from perfgate.systems.kafka.attached.command_faults import run_command
from perfgate.systems.kafka.attached.described import CLIENT_ID, Limits, load_target
from perfgate.systems.kafka.attached.external import ExternalTarget
from perfgate.systems.kafka.attached.leftovers import Cleaner
from perfgate.systems.kafka.attached.limits import beyond, lacks_permission
from perfgate.systems.kafka.attached.manifest import Away, JournaledTopics, Manifest, Occupied, leftovers, occupy
from perfgate.systems.kafka.client import admin as admin_module
from perfgate.systems.kafka.client import live_settings as live_module
from perfgate.systems.kafka.client.admin import dynamic_value
from perfgate.systems.kafka.load import librdkafka
from tests.harness.build import scenario

FILE = 'bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
TOLD_OF_PARTITIONS = cluster_module.unwell  # tests put others in its place
BROKERS = {1: "kafka-1:9093", 2: "kafka-2:9093"}
KNOWN = {
    "num.io.threads": Mock(is_read_only=False, is_sensitive=False),
    "num.partitions": Mock(is_read_only=True, is_sensitive=False),
}
"""The settings that the brokers know."""


class Broker:
    """Stands in for the brokers' settings; some can be made to fail."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str | None] = {}
        self.fail: set[tuple[str, str]] = set()

    def get(self, _admin: object, broker: str, name: str) -> str | None:
        if (broker, name) in self.fail:
            raise TargetError(f"broker {broker} does not answer")
        return self.values.get((broker, name))

    def set(self, _admin: object, broker: str, name: str, value: str | None, _effective: str = "") -> None:
        if (broker, name) in self.fail:
            raise TargetError(f"broker {broker} does not answer")
        self.values[broker, name] = value


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(cluster_module, "set_broker", found.set)
    monkeypatch.setattr(admin_module, "set_broker", found.set)
    monkeypatch.setattr(admin_module, "dynamic_value", found.get)
    monkeypatch.setattr(cluster_module, "broker_config", lambda *_: {})
    monkeypatch.setattr(live_module, "broker_config", lambda *_: KNOWN)
    monkeypatch.setattr(cluster_module, "cluster_id_told", lambda _admin: "c")
    monkeypatch.setattr(cluster_module, "told_of", lambda _, *setting: (found.get(None, *setting), "8"))
    return found


@pytest.fixture
def cluster(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ExternalCluster]]:
    """Return a function that makes a cluster whose file has these fault commands, with settings applied."""
    monkeypatch.setattr(cluster_module, "unwell", lambda *_: "")
    monkeypatch.setattr("perfgate.systems.kafka.attached.command_faults.STAYS_S", 0.05)
    monkeypatch.setattr("perfgate.systems.kafka.attached.command_faults.LOOK_EVERY_S", 0.01)
    up = lambda address, _client: "c" * (tmp_path / f"up-{address.removeprefix('kafka-')[0]}").exists()  # noqa: E731
    monkeypatch.setattr(cluster_module, "cluster_id_at", up)
    manifests: list[Manifest] = []

    def make(faults: str = "", config: dict[str, object] | None = None) -> ExternalCluster:
        path = tmp_path / "target.toml"
        path.write_text(FILE + (f"[faults]\n{faults}\n" if faults else ""))
        described = load_target(path, lambda stores: {})
        spec = ClusterSpec(config=settings(config or {}))
        manifests.append(Manifest(tmp_path / "m", cluster_id="c", run_id="r"))
        made = ExternalCluster(spec, described, manifests[-1], brokers=BROKERS, facts={})
        made.apply_settings()
        return made

    yield make
    for manifest in manifests:
        manifest.close()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "m").glob("*.jsonl"))


def test_one_step_that_fails_keeps_no_other_from_being_tried(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    made = cluster(
        f"""kill = "true"\nstart = "echo {{broker}} >> {done}; """
        f"""test {{broker}} = 2 -o -e {tmp_path}/mended && touch {tmp_path}/up-{{broker}}"\ntwo-down = true""",
        {"num.io.threads": 16},
    )
    made.faults.do("kill", 1)
    made.faults.do("kill", 2)
    broker.fail.add(("2", "num.io.threads"))
    first, second = made.close()
    assert first.startswith("BROKER 1 (kafka-1:9093) IS STILL DOWN: [faults] start has to be run for it")
    assert second.startswith("broker 2 may still have num.io.threads = 16, it was not set")
    assert done.read_text().split() == ["1", "2"]
    assert broker.values["1", "num.io.threads"] is None, "what could be put back was"
    assert left_in(tmp_path) == ["r.jsonl"], "the next start has to see to it"
    (tmp_path / "mended").touch()
    broker.fail.clear()
    assert made.close() == []
    assert broker.values["2", "num.io.threads"] is None
    assert left_in(tmp_path) == []


def test_what_somebody_has_set_meanwhile_is_theirs_and_is_told(
    cluster: Callable[..., ExternalCluster], broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word nobody knew what it had been: of two runs that set it, one puts the other back."""
    broker.values = {("1", "num.io.threads"): "8"}
    made = cluster(config={"num.io.threads": 16})
    assert broker.values == {("1", "num.io.threads"): "16", ("2", "num.io.threads"): "16"}
    broker.values["2", "num.io.threads"] = "32"
    assert made.close() == []
    assert broker.values == {("1", "num.io.threads"): "8", ("2", "num.io.threads"): "32"}
    assert capsys.readouterr().out == (
        "left num.io.threads of broker 2 alone: somebody has set it to 32 since it was set to 16; before that it was "
        "not set\n"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("group.share.max.groups", "these brokers do not know group.share.max.groups"),
        ("num.partitions", "num.partitions: brokers take it at their start only"),
    ],
)
def test_what_could_not_be_put_back_is_not_set(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path, name: str, words: str
) -> None:
    """Kafka takes a setting that it does not know, and tells no value of it: no further start was possible."""
    with pytest.raises(ConfigurationError, match=words):
        cluster(config={"num.io.threads": 16, name: 7})
    assert broker.values == {}
    assert '"name"' not in (tmp_path / "m" / "r.jsonl").read_text(), "nothing to put back is noted"


@pytest.mark.parametrize(("value", "told"), [("32", "16"), ("0.50", "0.5"), ("delete, compact", "delete,compact")])
def test_what_stopped_on_its_way_or_is_written_otherwise_is_put_back(
    cluster: Callable[..., ExternalCluster], broker: Broker, capsys: pytest.CaptureFixture[str], value: str, told: str
) -> None:
    """It was taken for somebody else's, left behind, and its note removed; by the next start too."""
    made = cluster(config={"num.io.threads": value})
    broker.values = {("1", "num.io.threads"): told, ("2", "num.io.threads"): value}
    assert made.close() == []
    assert set(broker.values.values()) == {None}
    words = "num.io.threads of broker 1 was 16, a size on the way between not set and 32, and is overwritten"
    assert (words in capsys.readouterr().out) is (told == "16"), "it may have been a person's"


@pytest.mark.parametrize(("told", "left"), [("18", None), ("36", None), ("8", "8")])
def test_the_start_after_a_kill_knows_the_steps_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: Broker, told: str, left: str | None
) -> None:
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("1", "num.io.threads", None, "9", "36")
    killed.close()
    broker.values["1", "num.io.threads"] = told
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.topic_ids", lambda *_: {})
    assert Cleaner(Mock(), Mock()).put_back(Mock(), list(leftovers(tmp_path, "c"))) == []
    assert broker.values["1", "num.io.threads"] == left
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_a_killed_run_changed_twice_is_as_it_was_before_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: Broker
) -> None:
    """Put back in the order of the notes it stayed at 16: 32 was not the first change's, so that one was left alone."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("1", "num.io.threads", None, "9", "16")
    killed.changes("1", "num.io.threads", "16", "16", "32")
    killed.close()
    broker.values["1", "num.io.threads"] = "32"
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.topic_ids", lambda *_: {})
    assert Cleaner(Mock(), Mock()).put_back(Mock(), list(leftovers(tmp_path, "c"))) == []
    assert broker.values["1", "num.io.threads"] is None
    assert list(tmp_path.iterdir()) == []


def test_what_another_start_is_putting_back_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: Broker
) -> None:
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("1", "num.io.threads", None, "9", "16")
    killed.takes(1, "kafka-1:9093", "start")
    killed.close()
    broker.values["1", "num.io.threads"] = "16"
    brought_back = Mock(return_value="")
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.bring_back", brought_back)
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.topic_ids", lambda *_: {})
    found, cleaner = list(leftovers(tmp_path, "c")), Cleaner(Mock(), Mock())
    with claimed(tmp_path / "r.jsonl"):
        assert cleaner.put_back(Mock(), found) == cleaner.bring_brokers_back(found[0]) == []
        assert broker.values["1", "num.io.threads"] == "16"
        brought_back.assert_not_called()
    assert cleaner.put_back(Mock(), found) == []
    assert broker.values["1", "num.io.threads"] is None
    assert cleaner.put_back(Mock(), found) == [], "what was known of it before is no longer noted"
    brought_back.assert_called_once()


@pytest.mark.parametrize(
    ("there", "holds", "sees", "dropped"),
    [
        ({1, 2}, [1, 2], True, True),
        ({1, 2}, [1, 2, 7], True, False),  # it is only down
        ({1, 2, 7}, [1, 2], True, False),
        ({1, 2}, [1, 2], False, False),
        ({1, 2}, [], True, False),
    ],
)
def test_a_setting_of_a_broker_that_is_no_more_keeps_no_run_from_starting(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    broker: Broker,
    there: set[int],
    holds: list[int],
    sees: bool,
    dropped: bool,
) -> None:
    """Every further start on the cluster was refused, and nothing told how to go on."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("7", "num.io.threads", None, "8", "2")
    killed.close()
    broker.fail.add(("7", "num.io.threads"))
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.topic_ids", lambda *_: {})
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.sees_all_topics", lambda _admin: sees)
    topic = Mock(partitions={0: partition(1, holds, holds)})
    admin = Mock(list_topics=Mock(return_value=Mock(brokers=dict.fromkeys(there), topics={"t": topic})))
    notes: list[str] = []
    left = Cleaner(Mock(), notes.append).put_back(admin, list(leftovers(tmp_path, "c")))
    if dropped:
        assert left == []
        assert notes[0].startswith(
            "dropped num.io.threads of broker 7, changed by run r: the cluster has no such broker"
        )
        assert notes[0].endswith("should it come back, num.io.threads was not set before")
    else:
        assert left == [
            "run r: num.io.threads of broker 7: broker 7 does not answer; once it has been seen to by hand, take its "
            f"lines out of {tmp_path / 'r.jsonl'}"
        ]
        path = tmp_path / "r.jsonl"
        path.write_text("".join(line for line in path.read_text().splitlines(True) if '"7"' not in line))
        assert Cleaner(Mock(), notes.append).put_back(admin, list(leftovers(tmp_path, "c"))) == []
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_cannot_be_healed_is_told_with_what_a_person_can_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It had been healed by hand, the rule that its command takes away was gone, and no start was possible."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.takes(1, "kafka-1:9093", "heal")
    killed.close()
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.bring_back", lambda *_, **__: "Bad rule")
    cleaner = Cleaner(Mock(), Mock())
    told, _ = cleaner.put_back(Mock(), list(leftovers(tmp_path, "c")))
    assert told.endswith(f"Bad rule; once it has been seen to by hand, take its lines out of {tmp_path / 'r.jsonl'}")


def test_a_setting_that_did_not_go_back_is_told(
    monkeypatch: pytest.MonkeyPatch, cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path
) -> None:
    """The answer to the change was taken for the proof of it, and the note of the change removed."""
    made = cluster(config={"num.io.threads": 16})
    monkeypatch.setattr(admin_module, "TAKEN_WITHIN_S", 0.05)
    monkeypatch.setattr(admin_module, "set_broker", lambda *_: None)
    first, second = made.close()
    for left, number in ((first, 2), (second, 1)):
        assert left.startswith(
            f"broker {number} may still have num.io.threads = 16, it was not set: broker {number} di"
        )
        assert left.endswith("did not put num.io.threads back within 0.05 s: it still has num.io.threads = 16")
    monkeypatch.setattr(admin_module, "set_broker", broker.set)
    assert made.close() == []
    assert left_in(tmp_path) == []


def target(tmp_path: Path, notes: list[str]) -> ExternalTarget:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    described = load_target(path, lambda stores: {})
    return ExternalTarget(described, run_id="r", manifests=tmp_path / "m", note=notes.append)


def test_brokers_of_which_some_took_the_settings_are_not_measured(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three failed to; the next scenario of these settings found them "as set"."""
    attached, spec, tries = target(tmp_path, []), ClusterSpec(config=settings({"num.io.threads": 16})), list[int]()
    attached._brokers, attached._cluster_id = BROKERS, "c"

    def apply(_self: object) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise TargetError("broker 2 does not answer")

    monkeypatch.setattr(ExternalCluster, "apply_settings", apply)
    with pytest.raises(TargetError, match="broker 2 does not answer"):
        attached.cluster(spec)
    attached.cluster(spec)
    assert len(tries) == 2
    attached.close()


def test_while_something_is_away_nothing_more_is_done_to_the_brokers(
    tmp_path: Path, cluster: Callable[..., ExternalCluster]
) -> None:
    notes: list[str] = []
    attached = target(tmp_path, notes)
    down = cluster(f'kill = "true"\nstart = "test -e {tmp_path}/mended && touch {tmp_path}/up-{{broker}}"')
    down.faults.do("kill", 2)
    attached._alive = down
    attached.close()
    assert len(attached.left_behind) == 1
    assert "BROKER 2 (kafka-2:9093) IS STILL DOWN" in attached.left_behind[0]
    assert "tried again later" in notes[0]
    with pytest.raises(TargetError, match="nothing more is done to these brokers: BROKER 2"):
        attached.cluster(ClusterSpec())
    (tmp_path / "mended").touch()
    attached.close()
    assert not attached.left_behind
    assert left_in(tmp_path) == []


def test_a_second_cluster_of_a_run_does_not_hide_what_the_first_left(tmp_path: Path) -> None:
    first = Manifest(tmp_path, cluster_id="c", run_id="r")
    first.takes(1, "kafka-1:9093", "start")
    first.close()
    second = Manifest(tmp_path, cluster_id="c", run_id="r")
    second.plans("kpg-x")
    second.gone("kpg-x")
    second.close()
    (left,) = leftovers(tmp_path, "c")
    assert left.away == {1: Away("kafka-1:9093", "start")}


def test_a_file_with_two_headers_is_read_whole(tmp_path: Path) -> None:
    header = {"run": "r", "cluster": "c", "host": "gone"}
    lines = [header, {"away": "1", "address": "kafka-1:9093", "back": "start"}, header, {"topic": "kpg-x", "id": "i"}]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (left,) = leftovers(tmp_path, "c")
    assert (left.away, left.topics) == ({1: Away("kafka-1:9093", "start")}, {"kpg-x": "i"})


def test_a_run_is_known_to_live_by_a_lock_of_the_kernel(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from perfgate.systems.kafka.attached.manifest import *\n"
        "m = Manifest(Path(sys.argv[1]), cluster_id='c', run_id='r'); m.plans('kpg-x')\n"
        "lock = occupy(Path(sys.argv[1]), 'd'); print('there', flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        assert list(leftovers(tmp_path, "c")) == []
        with pytest.raises(Occupied):
            occupy(tmp_path, "d")
    finally:
        other.kill()
        other.communicate()
    (left,) = leftovers(tmp_path, "c")
    assert left.topics == {"kpg-x": ""}
    occupy(tmp_path, "d").close()
    assert tmp_path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("insists", "may_change", "words"),
    [
        (False, True, "both would measure each other"),
        (True, False, ""),
        (True, True, "leave --allow-broker-config out"),
    ],
)
def test_a_run_beside_another_one_changes_no_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, insists: bool, may_change: bool, words: str
) -> None:
    """Both had set num.io.threads: each left it to the other in the end, and the first one's value stayed for good."""
    (tmp_path / "t.toml").write_text(f"{FILE}[broker-config]\nallowed = true\n")
    described = load_target(tmp_path / "t.toml", lambda stores: {})
    beside = ExternalTarget(
        described,
        run_id="r",
        manifests=tmp_path / "m",
        note=print,
        parallel_is_fine=insists,
        broker_config_allowed=may_change,
    )
    monkeypatch.setattr(module, "refuse_other_clusters", lambda *_: None)
    beside._cluster_id = "c"
    with occupy(tmp_path / "m", "c"), pytest.raises(ConfigurationError, match=words) if words else nullcontext():
        beside._enter()
    beside._enter()  # the other one has ended
    assert beside._occupied is not None
    beside._occupied.close()


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is a link or another user's"):
        Manifest(tmp_path / "link", cluster_id="c", run_id="r")
    (tmp_path / "m").mkdir()
    (tmp_path / "elsewhere" / "x.jsonl").write_text('{"run": "x", "cluster": "c", "host": "o"}')
    (tmp_path / "m" / "x.jsonl").symlink_to(tmp_path / "elsewhere" / "x.jsonl")
    assert list(leftovers(tmp_path / "m", "c")) == []


def test_a_sensitive_setting_is_not_changed_for_nobody_could_put_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.admin import ConfigSource

    entry = Mock(value=None, is_sensitive=True, source=ConfigSource.DEFAULT_CONFIG.value)
    monkeypatch.setattr(
        "perfgate.systems.kafka.client.admin.broker_config", lambda _admin, _broker: {"ssl.keystore.password": entry}
    )
    with pytest.raises(ConfigurationError, match="a run could not put it back"):
        dynamic_value(Mock(), "1", "ssl.keystore.password")


class Cluster:
    """Stands in for what topics need of a cluster."""

    def bootstrap(self, _link: object) -> str:
        return "127.0.0.1:1"

    def client_settings(self) -> tuple[tuple[str, str], ...]:
        return ()

    def check(self) -> None:
        pass


@pytest.mark.parametrize(
    ("error", "may_be_there"),
    [
        (KafkaException(KafkaError(KafkaError.POLICY_VIOLATION)), False),
        (KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)), False),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), True),
        (KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)), True),
        (TimeoutError(), True),
    ],
)
def test_a_topic_of_which_nobody_knows_whether_it_was_made_is_deleted_in_the_end(
    tmp_path: Path, error: Exception, may_be_there: bool
) -> None:
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    topics = JournaledTopics(Cluster(), manifest)  # type: ignore[arg-type]
    reply = Mock(result=Mock(side_effect=error))
    deleted: list[str] = []

    def delete_topics(names: list[str], **_: object) -> dict[str, Any]:
        deleted.extend(names)
        return {
            name: Mock(result=Mock(side_effect=KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))))
            for name in names
        }

    topics._admin = Mock(
        create_topics=Mock(return_value={"kpg-x": reply}),
        delete_topics=delete_topics,
        list_consumer_groups=Mock(return_value=Mock(result=Mock(return_value=Mock(valid=[])))),
    )
    with pytest.raises(BrokersFailedError if may_be_there else TopicRefusedError):
        topics.create("kpg-x", TopicSpec(partitions=1, replication_factor=1))
    assert topics.delete_all() == [], "a topic that is not there is deleted"
    assert deleted == (["kpg-x"] if may_be_there else [])
    manifest.close()
    assert list(tmp_path.iterdir()) == []


def full(manifest: Manifest) -> None:
    """Let the disk under the manifest be full from now on."""
    manifest.journal.file.close()
    manifest.journal.file = Path("/dev/full").open("w")  # noqa: SIM115


def test_what_cannot_be_noted_is_not_done(tmp_path: Path, cluster: Callable[..., ExternalCluster]) -> None:
    """A full disk was a traceback for each scenario, and red of brokers that were well."""
    made, ran = cluster(f'kill = "touch {tmp_path}/ran"\nstart = "true"'), tmp_path / "ran"
    topics = made.topics()
    topics._admin = Mock()
    full(made._manifest)
    does: Callable[[], object]
    for does in (
        lambda: topics.create("kpg-x", TopicSpec(partitions=1, replication_factor=1)),
        lambda: made._note("1", "num.io.threads", None, "8", "2"),
        lambda: made.faults.do("kill", 1),
    ):
        with pytest.raises(TargetError, match=r"r\.jsonl: No space left on device; .*: nothing more is done to them"):
            does()
    assert topics._admin.mock_calls == []
    assert not ran.exists()
    assert made.close() == []
    assert left_in(tmp_path) == [], "nothing was done that the next start would have to undo"


def test_a_full_disk_keeps_nothing_from_being_put_back(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfgate.systems.kafka.client.topics.Topics.delete", lambda *_: None)
    made = cluster(f'kill = "true"\nstart = "touch {tmp_path}/up-{{broker}}"', {"num.io.threads": 16})
    made.faults.do("kill", 1)
    made.topics()._manifest.plans("kpg-x")
    made.topics()._made.add("kpg-x")
    full(made._manifest)
    assert made.close() == []
    assert (tmp_path / "up-1").exists()
    assert set(broker.values.values()) == {None}
    assert not made.topics()._made
    assert left_in(tmp_path) == []


def test_replicas_stay_on_the_brokers_that_a_row_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TopicSpec] = []
    monkeypatch.setattr(
        "perfgate.systems.kafka.client.topics.Topics.create", lambda _self, _name, spec: asked.append(spec)
    )
    monkeypatch.setattr(
        "perfgate.systems.kafka.attached.manifest.topic_ids", lambda _admin, names: dict.fromkeys(names, "i")
    )
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    JournaledTopics(Cluster(), manifest).create(  # type: ignore[arg-type]
        "kpg-x", TopicSpec(partitions=2, replication_factor=2, on_brokers=2)
    )
    manifest.close()
    assert asked[0].on_brokers == 2


@pytest.mark.parametrize(
    "address",
    ["$(touch pwned):9092", "a;b:9092", "-oProxyCommand=x:9092", "kafka 1:9092", "kafka-1:92;x", ":9092", "`x`:1"],
)
def test_what_brokers_call_themselves_is_no_command(address: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no command is run"):
        run_command({"kill": f"cd {tmp_path}; echo {{host}} {{port}}"}, "kill", 1, address, 5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["kafka-1.example.com:9092", "10.0.0.1:9092", "fe80::1:9092", "kafka_1:9092"])
def test_names_and_addresses_are(address: str, tmp_path: Path) -> None:
    run_command({"kill": f"echo {{host}} > {tmp_path}/host"}, "kill", 1, address, 5)
    assert (tmp_path / "host").read_text() == f"{address.rpartition(':')[0]}\n"


def test_output_that_is_no_text_and_what_runs_on_behind_a_command_are_no_trouble(tmp_path: Path) -> None:
    assert run_in_session(["/bin/sh", "-c", r"printf '\377\376 words'"], 30) == (0, "\ufffd\ufffd words")
    began = time.monotonic()
    code, _ = run_in_session(["/bin/sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid"], 120)
    assert code == 0
    assert time.monotonic() - began < 60, "the command had ended: what it left running is not waited for"
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)


def test_a_command_goes_on_to_its_end_where_its_interruption_cannot_be_told(tmp_path: Path) -> None:
    """It was killed half-way: the terminal had been closed, and that one cannot write to it is an error."""

    def tell() -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    command = f"sleep 0.2; kill -INT $PPID; sleep 0.2; touch {tmp_path}/ended"
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_session(["/bin/sh", "-c", command], 30, interrupted=tell)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "ended").exists()


def test_a_full_disk_keeps_no_command_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker stayed down: the first line that its start printed found no room in /tmp, and ended it."""
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "wb", buffering=0))
    run_command({"start": f"set -e; echo starting; touch {tmp_path}/up"}, "start", 1, "kafka-1:9093", 30)
    assert (tmp_path / "up").exists()
    monkeypatch.undo()
    assert run_in_session(["echo", "starting"], 30) == (0, "starting\n"), "and none of the room that was kept for it"


def refused(tmp_path: Path, client: str) -> str:
    path = tmp_path / "target.toml"
    path.write_text(f"{FILE}[client]\n{client}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_target(path, lambda stores: {})
    return str(caught.value)


@pytest.mark.parametrize("name", ["acks", "group.id", "transactional.id", "debug", "linger.ms", "enable.idempotence"])
def test_the_client_table_says_how_to_connect_and_no_more(tmp_path: Path, name: str) -> None:
    message = refused(tmp_path, f'"{name}" = "1"')
    assert f"[client] {name}: only what a client needs to connect belongs here" in message
    assert f"--set producer.{name}=VALUE" in message


def test_clients_call_themselves_by_a_name_that_a_quota_can_be_put_on(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    assert dict(load_target(path, lambda stores: {}).client)["client.id"] == CLIENT_ID
    path.write_text(f'{FILE}[client]\n"client.id" = "mine"\n')
    assert dict(load_target(path, lambda stores: {}).client)["client.id"] == "mine"


def test_a_large_cluster_is_looked_at_every_quarter_of_a_minute(
    cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster()
    clock = iter([1000.0, 1010.0])
    monkeypatch.setattr(cluster_module, "time", Mock(monotonic=lambda: next(clock)))
    made.check()
    assert made._pause == HEALTH_AT_MOST_S


class Slow:
    """A target that takes a while to put things back, and does not manage at first."""

    own = False

    def __init__(self, works_at: int) -> None:
        self.left_behind: tuple[str, ...] = ()
        self.tries, self.works_at = 0, works_at

    def close(self) -> None:
        self.tries += 1
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        self.left_behind = () if self.tries >= self.works_at else ("BROKER 1 IS STILL DOWN",)


@pytest.mark.parametrize(("works_at", "left"), [(1, ()), (2, ()), (99, ("BROKER 1 IS STILL DOWN",))])
def test_signals_do_not_end_the_putting_back_and_it_is_tried_again(
    works_at: int, left: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fixtures.live.BETWEEN_S", 0.0)
    book, slow = Book(), Slow(works_at)
    gone = Mock(log=Mock(side_effect=OSError("the terminal is gone")))
    # A shell starts what it runs in the background deaf to SIGINT, and nohup to SIGHUP; so it would stay.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        put_back(slow, book, gone)  # type: ignore[arg-type]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert book.left_behind == left
    assert slow.tries == min(works_at, 3)
    assert "SIGINT: still cleaning up on the brokers" in capfd.readouterr().err
    book.put_back()
    assert slow.tries == min(works_at, 3), "once it is done it is done"


@pytest.mark.parametrize(
    ("stated", "ids", "words"),
    [
        ("", {"kafka-1:9093": "c", "kafka-2:9093": "c", "zone-b:9093": "c"}, ""),
        ("c", {"kafka-1:9093": "c", "kafka-2:9093": "", "zone-b:9093": "c"}, ""),
        ("d", {}, "cluster-id is d, and these brokers are of cluster c"),
        ("", {"kafka-1:9093": "c", "kafka-2:9093": "d", "zone-b:9093": "c"}, "kafka-2:9093 of cluster d"),
        ("", {"kafka-1:9093": "c", "kafka-2:9093": "c", "zone-b:9093": "d"}, "zone-b:9093 of cluster d"),
    ],
)
def test_all_servers_are_of_one_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str, ids: dict[str, str], words: str
) -> None:
    path = tmp_path / "target.toml"
    text = FILE.replace("kafka-1:9093", "kafka-1:9093,kafka-2:9093").replace(
        "[limits]", f'cluster-id = "{stated}"\n[limits]'
    )
    path.write_text(text + '[zones]\ncross-zone = "zone-b:9093"\n')
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    attached._cluster_id = "c"
    monkeypatch.setattr(identity, "cluster_id_at", lambda server, _client: ids.get(server, ""))
    if not words:
        identity.refuse_other_clusters(attached._described, "c")
        return
    with pytest.raises(ConfigurationError, match=words):
        identity.refuse_other_clusters(attached._described, "c")


def test_a_server_that_is_silent_at_the_start_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was one of every later client's: once it answered it could be another cluster's."""
    path = tmp_path / "target.toml"
    path.write_text(FILE.replace("kafka-1:9093", "kafka-1:9093,kafka-2:9093"))
    notes: list[str] = []
    attached = ExternalTarget(
        load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=notes.append
    )
    ids = {"kafka-1:9093": "c"}
    monkeypatch.setattr(identity, "cluster_id_at", lambda server, _client: ids.get(server, ""))
    monkeypatch.setattr(module, "unwell", lambda *_: "")
    monkeypatch.setattr(module, "sees_all_topics", lambda *_: True)
    monkeypatch.setattr(module, "check_permissions", lambda *_: None)
    monkeypatch.setattr(module, "settings_digest", lambda *_: "")
    monkeypatch.setattr(attached, "_enter", lambda: None)
    monkeypatch.setattr(attached, "_learn", lambda *_: None)
    attached._version, attached._brokers, attached._cluster_id = "4.3", BROKERS, "c"
    digest = attached.facts(ClusterSpec())["connection_digest"]
    attached._attach(Mock())
    assert notes == ["note: kafka-2:9093 does not tell that it is of cluster c: this run does without it"]
    made = attached.cluster(ClusterSpec())
    assert made.bootstrap(LINKS["same-zone"]) == "kafka-1:9093"
    assert made.facts()["connection_digest"] == digest, "an interrupted run can be resumed all the same"
    asked = Mock(source=PrometheusSource(url="http://p"), scrape_interval_s=lambda: 1.0)
    monkeypatch.setattr(wiring, "Prometheus", lambda _: asked)
    (usage,), *_ = wiring._prometheus_usage(
        [(replace(attached._described, prometheus={"url": "http://p"}), Mock())], Mock()
    )
    assert isinstance(usage(made), PrometheusSampler), "nobody told its brokers' CPU"
    attached.close()
    ids.clear()
    with pytest.raises(ConfigurationError, match="none of its servers tells that it is of cluster c"):
        identity.those_that_tell(attached._described, "c", notes.append)


@pytest.mark.parametrize("unwell", ["", "1 of 3 partitions are offline"])
def test_a_zone_that_does_not_answer_is_told_after_what_is_wrong_with_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwell: str
) -> None:
    """Its server may be one that a killed run had taken away: first that is put back, then health is looked at."""
    path = tmp_path / "target.toml"
    path.write_text(FILE + '[zones]\ncross-zone = "zone-b:9093"\n')
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    done: list[str] = []

    def noted(words: str, then: object) -> object:
        done.append(words)
        return then

    attached._cluster_id = "c"
    monkeypatch.setattr(attached, "_enter", lambda: None)
    monkeypatch.setattr(attached, "_learn", lambda *_: None)
    monkeypatch.setattr(identity, "cluster_id_at", lambda *_: noted("asked the zone", ""))
    monkeypatch.setattr(attached._cleaner, "put_back", lambda _admin, _found: noted("put back", []))
    monkeypatch.setattr(module, "unwell", lambda *_: noted("looked", unwell))
    attached._version, attached._brokers = "4.3", BROKERS
    words = "offline: load would make it worse" if unwell else "cross-zone: zone-b:9093 does not tell which cluster"
    with pytest.raises(ConfigurationError, match=words):
        attached._attach(Mock())
    assert done == ["put back", "looked", *([] if unwell else ["asked the zone"])]


def test_a_broker_that_was_brought_back_is_one_of_the_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list was of before: rows were not run, and CPU of a broker that was not on it was left out."""
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.01)
    path = tmp_path / "target.toml"
    path.write_text(f'{FILE}[faults]\nkill = "true"\nstart = "true"\n')
    noted = Manifest(tmp_path / "m", cluster_id="c", run_id="killed")
    noted.takes(2, BROKERS[2], "start")
    noted.close()
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    nodes = {id_: Mock(id=id_, host=f"kafka-{id_}", port=9093, rack=None) for id_ in (1, 2)}
    told = [[nodes[1]], [nodes[1]], [nodes[1], nodes[2]]]
    admin = Mock()
    admin.describe_cluster.side_effect = lambda **_: Mock(
        result=lambda timeout: Mock(cluster_id="c", nodes=told.pop(0))
    )
    monkeypatch.setattr(module, "reachable", lambda *_: (admin, []))
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.bring_back", lambda *_, **__: "")
    monkeypatch.setattr(attached, "_enter", lambda: None)
    monkeypatch.setattr(module, "version_of", lambda *_: "4.3.1")
    monkeypatch.setattr(module, "unwell", lambda *_: "seen no further")
    with pytest.raises(ConfigurationError, match="seen no further"):
        attached._attach(attached._reached())
    assert attached._brokers == BROKERS


def test_what_still_keeps_the_only_server_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "target.toml"
    path.write_text(f'{FILE}[faults]\nkill = "true"\nstart = "echo no key; false"\n')
    target = load_target(path, lambda stores: {})
    noted = Manifest(tmp_path / "m", cluster_id="c", run_id="killed", target=target.identity)
    noted.takes(1, "kafka-1:9093", "start")
    noted.close()
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.cluster_id_at", lambda *_: "")
    monkeypatch.setattr(module, "reachable", Mock(side_effect=ConfigurationError("nothing listens there")))
    attached = ExternalTarget(target, run_id="r", manifests=tmp_path / "m", note=print)
    with pytest.raises(ConfigurationError, match=r"(?s)BROKER 1 .* IS STILL DOWN.*no key.*nothing listens there"):
        attached.prepare([ClusterSpec()])
    assert len(attached.left_behind) == 1, "make clean-up ends with 7"


def test_the_only_server_of_a_file_is_brought_back_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = tmp_path / "up"
    path = tmp_path / "target.toml"
    path.write_text(f'{FILE}[faults]\nkill = "true"\nstart = "touch {up}"\n')
    target = load_target(path, lambda stores: {})
    for run_id, cluster_id, file in (
        ("killed", "c", target.identity),
        ("other", "c", "/etc/other.toml kafka-1:9093"),
        ("of-d", "d", target.identity),
    ):
        noted = Manifest(tmp_path / "m", cluster_id=cluster_id, run_id=run_id, target=file)
        noted.takes(1, "kafka-1:9093", "start")
        noted.has_taken(1)
        noted.close()
    monkeypatch.setattr("perfgate.systems.kafka.attached.command_faults.STAYS_S", 0.05)
    monkeypatch.setattr("perfgate.systems.kafka.attached.leftovers.cluster_id_at", lambda *_: "c" * up.exists())

    def reachable(_bootstrap: str, _client: object) -> tuple[Mock, list[str]]:
        if not up.exists():
            raise ConfigurationError("kafka-1:9093: nothing listens there")
        return Mock(), []

    monkeypatch.setattr(module, "reachable", reachable)
    said: list[str] = []
    monkeypatch.setattr(ExternalTarget, "_learn", lambda *_: None)
    attached = ExternalTarget(replace(target, cluster_id="c"), run_id="r", manifests=tmp_path / "m", note=said.append)
    attached._reached()
    assert [text for text in said if text.startswith("ran")] == [
        "ran [faults] start for broker 1, away since run killed, which was killed"
    ]
    left = {one.run_id: len(one.away) for one in leftovers(tmp_path / "m", "c")}
    assert left == {"killed": 0, "other": 1}
    up.unlink()
    with pytest.raises(ConfigurationError, match="nothing listens there"):
        attached._reached()
    assert not up.exists(), "what no run has taken away is nobody's to start"


CLEAR = '"security.protocol" = "SASL_PLAINTEXT"\n"sasl.username" = "u"\n"sasl.password" = "longer-than-4"\n'


@pytest.mark.parametrize(
    ("mechanism", "refused_it"), [("PLAIN", True), ("SCRAM-SHA-512", False), ("OAUTHBEARER", True)]
)
def test_a_password_or_token_is_not_sent_in_clear_text_unasked(
    tmp_path: Path, mechanism: str, refused_it: bool
) -> None:
    path = tmp_path / "target.toml"
    client = f'[client]\n{CLEAR}"sasl.mechanisms" = "{mechanism}"\n'
    path.write_text(FILE + client)
    if refused_it:
        with pytest.raises(ConfigurationError, match=r"in clear text: use SASL_SSL.*insecure = true at the top"):
            load_target(path, lambda stores: {})
        for elsewhere in (f"{client}insecure = true\n{FILE}", f"{FILE}insecure = true\n{client}"):
            path.write_text(elsewhere)
            with pytest.raises(ConfigurationError, match=r"insecure.* stands at the top of the file, before"):
                load_target(path, lambda stores: {})
        path.write_text(f"insecure = true\n{FILE}{client}")
    load_target(path, lambda stores: {})


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ('"security.protocol" = "SSL"', ""),
        ('"security.protocol" = "SSL"\n"enable.ssl.certificate.verification" = false', "certificates are not verified"),
        ('"security.protocol" = "SSL"\n"ssl.endpoint.identification.algorithm" = "none"', "host names in the brokers'"),
        ('"enable.ssl.certificate.verification" = false', ""),
    ],
)
def test_what_a_connection_does_not_make_sure_of_is_told(tmp_path: Path, client: str, words: str) -> None:
    path = tmp_path / "target.toml"
    path.write_text(f"{FILE}[client]\n{client}\n")
    found = load_target(path, lambda stores: {}).weaknesses
    assert bool(found) is bool(words)
    assert words in "".join(found)


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
    monkeypatch: pytest.MonkeyPatch, load: Load, most_bytes_per_s: float, most_rate: float
) -> None:
    row = replace(scenario(), load=load, record_bytes=35, topic=TopicSpec(partitions=1, replication_factor=2))
    cluster = Mock(most_bytes_per_s=most_bytes_per_s, most_read_bytes_per_s=math.inf)
    cluster.client_settings.return_value, cluster.bootstrap.return_value = (), "b:1"
    tier = Tier(name="t", window_s=1, rounds=2, warmup_max_s=1, broker_warmup_s=0)
    bench = Bench(
        cluster, Mock(), Mock(), engine=Mock(), tier=tier, run_id="r", say=Mock(), histories=Path(), ledger=Mock()
    )
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

        def generators(specs: dict[str, dict[str, Any]]) -> MagicMock:
            told.extend(specs.values())
            return running

        monkeypatch.setattr(librdkafka, "Generators", generators)
        librdkafka.LibrdkafkaDriver().fill(spec, Mock())
        assert [(one["rate"], one["most_rate"]) for one in told] == [(20.0, 20.0)], "1e9 records/s once"


READS = Consumers(membership="group")


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


def test_what_stopped_a_run_stops_all_of_it(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped the rows under way, and the next ones were put on the same brokers."""
    attached, made = target(tmp_path, []), cluster()
    attached._alive, made.meter = made, attached._meter
    monkeypatch.setattr(cluster_module, "unwell", lambda *_: "1 of 9 partitions are offline")
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()
    monkeypatch.setattr(cluster_module, "unwell", lambda *_: "")
    with pytest.raises(TargetError, match=r"stopped at once.*partitions are offline"):
        attached.cluster(made.spec)
    assert attached._alive is None, "and what it had changed is put back"


def test_a_broker_that_a_fault_left_away_is_brought_back_before_anything_else(
    tmp_path: Path, cluster: Callable[..., ExternalCluster]
) -> None:
    """A generator that died in the fault ended the round, and the next one began without the broker."""
    attached, made = target(tmp_path, []), cluster(f'kill = "true"\nstart = "touch {tmp_path}/up-{{broker}}"')
    attached._alive = made
    made.faults.do("kill", 2)
    attached._brokers, attached._cluster_id = BROKERS, "c"
    fresh = attached.cluster(made.spec)
    assert fresh is not made
    assert not made.faults.away
    assert (tmp_path / "up-2").exists()
    attached.close()


def partition(leader: int, isrs: Sequence[int], replicas: Sequence[int] = (1, 2, 3)) -> Mock:
    return Mock(leader=leader, isrs=list(isrs), replicas=list(replicas))


@pytest.mark.parametrize(
    ("partitions", "excused", "words"),
    [
        ([partition(1, (1, 2, 3))], (), ""),
        ([partition(1, (1, 3))], (), "1 of 1 partitions are under-replicated (0 allowed)"),
        ([partition(1, (1, 3))], (2,), ""),
        ([partition(1, (1,))], (2,), "1 of 1 partitions are under-replicated (0 allowed)"),
        ([partition(1, (1,)), partition(3, (3,))], (2, 3), "1 of 2 partitions are under-replicated (0 allowed)"),
        ([partition(-1, (2,), (2,))], (2,), ""),  # of one replica, and whoever allowed the fault knew of it
        ([partition(-1, (3,), (3,))], (2,), "1 of 1 partitions are offline"),
        ([partition(-1, (3,), (2, 3))], (2,), "1 of 1 partitions are offline"),  # broker 3 has gone besides
    ],
)
def test_what_a_fault_explains_is_not_counted_and_all_else_is(
    partitions: list[Mock], excused: Collection[int], words: str
) -> None:
    admin = Mock()
    admin.list_topics.return_value.topics = {"t": Mock(partitions=dict(enumerate(partitions)))}
    assert TOLD_OF_PARTITIONS(admin, 0, excused) == words


ELSEWHERE = "stopped at once: these brokers are of cluster prod, and the run began on cluster c"


@pytest.mark.parametrize(("told", "stopped"), [("c", False), (None, False), ("prod", True)])
@pytest.mark.parametrize("away", [False, True])
def test_a_name_that_leads_to_another_cluster_meanwhile_stops_the_run(
    cluster: Callable[..., ExternalCluster],
    monkeypatch: pytest.MonkeyPatch,
    told: str | None,
    stopped: bool,
    away: bool,
) -> None:
    """The id was asked for at the start alone: hours later the load went wherever the name led."""
    made = cluster()
    monkeypatch.setattr(cluster_module, "unwell", TOLD_OF_PARTITIONS)
    made._admin = Mock(list_topics=Mock(return_value=Mock(cluster_id=told, topics={})))
    made.faults._away = {1: "start"} if away else {}
    with pytest.raises(TargetError, match=ELSEWHERE) if stopped else nullcontext():
        made.check()
    assert bool(made.meter.stopped) is stopped


def test_nothing_is_written_to_another_cluster(
    cluster: Callable[..., ExternalCluster], broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has brokers 1 and 2 as well; and what it does not have counted as put back."""
    made = cluster(config={"num.io.threads": 16})
    topics = made.topics()
    topics._admin, topics._made = Mock(), {"kpg-r-1"}
    told = ["prod"]
    monkeypatch.setattr(cluster_module, "cluster_id_told", lambda _admin: told[0])
    broker.values.clear()
    live = made.live_settings()
    for write in (
        made.apply_settings,
        lambda: topics.create("kpg-r-2", TopicSpec(partitions=1, replication_factor=1)),
        lambda: topics.delete("kpg-r-1"),
        lambda: live.change(settings({"num.io.threads": 16})),
        live.restore,
    ):
        with pytest.raises(TargetError, match=ELSEWHERE):
            write()
    left = made.close()
    assert [ELSEWHERE in text for text in left] == [True] * 3, "two settings and a topic"
    assert not broker.values
    assert topics._admin.mock_calls == []
    assert left_in(tmp_path) == ["r.jsonl"], "the next start on the run's cluster has to see to it"
    told[0], topics._made = "", set()
    assert made.close() == [], "that nobody tells is no difference"


def test_another_broker_that_goes_while_one_is_away_ends_the_run(
    cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was looked at until the fault was over and two minutes had passed."""
    made, missing, now = cluster('kill = "true"\nstart = "true"'), {2}, time.monotonic()
    monkeypatch.setattr(
        cluster_module,
        "unwell",
        lambda _admin, _allowed, excused=(), *_: "under-replicated" * bool(missing - {*excused}),
    )
    monkeypatch.setattr(cluster_module, "HEALTH_AT_MOST_S", 0.0)  # it may look again at once
    monkeypatch.setattr(cluster_module, "time", Mock(monotonic=lambda: now))
    made._pause = 0.0
    made.faults._away = {2: "start"}
    made.check()
    made.faults._away = {}
    made.check()  # it is back, and copies what it lacks
    missing |= {3}
    with pytest.raises(TargetError, match="stopped at once, as the target file asks for: under-replicated"):
        made.check()
    missing -= {3}
    now += BACK_S + 1
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()  # it has not caught up in all that time


def test_a_broker_that_was_seen_well_before_the_next_fault_excuses_nothing_more(
    cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Over a rolling restart all brokers were excused in the end."""
    made, missing = cluster('kill = "true"\nstart = "true"'), set[int]()
    monkeypatch.setattr(
        cluster_module, "unwell", lambda _admin, _allowed, excused=(), *_: "behind" * bool(missing - {*excused})
    )
    monkeypatch.setattr(cluster_module, "HEALTH_AT_MOST_S", 0.0)
    made._pause = 0.0
    made.faults._away = {1: "start"}
    made.check()
    made.faults._away = {}
    made.faults.do("kill", 2)  # which waits until all is well
    missing |= {1, 2}
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()
    (tmp_path / "up-2").touch()


def test_brokers_that_are_well_again_excuse_nothing_more(
    cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, missing = cluster('kill = "true"\nstart = "true"'), {2}
    monkeypatch.setattr(
        cluster_module,
        "unwell",
        lambda _admin, _allowed, excused=(), *_: "under-replicated" * bool(missing - {*excused}),
    )
    monkeypatch.setattr(cluster_module, "HEALTH_AT_MOST_S", 0.0)  # it may look again at once
    made._pause = 0.0
    made.faults._away = {2: "start"}
    made.check()
    made.faults._away = {}
    missing.clear()
    made.check()
    missing |= {2}
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()


def test_a_run_that_lasts_longer_than_the_file_allows_is_stopped(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster()
    monkeypatch.setattr(cluster_module, "unwell", lambda *_: "")
    made.check()
    made._ends_at = time.monotonic() - 1
    for away in (False, True):
        monkeypatch.setattr(made, "faults", Mock(away=frozenset({1} if away else ())))
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


def test_an_error_of_any_kind_keeps_no_other_step_from_being_tried(
    cluster: Callable[..., ExternalCluster], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cluster(config={"num.io.threads": 16})

    def broken(_admin: object, number: str, name: str) -> str | None:
        if number == "2":
            raise OSError(28, "No space left on device")
        return broker.get(None, number, name)

    monkeypatch.setattr(admin_module, "dynamic_value", broken)
    (left,) = made.close()
    assert left.startswith("broker 2 may still have num.io.threads = 16")
    assert broker.values["1", "num.io.threads"] is None


def test_what_no_step_could_tell_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.live.BETWEEN_S", 0.0)
    book, failing = Book(), Mock(own=False, left_behind=(), close=Mock(side_effect=RuntimeError("what is this")))
    put_back(failing, book, Mock())
    assert failing.close.call_count == 3
    assert "not everything was put back: RuntimeError('what is this')" in book.left_behind[0]


def test_what_is_still_applied_is_told_whatever_else_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.live.BETWEEN_S", 0.0)
    outside: Any = Mock(close=Mock(return_value=("THE CHANGE IS STILL APPLIED",)))
    for own in (True, False):
        book, failing = Book(), Mock(own=own, left_behind=(), close=Mock(side_effect=RuntimeError("what is this")))
        with pytest.raises(RuntimeError) if own else nullcontext():
            put_back(failing, book, Mock(), outside)
        assert "THE CHANGE IS STILL APPLIED" in book.left_behind


def test_a_folder_without_locks_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("perfgate.host.journal.fcntl.flock", no_locks)
    with pytest.raises(ConfigurationError, match=r"No locks available.*XDG_STATE_HOME"):
        occupy(tmp_path, "c")


NO_FOLDER = Path("/proc/none/state")
"""Root cannot make it either."""


@pytest.mark.parametrize(
    "does",
    [
        lambda: occupy(NO_FOLDER, "c"),
        lambda: Manifest(NO_FOLDER, cluster_id="c", run_id="r"),
        lambda: list(leftovers(NO_FOLDER, "c")),
    ],
)
def test_a_folder_that_cannot_be_made_is_one_message(does: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=rf"{NO_FOLDER}: No such file or directory;.*XDG_STATE_HOME"):
        does()


def test_a_lock_that_cannot_be_opened_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "c.lock").mkdir()
    with pytest.raises(ConfigurationError, match=r"Is a directory;.*XDG_STATE_HOME"):
        occupy(tmp_path, "c")


@pytest.mark.parametrize(
    ("more", "refused_it"),
    [
        ('[prometheus]\nurl = "http://p:9090"\ntoken = "long-enough"\n', True),
        ('[prometheus]\nurl = "http://p:9090"\n[prometheus.headers]\n"X-Api-Key" = "long-enough"\n', True),
        ('[prometheus]\nurl = "http://p:9090"\n[prometheus.headers]\n"X-Scope-OrgID" = "kafka"\n', False),
        ('[prometheus]\nurl = "https://p:9090"\ntoken = "long-enough"\n', False),
        ('[prometheus]\nurl = "http://127.0.0.1:9090"\ntoken = "long-enough"\n', False),
        ('[client]\n"sasl.oauthbearer.token.endpoint.url" = "http://idp/token"\n', True),
        *(
            (f'[client]\n"sasl.oauthbearer.token.endpoint.url" = "http://{host}/token"\n', refused_it)
            for host, refused_it in {
                "localhost": False,
                "LOCALHOST:8080": False,
                "127.0.0.2:8080": False,
                "[::1]:8080": False,
                "localhost.corp.example": True,
                "localhost-idp:8080": True,
                "localhost@idp": True,
                "localhost:80@idp": True,
                "127.example.com": True,
                "127.0.0.1.example.com": True,
                "127.0.0.1@idp": True,
                "[::1]@idp": True,
            }.items()
        ),
    ],
)
def test_no_token_is_sent_over_http_unasked(tmp_path: Path, more: str, refused_it: bool) -> None:
    """Names that only begin as loopback does, such as localhost.corp.example, were taken for it."""
    path = tmp_path / "target.toml"
    path.write_text(FILE + more)
    if refused_it:
        with pytest.raises(ConfigurationError, match="is http: a password or token would go there in clear text"):
            load_target(path, lambda stores: {})
        path.write_text(f"insecure = true\n{FILE}{more}")
    load_target(path, lambda stores: {})


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
