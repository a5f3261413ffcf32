"""Pulsar of others, secured, by a file: what a run does there, what it is refused, and that nothing is left."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import SAME_ZONE, ClusterSpec, TopicSpec, settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.pulsar.attached.cluster import AttachedPulsar
from perfgate.systems.pulsar.attached.described import load_target
from perfgate.systems.pulsar.attached.external import PulsarTarget
from perfgate.systems.pulsar.attached.trial import _options
from tests.harness.live.real_brokers import running
from tests.harness.run_gate import BEGUN_BOUND_S, HANG_BOUND_S, ROOT, gate, gate_command
from tests.harness.secured_pulsar import (
    NOBODY,
    SUPERUSER,
    TENANT,
    TENANT_ADMIN,
    SecuredPulsar,
    secured_pulsar,
    token,
)

pytestmark = pytest.mark.slow
SPEC = ClusterSpec(system="pulsar", bookies=3)
THREE = TopicSpec(partitions=3, replication_factor=3)
SETTING = "dispatcherMaxRoundRobinBatchSize"
SHORT = ("--tier", "smoke", "-k", "paced-500", "--rounds", 2, "--window", 1, "--broker-warmup", 0)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPulsar]:
    with secured_pulsar(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the manifests of these runs apart from those of others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def opened(tmp_path: Path, notes: list[str]) -> Iterator[Any]:
    """Return a function that makes the target of a file."""
    made: list[PulsarTarget] = []

    def target(path: Path, **permitted: Any) -> PulsarTarget:
        permitted = {"run_id": "r", "manifests": tmp_path / "m", "parallel_is_fine": True, **permitted}
        made.append(PulsarTarget(load_target(path), note=notes.append, **permitted))
        return made[-1]

    yield target
    for one in made:
        one.close()
        if one._occupied is not None:
            one._occupied.close()


def sent(cluster: AttachedPulsar, topic: str, messages: int) -> int:
    """Send so many messages by the file's service URL; return how many were confirmed."""
    pulsar: Any = import_module("pulsar")
    client = pulsar.Client(cluster.bootstrap(SAME_ZONE), **_options(dict(cluster.client_settings()), pulsar))
    confirmed: list[Any] = []
    try:
        producer = client.create_producer(topic, block_if_queue_full=True, send_timeout_millis=60_000)
        for _ in range(messages):
            producer.send_async(bytes(100), lambda result, _: confirmed.append(result))
        producer.flush()
    finally:
        client.close()
    return confirmed.count(pulsar.Result.Ok)


@pytest.mark.parametrize("role", [TENANT_ADMIN, SUPERUSER])
def test_a_run_leaves_nothing(brokers: SecuredPulsar, tmp_path: Path, opened: Any, role: str) -> None:
    target = opened(brokers.target_file(tmp_path, role))
    target.prepare([SPEC])
    assert brokers.left() == []
    cluster = target.cluster(SPEC)
    topic = f"{cluster.prefix}t"
    cluster.topics().create(topic, THREE)
    assert sum(cluster.topics().end_offsets(topic, 3)) == 0
    assert sent(cluster, topic, 3_000) == 3_000
    assert sum(cluster.topics().end_offsets(topic, 3)) == 3_000
    cluster.check()
    seen = role == SUPERUSER
    if seen:
        assert set(cluster.topics().leaders(topic)) <= {1, 2, 3}
    assert cluster.facts()["brokers"] == (3 if seen else 0)
    assert "Not enough non-faulty bookies" in str(target._trial.refusal(TopicSpec(partitions=1, replication_factor=4)))
    assert cluster.rtt_ms(SAME_ZONE) < 1000
    target.close()
    assert brokers.left() == []
    assert not list((tmp_path / "m").glob("*.jsonl"))
    assert target.gone() == ""


@pytest.mark.parametrize(
    ("role", "changed", "words"),
    [
        (NOBODY, {}, f"do not let this role make a namespace of tenant {TENANT}.*pulsar-admin tenants update"),
        (TENANT_ADMIN, {"token": token(TENANT_ADMIN, b"another key, as long as it has to")}, "refused the log-in"),
        (TENANT_ADMIN, {"tables": "[client]\n"}, "unknown issuer.*tlsTrustCertsFilePath"),
        (TENANT_ADMIN, {"tenant": '"none"'}, "Tenant does not exist"),
        (TENANT_ADMIN, {"cluster": '"other"'}, "cluster is other, and these brokers are of cluster"),
        (SUPERUSER, {"brokers": "4"}, "brokers = 4, and the cluster has 3"),
        (TENANT_ADMIN, {"service_url": '"pulsar+ssl://127.0.0.1:1"'}, "no client can send to and read from"),
    ],
    ids=[
        "another role",
        "a forged token",
        "no authority",
        "no tenant",
        "another cluster",
        "a broker more",
        "no service",
    ],
)
def test_what_is_refused_has_made_nothing(
    brokers: SecuredPulsar, tmp_path: Path, opened: Any, role: str, changed: dict[str, str], words: str
) -> None:
    target = opened(brokers.target_file(tmp_path, role, **changed))
    with pytest.raises(ConfigurationError, match=words) as caught:
        target.prepare([SPEC])
    assert brokers.left() == []
    assert changed.get("token", token(role)) not in str(caught.value)


