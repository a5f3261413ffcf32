"""Records of several sizes: each whole with its header and CRC, its length known from its number, chunks that fit."""

import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.payload import HEADER, Values, lengths_of, nearest_text_ratio
from perfgate.load.producing import CHUNK, chunk_that_fits
from perfgate.load.schedule import pace
from perfgate.model import KIB, Payload, with_changes
from perfgate.model.load import Batching
from perfgate.model.sizes import read_sizes
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build import scenario
from tests.harness.load.test_checks import rows_of
from tests.harness.load.test_received import RUN, give, receipts

MIXED = read_sizes("record.sizes", "values:100=70/1000=25/20000=5")


def made(producer: int = 1) -> Values:
    return Values(Payload(), run=RUN, producer=producer, record_bytes=MIXED.mean, seed=1, compressed=False, sizes=MIXED)


def test_every_record_carries_its_header_and_crc_whatever_its_size() -> None:
    values = made()
    numbers = np.arange(len(values), dtype=np.uint64)
    values.stamp(0, numbers[:40], 1.5)
    values.stamp(40, numbers[40:], np.full(len(values) - 40, 2.5))
    rows = rows_of(values)
    assert Counter(map(len, rows)) == Counter(MIXED.lengths)
    for number, row in enumerate(rows):
        header = np.frombuffer(row[: HEADER.itemsize], HEADER)[0]
        assert (header["run"], header["producer"], header["sequence"]) == (RUN, 1, number)
        assert header["crc"] == zlib.crc32(row[HEADER.itemsize :])
        assert header["time_ns"] == (1.5e9 if number < 40 else 2.5e9)


@pytest.mark.parametrize("ratio", [1.5, 3.0, 6.0])
def test_text_of_several_sizes_has_the_ratio_that_was_stated(ratio: float) -> None:
    payload = Payload(kind="text", ratio=ratio)
    values = Values(payload, run=RUN, producer=1, record_bytes=MIXED.mean, seed=1, compressed=True, sizes=MIXED)
    values.stamp(0, np.arange(len(values), dtype=np.uint64), 1.5)
    raw = values.data.tobytes()[: 1 << 20]
    batches = [raw[at : at + 16 * KIB] for at in range(0, len(raw), 16 * KIB)]
    assert len(raw) / sum(len(zlib.compress(batch)) for batch in batches) == pytest.approx(ratio, rel=0.12)
    assert nearest_text_ratio(MIXED.mean, ratio, MIXED) == pytest.approx(ratio, rel=0.05)


def test_a_ratio_that_no_text_of_these_sizes_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"text in records of 40 to 40 bytes cannot have .* of 90; legal: \d"):
        Values(
            Payload(kind="text", ratio=90),
            run=RUN,
            producer=1,
            record_bytes=40,
            seed=1,
            compressed=True,
            sizes=read_sizes("record.sizes", "values:40=1"),
        )


def test_producers_draw_another_order_of_the_same_lengths_and_each_run_too() -> None:
    orders = [lengths_of(MIXED, run, producer).tolist() for run, producer in ((1, 0), (1, 1), (2, 0))]
    assert orders[0] == lengths_of(MIXED, 1, 0).tolist()
    assert len({tuple(order) for order in orders}) == 3
    assert {tuple(sorted(order)) for order in orders} == {MIXED.lengths}


def test_a_record_of_another_length_than_its_number_says_is_damaged() -> None:
    """One that is cut off keeps its header: only one body in 64 is looked at."""
    lengths = lengths_of(MIXED, RUN, 0)[:30].tolist()
    found = receipts(sizes={"kind": "values", "values": MIXED.values, "least": 100, "most": 20_000})
    give(found, 12.0, [11.0] * 30, lengths=lengths)
    assert found.corrupt == 0
    give(found, 12.0, [11.0] * 30, lengths=[*lengths[:10], lengths[10] - 1, *lengths[11:]])
    assert found.corrupt == 1
    give(found, 12.0, [11.0] * 30, lengths=lengths, producers=[1] * 30)
    assert found.corrupt > 2, "another producer's order is another"


@given(st.lists(st.integers(32, 100_000), min_size=2, max_size=400), st.integers(1, CHUNK), st.integers(50_000, 10**8))
def test_a_chunk_of_any_rows_fits_the_buffer(lengths: list[int], chunk: int, buffer_bytes: int) -> None:
    fits = chunk_that_fits(chunk, buffer_bytes, np.array(lengths, np.uint64))
    assert 1 <= fits <= chunk
    sums = [sum(lengths[at : at + fits]) for at in range(len(lengths) - fits + 1)]
    assert fits == 1 or max(sums, default=0) <= buffer_bytes // 2


def test_records_that_do_not_fit_the_buffer_are_refused() -> None:
    row = with_changes(scenario(), [("record.sizes", "values:100=9/600000=1")])
    assert LibrdkafkaDriver().cannot(row) is None
    small = with_changes(row, [("producer.queue.buffering.max.kbytes", 1024)])
    words = LibrdkafkaDriver().cannot(small)
    assert words is not None
    assert words.startswith("records of 600,000 bytes need a buffer of twice that: raise queue.buffering.max.kbytes")
    lines = replace(row, payload=Payload(kind="lines", path="x"))
    assert "its payload is lines" in (LibrdkafkaDriver().cannot(lines) or "")


@pytest.mark.parametrize(("sizes", "least"), [("values:100=9/600000=1", 4 * 600_000 // KIB), ("values:100=1", 256)])
def test_turns_have_a_buffer_for_the_largest_records(sizes: str, least: int) -> None:
    row = with_changes(scenario(), [("record.sizes", sizes)])
    batching = Batching(batch_bytes=1024, in_flight=5, linger_s=0.0, buffer_kib=32 * KIB)
    assert pace([row, row], [batching, batching], 1000).buffer_kib >= least
