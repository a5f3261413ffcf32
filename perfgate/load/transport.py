"""The seam between a run and its generator processes: what starts one, talks with it and ends it, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from perfgate.model import Link
from perfgate.model.hosts import MachineUse, TimeService

Message = Mapping[str, Any]
Heard = Callable[[str, Message | None], None]
"""Takes the name of a process and what it says, from any thread; None: it says no more."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """The clock of a load host against the run's own; all in s.

    It is `ahead_s` give or take `bound_s`. What was translated from one to the other, was by `used_s`, which was wrong
    by `off_by_s` at most. `stepped_s`: it has moved by so much since the start, at once. `service`: what keeps the
    host's wall clock says of that one; None: nothing does, or nobody can tell.
    """

    host: str
    ahead_s: float
    bound_s: float
    used_s: float
    off_by_s: float
    stepped_s: float = 0.0
    service: TimeService | None = None


class Channel(Protocol):
    """One generator process. All moments in its messages are on the run's own monotonic clock."""

    def tell(self, message: Mapping[str, object]) -> None:
        """Send one message; a process that is gone is noticed by whoever listens next."""

    def kill(self) -> None:
        """End the process without waiting for it."""

    def end(self) -> None:
        """Wait for the end of the killed process and give back what it held."""

    def obituary(self) -> str:
        """Return how the process ended, with its last words."""


class Transport(Protocol):
    """Starts generator processes."""

    lead_s: float
    """A moment so far ahead reaches every process before it comes."""
    here: bool
    """Whether all processes are on the machine of the run."""
    size: int
    """How many hosts there are; so many processes of one role are on a host each."""

    def on(self, link: Link) -> Transport:
        """Return what starts the processes of clients on this link: in the zone that it comes from."""

    def first(self, count: int) -> Transport:
        """Return what starts processes on the first so many hosts alone."""

    def cannot(self, link: Link) -> str | None:
        """Return why no process can be on this link; None when one can."""

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard) -> Mapping[str, Channel]:
        """Start a process for each spec, by name. Raises LoadError; nothing that was started is left then."""

    def clocks(self, at: float) -> Mapping[str, HostClock]:
        """Return the host of each process started last, with its clock at a moment since; empty: none but this one.

        `at` in s on the run's monotonic clock. Raises LoadError.
        """

    def machines(self) -> Mapping[str, MachineUse]:
        """Return what each load host's machine did in the window, by the host's name; after its end. Raises LoadError.

        Empty: nobody but this machine.
        """

    def collect(self, folder: Path) -> None:
        """Have all that the processes started last have written down so far (`history` of a spec) in this folder.

        Times are on the run's own clock there. Raises LoadError, with the host, when something of it is not to be had.
        """
