"""pulsar-perf: what it printed (recorded: 4.0.8) is read strictly; scenarios become commands; a driver runs it."""

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.load.tools import OutputError
from perfgate.model import ClusterSpec, Consumers, Keys, Load, Payload, Scenario, settings
from perfgate.model.histogram import encode, latency_metrics, of_counts
from perfgate.model.load import LoadError, LoadResult, LoadSpec, Observer
from perfgate.systems.pulsar.client import TLS_PLUGINS, TOKEN_PLUGINS
from perfgate.systems.pulsar.load.official import (
    Pending,
    by_hand,
    consumer_arguments,
    created,
    inexpressible,
    latencies,
    parse_consumed,
    parse_histograms,
    parse_pending,
    parse_produced,
    producer_arguments,
    pushed_back_s,
    rate_of,
    received_in_all,
    refused,
    sent_in_all,
)
from perfgate.systems.pulsar.load.perf import PulsarPerfDriver, conf_of, full_s, read_per_s
from tests.harness.build import scenario

RECORDED = Path(__file__).parents[1] / "data" / "pulsar-perf"
LINE = (
    "1795797509148 INFO PerformanceProducer - Throughput produced:   30029 msg ---   2003.2 msg/s ---     15.6 Mbit/s  "
    "--- failure      0.0 msg/s --- Latency: mean:  10.000 ms - med:   3.500 - 95pct:  40.000 - 99pct: 100.000 - "
    "99.9pct: 200.000 - 99.99pct: 210.000 - Max: 220.223\n"
)
SUM = (
    "1795797524975 INFO PerformanceProducer - Aggregated throughput stats --- 57455 records sent --- "
    "1592.419 msg/s --- 12.441 Mbit/s \n"
)


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def test_lines_of_progress() -> None:
    lines = parse_produced(recorded("produce"))
    assert [line.records for line in lines] == [9_567, 30_029, 50_339]
    assert [round(line.at_s, 3) for line in lines] == [1795797499.005, 1795797509.148, 1795797519.278]
    assert {line.failed_per_s for line in lines} == {0.0}


