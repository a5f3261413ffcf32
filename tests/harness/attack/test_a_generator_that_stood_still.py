"""A generator that was stopped, or starved, while its buffer was full: the time counted as push-back by the brokers."""

import threading
import time

import pytest

from perfgate.load.producing import STALL_S
from perfgate.load.schedule import Window
from perfgate.measure.validity import flaws
from perfgate.model import Load
from tests.harness.build import accounting, load_result, sent
from tests.harness.build.transactions import request, sender

CAPPED = Load(kind="capped", rate=1000.0)
PACED = Load(kind="paced", rate=1000.0)


@pytest.mark.parametrize("load", [CAPPED, PACED])
@pytest.mark.parametrize(("stalled_s", "spoilt"), [(0.0, False), (0.3, False), (0.6, True), (1.9, True)])
def test_time_in_which_the_generator_stood_still_is_its_own(load: Load, stalled_s: float, spoilt: bool) -> None:
    told = load_result(
        sent=sent(
            attempted_in_window=1000,
            acked_in_window=1000,
            pushback_s=1.9,
            pushback_in_window_s=1.9,
            stalled_in_window_s=stalled_s,
        )
    )
    found = flaws(load, told, accounting(3000))
    assert any("stood still" in flaw.text for flaw in found) is spoilt
    assert all(flaw.again for flaw in found)


def test_a_loop_notes_that_it_came_round_late_in_the_window() -> None:
    window = Window()
    one = sender(request(), 0, window)
    one._round_again()
    window.set(time.monotonic() - 1, time.monotonic() + 60)
    one._round_again()
    assert one.stalled_in_window_s == 0.0
    threading.Event().wait(2 * STALL_S)
    one._round_again()
    assert one.stalled_in_window_s >= 2 * STALL_S
    window.set(time.monotonic() + 60, time.monotonic() + 61)
    before = one.stalled_in_window_s
    threading.Event().wait(2 * STALL_S)
    one._round_again()
    assert one.stalled_in_window_s == before, "outside the window it spoils nothing"
