"""A Ctrl-C that waits for what has to be done to its end, unless that hangs."""

import signal
from collections.abc import Iterator

import pytest

from perfgate.host.session import interrupted_later


@pytest.fixture(autouse=True)
def answered() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_one_waits_and_a_second_one_does_not() -> None:
    """An engine that answers nothing held a run for minutes, and kill -9 alone ended it."""
    done = []

    @interrupted_later()
    def interrupted(times: int) -> None:
        for time in range(times):
            signal.raise_signal(signal.SIGINT)
            done.append(time)

    for times, all_done in ((1, [0]), (2, [0, 0])):
        with pytest.raises(KeyboardInterrupt):
            interrupted(times)
        assert done == all_done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
