"""Share groups: what is given to any member in any order is counted once, and what cannot be measured says so."""

import ctypes
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import confluent_kafka
import numpy as np
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.checks import REMEMBERED, Distinct
from perfgate.load.clients import Moments, Rows
from perfgate.model import ClusterSpec, Consumers, Load, Scenario
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.kafka.attached.limits import beyond
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.load.official import inexpressible
from perfgate.systems.kafka.load.sharing import Polled
from tests.harness.build import scenario

SHARED: Scenario = replace(
    scenario(), load=Load(kind="paced", rate=10), consumers=Consumers(membership="share", threads=3)
)


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3 * REMEMBERED)), min_size=1, max_size=20), max_size=8
    )
)
def test_a_record_is_new_once_whoever_gets_it_and_whenever(batches: list[list[tuple[int, int]]]) -> None:
    distinct, seen = Distinct(3), set[tuple[int, int]]()
    for batch in batches:
        producers, sequences = (np.array(values, np.int64) for values in zip(*batch, strict=True))
        nothing = np.zeros_like(producers)
        assert distinct.check(producers, nothing, nothing, sequences) == len(set(batch) - seen)
        seen |= set(batch)


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        (replace(SHARED, load=Load(kind="backlog", records=10)), "a share group gives each record once"),
        (replace(SHARED, cluster=ClusterSpec(version="3.9.1")), "share groups came with Kafka 4.2"),
        (replace(SHARED, client_version="2.11.0"), "the installed client alone"),
    ],
)
def test_what_a_share_group_cannot_do_is_said_beforehand(changed: Scenario, because: str) -> None:
    assert because in str(LibrdkafkaDriver().cannot(changed))


@pytest.mark.skipif(not hasattr(confluent_kafka, "ShareConsumer"), reason="an older client is installed")
def test_where_share_groups_are_not_measured() -> None:
    assert LibrdkafkaDriver().cannot(SHARED) is None
    assert "no share group" in str(inexpressible(SHARED))
    assert "would stay on real brokers" in str(beyond(Limits(total_bytes=1e12, bytes_per_s=1e12), SHARED))


def test_a_client_without_share_consumers_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(confluent_kafka, "ShareConsumer", raising=False)
    assert LibrdkafkaDriver().cannot(SHARED) == (
        f"share consumers came with confluent-kafka 2.15.0, and {version('confluent-kafka')} is installed"
    )


class Given:
    """A message of a share consumer's poll, or an error in its place."""

    def __init__(
        self, value: bytes | None, place: tuple[int, int], times: int = 1, error: object = None, topic: str = "t"
    ) -> None:
        self.value, self.partition, self.offset = lambda: value, lambda: place[0], lambda: place[1]
        self.delivery_count, self.error, self.topic = lambda: times, lambda: error, lambda: topic


def test_what_a_poll_gives_comes_as_rows_whose_values_can_be_read() -> None:
    error = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    first: Any = [
        Given(b"first", (2, 7)),
        Given(None, (0, 3)),
        Given(None, (0, 0), error=error),
        Given(b"2nd", (1, 9), 2, topic="u"),
    ]
    second: Any = [Given(None, (0, 0), error=error)]
    polled = Polled(["t", "u"], 6)
    found: list[tuple[int, int, int, bytes]] = []

    def hear(rows: Rows, _heard: Moments) -> None:
        for row in rows:
            value = ctypes.string_at(int(row["payload"]), int(row["len"]))
            found.append((int(row["err"]), int(row["partition"]), int(row["offset"]), value))

    assert polled.pass_on(first, hear) == 3
    assert found == [(0, 2, 7, b"first"), (0, 0, 3, b""), (0, 4, 9, b"2nd")], "partitions are numbered over all topics"
    assert polled.pass_on(second, hear) == 0
    assert len(found) == 3
    assert (polled.redelivered, dict(polled.failed)) == (1, {"_ALL_BROKERS_DOWN": 2})
