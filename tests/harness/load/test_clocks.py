"""Laws of clock estimates: whatever the delays, the true offset lies within the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.clocks import Estimate, Exchange, estimate, interpolated, off_by

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
