"""Rounds made of what a load gave: rates and costs over the window, blame, and where every record went."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perfgate.measure.assembly import blamed, break_off, round_of, sends_failed, timed_out_share, unmeasured
from perfgate.measure.validity import accounting_of
from perfgate.model import MIB, Load, Round
from perfgate.model.delivery import is_idempotent, is_promised
from perfgate.model.flaw import Flaw
from perfgate.model.histogram import MOST_PARTITIONS, LatencyRecorder
from perfgate.model.load import LoadResult, SendsFailedError
from perfgate.model.measured import Arm, Series
from tests.harness.build import accounting, histogram, load_result, one_round, received, scenario, sent


def made(result: LoadResult, brokers: dict[str, float] | None = None) -> Round:
    return round_of(1, result, accounting(3000), brokers or {}, (), "")


@pytest.mark.parametrize(("window_s", "cores", "us"), [(2.0, 0.1, 100.0), (10.0, 0.1, 500.0), (2.0, 1.5, 1500.0)])
def test_a_record_costs_the_client_the_cpu_of_the_whole_window(window_s: float, cores: float, us: float) -> None:
    """2,000 records: 0.1 cores for 10 s are a second of CPU, 500 us each."""
    result = replace(load_result(sent=sent()), window_s=window_s, cpu_cores=cores)
    assert made(result).metrics["client_cpu_us_per_record"] == pytest.approx(us)
    read = replace(load_result(received=received()), window_s=window_s, cpu_cores=cores)
    assert made(read).metrics["client_cpu_us_per_record"] == pytest.approx(us), "of what is read where nothing is sent"


def test_a_load_of_nothing_has_no_cost() -> None:
    found = made(load_result(sent=sent(acked_in_window=0)))
    assert "client_cpu_us_per_record" not in found.metrics
    assert found.metrics["records_per_s"] == 0.0


def test_rates_are_over_the_window_of_each_round() -> None:
    result = load_result(
        sent=sent(acked_in_window=3000, acked_bytes_in_window=5 * MIB, latency=histogram([0.01] * 9)),
        received=received(received_in_window=1000, received_bytes_in_window=2 * MIB, latency=histogram([0.02] * 9)),
    )
    found = made(replace(result, window_s=4.0)).metrics
    assert found["records_per_s"] == 750.0
    assert found["mib_per_s"] == 1.25
    assert found["received_records_per_s"] == 250.0
    assert found["received_mib_per_s"] == 0.5
    assert found["latency_ms.p50"] == pytest.approx(10.0, rel=0.02)
    assert found["end_to_end_latency_ms.p50"] == pytest.approx(20.0, rel=0.02)
    read = made(replace(load_result(received=received(fetch_ms=7.0)), window_s=4.0))
    assert read.metrics["records_per_s"] == read.metrics["received_records_per_s"] == 500.0
    assert read.metrics["mib_per_s"] == read.metrics["received_mib_per_s"]
    assert read.metrics["fetch_latency_ms.avg"] == 7.0
    assert (read.end_to_end_histogram, read.latency_histogram) == ("", "")


def test_the_generator_says_for_how_much_of_the_window_its_buffer_was_full() -> None:
    result = load_result(sent=sent(pushback_s=3.0, pushback_in_window_s=0.5))
    assert (report := made(result).generator)
    assert report.pushback_share == 0.25
    assert report.schedule_delay_p99_ms is None
    told = round_of(1, result, accounting(), {}, (), "", "no scrape", {"CPU": "nobody tells it"})
    assert (told.usage_unavailable, dict(told.untold)) == ("no scrape", {"CPU": "nobody tells it"})
    assert dict(made(result).untold) == {}
    late = load_result(sent=sent(schedule_delay=histogram([0.005] * 99)))
    assert (report := made(late).generator)
    assert report.schedule_delay_p99_ms == pytest.approx(5.0, rel=0.02)


def test_what_is_no_number_is_left_out_and_said() -> None:
    found = made(load_result(sent=sent()), {"broker_cpu_cores.sum": math.nan, "broker_rss_mib.max": math.inf})
    assert "broker_cpu_cores.sum" not in found.metrics
    assert "broker_rss_mib.max" not in found.metrics
    assert dict(found.invalid_metrics) == {
        "broker_cpu_cores": "broker_cpu_cores.sum was measured as nan",
        "broker_rss_mib": "broker_rss_mib.max was measured as inf",
    }
    assert not found.invalid


@pytest.mark.parametrize(
    ("own", "whose", "again", "broken"),
    [
        (True, "brokers", False, True),
        (False, "brokers", False, False),
        (True, "brokers", True, False),
        (True, "load", False, False),
        (True, "unknown", False, False),
    ],
)
def test_own_brokers_are_to_blame_for_what_is_theirs_alone(own: bool, whose: str, again: bool, broken: bool) -> None:
    flaw = Flaw("a flaw", whose=whose, again=again)  # type: ignore[arg-type]  # a literal, of a table
    assert blamed(flaw, own_brokers=own).broken is broken
    found = round_of(1, load_result(sent=sent()), accounting(), {}, (flaw,), "", own_brokers=own)
    assert found.broken == (("a flaw",) if broken else ())


@pytest.mark.parametrize(
    ("code", "failed", "late"),
    [
        ("_MSG_TIMED_OUT", 10, True),
        ("NOT_ENOUGH_REPLICAS", 10, True),
        ("UNKNOWN_SERVER_ERROR", 10, False),
        ("", 0, True),
        ("", 3, False),
    ],
)
def test_sends_that_failed_are_the_brokers_doing_and_may_be_late(code: str, failed: int, late: bool) -> None:
    error = SendsFailedError("10 sends failed", attempted=12, failed=failed, code=code)
    found = sends_failed(3, error, own_brokers=True)
    assert found.index == 3
    assert (found.accounting.attempted, found.accounting.unresolved) == (12, 12 - failed)
    assert found.accounting.failed_total == failed
    assert found.only_late is late
    assert found.broken
    assert not sends_failed(3, error, own_brokers=False).broken


def test_an_unhealthy_target_ends_every_scenario_and_one_of_them_says_all_of_it() -> None:
    a, b = (Series(arm=Arm(scenario=scenario(name))) for name in "ab")
    b.rounds.append(one_round(1, 1.0))
    break_off([[a], [b]], "gone\nwith its log", broken=True, unhealthy=True)
    assert [r.index for r in a.rounds] == [1]
    assert [r.index for r in b.rounds] == [1, 2]
    assert a.rounds[-1].broken == ("gone\nwith its log",)
    assert b.rounds[-1].broken == ("gone",)
    assert a.rounds[-1].target_unhealthy
    assert b.rounds[-1].target_unhealthy
    assert not b.rounds[0].target_unhealthy
    sick = Series(arm=Arm(scenario=scenario("a")))
    break_off([[sick]], "a reason")
    last = sick.rounds[-1]
    assert (last.broken, last.only_late, last.target_unhealthy) == ((), False, False)
    plain = unmeasured(3, "a reason")
    assert (plain.target_unhealthy, plain.broken, plain.only_late, plain.invalid) == (False, (), False, ("a reason",))


@pytest.mark.parametrize(("due", "timed_out", "share"), [(0, 0, None), (1000, 0, 0.0), (1000, 250, 0.25), (4, 4, 1.0)])
def test_the_share_that_timed_out_is_of_what_was_due(due: int, timed_out: int, share: float | None) -> None:
    told = sent(due_in_window=due, timed_out_in_window=timed_out)
    load = Load(kind="paced", rate=1000.0, times_out=True)
    assert timed_out_share(load, told) == ({} if share is None else {"timed_out_share": share})
    assert timed_out_share(Load(kind="paced", rate=1000.0), told) == {}
    assert timed_out_share(load, None) == {}


def test_figures_of_partitions_are_of_their_leaders_where_all_are_known() -> None:
    recorder = LatencyRecorder(2)
    recorder.record(np.array([0.01] * 30), np.array([0] * 20 + [1] * 10))
    result = load_result(sent=sent(latency_by_partition=recorder.by_partition()))
    found = round_of(1, result, accounting(), {}, (), "", leaders=(2, 1)).partitions
    assert [(one.leader, one.records_per_s) for one in found] == [(2, 10.0), (1, 5.0)]
    assert round_of(1, result, accounting(), {}, (), "", leaders=(2,)).partitions == ()
    assert MOST_PARTITIONS >= 2


def test_every_record_and_marker_has_its_partition() -> None:
    told = sent(acked=30, attempted=40, withdrawn=3, unresolved=2, failed={"_MSG_TIMED_OUT": 5})
    plain = accounting_of(replace(told, acked_by_partition=[10, 20]), [100, 200], [110, 221])
    assert plain.partitions == ((10, 10), (20, 21))
    assert (plain.offset_delta, plain.markers) == (31, 0)
    assert (plain.attempted, plain.acked, plain.withdrawn, plain.unresolved) == (40, 30, 3, 2)
    assert plain.failed_total == 5
    marked = replace(told, acked_by_partition=[10, 20], markers_by_partition=[1, 2])
    assert accounting_of(marked, [0, 0], [11, 22]).partitions == ((11, 11), (22, 22))
    assert accounting_of(marked, [0, 0], [11, 22]).markers == 3
    assert accounting_of(None, [5, 5], [6, 8]).offset_delta == 4


@pytest.mark.parametrize(
    ("acks", "promised"), [("all", True), ("-1", True), ("ALL", True), ("1", False), ("0", False), ("2", False)]
)
def test_what_all_replicas_have_is_promised_by_either_name(acks: str, promised: bool) -> None:
    assert is_promised(replace(scenario(), producer=(("acks", acks),))) is promised


@pytest.mark.parametrize(
    ("value", "idempotent"), [("true", True), ("True", True), ("t", True), ("1", True), ("false", False), ("0", False)]
)
def test_idempotence_is_read_as_clients_read_it(value: str, idempotent: bool) -> None:
    """The verdict over a fault took these words, and the rules of a round `true` alone: twice in the log was late."""
    assert is_idempotent(replace(scenario(), producer=(("enable.idempotence", value),))) is idempotent
