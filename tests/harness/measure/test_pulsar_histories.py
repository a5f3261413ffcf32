"""Histories with Pulsar's positions: ledger, entry and index in a batch in one number, rising, with holes between."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.judge.faults.rules import durability_of
from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.history import RECEIPT, Rows
from perfgate.load.positions import parts_of, position_of
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.flaws import failed_before, failures
from perfgate.measure.faults.history import Written, keep, logs_of, positions, recall
from perfgate.measure.faults.integrity import ACKED, UNKNOWN, Integrity, Sends, check_integrity
from perfgate.model import ClusterSpec, Measurement, Verdict
from perfgate.model import settings as model_settings
from tests.harness.build import scenario
from tests.harness.build.faults import FAULT, PARTITIONS, faulty, history, one_fault
from tests.harness.examples import examples

LEDGER, ENTRY = position_of(1, 0, 0), position_of(0, 1, 0)
"""From one ledger, or entry, to the next."""


@dataclass
class Stored:
    """What producers know, and what the final read was given: (partition, offset, producer, sequence)."""

    producers: list[Sends]
    read: list[tuple[int, int, int, int]]
    partitions: int

    @property
    def rows(self) -> Rows:
        rows = np.zeros(len(self.read), RECEIPT)
        for at, row in enumerate(self.read):
            rows[["partition", "offset", "producer", "sequence"]][at] = row
        return rows

    def check(self) -> Integrity:
        return check_integrity(self.producers, logs_of(self.rows, self.partitions))

    def acknowledged(self) -> list[int]:
        """The indices in the read of records that were acknowledged."""
        return [at for at, (_, _, who, what) in enumerate(self.read) if self.producers[who].outcome[what] == ACKED]

    def beyond(self, partition: int) -> int:
        """An offset behind all of the partition's, in a ledger of its own."""
        return max((offset for where, offset, _, _ in self.read if where == partition), default=0) + LEDGER


@st.composite
def clean(draw: st.DrawFn) -> Stored:
    """Batches of one producer each; ledgers end, entries of markers lie between, no ledger belongs to two partitions.

    A record that ended in an error is there or not, as chance has it.
    """
    partitions = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(3, 30), min_size=1, max_size=3))
    random = draw(st.randoms(use_true_random=False))
    tables = [(np.full(n, ACKED, np.int8), np.zeros(n, np.int16), np.full(n, -1, np.int64)) for n in sizes]
    ledgers = iter(range(draw(st.integers(0, 300)), 1 << 22))
    at = [(next(ledgers), 0) for _ in range(partitions)]
    sent, read = [0] * len(sizes), []
    while unsent := [producer for producer, n in enumerate(sizes) if sent[producer] < n]:
        producer, partition = random.choice(unsent), random.randrange(partitions)
        ledger, entry = at[partition]
        if random.random() < 0.2:
            ledger, entry = next(ledgers), 0
        entry += random.choice((0, 0, 1, 7))
        count = min(random.randint(1, 4), sizes[producer] - sent[producer])
        fails, there = random.random() < 0.1, random.random() < 0.5
        for index in range(count):
            outcome, where, offset = tables[producer]
            sequence, place = sent[producer] + index, position_of(ledger, entry, index)
            where[sequence] = partition
            outcome[sequence] = UNKNOWN if fails else ACKED
            if not fails:
                offset[sequence] = place
            if there or not fails:
                read.append((partition, place, producer, sequence))
        sent[producer] += count
        at[partition] = ledger, entry + 1
    return Stored([Sends(outcome=o, partition=p, offset=q) for o, p, q in tables], read, partitions)


def totals(found: Integrity) -> dict[str, int]:
    return {kind: finding.total for kind, finding in found.faults.items() if finding.total}


@settings(max_examples=examples(300))
@given(clean())
def test_holes_between_positions_are_no_fault(stored: Stored) -> None:
    found = stored.check()
    assert totals(found) == {}
    assert found.in_log == len(stored.read) == found.acknowledged + found.appeared


@given(clean(), st.data())
def test_what_the_reader_was_given_again_is_no_copy(stored: Stored, data: st.DataObject) -> None:
    """A broker that gives a partition away ends the read's connection: what was not acknowledged comes once more."""
    since = data.draw(st.integers(0, len(stored.read)))
    until = data.draw(st.integers(since, len(stored.read)))
    stored.read[until:until] = stored.read[since:until]
    assert totals(stored.check()) == {}
    assert stored.check().in_log == len(set(stored.read))


SEEDS = ("missing", "twice", "out of order", "foreign", "damaged", "acknowledged but lost", "never sent")


