"""Members of a group that come and go: partitions that stay idle are red, records passed over BROKEN, and no less."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfgate.faults.costs import shared_out
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.flaws import not_given
from perfgate.measure.faults.history import Written, keep, recall
from perfgate.model import ClusterSpec, Consumers, Fault, FaultScenario, Measurement, TopicSpec, Verdict, settings
from perfgate.report.plots import fault_timeline_figure
from perfgate.report.terminal_tables import kind_notes
from tests.harness.attack.test_what_excuses_a_fault import a_round
from tests.harness.build.faults import END, FAULT, PARTITIONS, RATE, SAFE, faulty, history, one_fault

EVERY = PARTITIONS / RATE
"""Between two records of a partition."""
MEMBERS = Consumers(membership="group", processes=2, config=settings({"group.protocol": "consumer"}))
BASE = replace(
    faulty(), consumers=MEMBERS, topic=TopicSpec(partitions=3, replication_factor=3, config=()), producer=SAFE
)
ROLLING = FaultScenario.of(BASE, Fault(kind="rolling-application", hold_s=2.0))


def idle(*gaps: tuple[int, float, float]) -> Written:
    """Nothing goes wrong with brokers; of a partition nothing is received from and to these s after a member left."""
    written = history(down=False)
    (receipts,) = (rows.copy() for rows in written.receipts)
    for partition, begin, end in gaps:
        waits = (receipts["partition"] == partition) & (receipts["at"] >= FAULT + begin)
        receipts["at"][waits] = np.maximum(receipts["at"][waits], FAULT + end)
    receipts = receipts[receipts["at"] < END]
    marks = [(FAULT, "consumer 1 leaves"), (FAULT + 2, "consumer 3 joins")]
    return replace(written, receipts=[receipts], marks=marks, states=written.states[:1])


def verdict(*found: Written) -> Verdict:
    rounds = tuple(one_fault(one, index) for index, one in enumerate(found, start=1))
    return judge_scenario(Measurement(scenario=ROLLING, rounds=rounds, rtt_ms={}), None).verdict


def test_what_a_rebalance_costs_is_known_by_partition_and_in_all() -> None:
    failover, metrics, _ = analyse(idle((0, 0.0, 3.0), (1, 2.0, 6.0)))
    assert metrics["receive_outage_s.max"] == pytest.approx(4.0, abs=0.05)
    assert metrics["receive_outage_partition_seconds"] == pytest.approx(7.0, abs=0.1)
    assert metrics["receive_outage_all_s"] == pytest.approx(1.0, abs=0.05)
    assert metrics["receive_outage_affected"] == 2
    assert metrics["missed_records"] == metrics["redelivered_records"] == 0
    assert metrics["outage_s.max"] < 0.1, "those who send feel nothing"
    assert failover.phases["rebalancing"] == pytest.approx((0.0, 6.0), abs=0.05)
    assert failover.down["0"][0] == pytest.approx((0.0, 3.0), abs=0.05), "the picture shows what was not received"
    assert max(failover.unread) > RATE


def test_what_the_pace_explains_is_no_cost() -> None:
    metrics = analyse(idle((0, 0.0, 3.0)))[1]
    down = analyse(idle((0, 0.0, 3.0)))[0].down["0"]
    whole = sum(end - begin for begin, end in down)
    assert metrics["receive_outage_partition_seconds"] == pytest.approx(whole - EVERY, abs=EVERY / 10)
    assert analyse(idle())[1]["receive_outage_partition_seconds"] == 0.0


MOST = shared_out(ROLLING, 2, 2.0).high_s


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ((), Verdict.PASS),
        (((0, 0.0, MOST - 1),), Verdict.PASS),
        (((0, 0.0, MOST + 1),), Verdict.REGRESSED),
        (((0, 0.0, END),), Verdict.REGRESSED),
        (((0, 0.0, END), (1, 0.0, END)), Verdict.REGRESSED),
        (((0, 0.0, 3.0), (0, 8.0, END)), Verdict.REGRESSED),  # of a second change
    ],
)
def test_a_rebalance_that_never_ends_is_red(gaps: tuple[tuple[int, float, float], ...], expected: Verdict) -> None:
    assert verdict(idle(*gaps)) is expected


def passed_over(*, tail: bool = False) -> Written:
    """Some records are never given to the group: in the middle, or the last ones, which it may yet be given."""
    written = idle()
    (receipts,) = written.receipts
    here = np.flatnonzero(receipts["partition"] == 1)
    chosen = here[-3:] if tail else here[len(here) // 2 :][:3]
    return replace(written, receipts=[np.delete(receipts, chosen)])


def test_records_that_are_passed_over_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = a_round(passed_over(), tmp_path, monkeypatch, row=ROLLING)
    assert found.metrics["missed_records"] == 3
    outcome = judge_scenario(Measurement(scenario=ROLLING, rounds=(found,), rtt_ms={}), None)
    assert outcome.verdict is Verdict.BROKEN
    assert "never given 3 acknowledged records" in " ".join(outcome.reasons)
    whole = a_round(passed_over(tail=True), tmp_path, monkeypatch, row=ROLLING)
    assert whole.metrics["missed_records"] == 0
    assert not whole.flaws


@pytest.mark.parametrize(
    ("starved", "expected"), [((), Verdict.PASS), ((2,), Verdict.BROKEN), ((2, 3), Verdict.BROKEN)]
)
def test_a_member_that_joins_and_is_given_nothing_is_broken(
    starved: tuple[int, ...], expected: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stayed read on, so that nothing was missing: PASS, with one member left of two."""
    (receipts,) = idle().receipts
    members = [receipts[:0] if number in starved else receipts[number::4] for number in range(4)]
    members[0] = np.concatenate([members[0], *(receipts[number::4] for number in starved)])
    written = replace(idle(), receipts=members)
    found = a_round(written, tmp_path, monkeypatch, row=ROLLING)
    outcome = judge_scenario(Measurement(scenario=ROLLING, rounds=(found,), rtt_ms={}), None)
    assert outcome.verdict is expected
    assert all(f"consumer {number + 1} joined" in " ".join(outcome.reasons) for number in starved)


