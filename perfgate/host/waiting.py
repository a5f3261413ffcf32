"""Waiting for something to be ready: asked for again and again, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TypeVar

from perfgate.model.errors import TargetError

Ready = TypeVar("Ready")
SILENCE_S = 30.0
"""Brokers that log nothing new and answer nothing new for this long have stopped starting. The longest pause of six
nodes in their first two minutes was 8 s, with 40 % of two cores that others used too."""
HANG_S = 300.0
"""Brokers that log but never become ready are given up after this time. Three of them take 6 s on a quiet machine of
two cores and 13.5 s on a slower one; with three controllers the latter took more than 30."""
LOOK_AT_LOGS_EVERY_S = 1.0
ASK_EVERY_S = 0.1


class NotYet(Exception):
    """What is waited for is not ready; the message says what is missing."""


def poll_until(
    failure: str,
    ask: Callable[[], Ready],
    *,
    within_s: float,
    every_s: float,
    not_yet: tuple[type[Exception], ...] = (NotYet,),
    check: Callable[[], object] = lambda: None,
    error: Callable[[str], Exception] = TargetError,
) -> Ready:
    """Return what `ask` returns once it raises none of `not_yet`.

    After `within_s` raises `error`, made of the `failure` in words and the last answer, which is its cause. `check` is
    called after each answer that is not yet the right one: what it raises ends the wait.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except not_yet as last:
            check()
            if time.monotonic() > deadline:
                raise error(f"{failure} within {within_s:g} s: {last}") from last
        time.sleep(every_s)


def wait_while_it_progresses(
    missing: Callable[[], str],
    *,
    logged: Callable[[], Hashable],
    check: Callable[[], None],
    silence_s: float = SILENCE_S,
    hang_s: float = HANG_S,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until nothing is `missing` any more (it returns what is, in words).

    Another answer and a log that grew are progress. Raises TimeoutError with the last of it after `silence_s` without
    any, or `hang_s` in all; and whatever `check` raises, at once.
    """
    begin = progressed = looked = now()
    seen, answer, progress = logged(), "no answer yet", "none"
    while True:
        check()
        found = missing()
        if not found:
            return
        if found != answer:
            answer, progressed, progress = found, now(), "another answer"
        if now() - looked >= LOOK_AT_LOGS_EVERY_S:
            looked, latest = now(), logged()
            if latest != seen:
                seen, progressed, progress = latest, now(), "new log lines"
        waited, silent = now() - begin, now() - progressed
        if silent >= silence_s or waited >= hang_s:
            bound = f"no progress for {silent:.0f} s" if silent >= silence_s else f"the bound is {hang_s:.0f} s"
            raise TimeoutError(
                f"after {waited:.0f} s: {bound} (last answer: {answer}; last progress: {progress}, {silent:.0f} s ago)"
            )
        pause(ASK_EVERY_S)
