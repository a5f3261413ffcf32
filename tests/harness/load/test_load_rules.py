"""The pure parts of the load: schedule, warm-up, histograms, payloads, validity."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from perfgate.load.processes import has_grown, has_stopped_growing, is_even, is_steady
from perfgate.load.schedule import OWED_S, Limit, Schedule
from perfgate.load.wake import WakeProbe, p99_ms
from perfgate.measure.assembly import round_of
from perfgate.measure.flaw import processors_used_up
from perfgate.measure.validity import accounting_of, flaws, not_sustained, processors_left
from perfgate.model import LATENCY_QUANTILES, Load
from perfgate.model.compared import SATURATED
from perfgate.model.histogram import (
    MOST_PARTITIONS,
    LatencyRecorder,
    empty,
    encode,
    figures_of,
    latency_metrics,
    merged,
)
from perfgate.model.load import Progress, Sent
from tests.harness.build import accounting, histogram, load_result, received, sent
from tests.harness.build.generators import observer, processes

CAPPED = Load(kind="capped", rate=1000.0)
PACED = Load(kind="paced", rate=1000.0)
BACKLOG = Load(kind="backlog", records=1000)


@given(
    start=st.floats(0, 1e6),
    rate=st.floats(1, 1e6),
    elapsed=st.floats(0, 100),
)
def test_due_by_counts_exactly_the_slots_that_have_come(start: float, rate: float, elapsed: float) -> None:
    schedule = Schedule(start, rate)
    now = start + elapsed
    due = schedule.due_by(now)
    assert due == 0 or schedule.due_at(due - 1) <= now
    assert schedule.due_at(due) > now


@given(rate=st.floats(1, 1e5), a=st.floats(0, 50), b=st.floats(0, 50))
def test_due_by_never_falls(rate: float, a: float, b: float) -> None:
    schedule = Schedule(0.0, rate)
    assert schedule.due_by(min(a, b)) <= schedule.due_by(max(a, b))


@given(rate=st.floats(0.5, 1e5), pauses=st.lists(st.floats(0, 20), min_size=1, max_size=30))
def test_no_stall_is_caught_up_beyond_what_the_target_allows(rate: float, pauses: list[float]) -> None:
    limit, moment, done = Limit(rate), 0.0, 0
    handed_over: list[tuple[float, int]] = []
    for pause in pauses:
        moment += pause
        count = max(0, limit.by(moment, done) - done)
        handed_over.append((moment, count))
        done += count
        assert limit.by(moment, done) == done
        assert limit.next_at(done) > moment
    for first in range(len(handed_over)):
        for last in range(first, len(handed_over)):
            seconds = handed_over[last][0] - handed_over[first][0] + OWED_S
            assert sum(count for _, count in handed_over[first : last + 1]) <= rate * seconds + 2


def test_nothing_is_due_before_the_start() -> None:
    assert Schedule(10.0, 5.0).due_by(9.999) == 0
    assert Schedule(10.0, 5.0).due_by(10.0) == 1


def progress(at: float, acked: int) -> Progress:
    return Progress(at=at, attempted=acked, done=acked, failed=0)


def test_an_even_rate_is_steady_and_a_rising_one_is_not() -> None:
    even = [progress(t / 10, 100 * t) for t in range(21)]
    rising = [progress(t / 10, 5 * t * t) for t in range(21)]
    assert is_steady(even, 0.0)
    assert not is_steady(rising, 0.0)


def test_nothing_is_steady_without_acknowledgements_or_too_early() -> None:
    assert not is_steady([progress(t / 10, 0) for t in range(30)], 0.0)
    assert not is_steady([progress(t / 10, 100 * t) for t in range(9)], 0.0)
    assert not is_steady([], 0.0)


def due(waiting: Callable[[int], int]) -> list[Progress]:
    """Return reports of 1.3 s of 500 records/s, of which so many wait after each tenth of a second."""
    return [Progress(at=t / 10, attempted=50 * t, done=50 * t - waiting(t), failed=0) for t in range(14)]


@pytest.mark.parametrize(
    ("waiting", "even"),
    [
        (lambda t: 0, True),
        (lambda t: min(37, 50 * t), True),  # 15 % of what half a second sends
        (lambda t: 12 * t, False),
        (lambda t: 12 * min(t, 9), False),
        (lambda t: 12 * min(t, 9) if t < 13 else 30, True),
        (lambda t: 40 * min(t, 2), True),  # 160 ms, ever since
        (lambda t: 40 * min(t, 2) + 2 * t, False),
    ],
)
def test_a_load_that_is_due_is_even_once_it_owes_no_more(waiting: Callable[[int], int], even: bool) -> None:
    history = due(waiting)
    assert is_even(history) is even
    assert not is_even(history[:5])
    assert not is_even([])


def test_partitions_that_are_not_there_yet_leave_an_even_rate() -> None:
    history = due(lambda t: 12 * t)  # of 24 of 100 partitions
    assert is_steady(history, 0.0)
    assert not is_even(history)


@pytest.mark.parametrize(("due", "after_s"), [(False, 1.0), (True, 3.0)])
def test_the_window_of_a_load_that_is_due_opens_when_it_owes_no_more(due: bool, after_s: float) -> None:
    """A fifth of the partitions stalls for 2 s; what was sent to them is acknowledged at once then."""
    start = float(int(time.monotonic()) - 10)
    with processes("producer-1", leading="producer", due=due) as (generators, heard):
        for eighth in range(40):
            done = 60 * eighth - (12 * eighth if eighth < 16 else 0)
            counts = {"attempted": 60 * eighth, "done": done, "failed": 0}
            heard("producer-1", {"event": "progress", "at": start + eighth / 8, **counts})
        assert generators.warm_up(start, 1e6, observer([]))
        assert generators.last is not None
        assert generators.last.at - start == after_s


def test_what_a_producer_did_counts_though_it_was_killed() -> None:
    """Its records fell out of the limit on bytes, so that the others could write as many again before it held."""
    with processes("producer-1", "producer-2", leading="producer") as (generators, heard):
        for name, done in (("producer-1", 50), ("producer-2", 40), ("producer-2", 60)):
            heard(name, {"event": "progress", "at": time.monotonic(), "attempted": 70, "done": done, "failed": 3})
            if done == 40:
                generators.listen_until(time.monotonic() + 0.1, "loading", observer([]))
                generators.kill("producer-1")
        generators.listen_until(time.monotonic() + 0.1, "loading", observer([]))
        assert generators.last is not None
        assert (generators.last.done, generators.last.attempted, generators.last.failed) == (110, 140, 6)


def test_a_load_goes_on_whose_only_producer_was_killed_before_its_first_report() -> None:
    """The next report of a consumer ended the round in a traceback."""
    with processes("producer-1", "consumer-1", leading="producer") as (generators, heard):
        generators.kill("producer-1")
        heard("consumer-1", {"event": "progress", "at": time.monotonic(), "attempted": 9, "done": 9, "failed": 0})
        generators.listen_until(time.monotonic() + 0.1, "loading", observer([]))
        assert generators.last is None
        assert generators.done("consumer") == 9


def test_failed_sends_of_a_load_beside_are_seen_while_it_runs() -> None:
    """A target's limit of failed sends saw those of the scenario's own load alone until the round was over."""
    names, moment = ("producer-1", "noisy-producer-1", "noisy-producer-2", "noisy-consumer-1"), time.monotonic()
    with processes(*names, leading="producer") as (generators, heard):
        for name in reversed(names):
            failed = 5 if "noisy-producer" in name else 0
            heard(name, {"event": "progress", "at": moment, "attempted": 10, "done": 10 - failed, "failed": failed})
        generators.listen_until(time.monotonic() + 0.3, "loading", observer([]))
        assert generators.last is not None
        assert (generators.last.attempted, generators.last.failed) == (10, 0)
        assert (generators.last.attempted_beside, generators.last.failed_beside) == (20, 10)


def test_a_load_beside_may_be_called_like_a_role() -> None:
    """Of one called "producers" the records passed for the scenario's own, and more were sent than acknowledged."""
    names = ("producer-1", "producers-producer-1", "consumer2-consumer-1", "consumer-1")
    with processes(*names, leading="producer") as (generators, heard):
        for name in reversed(names):
            heard(name, {"event": "progress", "at": time.monotonic(), "attempted": 10, "done": 10, "failed": 0})
            heard(name, {"event": "result", "of": name})
        for role in ("producer", "consumer"):
            (result,) = generators.wait_for("result", 10, observer([]), only=role)
            assert result["of"] == f"{role}-1"
            assert generators.done(role) == 10
        assert generators.last is not None
        assert (generators.last.attempted, generators.last.attempted_beside) == (10, 10)


