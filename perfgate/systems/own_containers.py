"""Containers of a cluster that the suite starts itself: its nodes and what is beside them, in their own network."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from docker.models.containers import Container
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from testcontainers.core.network import Network

from perfgate.host.docker_engine import OWNER, DockerErrors, words_of
from perfgate.host.journal import mark_of_this_process
from perfgate.host.ports import HOST
from perfgate.host.session import interrupted_later
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.host.waiting import LOG_LINE
from perfgate.model import ClusterSpec
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import Action
from perfgate.systems.own_processes import LOOKED_AT, last_lines

CHECK_EVERY_S = 0.5
"""Asking the Docker engine about three containers takes some milliseconds of CPU, which the brokers share."""
PROXY_API, PROXY_FIRST = 8474, 20_000
ANY = "0.0.0.0"  # noqa: S104 - inside a container; its ports are published on loopback only
WITHOUT_RYUK = (
    "; where the Ryuk image cannot be had set TESTCONTAINERS_RYUK_DISABLED=true, what a killed run leaves is then "
    "removed at the next start"
)


class OwnContainers:
    """Containers with the mark of this process; see :class:`perfgate.systems.own_target.Supervisor`."""

    recording = False

    def __init__(
        self, name_of: Callable[[int], str], logs: Path, last_words: Callable[[str], str] = last_lines
    ) -> None:
        """`name_of` a node: its name in the network, and of its log; `last_words` of a log: what says why it ended."""
        self._name_of, self._logs, self._last_words = name_of, logs, last_words
        self._network = Network(docker_network_kw={"labels": {OWNER: mark_of_this_process()}})
        self.nodes: dict[int, DockerContainer] = {}
        self.others: dict[str, DockerContainer] = {}
        """Containers beside the nodes, by name."""
        self._checked = 0.0

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Create the network, for containers that are started inside. Raises TargetError where the engine refuses."""
        try:
            self._network.create()
            yield
        except DockerErrors as error:
            ryuk = "" if testcontainers_config.ryuk_disabled else WITHOUT_RYUK
            raise TargetError(f"a container did not start: {words_of(error)}{ryuk}") from None

    def node(self, node: int, image: str, limits: ClusterSpec | None = None) -> DockerContainer:
        """Return a node's container, which is not started yet; `limits`: has those of a broker."""
        more: dict[str, object] = {}
        if limits and (cpus := limits.cpus_per_broker):
            more["nano_cpus"] = int(cpus * 1e9)
        if limits and (memory := limits.memory_mib_per_broker):
            more["mem_limit"] = more["memswap_limit"] = f"{memory}m"  # the same: no swap
        name = self._name_of(node)
        container = self.nodes[node] = self._made(image, hostname=name, **more)
        container.with_network_aliases(name)
        return container

    def beside(self, name: str, image: str) -> DockerContainer:
        """Return a container in the nodes' network that is watched and removed with them."""
        container = self.others[name] = self._made(image)
        return container

    def _made(self, image: str, **more: object) -> DockerContainer:
        container = DockerContainer(image)
        container.with_network(self._network).with_kwargs(labels={OWNER: mark_of_this_process()}, **more)
        return container

    def start_proxy(
        self,
        image: str,
        *,
        api_port: int,
        ports: Mapping[int, int],
        upstream: Mapping[int, str],
        check: Callable[[], None],
    ) -> ToxiproxyApi:
        """Start Toxiproxy with a slow way to each broker (`ports` here, `upstream` as host:port); return its API."""
        container = self.beside("Toxiproxy", image)
        container.with_command(["-host", ANY, "-port", str(PROXY_API)])
        publish(container, PROXY_API, api_port)
        for broker, port in ports.items():
            publish(container, PROXY_FIRST + broker, port)
        container.start()
        proxy = ToxiproxyApi(HOST, api_port)
        proxy.wait_until_ready(check)
        proxy.add_brokers({broker: f"{ANY}:{PROXY_FIRST + broker}" for broker in upstream}, upstream)
        return proxy

    def ids(self) -> dict[int, str]:
        return {node: container.get_container_id() for node, container in self.nodes.items()}

    def check(self, absent: Collection[int]) -> None:
        """See :class:`Supervisor`; asked more often than every CHECK_EVERY_S it does nothing."""
        if time.monotonic() - self._checked < CHECK_EVERY_S:
            return
        self._checked = time.monotonic()
        watched = {
            self._name_of(node).replace("-", " "): container
            for node, container in self.nodes.items()
            if node not in absent
        }
        for name, container in (watched | self.others).items():
            try:
                container.reload()
                state: Mapping[str, Any] = container.get_wrapped_container().attrs["State"]
            except DockerErrors as error:
                raise TargetError(f"{name}: its container cannot be inspected: {words_of(error)}") from None
            if not state["Running"]:
                how = "was killed for want of memory" if state.get("OOMKilled") else f"ended with {state['ExitCode']}"
                failed = TargetError if name in self.others else BrokersFailedError
                raise failed(
                    f"{name}: its container {how}; end of its log:\n{self._last_words(tail_of(container, LOOKED_AT))}"
                )

    @property
    def names(self) -> Mapping[int, str]:
        return {node: self._name_of(node) for node in self.nodes}

    def tail(self, node: int, lines: int) -> str:
        return tail_of(self.nodes[node], lines) if node in self.nodes else "(not started)"

    def logged(self) -> tuple[str, ...]:
        return tuple(self.tail(node, 1) for node in self.nodes)

    def log(self, node: int) -> str:
        with suppress(*DockerErrors):
            return self._of(node).logs().decode(errors="replace")
        return ""

    def run(self, node: int, command: list[str], environment: Mapping[str, str], doing: str) -> tuple[int, str]:
        """Run a command in a node's container; return its exit code and its output. Raises TargetError."""
        with _failing(doing):
            code, output = self._of(node).exec_run(command, environment=dict(environment))
        assert code is not None
        assert isinstance(output, bytes)
        return code, output.decode(errors="replace")

    def actions(self) -> dict[Action, Callable[[int], None]]:
        """Actions on a node, by name. It is cut off by taking its container out of the network."""

        def does(doing: str, act: Callable[[Container, int], None]) -> Callable[[int], None]:
            def do(node: int) -> None:
                with _failing(doing.format(node)):
                    act(self._of(node), node)

            return do

        def network() -> Any:
            return self._network._network

        return {
            "kill": does("killing the container of node {}", lambda container, _: container.kill()),
            "stop": does("stopping the container of node {}", lambda container, _: container.kill(signal="SIGTERM")),
            # Its ports are fixed, its data still there.
            "start": does("starting the container of node {}", lambda container, _: container.start()),
            "pause": does("pausing the container of node {}", lambda container, _: container.pause()),
            "resume": does("resuming the container of node {}", lambda container, _: container.unpause()),
            "cut-off": does(
                "taking broker {} out of the network", lambda container, _: network().disconnect(container)
            ),
            "heal": does(
                "putting broker {} back into the network",
                lambda container, node: network().connect(container, aliases=[self._name_of(node)]),
            ),
        }

    def runs(self, node: int) -> bool:
        with _failing(f"looking at the container of node {node}"):
            container = self._of(node)
            container.reload()
        return bool(container.attrs["State"]["Running"])

    def keep_caches(self) -> None:
        """Do nothing: images record none."""

    def close(self) -> None:
        """Keep the nodes' logs, where there is room for them, then remove every container and the network."""
        for node, container in self.nodes.items():
            with suppress(*DockerErrors, ContainerStartException, OSError):
                (self._logs / f"{self._name_of(node)}.log").write_bytes(container.get_wrapped_container().logs())
        with interrupted_later():
            for container in [*self.nodes.values(), *self.others.values()]:
                with suppress(*DockerErrors):
                    container.stop()
            self.nodes, self.others = {}, {}
            if self._network._network is not None:
                with suppress(*DockerErrors):
                    self._network.remove()

    def _of(self, node: int) -> Container:
        return self.nodes[node].get_wrapped_container()


def publish(container: DockerContainer, inside: int, outside: int) -> None:
    """Publish a port on loopback only; testcontainers' own method would publish it on every interface."""
    ports: dict[str, Any] = container.ports
    ports[f"{inside}/tcp"] = (HOST, outside)


def tail_of(container: DockerContainer, lines: int) -> str:
    """Return the last lines of a container's log, each of at most LOG_LINE characters."""
    try:
        text = container.get_wrapped_container().logs(tail=lines).decode(errors="replace")
    except DockerErrors as error:
        return f"(no log: {words_of(error)})"
    return "\n".join(line[:LOG_LINE] for line in text.splitlines())


@contextmanager
def _failing(doing: str) -> Iterator[None]:
    try:
        yield
    except DockerErrors as error:
        raise TargetError(f"{doing}: {error}") from None