@settings(max_examples=examples(1000))
@given(clean(), st.sampled_from(SEEDS), st.data())
def test_every_seeded_fault_is_found(stored: Stored, seed: str, data: st.DataObject) -> None:
    if not (known := stored.acknowledged()):
        return
    at = data.draw(st.sampled_from(known))
    partition, offset, producer, sequence = stored.read[at]
    match seed:
        case "missing":
            del stored.read[at]
            assert totals(stored.check()) == {"lost": 1, "divergent": 1}
        case "twice":
            stored.read.append((partition, stored.beyond(partition), producer, sequence))
            assert totals(stored.check()) == {"duplicated": 1}
        case "out of order":
            mine = [n for n, (where, _, who, _) in enumerate(stored.read) if (where, who) == (partition, producer)]
            if len(mine) < 2:
                return
            (p, first, who, early), (_, last, _, late) = stored.read[mine[0]], stored.read[mine[-1]]
            stored.read[mine[0]], stored.read[mine[-1]] = (p, first, who, late), (p, last, who, early)
            assert stored.check().reordered.by_partition[partition] >= 1
        case "foreign":
            stored.read.append((partition, stored.beyond(partition), -1, 0))
            assert totals(stored.check()) == {"phantom": 1}
        case "damaged":
            stored.read[at] = partition, offset, -1, 0
            assert totals(stored.check()) == {"lost": 1, "divergent": 1, "phantom": 1}
        case "acknowledged but lost":  # a ledger that was closed too early: its end lacks
            ledger, _, _ = parts_of(offset)
            gone = [r for r in stored.read if offset <= r[1] < (ledger + 1) * LEDGER]
            promised = [r for r in gone if stored.producers[r[2]].outcome[r[3]] == ACKED]
            stored.read = [r for r in stored.read if r not in gone]
            if not stored.read:
                return
            assert totals(stored.check()) == {"lost": len(promised), "divergent": len(promised)}
        case "never sent":
            size = len(stored.producers[producer].outcome)
            stored.read.append((partition, stored.beyond(partition), producer, size))
            assert totals(stored.check()) == {"phantom": 1}


def test_a_position_that_is_not_known_hides_no_copy() -> None:
    sends = Sends(outcome=np.zeros(2, np.int8), partition=np.zeros(2, np.int16), offset=np.full(2, -1, np.int64))
    stored = Stored([sends], [(0, -1, 0, 0), (0, -1, 0, 1), (0, -1, 0, 0)], 1)
    assert totals(stored.check()) == {"duplicated": 1}


places = st.tuples(st.integers(-1, 40), st.integers(-1, 2**63 - 1))


@given(st.lists(st.lists(places, max_size=20), min_size=1, max_size=3))
def test_rows_have_one_number_exactly_where_partition_and_position_are_one(tables: list[list[tuple[int, int]]]) -> None:
    numbers = np.concatenate(positions(*map(rows_at, tables)))
    pairs = [pair for table in tables for pair in table]
    for at, pair in enumerate(pairs):
        assert [other == pair for other in pairs] == (numbers == numbers[at]).tolist()


def rows_at(places: list[tuple[int, int]]) -> Rows:
    rows = np.zeros(len(places), RECEIPT)
    if places:
        rows["partition"], rows["offset"] = zip(*places, strict=True)
    return rows


def test_a_ledger_of_another_partition_is_another_position() -> None:
    """With 48 bits for an offset, ledger 130 of partition 0 and ledger 2 of partition 1 were one."""
    (numbers,) = positions(rows_at([(0, position_of(130, 5, 0)), (1, position_of(2, 5, 0))]))
    assert numbers[0] != numbers[1]


