"""The hosts of a file: an agent on each, started over OpenSSH, or here, and led by a Dask scheduler over TLS.

ssh is the user's own, with its configuration, agents and jump hosts. All that a host needs goes over standard input,
not by command line or environment, which others on the host can see. The processes end with their standard input.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import io
import json
import platform
import queue
import re
import shlex
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask

from perfgate.load import boot
from perfgate.load.agent import fingerprint, packages
from perfgate.load.hosts import DaskTransport, dask_hosts, led_by
from perfgate.load.hosts_file import HostsFile, LoadHost
from perfgate.load.scheduler import (
    EVERYWHERE,
    LOOPBACK,
    SETTINGS,
    certificate_and_key,
    client_of,
    own_cluster,
    security,
)
from perfgate.load.transport import ROOT, WORKER
from perfgate.model.command import pip_install
from perfgate.model.errors import ConfigurationError

LOCK = Path(__file__).with_name(boot.LOCK)
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
OPTIONS = (
    "ConnectTimeout=10",
    # A network that is gone ends ssh within 9 s.
    "ServerAliveInterval=3",
    "ServerAliveCountMax=3",
    # Settings of the user's configuration that are for sessions at a terminal.
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    # A shared connection is used, but none is opened that would outlive this run.
    "ControlMaster=no",
)
START = (
    'import sys,json;sys.version_info<(3,11) and sys.exit("Python 3.11 or newer is needed, and this is "'
    '+sys.version.split()[0]);exec(json.loads(open(0,"rb",0,closefd=False).readline()))'
)
"""Code for the host's Python: it runs the program in the first line of its standard input."""
BEAT_S = 5.0
END_S = 5.0
HELLO_S = 30.0
"""For a connection and the start of Python."""
READY_S = 90.0
"""For the start of an agent on a slow host: Dask alone takes seconds to load."""
REACHED_WITHIN_S = 5.0
HERE = f"{LOOPBACK} 0 {LOOPBACK} 0"
NOT_FOUND = (126, 127)
SSH_FAILED = 255
CAUSES = {
    "Permission denied": "authentication failed",
    "Too many authentication failures": "authentication failed",
    "Host key verification failed": "its host key is not known (connect once by hand, or set UserKnownHostsFile)",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "its host key is not the one that is known",
}
"""Messages of ssh, and their meaning; others: the host cannot be reached."""


@contextlib.contextmanager
def file_hosts(
    file: HostsFile, *, worker: Sequence[str] = WORKER, say: Callable[[str], None] = lambda text: None
) -> Iterator[DaskTransport]:
    """The transport of the file's hosts; leaving the context ends all that was started for it.

    `say` is given steps that take long. Raises ConfigurationError, a line for each host that cannot be used.
    """
    if file.scheduler:
        with dask_hosts(file.scheduler, worker=worker) as transport:
            yield transport.only(file.zones.of, file.zones)
        return
    _check_packages(file)
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        keys = certificate_and_key()
        try:
            # Entered first, left last: agents end before their scheduler.
            at = LOOPBACK if file.here else EVERYWHERE
            cluster = stack.enter_context(own_cluster(keys, host=at, port=file.port or 0))
        except (OSError, RuntimeError) as error:
            raise ConfigurationError(f"--hosts={file.path}: no scheduler can be started: {error}") from error
        own_port = int(str(cluster.scheduler_address).rpartition(":")[2])
        processes = [stack.enter_context(contextlib.closing(HostProcess(host))) for host in file.hosts]
        for process in processes:  # all at once, before they are waited for in turn
            stack.callback(process.hang_up)
        addresses = _side_by_side(processes, lambda process: _started(process, (file.address, own_port), keys, say))
        client = stack.enter_context(client_of(f"tls://{LOOPBACK}:{own_port}", security(*keys)))
        yield DaskTransport(led_by(client, addresses), here=file.here, worker=worker, zones=file.zones)


def _check_packages(file: HostsFile) -> None:
    """Raise ConfigurationError where a host would be given other versions than this machine has."""
    given, here = dict(LOCKED.findall(LOCK.read_text())), packages()
    different = [name for name, version in here.items() if version != given[name]]
    if different and (hosts := [host.name for host in file.hosts if host.install]):
        there = [f"{name}=={given[name]}" for name in different]
        raise ConfigurationError(
            f"--hosts={file.path}: install = true gives {', '.join(hosts)} {', '.join(there)}, and this machine has "
            f"{', '.join(f'{name} {here[name]}' for name in different)}; install the same here: {pip_install(*there)}"
        )


def _side_by_side(processes: Sequence[HostProcess], start: Callable[[HostProcess], str]) -> dict[str, str]:
    """Results of `start` for each host, by its name. Raises ConfigurationError with the errors of all."""
    with ThreadPoolExecutor(max_workers=len(processes)) as pool:
        starting = {process.host.name: pool.submit(start, process) for process in processes}
        try:
            errors = [error for each in starting.values() if (error := each.exception()) is not None]
        except BaseException:  # Ctrl-C: no host is waited for
            for process in processes:
                process.kill()
            raise
    for error in errors:
        if not isinstance(error, ConfigurationError):
            raise error
    if errors:
        raise ConfigurationError("\n".join(map(str, errors)))
    return {name: each.result() for name, each in starting.items()}


