"""Bad input: one clear error that names the value and the legal ones, exit code 2, nothing started, nothing left."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from fixtures.change_file import parse_override
from perfgate.experiment.room import most_bytes_at_a_time
from perfgate.host import ports
from perfgate.host.disk import check_disk
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.java import find_java, kafka_jars
from tests.harness.build import scenario
from tests.harness.run_gate import ROOT, gate


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tier", "huge"], "unknown tier 'huge'; legal: smoke, nightly, full"),
        (["--target", "moon"], "unknown target 'moon'; legal: embedded"),
        (["--driver", "go"], "unknown driver 'go'; legal: librdkafka"),
        (["--profile", "mine"], "unknown profile 'mine'; legal: dms-c6-large-2"),
        (
            ["--family", "colour"],
            "unknown family 'colour'; legal: acks, batch-size, cross-az, failover, latency, replicas",
        ),
        (["--set", "linger.ms=5"], "unknown path 'linger.ms'; legal: record.bytes, load.rate"),
        (["--set", "producer.linger.ms"], "must read path=value, as in producer.linger.ms=5"),
        (["--set", "producer.lingr.ms=5"], 'No such configuration property: "lingr.ms"; legal: '),
        (["--set", "producer.linger.ms=soon"], "Invalid value for configuration property"),
        (["--set", "topic.min.insync=2"], "unknown topic setting 'min.insync'; legal: min."),
        (["--set", "broker.num.io=1"], "unknown broker setting 'num.io'; legal: num."),
        (["--order", "random"], "unknown order 'random'; legal: declared, reversed"),
        (["--rounds", "1"], "--rounds '1' must be a whole number from 2 to 1000"),
        (["--rounds", "2.5"], "--rounds '2.5' must be a whole number"),
        (["--window", "nan"], "--window 'nan' must be a number from 0.5 to 3600"),
        (["--window", "-3"], "--window '-3' must be a number from 0.5 to 3600"),
        (["--kafka-version", "newest"], "--kafka-version 'newest' is not a Kafka release"),
        (["--replay", "nowhere/run.json"], "--replay nowhere/run.json: no such file"),
        (["--replay", "pytest.ini"], "--replay pytest.ini"),
        (["--replay", "tests/harness/data/run.json", "--set", "producer.linger.ms=5"], "leave one out"),
        (["--record-thresholds", "--set", "producer.linger.ms=5"], "needs the rows as declared: leave --set out"),
        (["--thresholds", "nowhere"], "nowhere does not exist"),
        (["--controllers", "0"], "--controllers '0' must be a whole number from 1 to 9"),
        (["--broker-cpus", "much"], "--broker-cpus 'much' must be a number"),
        (["--broker-memory", "1"], "--broker-memory '1' must be a whole number from 256"),
        (["--prometheus-url", "nowhere"], "--prometheus-url 'nowhere' must read like https://prometheus:9090"),
        (["--prometheus-url", "http://p:9090", "--with-prometheus"], "exclude one another"),
    ],
)
def test_a_bad_argument_is_one_error(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = gate(tmp_path, *arguments)
    assert done.code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_what_would_be_written_and_starts_nothing(tmp_path: Path) -> None:
    done = gate(tmp_path, "--dry-run", "--family", "cross-az")
    assert done.code == 0, done.output
    assert "written at the most:" in done.output
    assert "time at the most: about" in done.output
    assert "cross-az" in done.output
    assert list(tmp_path.iterdir()) == []


def test_reversed_order_reverses_rows_and_keeps_every_test(tmp_path: Path) -> None:
    declared, backwards = (
        [line.split()[0] for line in gate(tmp_path, "--list-scenarios", *order).output.splitlines() if "  " in line]
        for order in ((), ("--order=reversed",))
    )
    rows = ["acks-all", "batch-1k", "batch-16k", "cross-az", "replicas-3"]
    assert [name for name in declared if name in rows] == rows
    assert [name for name in backwards if name in rows] == rows[::-1]
    assert sorted(declared) == sorted(backwards)


def test_a_broken_thresholds_file_is_one_error(tmp_path: Path) -> None:
    thresholds = tmp_path / "thresholds"
    shutil.copytree(ROOT / "thresholds", thresholds)
    (thresholds / "mine.toml").write_text('[profile]\ntarget = "x"\n[row]\nrecords_per_s = { baseline = 1 }\n')
    done = gate(tmp_path / "results", f"--thresholds={thresholds}")
    assert done.code == 2
    assert f"{thresholds / 'mine.toml'}: [row] records_per_s lacks the key 'tolerance'" in done.output


def test_no_java_is_one_error_before_anything_starts(tmp_path: Path) -> None:
    done = gate(tmp_path, environment={"JAVA_HOME": "/nowhere"})
    assert done.code == 2, done.output
    assert "no Java to be had: /nowhere/bin/java (from JAVA_HOME=/nowhere) does not start" in done.output
    assert list(tmp_path.iterdir()) == []


def test_xdist_in_use_is_one_error(tmp_path: Path) -> None:
    """The option is xdist's; a stand-in declares it, so that xdist need not be installed to be refused."""
    (tmp_path / "standin.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--numprocesses', dest='numprocesses', default=None)\n"
    )
    arguments = ["-p", "standin", "--numprocesses", "2"]
    done = gate(tmp_path / "results", *arguments, environment={"PYTHONPATH": str(tmp_path)})
    assert done.code == 2
    assert "pytest-xdist is in use (-n)" in done.output


def test_a_version_that_does_not_exist_is_one_error() -> None:
    with pytest.raises(ConfigurationError, match=r"Kafka 0\.0\.1 does not resolve from Maven coordinates"):
        kafka_jars("0.0.1")


def test_a_jar_that_is_not_what_was_locked_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jar = next(jar for jar in kafka_jars("4.3.1").jars if jar.name == "kafka-server-4.3.1.jar")
    jar.unlink()  # it may be a hard link to the local Maven repository's
    jar.write_bytes(b"something else")
    with pytest.raises(ConfigurationError, match=r"cached jars differ from their lock file: kafka-server-4\.3\.1\.jar"):
        kafka_jars("4.3.1")


def test_java_home_that_is_no_java_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="exit status 3"):
        find_java()


def test_too_little_disk_is_one_error_with_need_and_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"too little disk: the run can write [\d.]+ GB at a time.*free"):
        check_disk(most_bytes_at_a_time([scenario()], 1e9), tmp_path)


def test_all_ports_taken_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken:
        def __enter__(self) -> "Taken":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, address: object) -> None:
            raise OSError(f"{address} in use")

    monkeypatch.setattr(socket, "socket", Taken)
    with pytest.raises(ConfigurationError, match=r"ports taken: found 0 of 3 free ports .* in 20000-32000"):
        ports.free_ports(3)


def test_an_override_is_stored_under_the_settings_usual_name() -> None:
    """Two names for one setting in one client would leave it to chance which of them counts."""
    assert parse_override("producer.queue.buffering.max.ms=7") == ("producer.linger.ms", "7")
    assert parse_override("topic.min.insync.replicas=2") == ("topic.min.insync.replicas", "2")
    assert parse_override("record.bytes=512") == ("record.bytes", 512)


def test_a_target_file_may_lie_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "staging.toml"
    path.parent.mkdir()
    path.write_text('bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n')
    done = gate(tmp_path / "results of it", "--list-scenarios", f"--target={path}")
    assert done.code == 0, done.output
    assert "batch-1k" in done.output
    dry = subprocess.run(["make", "-n", "gate", f"TARGET={path}"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"'--target={path}'" in dry.stdout, "apart from its option pytest takes the path for one of tests"