def of_pulsar(written: Written) -> Written:
    """The same history with Pulsar's positions: batches of 5, ledgers of 300 batches, of the partitions in turn.

    Ledgers of partition 1 come 128 before those of partition 0, as one that is older may.
    """

    def moved(rows: Rows) -> Rows:
        own = rows.copy()
        offset, partition = rows["offset"], rows["partition"]
        own["offset"] = np.where(offset < 0, offset, placed(offset, partition))
        return own

    def placed(offset: npt.NDArray[np.int64], partition: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        batch, index = offset // 5, offset % 5
        ledger = 200 - 128 * partition.astype(np.int64) + 2 * (batch // 300)
        numbers: npt.NDArray[np.int64] = LEDGER * ledger + ENTRY * (batch % 300) + index
        return numbers

    return replace(
        written,
        outcomes=[moved(rows) for rows in written.outcomes],
        receipts=[moved(rows) for rows in written.receipts],
        log=moved(written.log),
    )


def given_again(written: Written) -> Written:
    """The first second's records after the fault come to the consumer once more, 2 s later."""
    (receipts,) = written.receipts
    again = receipts[(receipts["at"] >= FAULT) & (receipts["at"] < FAULT + 1)].copy()
    again["at"] += 2
    return replace(written, receipts=[np.concatenate((receipts, again))])


FAILS = slice(3000, 3010)


def unheard(written: Written, code: int = 1) -> Written:
    """Some outcomes are an error, some are never heard of, and half of these records are in the log."""
    (outcomes,) = written.outcomes
    failed = outcomes.copy()
    failed["error"][FAILS], failed["offset"][FAILS] = code, -1
    gone = np.isin(written.log["sequence"], np.arange(FAILS.start, FAILS.stop + 5, 2))
    return replace(written, outcomes=[np.delete(failed, slice(FAILS.stop, FAILS.stop + 5))], log=written.log[~gone])


@pytest.mark.parametrize(
    "written",
    [
        history(),
        history(down=False),
        history(lose=3),
        history(again=4),
        given_again(history()),
        unheard(history()),
        replace(history(), receipts=[]),
    ],
)
def test_all_that_is_said_of_a_history_is_the_same_with_positions_of_pulsar(written: Written) -> None:
    plain, ours = analyse(written), analyse(of_pulsar(written))
    assert ours[1] == pytest.approx(plain[1])
    assert replace(ours[0], findings={}) == replace(plain[0], findings={})
    assert ours[0].findings.keys() == plain[0].findings.keys()
    assert ours[2] == plain[2]


def test_positions_are_written_as_pulsars_tools_write_them() -> None:
    """The last ones of 6,000 in each partition: the fifth of the last batch of the fourth ledger."""
    failover, _, _ = analyse(replace(of_pulsar(history(lose=2)), system="pulsar"))
    assert failover.findings["lost"] == (
        "record 0/11998, acknowledged at 0:206:299:4",
        "record 0/11999, acknowledged at 1:78:299:4",
    )
    assert failover.findings["divergent"][0] == "0:206:299:4 was acknowledged for record 0/11998 and holds nothing"


def test_positions_of_pulsar_are_kept_whole(tmp_path: Path) -> None:
    written = of_pulsar(history(lose=2))
    keep(tmp_path / "one.npz", written)
    again = recall(tmp_path / "one.npz")
    assert (again.log["offset"] == written.log["offset"]).all()
    assert analyse(again)[1] == analyse(written)[1]


@pytest.mark.parametrize(("code", "failed", "timed_out"), [(3, 0, 10), (7, 10, 0), (-192, 10, 0)])
def test_codes_of_errors_are_those_of_the_systems_client(code: int, failed: int, timed_out: int) -> None:
    """7 is REQUEST_TIMED_OUT of Kafka, and AuthenticationError of libpulsar."""
    written = replace(of_pulsar(unheard(history(), code)), system="pulsar", marks=[(FAULT - 20, "kill broker 1")])
    assert failures(written) == {"failed": failed, "timed_out": timed_out}


def test_sends_that_fail_before_a_fault_are_told_by_the_client_that_says_so(tmp_path: Path) -> None:
    """They are of brokers that were late where each of them timed out."""
    written = replace(of_pulsar(unheard(history(), 3)), system="pulsar")
    keep(tmp_path / "one.npz", written)
    early = failed_before(faulty(), recall(tmp_path / "one.npz"))
    assert early is not None
    assert early.text.endswith("10 x error 3 of libpulsar")
    assert early.late
    other = failed_before(faulty(), replace(of_pulsar(unheard(history(), 11)), system="pulsar"))
    assert other is not None
    assert not other.late


PULSAR = ClusterSpec(system="pulsar")


def test_a_bookie_that_was_killed_keeps_what_it_has_acknowledged() -> None:
    """So a loss is red whatever the quorum; copies and order are promised where brokers drop what is sent again."""
    row = replace(scenario(), cluster=PULSAR, producer=())
    assert durability_of(row) == "nothing lost"
    dropped = replace(row, topic=replace(row.topic, config=model_settings({"deduplicationEnabled": "true"})))
    assert durability_of(dropped) == "nothing lost, duplicated or reordered"
    assert durability_of(replace(row, cluster=ClusterSpec())) == "losses allowed"


def test_a_round_of_pulsar_that_lost_a_record_is_red() -> None:
    """Whatever the outage: 8 s are less than a session lasts, so that the fault may have had no effect."""
    row = replace(faulty(kind="kill-broker"), cluster=PULSAR, producer=())
    for lose, verdict in ((0, Verdict.INVALID), (1, Verdict.REGRESSED)):
        rounds = tuple(one_fault(replace(of_pulsar(history(lose=lose)), system="pulsar"), n) for n in (1, 2, 3))
        outcome = judge_scenario(Measurement(scenario=row, rounds=rounds, rtt_ms={}), None)
        assert outcome.verdict is verdict, outcome


def test_no_two_records_of_this_file_stand_at_one_position() -> None:
    log = of_pulsar(history()).log
    assert len(np.unique(log["offset"])) == len(log)
    assert len(set(log["partition"].tolist())) == PARTITIONS