def test_one_slice_without_growth_is_not_the_end_of_a_warm_up() -> None:
    assert not has_stopped_growing([201, 572, 797, 800])
    assert has_stopped_growing([201, 4900, 4906, 4800])
    assert not has_stopped_growing([100, 100])
    assert has_stopped_growing([1000, 1090, 1095]), "a step on the way looks like the end"
    assert has_grown([1000, 1090, 1095], [1000, 1090, 1095, 3000]), "so a later pass has to confirm it"
    assert not has_grown([5200, 5100], [5200, 5100, 5300])


@given(st.lists(st.lists(st.floats(1e-6, 100), min_size=1, max_size=40), min_size=1, max_size=4))
def test_merged_percentiles_are_those_of_the_pooled_samples(processes: list[list[float]]) -> None:
    pooled = [value for samples in processes for value in samples]
    together = latency_metrics(histogram(samples) for samples in processes)
    assert together == latency_metrics([histogram(pooled)])
    assert merged(histogram(samples) for samples in processes).get_total_count() == len(pooled)


@given(st.lists(st.integers(1, 3_600_000_000), min_size=1, max_size=200))
def test_counting_whole_arrays_gives_what_hdrhistogram_gives_one_by_one(micros: list[int]) -> None:
    one_by_one = empty()
    for value in micros:
        one_by_one.record_value(value)
    recorder = LatencyRecorder()
    recorder.record(np.array(micros) / 1e6)
    ours = recorder.histogram()
    assert ours.get_total_count() == len(micros)
    for quantile in (1, 25, 50, 90, 99, 99.9, 99.99, 100):
        assert ours.get_value_at_percentile(quantile) == one_by_one.get_value_at_percentile(quantile)