def test_settings_of_the_brokers_are_put_back(brokers: SecuredPulsar, tmp_path: Path, opened: Any) -> None:
    spec = ClusterSpec(system="pulsar", bookies=3, config=settings({SETTING: 33}))
    target = opened(brokers.target_file(tmp_path, SUPERUSER))
    target.prepare([spec])
    cluster = target.cluster(spec)
    assert brokers.admin.dynamic_values() == {SETTING: "33"}
    live = cluster.live_settings()
    assert live.fixed([SETTING, "webServicePort"]) == ["webServicePort"]
    target.close()
    assert brokers.admin.dynamic_values() == {}


def test_no_fault_takes_a_broker_of_a_cluster_that_is_not_well_and_none_stays_away(
    brokers: SecuredPulsar, tmp_path: Path, opened: Any
) -> None:
    """A broker stands still by the file's commands, and goes on however the run ends."""
    pids = tmp_path / "pids"
    pids.mkdir()
    for broker, port in brokers.web_ports.items():
        (pids / str(port)).write_text(str(brokers.cluster.pids()[broker]))
    path = brokers.target_file(tmp_path, SUPERUSER)
    commands = {"pause": f"kill -STOP $(cat {pids}/{{port}})", "resume": f"kill -CONT $(cat {pids}/{{port}})"}
    path.write_text(path.read_text() + "[faults]\n" + "".join(f"{n} = '{line}'\n" for n, line in commands.items()))
    target = opened(path, faults_allowed=True)
    target.prepare([SPEC])
    cluster = target.cluster(SPEC)
    topic = f"{cluster.prefix}t"
    cluster.topics().create(topic, THREE)
    with cluster.watch(topic, SAME_ZONE) as watch:
        assert watch.last.full
        victim = watch.last.leaders[0]
        cluster.faults.do("pause", victim)
        moved = f"partition 0 stayed with broker {victim}"

        def elsewhere() -> None:
            cluster.check()  # this broker is excused
            if victim in watch.last.leaders or victim in watch.last.brokers:
                raise NotYet(str(watch.last))

        poll_until(moved, elsewhere, within_s=BEGUN_BOUND_S, every_s=0.5)
        with pytest.raises(TargetError, match="two-down is not true"):
            cluster.faults.do("pause", next(one for one in (1, 2, 3) if one != victim))
    target.close()
    assert target.left_behind == ()
    assert brokers.left() == []
    assert target.gone() == ""


def cleaned_up(target: Path, *arguments: str) -> tuple[int, str]:
    """Run what `make clean-up` runs; return its exit code and what it said."""
    command = [sys.executable, "-m", "perfgate", "clean-up", str(target), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_BOUND_S)
    return done.returncode, done.stdout + done.stderr


def test_a_run_by_its_file_from_start_to_end_and_one_that_is_killed(brokers: SecuredPulsar, tmp_path: Path) -> None:
    path = brokers.target_file(tmp_path)
    done = gate(tmp_path / "whole", *SHORT, f"--target={path}")
    assert done.measured, done.output
    assert brokers.left() == []
    row = done.scenario("paced-500")
    assert row["accounting"]["acked"] == row["accounting"]["offset_delta"] > 0
    assert done.run["target"]["durability"] == "unknown"
    secret = token(TENANT_ADMIN)
    assert secret not in done.output
    written = [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".token"]
    assert not [file for file in written if secret.encode() in file.read_bytes()]
    with running(gate_command(tmp_path / "killed", *SHORT, "--window", 60, f"--target={path}")) as run:
        deadline = time.monotonic() + BEGUN_BOUND_S
        while not any("probe" not in name for name in brokers.left()):
            assert time.monotonic() < deadline
            assert run.poll() is None
            time.sleep(0.2)
        code, said = cleaned_up(path)
        assert (code, "another run of this machine is on the cluster" in said) == (2, True), said
        run.send_signal(signal.SIGKILL)
        run.wait()
    (name,) = brokers.left()
    code, said = cleaned_up(path)
    assert (code, f"removed namespace {name}" in said, brokers.left()) == (0, True, []), said
