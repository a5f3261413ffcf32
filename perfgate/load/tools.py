"""Processes of a system's official tools, each with its output in a file, and observation of the run meanwhile."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties
import psutil

from perfgate.host.guard import Guard
from perfgate.host.machine_use import Usage
from perfgate.model import Link, Load, Settings
from perfgate.model.load import LoadError, LoadResult, Observer, Received, Sent
from perfgate.model.secret import redacted

ENGLISH = ("-Duser.language=en", "-Duser.country=US")
"""The tools write numbers as the user's locale does, and are read with a decimal point."""
START_TIMEOUT_S = 30
LAST_WORDS = 5
LOOK_EVERY_S = 0.1


NUMBER = r"(-?[\d.]+(?:[eE][-+]?\d+)?|NaN)"
"""A number in a tool's output, for :func:`finite`."""


class OutputError(LoadError):
    """A tool's output is not that of a finished run; the message says why."""


class EndedError(LoadError):
    """A tool ended before the awaited event."""


@dataclass
class Tools:
    guard: Guard
    observer: Observer
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="kafka-perf-gate-")))
    pids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guard.owns(self.folder)

    def start(self, command: Sequence[object]) -> None:
        self.pids.append(self.guard.spawn(command, log=self._log(len(self.pids))))

    def outputs(self) -> list[str]:
        return [self._log(number).read_text(errors="replace") for number in range(len(self.pids))]

    def running(self) -> bool:
        """Whether all of them run."""
        return all(self.guard.exit_status(pid) is None for pid in self.pids)

    def ended(self) -> bool:
        """Whether all of them have ended."""
        return all(self.guard.exit_status(pid) is not None for pid in self.pids)

    def ended_well(self) -> bool:
        """Whether each has ended with exit code 0, or runs still."""
        return not any(self.guard.exit_status(pid) for pid in self.pids)

    def edge(self, usage: Usage) -> None:
        """Observe an edge of the window, and read the tools' CPU."""
        self.observer.edge(time.monotonic())
        try:
            usage.look()
        except psutil.Error as error:
            raise LoadError(f"an official tool was gone when its CPU was read: {error}") from error

    def let_pass(self, seconds: float, phase: str) -> bool:
        """Let time pass; return False as soon as a tool has ended."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            self.observer.check()
            self.observer.progress(phase, None)
            if not self.running():
                return False
            time.sleep(min(LOOK_EVERY_S, until - now))
        return self.running()

    def wait_for(
        self,
        come: Callable[[], bool],
        phase: str,
        *,
        bound_s: float = START_TIMEOUT_S,
        every_s: float = LOOK_EVERY_S,
        alive: bool = True,
    ) -> None:
        """Wait until `come` is true. Raises LoadError, with the tools' last words, when it is late or they end."""
        until = time.monotonic() + bound_s
        while not come():
            self.observer.check()
            self.observer.progress(phase, None)
            ended = alive and not self.running()
            if ended or time.monotonic() > until:
                words = "\n".join(text for output in self.outputs() for text in output.splitlines()[-LAST_WORDS:])
                how = "ended while" if ended else f"did not get through in {bound_s:.0f} s:"
                raise (EndedError if ended else LoadError)(f"the official tool {how} {phase}:\n{redacted(words)}")
            time.sleep(every_s)

    def _log(self, number: int) -> Path:
        return self.folder / f"tool-{number}.log"


class ToolDriver:
    """Base of the drivers of official tools; see :class:`perfgate.model.load.Driver`."""

    takes_turns = False

    def latency_basis(self, load: Load) -> str:
        return "actual-send" if load.sends else "none"

    def rtt_ms(self, link: Link, bootstrap: str, security: Settings) -> None:
        """None: the tools run on this machine."""


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file that this user alone may read; values may have any characters."""
    path.touch(mode=0o600)
    path.write_text(javaproperties.dumps(settings, timestamp=None), encoding="ascii")


def finite(text: str, line: str, *, tool: str) -> float:
    """A NUMBER of this line. Raises OutputError for NaN."""
    value = float(text)
    if not math.isfinite(value):
        raise OutputError(f"{tool} gave no number: {line!r}")
    return value


def received_of(read: int, *, in_window: float, bytes_in_window: float) -> Received:
    """The result of tools that read this number of records, and check none of them."""
    return Received(
        received_in_window=round(in_window),
        received_bytes_in_window=round(bytes_in_window),
        read=read,
        received=read,
        foreign=0,
        corrupt=0,
        duplicated=0,
        reordered=0,
        redelivered=0,
        negative_latencies=0,
        errors={},
        failed={},
        fetch_ms=None,
    )


def result_of(
    usage: Usage, started: float, opened: float, closed: float, *, sent: Sent | None, received: Received | None
) -> LoadResult:
    """The result of tools from `started` on, measured from `opened` to `closed` (s), when `usage` was read."""
    return LoadResult(
        warmup_s=opened - started,
        steady=True,
        window_s=closed - opened,
        **usage.span(),
        hosts=(),
        one_clock=False,
        beside=(),
        sent=sent,
        received=received,
        lag=None,
    )
