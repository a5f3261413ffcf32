"""Where the time goes: every second belongs to one phase, and they add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.measure.ledger import PHASES, WINDOWS, Ledger, entry, lines


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_blocks_take_their_time_out_of_what_is_around_them() -> None:
    clock = Clock()
    ledger = Ledger(began=98.0, now=clock)
    with ledger.during("topics"):
        clock.now += 1
        with ledger.during("load start"):
            clock.now += 2
            ledger.begin(WINDOWS)
            clock.now += 4
            ledger.begin("draining")
            clock.now += 8
        clock.now += 16
    clock.now += 32
    seconds = ledger.seconds()
    found = {phase: value for phase, value in seconds.items() if value}
    assert found == {"set-up": 34, "topics": 17, "load start": 2, WINDOWS: 4, "draining": 8}


@given(st.lists(st.tuples(st.sampled_from(PHASES), st.floats(0, 1e4))))
def test_the_phases_add_up_to_the_whole(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    ledger = Ledger(now=clock)
    for phase, seconds in steps:
        ledger.begin(phase)
        clock.now += seconds
    assert sum(ledger.seconds().values()) == pytest.approx(clock.now - 100)


def test_an_error_ends_a_phase_as_its_end_does() -> None:
    clock = Clock()
    ledger = Ledger(now=clock)

    def fails() -> None:
        with ledger.during("warm-up"):
            clock.now += 3
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    clock.now += 5
    assert ledger.seconds()["warm-up"] == 3
    assert ledger.seconds()["set-up"] == 5


def test_rounds_that_turn_out_to_be_warm_up_are_no_measured_windows() -> None:
    clock = Clock()
    ledger = Ledger(now=clock)
    with ledger.during(WINDOWS):
        clock.now += 10
    ledger.move(4, WINDOWS, "warm-up")
    written = entry(ledger.seconds())
    assert written["measured_share"] == 0.6
    assert written["total_s"] == 10


def test_the_longest_phase_is_shown_first_and_none_that_took_no_time() -> None:
    assert lines({"start": 10.0, "canary": 0.1, "warm-up": 29.9}) == [
        ("warm-up", "30 s (75 %)"),
        ("start", "10 s (25 %)"),
    ]
    assert lines({}) == []


def test_a_phase_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        Ledger().begin("coffee")


def test_a_run_of_no_time_has_no_share() -> None:
    assert entry({})["measured_share"] == 0