# HdrHistogram takes 0.1 s for an example: shrinking one takes minutes.
@settings(max_examples=40, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    rounds=st.lists(
        st.lists(st.tuples(st.integers(1, 3_600_000_000), st.integers(1, 10**9)), max_size=30), min_size=1, max_size=4
    )
)
def test_what_is_reduced_by_arrays_is_what_hdrhistogram_gives(rounds: list[list[tuple[int, int]]]) -> None:
    encoded, total = [], empty()
    for values in rounds:
        one = empty()
        for micros, count in values:
            one.record_value(micros, count)
        encoded.append(encode(one))
        total.decode_and_add(encoded[-1].encode())
    expected = {f"latency_ms.{name}": total.get_value_at_percentile(q) / 1e3 for name, q in LATENCY_QUANTILES.items()}
    expected |= {"latency_ms.max": total.get_max_value() / 1e3, "latency_ms.avg": total.get_mean_value() / 1e3}
    assert latency_metrics(encoded) == (expected if total.get_total_count() else {})
    again = merged(encoded)
    assert encode(again) == encode(total)
    assert (again.get_total_count(), again.get_max_value()) == (total.get_total_count(), total.get_max_value())


def test_a_histogram_of_another_layout_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="from 1 to 1000 with 2 digits"):
        latency_metrics([encode(HdrHistogram(1, 1000, 2))])


def test_latencies_below_zero_are_counted_and_kept() -> None:
    recorder = LatencyRecorder()
    recorder.record(np.array([-0.5, -1e-6, 0.0, 0.25]))
    assert recorder.histogram().get_total_count() == 4
    assert recorder.negative == 2


