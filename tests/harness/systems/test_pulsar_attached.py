"""Real Pulsar brokers as a target: what a run makes there, what it checks, what it puts back."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.model import ClusterSpec, Fault, FaultScenario, TopicSpec
from perfgate.model.errors import (
    BrokersFailedError,
    ConfigurationError,
    InterferedError,
    TargetError,
    TopicRefusedError,
)
from perfgate.systems.attached.manifest import leftovers
from perfgate.systems.attached.target import TwoTargets
from perfgate.systems.pulsar.attached.cluster import AttachedPulsar
from perfgate.systems.pulsar.attached.described import load_target
from perfgate.systems.pulsar.attached.external import PulsarCleaner, PulsarTarget
from perfgate.systems.pulsar.attached.own_namespace import PROPERTY
from perfgate.systems.pulsar.attached.trial import Trials
from tests.harness.build import scenario
from tests.harness.build.clock import Clock
from tests.harness.build.pulsar_brokers import FakePulsar, Request, asked, served

SPEC = ClusterSpec(system="pulsar", bookies=3)
ONE = TopicSpec(partitions=1, replication_factor=3)
SETTING = "dispatcherMaxRoundRobinBatchSize"
COMMANDS = '[faults]\nkill = "true {port}"\nstart = "true {port}"\n'
FAULT = FaultScenario.of(replace(scenario(), cluster=SPEC), Fault(kind="kill-leader"))
Made = Callable[..., PulsarTarget]
TRIES_CLIENTS = Trials._try_clients


@pytest.fixture
def pulsar(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[FakePulsar]:
    monkeypatch.setattr(Trials, "_try_clients", lambda *_: None)  # these brokers speak no binary protocol
    with served(FakePulsar()) as found:
        yield found


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def target(tmp_path: Path, notes: list[str]) -> Iterator[Made]:
    """Return a function that makes a target of these brokers, by a file (of this name) with these lines."""
    made: list[PulsarTarget] = []

    def make(
        pulsar: FakePulsar,
        top: str = "",
        tables: str = "",
        *,
        file: str = "",
        urls: Sequence[str] = (),
        **permitted: Any,
    ) -> PulsarTarget:
        path = tmp_path / (file or f"t{len(made)}.toml")
        path.write_text(
            f'system = "pulsar"\nservice-url = "pulsar://127.0.0.1:1"\nadmin-url = "{",".join(urls or pulsar.urls)}"\n'
            f'tenant = "gate"\n{top}\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n{tables}\n'
        )
        permitted = {"run_id": "r", "manifests": tmp_path / "m", "parallel_is_fine": True, **permitted}
        if permitted.get("faults_allowed"):  # such a run does not begin beside another: all have ended
            for other in made:
                release(other)
        made.append(PulsarTarget(load_target(path), note=notes.append, **permitted))
        return made[-1]

    yield make
    for one in made:
        one.close()
        release(one)


def release(one: PulsarTarget) -> None:
    """Release the cluster as the kernel does when a run's process ends."""
    if one._occupied is not None:
        one._occupied.close()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "m").glob("*.jsonl"))


