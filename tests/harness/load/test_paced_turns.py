"""Turns of a paced load: what falls due just before a turn closes goes out, however late the machine wakes a thread."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from perfgate.load.schedule import Window, now
from tests.harness.build.transactions import TRANSACTED, brokers, request, sender

GAP_S = 2.0
"""A machine that does not let a thread run for longer loses a whole turn, which is no matter of the last record."""
TURNS = [[at, at + 0.1, at + 0.4] for at in (0.0, 0.4 + GAP_S, 0.8 + 2 * GAP_S)]


@pytest.mark.parametrize("late_s", [0.0, 0.012])
def test_no_record_of_a_turn_is_given_up_because_its_thread_was_woken_late(
    late_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 records/s, one every 3.3 ms."""
    window = Window()
    with brokers(1) as addresses:
        told = request(replace(TRANSACTED, transaction_ms=0), addresses)
        one = sender({**told, "turns": TURNS, "gap_s": GAP_S}, 0, window)
        one.connect()
        wait: Callable[[float], object] = one.client.wait

        def woken_late(seconds: float) -> None:
            wait(seconds)
            time.sleep(late_s)

        monkeypatch.setattr(one.client, "wait", woken_late)
        one.run(now())
    found = one.result()
    assert found["unsent"] == 0
    assert found["acked"] == found["attempted"] == pytest.approx(3 * 0.4 * 300, abs=3)
