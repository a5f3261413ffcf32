"""A wait ends with what was waited for, with the last answer, or with what a check says."""

import pytest

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model.errors import ConfigurationError, TargetError


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
