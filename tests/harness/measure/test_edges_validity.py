"""Validity of a load at its edges: how late, how long, how little and how much is too much, and what it explains."""

import math
from dataclasses import replace
from typing import Any

import pytest

from perfgate.measure.flaw import lost_of, processors_used_up, share, standing_still
from perfgate.measure.host_validity import fault_host_flaws, host_flaws, spoilt_by_clocks
from perfgate.measure.validity import flaws, late_turns, not_sustained, processors_left
from perfgate.model import Load
from perfgate.model.flaw import Flaw
from perfgate.model.load import LoadResult, Sent
from tests.harness.build import accounting, histogram, load_result, received, sent
from tests.harness.build.hosts import HOST, MACHINE

CAPPED, PACED = Load(kind="capped", rate=1000.0), Load(kind="paced", rate=1000.0)
TIMES_OUT = Load(kind="paced", rate=1000.0, times_out=True)
LATENCY = "latency_ms"
WHOLE = {"latency": histogram([0.1] * 100), "schedule_delay": histogram([0.0001] * 100)}
"""Of a paced load that was sent in time."""


def of(load: Load, told: Sent | None = None, window_s: float = 10.0, **given: Any) -> tuple[Flaw, ...]:
    """Return the flaws of a round of 10 s at 1,000 records/s, with these fields of its result, or facts beside it."""
    facts = {name: given.pop(name) for name in FACTS if name in given}
    account = given.pop("account", accounting(3000))
    result = replace(load_result(sent=told), window_s=window_s, **given)
    return flaws(load, result, account, **facts)


FACTS = ("busiest_broker_cores", "room", "at_ease", "idempotent", "promised", "clients")


def ten_s(**changes: Any) -> Sent:
    """Return what producers say of 10 s at 1,000 records/s."""
    return sent(**{"attempted_in_window": 10_000, "acked_in_window": 10_000, **WHOLE, **changes})


def texts(found: tuple[Flaw, ...]) -> str:
    return " | ".join(flaw.text for flaw in found)


def explained(flaw: Flaw, metric: str) -> tuple[float | None, float]:
    """Return the factor and the offset that a flaw explains of a metric."""
    parts = [part for part in flaw.explains if not part.metrics or any(map(metric.startswith, part.metrics))]
    factors = [part.factor for part in parts]
    return None if None in factors else math.prod(f for f in factors if f), sum(part.offset for part in parts)


def test_a_round_as_it_should_be_has_no_flaw() -> None:
    assert of(CAPPED, ten_s()) == of(PACED, ten_s()) == ()


@pytest.mark.parametrize(
    ("window_s", "stalled_s", "still"), [(10.0, 0.5, False), (10.0, 0.51, True), (40.0, 2.0, False), (40.0, 2.01, True)]
)
def test_generators_may_stand_still_for_a_twentieth_of_the_window_and_half_a_second(
    window_s: float, stalled_s: float, still: bool
) -> None:
    told = ten_s(
        stalled_in_window_s=stalled_s, attempted_in_window=1000 * int(window_s), acked_in_window=1000 * int(window_s)
    )
    found = of(CAPPED, told, window_s)
    assert ("stood still" in texts(found)) is still
    if still:
        assert explained(found[0], "records_per_s")[0] == pytest.approx(window_s / (window_s - stalled_s))
        assert found[0].again


def test_a_pause_makes_latencies_longer_by_twice_the_longest_one() -> None:
    paced = ten_s(stalled_in_window_s=1.0, schedule_delay=histogram([0.0001] * 999 + [0.75]))
    (still,) = (flaw for flaw in of(PACED, paced) if "stood still" in flaw.text)
    assert explained(still, "latency_ms.p99")[1] == pytest.approx(1500.0, rel=0.02)
    (capped,) = of(CAPPED, ten_s(stalled_in_window_s=1.0, schedule_delay=""))
    assert explained(capped, "latency_ms.p99")[1] == pytest.approx(2000.0)
    assert explained(capped, "fetch_latency_ms.avg")[1] == pytest.approx(2000.0)
    assert explained(capped, "broker_cpu_cores.sum") == (1.0, 0.0)
    (longer,) = of(CAPPED, ten_s(stalled_in_window_s=1.0, schedule_delay=histogram([60.0])))
    assert explained(longer, "latency_ms.p99")[1] == pytest.approx(20_000.0), "no pause is longer than the window"


