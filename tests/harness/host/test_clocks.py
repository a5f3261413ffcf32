"""Laws of clock estimates: whatever the delays, the true offset lies within the bound."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.host.clocks import DRIFT, Estimate, Exchange, Track, estimate, interpolated, off_by, stepped

DELAYS = st.floats(0, 10)
MOMENTS = st.floats(0, 1e6)
OFFSETS = st.floats(-1e6, 1e6)
ROUNDING_S = 1e-8


def exchanged(sent: float, offset: float, there: float, busy: float, back: float) -> Exchange:
    received = sent + there + offset
    return Exchange(sent=sent, received=received, replied=received + busy, heard=sent + there + busy + back)


@given(OFFSETS, st.lists(st.tuples(MOMENTS, DELAYS, DELAYS, DELAYS), min_size=1, max_size=20))
def test_the_true_offset_lies_within_the_bound(offset: float, runs: list[tuple[float, float, float, float]]) -> None:
    found = estimate(exchanged(sent, offset, *delays) for sent, *delays in runs)
    assert abs(found.offset - offset) <= found.bound + ROUNDING_S
    smallest = min(there + back for _, there, _, back in runs)
    assert found.bound == pytest.approx(smallest / 2, abs=ROUNDING_S)


@given(MOMENTS, OFFSETS, DELAYS, DELAYS)
def test_equal_delays_give_the_offset_itself(sent: float, offset: float, delay: float, busy: float) -> None:
    assert estimate([exchanged(sent, offset, delay, busy, delay)]).offset == pytest.approx(offset, abs=ROUNDING_S)


@given(OFFSETS, st.floats(-1e-3, 1e-3), st.tuples(DELAYS, DELAYS), st.tuples(DELAYS, DELAYS), st.floats(0, 1))
def test_an_even_drift_is_followed(
    offset: float, drift: float, first: tuple[float, float], last: tuple[float, float], share: float
) -> None:
    """Between two exchanges at 0 and 100 s, of a clock that gains `drift` seconds a second."""
    before, after = (
        Estimate(at, offset + drift * at + (there - back) / 2, (there + back) / 2)
        for at, (there, back) in ((0.0, first), (100.0, last))
    )
    found = interpolated(before, after, 100 * share)
    assert abs(found.offset - (offset + drift * 100 * share)) <= found.bound + ROUNDING_S
    used = before.offset
    assert abs(used - (offset + drift * 100 * share)) <= off_by(used, before, after) + ROUNDING_S


def test_a_moment_outside_takes_the_nearer_end_and_one_look_is_enough() -> None:
    before, after = Estimate(10, 1.0, 0.1), Estimate(20, 2.0, 0.3)
    assert interpolated(before, after, 5) == Estimate(5, 1.0, 0.1)
    assert interpolated(before, after, 25) == Estimate(25, 2.0, 0.3)
    assert interpolated(before, before, 10) == before


def test_without_an_exchange_nothing_is_known() -> None:
    with pytest.raises(ValueError, match="empty"):
        estimate([])


def across(moments: list[float], delays: list[tuple[float, float]], clock: list[float]) -> list[Estimate]:
    """Return what is seen of a clock that is ahead by `clock` at these moments."""
    seen = zip(moments, clock, delays, strict=True)
    return [Estimate(at, ahead + (there - back) / 2, (there + back) / 2) for at, ahead, (there, back) in seen]


SHORT = st.tuples(st.floats(0, 0.1), st.floats(0, 0.1))


@given(st.floats(-DRIFT, DRIFT), st.lists(st.tuples(st.floats(0.001, 1e3), SHORT), min_size=2, max_size=20))
def test_no_drift_of_a_kept_clock_is_taken_for_a_step(
    drift: float, looks: list[tuple[float, tuple[float, float]]]
) -> None:
    moments = list(accumulate(after for after, _ in looks))
    seen = across(moments, [delays for _, delays in looks], [0.999 * drift * at for at in moments])
    assert stepped(seen) == 0.0


@given(st.floats(-10, 10), st.lists(SHORT, min_size=3, max_size=3))
def test_a_step_beyond_what_bounds_and_drift_explain_is_found(step: float, delays: list[tuple[float, float]]) -> None:
    seen = across([0, 10, 20], delays, [0, 0, step])
    found = stepped(seen)
    assert not found or abs(found - step) <= max(one.bound for one in seen[:2]) + seen[2].bound + ROUNDING_S
    if abs(step) > 2 * (seen[1].bound + seen[2].bound) + DRIFT * 10 + ROUNDING_S:
        assert found * step > 0, "with its direction"


def test_a_clock_that_steps_and_steps_back_is_seen_by_the_messages_in_between() -> None:
    before, after = Estimate(0, 0.0, 0.001), Estimate(31, 0.0, 0.001)
    track = Track(before)
    for at in range(30):
        track.heard(exchanged(at, 0.25 if at > 10 else 0.0, 0.001, 0.2, 0.001))
    assert stepped([before, after]) == 0.0, "by both ends alone it would not be"
    assert track.stepped(after) == pytest.approx(0.25, abs=0.002)
    assert Track(before).stepped(after) == 0.0


def seen_every(seconds: float, *offsets: float, bound: float = 0.001) -> list[Estimate]:
    return [Estimate(n * seconds, offset, bound) for n, offset in enumerate(offsets)]


@pytest.mark.parametrize(("slew", "found"), [(0.9 * DRIFT, False), (1.1 * DRIFT, True), (-1.1 * DRIFT, True)])
def test_a_clock_that_is_slewed_slowly_is_seen_by_where_it_began(slew: float, found: bool) -> None:
    """Every 5 s it moves by 2.75 ms, which bounds and drift explain; in 100 s by 55 ms, of which they explain 52."""
    seen = seen_every(5.0, *(slew * 5 * n for n in range(21)))
    assert bool(stepped(seen)) is found
    assert not stepped(seen[:7]), "not in half a minute"
    if found:
        assert stepped(seen) == pytest.approx(slew * 100), "with its direction"
    track = Track(seen[0])
    for second in range(100):
        track.heard(exchanged(float(second), slew * second, 0.001, 0.0, 0.001))
    assert bool(track.stepped(seen[-1])) is found


def test_a_step_that_takes_back_what_a_drift_made_is_seen_by_the_look_before() -> None:
    drifted = seen_every(10.0, 0.0, -0.004, -0.008, -0.012, 0.003)
    assert stepped(drifted) == pytest.approx(0.015)
    assert not stepped([drifted[0], drifted[-1]]), "by both ends it would not be"


@pytest.mark.parametrize(("moved", "step"), [(0.0069, 0.0), (0.0071, 0.0071), (-0.0069, 0.0), (-0.0071, -0.0071)])
def test_what_both_bounds_and_the_drift_between_explain_is_no_step(moved: float, step: float) -> None:
    """1 ms of the one, 2 ms of the other, and 8 s of 0.5 ms each."""
    assert stepped([Estimate(2.0, 1.0, 0.001), Estimate(10.0, 1.0 + moved, 0.002)]) == pytest.approx(step)


def test_of_several_steps_the_one_that_is_explained_least_is_told() -> None:
    assert stepped(seen_every(1.0, 0.0, 0.1, 0.1, -0.3)) == pytest.approx(-0.4)


def test_messages_count_together_until_five_seconds_of_them_have_passed() -> None:
    """The quickest of each five seconds tells: one slow message alone would hide a step within its bound."""
    track = Track(Estimate(0.0, 0.0, 0.001))
    for second in range(11):
        slow = second not in (4, 10)
        track.heard(exchanged(float(second), 0.05 if second >= 6 else 0.0, 0.001, 0.0, 1.0 if slow else 0.001))
    assert track.stepped(Estimate(30.0, 0.05, 0.001)) == pytest.approx(0.05, abs=0.002)


def test_an_offset_is_wrong_by_what_either_end_shows_and_its_bound() -> None:
    before, after = Estimate(0.0, 1.0, 0.001), Estimate(30.0, 1.01, 0.004)
    assert off_by(1.0, before, after) == pytest.approx(0.014)
    assert off_by(1.02, before, after) == pytest.approx(0.021)


def test_a_round_trip_is_without_the_time_that_the_other_host_took() -> None:
    assert Exchange(sent=1.0, received=50.0, replied=53.0, heard=5.0).round_trip == 1.0
    assert estimate([Exchange(sent=1.0, received=50.0, replied=53.0, heard=5.0)]) == Estimate(3.0, 48.5, 0.5)
    assert interpolated(Estimate(0, 1.0, 0.1), Estimate(10, 2.0, 0.3), 2.5) == Estimate(2.5, 1.25, 0.15)