def test_the_sum_is_what_the_brokers_counted() -> None:
    """Asked of the broker after SIGTERM: 19,467 + 19,137 + 18,851."""
    assert sent_in_all(recorded("produce")) == (57_455, {})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("produce-no-topic", "sent 0 records: .*TopicDoesNotExistException"),
        ("produce-no-broker", "sent 0 records"),
        ("produce-all-failed", r"sent 0 records: \d+ x InvalidMessageException"),
        ("produce-unknown-option", "gave no sum of what it sent: Unknown option: '--no-such-thing'"),
    ],
)
def test_what_sent_nothing_is_an_error_with_its_cause_whatever_its_exit_code(name: str, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        sent_in_all(recorded(name))


def test_records_that_timed_out_are_counted_by_their_warnings() -> None:
    total, failed = sent_in_all(recorded("produce-timed-out"))
    assert (total, dict(failed)) == (7_320, {"TimeoutException": 5})


def test_failures_without_a_warning_are_an_error() -> None:
    with pytest.raises(OutputError, match="wrote no error of any"):
        sent_in_all(LINE.replace("failure      0.0", "failure      2.0") + SUM)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "gave no sum"),
        (LINE, "gave no sum"),
        (SUM + SUM, "written twice"),
        (SUM.replace("57455 records", "many records"), "is not known"),
        (SUM + 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n', "OutOfMemoryError"),
        (SUM.rstrip("\n"), "gave no sum"),
    ],
)
def test_a_run_without_one_whole_sum(text: str, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        sent_in_all(text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (LINE.replace(" msg --- ", " messages --- "), "is not known"),
        (LINE.replace("mean:  10.000", "mean:  NaN"), "no number"),
        (LINE.replace("failure      0.0", "failure  NaN"), "no number"),
    ],
)
def test_a_line_of_progress_that_is_not_known(line: str, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        parse_produced(line)


def test_a_line_that_is_not_written_to_its_end_is_not_there_yet() -> None:
    assert parse_produced(LINE + LINE[:150]) == parse_produced(LINE)


def test_producers_are_made_or_refused() -> None:
    assert created(recorded("produce")) == 1
    assert created("") == created(recorded("produce-no-broker")) == 0
    with pytest.raises(OutputError, match=r"could not begin: .*TopicDoesNotExistException"):
        created(recorded("produce-no-topic"))
    with pytest.raises(OutputError, match="Unknown option"):
        created(recorded("produce-unknown-option"))
    assert refused(recorded("produce")) == ""


def test_histograms_are_those_of_the_lines() -> None:
    lines, spans = parse_produced(recorded("produce")), parse_histograms((RECORDED / "produce.hlog").read_text())
    sums = [int(span.counts.sum()) for span in spans]
    assert sums == pytest.approx([9_567, 20_462, 20_310], rel=0.02), "of a moment later than the line's"
    assert [span.max_ms for span in spans] == pytest.approx([line.max_ms for line in lines], abs=0.01)
    together = latencies(lines, spans, 1, 3)
    assert together.sum() == spans[1].counts.sum() + spans[2].counts.sum()


def test_percentiles_of_the_file_are_those_of_the_line() -> None:
    spans = parse_histograms((RECORDED / "produce.hlog").read_text())
    line = recorded("produce").split("Throughput produced:")[2]
    found = latency_metrics([encode(of_counts(spans[1].counts))])
    for name, words in (
        ("avg", "mean: "),
        ("p50", "med: "),
        ("p99", "99pct: "),
        ("p999", "99.9pct: "),
        ("max", "Max: "),
    ):
        stated = float(line.split(words)[1].split()[0])
        assert found[f"latency_ms.{name}"] == pytest.approx(stated, rel=0.002)


def test_a_histogram_file_that_lacks_intervals_or_is_another() -> None:
    text = (RECORDED / "produce.hlog").read_text()
    lines, spans = parse_produced(recorded("produce")), parse_histograms(text)
    with pytest.raises(OutputError, match="has 2 of 3 intervals"):
        latencies(lines, parse_histograms(text[: text.rstrip("\n").rfind("\n") + 40]), 1, 3)
    with pytest.raises(OutputError, match="is not of its lines"):
        latencies(lines[1:], spans, 0, 1)
    with pytest.raises(OutputError, match=r"not as a log of version 1\.3"):
        parse_histograms("time,latency\n")
    with pytest.raises(OutputError, match="cannot be read"):
        parse_histograms(text.replace("HISTFAAA", "HISTXXXX"))
    assert parse_histograms(text.splitlines()[0] + "\n") == []


def pushed(lines: list[Pending], **changes: int) -> float:
    bounds = {"messages": 1000, "record_bytes": 1024, "most_bytes": 64 << 20, **changes}
    return pushed_back_s(lines, 1795797571.422, 1795797581.824, **bounds)


def test_full_buffers_are_seen_in_the_clients_lines() -> None:
    lines = parse_pending(recorded("produce-full"))
    assert {line.partition for line in lines} == {f"persistent://public/default/kpg-t-partition-{n}" for n in range(3)}
    assert 5 < pushed(lines) <= 10.402
    assert pushed(lines, messages=0) == 0.0, "no bound of messages, and the bytes are far from theirs"
    assert pushed(lines, messages=0, most_bytes=1000 * 1024) > 5, "the bytes of all partitions together"
    assert pushed([]) == 0.0


@pytest.mark.parametrize(
    ("producer", "full"),
    [
        ({}, True),
        ({"maxPendingMessages": "3000"}, False),
        ({"maxPendingMessages": "0", "maxPendingBytes": str(4 * 1000 * 1024)}, True),
        ({"maxPendingMessages": "0", "maxPendingBytes": str(4 * 1000 * 1024), "batchingEnabled": "false"}, False),
    ],
)
def test_a_batched_message_counts_twice_against_the_bound_of_bytes(producer: dict[str, str], full: bool) -> None:
    """In the recorded seconds all partitions together held 2,000 messages in almost half, and 3,000 at most."""
    one = row(producer=settings(producer))
    assert (full_s(one, recorded("produce-full"), 1795797571.422, 1795797581.824) > 3) is full


def test_reads_are_counted_by_the_seconds_within_the_window() -> None:
    lines = parse_consumed(recorded("consume"))
    assert len({line.consumer for line in lines}) == 3
    records, size = read_per_s(lines, 1795797630.0, 1795797639.5)
    assert size / records == pytest.approx(1024, rel=0.001)
    assert records == pytest.approx(258_000, rel=0.2), "5,012,087 by 21 s after the start"
    with pytest.raises(LoadError, match="reported nothing of"):
        read_per_s(lines, 1795797639.5, 1795797640.0)
    assert received_in_all(recorded("consume")) == 6_554_908
    with pytest.raises(OutputError, match="no sum of what it read"):
        received_in_all(recorded("produce"))


PULSAR = ClusterSpec(system="pulsar")


def row(**changes: object) -> Scenario:
    """A scenario with Pulsar's names."""
    return replace(scenario(), **{"cluster": PULSAR, "producer": (), **changes})  # type: ignore[arg-type]


PACED = Load(kind="paced", rate=10)
BACKLOG = Load(kind="backlog", records=1000)


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (row(load=PACED), "no open loop"),
        (row(keys=Keys(kind="random")), "keys are numbers"),
        (row(payload=Payload(kind="text", ratio=2)), "the same letters"),
        (row(producer=settings({"compressionType": "LZ4"})), "the same letters"),
        (row(producer=settings({"keepAliveIntervalSeconds": "30"})), "no option for producer.keepAliveIntervalSeconds"),
        (row(producer=settings({"sendTimeoutMs": "1500"})), "in steps of 1,000; it is 1500"),
        (row(transaction_ms=10.0), "after a number of messages"),
        (row(consumers=Consumers(membership="shared")), "from send to receipt"),
        (row(client_version="3.4.0"), "is a Java client"),
        (row(load=BACKLOG, consumers=Consumers(membership="assigned", threads=2)), "one consumer"),
        (row(load=BACKLOG, consumers=Consumers(membership="shared", groups=2)), "all subscriptions"),
        (row(load=BACKLOG, consumers=Consumers(membership="group")), "no subscription of the type group"),
        (
            row(load=BACKLOG, consumers=Consumers(membership="shared", config=settings({"ackTimeoutMillis": "10000"}))),
            "no option for consumer.ackTimeoutMillis",
        ),
    ],
)
def test_what_pulsar_perf_cannot_express(one: Scenario, reason: str) -> None:
    assert reason in str(inexpressible(one))
    assert reason in by_hand(one)
    assert PulsarPerfDriver(java=Path(), classpath="").cannot(one) == inexpressible(one)


