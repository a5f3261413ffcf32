"""The official tools: what they printed (recorded: 3.9.1, 4.1.1, 4.3.1) is read strictly; rows become commands."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import javaproperties
import pytest

from perfgate.host.java import find_java
from perfgate.load.tools import OutputError, write_properties
from perfgate.model import Consumers, Keys, Load, Payload, Scenario
from perfgate.model.load import LoadError, LoadSpec, Observer
from perfgate.systems.kafka.load.java import JavaDriver, _sent
from perfgate.systems.kafka.load.official import (
    by_hand,
    inexpressible,
    java_settings,
    parse_consumer,
    parse_producer,
)
from tests.harness.build import scenario
from tests.harness.build.clock import Clock

RECORDED = Path(__file__).parents[1] / "data" / "official"
VERSIONS = ("3.9.1", "4.1.1", "4.3.1")


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("version", "rate", "p99"), [("3.9.1", 6350.550381, 2882), ("4.1.1", 7951.2, 1053), ("4.3.1", 7966.011683, 520)]
)
def test_a_producers_summary(version: str, rate: float, p99: float) -> None:
    output = parse_producer(recorded(f"producer-{version}"))
    assert (output.total.records, output.total.records_per_s, output.total.p99_ms) == (60_000, rate, p99)
    assert output.steady is None
    assert output.errors == {}


def on_kafka(row: Scenario, version: str) -> Scenario:
    return replace(row, cluster=replace(row.cluster, version=version))


def test_a_producers_steady_state_after_its_warm_up() -> None:
    output = parse_producer(recorded("producer-4.3.1-warmup"), warmed_up=True)
    assert output.total.records == 60_000
    assert output.steady is not None
    assert (output.steady.records, output.steady.avg_ms, output.steady.p999_ms) == (40_000, 15.49, 148)


@pytest.mark.parametrize("version", VERSIONS)
def test_zero_records_with_exit_code_0_is_an_error_with_its_cause(version: str) -> None:
    assert recorded(f"producer-{version}-all-failed").endswith("[exit 0]\n")
    with pytest.raises(OutputError, match=r"sent 0 records: \d x RecordTooLargeException"):
        parse_producer(recorded(f"producer-{version}-all-failed"))


def test_a_producer_that_refused_its_settings() -> None:
    with pytest.raises(OutputError, match="gave no summary: 1 x ConfigException"):
        parse_producer(recorded("producer-4.3.1-refused"))


SUMMARY = recorded("producer-4.3.1").splitlines()[-2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no summary"),
        (SUMMARY.partition(", 4 ms 50th")[0], "lacks its percentiles"),
        (SUMMARY.replace("520 ms 99th", "NaN ms 99th"), "no number"),
        (SUMMARY.replace("93.32 ms avg", "NaN ms avg"), "no number"),
        (f"{SUMMARY}\n{SUMMARY}", "two summaries"),
        ("499 records sent, 99.8 records/sec (0.10 MB/sec), 2.0 ms avg latency, 9.0 ms max latency.", "no summary"),
    ],
)
def test_broken_output_of_a_producer(text: str, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        parse_producer(text)


def test_a_warm_up_without_its_second_summary() -> None:
    with pytest.raises(OutputError, match="no summary of its steady state"):
        parse_producer(recorded("producer-4.3.1"), warmed_up=True)


def test_time_blocked_by_a_full_buffer_is_read_from_the_metrics() -> None:
    metric = (
        "producer-metrics:bufferpool-wait-time-ns-total:{client-id=perf-producer-client}             : 2333249817.000"
    )
    assert parse_producer(f"{SUMMARY}\n{metric}\n").blocked_s == pytest.approx(2.333, abs=1e-3)


@pytest.mark.parametrize(("longest", "ms"), [("990.000", 990), ("0.000", 0), ("NaN", 0)])
def test_a_quota_of_the_brokers_is_read_from_the_metrics(longest: str, ms: int) -> None:
    """What a quota let through passed for what the brokers can do."""
    metric = f"producer-metrics:produce-throttle-time-max:{{client-id=kafka-perf-gate}}                   : {longest}"
    output = parse_producer(f"{SUMMARY}\n{metric}\n")
    assert _sent([output], [output], 10_000, 10.0, 60_000, 1024).throttled_ms == ms


@pytest.mark.parametrize(("version", "records"), [("3.9.1", 45_726), ("4.1.1", 33_156), ("4.3.1", 48_236)])
def test_a_consumers_progress(version: str, records: int) -> None:
    lines = parse_consumer(recorded(f"consumer-{version}-detailed"))
    assert [line.records for line in lines] == [1, records]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_that_read_nothing(version: str) -> None:
    assert recorded(f"consumer-{version}-nothing").endswith("[exit 0]\n")
    with pytest.raises(OutputError, match="read too few records"):
        parse_consumer(recorded(f"consumer-{version}-nothing"))


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_that_are_not_the_detailed_ones(version: str) -> None:
    with pytest.raises(OutputError, match="columns that are not known"):
        parse_consumer(recorded(f"consumer-{version}"))


def test_a_consumer_that_has_said_nothing_yet() -> None:
    assert parse_consumer("") == []


def test_settings_by_the_java_clients_names() -> None:
    row = replace(scenario(), producer=(("queue.buffering.max.kbytes", "32768"), ("socket.nagle.disable", "true")))
    settings = java_settings(row)
    assert settings["buffer.memory"] == "33554432"
    assert settings["enable.idempotence"] == "false"
    assert "socket.nagle.disable" not in settings


def test_how_long_a_client_waits_for_an_answer_is_one_setting_of_java_s() -> None:
    row = replace(scenario(), producer=(("request.timeout.ms", "30000"), ("socket.timeout.ms", "5000")))
    assert java_settings(row)["request.timeout.ms"] == "5000"
    assert java_settings(replace(row, producer=row.producer[:1]))["request.timeout.ms"] == "30000"


class Tool:
    """A driver whose Java takes 100 records/s, by the test's clock, and does not end."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock, self._asked, self._words = clock, folder / "asked", list[str]()
        os.mkfifo(self._asked)
        java = folder / "java"
        java.write_text(f'#!/bin/sh\necho "$@" > {self._asked}\nexec sleep 60\n')
        java.chmod(0o755)
        self._driver = JavaDriver(java=java, classpath="", version="4.3.1")

    def _written(self) -> int:
        self._words = self._words or self._asked.read_text().split()  # once the tool has begun
        return int(100 * self._clock.now)

    def records_asked_for(self, row: Scenario) -> int:
        self._words = []
        spec = LoadSpec(
            scenario=row, bootstrap="h:1", security=(), topic="t", run_id="r", seed=1, window_s=2.0, warmup_max_s=1.0
        )
        observer = Observer(
            edge=lambda at: None, check=lambda: None, progress=lambda phase, last: None, written=self._written
        )
        with pytest.raises(LoadError, match=r"did not get through in .* sending the rest"):
            self._driver.run(spec, observer)
        return int(self._words[self._words.index("--num-records") + 1])