@pytest.mark.parametrize(
    ("attempted", "pushed_s", "wake_ms", "saturated"),
    [
        (9950, 0.0, None, False),
        (9939, 0.0, None, False),
        (9938, 0.0, None, True),
        (9000, 0.1, None, False),
        (9000, 0.099, None, True),
        (9911, 0.0, 20.0, False),
        (9908, 0.0, 20.0, True),
        (9849, 0.0, 900.0, False),
        (9848, 0.0, 900.0, True),
    ],
)
def test_a_capped_load_that_offers_too_little_was_limited_by_its_buffer_or_by_itself(
    attempted: int, pushed_s: float, wake_ms: float | None, saturated: bool
) -> None:
    """995 of 1,000, less what a machine that wakes threads late leaves beyond the edge: 10 to 100 ms and a record."""
    told = ten_s(attempted_in_window=attempted, acked_in_window=attempted, pushback_in_window_s=pushed_s)
    found = of(CAPPED, replace(told, pushback_s=pushed_s), wake_delay_p99_ms=wake_ms)
    assert ("generator saturated" in texts(found)) is saturated
    assert not of(CAPPED, told, room=1.0), "brokers that took the processors were the limit"


def test_a_buffer_that_seemed_full_while_its_loop_stood_still_says_nothing() -> None:
    told = ten_s(attempted_in_window=8000, acked_in_window=8000, stalled_in_window_s=1.5, pushback_s=1.5)
    assert "generator saturated" in texts(of(CAPPED, replace(told, pushback_in_window_s=1.5)))
    assert "generator saturated" in texts(of(CAPPED, replace(told, pushback_in_window_s=1.599)))
    assert "generator saturated" not in texts(of(CAPPED, replace(told, pushback_in_window_s=1.61)))
    brief = replace(told, stalled_in_window_s=0.4, pushback_in_window_s=0.4)
    assert not of(CAPPED, brief), "a pause that is allowed takes nothing away"


def test_what_all_processors_would_have_made_of_a_load_is_explained_and_no_more() -> None:
    told = ten_s(attempted_in_window=5000, acked_in_window=5000)
    (known,) = of(CAPPED, told, room=1.5)
    assert explained(known, "records_per_s") == (1.5, 0.0)
    assert explained(known, "latency_ms.p99")[1] == pytest.approx(10_000.0)
    (unknown,) = of(CAPPED, told)
    assert unknown.explains_all


@pytest.mark.parametrize(
    ("delay_ms", "latency_ms", "late"),
    [
        (0.95, 1.0, False),
        (1.1, 1.0, True),
        (4.8, 100.0, False),
        (5.3, 100.0, True),
        (9.8, 400.0, False),
        (10.4, 400.0, True),
    ],
)
def test_a_paced_load_may_be_late_by_a_twentieth_of_its_latency_from_one_to_ten_ms(
    delay_ms: float, latency_ms: float, late: bool
) -> None:
    told = ten_s(latency=histogram([latency_ms / 1e3] * 100), schedule_delay=histogram([delay_ms / 1e3] * 100))
    found = of(PACED, told)
    assert ("sent late" in texts(found)) is late
    if late:
        (flaw,) = found
        assert flaw.metrics == (LATENCY,)
        assert (flaw.whose, flaw.again) == ("load", True)
        assert explained(flaw, "latency_ms.p99")[1] == pytest.approx(2 * delay_ms, rel=0.02)
        assert explained(flaw, "latency_ms.p50")[1] == pytest.approx(2 * delay_ms, rel=0.02)
        (timed_out,) = of(TIMES_OUT, told)
        assert (timed_out.whose, timed_out.again) == ("unknown", False)
        both = of(PACED, told, received=received(latency=histogram([0.2])))
        assert both[0].metrics == (LATENCY, "end_to_end_latency_ms")


def test_a_percentile_of_a_latency_is_late_by_a_higher_one_of_the_delay() -> None:
    """Halfway to 100: the p50 by twice the p75 of the delay, the p99 by twice its p99.5."""
    delays = histogram([0.001] * 70 + [0.02] * 26 + [0.1] * 4)
    (flaw,) = of(PACED, ten_s(latency=histogram([0.001] * 100), schedule_delay=delays))
    assert explained(flaw, "latency_ms.p50")[1] == pytest.approx(40.0, rel=0.02)
    assert explained(flaw, "latency_ms.p99")[1] == pytest.approx(200.0, rel=0.02)
    assert explained(flaw, "latency_ms.max")[1] == pytest.approx(200.0, rel=0.02)
    assert explained(flaw, "latency_ms.avg")[1] == pytest.approx(2 * (0.7 + 5.2 + 4.0), rel=0.02)


