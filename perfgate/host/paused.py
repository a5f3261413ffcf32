"""A change that a person makes by hand: asked for at the terminal, applied and reverted between rounds."""

from __future__ import annotations

import os
import termios
import time
from collections.abc import Iterable
from pathlib import Path

from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError, TargetError


class PausedChange:
    """Asks a person to apply and to revert a change; see :class:`perfgate.model.target.OutsideChange`."""

    rehearsals = 0

    def __init__(self, name: str, terminal: Path = Path("/dev/tty")) -> None:
        """`name`: what the change is called. Raises ConfigurationError where nobody can be asked."""
        self._name, self._applied = name, False
        try:
            self._asked, self._answers = terminal.open("w"), terminal.open()
        except OSError as error:
            raise ConfigurationError("--pause-for-change asks a person, and this run has no terminal") from error

    def fixed(self, names: Iterable[str]) -> list[str]:
        """Return nothing: what the person changes is theirs to know."""
        return []

    def change(self, values: Settings) -> float:
        """Have the change applied; return how long that took, in s. Raises TargetError when the terminal is closed."""
        self._applied = True
        return self._ask("apply")

    def still(self, values: Settings) -> float:
        """Do nothing: what was changed is not known."""
        return 0.0

    def restore(self) -> float:
        """Have the change reverted; return how long that took, in s. Raises TargetError when the terminal is closed."""
        took_s = self._ask("revert")
        self._applied = False
        return took_s

    def close(self) -> tuple[str, ...]:
        """Return what a person has to do, if the run ends while the change is applied: nobody may be there to ask."""
        for file in (self._asked, self._answers):
            file.close()
        return (f"THE CHANGE IS STILL APPLIED: revert {self._name!r} by hand",) if self._applied else ()

    def _ask(self, what: str) -> float:
        began = time.monotonic()
        try:
            if os.isatty(self._answers.fileno()):  # an Enter from before the question is no answer to it
                termios.tcflush(self._answers, termios.TCIFLUSH)
            self._asked.write(f"\n{what} {self._name!r} now, then press Enter: ")
            self._asked.flush()
            answer = self._answers.readline()
        except (OSError, termios.error) as error:
            raise TargetError(f"the terminal was closed when it asked to {what} {self._name!r}") from error
        if not answer:
            raise TargetError(f"the terminal was closed when it asked to {what} {self._name!r}")
        return time.monotonic() - began
