"""Waiting for something to be ready: asked for again and again, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from perfgate.model.errors import TargetError

Ready = TypeVar("Ready")


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
