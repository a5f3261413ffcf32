"""Signals that would break off what has to be done to its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Have a Ctrl-C, or another signal that is answered by a KeyboardInterrupt, wait until the context ends.

    Signals that are answered by words are so at once, and a second interruption is let through: what is waited for may
    hang. Where none is heard (in a thread) there is none to wait.
    """
    came: list[KeyboardInterrupt] = []

    def later(handler: Handler) -> Handler:
        def answer(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except KeyboardInterrupt as interrupt:
                came.append(interrupt)
                if len(came) > 1:
                    raise

        return answer

    before: dict[signal.Signals, Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, later(handler))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            raise came[0]