def test_values_below_zero_are_counted_before_anybody_asks_for_the_histogram() -> None:
    """A consumer's counts are taken first: fewer values than the buffer holds had none below zero then."""
    recorder = LatencyRecorder()
    recorder.record(np.array([-0.1, 0.2]))
    assert recorder.negative == 1
    recorder.record(np.array([-0.3]))
    assert recorder.negative == 2
    assert recorder.counts().sum() == 3


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3_600_000_000)), max_size=200), min_size=1, max_size=4
    )
)
def test_latencies_by_partition_are_all_there_and_their_p99_is_at_most_a_sixteenth_high(
    processes: list[list[tuple[int, int]]],
) -> None:
    recorders = [LatencyRecorder(5) for _ in processes]
    for recorder, values in zip(recorders, processes, strict=True):
        given = np.array(values, np.int64).reshape(-1, 2)
        recorder.record(given[:, 1] / 1e6, given[:, 0].astype(np.int32))
    told = figures_of([sum(column) for column in zip(*(one.by_partition() for one in recorders), strict=True)])
    for partition, (count, told_ms) in enumerate(told):
        own = sorted(micros for values in processes for whose, micros in values if whose == partition)
        assert count == len(own)
        exact = own[max(int(0.99 * len(own) + 0.5), 1) - 1] / 1e3 if own else 0.0
        assert exact <= told_ms <= exact * (1 + 1 / 16)


def test_of_very_many_partitions_no_latencies_are_kept_apart() -> None:
    recorder = LatencyRecorder(MOST_PARTITIONS + 1)
    recorder.record(np.array([0.1]), np.array([MOST_PARTITIONS], np.int32))
    assert recorder.by_partition() == []
    assert figures_of([]) == []
    assert recorder.counts().sum() == 1


def test_percentiles_keep_three_digits() -> None:
    metrics = latency_metrics([histogram([i / 1000 for i in range(1, 1001)])])
    assert metrics["latency_ms.p50"] == pytest.approx(500, rel=2e-3)
    assert metrics["latency_ms.p99"] == pytest.approx(990, rel=2e-3)
    assert metrics["latency_ms.max"] == pytest.approx(1000, rel=2e-3)


def test_no_latency_gives_no_percentile_instead_of_zero() -> None:
    assert latency_metrics([encode(LatencyRecorder().histogram())]) == {}
    assert latency_metrics([""]) == {}


def test_a_sound_round_has_no_flaw() -> None:
    assert flaws(CAPPED, load_result(sent=sent()), accounting(3000)) == ()
    assert flaws(CAPPED, load_result(sent=sent(), received=received()), accounting(3000)) == ()
    assert flaws(BACKLOG, load_result(received=received()), accounting(0)) == ()


def test_failed_sends_are_a_flaw_with_code_and_count() -> None:
    told = sent(acked=2990, failed={"MSG_SIZE_TOO_LARGE": 10}, errors={"MSG_SIZE_TOO_LARGE": "too large"})
    (flaw,) = flaws(CAPPED, load_result(sent=told), accounting_of(told, [0], [2990]))
    assert flaw.text == "10 of 3,000 sends failed: 10 x MSG_SIZE_TOO_LARGE (too large)"
    assert not flaw.again


def test_withdrawn_records_are_accounted_for_and_none_may_be_in_the_log() -> None:
    told = sent(attempted=3500, withdrawn=500)
    assert flaws(CAPPED, load_result(sent=told), accounting_of(told, [0], [3000])) == ()
    (flaw,) = flaws(CAPPED, load_result(sent=told), accounting_of(told, [0], [3001]))
    assert "records unaccounted: 3,000 acknowledged" in flaw.text
    assert flaw.text.endswith("(+1); 500 were withdrawn")
    untold = sent(attempted=3501, withdrawn=500)
    (lost,) = flaws(CAPPED, load_result(sent=untold), accounting_of(untold, [0], [3000]))
    assert "+ withdrawn 500 = 3,500" in lost.text


def test_unresolved_records_are_a_flaw() -> None:
    told = sent(acked=2995, unresolved=5)
    found = flaws(CAPPED, load_result(sent=told), accounting_of(told, [0], [2995]))
    assert [f.text for f in found] == ["5 of 3,000 records had no outcome when the wait ended"]


