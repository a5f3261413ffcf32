"""Processes on load hosts: Python started over OpenSSH, or here, which the run talks with by pipes.

ssh is the user's own, with its configuration, agents and jump hosts. What a host needs goes over standard input: never
by a command line or an environment, which others on the host can see. The processes end with their standard input.
"""

from __future__ import annotations

import collections
import contextlib
import json
import queue
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfgate.load import boot
from perfgate.load.hosts_file import LoadHost
from perfgate.model.errors import ConfigurationError

OPTIONS = (
    "ConnectTimeout=10",
    # A network that is gone ends ssh within 9 s.
    "ServerAliveInterval=3",
    "ServerAliveCountMax=3",
    # What the user's configuration may say of sessions at a terminal.
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    # A connection that others share is used; one that outlives this run is not made.
    "ControlMaster=no",
)
START = (
    'import sys,json;sys.version_info<(3,11) and sys.exit("Python 3.11 or newer is needed, and this is "'
    '+sys.version.split()[0]);exec(json.loads(open(0,"rb",0,closefd=False).readline()))'
)
"""What the host's Python is started with: it runs the program that the first line of its standard input holds."""
BEAT_S = 5.0
END_S = 5.0
NOT_FOUND = (126, 127)
SSH_FAILED = 255
CAUSES = {
    "Permission denied": "authentication failed",
    "Too many authentication failures": "authentication failed",
    "Host key verification failed": "its host key is not known (connect once by hand, or set UserKnownHostsFile)",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "its host key is not the one that is known",
}
"""Words of ssh, and what they mean; others: the host cannot be reached."""


def command_of(host: LoadHost) -> list[str]:
    """Return the command line that starts the host's Python."""
    if host.local:
        return [sys.executable, "-c", START]
    options = ("BatchMode=yes", *host.ssh_options, *OPTIONS)  # of two, ssh takes the first
    command = ["ssh", "-T", *(part for option in options for part in ("-o", option))]
    command += ["-p", str(host.port)] if host.port else []
    command += ["-i", str(Path(host.identity).expanduser())] if host.identity else []
    return [*command, "--", host.ssh, f"exec {shlex.quote(host.interpreter)} -c {shlex.quote(START)}"]


class HostProcess:
    """The run's end of the process on one host."""

    def __init__(self, host: LoadHost) -> None:
        """Raises ConfigurationError where there is no ssh."""
        self._host = host
        try:
            self._process = subprocess.Popen(
                command_of(host),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the run
            )
        except OSError as error:
            raise ConfigurationError(f"--hosts: {host.where}: ssh cannot be started: {error}") from error
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._words: collections.deque[str] = collections.deque(maxlen=20)
        self._telling, self._over = threading.Lock(), threading.Event()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_words)]
        for reader in self._readers:
            reader.start()
        self.tell(Path(boot.__file__).read_text() + "\nmain()\n")

    def tell(self, message: object) -> None:
        """Send one line of JSON."""
        self.send(json.dumps(message).encode() + b"\n")

    def send(self, data: bytes) -> None:
        """Send bytes as they are; a process that is gone is noticed by whoever asks it next."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError), self._telling:  # ValueError: it is closed
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def hear(self, within_s: float, doing: str) -> Mapping[str, Any]:
        """Return what the process says next. Raises ConfigurationError with the reason when that is not what it was
        asked for, or nothing for so long."""
        try:
            said = self._said.get(timeout=max(0.0, within_s))
        except queue.Empty:
            raise self.failure(f"did not answer within {within_s:.0f} s ({doing})") from None
        if said is None:
            raise self.failure(self._why())
        if said["event"] == "failed":
            raise self.failure(said["reason"])
        return said

    def failure(self, reason: str) -> ConfigurationError:
        """Return the error that says so of this host."""
        return ConfigurationError(f"--hosts: {self._host.where}: {reason}")

    def follow(self) -> None:
        """Let the process know every few seconds that the run is there, from now until its end."""
        threading.Thread(target=self._beat, daemon=True).start()

    def hang_up(self) -> None:
        """Let the process end, without waiting for it."""
        self._over.set()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._telling:
            self._process.stdin.close()

    def close(self) -> None:
        """End the process, and wait for it: for END_S, and not longer."""
        self.hang_up()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream, reader in zip((self._process.stdout, self._process.stderr), self._readers, strict=True):
            reader.join(END_S)  # one that a connection's master holds open ends later
            if stream and not reader.is_alive():
                stream.close()

    def kill(self) -> None:
        """End the process at once; whoever listens to it hears so."""
        self._over.set()
        self._process.kill()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            self.send(b"\n")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _, mark, text = line.decode(errors="replace").partition(boot.MARK)
            if mark:
                try:
                    self._said.put(json.loads(text))
                except ValueError:  # cut off: it ended while it wrote
                    break
        self._said.put(None)

    def _read_words(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._words.append(line.decode(errors="replace").strip())

    def _why(self) -> str:
        """Return why the process has ended."""
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "it closed its output and did not end"
        self._readers[1].join(END_S)
        words = [line for line in self._words if line]
        last = words[-1] if words else f"exit code {status}"
        if status in NOT_FOUND:
            return f"there is no Python at {self._host.interpreter!r} ({last}); name one by python = ..."
        if status == SSH_FAILED and not self._host.local:
            cause = next((means for text, means in CAUSES.items() if text in " ".join(words)), "cannot be reached")
            return f"{cause}: {last}"
        return f"Python ended there: {last}"