def test_only_what_brokers_promise_to_keep_is_asked_for() -> None:
    """With acks=1 a log may be cut back behind what was given; of assigned partitions the client itself tells."""
    metrics = {"missed_records": 3.0}
    assert not_given(ROLLING, metrics)
    assert not not_given(replace(ROLLING, producer=settings({"acks": 1})), metrics)
    assert not not_given(replace(ROLLING, consumers=Consumers(membership="assigned")), metrics)
    assert not not_given(ROLLING, {"missed_records": 0.0})


def test_records_given_twice_are_a_figure() -> None:
    written = idle()
    (receipts,) = written.receipts
    again = receipts[1000:1040].copy()
    again["at"] += 0.5
    twice = replace(written, receipts=[receipts, again])
    assert analyse(twice)[1]["redelivered_records"] == 40
    assert verdict(twice) is Verdict.PASS
    taken = Measurement(scenario=ROLLING, rounds=(one_fault(twice),), rtt_ms={})
    (note,) = kind_notes({"rolling": taken})
    assert note.endswith("40 records given twice")


def test_its_history_is_kept_and_its_picture_shows_what_was_unread(tmp_path: Path) -> None:
    keep(path := tmp_path / "round.npz", idle((0, 0.0, 3.0)))
    assert analyse(recall(path))[1] == analyse(idle((0, 0.0, 3.0)))[1]
    labels = [axes.get_ylabel() for axes in fault_timeline_figure("one", analyse(recall(path))[0]).axes]
    assert "records\nunread" in labels


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (ROLLING, ""),
        (BASE, ""),
        (replace(ROLLING, consumers=None), "it needs consumers.membership=group"),
        (replace(ROLLING, consumers=replace(MEMBERS, membership="share")), "it needs consumers.membership=group"),
        (replace(ROLLING, consumers=replace(MEMBERS, processes=1)), "needs 2 consumers.processes or more"),
        (replace(ROLLING, consumers=replace(MEMBERS, processes=3)), "a topic partition for each of 4 members"),
        (replace(ROLLING, consumers=replace(MEMBERS, threads=2)), "a topic partition for each of 6 members"),
        (replace(ROLLING, cluster=ClusterSpec(system="pulsar")), "which a subscription of Pulsar does not share out"),
    ],
)
def test_members_can_come_and_go_where_there_is_a_group_of_them(row: FaultScenario, words: str) -> None:
    found = row.unfit_for_fault
    assert words in found
    assert bool(found) is bool(words)


def test_who_joins_takes_a_place_of_its_own_or_of_the_one_that_left() -> None:
    assert [*ROLLING.joining] == [0, 1]
    assert [*replace(ROLLING, fault=Fault(kind="member-join")).joining] == [2]
    assert [*replace(ROLLING, fault=Fault(kind="member-leave")).joining] == []
    assert [*BASE.joining] == []


@pytest.mark.parametrize(
    ("consumer", "broker", "high_s"),
    [
        ({}, {}, 2 * 3 + 5),
        ({"heartbeat.interval.ms": 500}, {}, 2 * 0.5 + 5),
        ({"group.protocol": "consumer"}, {}, 2 * 5 + 5),
        ({"group.protocol": "consumer"}, {"group.consumer.heartbeat.interval.ms": 2_000}, 2 * 2 + 5),
        ({"group.instance.id": "a"}, {}, 10 + 2 * 3 + 5),
        ({"group.instance.id": "a", "session.timeout.ms": 6_000}, {}, 6 + 2 * 3 + 5),
        ({"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 6_000}, {}, 6 + 2 * 3 + 5),
    ],
)
def test_how_long_partitions_may_lie_idle_follows_from_the_settings(
    consumer: dict[str, object], broker: dict[str, object], high_s: float
) -> None:
    row = replace(
        ROLLING,
        consumers=replace(MEMBERS, config=settings(consumer)),
        cluster=ClusterSpec(config=settings(broker)),
    )
    assert shared_out(row, 1, 10.0).high_s == high_s
