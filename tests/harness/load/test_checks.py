"""The checks on records that were read, against a plain model of them, and what records are made of."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.load.checks import Positions, Sequences
from perfgate.load.payload import HEADER, KeyPool, Values, gzip_ratio, run_tag
from perfgate.load.positions import position_of
from perfgate.model import KEY_BYTES, Keys, Payload
from tests.harness.examples import examples

Log = list[tuple[int, int, int]]
"""Records in the order in which they were read: producer, partition, number."""


def checked(log: Log, batches: list[int], place: Callable[[int], int] = int) -> Sequences:
    """Check the log in batches of these sizes; every partition's offsets run from 0, or `place` gives them."""
    sequences = Sequences(producers=3, partitions=2)
    offsets = [place(sum(1 for earlier in log[:i] if earlier[1] == log[i][1])) for i in range(len(log))]
    begin = 0
    for size in [*batches, len(log)]:
        part = slice(begin, begin + size)
        columns = [np.array([record[i] for record in log[part]], np.int64) for i in range(3)]
        sequences.check(columns[0], columns[1], np.array(offsets[part], np.int64), columns[2])
        begin += size
    return sequences


records = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 12))


@given(log=st.lists(records, max_size=60), batches=st.lists(st.integers(0, 20), max_size=8))
def test_duplicates_and_reordered_records_are_those_of_a_plain_model(log: Log, batches: list[int]) -> None:
    seen: dict[tuple[int, int], list[int]] = {}
    duplicated = reordered = 0
    for producer, partition, number in log:
        before = seen.setdefault((producer, partition), [])
        if number in before:
            duplicated += 1
        elif before and number < max(before):
            reordered += 1
        before.append(number)
    found = checked(log, batches)
    assert (found.duplicated, found.reordered, found.redelivered) == (duplicated, reordered, 0)