def test_a_run_leaves_nothing(tmp_path: Path, pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    assert pulsar.namespaces == {}, "what was tried is gone"
    cluster = one.cluster(SPEC)
    assert cluster is one.cluster(SPEC)
    (name,) = pulsar.namespaces
    assert name == "gate/kpg-r-1"
    assert cluster.prefix == "persistent://gate/kpg-r-1/kpg-"
    topics = cluster.topics()
    topics.create(f"{cluster.prefix}r-t", ONE)
    served_by = sorted(pulsar.addresses.values()).index(pulsar.addresses[1]) + 1
    assert topics.leaders(f"{cluster.prefix}r-t") == (served_by,), "ids are in the order of addresses"
    cluster.check()
    assert left_in(tmp_path) == ["r.jsonl"], "the notes of what was tried are gone"
    one.close()
    assert (pulsar.namespaces, pulsar.topics, pulsar.partitions) == ({}, {}, {})
    assert left_in(tmp_path) == []
    assert one.left_behind == ()


def test_the_namespace_bounds_what_stays_when_everything_fails(pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    one.cluster(SPEC)
    (policies,) = pulsar.namespaces.values()
    assert policies["message_ttl_in_seconds"] == 3600
    assert policies["retention_policies"] == {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
    assert policies["backlog_quota_map"]["destination_storage"]["limitSize"] == 10**9, "[limits] bytes"
    assert policies["inactive_topic_policies"]["deleteWhileInactive"] is True
    assert policies["autoTopicCreationOverride"] == {"allowAutoTopicCreation": False}
    assert policies["bundles"] == {"numBundles": 12}
    assert "replication_clusters" not in policies, "Pulsar then has it in its own cluster alone"


def test_facts(pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar, 'durability = "fsync"')
    one.prepare([SPEC])
    facts = one.cluster(SPEC).facts()
    assert {key: facts[key] for key in ("kind", "system", "pulsar_version", "brokers", "bookies", "durability")} == {
        "kind": "brokers",
        "system": "pulsar",
        "pulsar_version": "4.0.8",
        "brokers": 3,
        "bookies": 3,
        "durability": "fsync",
    }
    assert facts["config_digest"]
    assert "hush" not in str(facts)
    other = target(pulsar).facts(SPEC)
    assert (other["durability"], other["brokers"]) == ("unknown", 0), "before it is connected"


def test_settings_that_hold_secrets_are_not_in_the_digest(pulsar: FakePulsar, target: Made) -> None:
    digests = []
    for word in ("hush", "hush-hush"):
        pulsar.static["tlsKeyStorePassword"] = word
        one = target(pulsar)
        one.prepare([SPEC])
        digests.append(one.facts(SPEC)["config_digest"])
    pulsar.static["maxMessageSize"] = "1"
    one = target(pulsar)
    one.prepare([SPEC])
    assert digests[0] == digests[1] != one.facts(SPEC)["config_digest"]


def test_a_killed_run_is_cleaned_up_by_the_next_start(
    tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    killed = target(pulsar, run_id="killed")
    killed.prepare([SPEC])
    cluster = killed.cluster(SPEC)
    cluster.topics().create(f"{cluster.prefix}t", ONE)
    abandon(cluster)
    pulsar.namespaces["gate/others"] = {}
    pulsar.topics["gate/others/t"] = 1
    target(pulsar).prepare([SPEC])
    assert set(pulsar.namespaces) == {"gate/others"}
    assert set(pulsar.topics) == {"gate/others/t"}
    assert any("removed namespace gate/kpg-killed-1, left by run killed" in note for note in notes)
    assert left_in(tmp_path) == []


def abandon(cluster: AttachedPulsar) -> None:
    """Release its lock as the kernel does when its process is killed, and keep it from undoing anything."""
    cluster._manifest.journal.file.close()
    cluster.close = lambda: []  # type: ignore[method-assign]


def test_a_namespace_of_somebody_else_under_that_name_is_left_alone(
    tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    killed = target(pulsar, run_id="killed")
    killed.prepare([SPEC])
    abandon(killed.cluster(SPEC))
    pulsar.namespaces["gate/kpg-killed-1"] = {"properties": {PROPERTY: "another"}}
    target(pulsar).prepare([SPEC])
    assert "gate/kpg-killed-1" in pulsar.namespaces
    assert any("is not the one that run killed made" in note for note in notes)


def test_clean_up_as_a_command(tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]) -> None:
    killed = target(pulsar, run_id="killed")
    killed.prepare([SPEC])
    abandon(killed.cluster(SPEC))
    assert target(pulsar, run_id="clean-up").clean_up() == ()
    assert pulsar.namespaces == {}
    assert target(pulsar, run_id="clean-up").clean_up() == ()
    assert any("nothing to put back" in note for note in notes)


def test_another_clusters_leftovers_are_not_these(tmp_path: Path, pulsar: FakePulsar, target: Made) -> None:
    """Clusters are often called alike, and the namespace would seem to be gone."""
    killed = target(pulsar, run_id="killed")
    killed.prepare([SPEC])
    abandon(killed.cluster(SPEC))
    with served(FakePulsar()) as other:
        other.metadata = "10.0.0.1:2181"
        target(other).prepare([SPEC])
    assert len(list(leftovers(tmp_path / "m", killed._cluster_id))) == 1


def test_leftovers_of_a_cluster_of_the_same_name_and_metadata_address_wait_for_its_own_file(
    tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    """Two of one chart: the other's setting was said to be put back, its notes were dropped, and it stayed changed."""
    spec = replace(SPEC, config=((SETTING, "33"),))
    killed = target(pulsar, file="staging.toml", run_id="killed")
    killed.prepare([spec])
    abandon(killed.cluster(spec))
    with served(FakePulsar()) as other:
        target(other, file="production.toml").prepare([SPEC])
    assert left_in(tmp_path) == ["killed.jsonl"]
    assert any("what run killed has left is not put back: by " in note for note in notes)
    target(pulsar, file="moved.toml").prepare([SPEC])
    assert (pulsar.dynamic, pulsar.namespaces, left_in(tmp_path)) == ({}, {}, []), "where its namespace is"


def test_a_namespace_that_another_holds_the_name_of_is_refused(pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    pulsar.namespaces["gate/kpg-r-1"] = {"properties": {}}
    with pytest.raises(TargetError, match="already exists"):
        one.cluster(SPEC)
    one.close()
    assert "gate/kpg-r-1" in pulsar.namespaces


def test_what_cannot_be_removed_is_told_and_tried_again(pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    one.cluster(SPEC)
    pulsar.first.append((lambda request: request.method == "DELETE", (403, {"reason": "not now"})))
    one.close()
    assert "namespace gate/kpg-r-1 may still be there: " in one.left_behind[0]
    with pytest.raises(ConfigurationError, match="is on the cluster") as caught:
        target(pulsar, run_id="next", parallel_is_fine=False).prepare([SPEC])
    assert "another run of this machine" in str(caught.value)
    one.close()
    assert one.left_behind == ()
    assert pulsar.namespaces == {}


@pytest.mark.parametrize("what", ["its namespace is gone", "another one has its name"])
def test_another_cluster_behind_the_names_stops_the_run(pulsar: FakePulsar, target: Made, what: str) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    cluster = one.cluster(SPEC)
    kept = dict(pulsar.namespaces)
    pulsar.namespaces.clear()
    if what == "another one has its name":
        pulsar.namespaces["gate/kpg-r-1"] = {"properties": {PROPERTY: "another"}}
    before = len(pulsar.requests)
    with pytest.raises(TargetError, match="stopped at once: "):
        cluster.topics().create(f"{cluster.prefix}t", ONE)
    assert {request.method for request in pulsar.requests[before:]} == {"GET"}, "nothing was done there"
    with pytest.raises(TargetError, match="stopped at once"):
        one.cluster(SPEC)
    assert one.left_behind, "whether it is gone is not known"
    pulsar.namespaces.update(kept)
    one.close()
    assert pulsar.namespaces == {}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("sick", r"broker \d \(.*no message came back.*--allow-unhealthy"),
        ("unready", r"broker \d \(.*does not say that it is ready.*--allow-unhealthy"),
        ("silent", r"subscribing .*Remote end closed connection.*--allow-unhealthy"),
        ("away", "fewer than 3 bookies take entries: one is away or read-only.*--allow-unhealthy"),
        ("number", "brokers = 4, and the cluster has 3"),
        ("bookies", "bookies = 5, and the cluster has 3"),
        ("name", "cluster is other, and these brokers are of cluster kpg"),
        ("tenant", "do not let this role make a namespace of tenant gate.*pulsar-admin tenants update gate"),
        ("token", "the broker refused the log-in: Authentication required; check the token"),
    ],
)
def test_a_start_that_is_refused_has_made_nothing(pulsar: FakePulsar, target: Made, state: str, words: str) -> None:
    top = {"number": "brokers = 4", "bookies": "bookies = 5", "name": 'cluster = "other"'}.get(state, "")
    pulsar.sick = {2} if state == "sick" else set()
    pulsar.unready = {2} if state == "unready" else set()
    pulsar.silent = {1} if state == "silent" else set()
    pulsar.writable_bookies = 2 if state == "away" else 3
    pulsar.tenant_admin = state != "tenant"
    pulsar.token = "needed" if state == "token" else ""
    one = target(pulsar, top)
    with pytest.raises(ConfigurationError, match=words):
        one.prepare([SPEC])
    assert pulsar.namespaces == {}
    if state in ("sick", "unready", "silent", "away"):
        target(pulsar, unhealthy_is_fine=True).prepare([SPEC])
    if state == "away":  # it left for good, and is listed still
        target(pulsar, "bookies = 2").prepare([SPEC])


@pytest.mark.parametrize("state", ["unready", "silent"])
def test_a_start_that_was_let_go_on_unwell_goes_on_until_it_is_worse(
    pulsar: FakePulsar, target: Made, notes: list[str], state: str
) -> None:
    """A broker that was not ready passed any start, and one that was silent passed none, permitted or not."""
    setattr(pulsar, state, {1})
    one = target(pulsar, tables=COMMANDS, unhealthy_is_fine=True, faults_allowed=True)
    one.prepare([SPEC])
    assert any("is not well: the run goes on with --allow-unhealthy" in note for note in notes)
    cluster = one.cluster(SPEC)
    cluster.check()
    refused = cluster._unwell_before_a_fault() if state == "unready" else one.cannot(FAULT)
    assert refused, "no other is taken away beside it"
    pulsar.down, cluster._checked = {1}, -math.inf
    cluster.check()
    pulsar.down, cluster._checked = {1, 2}, -math.inf
    with pytest.raises(TargetError, match=r"stopped at once.*broker \d \(.*no longer takes part"):
        cluster.check()
    pulsar.down, pulsar.silent = set(), set()


def test_the_doctor_makes_nothing_and_tells_who_may_not_make_any(
    tmp_path: Path, pulsar: FakePulsar, target: Made
) -> None:
    (_, log_in), (_, brokers), (_, topics) = target(pulsar).looks()
    assert log_in().startswith("cluster kpg-")
    assert brokers() == "3, Pulsar 4.0.8"
    assert "namespaces of tenant gate" in topics()
    pulsar.tenant_admin = False
    with pytest.raises(
        ConfigurationError, match=r"do not let this role see, or make, namespaces of tenant gate: .*ROLE"
    ):
        topics()
    pulsar.sick = {2}
    with pytest.raises(ConfigurationError, match="no message came back"):
        brokers()
    assert {request.method for request in pulsar.requests} == {"GET"}
    assert left_in(tmp_path) == []


def test_what_a_trial_could_not_remove_is_named_and_goes_at_the_next_start(
    tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    def removes_the_namespace(request: Request) -> bool:
        return request.method == "DELETE" and request.path.endswith("/kpg-r-probe-1")

    pulsar.first.append((lambda request: request.path.endswith("/kpg-probe/partitions"), (403, {"reason": "no"})))
    pulsar.first.append((removes_the_namespace, (403, {"reason": "not this either"})))
    one = target(pulsar)
    with pytest.raises(ConfigurationError, match="do not let this role make, look up, read and delete a topic"):
        one.prepare([SPEC])
    assert list(pulsar.namespaces) == ["gate/kpg-r-probe-1"]
    assert any("namespace gate/kpg-r-probe-1 may stay until the next start" in note for note in notes)
    target(pulsar, run_id="next").prepare([SPEC])
    assert pulsar.namespaces == {}
    assert left_in(tmp_path) == []


def test_addresses_of_two_clusters_are_refused(pulsar: FakePulsar, target: Made) -> None:
    with served(FakePulsar(1)) as other:
        for name, words in (("elsewhere", "of elsewhere, the others of kpg"), ("kpg", "do not have namespace")):
            other.name = name
            one = target(pulsar)
            one._described = replace(one._described, admin_urls=(*pulsar.urls, *other.urls))
            with pytest.raises(ConfigurationError, match="its addresses are not of one cluster") as caught:
                one.prepare([SPEC])
            assert words.split(" of ")[-1] in str(caught.value)
            assert not other.namespaces
            assert not pulsar.namespaces


def test_an_address_of_another_cluster_is_found_although_a_broker_is_silent(pulsar: FakePulsar, target: Made) -> None:
    """What the silent one ended went before, and a permitted start went on with both clusters."""
    pulsar.silent = {1}
    with served(FakePulsar(1)) as other:
        one = target(pulsar, unhealthy_is_fine=True)
        one._described = replace(one._described, admin_urls=(*pulsar.urls, *other.urls))
        with pytest.raises(ConfigurationError, match="its addresses are not of one cluster"):
            one.prepare([SPEC])
    assert not pulsar.namespaces


@pytest.mark.parametrize("where", ["service-url", r"\[zones\] cross-zone"])
def test_each_url_that_clients_use_is_tried_at_the_start(
    pulsar: FakePulsar, target: Made, notes: list[str], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A cross-zone URL that led nowhere passed, and its scenarios were INVALID at the end of the night."""
    dead: set[str] = set()

    class Client:
        def __init__(self, url: str, **_: Any) -> None:
            self.create_producer = self.subscribe = lambda *_: self._must_answer(url)

        @staticmethod
        def _must_answer(url: str) -> None:
            if url in dead:
                raise RuntimeError("Pulsar error: ConnectError")

        def close(self) -> None: ...

    monkeypatch.setitem(sys.modules, "pulsar", Mock(Client=Client))
    monkeypatch.setattr(Trials, "_try_clients", TRIES_CLIENTS)
    zones = '[zones]\ncross-zone = "pulsar://zone-b:1,zone-b:2"\n'
    target(pulsar, tables=zones).prepare([SPEC])
    dead.add("pulsar://zone-b:2")
    target(pulsar, tables=zones).prepare([SPEC])
    assert any("zone-b:2: Pulsar error: ConnectError; going on with the other servers" in note for note in notes)
    dead |= {"pulsar://zone-b:1"} if "zones" in where else {"pulsar://127.0.0.1:1"}
    with pytest.raises(ConfigurationError, match=rf"no client can send to and read from .* by {where}: "):
        target(pulsar, tables=zones).prepare([SPEC])
    assert pulsar.namespaces == {}


def test_an_address_where_nothing_listens_is_not_used(pulsar: FakePulsar, target: Made, notes: list[str]) -> None:
    one = target(pulsar)
    one._described = replace(one._described, admin_urls=("http://127.0.0.1:1", *pulsar.urls))
    one.prepare([SPEC])
    assert any("127.0.0.1:1: nothing listens there" in note and "going on" in note for note in notes)
    none = target(pulsar)
    none._described = replace(none._described, admin_urls=("http://127.0.0.1:1", "http://127.0.0.1:2"))
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:1: nothing listens there"):
        none.prepare([SPEC])


def test_an_address_of_another_web_server_is_named(pulsar: FakePulsar, target: Made) -> None:
    """A user interface, or the log-in of a proxy, has a page for every path: the run ended with a traceback."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>Log in</title>")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        words = (
            "asking brokers for the clusters: a web page.*check that admin-url is the web service of a Pulsar broker"
        )
        with pytest.raises(ConfigurationError, match=words):
            target(pulsar, urls=[url]).prepare([SPEC])
        server.shutdown()


def test_an_address_with_a_slip_in_its_name_is_named(pulsar: FakePulsar, target: Made) -> None:
    """A label that is empty is refused before any server of names is asked, by another error: a traceback."""
    with pytest.raises(ConfigurationError, match=r"^broker\.\.example:8080: the host name does not resolve"):
        target(pulsar, urls=["http://broker..example:8080"]).prepare([SPEC])


def test_a_role_that_is_no_superuser_sees_less_and_says_so(pulsar: FakePulsar, target: Made, notes: list[str]) -> None:
    pulsar.superuser = False
    one = target(pulsar)
    one.prepare([SPEC])
    assert any("no superuser" in note for note in notes)
    cluster = one.cluster(SPEC)
    cluster.topics().create(f"{cluster.prefix}t", ONE)
    cluster.check()
    assert one.gone() == ""
    with pytest.raises(TargetError, match="which brokers there are is not known"):
        cluster.topics().leaders(f"{cluster.prefix}t")
    with pytest.raises(ConfigurationError, match="by a superuser's role"):
        cluster.live_settings()


def test_brokers_behind_a_proxy_are_seen_by_the_list_alone(pulsar: FakePulsar, target: Made) -> None:
    """Their own addresses lead nowhere from here: each seemed not to be ready, and no run could start."""
    pulsar.inside = "http://127.0.0.1:1"
    one = target(pulsar)
    one.prepare([SPEC])
    cluster = one.cluster(SPEC)
    cluster.check()
    assert cluster.facts()["brokers"] == 3
    setting = replace(scenario(), cluster=replace(SPEC, config=((SETTING, "33"),)))
    assert "where each broker's web service can be asked" in str(one.cannot(setting))
    able = target(pulsar, tables=COMMANDS, faults_allowed=True)
    able.prepare([SPEC])
    assert "not every broker answers at its own address" in str(able.cannot(FAULT)), "it was said to be STILL DOWN"
    pulsar.sick = {1, 2, 3}
    with pytest.raises(ConfigurationError, match="no message came back"):
        target(pulsar).prepare([SPEC])


def test_a_broker_that_goes_stops_the_run(pulsar: FakePulsar, target: Made, clock: Clock) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    cluster = one.cluster(SPEC)
    cluster.check()
    pulsar.down = {2}
    assert "at the start of the run" in one.gone()
    with pytest.raises(TargetError, match=r"stopped at once.*broker \d \(.*no longer takes part"):
        cluster.check()
    pulsar.down = set()


def test_a_broker_that_a_fault_has_made_stand_still_holds_nothing_up(
    pulsar: FakePulsar, target: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the namespace is still there was asked of it, for 20 s: it stood still for that much longer."""
    one = target(pulsar, tables=COMMANDS, faults_allowed=True)
    one.prepare([SPEC])
    cluster = one.cluster(SPEC)
    (asked_first,) = (number for number, at in pulsar.addresses.items() if cluster._admin.urls[0].endswith(at))
    (node,) = (number for number, at in one._brokers.items() if at == pulsar.addresses[asked_first])
    cluster.faults.do("kill", node)
    goes_on = threading.Event()

    def waits(request: Request) -> bool:
        return request.broker == asked_first and goes_on.wait(60.0) and False

    pulsar.first.append((waits, None))
    monkeypatch.setattr("perfgate.systems.attached.cluster.AWAY_ASK_S", 0.1)
    cluster._checked = -math.inf
    began = time.perf_counter()
    cluster.check()
    took_s = time.perf_counter() - began
    goes_on.set()
    cluster.faults.do("start", node)
    assert took_s < 15.0


def test_a_broker_that_stands_still_does_not_hold_a_start_up(
    pulsar: FakePulsar, target: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was waited for twice 20 s at each look at the brokers."""
    goes_on = threading.Event()
    pulsar.first.append((lambda request: request.broker == 3 and goes_on.wait(60.0) and False, None))
    monkeypatch.setattr("perfgate.systems.pulsar.attached.nodes.ANSWER_WITHIN_S", 0.1)
    began = time.perf_counter()
    target(pulsar, urls=pulsar.urls[:2]).prepare([SPEC])
    took_s = time.perf_counter() - began
    goes_on.set()
    assert took_s < 15.0


@pytest.mark.parametrize(
    ("stated", "session_s"),
    [
        ({"metadataStoreSessionTimeoutMillis": "30000", "zooKeeperSessionTimeoutMillis": "-1"}, 30.0),
        ({"metadataStoreSessionTimeoutMillis": "30000", "zooKeeperSessionTimeoutMillis": "60000"}, 60.0),
        ({"zooKeeperSessionTimeoutMillis": "40000"}, 40.0),
        ({}, 0.0),
    ],
)
def test_a_session_is_read_by_either_of_its_names(
    pulsar: FakePulsar, target: Made, stated: dict[str, str], session_s: float
) -> None:
    """Where a file still had the older one, which brokers follow, a session was judged that was not theirs."""
    pulsar.static |= stated
    one = target(pulsar)
    one.prepare([SPEC])
    assert one.cluster(SPEC).faults.session_s() == session_s


def test_settings_are_noted_set_and_put_back(tmp_path: Path, pulsar: FakePulsar, target: Made) -> None:
    spec = replace(SPEC, config=((SETTING, "33"),))
    one = target(pulsar)
    one.prepare([spec])
    one.cluster(spec)
    assert pulsar.dynamic == {SETTING: "33"}
    one.cluster(SPEC)
    assert pulsar.dynamic == {}, "another spec is another cluster"
    one.close()
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("killed", [False, True])
def test_a_setting_is_put_back_on_brokers_whose_files_differ(
    tmp_path: Path, pulsar: FakePulsar, target: Made, killed: bool
) -> None:
    """The first broker's value was waited for on all of them, and the run had left the brokers changed, it said."""
    spec = replace(SPEC, config=((SETTING, "33"),))
    pulsar.files = {2: {SETTING: "40"}, 3: {SETTING: "33"}}
    one = target(pulsar, run_id="first")
    one.prepare([spec])
    cluster = one.cluster(spec)
    if killed:
        abandon(cluster)
        target(pulsar).prepare([SPEC])
    one.close()
    assert one.left_behind == ()
    assert pulsar.dynamic == {}
    assert left_in(tmp_path) == []


def test_a_setting_is_put_back_although_a_broker_has_gone(pulsar: FakePulsar, target: Made) -> None:
    """The next start was refused, and asked for the value of a broker that finds it as it was."""
    spec = replace(SPEC, config=((SETTING, "33"),))
    one = target(pulsar)
    one.prepare([spec])
    one.cluster(spec)
    pulsar.down = {2}
    one.close()
    assert one.left_behind == ()
    assert pulsar.dynamic == {}


def test_a_broker_that_a_killed_run_took_away_is_brought_back_first(
    tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    log = tmp_path / "log"
    commands = f'[faults]\nkill = "echo kill {{port}} >> {log}"\nstart = "echo start {{port}} >> {log}"\n'
    killed = target(pulsar, tables=commands, run_id="killed", faults_allowed=True)
    killed.prepare([SPEC])
    cluster = killed.cluster(SPEC)
    cluster.faults.do("kill", 2)
    with pytest.raises(TargetError, match="two-down is not true"):
        cluster.faults.do("kill", 1)
    abandon(cluster)
    target(pulsar, tables=commands).prepare([SPEC])
    port = killed._brokers[2].rpartition(":")[2]
    assert log.read_text().splitlines() == [f"kill {port}", f"start {port}"]
    assert any("ran [faults] start for broker 2, away since run killed" in note for note in notes)
    assert pulsar.namespaces == {}
    assert left_in(tmp_path) == []


def test_a_broker_of_another_cluster_at_its_address_is_not_the_one_that_was_taken_away(
    pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    """It was noted as back, and the broker that a killed run had taken away stayed away without a word."""
    one = target(pulsar)
    one.prepare([SPEC])
    cleaner = PulsarCleaner(one._described, notes.append)
    assert cleaner._answers(pulsar.addresses[2], one._cluster_id)
    with served(FakePulsar(1)) as other:
        other.metadata = "10.0.0.1:2181"
        assert not cleaner._answers(other.addresses[1], one._cluster_id)
    cluster = one.cluster(SPEC)
    assert cluster._answers(pulsar.addresses[2])
    kept = dict(pulsar.namespaces)
    pulsar.namespaces.clear()
    assert not cluster._answers(pulsar.addresses[2]), "nor by the run itself"
    pulsar.namespaces.update(kept)


class DownUntil(set[int]):
    """Brokers that are down until a command has made a file."""

    def __init__(self, brokers: set[int], file: Path) -> None:
        super().__init__(brokers)
        self._file = file

    def __contains__(self, broker: object) -> bool:
        return super().__contains__(broker) and not self._file.exists()


def test_brokers_have_their_numbers_again_when_one_was_brought_back(
    tmp_path: Path, pulsar: FakePulsar, target: Made
) -> None:
    """Those that were there while it was away kept the numbers that they had then, and [faults] brokers let another one
    than the listed be taken."""
    up = tmp_path / "up"
    commands = f'[faults]\nkill = "true {{port}}"\nstart = "touch {up} && true {{port}}"\nbrokers = [1]\n'
    killed = target(pulsar, "brokers = 3", commands, run_id="killed", faults_allowed=True)
    killed.prepare([SPEC])
    cluster = killed.cluster(SPEC)
    cluster.faults.do("kill", 1)
    (down,) = (number for number, at in pulsar.addresses.items() if at == killed._brokers[1])
    pulsar.down = DownUntil({down}, up)
    abandon(cluster)
    others = [at for at in pulsar.addresses.values() if at != killed._brokers[1]]
    late = (lambda request: up.exists() and request.path.endswith("/v2/brokers"), (200, others))
    pulsar.first.append(late)
    one = target(pulsar, "brokers = 3", commands, faults_allowed=True)
    one.prepare([SPEC])
    assert one._brokers == killed._brokers
    assert pulsar.first == [], "it was not counted again at once"


def test_numbers_of_brokers_need_to_know_how_many_there_are(pulsar: FakePulsar, target: Made) -> None:
    """Of brokers of which one was away from the start on [faults] brokers let another one than the listed be taken."""
    tables = f"{COMMANDS}brokers = [1]\n"
    assert "state brokers = N" in str(target(pulsar, tables=tables, faults_allowed=True).cannot(FAULT))
    for top, table in (("brokers = 3", tables), ("", COMMANDS)):
        one = target(pulsar, top, table, faults_allowed=True)
        one.prepare([SPEC])
        assert one.cannot(FAULT) is None


def test_the_only_broker_of_the_file_is_brought_back_where_it_names_the_cluster(
    tmp_path: Path, pulsar: FakePulsar, target: Made, notes: list[str]
) -> None:
    """The name was compared with the id of the notes: every start and clean-up ended with "nothing listens there"."""
    up = tmp_path / "up"
    commands = f'[faults]\nkill = "true {{port}}"\nstart = "touch {up} && true {{port}}"\n'
    given: dict[str, Any] = {"file": "t.toml", "urls": pulsar.urls[:1], "faults_allowed": True}
    killed = target(pulsar, 'cluster = "kpg"', commands, run_id="killed", **given)
    killed.prepare([SPEC])
    (number,) = (number for number, at in killed._brokers.items() if at == pulsar.addresses[1])
    cluster = killed.cluster(SPEC)
    cluster.faults.do("kill", number)
    pulsar.down = DownUntil({1}, up)
    abandon(cluster)
    other = target(pulsar, 'cluster = "another"', commands, **given)
    with pytest.raises(ConfigurationError):
        other.prepare([SPEC])
    assert not up.exists(), "it may be a broker of another cluster"
    target(pulsar, 'cluster = "kpg"', commands, **given).prepare([SPEC])
    assert any("a run that has ended took a broker away: bringing it back" in note for note in notes)
    assert pulsar.namespaces == {}


@pytest.mark.parametrize("carried_out", [False, True])
def test_an_order_of_a_namespace_that_had_no_answer_leaves_nothing(
    tmp_path: Path, pulsar: FakePulsar, target: Made, carried_out: bool
) -> None:
    """One that was never made was said to be still there, and nothing more was done to the brokers."""

    def lost(request: Request) -> bool:
        ordered = request.method == "PUT" and request.path.endswith("/gate/kpg-r-1")
        if ordered and carried_out:
            pulsar.namespaces["gate/kpg-r-1"] = request.body
        return ordered

    one = target(pulsar)
    one.prepare([SPEC])
    pulsar.first += [(lost, None)] * 2 * len(pulsar.urls)
    with pytest.raises(BrokersFailedError):
        one.cluster(SPEC)
    assert (pulsar.first, pulsar.namespaces, one.left_behind) == ([], {}, ())
    assert left_in(tmp_path) == []
    assert one.cluster(SPEC)


def test_no_broker_is_taken_from_a_cluster_that_is_not_well(pulsar: FakePulsar, target: Made, clock: Clock) -> None:
    one = target(pulsar, tables='[faults]\nkill = "false"\nstart = "true"\n', faults_allowed=True)
    one.prepare([SPEC])
    cluster = one.cluster(SPEC)
    pulsar.sick, clock.times = {1}, 20.0
    with pytest.raises(
        TargetError, match=r"broker 2 is not taken away: the cluster was not well.*no message came back"
    ):
        cluster.faults.do("kill", 2)
    pulsar.sick, pulsar.writable_bookies = set(), 2
    with pytest.raises(TargetError, match=r"broker 2 is not taken away: .*fewer than 3 bookies take entries"):
        cluster.faults.do("kill", 2)
    assert not cluster.faults.away


@pytest.mark.parametrize(("since", "after"), [(None, {}), ("44", {SETTING: "44"})])
def test_a_killed_runs_setting_is_put_back_unless_somebody_has_changed_it(
    pulsar: FakePulsar, target: Made, notes: list[str], since: str | None, after: dict[str, str]
) -> None:
    spec = replace(SPEC, config=((SETTING, "33"),))
    killed = target(pulsar, run_id="killed")
    killed.prepare([spec])
    abandon(killed.cluster(spec))
    if since:
        pulsar.dynamic[SETTING] = since
    target(pulsar).prepare([SPEC])
    assert pulsar.dynamic == after
    words = f"left {SETTING} of the brokers alone" if since else f"put {SETTING} of the brokers back"
    assert any(words in note for note in notes)


def test_what_a_start_that_failed_has_put_back_is_its_owners_from_then_on(pulsar: FakePulsar, target: Made) -> None:
    """The owner then set the run's value for good, and the next start took it for what the run had left."""
    spec = replace(SPEC, config=((SETTING, "33"),))
    killed = target(pulsar, run_id="killed")
    killed.prepare([spec])
    abandon(killed.cluster(spec))
    pulsar.first.append(
        (lambda request: request.method == "DELETE" and "namespaces" in request.path, (403, {"reason": "no"}))
    )
    with pytest.raises(ConfigurationError, match="namespace gate/kpg-killed-1"):
        target(pulsar).prepare([SPEC])
    assert pulsar.dynamic == {}
    pulsar.dynamic[SETTING] = "33"
    target(pulsar).prepare([SPEC])
    assert pulsar.dynamic == {SETTING: "33"}
    assert pulsar.namespaces == {}


def test_what_somebody_else_has_set_is_left_alone(pulsar: FakePulsar, target: Made, notes: list[str]) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    live = one.cluster(SPEC).live_settings()
    live.change(((SETTING, "33"),))
    pulsar.dynamic[SETTING] = "44"
    with pytest.raises(InterferedError):
        live.restore()
    one.close()
    assert pulsar.dynamic == {SETTING: "44"}
    assert any(f"left {SETTING} of the brokers alone: somebody has set it to 44 since" in note for note in notes)


def test_a_setting_that_brokers_take_at_their_start_is_refused(pulsar: FakePulsar, target: Made) -> None:
    spec = replace(SPEC, config=(("webServicePort", "1"),))
    one = target(pulsar)
    one.prepare([spec])
    with pytest.raises(ConfigurationError, match="at their start only"):
        one.cluster(spec)
    assert pulsar.namespaces == {}, "and what was made for it is gone"


def test_a_topic_that_these_brokers_refuse_is_not_run(pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    assert one._trial is not None
    refused = one._trial.refusal(TopicSpec(partitions=1, replication_factor=4))
    assert refused is not None
    assert "Not enough non-faulty bookies" in refused
    assert one._trial.refusal(ONE) is None
    before = len(pulsar.requests)
    one._trial.refusal(ONE)
    assert len(pulsar.requests) == before, "each kind is tried once"
    assert pulsar.namespaces == {}


def test_a_topic_of_the_run_that_is_refused(pulsar: FakePulsar, target: Made) -> None:
    one = target(pulsar)
    one.prepare([SPEC])
    cluster = one.cluster(SPEC)
    with pytest.raises(TopicRefusedError):
        cluster.topics().create(f"{cluster.prefix}t", TopicSpec(partitions=1, replication_factor=4))


def test_two_clusters_are_two(pulsar: FakePulsar, target: Made) -> None:
    first, same = target(pulsar), target(pulsar, run_id="other")
    with pytest.raises(ConfigurationError, match="as --target does: name another"):
        TwoTargets(first, same, same._described).prepare([SPEC])
    with served(FakePulsar()) as another:
        another.metadata = "10.0.0.1:2181"
        second = target(another, run_id="second")
        two = TwoTargets(target(pulsar, run_id="first"), second, second._described)
        two.prepare([SPEC])
        assert two.cluster(SPEC).prefix != two.beside(SPEC).prefix
        two.close()
        assert not another.namespaces


def test_real_brokers_are_not_this_suites_to_shape(pulsar: FakePulsar, target: Made) -> None:
    with pytest.raises(ConfigurationError, match="not this suite's to change"):
        target(pulsar).prepare([SPEC, replace(SPEC, jvm_options=("-Xmx1g",))])
    one = target(pulsar)
    one.prepare([SPEC, replace(SPEC, bookie_config=(("journalSyncData", "false"),))])
    assert not asked(pulsar, "POST", "/configuration")


def test_more_than_the_file_allows_is_refused_before(pulsar: FakePulsar, target: Made) -> None:
    with pytest.raises(ConfigurationError, match=r"\[limits\] bytes allows 1.0 GB, and this run could write 2.0 GB"):
        target(pulsar).check_room(0, 2e9)
