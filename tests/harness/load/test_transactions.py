"""Transactions: what a client is told, the markers that its commits write, and that a missing record is still found.

The brokers of the sender's tests are librdkafka's own mock cluster, in this process; real ones: live/test_live_load.py.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.clients import TransactionError
from perfgate.load.producing import Sender
from perfgate.load.schedule import Window, now
from perfgate.measure.assembly import sends_failed
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import Change, Fault, FaultScenario, Load, Scenario, settings, with_settings
from perfgate.model.delivery import LATE
from perfgate.model.load import SendsFailedError
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.load.official import inexpressible
from tests.harness.build import histogram, late_texts, load_result, scenario, sent
from tests.harness.build.comparing import comparing
from tests.harness.build.transactions import PARTITIONS, TRANSACTED, brokers, request
from tests.harness.build.transactions import sender as made_sender

CAPPED = Load(kind="capped", rate=1000.0)


def test_markers_are_accounted_for_beside_the_records() -> None:
    told = sent(acked_by_partition=[1000, 2000], markers_by_partition=[7, 5])
    accounting = accounting_of(told, [10, 0], [1017, 2005])
    assert (accounting.markers, accounting.partitions) == (12, ((1007, 1007), (2005, 2005)))
    assert flaws(CAPPED, load_result(sent=told), accounting) == ()


@given(
    markers=st.lists(st.integers(0, 50), min_size=3, max_size=3),
    change=st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any),
)
def test_a_record_or_marker_that_is_missing_or_too_many_is_found_in_its_partition(
    markers: list[int], change: list[int]
) -> None:
    acked = [1000, 1000, 1000]
    told = sent(acked_by_partition=acked, markers_by_partition=markers)
    ends = [a + m + c for a, m, c in zip(acked, markers, change, strict=True)]
    (flaw,) = flaws(CAPPED, load_result(sent=told), accounting_of(told, [0, 0, 0], ends))
    assert flaw.text.startswith("records unaccounted: 3,000 acknowledged")
    assert flaw.whose == "brokers", "nobody else writes there"
    assert flaw.late is (min(change) >= 0), "what was acknowledged and is not there is not late"
    for number, more in enumerate(change):
        assert (f"partition {number}: " in flaw.text) is bool(more)


def test_the_reason_names_the_markers() -> None:
    told = sent(markers_by_partition=[3], acked_by_partition=[3000])
    (flaw,) = flaws(CAPPED, load_result(sent=told), accounting_of(told, [0], [3002]))
    assert "3,000 acknowledged and 3 markers written, but the partitions' end offsets moved by 3,002 (-1)" in flaw.text


def test_ids_begin_with_the_runs_prefix_and_do_not_hang_on_topic_or_scenario() -> None:
    first, other = request(), request(replace(TRANSACTED, name="another", record_bytes=50))
    assert first["transactional_id"] == other["transactional_id"] == "kpg-20261123T000000Z-abcd"


def test_a_transaction_may_take_as_long_as_a_record() -> None:
    assert request()["client"]["transaction.timeout.ms"] == "120000"
    own = replace(TRANSACTED, producer=settings({"transaction.timeout.ms": 70_000}))
    assert request(own)["client"]["transaction.timeout.ms"] == "70000"
    assert "transaction.timeout.ms" not in request(replace(TRANSACTED, transaction_ms=0))["client"]


@pytest.mark.parametrize("of_the_target", [True, False])
def test_an_answer_is_waited_for_no_longer_than_a_transaction_may_take(of_the_target: bool) -> None:
    """librdkafka makes no client otherwise, and a team's file or workload may state more."""
    waits = {"socket.timeout.ms": 150_000}
    own = replace(TRANSACTED, producer=with_settings(TRANSACTED.producer, waits))
    told = request(security=settings(waits)) if of_the_target else request(own)
    assert told["client"]["socket.timeout.ms"] == "119900"
    made_sender(told, 0, Window())
    plain = replace(TRANSACTED, transaction_ms=0)
    assert request(plain, security=settings(waits))["client"]["socket.timeout.ms"] == "150000"
    assert "socket.timeout.ms" not in request()["client"]


def test_what_cannot_count_markers_does_not_run_it() -> None:
    assert "how many markers" in str(inexpressible(replace(TRANSACTED, load=CAPPED)))
    driver = LibrdkafkaDriver()
    assert driver.cannot(TRANSACTED) is None
    faulty = FaultScenario.of(TRANSACTED, Fault(kind="kill-leader", hold_s=1.0))
    assert "transactions leave gaps" in str(driver.cannot(faulty))
    assert driver.cannot(FaultScenario.of(scenario(), Fault(kind="kill-leader", hold_s=1.0))) is None


def test_two_loads_with_transactions_take_no_turns() -> None:
    """One that is left open over the other's turn is no load that pauses; whole rounds alternate instead."""

    def method(row: Scenario) -> str:
        return comparing(Change(name="x"), row, driver=LibrdkafkaDriver())._begun(row, pairs=False).method

    assert method(TRANSACTED) == "rounds"
    assert method(replace(TRANSACTED, transaction_ms=0)) == "turns"