@pytest.mark.parametrize("delta", [2999, 3001])
def test_end_offsets_that_disagree_with_the_acknowledgements_are_a_flaw(delta: int) -> None:
    (flaw,) = flaws(CAPPED, load_result(sent=sent()), accounting_of(sent(), [5], [5 + delta]))
    assert "records unaccounted: 3,000 acknowledged" in flaw.text
    assert f"({delta - 3000:+,})" in flaw.text


def test_a_record_in_another_partition_than_the_acknowledged_one_is_a_flaw() -> None:
    told = sent(acked_by_partition=[1500, 1500])
    (flaw,) = flaws(CAPPED, load_result(sent=told), accounting_of(told, [0, 0], [1499, 1501]))
    assert "partition 0: 1,500 and 1,499; partition 1: 1,500 and 1,501" in flaw.text
    assert flaws(CAPPED, load_result(sent=told), accounting_of(told, [7, 0], [1507, 1500])) == ()


def test_a_sum_that_does_not_add_up_is_a_flaw() -> None:
    (flaw,) = flaws(CAPPED, load_result(sent=sent()), accounting(3000, attempted=3001))
    assert "attempted 3,001, but acked 3,000 + failed 0 + unresolved 0 + withdrawn 0 = 3,000" in flaw.text


def test_a_capped_load_below_its_cap_without_push_back_was_limited_by_the_generator() -> None:
    (flaw,) = flaws(CAPPED, load_result(sent=sent(attempted_in_window=1900)), accounting(3000))
    assert flaw.again
    assert "generator saturated: it offered 950 records/s of the cap of 1,000" in flaw.text


def test_a_capped_load_below_its_cap_with_push_back_was_limited_by_the_brokers() -> None:
    assert (
        flaws(CAPPED, load_result(sent=sent(attempted_in_window=500, pushback_in_window_s=1.5)), accounting(3000)) == ()
    )


@pytest.mark.parametrize(
    ("brokers_cores", "own_cores", "cores", "limit"),
    [
        (1.39, 0.57, 2, True),  # threads-3 on two cores: the brokers' need of processors is what limits it
        (1.39, 0.57, 3, False),  # a processor was free: the generator could have offered more
        (0.90, 1.06, 2, False),  # the generator took most of it
        (None, 1.9, 2, False),
        (6.00, 1.50, 4, False),  # more than there is: another machine's brokers, behind a tunnel
    ],
)
def test_a_capped_load_that_finds_no_processor_because_of_the_brokers_was_limited_by_them(
    brokers_cores: float | None, own_cores: float, cores: int, limit: bool
) -> None:
    result = replace(load_result(sent=sent(attempted_in_window=1800)), cpu_cores=own_cores)
    room = processors_left(result, brokers_cores, cores)
    assert processors_used_up(room) is limit
    assert bool(flaws(CAPPED, result, accounting(3000), room=room)) is not limit
    assert flaws(PACED, result, accounting(3000), room=room), "a schedule is kept or it is not"


def test_a_generator_thread_at_its_limit_while_the_brokers_idle_was_the_limit_itself() -> None:
    busy = load_result(
        sent=sent(attempted_in_window=500, pushback_s=1.5, pushback_in_window_s=1.5), busiest_thread_cores=0.99
    )
    (flaw,) = flaws(CAPPED, busy, accounting(3000), busiest_broker_cores=0.2)
    assert flaw.again
    assert "one of its threads used 0.99 of a core, while the busiest broker used 0.20" in flaw.text
    assert flaws(CAPPED, busy, accounting(3000), busiest_broker_cores=0.8) == ()
    assert flaws(CAPPED, busy, accounting(3000)) == ()


