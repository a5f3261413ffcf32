"""Real brokers by file: what a run does to them, what it leaves, and what it says when it cannot reach them."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from perfgate.host.journal import this_machine
from perfgate.host.ports import HOST
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.client.admin import cluster_id_at, dynamic_value, set_broker
from perfgate.systems.kafka.client.topics import PREFIX
from tests.harness.live.real_brokers import SETTING, SHORT, content, own_state, produce, running, topics
from tests.harness.run_gate import BEGUN_BOUND_S, HANG_BOUND_S, PROBES, ROOT, UNDECIDED, Finished, gate, gate_command
from tests.harness.secured import ALL_ACTIONS, PASSWORD, STORE_PASSWORD, USER, Secured, certificate, run_tool, secured

__all__ = ["own_state"]

MESSAGE_BOUND_S = 150
"""So long a wrong set-up may take to be told on a slow machine, the start of Python included."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as made:
        yield made


def run(folder: Path, target: Path, *arguments: object) -> Finished:
    return gate(folder / "results", PROBES, *(arguments or SHORT), "--target", target)


def test_every_server_tells_which_cluster_it_is_of(brokers: Secured, tmp_path: Path) -> None:
    """The client that asked was gone before the answer: none ever told, and none was of another cluster."""
    client = load_target(brokers.target_file(tmp_path), lambda stores: {}).client
    told = brokers.admin.describe_cluster().result(timeout=60).cluster_id
    assert cluster_id_at(brokers.bootstrap, client) == told
    assert cluster_id_at(f"{HOST}:9", client) == ""
    stated = brokers.target_file(tmp_path)
    stated.write_text(f'cluster-id = "another"\n{stated.read_text()}')
    refused(run(tmp_path, stated), f"cluster-id is another, and these brokers are of cluster {told}", tmp_path)


def test_a_row_runs_over_tls_and_scram_and_leaves_nothing(brokers: Secured, tmp_path: Path) -> None:
    benchmark, junit = tmp_path / "results" / "benchmark.json", tmp_path / "results" / "junit.xml"
    done = run(tmp_path, brokers.target_file(tmp_path), *SHORT, f"--benchmark-json={benchmark}", f"--junit-xml={junit}")
    assert done.measured, done.output
    target = done.run["target"]
    assert (target["kind"], target["name"], target["brokers"]) == ("brokers", "staging", 1)
    entry = done.scenario("paced-slow")
    assert entry["verdict"] in ("MISSING", "INCONCLUSIVE", "INVALID")
    assert entry["accounting"]["attempted"] == entry["accounting"]["acked"] == entry["accounting"]["offset_delta"] > 0
    assert "no [prometheus]" in entry["rounds"][0]["usage_unavailable"]
    assert "gate sees no topic but those of runs" in done.output
    assert topics(brokers) == []
    assert not list((tmp_path / "state").rglob("*.jsonl"))
    for path in (p for p in tmp_path.rglob("*") if p.is_file() and p.name != "staging.toml"):
        assert PASSWORD.encode() not in path.read_bytes(), path
    assert PASSWORD not in done.output
    # A noisy machine may send late in every round: then there is no p99 to write.
    assert benchmark.exists() == any(
        not any("latency_ms" in flaw["metrics"] for flaw in one["flaws"]) for one in entry["rounds"]
    )
    assert junit.exists()


def test_passwords_are_not_in_any_command_line(brokers: Secured, tmp_path: Path) -> None:
    command = gate_command(tmp_path / "results", PROBES, *SHORT, "--target", brokers.target_file(tmp_path))
    seen: set[str] = set()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            seen.update(subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout.split("\n"))
            time.sleep(0.2)
    assert process.returncode in (0, UNDECIDED)
    assert any("perfgate.load.worker" in line for line in seen)
    assert not [line for line in seen if PASSWORD in line or STORE_PASSWORD in line]


def wrong(brokers: Secured, folder: Path, case: str) -> Path:
    """Return a target file with this one thing wrong."""
    closed = f"{HOST}:9"
    match case:
        case "password":
            return brokers.target_file(folder, sasl_password="wrong-s3cr3t")
        case "authority":
            (folder / "other").mkdir()
            certificate(folder / "other", "other", san="dns:other")
            return brokers.target_file(folder, ssl_ca_location=str(folder / "other" / "ca.pem"))
        case "no tls":
            return brokers.target_file(folder, security_protocol="SASL_PLAINTEXT")
        case "closed port":
            path = brokers.target_file(folder)
            path.write_text(path.read_text().replace(brokers.bootstrap, closed))
            return path
        case "name":
            path = brokers.target_file(folder)
            path.write_text(path.read_text().replace(brokers.bootstrap, "no-such-host.invalid:9093"))
            return path
    raise AssertionError(case)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("password", "refused the log-in as 'gate'"),
        ("authority", "unknown issuer"),
        ("no tls", "check security.protocol"),
        ("closed port", "nothing listens there"),
        ("name", "does not resolve"),
    ],
)
def test_what_is_wrong_is_one_message_with_the_remedy(brokers: Secured, tmp_path: Path, case: str, words: str) -> None:
    path, begin = wrong(brokers, tmp_path, case), time.monotonic()
    refused(run(tmp_path, path), words, tmp_path)
    assert time.monotonic() - begin < MESSAGE_BOUND_S


