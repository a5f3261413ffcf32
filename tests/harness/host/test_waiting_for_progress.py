"""How long a starting cluster is waited for, on a clock that only the test moves."""

from collections.abc import Callable, Hashable

import pytest

from perfgate.host.waiting import HANG_S, SILENCE_S, wait_while_it_progresses
from perfgate.model.errors import TargetError


class Starting:
    """A cluster that is ready after `ready_s`, logs until `logs_s` and has a broker that dies after `dies_s`."""

    def __init__(self, *, ready_s: float, logs_s: float = 0.0, dies_s: float = 1e9) -> None:
        self.s = 0.0
        self._ready_s, self._logs_s, self._dies_s = ready_s, logs_s, dies_s

    def missing(self) -> str:
        return "" if self.s >= self._ready_s else "2 of 3 brokers registered"

    def logged(self) -> Hashable:
        return int(min(self.s, self._logs_s))

    def check(self) -> None:
        if self.s >= self._dies_s:
            raise TargetError("broker 2 exited with code 1")

    def pause(self, seconds: float) -> None:
        self.s += seconds

    def wait(self, missing: Callable[[], str] | None = None) -> None:
        wait_while_it_progresses(
            missing or self.missing, logged=self.logged, check=self.check, now=lambda: self.s, pause=self.pause
        )


def test_brokers_that_go_on_logging_are_waited_for_beyond_the_bound_on_silence() -> None:
    cluster = Starting(ready_s=4 * SILENCE_S, logs_s=4 * SILENCE_S)
    cluster.wait()
    assert cluster.s == pytest.approx(4 * SILENCE_S, abs=0.2)


def test_answers_that_change_are_progress_too() -> None:
    cluster = Starting(ready_s=0)
    answers = [f"{n} of 3 brokers registered" for n in range(3)]
    cluster.wait(lambda: "" if cluster.s > 2.4 * SILENCE_S else answers[int(cluster.s / (0.9 * SILENCE_S))])
    assert cluster.s > 2 * SILENCE_S


def test_silence_ends_the_wait_with_the_last_answer_and_the_last_progress() -> None:
    cluster = Starting(ready_s=1e9, logs_s=5)
    words = r"no progress for 30 s \(last answer: 2 of 3 brokers registered; last progress: new log lines, 30 s ago\)"
    with pytest.raises(TimeoutError, match=words):
        cluster.wait()
    assert cluster.s == pytest.approx(5 + SILENCE_S, abs=1.5)


def test_brokers_that_log_for_ever_are_given_up() -> None:
    cluster = Starting(ready_s=1e9, logs_s=1e9)
    with pytest.raises(TimeoutError, match="after 300 s: the bound is 300 s"):
        cluster.wait()
    assert cluster.s == pytest.approx(HANG_S, abs=0.2)


def test_a_broker_that_has_ended_ends_the_wait_at_once() -> None:
    cluster = Starting(ready_s=1e9, logs_s=1e9, dies_s=3)
    with pytest.raises(TargetError, match="broker 2 exited with code 1"):
        cluster.wait()
    assert cluster.s == pytest.approx(3, abs=0.2)