@pytest.mark.parametrize(
    ("delay_s", "latency_s", "limit"),
    [(0.02, 1.0, "10.0"), (0.002, 0.004, "1.0"), (0.006, 0.1, "5.0")],
)
def test_a_paced_load_sent_late_without_push_back_was_limited_by_the_generator(
    delay_s: float, latency_s: float, limit: str
) -> None:
    """10 ms, or 5 % of the latency, but not less than 1 ms."""
    (flaw,) = flaws(PACED, load_result(sent=late(delay_s, latency_s)), accounting(3000))
    assert flaw.again
    assert f"p99 of the schedule delay is {delay_s * 1e3:.1f} ms (limit {limit} ms)" in flaw.text
    assert flaw.metrics == ("latency_ms",), "the rate is what it is"


def late(delay_s: float, latency_s: float, **changes: object) -> Sent:
    return sent(schedule_delay=histogram([delay_s] * 100), latency=histogram([latency_s] * 100), **changes)


@pytest.mark.parametrize("in_window_s", [0.0, 0.5])
def test_a_buffer_that_was_full_outside_of_the_window_blames_no_brokers(in_window_s: float) -> None:
    """50 ms of it in the warm-up, and a generator that offered 80 % in the window: brokers had not taken the rate."""
    short = late(0.4, 0.5, pushback_s=0.5, pushback_in_window_s=in_window_s, attempted_in_window=1600)
    result = load_result(sent=replace(short, acked_in_window=1600))
    found = flaws(PACED, result, accounting(3000))
    if in_window_s:
        assert "not sustained" in not_sustained(PACED, result)
        assert not any(SATURATED in flaw.text for flaw in found)
    else:
        assert not_sustained(PACED, result) == ""
        assert any(SATURATED in flaw.text and flaw.whose == "load" for flaw in found)


@pytest.mark.parametrize(
    ("delay_ms", "latency_ms", "wake_ms", "valid"),
    [
        (1.4, 8.0, None, False),
        (1.4, 8.0, 0.8, True),
        (1.4, 8.0, 0.6, False),
        (1.4, 4.0, 0.8, False),
        (9.0, 40.0, 6.0, True),
        (12.0, 400.0, 12.0, False),
    ],
    ids=["unknown", "the machine's", "the generator's own", "a third of the latency", "slow", "beyond the limit"],
)
def test_a_load_may_be_as_late_as_the_machine_wakes_threads(
    delay_ms: float, latency_ms: float, wake_ms: float | None, valid: bool
) -> None:
    """Twice the wake-up delay, a quarter of the latency and 10 ms at most."""
    told = load_result(sent=late(delay_ms / 1e3, latency_ms / 1e3), wake_delay_p99_ms=wake_ms)
    assert (flaws(PACED, told, accounting(3000)) == ()) is valid


def test_a_late_load_spoils_what_consumers_time_too_and_the_reason_states_the_machine() -> None:
    told = load_result(sent=late(0.02, 0.05), received=received(), wake_delay_p99_ms=0.3)
    (flaw,) = flaws(PACED, told, accounting(3000))
    assert flaw.metrics == ("latency_ms", "end_to_end_latency_ms")
    assert "this machine woke other threads 0.3 ms late" in flaw.text


def test_a_late_load_that_also_offered_too_little_is_invalid_as_a_whole() -> None:
    told = load_result(sent=late(0.02, 0.05, attempted_in_window=1900), wake_delay_p99_ms=20.0)
    (flaw,) = flaws(PACED, told, accounting(3000))
    assert (flaw.metrics, flaw.again) == ((), True)
    assert flaw.text.startswith("generator saturated: ")
    (flaw,) = flaws(PACED, load_result(sent=late(0.02, 0.05, unsent=5)), accounting(3000))
    assert flaw.metrics == ()


def test_what_was_sent_after_the_window_was_not_the_brokers_to_take() -> None:
    """Seen: too few were acknowledged because they were sent late, which was called not sustained."""
    told = late(0.144, 0.2, attempted_in_window=1950, acked_in_window=1895)
    assert flaws(PACED, load_result(sent=told, wake_delay_p99_ms=37.0), accounting(3000))[0].metrics == ("latency_ms",)
    assert not_sustained(PACED, load_result(sent=told, wake_delay_p99_ms=37.0)) == ""
    taken_late = late(0.144, 0.2, attempted_in_window=1995, acked_in_window=1800)
    assert "the brokers took 900 of 1,000" in not_sustained(PACED, load_result(sent=taken_late))