def test_a_guess_that_was_far_too_high_costs_one_round(tmp_path: Path, clock: Clock) -> None:
    """Each round asked a slow client for 20,000 records/s, took minutes and was INVALID."""
    tool, row = Tool(tmp_path, clock), replace(scenario(), load=Load(kind="capped", rate=1e6))
    assert tool.records_asked_for(row) == 90_000
    assert tool.records_asked_for(row) == pytest.approx(450, rel=0.05)


def test_the_rate_of_one_side_of_a_comparison_is_no_guess_for_the_other(tmp_path: Path, clock: Clock) -> None:
    """Both have one name: a slow side was asked for what the fast one had sent."""
    tool, row = Tool(tmp_path, clock), replace(scenario(), load=Load(kind="capped", rate=1e6))
    other = replace(row, producer=(("linger.ms", "5"),))
    assert [tool.records_asked_for(one) for one in (row, other)] == [90_000, 90_000]


def test_the_tools_write_numbers_with_a_decimal_point_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a decimal comma no summary was understood, and every round was INVALID."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de -Duser.country=DE")
    command = JavaDriver(java=find_java(), classpath="", version="4.3.1")._command("ProducerPerformance")
    options = map(str, command[: command.index("-cp")])
    said = subprocess.run([*options, "-XshowSettings:locale", "-version"], capture_output=True, text=True, check=True)
    assert "default format locale = English (United States)" in said.stderr


