"""Times of records that are under way: none is overwritten before its outcome is heard."""

from unittest.mock import Mock

import numpy as np
import pytest

from perfgate.load.window import Window
from perfgate.systems.kafka.load import outcomes as module
from perfgate.systems.kafka.load.clib import MESSAGE
from perfgate.systems.kafka.load.outcomes import Outcomes

UNDER_WAY = 1_000


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_a_partition_that_stands_still_keeps_its_times(partitions: int) -> None:
    """All that may be under way waits in one of three partitions: the ring came round, and its p99 was too low."""
    spec = {"partitions": partitions, "load": "paced"}
    outcomes = Outcomes(spec, 0, Window(), Mock(), UNDER_WAY)
    numbers = np.arange(partitions * UNDER_WAY, dtype=np.uint64)
    outcomes.made(numbers, numbers.astype(np.float64))
    waiting = numbers[::partitions]  # the others of each round have had their outcome
    assert (outcomes._due[waiting & outcomes._mask] == waiting).all()


def delays_ms(
    monkeypatch: pytest.MonkeyPatch, due: list[float], moment: float, *held: tuple[float, float, float]
) -> list[float]:
    """Return how late records due then and handed over at `moment` are, in ms, after nothing could be meanwhile."""
    window = Window()
    window.set(0.0, 10.0)
    outcomes = Outcomes({"partitions": 1, "load": "paced"}, 0, window, Mock(), UNDER_WAY)
    found: list[float] = []
    monkeypatch.setattr(module, "now", lambda: moment)
    monkeypatch.setattr(outcomes._schedule_delay, "record", found.extend)
    numbers = np.arange(len(due), dtype=np.uint64)
    outcomes.made(numbers, np.array(due))
    messages = np.zeros(len(due), MESSAGE)
    messages["private"] = numbers
    for one in held:
        outcomes.held(*one)
    outcomes.handed_over(messages, moment)
    return [round(1e3 * float(late), 6) for late in found]


def test_what_nothing_could_be_handed_over_for_is_no_delay_and_the_rest_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standing still until 1.2 s, a generator filled its own buffer for 20 ms: that excuses 20 ms, not all of it."""
    assert delays_ms(monkeypatch, [1.0, 1.15, 1.21, 1.3], 1.3, (1.2, 1.22, 1.0)) == [280.0, 130.0, 80.0, 0.0]


def test_a_buffer_that_fills_again_while_it_catches_up_is_full_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers_stood_still = (1.0, 1.5, 1.0), (1.51, 1.6, 1.2)
    assert delays_ms(monkeypatch, [1.1, 1.4], 1.6, *brokers_stood_still) == [0.0, 0.0]
    apart = (1.0, 1.1, 1.0), (1.5, 1.6, 1.49)
    assert delays_ms(monkeypatch, [1.2, 1.55], 1.6, *apart) == [300.0, 0.0]