@pytest.mark.parametrize(
    ("attempted", "wake_ms", "short"), [(1960, 1.0, True), (1960, 20.0, False), (1900, 90.0, True)]
)
def test_what_may_fall_behind_the_windows_end_follows_the_machine(attempted: int, wake_ms: float, short: bool) -> None:
    """0.5 % of 2 s, and 10 ms or twice the wake-up delay, but 2 % of the window at most."""
    told = load_result(sent=late(0.0, 0.002, attempted_in_window=attempted), wake_delay_p99_ms=wake_ms)
    assert bool(flaws(PACED, told, accounting(3000))) is short


def test_a_round_keeps_its_rate_when_its_latency_is_spoilt() -> None:
    told = load_result(sent=late(0.02, 0.05), wake_delay_p99_ms=0.25)
    found = flaws(PACED, told, accounting(3000))
    r = round_of(1, told, accounting(3000), {}, found, "")
    assert r.invalid == ()
    assert "sent late" in r.spoilt("latency_ms.p99")
    assert r.spoilt("records_per_s") == ""
    assert r.generator is not None
    assert r.generator.wake_delay_p99_ms == 0.25


def test_the_wake_up_delay_is_that_of_the_window() -> None:
    with WakeProbe() as probe:
        time.sleep(1.0)
        opens = time.monotonic()
        time.sleep(2.0)
        found = probe.p99_ms(opens, time.monotonic())
    assert found is not None
    assert 0 < found < 1000
    with WakeProbe() as probe:
        assert probe.p99_ms(time.monotonic(), time.monotonic()) is None, "too few sleeps say nothing"
    assert p99_ms([0.001] * 98 + [0.5, 0.7]) == 500.0


def test_a_paced_load_sent_in_time_is_valid() -> None:
    timely = sent(schedule_delay=histogram([0.0009] * 100), latency=histogram([0.002] * 100))
    assert flaws(PACED, load_result(sent=timely), accounting(3000)) == ()


def test_a_paced_load_that_offered_less_than_its_rate_was_limited_by_the_generator() -> None:
    """Timely as far as it went, but 1.5 % short; 10 ms worth of records may fall behind the edge."""
    short = sent(attempted_in_window=1970, schedule_delay=histogram([0.0001] * 100))
    (flaw,) = flaws(PACED, load_result(sent=short), accounting(3000))
    assert flaw.again
    assert "985 records/s offered" in flaw.text
    near = sent(attempted_in_window=1981, schedule_delay=histogram([0.0001] * 100))
    assert flaws(PACED, load_result(sent=near), accounting(3000)) == ()


def test_a_paced_load_that_the_brokers_did_not_take_is_a_result_of_its_own() -> None:
    full = {"pushback_s": 1.0, "pushback_in_window_s": 1.0}
    refused = sent(acked_in_window=1600, attempted_in_window=1600, **full, schedule_delay=histogram([0.4]))
    assert flaws(PACED, load_result(sent=refused), accounting(3000)) == ()
    reason = "not sustained: the brokers took 800 of 1,000 records/s"
    assert not_sustained(PACED, load_result(sent=refused)) == reason
    queued = sent(acked_in_window=1600)  # sent in time, taken late
    assert not_sustained(PACED, load_result(sent=queued)) == reason


def test_a_generator_that_stood_still_is_not_excused_by_the_push_back_of_its_own_burst() -> None:
    """Held for 0.2 s, it hands over what it owes at once, and fills its own buffer for a moment."""
    burst = sent(pushback_s=0.02, pushback_in_window_s=0.02, schedule_delay=histogram([0.2] * 9))
    (flaw,) = flaws(PACED, load_result(sent=burst), accounting(3000))
    assert flaw.again
    assert flaw.metrics == ("latency_ms",)
    assert "sent late: p99 of the schedule delay is 20" in flaw.text
    assert flaw.text.endswith("without the 20.0 ms for which its buffer was full")
    by_brokers = sent(pushback_s=0.3, pushback_in_window_s=0.3, schedule_delay=histogram([0.2] * 9))
    assert flaws(PACED, load_result(sent=by_brokers), accounting(3000)) == ()