def test_the_command_that_repeats_a_scenario_by_hand() -> None:
    one = row(producers=2, load=Load(kind="capped", rate=1001), producer=settings({"maxPendingMessages": "3000"}))
    assert by_hand(one) == (
        "pulsar-perf produce -u SERVICE_URL -time 30 -r 1002 -threads 2 -s 1024 -o 3000 -p 9000 -ml 67108864 "
        "-b 1 -bm 1000 -bb 131072 -z NONE --send-timeout 30 TOPIC"
    )
    alone = row(producer=settings({"batchingEnabled": "false", "numIoThreads": "2"}))
    assert "-db -z NONE --send-timeout 30 -ioThreads 2 TOPIC" in by_hand(alone)
    read = row(load=BACKLOG, consumers=Consumers(membership="key-shared", threads=2))
    assert by_hand(read) == (
        "pulsar-perf consume -u SERVICE_URL -ss SUBSCRIPTION -st Key_Shared -sp Earliest -n 2 -q 1000 -p 3000 "
        "--acks-delay-millis 100 TOPIC"
    )


def test_lines_of_a_file_are_payloads_too() -> None:
    assert "-f /some/lines" in " ".join(
        producer_arguments(row(payload=Payload(kind="lines", path="/some/lines")), topic="t", rate=1.0)
    )


def test_each_thread_has_a_whole_rate() -> None:
    """The tool divides by its threads and drops the rest: 10 records/s over 3 would be 9."""
    assert [rate_of(10.0, threads) for threads in (1, 3)] == [10, 12]
    assert rate_of(0.2, 2) == 2


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rate", [3.0, 500.0, 4_321.0, 102_400.0, 195_312.0, 900_000.0])
def test_a_limit_of_the_target_is_kept_in_whole_microseconds(rate: float, threads: int) -> None:
    """Its limiter waits as many whole microseconds for each record as the rate of a thread has, rounded down."""
    asked = rate_of(rate, threads, at_most=True)
    made = threads * 1e6 / math.floor(1e6 * threads / asked)
    assert 0.5 * rate < made <= rate * (1 + 1e-9)
    assert rate > 5_000 or made > 0.99 * rate or rate < 3 * threads + 1


