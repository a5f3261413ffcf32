"""Share groups: what is given to any member in any order is counted once, and what cannot be measured says so."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.checks import REMEMBERED, Distinct
from perfgate.model import ClusterSpec, Consumers, Load, Scenario
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.kafka.attached.limits import beyond
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.load.official import inexpressible
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


def test_where_share_groups_are_not_measured() -> None:
    assert LibrdkafkaDriver().cannot(SHARED) is None
    assert "no share group" in str(inexpressible(SHARED))
    assert "would stay on real brokers" in str(beyond(Limits(total_bytes=1e12, bytes_per_s=1e12), SHARED))
