"""The transport of this host: generator processes that hang on pipes of this one."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from perfgate.load.transport import Heard, HostClock, Message
from perfgate.model import Link
from perfgate.model.hosts import MachineUse
from perfgate.model.load import LoadError

ROOT = Path(__file__).parents[2]
WORKER = ("-m", "perfgate.systems.kafka.load.worker")
"""What Python is started with for a generator process."""
LEAD_S = 0.05
LAST_WORDS = 10
LONGEST_STRANGE = 200
END_S = 3.0
"""A process that has closed its output ends at once, or not by itself; an agent's answer must not take ANSWER_S."""


class LocalProcess:
    """See :class:`perfgate.load.transport.Channel`."""

    def __init__(self, name: str, spec: Mapping[str, object], heard: Heard, worker: Sequence[str]) -> None:
        self._name, self._heard = name, heard
        self._stderr: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in end
        self._strange = ""
        """A whole line of its output that is no message."""
        self._telling = threading.Lock()
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
        self._reader = threading.Thread(target=self._read, daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:  # no thread is left to be had
            self._process.kill()
            self._process.wait()
            self._close()
            raise OSError(error) from error
        self.tell(spec)

    def tell(self, message: Mapping[str, object]) -> None:
        """Send one message; a generator that is gone is noticed by whoever listens next."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError), self._telling:  # ValueError: it is closed
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End the process without waiting for it."""
        self._process.kill()

    def end(self) -> None:
        """Wait for the end of the killed process and give its pipes back."""
        self._process.wait()
        self._reader.join()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def obituary(self) -> str:
        """Return how the process ended, with its last words."""
        how = self._how_it_ended()
        self._stderr.seek(0)
        tail = "\n".join(self._stderr.read().splitlines()[-LAST_WORDS:])
        return f"the generator process {self._name} {how} before its result" + (f":\n{tail}" if tail else "")

    def _how_it_ended(self) -> str:
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "closed its output, and did not end,"
        if self._strange:
            return f"was ended: it wrote {self._strange!r}, which is no message,"
        return f"was killed by signal {-status}" if status < 0 else f"exited with code {status}"

    def _read(self) -> None:
        """Pass on each message, and then the end, which a line that is no message is too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = message_of(line)
            if message is None:
                if line.endswith("\n"):  # not cut by its end: what else it writes cannot be trusted either
                    self._strange = line.strip()[:LONGEST_STRANGE]
                    self._process.kill()
                break
            self._heard(self._name, message)
        self._heard(self._name, None)


def message_of(line: str) -> Message | None:
    """Return the message that a line of a process' output is; None for any other line, as one that was cut off."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "event" in message else None


class LocalTransport:
    """See :class:`perfgate.load.transport.Transport`."""

    lead_s = LEAD_S
    here, size = True, 1

    def __init__(self, worker: Sequence[str] = WORKER) -> None:
        """`worker`: the arguments that Python is started with."""
        self._worker = worker

    def on(self, link: Link) -> LocalTransport:
        """Return itself: another zone is a proxy's doing."""
        return self

    def first(self, count: int) -> LocalTransport:
        """Return itself: there is but this host."""
        return self

    def cannot(self, link: Link) -> str | None:
        """Return None."""
        return None

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard) -> dict[str, LocalProcess]:
        """Start a process for each spec, by name. Raises LoadError; nothing that was started is left then."""
        started: dict[str, LocalProcess] = {}
        try:
            for name, spec in specs.items():
                started[name] = LocalProcess(name, spec, heard, self._worker)
        except OSError as error:  # a full disk has no room for what they say on their standard error
            ended(started)
            raise LoadError(f"its generators cannot be started: {error}") from error
        except BaseException:
            ended(started)
            raise
        return started

    def clocks(self, at: float) -> dict[str, HostClock]:
        """Return no host: there is but the one clock."""
        return {}

    def machines(self) -> dict[str, MachineUse]:
        """Return no host."""
        return {}

    def collect(self, folder: Path) -> None:
        """Do nothing: the processes write there themselves."""


def ended(processes: Mapping[str, LocalProcess]) -> None:
    """End all of these processes."""
    for process in processes.values():
        process.kill()
    for process in processes.values():
        process.end()