def refused(done: Finished, words: str, folder: Path) -> None:
    """Hold a run that must have been refused before anything was measured."""
    assert done.code == 2, done.output
    assert words in done.output
    assert "s3cr3t" not in done.output
    assert "Traceback" not in done.output
    assert "fixtures." not in done.output, "the name of a type tells nobody anything"
    assert not list((folder / "results").glob("2*"))


def test_an_address_that_swallows_everything_is_one_message(brokers: Secured, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0), backlog=1) as server:  # accepts connections and never answers
        path = brokers.target_file(tmp_path)
        path.write_text(path.read_text().replace(brokers.bootstrap, f"{HOST}:{server.getsockname()[1]}"))
        refused(run(tmp_path, path), "no answer within", tmp_path)


def test_one_of_several_servers_down_is_a_note(brokers: Secured, tmp_path: Path) -> None:
    path = brokers.target_file(tmp_path)
    path.write_text(path.read_text().replace(brokers.bootstrap, f"{HOST}:9,{brokers.bootstrap}"))
    done = run(tmp_path, path)
    assert done.measured, done.output
    assert "note: 127.0.0.1:9: nothing listens there" in done.output


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ({"san": "dns:kafka-1.example"}, "is not for the name"),
        pytest.param({"start": "-30d", "days": 10}, "has expired", marks=pytest.mark.slow),
    ],
)
def test_a_certificate_that_is_not_good_is_one_message(tmp_path: Path, store: dict[str, object], words: str) -> None:
    options = {"san": f"ip:{HOST}", **store}
    with secured(tmp_path, store=certificate(tmp_path, "bad", **options)) as brokers:  # type: ignore[arg-type]
        refused(run(tmp_path, brokers.target_file(tmp_path)), words, tmp_path)


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param("create", marks=pytest.mark.slow),
        pytest.param("write", marks=pytest.mark.slow),
        "describe",
        "delete",
    ],
)
def test_a_missing_permission_is_named_with_the_command_that_grants_it(
    brokers: Secured, tmp_path: Path, missing: str
) -> None:
    user = f"without-{missing}"
    brokers.add_user(user)
    implied = (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.READ, AclOperation.DELETE)
    left_out = implied if missing == "describe" else (getattr(AclOperation, missing.upper()),)
    brokers.allow(user, *(action for action in ALL_ACTIONS if action not in left_out))
    done = run(tmp_path, brokers.target_file(tmp_path, sasl_username=user))
    refused(done, "the brokers do not let", tmp_path)
    assert missing in done.output.partition("do not let")[2].partition("topics")[0]
    assert "kafka-acls --add" in done.output
    left = topics(brokers)
    for name in left:
        brokers.admin.delete_topics([name])[name].result(timeout=60)
    # What may be made but not deleted can only be found out by making it: it is empty, and the message names it.
    assert len(left) == (missing in ("delete", "describe"))
    assert all(f"topic {name} is empty and stays" in done.output for name in left)