PACED = Load(kind="paced", rate=10)
BACKLOG = Load(kind="backlog", records=1000)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (replace(scenario(), load=PACED), "no open loop"),
        (replace(scenario(), keys=Keys(kind="random")), "sends no keys"),
        (replace(scenario(), payload=Payload(kind="text", ratio=2)), "makes its own payload"),
        (replace(scenario(), producer=(("compression.type", "lz4"),)), "makes its own payload"),
        (replace(scenario(), producer=(("sticky.partitioning.linger.ms", "1"),)), "no setting sticky.partitioning"),
        (replace(scenario(), consumers=Consumers(membership="group")), "from send to receipt"),
        (replace(scenario(), load=BACKLOG, consumers=Consumers(membership="assigned")), "always joins a group"),
        (replace(scenario(), load=BACKLOG, consumers=Consumers(membership="group", groups=2)), "form one group"),
    ],
)
def test_what_the_official_tools_cannot_express(row: Scenario, reason: str) -> None:
    assert reason in str(inexpressible(row))
    assert reason in by_hand(on_kafka(row, "4.3.1"))


def test_the_official_tools_do_not_log_in_and_the_command_by_hand_is_told_all_the_same() -> None:
    row = on_kafka(replace(scenario(), cluster=replace(scenario().cluster, security="sasl-tls")), "4.3.1")
    driver = JavaDriver(java=Path(), classpath="", version="")
    assert str(driver.cannot(row)).startswith("the java driver cannot log in: ")
    assert driver.by_hand(row).startswith("kafka-producer-perf-test.sh")


@pytest.mark.parametrize("password", [r"a\b", r'x" serviceName="\"y', "pä ss", " = # !", "lines\nof", "日本"])
def test_a_log_in_may_have_any_characters_and_is_read_by_its_user_alone(password: str, tmp_path: Path) -> None:
    """A backslash of a password was read as the begin of another character, by both systems' tools."""
    config = tmp_path / "client.properties"
    write_properties(config, {"sasl.password": password})
    assert javaproperties.loads(config.read_text(encoding="latin-1")) == {"sasl.password": password}
    assert config.stat().st_mode & 0o777 == 0o600


def test_the_command_that_repeats_a_row_by_hand() -> None:
    row = replace(scenario(), producers=2, load=Load(kind="capped", rate=1000))
    assert by_hand(on_kafka(row, "4.3.1")) == (
        "kafka-producer-perf-test.sh --bootstrap-server BROKERS --topic TOPIC --num-records 15000 --throughput 500 "
        "--record-size 1024 --command-property acks=1 batch.size=16384 enable.idempotence=false linger.ms=0 "
        "max.in.flight.requests.per.connection=5   # 2 of these side by side"
    )
    assert by_hand(on_kafka(row, "3.9.1")).startswith("kafka-producer-perf-test.sh --topic TOPIC --num-records 15000")
    assert "--producer-props acks=1" in by_hand(on_kafka(row, "3.9.1"))
    read = replace(row, load=BACKLOG, consumers=Consumers(membership="group"))
    assert by_hand(on_kafka(read, "3.9.1")) == (
        "kafka-consumer-perf-test.sh --bootstrap-server BROKERS --topic TOPIC --group GROUP --messages 1000"
    )