def test_what_assigned_consumers_read_one_exclusive_one_reads() -> None:
    one = row(load=BACKLOG, consumers=Consumers(membership="assigned"))
    assert inexpressible(one) is None
    arguments = consumer_arguments(one, topic="t", subscription="s")
    assert arguments[arguments.index("-st") + 1] == "Exclusive"


def test_what_logs_in_goes_into_a_file() -> None:
    token = {"authPlugin": TOKEN_PLUGINS[1], "authParams": "token:x"}
    assert conf_of({**token, "tlsHostnameVerificationEnable": "false"}) == {
        **token,
        "tlsEnableHostnameVerification": "false",
    }
    pair = {"tlsCertificateFilePath": "/c.pem", "tlsKeyFilePath": "/k.pem", "tlsTrustCertsFilePath": "/ca.pem"}
    assert conf_of(pair) == {
        "tlsTrustCertsFilePath": "/ca.pem",
        "tlsEnableHostnameVerification": "true",
        "authPlugin": TLS_PLUGINS[1],
        "authParams": "tlsCertFile:/c.pem,tlsKeyFile:/k.pem",
    }


def test_ways_to_log_in_have_the_names_that_java_knows() -> None:
    """A file with authPlugin = "token" or "tls", as the page on targets has them: the tool found no such class."""
    found = conf_of({"authPlugin": "token", "authParams": "file:///t"})
    assert (found["authPlugin"], found["authParams"]) == (TOKEN_PLUGINS[1], "file:///t")
    pair = {"tlsCertificateFilePath": "/c.pem", "tlsKeyFilePath": "/k.pem"}
    found = conf_of({"authPlugin": "tls", **pair})
    assert (found["authPlugin"], found["authParams"]) == (TLS_PLUGINS[1], "tlsCertFile:/c.pem,tlsKeyFile:/k.pem")


FAKE = """
import signal, sys, time
arguments = sys.argv[1:]
open({argv!r}, "w").write("\\n".join(arguments))
def write(logger, words):
    print(f"{{time.time() * 1e3:.0f}} INFO {{logger}} - {{words}}", flush=True)
def end(*_):
    rates = "1.0 msg/s --- 1.0 Mbit/s "
    write("PerformanceProducer", f"Aggregated throughput stats --- {{{total}}} records sent --- {{rates}}")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
file = open(arguments[arguments.index("--histogram-file") + 1], "w")
for _ in range({clients}):
    write("PerformanceProducer", "Created 1 producers")
recorded = open({hlog!r}).read().splitlines()
file.write("\\n".join(recorded[:2]) + "\\n")
lines = [line.split(" - ", 1)[1] for line in open({text!r}) if " - Throughput produced:" in line]
for line, span in zip(lines, recorded[2:]):
    time.sleep({every})
    write("PerformanceProducer", line.rstrip("\\n"))
    file.write(span + "\\n")
    file.flush()
time.sleep({after})
"""


