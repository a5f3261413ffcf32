"""Skewed keys: how often each is drawn, which partition is the hottest, and the texts that declare them."""

import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from perfgate.load.payload import KeyPool
from perfgate.measure.assembly import hottest
from perfgate.model import KEY_BYTES, Keys, Load, with_changes
from perfgate.model.declared import NEW_KEY_EVERY
from perfgate.model.errors import ConfigurationError
from perfgate.model.histogram import LatencyRecorder
from tests.harness.build import scenario
from tests.harness.build.loads import sent

DRAWN = 200_000


def drawn(keys: Keys, count: int = DRAWN, *, at_a_time: int = 256) -> list[int]:
    """Return which keys of the set were drawn."""
    pool = KeyPool(keys, 3)
    offsets = np.concatenate([pool.draw(at_a_time) for _ in range(0, count, at_a_time)])
    return [int(offset) // KEY_BYTES for offset in offsets]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_key_of_a_rank_comes_as_often_as_its_power(exponent: float) -> None:
    counts = Counter(drawn(Keys(kind="zipf", count=1000, exponent=exponent)))
    weights = np.arange(1, 1001) ** -exponent
    for rank in (1, 2, 3, 10):
        expected = DRAWN * weights[rank - 1] / weights.sum()
        assert counts[rank - 1] == pytest.approx(expected, abs=6 * expected**0.5 + 1)
    assert max(counts) < 1000


def test_one_key_has_its_share_and_the_others_the_rest_evenly() -> None:
    counts = Counter(drawn(Keys(kind="hot", count=11, share=0.4)))
    assert counts[0] == pytest.approx(0.4 * DRAWN, rel=0.02)
    assert [counts[key] for key in range(1, 11)] == pytest.approx([0.06 * DRAWN] * 10, rel=0.06)


def test_the_newest_keys_come_most_often_and_new_ones_take_the_place_of_the_oldest() -> None:
    keys = drawn(Keys(kind="newest", count=100, exponent=1.5))
    ages = [(at // NEW_KEY_EVERY - key) % 100 for at, key in enumerate(keys)]
    counts = Counter(ages)
    assert counts[0] > 2 * counts[1] > 3 * counts[3] > 0
    assert {*keys} == {*range(100)}
    assert [*Counter(keys[:100]).most_common(1)[0]] != [*Counter(keys[500:600]).most_common(1)[0]]


@pytest.mark.parametrize("keys", [Keys(kind="zipf", count=1_000_000, exponent=1), Keys(kind="hot", count=9, share=0.5)])
def test_drawing_costs_little(keys: Keys) -> None:
    """A client makes 500,000 records a second at the most: 2 us each, of which this may be a tenth or two."""
    pool = KeyPool(keys, 1)
    best = min(_seconds(pool) for _ in range(5))
    assert best / (100 * 256) < 1e-6


def _seconds(pool: KeyPool) -> float:
    began = time.perf_counter()
    for _ in range(100):
        pool.draw(256)
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("zipf:count=1000,exponent=1.2", Keys(kind="zipf", count=1000, exponent=1.2)),
        ("newest:count=50,exponent=1", Keys(kind="newest", count=50, exponent=1)),
        ("hot:count=100,share=0.25", Keys(kind="hot", count=100, share=0.25)),
        (7, Keys(kind="set", count=7)),
        ("none", Keys()),
    ],
)
def test_a_text_declares_keys(text: object, keys: Keys) -> None:
    assert with_changes(scenario(), [("record.keys", text)]).keys == keys


@pytest.mark.parametrize(
    "text",
    [
        "zipf",
        "zipf:count=1,exponent=1",
        "zipf:count=9",
        "zipf:count=9,exponent=11",
        "hot:count=9,share=1.5",
        "hot:count=9,share=0.0",
        "hot:count=9,share=0.5,more=1",
        "newest:count=2000000,exponent=1",
    ],
)
def test_wrong_keys_are_refused_with_what_is_legal(text: str) -> None:
    with pytest.raises(ConfigurationError, match="are no keys; legal: none, random, how many there are, zipf:count=N"):
        with_changes(scenario(), [("record.keys", text)])


def test_the_hottest_partition_has_a_share_and_a_p99_of_its_own() -> None:
    recorder = LatencyRecorder(3)
    recorder.record(np.full(100, 0.002), np.zeros(100, np.int32))
    recorder.record(np.full(300, 0.05), np.ones(300, np.int32))
    made = sent(acked_by_partition=[100, 300, 0], latency_by_partition=recorder.by_partition())
    row = with_changes(scenario(), [("record.keys", "hot:count=9,share=0.7")])
    found = hottest(row, made)
    assert found["hottest_partition_share"] == 0.75
    assert 50 <= found["hottest_partition_latency_ms.p99"] <= 50 * 17 / 16
    assert hottest(scenario(), made) == {}, "without keys records go to the partitions in turn"
    assert row.judged == ("records_per_s",)
    paced = replace(row, load=Load(kind="paced", rate=9))
    assert paced.judged == ("latency_ms.p99", "hottest_partition_latency_ms.p99")