@pytest.mark.parametrize(("in_window_s", "late"), [(0.012, False), (0.011, True)])
def test_a_buffer_that_was_full_for_as_long_explains_a_late_send(in_window_s: float, late: bool) -> None:
    told = ten_s(schedule_delay=histogram([0.0115] * 100), pushback_s=0.5, pushback_in_window_s=in_window_s, unsent=0)
    found = of(PACED, told)
    assert bool(found) is late
    if late:
        assert "without the 11.0 ms for which its buffer was full" in found[0].text


def test_a_schedule_that_was_not_sent_is_the_generators_unless_the_brokers_took_clearly_less() -> None:
    few = ten_s(attempted_in_window=5000, acked_in_window=4990, schedule_delay=histogram([2.0] * 100))
    (own,) = of(PACED, few)
    assert "generator saturated" in own.text
    assert own.again
    assert not own.metrics
    assert explained(own, "records_per_s")[0] == pytest.approx(10_000 / 4990)
    (theirs,) = of(PACED, replace(few, acked_in_window=3400))
    assert (theirs.whose, theirs.again, theirs.metrics) == ("unknown", False, (LATENCY,))
    assert explained(theirs, "records_per_s")[0] == pytest.approx(2.0)
    none = ten_s(attempted_in_window=0, acked_in_window=0, schedule_delay="")
    assert "no record was sent in the window" in texts(of(PACED, none))
    unsent = ten_s(unsent=5, schedule_delay=histogram([2.0] * 100))
    assert "5 records unsent" in texts(of(PACED, unsent))


@pytest.mark.parametrize(
    ("acked", "pushback_s", "unsent", "sustained"),
    [
        (9900, 0.0, 0, True),
        (9899, 0.0, 0, False),
        (9900, 1.0, 0, True),
        (9899, 1.0, 0, False),
        (10_000, 1.0, 1, False),
        (10_000, 0.0, 1, True),
    ],
)
def test_a_rate_is_taken_but_for_what_a_tenth_of_a_second_leaves_beyond_the_edge(
    acked: int, pushback_s: float, unsent: int, sustained: bool
) -> None:
    told = ten_s(acked_in_window=acked, pushback_s=pushback_s, unsent=unsent)
    result = replace(load_result(sent=told), window_s=10.0)
    assert (not_sustained(PACED, result) == "") is sustained
    assert not_sustained(CAPPED, result) == not_sustained(TIMES_OUT, result) == ""


@pytest.mark.parametrize(
    ("window_s", "missing", "sustained"), [(10.0, 100, True), (10.0, 101, False), (40.0, 200, True), (40.0, 201, False)]
)
def test_of_a_long_window_half_a_percent_may_lack(window_s: float, missing: int, sustained: bool) -> None:
    due = int(1000 * window_s)
    told = ten_s(attempted_in_window=due, acked_in_window=due - missing)
    result = replace(load_result(sent=told), window_s=window_s)
    assert (not_sustained(PACED, result) == "") is sustained


def test_what_the_generator_did_not_offer_brokers_did_not_refuse() -> None:
    """It offered half, of which they took 69 or 71 %: only the one is clearly less."""
    offered = ten_s(attempted_in_window=5000, schedule_delay=histogram([2.0] * 100))
    for acked, sustained in ((3550, True), (3450, False)):
        result = replace(load_result(sent=replace(offered, acked_in_window=acked)), window_s=10.0)
        assert (not_sustained(PACED, result) == "") is sustained


@pytest.mark.parametrize(("late_s", "flawed"), [(0.2, False), (0.21, True)])
def test_a_window_that_was_heard_of_late_by_a_fiftieth_counts(late_s: float, flawed: bool) -> None:
    found = of(CAPPED, ten_s(), window_late_s=late_s)
    assert ("heard of its window" in texts(found)) is flawed
    if flawed:
        assert explained(found[0], "records_per_s")[0] == pytest.approx(10 / 9.79)


