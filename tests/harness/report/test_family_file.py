"""The family file of --like: it loads, says what was seen and what was not, and holds nothing of any record."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perfgate.fixtures.own_scenarios import load_own_scenarios
from perfgate.load.payload import Values, nearest_text_ratio
from perfgate.model import Scenario
from perfgate.model.target import ObservedTopic, SampledRecords
from perfgate.report.family_file import family_name, family_text, record_bytes
from tests.harness.forked import gate

WHEN = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
SEEN = ObservedTopic(
    name="shop.Orders_1",
    cluster="staging",
    partitions=12,
    replication_factor=3,
    config=(("compression.type", "lz4"), ("min.insync.replicas", "2")),
    rate=1234.5,
    rate_over_s=10.2,
    sample=SampledRecords(
        records=2000,
        record_bytes=300,
        record_bytes_median=250,
        record_bytes_p99=900,
        keyed=2000,
        keys=40,
        gzip_ratio=3.04,
    ),
)


def nearest(topic: ObservedTopic) -> float:
    return nearest_text_ratio(record_bytes(topic), topic.sample.gzip_ratio)


def loaded(folder: Path, topic: ObservedTopic) -> tuple[Scenario, Scenario]:
    """Return the two scenarios of the file that is written of it."""
    (folder / f"{family_name(topic.name)}.py").write_text(family_text(topic, WHEN, nearest(topic)))
    (family,) = load_own_scenarios(folder).families
    at_its_rate, doubled = family.scenarios
    return at_its_rate, doubled


def test_the_file_declares_what_was_seen(tmp_path: Path) -> None:
    row, doubled = loaded(tmp_path, SEEN)
    assert (row.name, row.tier, row.record_bytes, row.load.kind, row.load.rate) == (
        "like-shop-orders-1",
        "smoke",
        300,
        "paced",
        1234,
    )
    assert (row.topic.partitions, row.topic.replication_factor) == (12, 3)
    assert dict(row.topic.config) == dict(SEEN.config)
    assert (row.keys.kind, row.keys.count) == ("set", 40)
    assert row.payload.kind == "text"
    assert row.payload.ratio == pytest.approx(3.04, abs=0.02)
    assert (doubled.name, doubled.tier, doubled.load.rate) == ("like-shop-orders-1-double", "nightly", 2468)


def test_the_file_says_where_each_figure_is_from_and_what_is_not_known() -> None:
    text = family_text(SEEN, WHEN, 3.04)
    for words in (
        "topic shop.Orders_1 of staging, as it was at 2026-11-23 06:00 UTC",
        "a sample of 2,000 records",
        '("topic.compression.type", "lz4"),  # described: not the default',
        "# mean of the sample: 300 B; median 250 B, p99 900 B",
        "# 2,000 of the sample have a key, 40 different ones",
        "over 10 s, from the end offsets: 1,234.5 records/s",
        "do not tell: acks, linger.ms, batch.size",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("sample", "keys", "payload", "size"),
    [
        ({"keyed": 0, "keys": 0}, "none", "text", 300),
        ({"keyed": 900}, "none", "text", 300),
        ({"keys": 1900}, "random", "text", 300),
        ({"gzip_ratio": 1.0}, "set", "random", 300),
        ({"gzip_ratio": 500.0, "record_bytes": 0}, "set", "random", 32),
        ({"gzip_ratio": 500.0, "record_bytes": 64}, "set", "text", 64),
        ({"gzip_ratio": 1.1}, "set", "random", 300),
    ],
)
def test_what_the_sample_is_like_is_put_in_the_suites_words(
    tmp_path: Path, sample: dict[str, float], keys: str, payload: str, size: int
) -> None:
    seen = replace(SEEN, sample=replace(SEEN.sample, **sample))  # type: ignore[arg-type]
    row, _ = loaded(tmp_path, seen)
    assert (row.keys.kind, row.payload.kind, row.record_bytes) == (keys, payload, size)


def test_sizes_that_differ_are_those_of_the_sample(tmp_path: Path) -> None:
    uneven = replace(SEEN, sample=replace(SEEN.sample, record_sizes=(*[100] * 15, *[300] * 4, 2000), gzip_ratio=2.0))
    row, _ = loaded(tmp_path, uneven)
    assert row.sizes
    assert row.sizes.values == ((100, 15), (300, 4), (2000, 1))
    assert row.record_bytes == row.sizes.mean == pytest.approx(235, abs=3)
    even = replace(SEEN, sample=replace(SEEN.sample, record_sizes=(290, 310)))
    (tmp_path / "even").mkdir()
    assert loaded(tmp_path / "even", even)[0].sizes is None


@pytest.mark.parametrize(
    ("packed", "config", "compression"),
    [(4.2, (), "lz4"), (0.9, (), None), (None, (), None), (4.2, SEEN.config, None)],
)
def test_batches_that_come_compressed_are_sent_so(
    tmp_path: Path, packed: float | None, config: tuple[tuple[str, str], ...], compression: str | None
) -> None:
    """Whatever the producers compressed, the family did not, and sent several times the bytes."""
    seen = replace(SEEN, config=config, sample=replace(SEEN.sample, packed=packed))
    row, _ = loaded(tmp_path, seen)
    assert dict(row.producer).get("compression.type") == compression
    assert ("ASSUMED: each byte from the brokers held 4.2 B" in family_text(seen, WHEN, 3.04)) == (
        compression is not None
    )


@pytest.mark.parametrize("size", [0, 32, 33, 40, 64, 100, 300, 1_000, 16_384, 200_000])
@pytest.mark.parametrize("ratio", [0.9, 1.1, 1.15, 1.3, 3.04, 12.0, 500.0])
def test_a_payload_that_is_written_can_be_made(tmp_path: Path, size: int, ratio: float) -> None:
    """The file said text:1.1, which no text of printable noise can be, and its load ended in an error."""
    seen = replace(SEEN, sample=replace(SEEN.sample, record_bytes=size, gzip_ratio=ratio))
    row, _ = loaded(tmp_path, seen)
    assert len(Values(row.payload, run=1, producer=1, record_bytes=row.record_bytes, seed=1, compressed=True))


def test_a_rate_that_is_not_known_says_so(tmp_path: Path) -> None:
    row, _ = loaded(tmp_path, replace(SEEN, rate=0.0))
    assert row.load.rate == 500
    assert "NOT KNOWN: nothing was written in 10 s" in family_text(replace(SEEN, rate=0.0), WHEN, 3.04)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    name=st.text("abcXYZ019._-", min_size=1, max_size=40),
    cluster=st.text(min_size=1, max_size=40),
    rate=st.floats(0, 1e7),
    ratio=st.floats(0.5, 1e4),
    size=st.integers(0, 10_000_000),
    partitions=st.integers(1, 1000),
)
def test_whatever_is_seen_makes_a_file_that_loads(
    tmp_path: Path, name: str, cluster: str, rate: float, ratio: float, size: int, partitions: int
) -> None:
    sample = replace(SEEN.sample, gzip_ratio=ratio, record_bytes=size)
    seen = replace(SEEN, name=name, cluster=cluster, rate=rate, partitions=partitions, sample=sample)
    for old in tmp_path.glob("*.py"):
        old.unlink()
    row, doubled = loaded(tmp_path, seen)
    assert row.topic.partitions == partitions
    assert doubled.load.rate == pytest.approx(2 * row.load.rate)
    if rate > 0.01:
        assert row.load.rate == pytest.approx(rate, rel=0.06)


def test_the_file_is_listed_beside_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "like-shop-orders-1.py").write_text(family_text(SEEN, WHEN, 3.04))
    done = gate(tmp_path / "results", "--list-scenarios", f"--scenarios={tmp_path}", "--family=like-shop-orders-1")
    assert done.code == 0, done.output
    assert "  like-shop-orders-1 " in done.output
    assert "  like-shop-orders-1-double " in done.output
