"""The processes of the official tools, and what they print while they run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.model.load import LoadError
from perfgate.systems.kafka.load.official import (
    OutputError,
    ReadSoFar,
    parse_consumer,
)

LAST_WORDS = 5


@dataclass
class Tools:
    """Some processes of one official tool, each with its output in a file."""

    guard: Guard
    folder: Path
    pids: list[int] = field(default_factory=list)

    def start(self, command: Sequence[object]) -> None:
        """Start one more."""
        self.pids.append(self.guard.spawn(command, log=self._log(len(self.pids))))

    def outputs(self) -> list[str]:
        """Return what each has said so far."""
        return [self._log(number).read_text(errors="replace") for number in range(len(self.pids))]

    def running(self) -> bool:
        """Return whether all of them are."""
        return all(self.guard.exit_status(pid) is None for pid in self.pids)

    def ended(self) -> bool:
        """Return whether all of them have ended."""
        return all(self.guard.exit_status(pid) is not None for pid in self.pids)

    def ended_well(self) -> bool:
        """Return whether each has ended with exit code 0, or runs still."""
        return not any(self.guard.exit_status(pid) for pid in self.pids)

    def _log(self, number: int) -> Path:
        return self.folder / f"tool-{number}.log"


def tools_of(guard: Guard) -> Tools:
    """Return no tools yet, and a folder for them that goes with the guard."""
    folder = Path(tempfile.mkdtemp(prefix="kafka-perf-gate-"))
    guard.owns(folder)
    return Tools(guard, folder)


def read_so_far(tools: Tools) -> list[list[ReadSoFar]]:
    try:
        return [parse_consumer(text) for text in tools.outputs()]
    except OutputError as error:
        raise LoadError(str(error)) from error