@pytest.mark.parametrize(("thread", "broker", "limit"), [(0.95, 0.49, True), (0.94, 0.49, False), (0.95, 0.5, False)])
def test_a_thread_at_its_limit_is_one_where_the_brokers_idle(thread: float, broker: float, limit: bool) -> None:
    found = of(CAPPED, ten_s(), busiest_thread_cores=thread, busiest_broker_cores=broker)
    assert ("one of its threads" in texts(found)) is limit
    assert not of(CAPPED, ten_s(), busiest_thread_cores=thread, busiest_broker_cores=broker, hosts=(HOST,))


def test_a_quota_explains_the_time_for_which_it_held_all_clients_back() -> None:
    (alone,) = of(CAPPED, ten_s(throttled_ms=2000))
    assert (alone.kind, alone.again) == ("quota", False)
    assert explained(alone, "records_per_s")[0] == pytest.approx(10 / 8)
    assert explained(alone, "latency_ms.p99")[1] == pytest.approx(4000.0)
    (four,) = of(CAPPED, ten_s(throttled_ms=2000), clients=4)
    assert explained(four, "records_per_s")[0] == pytest.approx(10 / 9.5)
    both = of(CAPPED, ten_s(throttled_ms=1000), received=received(throttled_ms=1000))
    assert "for 2,000 ms in all" in texts(both)


@pytest.mark.parametrize(
    ("brokers", "own", "cores", "left"),
    [
        (1.0, 0.5, 2.0, 2 / 1.5),
        (1.0, 1.0, 2.0, 1.0),
        (0.99, 1.0, 2.0, None),
        (1.5, 0.6, 2.0, 1.0),
        (1.5, 0.61, 2.0, None),
        (0.0, 0.0, 2.0, None),
        (None, 0.5, 2.0, None),
    ],
)
def test_processors_are_left_where_brokers_used_most_of_what_there_is(
    brokers: float | None, own: float, cores: float, left: float | None
) -> None:
    result = replace(load_result(), cpu_cores=own)
    found = processors_left(result, brokers, cores)
    assert found == (None if left is None else pytest.approx(left))
    assert processors_left(replace(result, hosts=(HOST,)), brokers, cores) is None


@pytest.mark.parametrize(("brokers", "used_up"), [(1.3, True), (1.29, False)])
def test_nine_tenths_of_the_processors_are_all_of_them(brokers: float, used_up: bool) -> None:
    assert processors_used_up(processors_left(replace(load_result(), cpu_cores=0.5), brokers, 2.0)) is used_up


def lost(delta: int, *partitions: tuple[int, int], **facts: Any) -> tuple[Flaw, ...]:
    """Return the flaws of 3,000 acknowledged records of which the log has so many more."""
    account = replace(accounting(3000, offset_delta=3000 + delta), partitions=partitions)
    return of(CAPPED, ten_s(), account=account, **facts)


def test_a_record_less_in_the_log_is_the_brokers_and_broken_where_it_was_promised() -> None:
    (flaw,) = lost(-1, promised=True)
    assert (flaw.whose, flaw.broken, flaw.late) == ("brokers", True, False)
    (flaw,) = lost(-1)
    assert (flaw.whose, flaw.broken) == ("brokers", False)
    (flaw,) = lost(0, (1500, 1501), (1500, 1499), promised=True)
    assert flaw.broken, "one more elsewhere makes up for none"
    assert "partition 1: 1,500 and 1,499" in flaw.text
    assert lost(0, (1500, 1500), (1500, 1500)) == ()


def test_a_record_more_in_the_log_is_wrong_of_idempotent_producers_alone() -> None:
    (again,) = lost(1, promised=True)
    assert (again.whose, again.broken, again.late) == ("brokers", False, True)
    (wrong,) = lost(1, idempotent=True)
    assert (wrong.whose, wrong.late) == ("brokers", False)


@pytest.mark.parametrize(("moved", "sound"), [(2990, False), (3000, True), (3005, True), (3006, False)])
def test_any_number_of_what_timed_out_may_be_in_the_log(moved: int, sound: bool) -> None:
    account = replace(
        accounting(3000, attempted=3005, offset_delta=moved), failed={"_MSG_TIMED_OUT": 5}, partitions=((3000, moved),)
    )
    found = of(TIMES_OUT, ten_s(), account=account)
    assert ("records unaccounted" in texts(found)) is not sound
    assert ("sends failed" in texts(found)) is False
    assert "5 of 3,005 sends failed" in texts(of(PACED, ten_s(), account=account))