def _started(process: HostProcess, run: tuple[str, int], keys: tuple[str, str], say: Callable[[str], None]) -> str:
    host = process.host
    process.post(
        {
            "folder": str(ROOT) if host.local else host.folder,
            "fingerprint": fingerprint(),
            "packages": packages(),
            "install": host.install,
            "python": platform.python_version(),
            "key": _key() if host.install else "",
            "pip_options": list(host.pip_options),
        }
    )
    hello = process.hear(HELLO_S, "starting Python")
    # From sshd: the run's address as the host sees it, and the host's own.
    run_host, _, own, _ = (hello["ssh"] or HERE).split() if host.ssh else HERE.split()
    message = process.hear(READY_S, "checking its version")
    if message["event"] == "send":
        say(f"installing on load host {host.name}")
        archive = _archive()
        process.post({"bytes": len(archive)})
        process.send(archive)
        process.hear(boot.INSTALL_S * 2, "installing")
        process.hear(READY_S, "starting what was installed")
    address, port = run
    process.post(
        {
            "scheduler": [(host.ssh and address) or run_host, port],
            "name": host.name,
            "address": host.address or own,
            "certificate": keys[0],
            "key": keys[1],
        }
    )
    process.follow()
    agent = str(process.hear(READY_S, "starting its agent")["address"])
    at, _, its_port = agent.removeprefix("tls://").rpartition(":")
    try:
        socket.create_connection((at.strip("[]"), int(its_port)), timeout=REACHED_WITHIN_S).close()
    except OSError as error:
        raise process.failure(
            f"the run cannot reach its agent at {at}, port {its_port}: {error}; the run and its hosts must reach one "
            "another, or state its address = ..."
        ) from error
    return agent


def _key() -> str:
    return hashlib.sha256(fingerprint().encode() + LOCK.read_bytes()).hexdigest()[:16]


def _archive() -> bytes:
    """Archive for a host: the package, and the lock of its requirements."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        sources = [path for kind in ("*.py", "*.c") for path in sorted((ROOT / "perfgate").rglob(kind))]
        for path in [*sources, LOCK]:
            files.add(path, arcname=str(path.relative_to(ROOT)))
    return packed.getvalue()


def command_of(host: LoadHost) -> list[str]:
    if host.local:
        return [sys.executable, "-c", START]
    options = ("BatchMode=yes", *host.ssh_options, *OPTIONS)  # of two, ssh takes the first
    command = ["ssh", "-T", *(part for option in options for part in ("-o", option))]
    command += ["-p", str(host.port)] if host.port else []
    command += ["-i", str(Path(host.identity).expanduser())] if host.identity else []
    return [*command, "--", host.ssh, f"exec {shlex.quote(host.interpreter)} -c {shlex.quote(START)}"]


class HostProcess:
    """The run's side of the process on a host."""

    def __init__(self, host: LoadHost) -> None:
        """Raises ConfigurationError where there is no ssh."""
        self.host = host
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
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._words: collections.deque[str] = collections.deque(maxlen=20)
        self._writing, self._over = threading.Lock(), threading.Event()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_words)]
        for reader in self._readers:
            reader.start()
        self.post(Path(boot.__file__).read_text() + "\nmain()\n")

    def post(self, message: object) -> None:
        self.send(json.dumps(message).encode() + b"\n")

    def send(self, data: bytes) -> None:
        """Send bytes; a process that is gone is noticed when its next message is awaited."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError), self._writing:  # ValueError: it is closed
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def hear(self, within_s: float, doing: str) -> Mapping[str, Any]:
        """Its next message. Raises ConfigurationError when it has failed, ended, or is silent for this time."""
        try:
            message = self._messages.get(timeout=max(0.0, within_s))
        except queue.Empty:
            raise self.failure(f"did not answer within {within_s:.0f} s ({doing})") from None
        if message is None:
            raise self.failure(self._why())
        if message["event"] == "failed":
            raise self.failure(message["reason"])
        return message

    def failure(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"--hosts: {self.host.where}: {reason}")

    def follow(self) -> None:
        """Let the process know every few seconds that the run is there, from now until its end."""
        threading.Thread(target=self._beat, daemon=True).start()

    def hang_up(self) -> None:
        """Let the process end, without waiting for it."""
        self._over.set()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._writing:
            self._process.stdin.close()

    def close(self) -> None:
        """End the process, and wait for END_S at most for it."""
        self.hang_up()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream, reader in zip((self._process.stdout, self._process.stderr), self._readers, strict=True):
            reader.join(END_S)  # a stream that a connection's master holds open ends later
            if stream and not reader.is_alive():
                stream.close()

    def kill(self) -> None:
        """End the process at once; a thread that waits for its next message gets its end."""
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
                    self._messages.put(json.loads(text))
                except ValueError:  # cut off: it ended while it wrote
                    break
        self._messages.put(None)

    def _read_words(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._words.append(line.decode(errors="replace").strip())

    def _why(self) -> str:
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "it closed its output and did not end"
        self._readers[1].join(END_S)
        words = [line for line in self._words if line]
        last = words[-1] if words else f"exit code {status}"
        if status in NOT_FOUND:
            return f"there is no Python at {self.host.interpreter!r} ({last}); name one by python = ..."
        if status == SSH_FAILED and not self.host.local:
            cause = next((means for text, means in CAUSES.items() if text in " ".join(words)), "cannot be reached")
            return f"{cause}: {last}"
        return f"Python ended there: {last}"
