"""The seam between a run and its generator processes, and the transport of this host: processes on pipes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from perfgate.model import Link
from perfgate.model.load import LoadError
from perfgate.model.measured import MachineUse, TimeService

Message = Mapping[str, Any]
Heard = Callable[[str, Message | None], None]
"""Takes the name of a process and its message, from any thread; None: the end of its messages."""
ROOT = Path(__file__).parents[2]
WORKER = ("-m", "perfgate.load.worker")
"""Python's arguments for a generator process."""
LEAD_S = 0.05
LAST_WORDS = 10
LONGEST_LINE = 200
END_S = 3.0
"""A process that has closed its output ends at once, or not by itself; an agent's answer must not take ANSWER_S."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """The clock of a load host against the run's own, all in s: it is `ahead_s` give or take `bound_s`.

    Moments were translated by `used_s`, wrong by `off_by_s` at most; it stepped by `stepped_s` since the start.
    """

    host: str
    ahead_s: float
    bound_s: float
    used_s: float
    off_by_s: float
    stepped_s: float = 0.0
    service: TimeService | None = None
    """State of its wall clock; None: not known."""


class Channel(Protocol):
    """One generator process. All moments in its messages are on the run's own monotonic clock."""

    def post(self, message: Mapping[str, object]) -> None:
        """Send a message; a process that is gone is noticed by the end of its messages."""

    def kill(self) -> None:
        """End the process without waiting for it."""

    def end(self) -> None:
        """Wait for the end of the killed process and release its resources."""

    def obituary(self) -> str:
        """How the process ended, with its last words."""


class Transport(Protocol):
    """Starts generator processes."""

    lead_s: float
    """Lead time by which a message about a moment reaches every process before it."""
    here: bool
    """Whether all processes are on the machine of the run."""
    size: int
    """Number of hosts; as many processes of a role are on a host each."""

    def on(self, link: Link) -> Transport:
        """The transport of clients on this link: hosts in the zone that it comes from."""

    def first(self, count: int) -> Transport:
        """The transport of the first `count` hosts alone."""

    def cannot(self, link: Link) -> str | None:
        """The reason why no process can be on this link; None when some can."""

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard) -> Mapping[str, Channel]:
        """Start a process for each spec, by name. Raises LoadError; nothing that was started is left then."""

    def clocks(self, at: float) -> Mapping[str, HostClock]:
        """Clock at a moment since (s) of each process started last; empty: all on this machine. Raises LoadError."""

    def machines(self) -> Mapping[str, MachineUse]:
        """Use of each load host's machine in the window, by name; empty: all on this machine. Raises LoadError."""

    def collect(self, folder: Path) -> None:
        """Copy the journals so far (`history` of a spec), in the run's time, to this folder. Raises LoadError."""


class LocalProcess:
    """See :class:`perfgate.load.transport.Channel`."""

    def __init__(
        self, name: str, spec: Mapping[str, object], heard: Heard, worker: Sequence[str], end_s: float = END_S
    ) -> None:
        """`end_s`: how long the end of a process that has closed its output is waited for."""
        self._name, self._heard, self._end_s = name, heard, end_s
        self._stderr: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in end
        self._no_message = ""
        """A whole line of its output that is no message."""
        self._writing = threading.Lock()
        try:
            self._process = subprocess.Popen(
                [sys.executable, *worker],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C is for the run
            )
        except OSError:
            self._stderr.close()
            raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:  # no further thread can be started
            self._process.kill()
            self._process.wait()
            self._close()
            raise OSError(error) from error
        self.post(spec)

    def post(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError), self._writing:  # ValueError: it is closed
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self._process.wait()
        self._reader.join()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def obituary(self) -> str:
        how = self._how_it_ended()
        self._stderr.seek(0)
        tail = "\n".join(self._stderr.read().splitlines()[-LAST_WORDS:])
        return f"the generator process {self._name} {how} before its result" + (f":\n{tail}" if tail else "")

    def _how_it_ended(self) -> str:
        try:
            status = self._process.wait(self._end_s)
        except subprocess.TimeoutExpired:
            return "closed its output, and did not end,"
        if self._no_message:
            return f"was ended: it wrote {self._no_message!r}, which is no message,"
        return f"was killed by signal {-status}" if status < 0 else f"exited with code {status}"

    def _read(self) -> None:
        """Pass on each message, then the end; a line that is no message ends them, too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = message_of(line)
            if message is None:
                if line.endswith("\n"):  # not cut by its end: its other output cannot be trusted either
                    self._no_message = line.strip()[:LONGEST_LINE]
                    self._process.kill()
                break
            self._heard(self._name, message)
        self._heard(self._name, None)


def message_of(line: str) -> Message | None:
    """The message in a line of a process's output; None for any other line, or a part of a line."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "event" in message else None


def summed(results: Sequence[Message]) -> dict[str, Any]:
    """Sums of clients' or processes' numbers and lists of numbers; of errors, the first words of each kind."""
    total: dict[str, Any] = {}
    for result in results:
        for name, value in result.items():
            if name == "errors":
                total[name] = {**value, **total.get(name, {})}
            elif isinstance(value, list):
                total[name] = [a + b for a, b in zip(total.get(name, [0] * len(value)), value, strict=True)]
            elif name == "failed":
                total[name] = dict(Counter(total.get(name, {})) + Counter(value))
            elif not isinstance(value, str):
                total[name] = total.get(name, 0) + value
    return total


class LocalTransport:
    """See :class:`perfgate.load.transport.Transport`."""

    lead_s = LEAD_S
    here, size = True, 1

    def __init__(self, worker: Sequence[str] = WORKER, end_s: float = END_S) -> None:
        """`worker`: what Python is started with; `end_s`: of :class:`LocalProcess`."""
        self._worker, self._end_s = worker, end_s

    def on(self, link: Link) -> LocalTransport:
        return self

    def first(self, count: int) -> LocalTransport:
        return self

    def cannot(self, link: Link) -> str | None:
        return None

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard) -> dict[str, LocalProcess]:
        started: dict[str, LocalProcess] = {}
        try:
            for name, spec in specs.items():
                started[name] = LocalProcess(name, spec, heard, self._worker, self._end_s)
        except BaseException as error:
            ended(started)
            if isinstance(error, OSError):  # a full disk has no room for their standard error
                raise LoadError(f"its generators cannot be started: {error}") from error
            raise
        return started

    def clocks(self, at: float) -> dict[str, HostClock]:
        return {}

    def machines(self) -> dict[str, MachineUse]:
        return {}

    def collect(self, folder: Path) -> None:
        """Do nothing: the processes write there themselves."""


def ended(processes: Mapping[str, LocalProcess]) -> None:
    for process in processes.values():
        process.kill()
    for process in processes.values():
        process.end()