def in_batches_of_three(number: int) -> int:
    """Pulsar's position of a partition's record: a new ledger each 4 entries, every other entry something else's."""
    entry, index = divmod(number, 3)
    return position_of(5 + entry // 4, 2 * (entry % 4), index)


@given(log=st.lists(records, max_size=60), batches=st.lists(st.integers(0, 20), max_size=8))
def test_holes_between_the_positions_of_pulsar_are_nothing(log: Log, batches: list[int]) -> None:
    plain, found = checked(log, batches), checked(log, batches, in_batches_of_three)
    assert (found.duplicated, found.reordered, found.redelivered) == (plain.duplicated, plain.reordered, 0)


def test_a_log_position_read_again_is_redelivered_and_not_a_duplicate() -> None:
    sequences = Sequences(producers=1, partitions=1)
    numbers = np.arange(10)
    zeros = np.zeros(10, np.int64)
    assert sequences.check(zeros, zeros, numbers, numbers) == 10
    assert sequences.check(zeros[:4], zeros[:4], numbers[6:], numbers[6:]) == 0
    assert (sequences.redelivered, sequences.duplicated) == (4, 0)


def test_a_partition_that_is_rewound_begins_anew() -> None:
    sequences = Sequences(producers=1, partitions=1)
    numbers, zeros = np.arange(10), np.zeros(10, np.int64)
    sequences.check(zeros, zeros, numbers, numbers)
    sequences.rewind(0)
    assert sequences.check(zeros, zeros, numbers, numbers) == 10
    assert (sequences.redelivered, sequences.duplicated, sequences.reordered) == (0, 0, 0)


@given(
    lost=st.sets(st.tuples(st.integers(0, 1), st.integers(0, 29))),
    order=st.permutations([0, 1] * 30),
    batch=st.integers(1, 60),
)
def test_every_position_that_is_not_read_is_missed(lost: set[tuple[int, int]], order: list[int], batch: int) -> None:
    """Also the last ones: the end of the partition tells."""
    read = [(partition, order[:at].count(partition)) for at, partition in enumerate(order)]
    read = [record for record in read if record not in lost]
    positions = Positions(2)
    for begin in range(0, len(read), batch):
        columns = np.array(read[begin : begin + batch], np.int64).T
        positions.check(columns[0], columns[1])
    for partition in (0, 1):
        positions.rewind(partition, 30)
    assert positions.missed == len(lost)


def test_a_position_that_is_read_again_makes_up_for_none() -> None:
    positions, zeros = Positions(1), np.zeros(4, np.int64)
    positions.check(zeros, np.array([0, 1, 1, 3]))
    assert positions.missed == 1
    positions.rewind(0, 4)
    positions.check(zeros, np.arange(4))
    assert positions.missed == 1


def test_the_memory_of_the_checks_is_bounded() -> None:
    sequences = Sequences(producers=1, partitions=1)
    zeros = np.zeros(1000, np.int64)
    for n in range(500):
        numbers = np.arange(n * 1000, (n + 1) * 1000)
        sequences.check(zeros, zeros, numbers, numbers)
    assert sum(map(len, sequences._seen[0])) < 70_000


def values(payload: Payload, record_bytes: int = 100) -> Values:
    return Values(payload, run=run_tag("run"), producer=2, record_bytes=record_bytes, seed=1, compressed=True)


def rows_of(made: Values) -> list[bytes]:
    return [
        made.data[int(begin) : int(begin) + int(length)].tobytes()
        for begin, length in zip(made.offsets, made.lengths, strict=True)
    ]


@given(first=st.integers(0, 2**40), time_s=st.floats(0, 1e6), record_bytes=st.integers(32, 200))
@settings(max_examples=examples(100))
def test_a_value_has_its_size_and_says_who_sent_it_when(first: int, time_s: float, record_bytes: int) -> None:
    made = values(Payload(), record_bytes)
    made.stamp(0, np.arange(first, first + 3, dtype=np.uint64), time_s)
    for number, row in enumerate(rows_of(made)[:3]):
        header = np.frombuffer(row[: HEADER.itemsize], HEADER)[0]
        assert len(row) == record_bytes
        assert (header["run"], header["producer"]) == (run_tag("run"), 2)
        assert header["sequence"] == first + number
        assert header["time_ns"] * 1e-9 == pytest.approx(time_s, abs=1e-8)
        assert header["crc"] == zlib.crc32(row[HEADER.itemsize :])


def test_a_record_too_small_for_its_header_is_refused() -> None:
    with pytest.raises(ValueError, match="record_bytes is 9; a record needs at least 10"):
        values(Payload(), 9)
    with pytest.raises(ValueError, match="record_bytes is 31; text of a stated ratio needs at least 32"):
        values(text(4.0), 31)


def test_random_bodies_do_not_compress_even_over_the_largest_window() -> None:
    data = values(Payload(), 1024).data.tobytes()
    assert len(data) >= 4 << 20
    assert len(zlib.compress(data[: 1 << 20])) > 0.95 * (1 << 20)


@pytest.mark.parametrize("ratio", [1.5, 2.0, 4.0, 8.0])
def test_text_has_the_ratio_that_was_stated(ratio: float) -> None:
    bodies = np.array([np.frombuffer(row[HEADER.itemsize :], np.uint8) for row in rows_of(values(text(ratio), 1024))])
    assert gzip_ratio(bodies) == pytest.approx(ratio, rel=0.05)
    assert bodies.min() >= 32
    assert bodies.max() < 127


def text(ratio: float) -> Payload:
    return Payload(kind="text", ratio=ratio)


def test_a_ratio_that_text_cannot_have_is_refused_with_those_it_can() -> None:
    with pytest.raises(ValueError, match=r"cannot have a compression ratio of 1000; legal: \d+\.\d+ to \d+\.\d+"):
        values(text(1000), 1024)


def test_lines_become_records_whatever_their_length(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\n\nthe second line\n\xff\xfe\n")
    rows = rows_of(values(Payload(kind="lines", path=str(tmp_path / "lines"))))
    assert [row[HEADER.itemsize :] for row in rows] == [b"one", b"the second line", b"\xff\xfe"]


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), (b"\n\n", "no line that is not empty")])
def test_a_payload_file_that_cannot_serve_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "lines"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=f"payload file {path}.*{words}"):
        values(Payload(kind="lines", path=str(path)))


def test_keys_of_a_set_are_drawn_from_it_and_random_ones_hardly_repeat() -> None:
    few, many = KeyPool(Keys(kind="set", count=7), 1), KeyPool(Keys(kind="random"), 1)
    assert drawn(few) == {b"key-%012d" % n for n in range(7)}
    assert len(drawn(many)) > 990


def drawn(pool: KeyPool) -> set[bytes]:
    return {pool.data[int(at) : int(at) + KEY_BYTES].tobytes() for at in pool.draw(1000)}