def topic_of_a_run(brokers: Secured) -> list[str]:
    """Wait until a run has made the topic of its row."""
    deadline = time.monotonic() + BEGUN_BOUND_S
    while not (found := [name for name in topics(brokers) if name.endswith("paced-slow")]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def test_a_killed_run_is_cleaned_up_by_the_next_and_nothing_else_is_touched(brokers: Secured, tmp_path: Path) -> None:
    foreign = {f"{PREFIX}foreign": [b"ours", b"not yours"], "payments": [b"1", b"2"]}
    for topic, values in foreign.items():
        produce(brokers, topic, values)
    path = brokers.target_file(tmp_path)
    command = gate_command(tmp_path / "results", PROBES, "-k", "paced-slow", "--window", 60, "--target", path)
    with running(command):
        (name,) = topic_of_a_run(brokers)
    done = run(tmp_path, path)
    assert done.measured, done.output
    assert f"removed topic {name}, left by run" in done.output
    assert topics(brokers) == sorted(foreign)
    for topic, values in foreign.items():
        assert content(brokers, topic, len(values)) == values
    assert "removed" not in run(tmp_path / "again", path).output
    for topic in foreign:
        brokers.admin.delete_topics([topic])[topic].result(timeout=60)


def test_a_quota_is_told_and_no_number_is_judged(brokers: Secured, tmp_path: Path) -> None:
    entity = ("--alter", "--entity-type", "users", "--entity-name", USER)
    # Kafka averages over ten seconds: what the run sends in two seconds must exceed this tenfold.
    run_tool(brokers.cluster, "kafka.admin.ConfigCommand", *entity, "--add-config", "producer_byte_rate=60000")
    try:
        done = run(tmp_path, brokers.target_file(tmp_path))
    finally:
        run_tool(brokers.cluster, "kafka.admin.ConfigCommand", *entity, "--delete-config", "producer_byte_rate")
    assert done.code == 6, done.output
    assert done.scenario("paced-slow")["verdict"] == "INVALID"
    assert "the brokers throttled this client" in done.output
    assert "lift it for this client" in done.output
    assert topics(brokers) == []


def test_a_run_stops_at_once_when_too_many_sends_fail(brokers: Secured, tmp_path: Path) -> None:
    shown = ("--showlocals", "--full-trace", "--tb=long")
    done = run(tmp_path, brokers.target_file(tmp_path), *SHORT, *shown, "--set", "topic.max.message.bytes=200")
    assert PASSWORD not in done.output
    assert done.code == 8, done.output
    assert "stopped at once, as the target file asks for" in done.output
    assert "sends failed" in done.output
    assert topics(brokers) == []


def dynamic(brokers: Secured) -> str | None:
    return dynamic_value(brokers.admin, "1", SETTING)


def test_broker_settings_are_only_changed_when_file_and_person_say_so(brokers: Secured, tmp_path: Path) -> None:
    change = (*SHORT, "--set", f"broker.{SETTING}=16000")
    allowed = brokers.target_file(tmp_path, more="[broker-config]\nallowed = true\n")
    done = run(tmp_path, allowed, *change)
    assert done.code == 6, "nothing was judged: " + done.output
    assert "not run: paced-slow: it needs broker settings" in done.output
    brokers.allow_settings(USER)
    command = gate_command(
        tmp_path / "long", PROBES, *change, "--window", 60, "--target", allowed, "--allow-broker-config"
    )
    with running(command):
        topic_of_a_run(brokers)
        assert dynamic(brokers) == "16000"
    assert dynamic(brokers) == "16000", "it was killed"
    done = run(tmp_path / "next", allowed)
    assert done.measured, done.output
    assert f"put {SETTING} of broker 1 back" in done.output
    assert dynamic(brokers) is None
    done = run(tmp_path / "whole", allowed, *change, "--allow-broker-config")
    assert done.measured, done.output
    assert dynamic(brokers) is None
    assert topics(brokers) == []


def test_a_comparison_killed_between_two_settings_is_put_back(brokers: Secured, tmp_path: Path) -> None:
    brokers.allow_settings(USER)
    allowed = brokers.target_file(tmp_path, more="[broker-config]\nallowed = true\n")
    change = tmp_path / "change.toml"
    change.write_text(f'name = "cleaner"\n[broker]\n"{SETTING}" = 16000\n')
    compared = ("--compare", change, "--budget", "60s", "--target", allowed, "--allow-broker-config")
    with running(gate_command(tmp_path / "killed", PROBES, *SHORT, *compared)) as process:
        topic_of_a_run(brokers)
        deadline = time.monotonic() + BEGUN_BOUND_S
        while dynamic(brokers) != "16000":
            assert process.poll() is None, "it ended without the change"
            assert time.monotonic() < deadline
    done = run(tmp_path / "next", allowed)
    assert done.measured, done.output
    assert f"put {SETTING} of broker 1 back" in done.output
    assert dynamic(brokers) is None
    assert topics(brokers) == []


@pytest.mark.slow
def test_a_second_run_is_refused_while_the_first_goes_on(brokers: Secured, tmp_path: Path) -> None:
    path = brokers.target_file(tmp_path)
    command = gate_command(tmp_path / "first", PROBES, "-k", "paced-slow", "--window", 60, "--target", path)
    with running(command) as first:
        (name,) = topic_of_a_run(brokers)
        refused(run(tmp_path, path), "another run of this machine is on the cluster", tmp_path)
        assert first.poll() is None
        theirs = name.rpartition("-00")[0]
        assert [topic.startswith(theirs) for topic in topics(brokers)] == [True]
    assert run(tmp_path / "after", path).measured
    assert topics(brokers) == []


def cleaned_up(target: Path, *arguments: str) -> tuple[int, str]:
    """Run what `make clean-up` runs; return its exit code and what it said."""
    command = [sys.executable, "-m", "perfgate", "clean-up", str(target), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_BOUND_S)
    return done.returncode, done.stdout + done.stderr


def test_a_killed_run_is_cleaned_up_without_another_run(brokers: Secured, tmp_path: Path) -> None:
    path = brokers.target_file(tmp_path)
    command = gate_command(tmp_path / "killed", PROBES, "-k", "paced-slow", "--window", 60, "--target", path)
    with running(command):
        topic_of_a_run(brokers)
        code, said = cleaned_up(path)
        assert (code, "another run of this machine is on the cluster" in said) == (2, True)
    (name,) = topics(brokers)
    code, said = cleaned_up(path, "--run", "another")
    assert (code, "no run another is noted" in said, topics(brokers)) == (0, True, [name])
    code, said = cleaned_up(path)
    assert (code, f"removed topic {name}" in said, topics(brokers)) == (0, True, []), said
    code, said = cleaned_up(path)
    assert (code, "nothing to put back: no run is noted" in said) == (0, True), said
    path.write_text(path.read_text().replace(brokers.bootstrap, f"{HOST}:9"))
    code, said = cleaned_up(path)
    assert (code, "nothing was put back" in said, "nothing listens there" in said) == (2, True, True), said


@pytest.mark.slow
def test_what_another_host_left_waits_for_consent_and_an_operators_change_stays(
    brokers: Secured, tmp_path: Path
) -> None:
    brokers.allow_settings(USER)
    path = brokers.target_file(tmp_path, more="[broker-config]\nallowed = true\n")
    command = gate_command(
        tmp_path / "killed",
        PROBES,
        *SHORT,
        "--window",
        60,
        "--set",
        f"broker.{SETTING}=16000",
        "--target",
        path,
        "--allow-broker-config",
    )
    with running(command):
        (name,) = topic_of_a_run(brokers)
    (manifest,) = (tmp_path / "state").rglob("*.jsonl")
    text, here = manifest.read_text(), this_machine(0)
    assert f'"host": "{here.host}"' in text
    manifest.write_text(text.replace(f'"{here.host}"', '"runner-7"').replace(here.boot, "another"))
    set_broker(brokers.admin, "1", SETTING, "20000")
    try:
        done = run(tmp_path, path)
        assert done.measured, done.output
        assert "note: not put back, because it may still run there" in done.output
        assert "runner-7" in done.output
        assert topics(brokers) == [name]
        done = run(tmp_path / "asked", path, *SHORT, "--clean-up-others")
        assert done.measured, done.output
        assert f"removed topic {name}" in done.output
        assert f"left {SETTING} of broker 1 alone" in done.output
        assert topics(brokers) == []
        assert dynamic(brokers) == "20000"
    finally:
        set_broker(brokers.admin, "1", SETTING, None)


@pytest.mark.parametrize("store_type", ["PKCS12", pytest.param("JKS", marks=pytest.mark.slow)])
def test_certificates_of_clients_from_a_java_properties_file(tmp_path: Path, store_type: str) -> None:
    with secured(tmp_path, protocol="SSL") as brokers:
        store = certificate(tmp_path, "gate", san="dns:gate", store_type=store_type)
        brokers.allow("CN=gate", *ALL_ACTIONS)
        (tmp_path / "client.properties").write_text(
            f"security.protocol=SSL\nssl.keystore.location={store}\nssl.keystore.password={STORE_PASSWORD}\n"
            f"ssl.keystore.type={store_type}\nssl.truststore.location={store}\nssl.truststore.type={store_type}\n"
            f"ssl.truststore.password={STORE_PASSWORD}\nssl.key.password={STORE_PASSWORD}\n"
        )
        path = tmp_path / "staging.toml"
        path.write_text(
            f'bootstrap-servers = "{brokers.bootstrap}"\n[client]\nproperties-file = "client.properties"\n'
            '[limits]\nbytes = "200 GB"\nmib-per-s = 400\n'
        )
        done = run(tmp_path, path)
    assert done.measured, done.output
    assert STORE_PASSWORD not in done.output
    assert done.scenario("paced-slow")["accounting"]["acked"] > 0


def test_results_that_cannot_be_written_are_told_before_anything_is_loaded(brokers: Secured, tmp_path: Path) -> None:
    done = gate(Path("/proc/results"), PROBES, *SHORT, "--target", brokers.target_file(tmp_path))
    assert done.code == 2, done.output
    assert "results cannot be written to /proc/results" in done.output
    assert "Traceback" not in done.output
    assert topics(brokers) == []
