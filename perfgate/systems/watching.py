"""A watch that asks for a topic's state in a thread, whatever the system; see :class:`perfgate.model.target.Watch`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Self

from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import State


class AskingWatch(ABC):
    """Asks in a thread while the context is open; keeps every state that differs from its predecessor."""

    def __init__(self, topic: str, *, every_s: float) -> None:
        """`every_s`: the pause between two questions, in s."""
        self.topic, self._every_s = topic, every_s
        self.states: list[State] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask_again, daemon=True)

    def __enter__(self) -> Self:
        self._ask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def last(self) -> State:
        """The newest state. Raises BrokersFailedError without any, TargetError when the thread has ended."""
        if not self._thread.is_alive():
            raise TargetError(f"the brokers are no longer asked for the state of topic {self.topic}")
        if not self.states:
            reason = f"the brokers have never answered what the state of topic {self.topic} is"
            raise BrokersFailedError(reason, perhaps_late=True)
        return self.states[-1]

    @abstractmethod
    def _asked(self) -> State | None:
        """Return the state of now; None where no broker gives it."""

    def _ask_again(self) -> None:
        while not self._done.wait(self._every_s):
            self._ask()

    def _ask(self) -> None:
        state = self._asked()
        if state is not None and (not self.states or state != replace(self.states[-1], at=state.at)):
            self.states.append(state)