@pytest.mark.parametrize("field", ["acked", "unresolved", "withdrawn"])
def test_the_law_of_records_is_kept_to_the_record(field: str) -> None:
    account = replace(accounting(3000), **{field: getattr(accounting(3000), field) + 1})
    assert "records unaccounted: attempted 3,000" in texts(of(CAPPED, ten_s(), account=account))


@pytest.mark.parametrize(
    ("failed", "late"),
    [
        ({"_MSG_TIMED_OUT": 1}, True),
        ({"NOT_ENOUGH_REPLICAS_AFTER_APPEND": 1, "_TIMED_OUT_QUEUE": 2}, True),
        ({"_MSG_TIMED_OUT": 1, "CORRUPT_MESSAGE": 1}, False),
        ({"TOPIC_AUTHORIZATION_FAILED": 1}, False),
    ],
)
def test_sends_that_fail_may_be_late_where_all_of_them_may(failed: dict[str, int], late: bool) -> None:
    account = replace(accounting(3000, attempted=3000 + sum(failed.values())), failed=failed)
    (flaw,) = of(CAPPED, ten_s(), account=account)
    assert (flaw.whose, flaw.late) == ("brokers", late)


@pytest.mark.parametrize(
    ("attempted", "pushed_s", "whose"),
    [(0, 0.0, "unknown"), (1, 0.0, "brokers"), (0, 4.99, "unknown"), (0, 5.0, "brokers")],
)
def test_nothing_acknowledged_is_the_brokers_doing_where_something_waited_for_half_of_the_window(
    attempted: int, pushed_s: float, whose: str
) -> None:
    told = ten_s(attempted_in_window=attempted, acked_in_window=0, pushback_in_window_s=pushed_s, pushback_s=pushed_s)
    (flaw,) = (flaw for flaw in of(CAPPED, told, room=1.0) if "no record was acknowledged" in flaw.text)
    assert flaw.whose == whose


def reading(load: Load = CAPPED, told: Sent | None = None, facts: Any = None, **changes: Any) -> tuple[Flaw, ...]:
    return of(load, told or ten_s(), received=received(**changes), **(facts or {}))


@pytest.mark.parametrize(
    ("changes", "whose", "late"),
    [
        ({"foreign": 1}, "unknown", True),
        ({"corrupt": 1}, "brokers", False),
        ({"missed": 1}, "brokers", False),
        ({"duplicated": 1}, "brokers", True),
        ({"reordered": 1}, "brokers", True),
        ({"failed": {"_MAX_POLL_EXCEEDED": 1}}, "unknown", True),
        ({"failed": {"REQUEST_TIMED_OUT": 1}}, "brokers", True),
        ({"failed": {"OFFSET_OUT_OF_RANGE": 1}}, "brokers", False),
    ],
)
def test_what_consumers_were_wrongly_given_has_its_cause(changes: dict[str, Any], whose: str, late: bool) -> None:
    (flaw,) = reading(**changes)
    assert flaw.whose == whose
    assert flaw.late is (late and whose == "brokers")
    if {"duplicated", "reordered"} & set(changes):
        (flaw,) = reading(facts={"idempotent": True}, **changes)
        assert not flaw.late, "they drop what is sent again"


@pytest.mark.parametrize(
    ("taken", "at_ease", "whose"),
    [(2999, True, "brokers"), (2999, False, "unknown"), (0, False, "brokers"), (3001, True, "unknown")],
)
def test_records_that_consumers_lack_are_the_brokers_doing_where_these_could_read(
    taken: int, at_ease: bool, whose: str
) -> None:
    (flaw,) = (f for f in reading(received=taken, facts={"at_ease": at_ease}) if "unaccounted" in f.text)
    assert flaw.whose == whose
    assert f"({taken - 3000:+,})" in flaw.text


def test_every_group_is_given_all_of_it() -> None:
    found = reading(by_group=[(3000, 2000), (2990, 0)], received=5990)
    assert "2,990 received by group 2 of 2 (-10)" in texts(found)
    assert "no record was received in the window by group 2 of 2" in texts(found)
    assert "group 1" not in texts(found)


