"""The hosts of a file: an agent on each, led by a Dask scheduler of the run's own over TLS, or by a running one."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import platform
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
from distributed import LocalCluster

from perfgate.load.agent import Agent, fingerprint, packages
from perfgate.load.boot import INSTALL_S, LOCK
from perfgate.load.hosts import LEAD_S, SETTINGS, DaskTransport, client_of, dask_hosts, led_by
from perfgate.load.hosts_file import HostsFile, LoadHost
from perfgate.load.local import ROOT, WORKER
from perfgate.load.ssh import HostProcess
from perfgate.load.tls import certificate_and_key, security
from perfgate.load.transport import Channel, Heard, HostClock
from perfgate.load.zones import Zones
from perfgate.model import Link
from perfgate.model.errors import ConfigurationError
from perfgate.model.hosts import MachineUse

HELLO_S = 30.0
"""So long a connection and the start of Python may take."""
READY_S = 90.0
"""So long an agent may take to start on a slow host: Dask alone takes seconds to load."""
REACHED_WITHIN_S = 5.0
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - nobody without the run's key is let in
HERE = f"{LOOPBACK} 0 {LOOPBACK} 0"


class ZonedTransport:
    """See :class:`perfgate.load.transport.Transport`: clients go to the hosts that have their link."""

    lead_s = LEAD_S

    def __init__(self, every: DaskTransport, zones: Zones) -> None:
        """`every`: of all hosts."""
        self.here, self.size, self._every, self._zones = every.here, every.size, every, zones

    @property
    def names(self) -> list[str]:
        """What all hosts are called, in their order."""
        return self._every.names

    def on(self, link: Link) -> DaskTransport:
        """Return what starts processes on the hosts that have this link."""
        return self._every.only(self._zones.hosts(link))

    def first(self, count: int) -> DaskTransport:
        """Return what starts processes on the first so many of all hosts."""
        return self._every.first(count)

    def cannot(self, link: Link) -> str | None:
        """Return why no host has this link; None when one does."""
        return self._zones.cannot(link)

    def start(self, specs: Mapping[str, Mapping[str, object]], heard: Heard) -> Mapping[str, Channel]:
        """Start the processes on all hosts."""
        return self._every.start(specs, heard)

    def clocks(self, at: float) -> Mapping[str, HostClock]:
        """Return the clocks of all hosts."""
        return self._every.clocks(at)

    def machines(self) -> Mapping[str, MachineUse]:
        """Return what all hosts' machines did."""
        return self._every.machines()

    def collect(self, folder: Path) -> None:
        """Have what the processes on all hosts have written down in this folder."""
        self._every.collect(folder)


@contextlib.contextmanager
def file_hosts(
    file: HostsFile,
    *,
    worker: Sequence[str] = WORKER,
    agents: Sequence[type[Agent]] = (Agent,),
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[ZonedTransport]:
    """Yield the transport of the file's hosts, and end all that was started for it.

    `worker`, `agents`: see :func:`perfgate.load.hosts.dask_hosts`; `say`: told of what takes long. Raises
    ConfigurationError, a line for each host that cannot be had.
    """
    if file.scheduler:
        with dask_hosts(file.scheduler, worker=worker, agents=agents) as transport:
            yield ZonedTransport(transport.only(file.zones.of), file.zones)
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        keys = certificate_and_key()
        # Entered first, left last: agents end before their scheduler.
        cluster = stack.enter_context(_scheduler(file, *keys))
        own_port = int(str(cluster.scheduler_address).rpartition(":")[2])
        processes = [stack.enter_context(contextlib.closing(HostProcess(host))) for host in file.hosts]
        for process in processes:  # side by side, before one after the other is waited for
            stack.callback(process.hang_up)

        def start(host: LoadHost, process: HostProcess) -> str:
            return _started(host, process, (file.address, own_port), keys, say)

        addresses = _side_by_side(start, file.hosts, processes)
        client = stack.enter_context(client_of(f"tls://{LOOPBACK}:{own_port}", security(*keys)))
        yield ZonedTransport(led_by(client, addresses, agents, here=file.here, worker=worker), file.zones)


def _side_by_side(
    start: Callable[[LoadHost, HostProcess], str], hosts: Sequence[LoadHost], processes: Sequence[HostProcess]
) -> dict[str, str]:
    """Return what `start` returns for each host, by its name. Raises ConfigurationError with the faults of all."""
    with ThreadPoolExecutor(max_workers=len(hosts)) as pool:
        starting = {
            host.name: pool.submit(start, host, process) for host, process in zip(hosts, processes, strict=True)
        }
        try:
            errors = [error for one in starting.values() if (error := one.exception()) is not None]
        except BaseException:  # Ctrl-C: nobody waits for what hosts may yet answer
            for process in processes:
                process.kill()
            raise
    for error in errors:
        if not isinstance(error, ConfigurationError):
            raise error
    if errors:
        raise ConfigurationError("\n".join(map(str, errors)))
    return {name: one.result() for name, one in starting.items()}


def _started(
    host: LoadHost, process: HostProcess, run: tuple[str, int], keys: tuple[str, str], say: Callable[[str], None]
) -> str:
    """Have the host's process become an agent; return its address. `run`: where the hosts reach the run."""
    process.tell(
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
    # sshd says who is connected to what: the run's address as the host sees it, and the host's own.
    theirs, _, own, _ = (hello["ssh"] or HERE).split() if host.ssh else HERE.split()
    said = process.hear(READY_S, "checking its version")
    if said["event"] == "send":
        say(f"installing on load host {host.name}")
        archive = _archive()
        process.tell({"bytes": len(archive)})
        process.send(archive)
        process.hear(INSTALL_S * 2, "installing")
        process.hear(READY_S, "starting what was installed")
    address, port = run
    process.tell(
        {
            "scheduler": [(host.ssh and address) or theirs, port],
            "name": host.name,
            "address": host.address or own,
            "certificate": keys[0],
            "key": keys[1],
        }
    )
    process.follow()
    found = str(process.hear(READY_S, "starting its agent")["address"])
    at, _, its_port = found.removeprefix("tls://").rpartition(":")
    try:
        socket.create_connection((at.strip("[]"), int(its_port)), timeout=REACHED_WITHIN_S).close()
    except OSError as error:
        raise process.failure(
            f"the run cannot reach its agent at {at}, port {its_port}: {error}; the run and its hosts must reach one "
            "another, or state its address = ..."
        ) from error
    return found


def _scheduler(file: HostsFile, certificate: str, key: str) -> LocalCluster:
    """Return a scheduler in this process, with no worker yet; reached from elsewhere only where a host is elsewhere."""
    try:
        return LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=0,
            processes=True,
            host=LOOPBACK if file.here else EVERYWHERE,
            protocol="tls://",
            security=security(certificate, key),
            scheduler_port=file.port or 0,
            dashboard_address=f"{LOOPBACK}:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        )
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"--hosts={file.path}: no scheduler can be started: {error}") from error


def _key() -> str:
    """Return the name of the folder that this version is installed in."""
    return hashlib.sha256(fingerprint().encode() + (ROOT / LOCK).read_bytes()).hexdigest()[:16]


def _archive() -> bytes:
    """Return what a host needs of this checkout: the package, and the lock of what it needs besides."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        for path in [*sorted((ROOT / "perfgate").rglob("*.py")), ROOT / LOCK]:
            files.add(path, arcname=str(path.relative_to(ROOT)))
    return packed.getvalue()
