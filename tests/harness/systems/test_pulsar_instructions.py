"""Instructions for Pulsar's generators, and the loads that libpulsar cannot make."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from perfgate.load.clients import LoadClientError
from perfgate.load.schedule import pace
from perfgate.load.transport import ROOT
from perfgate.model import Consumers, Load, Scenario, TopicSpec, with_changes
from perfgate.model.load import LoadSpec
from perfgate.systems.pulsar.load import libpulsar as module
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.libpulsar import LibpulsarDriver, PulsarInstructions, subscription_of
from perfgate.systems.pulsar.load.settings import complete
from tests.harness.build.rounds import scenario

TOPIC = "persistent://kpg/run/kpg-a"
URL = "pulsar://a:6650,b:6650#cross-zone"
PULSAR = PulsarInstructions()
PACED, BACKLOG = Load(kind="paced", rate=1_000), Load(kind="backlog", records=1_000)


def made(producer: dict[str, str] | None = None, **changes: Any) -> Scenario:
    return replace(
        scenario(),
        producer=tuple((producer or {}).items()),
        topic=TopicSpec(partitions=6, replication_factor=3),
        **changes,
    )


def spec_of(row: Scenario) -> LoadSpec:
    return LoadSpec(
        scenario=row,
        bootstrap=URL,
        security=(("authPlugin", "token"), ("authParams", "token:x")),
        topic=TOPIC,
        run_id="run",
        seed=1,
        window_s=5,
        warmup_max_s=5,
    )


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    module._warn_of_slow.cache_clear()
    monkeypatch.setattr(native, "cannot_have", lambda: None)


def test_producers_are_told_the_java_clients_defaults() -> None:
    (told,) = PULSAR.producers_of(spec_of(made({"batchingMaxMessages": "50"}))).values()
    client: Any = told["client"]
    assert told["system"] == "pulsar"
    assert told["topics"] == (TOPIC,)
    assert (told["buffer_bytes"], told["buffer_records"]) == (6_000 << 10, 6_000)
    assert client["batchingMaxMessages"] == "50"
    assert client["batchingMaxPublishDelayMicros"] == "1000"
    assert client["authParams"] == "token:x"
    whole = complete(client, "producer")
    assert (whole["serviceUrl"], whole["listenerName"]) == ("pulsar://a:6650,b:6650", "cross-zone")


def test_a_stated_bound_is_the_buffers() -> None:
    row = made({"maxPendingMessages": "0", "maxPendingBytes": "1048576", "compressionType": "LZ4"})
    (told,) = PULSAR.producers_of(spec_of(row)).values()
    assert (told["buffer_bytes"], told["buffer_records"], told["compressed"]) == (1 << 20, 400_000, True)


@pytest.mark.parametrize(
    ("membership", "kind", "share"),
    [
        ("assigned", "exclusive", False),
        ("exclusive", "exclusive", False),
        ("failover", "failover", False),
        ("shared", "shared", True),
        ("key-shared", "key-shared", True),
    ],
)
def test_consumers_are_told_their_subscription(membership: Any, kind: str, share: bool) -> None:
    consumers = Consumers(membership=membership, groups=2, config=(("receiverQueueSize", "10"),))
    first, second = PULSAR.consumers_of(spec_of(made(consumers=consumers, load=PACED))).values()
    assert (first["subscription_type"], first["share"], first["followed"]) == (kind, share, False)
    assert (first["subscription"], second["subscription"]) == ("kpg-a", "kpg-a-2")
    assert (first["assigned"] is not None) == (membership == "assigned")
    client: Any = first["client"]
    assert complete(client, "consumer")["receiverQueueSize"] == "10"


def test_no_consumers_no_requests() -> None:
    assert PULSAR.consumers_of(spec_of(made())) == {}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (made({"linger.ms": "5"}), "producer.linger.ms is no setting of the Pulsar load; legal: "),
        (made(consumers=Consumers(membership="shared", config=(("x", "1"),))), "consumer.x is no setting"),
        (made(transaction_ms=100.0), "no transactions"),
        (made(client_version="3.0.0"), "pulsar-client that is installed"),
        (made(consumers=Consumers(membership="exclusive", threads=2)), "an exclusive subscription has one consumer"),
        (made(consumers=Consumers(membership="key-shared")), "key-shared needs producer.batchingEnabled=false"),
        (made(consumers=Consumers(membership="shared"), load=BACKLOG), "a shared subscription rewinds all its"),
        (made(consumers=Consumers(membership="failover"), load=BACKLOG), "a failover subscription rewinds"),
    ],
)
def test_what_it_cannot_do(row: Scenario, reason: str) -> None:
    assert reason in str(LibpulsarDriver().cannot(row))


@pytest.mark.parametrize(
    "row",
    [
        made(),
        made(load=PACED),
        made(load=BACKLOG, consumers=Consumers(membership="assigned", threads=3)),
        made(load=BACKLOG, consumers=Consumers(membership="exclusive")),
        made({"batchingEnabled": "false"}, load=PACED, consumers=Consumers(membership="key-shared", threads=3)),
        made(load=PACED, consumers=Consumers(membership="failover", processes=2)),
    ],
)
def test_what_it_can_do(row: Scenario) -> None:
    assert LibpulsarDriver().cannot(row) is None


def test_outcomes_are_waited_for_longer_than_the_client_tries() -> None:
    assert PULSAR.drain_s_of(made()) > 30
    assert PULSAR.drain_s_of(made({"sendTimeoutMs": "5000"})) == pytest.approx(10)


def test_turns_have_a_buffer_that_drains_in_their_gap() -> None:
    rows = [made(), made({"batchingEnabled": "false"})]
    batches = [PULSAR.batching(row) for row in rows]
    assert [each.batch_bytes for each in batches] == [131_072, 1_024]
    assert [each.linger_s for each in batches] == [pytest.approx(0.001), 0]
    at = pace(rows, batches, 30_000)
    assert at.buffer_kib < batches[0].buffer_kib
    assert dict(PULSAR.buffered(rows[0], at.buffer_kib).producer)["maxPendingBytes"] == str(at.buffer_kib << 10)
    assert LibpulsarDriver().cannot(PULSAR.buffered(rows[0], at.buffer_kib)) is None


def test_the_official_command_of_the_same_load() -> None:
    assert PULSAR.by_hand(made()).startswith("pulsar-perf produce ")


def test_subscriptions_have_no_slash() -> None:
    assert subscription_of(f"{TOPIC}-2") == "kpg-a-2"
    assert subscription_of("kpg-a") == "kpg-a"


def test_a_slow_client_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "cannot_have", lambda: "ziglang could not be fetched: no network")
    with pytest.warns(UserWarning, match="no network: the load runs on the slow client"):
        PULSAR.producers_of(spec_of(made()))
    assert PULSAR.producers_of(spec_of(made())), "and no second warning, which would be an error here"


def test_settings_that_a_target_adds_are_legal() -> None:
    with pytest.raises(LoadClientError, match="serviceUrl"):
        complete({"serviceUrl": "a:1"}, "producer")


def test_a_load_host_needs_no_more_than_it_has() -> None:
    """See requirements-agent.txt: what asks brokers over HTTP is not there."""
    names = "('requests', 'pydantic', 'scipy', 'confluent_kafka')"
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, perfgate.systems.pulsar.load.clients; print([n for n in {names} if n in sys.modules])",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("load.shape", "spike:base=200,peak=1000,seconds=10,period=30", "shape"),
        ("record.sizes", "values:100=9/10000=1", "sizes"),
        ("record.keys", "hot:count=9,share=0.5", "keys"),
    ],
)
def test_shapes_sizes_and_skewed_keys_are_those_of_every_system(path: str, value: str, told: str) -> None:
    row = with_changes(made(load=PACED, consumers=Consumers(membership="exclusive")), [(path, value)])
    assert LibpulsarDriver().cannot(row) is None
    plain = PULSAR.producers_of(spec_of(made(load=PACED)))["producer-1"]
    producer = PULSAR.producers_of(spec_of(row))["producer-1"]
    assert producer[told] != plain.get(told)
    assert PULSAR.consumers_of(spec_of(row))["consumer-1"].get("sizes") == producer.get("sizes")
