"""A crowd of which a part never got an answer is red by the brokers' fault; what this machine lacks is no result."""

import resource
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from perfgate.measure.assembly import round_of, sends_failed
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import Consumers, Crowd, Fault, FaultScenario, Load, Round, Scenario, TopicSpec, settings
from perfgate.model.load import LoadError, LoadResult, LoadSpec, Observer, SendsFailedError
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build.fake_kafka import FakeKafka, fake_kafka

CROWD = Scenario(
    name="crowd",
    summary="a crowd of the tests",
    families=("crowd",),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1),
    producer=settings({"acks": -1, "delivery.timeout.ms": 1_500}),
    record_bytes=100,
    load=Load(kind="paced", rate=60),
    crowd=Crowd(connections=60, idle=12),
)
DRIVER = LibrdkafkaDriver()
FEW = 256


@pytest.fixture(autouse=True)
def few_files() -> Iterator[None]:
    """Let a process have fewer files at first than a crowd needs, as shells do with the default of 1,024.

    Beside those that tests before have left open in this process, which is the crowd's broker too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW + psutil.Process().num_fds(), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def run(broker: FakeKafka, scenario: Scenario = CROWD) -> LoadResult:
    spec = LoadSpec(
        scenario=scenario,
        bootstrap=f"127.0.0.1:{broker.port}",
        security=(),
        topic="one",
        run_id="crowd",
        seed=1,
        window_s=2.0,
        warmup_max_s=2.0,
    )
    observer = Observer(
        edge=lambda _: None,
        check=lambda: None,
        progress=lambda phase, last: None,
        written=lambda: sum(broker.ends),
    )
    return DRIVER.run(spec, observer)


def judged(broker: FakeKafka, result: LoadResult) -> Round:
    """Return the round of brokers that serve nobody else."""
    accounting = accounting_of(result.sent, [0] * broker.partitions, broker.ends)
    found = flaws(CROWD.load, result, accounting)
    return round_of(1, result, accounting, {}, found, "", own_brokers=True)


def test_a_whole_crowd_is_accounted_for() -> None:
    with fake_kafka() as broker:
        result = run(broker)
        found = judged(broker, result)
        assert [flaw.text for flaw in found.flaws if not flaw.late and flaw.whose == "brokers"] == []
        assert found.broken == ()
        assert found.accounting.attempted == found.accounting.acked == sum(broker.ends) > 100
        assert found.metrics["records_per_s"] == pytest.approx(60, rel=0.3), "of a busy machine"
        assert 0.5 < found.metrics["all_sent_s"] < 5, "they connect within a second"
        assert broker.accepted == 1 + 60 + 12


def test_a_part_without_an_answer_is_the_brokers_fault() -> None:
    with fake_kafka(answered=1 + 40) as broker:
        found = judged(broker, run(broker))
        assert any("32 of 72 connections had no answer at the end" in reason for reason in found.broken)
        assert found.accounting.attempted == found.accounting.acked + found.accounting.failed_total
        assert "all_sent_s" not in found.metrics


def test_idle_consumers_that_may_not_read_are_no_crowd() -> None:
    """An error counted as an answer, and was asked for again at once: a flood of requests, and a green round."""
    with fake_kafka() as broker:
        broker.read_error = 29
        found = judged(broker, run(broker))
        assert any("12 of 72 connections had no answer at the end" in reason for reason in found.broken)
        assert any("TOPIC_AUTHORIZATION_FAILED" in reason for reason in found.broken)
        assert broker.asked[1] < 12 * 60, "twice a second each, however long the drain takes"


def test_a_crowd_without_any_answer_is_the_brokers_fault() -> None:
    with fake_kafka(answered=1) as broker, pytest.raises(SendsFailedError, match="every record failed") as error:
        run(broker)
    assert sends_failed(1, error.value, own_brokers=True).broken


def test_a_machine_without_files_has_no_valid_load() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    too_many = replace(CROWD, crowd=Crowd(connections=hard))
    with fake_kafka() as broker, pytest.raises(LoadError, match="open files, and a process may have"):
        run(broker, too_many)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 2}, "processes, of one thread each"),
        ({"topic": TopicSpec(partitions=3, replication_factor=1, count=2)}, "one topic"),
        ({"transaction_ms": 100.0}, "no transactions"),
        ({"load": Load(kind="capped", rate=60)}, "a schedule"),
        ({"producer": settings({"acks": 0})}, "acknowledgement"),
        ({"producer": settings({"compression.type": "lz4"})}, "compresses nothing"),
        ({"producers": 100}, "each of its processes"),
    ],
)
def test_what_no_crowd_can_be(changes: dict[str, object], words: str) -> None:
    reason = DRIVER.cannot(replace(CROWD, **changes))  # type: ignore[arg-type]
    assert reason is not None
    assert words in reason


def test_a_crowd_has_no_fault() -> None:
    reason = DRIVER.cannot(FaultScenario.of(CROWD, Fault(kind="kill-leader")))
    assert reason is not None
    assert "sends nothing again" in reason


def test_consumers_may_read_what_a_crowd_sends() -> None:
    assert DRIVER.cannot(replace(CROWD, consumers=Consumers(membership="assigned"))) is None