@pytest.mark.parametrize("own", [True, False])
def test_turns_that_ran_into_one_another_explain_what_the_other_side_took(own: bool) -> None:
    flaw = late_turns(3, 8, own=own, turn_s=1.25)
    assert "in 3 of 8 turns" in flaw.text
    assert flaw.again
    wanted = (1.0, 0.0) if own else (2.0, 0.0)
    assert explained(flaw, "records_per_s") == wanted
    assert explained(flaw, "latency_ms.p99") == (1.0, 0.0 if own else 1250.0)


@pytest.mark.parametrize(
    ("lost_s", "factor"), [(0.0, 1.0), (5.0, 2.0), (9.0, 10.0), (10.0, math.inf), (11.0, math.inf)]
)
def test_a_rate_that_lacked_some_of_its_window_is_lower_by_that(lost_s: float, factor: float) -> None:
    assert lost_of(10.0, lost_s) == factor
    (*_, last) = standing_still(10.0, lost_s, 1.0)
    assert (last.factor is None) is (factor == math.inf)


def test_a_factor_of_one_explains_nothing() -> None:
    assert len(share(1.0)) == len(share(0.5)) == 1
    (_, counted, timed_out) = share(1.5)
    assert (counted.factor, timed_out.factor) == (1.5, None)
    assert "records_per_s" in counted.metrics
    assert timed_out.metrics == ("timed_out_share",)


def hosts(**changes: Any) -> list[Flaw]:
    machine = changes.pop("machine", MACHINE)
    load, result = changes.pop("load", PACED), changes.pop("result", load_result(sent=sent()))
    facts = {name: changes.pop(name) for name in ("shares_cores",) if name in changes}
    broker = changes.pop("broker", None)
    host = replace(HOST, machine=machine, **changes)
    return host_flaws(load, replace(result, hosts=(host,)), broker, **facts)


@pytest.mark.parametrize(
    ("started_ms", "bound_ms", "stepped_ms", "apart"),
    [
        (49.8, 0.2, 0.0, False),
        (49.9, 0.2, 0.0, True),
        (-49.8, 0.2, 0.0, False),
        (-49.9, 0.2, 0.0, True),
        (0.0, 50.0, 0.0, False),
        (0.0, 50.1, 0.0, True),
    ],
)
def test_a_host_may_begin_fifty_ms_from_the_agreed_moment(
    started_ms: float, bound_ms: float, stepped_ms: float, apart: bool
) -> None:
    found = hosts(started_late_ms=started_ms, clock_bound_ms=bound_ms, clock_stepped_ms=stepped_ms)
    assert bool(found) is apart
    assert all("did not start together" in flaw.text for flaw in found)
    assert bool(fault_host_flaws([replace(HOST, started_late_ms=started_ms, clock_bound_ms=bound_ms)])) is apart


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu_share": 0.95}, ""),
        ({"cpu_share": 0.951}, "cores were 95% busy"),
        ({"network_share": 0.9}, ""),
        ({"network_share": 0.91}, "carried 91% of its speed"),
        ({"throttled_share": 0.1}, ""),
        ({"throttled_share": 0.11}, "CPU quota held it back in 11%"),
        ({"tcp_sent": 10_000, "tcp_sent_again": 99}, ""),
        ({"tcp_sent": 9_900, "tcp_sent_again": 100}, ""),
        ({"tcp_sent": 9_899, "tcp_sent_again": 100}, "its network lost packets"),
        ({"tcp_sent": 1_000, "tcp_sent_again": 99}, ""),
    ],
)
def test_a_host_is_at_its_limit_to_the_percent(changes: dict[str, Any], words: str) -> None:
    machine = replace(MACHINE, **changes)
    found = hosts(machine=machine)
    assert (words in found[0].text) if words else not found
    with_run = replace(machine, with_run=True)
    assert not hosts(machine=with_run, shares_cores=True), "what the brokers' machine lacks is theirs to use up"
    assert bool(hosts(machine=with_run)) is bool(words)


def test_a_cpu_quota_explains_the_periods_in_which_it_held_a_host_back() -> None:
    (flaw,) = hosts(machine=replace(MACHINE, throttled_share=0.5))
    assert explained(flaw, "records_per_s")[0] == pytest.approx(2.0)
    assert explained(flaw, "latency_ms.p99")[1] == pytest.approx(2000.0), (
        "five periods of 0.1 s in a row, twice as long"
    )
    (wholly,) = hosts(machine=replace(MACHINE, throttled_share=1.0))
    assert wholly.explains_all


