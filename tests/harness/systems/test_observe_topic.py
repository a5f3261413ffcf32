"""A topic that was looked at: sizes, counts, and the settings that matter are kept of it."""

import random
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import ConfigSource
from hypothesis import given
from hypothesis import strategies as st

from perfgate.systems.kafka.attached.observe_topic import MATTERING, packed, sampled_records, settings_that_matter

RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=300)), min_size=1)


@given(RECORDS)
def test_a_sample_is_sizes_and_counts_of_it(records: list[tuple[bytes | None, bytes | None]]) -> None:
    found = sampled_records(records)
    sizes = [len(value or b"") for _, value in records]
    assert found.records == len(records)
    assert min(sizes) <= found.record_bytes_median <= found.record_bytes_p99 <= max(sizes)
    assert sum(size <= found.record_bytes_median for size in sizes) * 2 >= len(sizes)
    # A load of so many records of this size carries the topic's bytes: a median of skewed sizes carried a tenth.
    assert abs(found.record_bytes * len(sizes) - sum(sizes)) <= len(sizes) / 2
    keys = [key for key, _ in records if key is not None]
    assert (found.keyed, found.keys) == (len(keys), len(set(keys)))


def test_values_that_repeat_are_smaller_with_gzip_and_random_ones_are_not() -> None:
    draw = random.Random(1)
    assert sampled_records([(None, b"order of customer " * 20)] * 50).gzip_ratio > 10
    noise = sampled_records([(None, draw.randbytes(1000)) for _ in range(50)])
    assert noise.gzip_ratio == pytest.approx(1, abs=0.01)
    assert sampled_records([(b"k", None)]).gzip_ratio == 1.0


def test_bytes_of_records_in_each_byte_received() -> None:
    def seen(records: int, received: int) -> dict[str, object]:
        topics = {"orders": {"partitions": {"0": {"rxbytes": records}, "-1": {"rxbytes": 0}}}}
        return {"topics": topics, "brokers": {"b1": {"rxbytes": received}, "b2": {"rxbytes": 0}}}

    assert packed(seen(400, 100)) == 4
    assert packed(seen(0, 100)) is None
    assert packed({"topics": {}, "brokers": {}}) is None


def test_settings_that_are_no_default_of_kafkas_are_kept_if_they_matter() -> None:
    def stated(value: str, source: ConfigSource) -> SimpleNamespace:
        return SimpleNamespace(value=value, source=source.value)

    config = {
        "min.insync.replicas": stated("2", ConfigSource.STATIC_BROKER_CONFIG),
        "segment.bytes": stated("1048576", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "flush.ms": stated("9223372036854775807", ConfigSource.DEFAULT_CONFIG),
        "compression.type": stated("producer", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "retention.ms": stated("1", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    }
    assert settings_that_matter(config) == (("min.insync.replicas", "2"), ("segment.bytes", "1048576"))
    assert "retention.ms" not in MATTERING, "a run deletes its topics"
