"""Records of 10 to 31 bytes: each says which it is, a damaged or foreign one does not pass, and no time is made up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.payload import COMPACT, CompactReading, Headers, Values, reading, run_tag
from perfgate.model import Consumers, Load, Payload, Scenario
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build import scenario

RUN = run_tag("run")
SIZES = st.integers(COMPACT.itemsize, 31)
PRODUCERS, FIRSTS = st.integers(0, (1 << 16) - 1), st.integers(0, (1 << 40) - 4)


def made(record_bytes: int, first: int = 0, *, producer: int = 2, count: int = 4) -> bytes:
    """Return records one after the other, as a producer hands them over."""
    values = Values(Payload(), run=RUN, producer=producer, record_bytes=record_bytes, seed=1, compressed=False)
    values.stamp(0, np.arange(first, first + count, dtype=np.uint64), 5.0)
    assert (values.lengths == record_bytes).all()
    return values.data[: count * record_bytes].tobytes()


def read(data: bytes, record_bytes: int, how: Headers | None = None) -> np.ndarray:
    """Return the headers of records that lie one after the other."""
    how = how or CompactReading(RUN, record_bytes, lambda producers, _: np.zeros(len(producers)))
    return how.of(np.frombuffer(data, f"V{record_bytes}"))


@given(record_bytes=SIZES, first=FIRSTS, producer=PRODUCERS)
def test_a_small_record_says_who_sent_it_and_which_it_is(record_bytes: int, first: int, producer: int) -> None:
    found = read(made(record_bytes, first, producer=producer), record_bytes)
    assert (found["run"] == RUN).all()
    assert (found["producer"] == producer).all()
    assert found["sequence"].tolist() == list(range(first, first + 4))


@given(record_bytes=SIZES, first=FIRSTS, at=st.integers(0, 4 * 31 * 8 - 1))
def test_one_changed_bit_makes_that_record_and_no_other_foreign(record_bytes: int, first: int, at: int) -> None:
    data, at = bytearray(made(record_bytes, first)), at % (4 * record_bytes * 8)
    data[at // 8] ^= 1 << at % 8
    wrong = (read(bytes(data), record_bytes)["run"] != RUN).tolist()
    assert wrong == [row == at // 8 // record_bytes for row in range(4)]


@given(record_bytes=SIZES, other=st.text(min_size=1))
def test_records_of_another_run_are_foreign(record_bytes: int, other: str) -> None:
    how = CompactReading(run_tag(f"not {other}"), record_bytes, lambda producers, _: np.zeros(len(producers)))
    assert not (read(made(record_bytes), record_bytes, how)["run"] == run_tag(f"not {other}")).any()


def test_a_record_of_another_size_is_nobodys() -> None:
    how = CompactReading(RUN, 20, lambda producers, _: np.zeros(len(producers)))
    assert how.whole(np.array([0, 10, 19, 20, 21, 32])).tolist() == [False, False, False, True, False, False]


def test_a_paced_record_was_due_at_its_place_in_the_schedule() -> None:
    """Three clients share 600/s: number 4 of the client 2 is the 15th of all."""
    spec = {"compact_bytes": 10, "paced_rate": 600.0, "producers": 3, "run": RUN}
    due_ns = read(made(10, first=4, count=1), 10, reading(spec, lambda: 100.0))["time_ns"]
    assert due_ns.tolist() == [pytest.approx((100 + 14 / 600) * 1e9)]


def test_a_record_without_a_schedule_has_no_latency() -> None:
    spec = {"compact_bytes": 10, "paced_rate": 0.0, "producers": 1, "run": RUN}
    assert read(made(10), 10, reading(spec, lambda: 100.0))["time_ns"].tolist() == [0] * 4


def test_a_producer_that_a_small_record_cannot_name_is_refused() -> None:
    with pytest.raises(ValueError, match="producer 65536: records of this size tell 65,536 producers apart"):
        made(10, producer=1 << 16)


SMALL: Scenario = replace(scenario(), record_bytes=10)
READ = Consumers(membership="assigned")


@pytest.mark.parametrize(
    ("small", "because"),
    [
        (replace(SMALL, load=Load(kind="capped", rate=10)), ""),
        (replace(SMALL, load=Load(kind="paced", rate=10), consumers=READ), ""),
        (replace(SMALL, load=Load(kind="backlog", records=10), consumers=READ), ""),
        (replace(SMALL, load=Load(kind="capped", rate=10), consumers=READ), "from send to receipt is not known"),
        (replace(SMALL, record_bytes=9), "record_bytes is 9; a record needs at least 10"),
        (replace(SMALL, payload=Payload(kind="text", ratio=2)), "text of a stated ratio needs at least 32"),
        (replace(SMALL, payload=Payload(kind="lines", path="lines")), ""),
    ],
)
def test_what_cannot_be_known_of_a_small_record_is_refused_beforehand(small: Scenario, because: str) -> None:
    refused = LibrdkafkaDriver().cannot(small) or ""
    assert because in refused
    assert bool(because) is bool(refused)