def test_what_was_never_handed_over_was_not_sustained() -> None:
    owed = sent(unsent=3, pushback_s=1.0)
    assert not_sustained(PACED, load_result(sent=owed)).startswith("not sustained: 3 records of the schedule")


@pytest.mark.parametrize("acked", [2000, 1995, 1901])
def test_acknowledgements_beyond_the_windows_edge_do_not_make_a_load_unsustained(acked: int) -> None:
    assert not_sustained(PACED, load_result(sent=sent(acked_in_window=acked))) == ""


def test_a_generator_that_is_short_says_nothing_about_what_the_brokers_take() -> None:
    short = sent(acked_in_window=1000, attempted_in_window=1000)
    assert not_sustained(PACED, load_result(sent=short)) == ""
    assert not_sustained(CAPPED, load_result(sent=short)) == ""


def test_a_window_without_an_acknowledgement_is_a_flaw() -> None:
    reasons = [f.text for f in flaws(CAPPED, load_result(sent=sent(acked_in_window=0)), accounting(3000))]
    assert "no record was acknowledged in the window" in reasons


@pytest.mark.parametrize("offered", [0, 3000])
def test_brokers_that_stand_still_for_all_of_a_window_did_no_better_than_for_a_part(offered: int) -> None:
    """Own brokers that stalled for 2.9 of 3 s were REGRESSED, and for all of it undecided."""
    stalled = sent(acked_in_window=0, attempted_in_window=offered)
    (flaw,) = [f for f in flaws(CAPPED, load_result(sent=stalled), accounting(3000)) if "no record was ack" in f.text]
    assert (flaw.whose == "brokers") is flaw.late is (offered > 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"foreign": 7}, "the consumers were given 7 foreign records, of 3,000"),
        ({"corrupt": 1}, "1 records whose content is not what was sent"),
        ({"duplicated": 2, "reordered": 3}, "2 records twice in the log, 3 records out of order"),
        ({"failed": {"_ALL_BROKERS_DOWN": 1}, "errors": {"_ALL_BROKERS_DOWN": "down"}}, "1 fetches that failed"),
        ({"missed": 4}, "4 records less than the log holds"),
        ({"received": 2999}, "3,000 acknowledged, 2,999 received (-1)"),
        ({"received_in_window": 0}, "no record was received in the window"),
        ({"received": 8999, "by_group": [(3000, 9), (2999, 9), (3000, 9)]}, "2,999 received by group 2 of 3 (-1)"),
        ({"received": 9000, "by_group": [(3000, 9), (3000, 9), (3000, 0)]}, "in the window by group 3 of 3"),
    ],
)
def test_what_is_wrong_with_the_records_that_were_read_is_a_flaw(changes: dict[str, object], words: str) -> None:
    (flaw,) = flaws(CAPPED, load_result(sent=sent(), received=received(**changes)), accounting(3000))
    assert words in flaw.text
    assert not flaw.again


def test_redelivery_to_a_group_is_told_but_is_no_flaw() -> None:
    assert flaws(CAPPED, load_result(sent=sent(), received=received(redelivered=5)), accounting(3000)) == ()


def test_what_one_group_has_twice_does_not_make_up_for_what_another_misses() -> None:
    read = received(received=9000, by_group=[(3001, 9), (3000, 9), (2999, 9)])
    found = [flaw.text for flaw in flaws(CAPPED, load_result(sent=sent(), received=read), accounting(3000))]
    assert found == [
        "records unaccounted: 3,000 acknowledged, 3,001 received by group 1 of 3 (+1)",
        "records unaccounted: 3,000 acknowledged, 2,999 received by group 3 of 3 (-1)",
    ]


def test_a_group_that_reads_nothing_of_a_backlog_is_found() -> None:
    read = received(by_group=[(2000, 2000), (1000, 0)])
    (flaw,) = flaws(BACKLOG, load_result(received=read), accounting(0))
    assert flaw.text == "no record was received in the window by group 2 of 2"