def test_lost_packets_hold_each_connection_up_for_as_long_as_a_time_out_takes() -> None:
    machine = replace(MACHINE, tcp_sent=9_600, tcp_sent_again=400)
    (flaw,) = hosts(machine=machine, processes=100)
    waiting = min(1.0, 3 / math.sqrt(8 / (3 * 2 * 0.04)))
    assert explained(flaw, "records_per_s")[0] == pytest.approx(2 / (2 - 400 * waiting * 0.2 / 100))
    assert explained(flaw, "latency_ms.p99")[1] == pytest.approx(2 * 1400.0)


@pytest.mark.parametrize(("thread", "broker", "limit"), [(0.95, 0.49, True), (0.94, 0.49, False), (0.95, 0.5, False)])
def test_a_thread_of_a_host_is_at_its_limit_as_here(thread: float, broker: float, limit: bool) -> None:
    assert bool(hosts(busiest_thread_cores=thread, broker=broker)) is limit
    assert not hosts(busiest_thread_cores=thread)


@pytest.mark.parametrize(("delay_ms", "pushed", "late"), [(9.9, 0.0, False), (10.1, 0.0, True), (10.1, 0.006, False)])
def test_one_host_may_be_twice_as_late_as_all(delay_ms: float, pushed: float, late: bool) -> None:
    """Of a latency of 100 ms the limit of all is 5 ms; and a buffer that was full for as long explains it."""
    given = {"latency_histogram": histogram([0.1] * 9), "schedule_delay_p99_ms": delay_ms, "pushback_share": pushed}
    told = load_result(sent=sent(schedule_delay=histogram([0.004] * 99)))
    found = hosts(result=told, **given)
    assert bool(found) is late
    if late:
        (flaw,) = found
        assert (flaw.metrics, flaw.whose) == ((LATENCY,), "load")
        assert explained(flaw, "latency_ms.p99")[1] == pytest.approx(20.2)
        (timed_out,) = hosts(result=told, load=TIMES_OUT, **given)
        assert (timed_out.whose, timed_out.again) == ("unknown", False)


def two_clocks(off_ms: tuple[float, ...], median_ms: float) -> LoadResult:
    read = received(latency=histogram([median_ms / 1e3] * 9))
    both = tuple(replace(HOST, name=f"host-{n}", clock_off_by_ms=ms) for n, ms in enumerate(off_ms))
    return load_result(sent=sent(), received=read, hosts=both)


@pytest.mark.parametrize(
    ("off_ms", "flawed"), [((0.4, 0.5), False), ((0.5, 0.6), True), ((0.1, 0.6, 0.3), False), ((0.5, 0.6, 0.1), True)]
)
def test_the_two_clocks_that_are_known_least_are_off_by_a_tenth_of_the_median_at_most(
    off_ms: tuple[float, ...], flawed: bool
) -> None:
    found = host_flaws(PACED, two_clocks(off_ms, 10.0))
    assert bool(found) is flawed
    if flawed:
        assert explained(found[0], "end_to_end_latency_ms.p99")[1] == pytest.approx(1.1)


@pytest.mark.parametrize(("off_ms", "spoilt"), [(1.0, []), (1.01, ["latency_before_ms"])])
def test_phases_of_a_fault_are_spoilt_by_clocks_that_are_off_by_a_tenth(off_ms: float, spoilt: list[str]) -> None:
    metrics = {"latency_before_ms.p50": 10.0, "latency_during_ms.p50": 900.0, "outage_s.p50": 0.001}
    found = spoilt_by_clocks([HOST, replace(HOST, clock_off_by_ms=off_ms)], metrics)
    assert [doubt.metrics[0] for doubt in found] == spoilt
    assert spoilt_by_clocks([], metrics) == []


def test_the_percentile_of_a_delay_is_exactly_halfway_to_100() -> None:
    """753 of 1,000 are 2 ms late and the others 50: the p75 is 2 ms."""
    delays = histogram([0.002] * 753 + [0.05] * 247)
    (flaw,) = of(PACED, ten_s(latency=histogram([0.001] * 100), schedule_delay=delays))
    assert explained(flaw, "latency_ms.p50")[1] == pytest.approx(4.0, rel=0.02)
    assert explained(flaw, "latency_ms.p95")[1] == pytest.approx(100.0, rel=0.02)