class Fake:
    """A driver whose Java is a script that writes recorded lines a few times a second, then waits for SIGTERM."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.argv = folder, folder / "argv"
        self.written = iter([0, 57_455])

    def run(self, one: Scenario, *, total: int = 57_455, after: float = 30.0, clients: int = 1) -> LoadResult:
        script = self.folder / "tool.py"
        script.write_text(
            FAKE.format(
                argv=str(self.argv), total=total, clients=clients, every=0.4, after=after,
                hlog=str(RECORDED / "produce.hlog"), text=str(RECORDED / "produce.txt"),
            )
        )  # fmt: skip
        java = self.folder / "java"
        java.write_text(f'#!/bin/sh\nexec python3 {script} "$@"\n')
        java.chmod(0o755)
        spec = LoadSpec(
            scenario=one, bootstrap="pulsar://h:1#cross-zone", security=settings({"authParams": "token:secret"}),
            topic="persistent://t/n/kpg-x", run_id="r", seed=1, window_s=10.0, warmup_max_s=0.1,
        )  # fmt: skip
        observer = Observer(
            edge=lambda at: None,
            check=lambda: None,
            progress=lambda phase, last: None,
            written=lambda: next(self.written),
        )
        return PulsarPerfDriver(java=java, classpath="jars").run(spec, observer)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_a_window_lies_between_two_lines(fake: Fake) -> None:
    began = time.monotonic()
    result = fake.run(row())
    assert time.monotonic() - began < 20
    sent = result.sent
    assert sent is not None
    assert (sent.attempted, sent.acked, dict(sent.failed)) == (57_455, 57_455, {})
    assert sent.acked_in_window == sent.attempted_in_window == 30_029 - 9_567
    assert sent.acked_bytes_in_window == sent.acked_in_window * 1024
    assert result.window_s == pytest.approx(0.4, abs=0.2), "by the times of the lines"
    assert latency_metrics([sent.latency])["latency_ms.max"] == pytest.approx(
        parse_produced(recorded("produce"))[1].max_ms, rel=1e-3
    )
    argv = fake.argv.read_text().split("\n")
    assert argv[argv.index("--listener-name") + 1] == "cross-zone"
    assert argv[argv.index("-u") + 1] == "pulsar://h:1"
    assert not any("secret" in word for word in argv), "what logs in is in the conf file"


def test_records_that_the_tool_does_not_know_of_make_no_round(fake: Fake) -> None:
    with pytest.raises(LoadError, match="5 records that the brokers hold and it does not know of"):
        fake.run(row(), total=57_450)


def test_records_that_the_brokers_lack_are_counted_and_left_to_the_judge(fake: Fake) -> None:
    sent = fake.run(row(), total=57_460).sent
    assert sent is not None
    assert sent.acked == 57_460


def test_a_tool_that_ends_before_its_window_is_no_load(fake: Fake) -> None:
    with pytest.raises(LoadError, match="ended while"):
        fake.run(replace(row(), producers=2), after=0.0)


READS = """
import signal, sys, time
arguments = sys.argv[1:]
open({argv!r}, "w").write("\\n".join(arguments))
def write(logger, words):
    print(f"{{time.time() * 1e3:.0f}} INFO {{logger}} - {{words}}", flush=True)
def end(*_):
    write("PerformanceConsumer", "Aggregated throughput stats --- {total} records received --- 1.0 msg/s --- more")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
while True:
    for partition in range(3):
        rate = "Consume throughput received: 1000.00 msgs/s --- 7.8125 Mbit/s --- Ack sent rate: 1000.00 ack/s --- "
        who = f"[t-partition-{{partition}}] [s] [c]"
        write("ConsumerStatsRecorderImpl", f"{{who}} Prefetched messages: 0 --- {{rate}}more")
    time.sleep(0.1)
"""


def read_by_a_script(folder: Path, total: int, records: int) -> LoadResult:
    """Run the driver on a script that reports 1,000 records/s of each of three partitions ten times a second."""
    (folder / "tool.py").write_text(READS.format(argv=str(folder / "argv"), total=total))
    java = folder / "java"
    java.write_text(f'#!/bin/sh\nexec python3 {folder / "tool.py"} "$@"\n')
    java.chmod(0o755)
    one = row(load=Load(kind="backlog", records=records), consumers=Consumers(membership="assigned"))
    spec = LoadSpec(
        scenario=one, bootstrap="pulsar://h:1", security=(), topic="persistent://t/n/kpg-x", run_id="r", seed=1,
        window_s=1.0, warmup_max_s=0.1, prefix="persistent://t/n/kpg-",
    )  # fmt: skip
    observer = Observer(
        edge=lambda at: None, check=lambda: None, progress=lambda phase, last: None, written=lambda: records
    )
    return PulsarPerfDriver(java=java, classpath="jars").run(spec, observer)


def test_what_is_read_in_a_window(tmp_path: Path) -> None:
    received = read_by_a_script(tmp_path, total=50_000, records=100_000).received
    assert received is not None
    assert received.received_in_window == pytest.approx(3_000, rel=0.3)
    assert received.received_bytes_in_window == pytest.approx(1024 * received.received_in_window, rel=0.01)
    assert received.read == 50_000
    argv = (tmp_path / "argv").read_text().split("\n")
    assert "/" not in argv[argv.index("-ss") + 1], "a name of a subscription, not of a topic"


def test_a_backlog_that_was_read_to_its_end_has_no_rate(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"had read the backlog of 50,000 records .* give it more \(load\.records\)"):
        read_by_a_script(tmp_path, total=50_000, records=50_000)