@pytest.fixture(scope="module")
def mock_brokers() -> Iterator[str]:
    with brokers(3) as addresses:
        yield addresses


def sender(bootstrap: str, window: Window, number: int = 0, **changes: Any) -> Sender:
    told = request(replace(TRANSACTED, **changes), bootstrap)
    made = made_sender(told, number, window)
    made.connect()
    return made


def run(one: Sender, window: Window, seconds: float = 0.6) -> dict[str, Any]:
    start = now()
    window.set(start + 0.1, start + seconds)
    one.run(start)
    return one.result()


def test_each_commit_writes_a_marker_into_each_partition_it_wrote_to(mock_brokers: str) -> None:
    """So does the last one, which is committed after the load's end; the next round has the same id."""
    for _ in range(2):
        window = Window()
        found = run(sender(mock_brokers, window), window)
        assert found["attempted"] == found["acked"] == pytest.approx(180, abs=2)
        assert (found["failed"], found["unresolved"], found["unsent"]) == ({}, 0, 0)
        # Each of the 30 records of a transaction goes to the next partition.
        assert len(set(found["markers_by_partition"])) == 1
        assert 4 <= found["markers_by_partition"][0] <= 6


def test_a_transaction_that_wrote_nothing_leaves_no_marker(mock_brokers: str) -> None:
    window = Window()
    found = run(sender(mock_brokers, window, load=Load(kind="paced", rate=2)), window)
    assert found["acked"] == sum(found["markers_by_partition"]) == 2


def test_an_abort_is_an_error_with_its_reason() -> None:
    """Brokers that take longer than a record may."""
    window = Window()
    late = {"delivery.timeout.ms": 200, "transaction.timeout.ms": 60_000}
    with brokers(1, rtt_ms=300) as slow:
        one = sender(slow, window, producer=with_settings(TRANSACTED.producer, late))
        with pytest.raises(TransactionError, match=r"^transaction: committing: .*timed out.*, aborted") as raised:
            run(one, window, 0.4)
        assert LATE.fullmatch(raised.value.code)
    assert sum(one.result()["markers_by_partition"]) == 0


def test_waiting_for_a_commit_is_pushback_of_a_capped_load_and_no_delay_of_a_paced_one() -> None:
    """An answer takes 40 ms, so nothing can be handed over for 80 ms after each 100 ms."""
    with brokers(1, rtt_ms=40) as slow:
        window = Window()
        paced = sender(slow, window)
        told = run(paced, window, 1.0)
        assert told["pushback_s"] == 0
        assert 0.2 < told["committing_in_window_s"] <= 0.9
        recorded = paced.recorders()
        assert recorded["latency"].histogram().get_value_at_percentile(90) > 80_000
        assert recorded["schedule_delay"].histogram().get_value_at_percentile(90) < 20_000
        window = Window()
        assert run(sender(slow, window, load=CAPPED), window, 1.0)["pushback_in_window_s"] > 0.2


def test_two_clients_of_a_load_have_ids_of_their_own(mock_brokers: str) -> None:
    windows = Window(), Window()
    senders = [sender(mock_brokers, window, number) for number, window in enumerate(windows)]
    assert all(run(one, window, 0.3)["acked"] > 0 for one, window in zip(senders, windows, strict=True))


def test_without_transactions_there_are_no_markers(mock_brokers: str) -> None:
    window = Window()
    found = run(sender(mock_brokers, window, transaction_ms=0), window, 0.3)
    assert found["acked"] > 0
    assert found["markers_by_partition"] == [0] * PARTITIONS


def test_a_commit_that_fails_is_the_brokers_doing() -> None:
    """As a record is that fails without a transaction: not of the load, and perhaps of a busy machine if it is late."""
    error = SendsFailedError("transaction: committing: fenced", attempted=100, failed=1, code="_FENCED")
    own, foreign = (sends_failed(1, error, own_brokers=own) for own in (True, False))
    assert (own.broken, late_texts(own), foreign.broken) == ((str(error),), (), ())
    assert (own.accounting.attempted, own.accounting.failed, own.accounting.unresolved) == (100, {"every": 1}, 99)
    late = SendsFailedError("transaction: committing: timed out", attempted=100, failed=0, code="_TIMED_OUT")
    assert late_texts(sends_failed(1, late, own_brokers=True)) == (str(late),)


@pytest.mark.parametrize("committing_s", [0.0, 0.5])
def test_what_fell_due_while_the_last_commit_took_its_time_is_not_owed_by_the_generator(committing_s: float) -> None:
    """A quarter of a window of 2 s at 1,000/s."""
    load = Load(kind="paced", rate=1000.0)
    told = sent(
        attempted_in_window=1500,
        acked_in_window=1500,
        committing_in_window_s=committing_s,
        schedule_delay=histogram([0.0001] * 100),
        latency=histogram([0.1] * 100),
    )
    found = flaws(load, load_result(sent=told), accounting_of(told, [0], [3000]))
    assert bool(found) is not committing_s
