"""Servers of a target file at the start: of one cluster, reachable, brought back before they are needed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from perfgate.fixtures import wiring_attached as wiring
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.model import ClusterSpec
from perfgate.model.declared import LINKS
from perfgate.model.errors import ConfigurationError
from perfgate.systems.attached.manifest import Manifest, leftovers
from perfgate.systems.kafka.attached import external as module
from perfgate.systems.kafka.attached import identity
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import BROKERS, FILE, target


class Entered(ExternalTarget):
    """Brokers that no other run is on."""

    def _enter(self, admin: object) -> None: ...


class Known(Entered):
    """Brokers of which the test says what is known."""

    def _learn(self, admin: object, back: object = ()) -> None: ...


@pytest.fixture
def ids_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., str]], None]:
    """Return a function that lets servers say which cluster they are of by the function that it is given."""
    return partial(monkeypatch.setattr, identity, "cluster_id_at")


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
    tmp_path: Path, ids_by: Callable[..., None], stated: str, ids: dict[str, str], words: str
) -> None:
    path = tmp_path / "target.toml"
    text = FILE.replace("kafka-1:9093", "kafka-1:9093,kafka-2:9093").replace(
        "[limits]", f'cluster-id = "{stated}"\n[limits]'
    )
    path.write_text(text + '[zones]\ncross-zone = "zone-b:9093"\n')
    attached = ExternalTarget(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    attached._cluster_id = "c"
    ids_by(lambda server, _client: ids.get(server, ""))
    if not words:
        identity.refuse_other_clusters(attached._described, "c")
        return
    with pytest.raises(ConfigurationError, match=words):
        identity.refuse_other_clusters(attached._described, "c")


def test_a_server_that_is_silent_at_the_start_is_not_used(
    tmp_path: Path, ids_by: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was one of every later client's: once it answered it could be another cluster's."""
    path = tmp_path / "target.toml"
    path.write_text(FILE.replace("kafka-1:9093", "kafka-1:9093,kafka-2:9093"))
    notes: list[str] = []
    attached = Known(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=notes.append)
    ids = {"kafka-1:9093": "c"}
    ids_by(lambda server, _client: ids.get(server, ""))
    monkeypatch.setattr(module, "unwell", lambda *_: "")
    monkeypatch.setattr(module, "sees_all_topics", lambda *_: True)
    monkeypatch.setattr(module, "check_permissions", lambda *_: None)
    monkeypatch.setattr(module, "settings_digest", lambda *_: "")
    attached._version, attached._brokers, attached._cluster_id = "4.3", BROKERS, "c"
    digest = attached.facts(ClusterSpec())["connection_digest"]
    attached._attach(Mock())
    assert notes == ["note: kafka-2:9093 does not tell that it is of cluster c: this run does without it"]
    made = attached.cluster(ClusterSpec())
    assert made.bootstrap(LINKS["same-zone"]) == "kafka-1:9093"
    assert made.facts()["connection_digest"] == digest, "an interrupted run can be resumed all the same"
    asked = Mock(source=PrometheusSource(url="http://p"), scrape_interval_s=lambda: 1.0)
    monkeypatch.setattr(wiring, "Prometheus", lambda _: asked)
    described = replace(attached._described, prometheus={"url": "http://p"})
    (usage,) = wiring._with_prometheus(Mock(), [(described, Mock())], Mock()).sources
    assert isinstance(usage(made), PrometheusSampler), "nobody told its brokers' CPU"
    attached.close()
    ids.clear()
    with pytest.raises(ConfigurationError, match="none of its servers tells that it is of cluster c"):
        identity.servers_that_report(attached._described, "c", notes.append)


@pytest.mark.parametrize("unwell", ["", "1 of 3 partitions are offline"])
def test_a_zone_that_does_not_answer_is_told_after_what_is_wrong_with_the_cluster(
    tmp_path: Path, ids_by: Callable[..., None], monkeypatch: pytest.MonkeyPatch, unwell: str
) -> None:
    """Its server may be one that a killed run had taken away: first that is put back, then health is looked at."""
    path = tmp_path / "target.toml"
    path.write_text(FILE + '[zones]\ncross-zone = "zone-b:9093"\n')
    attached = Known(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    done: list[str] = []

    def noted(words: str, then: object) -> object:
        done.append(words)
        return then

    attached._cluster_id = "c"
    ids_by(lambda *_: str(noted("asked the zone", "")))
    monkeypatch.setattr(attached._cleaner, "put_back", lambda _admin, _found: noted("put back", []))
    monkeypatch.setattr(module, "unwell", lambda *_: noted("looked", unwell))
    attached._version, attached._brokers = "4.3", BROKERS
    words = "offline: load would make it worse" if unwell else "cross-zone: zone-b:9093 does not tell which cluster"
    with pytest.raises(ConfigurationError, match=words):
        attached._attach(Mock())
    assert done == ["put back", "looked", *([] if unwell else ["asked the zone"])]


def test_a_broker_that_was_brought_back_is_one_of_the_brokers(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list was of before: rows were not run, and CPU of a broker that was not on it was left out."""
    path = tmp_path / "target.toml"
    path.write_text(f'{FILE}[faults]\nkill = "true"\nstart = "true"\n')
    noted = Manifest(tmp_path / "m", cluster_id="c", run_id="killed")
    noted.takes(2, BROKERS[2], "start")
    noted.close()
    attached = Entered(load_target(path, lambda stores: {}), run_id="r", manifests=tmp_path / "m", note=print)
    nodes = {id_: Mock(id=id_, host=f"kafka-{id_}", port=9093, rack=None) for id_ in (1, 2)}
    told = [[nodes[1]], [nodes[1]], [nodes[1], nodes[2]]]
    admin = Mock()
    admin.describe_cluster.side_effect = lambda **_: Mock(
        result=lambda timeout: Mock(cluster_id="c", nodes=told.pop(0))
    )
    monkeypatch.setattr(module, "reachable", lambda *_: (admin, []))
    monkeypatch.setattr(module, "cluster_id_at", lambda *_: "c")
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
    monkeypatch.setattr("perfgate.systems.kafka.attached.external.cluster_id_at", lambda *_: "")
    monkeypatch.setattr(module, "reachable", Mock(side_effect=ConfigurationError("nothing listens there")))
    attached = ExternalTarget(target, run_id="r", manifests=tmp_path / "m", note=print)
    with pytest.raises(ConfigurationError, match=r"(?s)BROKER 1 .* IS STILL DOWN.*no key.*nothing listens there"):
        attached.prepare([ClusterSpec()])
    assert len(attached.left_behind) == 1, "make clean-up ends with 7"


def test_the_only_server_of_a_file_is_brought_back_before_it_is_needed(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr("perfgate.systems.kafka.attached.external.cluster_id_at", lambda *_: "c" * up.exists())

    def reachable(_bootstrap: str, _client: object) -> tuple[Mock, list[str]]:
        if not up.exists():
            raise ConfigurationError("kafka-1:9093: nothing listens there")
        return Mock(), []

    monkeypatch.setattr(module, "reachable", reachable)
    said: list[str] = []
    attached = Known(replace(target, cluster_id="c"), run_id="r", manifests=tmp_path / "m", note=said.append)
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
