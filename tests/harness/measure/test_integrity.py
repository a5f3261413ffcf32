"""The integrity checker finds every fault seeded into a recorded history, and nothing in a clean one."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.measure.faults.integrity import ACKED, NAMED, UNKNOWN, UNSENT, Integrity, Log, Sends, check_integrity
from tests.harness.examples import examples

KINDS = ("lost", "duplicated", "reordered", "phantom", "divergent", "regressed")


@dataclass
class History:
    """What producers know, and the partitions' logs as lists of (producer, sequence); offsets are positions."""

    producers: list[Sends]
    logs: list[list[tuple[int, int]]]

    def check(self) -> Integrity:
        """Hold one against the other."""
        logs = {
            number: Log(
                offset=np.arange(len(entries), dtype=np.int64),
                producer=np.array([producer for producer, _ in entries], np.int32),
                sequence=np.array([sequence for _, sequence in entries], np.int64),
            )
            for number, entries in enumerate(self.logs)
        }
        return check_integrity(self.producers, logs)


@st.composite
def clean(draw: st.DrawFn) -> History:
    """A history as it should be: every record that was acknowledged stands where the broker said, in its order."""
    partitions = draw(st.integers(1, 4))
    random = draw(st.randoms(use_true_random=False))
    logs: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
    sizes = draw(st.lists(st.integers(3, 40), min_size=1, max_size=3))
    tables = [(np.full(n, ACKED, np.int8), np.zeros(n, np.int16), np.full(n, -1, np.int64)) for n in sizes]
    order = [producer for producer, n in enumerate(sizes) for _ in range(n)]
    random.shuffle(order)
    sequences = [0] * len(sizes)
    for producer in order:
        sequence, partition = sequences[producer], random.randrange(partitions)
        sequences[producer] += 1
        outcome, where, offset = tables[producer]
        where[sequence] = partition
        fate = random.random()
        if fate < 0.1:
            outcome[sequence] = UNKNOWN
        if fate > 0.05:  # half of those that ended in an error are there all the same
            offset[sequence] = len(logs[partition]) if fate >= 0.1 else -1
            logs[partition].append((producer, sequence))
    return History([Sends(outcome=o, partition=p, offset=at) for o, p, at in tables], logs)


def totals(found: Integrity) -> dict[str, int]:
    return {kind: finding.total for kind, finding in found.faults.items()}


@settings(max_examples=examples(300))
@given(clean())
def test_a_clean_history_has_no_fault(history: History) -> None:
    found = history.check()
    assert totals(found) == dict.fromkeys(KINDS, 0)
    in_log = sum(map(len, history.logs))
    assert found.in_log == in_log == found.acknowledged + found.appeared


def pick(history: History, data: st.DataObject) -> tuple[int, int]:
    """Return the place of an acknowledged record in a log."""
    places = [
        (number, at)
        for number, entries in enumerate(history.logs)
        for at, (producer, sequence) in enumerate(entries)
        if history.producers[producer].outcome[sequence] == ACKED
    ]
    return data.draw(st.sampled_from(places))


SEEDS = ("drop", "duplicate", "swap", "invent", "rewrite", "truncate")


@settings(max_examples=examples(1000))
@given(clean(), st.sampled_from(SEEDS), st.data())
def test_every_seeded_fault_is_found(history: History, seed: str, data: st.DataObject) -> None:
    if not any(p.outcome[s] == ACKED for p in history.producers for s in range(len(p.outcome))):
        return
    number, at = pick(history, data)
    entries = history.logs[number]
    match seed:
        case "drop":
            entries.pop(at)
            assert history.check().lost.total == 1
        case "duplicate":
            entries.append(entries[at])
            assert history.check().duplicated.by_partition == {number: 1}
        case "swap":
            mine = [index for index, (producer, _) in enumerate(entries) if producer == entries[at][0]]
            if len(mine) < 2:
                return
            first, second = mine[0], mine[-1]
            entries[first], entries[second] = entries[second], entries[first]
            found = history.check()
            assert found.reordered.by_partition[number] >= 1
        case "invent":
            producer = data.draw(st.integers(-1, len(history.producers)))
            size = len(history.producers[producer].outcome) if 0 <= producer < len(history.producers) else 0
            entries.append((producer, size + data.draw(st.integers(0, 5))))
            assert history.check().phantom.by_partition == {number: 1}
        case "rewrite":
            producer, sequence = entries[at]
            entries[at] = (-1, 0)
            found = history.check()
            assert (found.divergent.total, found.phantom.total, found.lost.total) == (1, 1, 1)
            assert f"{number}:{at} was acknowledged for record {producer}/{sequence}" in found.divergent.first[0]
        case "truncate":
            gone = [entry for entry in entries[at:] if history.producers[entry[0]].outcome[entry[1]] == ACKED]
            del entries[at:]
            found = history.check()
            assert found.lost.total == found.divergent.total == len(gone)


@given(clean())
def test_what_was_never_sent_is_a_phantom_and_an_error_is_no_loss(history: History) -> None:
    first = history.producers[0]
    outcome = first.outcome.copy()
    outcome[0] = UNSENT
    there = any(entry == (0, 0) for entries in history.logs for entry in entries)
    changed = History([replace(first, outcome=outcome), *history.producers[1:]], history.logs)
    assert changed.check().phantom.total == int(there)


def test_an_offset_that_does_not_rise_is_told() -> None:
    sends = Sends(outcome=np.zeros(3, np.int8), partition=np.zeros(3, np.int16), offset=np.array([0, 1, 1]))
    found = History([sends], [[(0, 0), (0, 1), (0, 2)]]).check()
    assert found.regressed.by_partition == {0: 1}
    assert found.divergent.by_partition == {0: 1}


def test_no_more_than_the_first_are_named() -> None:
    sends = Sends(outcome=np.zeros(100, np.int8), partition=np.zeros(100, np.int16), offset=np.arange(100))
    found = History([sends], [[]]).check()
    assert found.lost.total == 100
    assert len(found.lost.first) == NAMED
    assert found.lost.first[0] == "record 0/0, acknowledged at 0:0"


@pytest.mark.parametrize("records", [200_000])
def test_many_records_take_little_time(records: int) -> None:
    """The bound for 20 million is a benchmark's; here only that nothing is quadratic."""
    count = records // 4
    sends = [
        Sends(
            outcome=np.zeros(count, np.int8),
            partition=np.zeros(count, np.int16),
            offset=np.arange(count) * 4 + producer,
        )
        for producer in range(4)
    ]
    log = Log(
        offset=np.arange(records),
        producer=np.tile(np.arange(4, dtype=np.int32), count),
        sequence=np.repeat(np.arange(count), 4),
    )
    assert totals(check_integrity(sends, {0: log})) == dict.fromkeys(KINDS, 0)
