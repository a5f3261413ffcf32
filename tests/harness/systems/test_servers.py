"""Servers of a target file at the start: of one cluster, reachable, brought back before they are needed."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.fixtures import wiring_attached as wiring
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.model import ClusterSpec
from perfgate.model.declared import LINKS
from perfgate.model.errors import ConfigurationError
from perfgate.systems.attached.manifest import Manifest, leftovers
from perfgate.systems.kafka.attached import identity
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import BROKERS, FILE, Broker, target
from tests.harness.metrics.test_prometheus import Answers


class Entered(ExternalTarget):
    """Brokers that no other run is on."""

    def _enter(self, admin: object) -> None: ...


class Known(Entered):
    """Brokers of which the test says what is known."""

    def _learn(self, admin: object, back: object = ()) -> None: ...


class Restarted(Known):
    """Brokers whose only server is reached once this file is there."""

    up: Path

    def _connected(self) -> Any:
        if not self.up.exists():
            raise ConfigurationError("kafka-1:9093: nothing listens there")
        return Mock()


def told(broker: Broker, ids: Mapping[str, str]) -> None:
    """Have servers tell these ids of their cluster, and the others nothing."""
    broker.ids, broker.silent = ids, lambda server: not ids.get(server)


@pytest.fixture
def prometheus() -> Iterator[str]:
    """Return the address of a Prometheus that answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


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
    tmp_path: Path, broker: Broker, stated: str, ids: dict[str, str], words: str
) -> None:
    path = tmp_path / "target.toml"
    text = FILE.replace("kafka-1:9093", "kafka-1:9093,kafka-2:9093").replace(
        "[limits]", f'cluster-id = "{stated}"\n[limits]' if stated else "[limits]"
    )
    path.write_text(text + '[zones]\ncross-zone = "zone-b:9093"\n')
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    attached._cluster_id = "c"
    told(broker, ids)
    if not words:
        identity.refuse_other_clusters(attached._described, "c")
        return
    with pytest.raises(ConfigurationError, match=words):
        identity.refuse_other_clusters(attached._described, "c")


def test_a_server_that_is_silent_at_the_start_is_not_used(tmp_path: Path, broker: Broker, prometheus: str) -> None:
    """It was one of every later client's: once it answered it could be another cluster's."""
    path = tmp_path / "target.toml"
    path.write_text(FILE.replace("kafka-1:9093", "kafka-1:9093,kafka-2:9093"))
    notes: list[str] = []
    attached = Known(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=notes.append)
    told(broker, {"kafka-1:9093": "c"})
    attached._version, attached._brokers, attached._cluster_id = "4.3", BROKERS, "c"
    digest = attached.facts(ClusterSpec())["connection_digest"]
    attached._attach(broker.admin)
    assert notes == ["note: kafka-2:9093 does not tell that it is of cluster c: this run does without it"]
    made = attached.cluster(ClusterSpec())
    assert made.bootstrap(LINKS["same-zone"]) == "kafka-1:9093"
    assert made.facts()["connection_digest"] == digest, "an interrupted run can be resumed all the same"
    described = replace(attached._described, prometheus={"url": prometheus})
    (usage,) = wiring._with_prometheus(Mock(), [(described, Mock())], Mock()).sources
    assert isinstance(usage(made), PrometheusSampler), "nobody told its brokers' CPU"
    attached.close()
    told(broker, {})
    with pytest.raises(ConfigurationError, match="none of its servers tells that it is of cluster c"):
        identity.servers_that_report(attached._described, "c", notes.append)


@pytest.mark.parametrize("well", [True, False])
def test_a_zone_that_does_not_answer_is_told_after_what_is_wrong_with_the_cluster(
    tmp_path: Path, broker: Broker, well: bool
) -> None:
    """Its server may be one that a killed run had taken away: first that is put back, then health is looked at."""
    path = tmp_path / "target.toml"
    path.write_text(FILE + '[zones]\ncross-zone = "zone-b:9093"\n')
    attached = Known(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    attached._version, attached._brokers, attached._cluster_id = "4.3", BROKERS, "c"
    killed = Manifest(tmp_path / "m", cluster_id="c", run_id="killed")
    killed.changes("1", "num.io.threads", None, "8", "16")
    killed.close()
    broker.values["1", "num.io.threads"] = "16"
    broker.missing = set() if well else {1, 2, 3}
    told(broker, {"kafka-1:9093": "c"})
    words = "cross-zone: zone-b:9093 does not tell which cluster" if well else "offline: load would make it worse"
    with pytest.raises(ConfigurationError, match=words):
        attached._attach(broker.admin)
    put_back, looked = "incremental_alter_configs num.io.threads", "list_topics"
    assert broker.requests == [put_back, looked, *(["describe_cluster zone-b:9093"] if well else [])]


@pytest.mark.usefixtures("broker", "clock")
def test_a_broker_that_was_brought_back_is_one_of_the_brokers(tmp_path: Path) -> None:
    """The list was of before: rows were not run, and CPU of a broker that was not on it was left out."""
    path = tmp_path / "target.toml"
    path.write_text(f'{FILE}[faults]\nkill = "true"\nstart = "true"\n')
    noted = Manifest(tmp_path / "m", cluster_id="c", run_id="killed")
    noted.takes(2, BROKERS[2], "start")
    noted.close()
    attached = Entered(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    asked, counted = Broker(), [[1], [1], [1, 2]]
    asked.counted = lambda: counted.pop(0)
    asked.missing = {1, 2, 3}  # it is seen no further
    attached._learn(asked.admin)
    assert attached._brokers == {1: BROKERS[1]}
    with pytest.raises(ConfigurationError, match="partitions are offline"):
        attached._attach(asked.admin)
    assert attached._brokers == BROKERS


def test_what_still_keeps_the_only_server_away_is_told(tmp_path: Path, broker: Broker) -> None:
    path = tmp_path / "target.toml"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{closed.getsockname()[1]}"
        path.write_text(FILE.replace(BROKERS[1], at) + '[faults]\nkill = "true"\nstart = "echo no key; false"\n')
        target = load_target(path, lambda stores: {})
        noted = Manifest(tmp_path / "m", cluster_id="c", run_id="killed", target=target.identity)
        noted.takes(1, "kafka-1:9093", "start")
        noted.close()
        told(broker, {})
        attached = ExternalTarget(target, run_id="r", manifests=tmp_path / "m", note=print)
        words = rf"(?s)BROKER 1 .* IS STILL DOWN.*no key.*; {at}: nothing listens there"
        with pytest.raises(ConfigurationError, match=words):
            attached.prepare([ClusterSpec()])
    assert len(attached.left_behind) == 1, "make clean-up ends with 7"


def test_the_only_server_of_a_file_is_brought_back_before_it_is_needed(
    tmp_path: Path, broker: Broker, clock: Clock
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
    broker.silent = lambda _server: not up.exists()
    said: list[str] = []
    attached = Restarted(replace(target, cluster_id="c"), run_id="r", manifests=tmp_path / "m", note=said.append)
    attached.up = up
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
