"""A wait ends with what was waited for, with the last answer, or with what a check says; so does that for a cluster."""

from collections.abc import Callable, Hashable

import pytest

from perfgate.host.waiting import HANG_S, SILENCE_S, NotYet, poll_until, wait_while_it_progresses
from perfgate.model.errors import ConfigurationError, TargetError
from tests.harness.build.clock import Clock


def answers(*given: int | Exception) -> list[int | Exception]:
    return list(reversed(given))


def ask(left: list[int | Exception]) -> int:
    answer = left.pop() if len(left) > 1 else left[0]
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_wait_ends_with_the_first_answer_that_is_ready() -> None:
    left = answers(NotYet("1 of 3"), NotYet("2 of 3"), 3, 4)
    assert poll_until("never", lambda: ask(left), within_s=60, every_s=0) == 3
    assert left == [4]


def test_a_wait_that_is_too_long_says_what_it_waited_for_and_chains_the_last_answer() -> None:
    last = OSError("connection refused")
    with pytest.raises(ConfigurationError, match=r"^no answer within 0\.01 s: connection refused$") as found:
        poll_until(
            "no answer",
            lambda: ask([last]),
            within_s=0.01,
            every_s=0.001,
            not_yet=(NotYet, OSError),
            error=ConfigurationError,
        )
    assert found.value.__cause__ is last


def test_what_is_no_answer_yet_is_not_waited_for() -> None:
    with pytest.raises(OSError, match="refused"):
        poll_until("never", lambda: ask([OSError("refused")]), within_s=60, every_s=60)


def test_a_check_ends_the_wait_at_once() -> None:
    def ended() -> None:
        raise TargetError("the process has ended")

    with pytest.raises(TargetError, match="has ended"):
        poll_until("never", lambda: ask([NotYet()]), within_s=60, every_s=60, check=ended)
    assert poll_until("never", lambda: ask([7]), within_s=60, every_s=60, check=ended) == 7


class Starting:
    """A cluster on a clock of its own: ready after `ready_s`, logs until `logs_s`, dies after `dies_s`."""

    def __init__(self, clock: Clock, *, ready_s: float, logs_s: float = 0.0, dies_s: float = 1e9) -> None:
        self._clock, self._begin = clock, clock.now
        self._ready_s, self._logs_s, self._dies_s = ready_s, logs_s, dies_s

    @property
    def s(self) -> float:
        return self._clock.now - self._begin

    def missing(self) -> str:
        return "" if self.s >= self._ready_s else "2 of 3 brokers registered"

    def logged(self) -> Hashable:
        return int(min(self.s, self._logs_s))

    def check(self) -> None:
        if self.s >= self._dies_s:
            raise TargetError("broker 2 exited with code 1")

    def wait(self, missing: Callable[[], str] | None = None) -> None:
        wait_while_it_progresses(missing or self.missing, logged=self.logged, check=self.check)


def test_brokers_that_go_on_logging_are_waited_for_beyond_the_bound_on_silence(clock: Clock) -> None:
    cluster = Starting(clock, ready_s=4 * SILENCE_S, logs_s=4 * SILENCE_S)
    cluster.wait()
    assert cluster.s == pytest.approx(4 * SILENCE_S, abs=0.2)


def test_answers_that_change_are_progress_too(clock: Clock) -> None:
    cluster = Starting(clock, ready_s=0)
    answers = [f"{n} of 3 brokers registered" for n in range(3)]
    cluster.wait(lambda: "" if cluster.s > 2.4 * SILENCE_S else answers[int(cluster.s / (0.9 * SILENCE_S))])
    assert cluster.s > 2 * SILENCE_S


def test_silence_ends_the_wait_with_the_last_answer_and_the_last_progress(clock: Clock) -> None:
    cluster = Starting(clock, ready_s=1e9, logs_s=5)
    words = r"no progress for 30 s \(last answer: 2 of 3 brokers registered; last progress: new log lines, 30 s ago\)"
    with pytest.raises(TimeoutError, match=words):
        cluster.wait()
    assert cluster.s == pytest.approx(5 + SILENCE_S, abs=1.5)


def test_brokers_that_log_for_ever_are_given_up(clock: Clock) -> None:
    cluster = Starting(clock, ready_s=1e9, logs_s=1e9)
    with pytest.raises(TimeoutError, match="after 300 s: the bound is 300 s"):
        cluster.wait()
    assert cluster.s == pytest.approx(HANG_S, abs=0.2)


def test_a_broker_that_has_ended_ends_the_wait_at_once(clock: Clock) -> None:
    cluster = Starting(clock, ready_s=1e9, logs_s=1e9, dies_s=3)
    with pytest.raises(TargetError, match="broker 2 exited with code 1"):
        cluster.wait()
    assert cluster.s == pytest.approx(3, abs=0.2)
