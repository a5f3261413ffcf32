"""Trials on real Pulsar brokers at the start: all that a run does with a topic, and topics as declared.

Each has a namespace of its own, which is deleted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

from perfgate.model import TopicSpec
from perfgate.model.errors import ConfigurationError, TargetError, TopicRefusedError
from perfgate.model.pages import page
from perfgate.model.secret import redacted
from perfgate.model.target import PREFIX, OfCluster
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.pulsar.attached.described import DescribedPulsar
from perfgate.systems.pulsar.attached.nodes import DENIED
from perfgate.systems.pulsar.attached.own_namespace import OwnNamespace, not_the_same
from perfgate.systems.pulsar.client import servers_of
from perfgate.systems.pulsar.client.admin import PRECONDITION, Admin
from perfgate.systems.pulsar.client.http import RefusedError, token_of
from perfgate.systems.pulsar.client.policies import ENSEMBLE
from perfgate.systems.pulsar.client.topics import NOT_ENOUGH_BOOKIES, Topics

PLAIN = TopicSpec(partitions=1, replication_factor=1)
CLIENT_TIMEOUT_S = 10
FEW_BYTES = 1e9
TOO_FEW = (
    "fewer than {} bookies take entries: one is away or read-only, or some are kept for others (state bookies = N, how "
    "many there must be)"
)


class Trials:
    """See :class:`perfgate.systems.attached.target.Trial`."""

    def __init__(
        self,
        admin: Admin,
        described: DescribedPulsar,
        run_id: str,
        manifest: Callable[[], Manifest],
        note: Callable[[str], None],
    ) -> None:
        """`manifest` opens the notes of a trial."""
        self._admin, self._described, self._run_id = admin, described, run_id
        self._manifest, self._note = manifest, note
        self._refusals: dict[TopicSpec, OfCluster | None] = {}
        self._namespaces = 0

    def refusal(self, topic: TopicSpec) -> OfCluster | None:
        if topic not in self._refusals:
            refused = self._tried("trial", replace(topic, partitions=1))
            words = f"the brokers refuse its topic: {getattr(refused.__cause__, 'reason', refused)}" if refused else ""
            self._refusals[topic] = OfCluster(words) if words else None
        return self._refusals[topic]

    def lacking_bookies(self, number: int) -> str:
        """A message where fewer bookies take entries: those away are listed too, a ledger over all shows them."""
        refused = self._tried("bookies", replace(PLAIN, config=((ENSEMBLE, str(number)),))) if number else None
        return TOO_FEW.format(number) if refused and refused.code == NOT_ENOUGH_BOOKIES else ""

    def check_permissions(self) -> None:
        """Try each action of a run. Raises ConfigurationError for what the role may not do, and for another cluster."""
        with self._namespace() as namespace:
            name = namespace.name
            for url in self._described.admin_urls:
                if reason := not_the_same(self._admin, name, namespace.id, url):
                    raise ConfigurationError(
                        f"{self._described.path}: its addresses are not of one cluster: {reason}; nothing else was done"
                    )
            self._try_admin(namespace)
            self._try_clients(f"persistent://{name}/{PREFIX}probe")

    def may_see_the_tenant(self) -> None:
        """Ask for the tenant's namespaces, which only its admins see and create. Raises as above."""
        with self._explained(f"see, or make, namespaces of tenant {self._described.tenant}"):
            self._admin.namespaces(self._described.tenant)

    def _tried(self, name: str, topic: TopicSpec) -> TopicRefusedError | None:
        """Create such a topic; return its refusal. None without an answer, too: the run itself then reports that."""
        with self._namespace() as namespace:
            try:
                self._topics().create(f"persistent://{namespace.name}/{PREFIX}{name}", topic)
            except TopicRefusedError as refused:
                return refused
            except TargetError:
                return None
        return None

    def _topics(self) -> Topics:
        return Topics(lambda: None, self._admin, dict)

    @contextmanager
    def _namespace(self) -> Iterator[OwnNamespace]:
        self._namespaces += 1
        manifest = self._manifest()
        name = self._described.namespace(f"{self._run_id}-probe", self._namespaces)
        namespace = OwnNamespace(self._admin, name, manifest, most_bytes=FEW_BYTES)
        try:
            with self._explained(f"make a namespace of tenant {self._described.tenant}"):
                namespace.make()
            try:
                yield namespace
            except BaseException:
                try:
                    namespace.remove()
                except Exception as error:  # the error that ended the trial says more
                    self._note(f"namespace {name} may stay until the next start, which deletes it: {error}")
                raise
            with self._explained(f"delete namespace {name}, which is empty and stays"):
                namespace.remove()
        finally:
            manifest.close()

    def _try_admin(self, namespace: OwnNamespace) -> None:
        with self._explained("make, look up, read and delete a topic, with its quorums"):
            topics, name = self._topics(), f"persistent://{namespace.name}/{PREFIX}probe"
            topics.create(name, PLAIN)
            topics.end_offsets(name, 1)
            topics.leaders(name)

    @contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        """Turn the brokers' refusal into an error that names the permission to grant."""
        try:
            yield
        except (RefusedError, TopicRefusedError) as refused:
            status = getattr(refused, "status", 0) or getattr(refused.__cause__, "status", 0)
            if status not in (*DENIED, PRECONDITION):
                raise ConfigurationError(f"trying to {action}: {refused}") from None
            raise ConfigurationError(
                f"{self._described.name}: the brokers do not let this role {action}: {refused}; make it an admin of "
                f"the tenant: pulsar-admin tenants update {self._described.tenant} --admin-roles ROLE "
                f"({page('targets-pulsar')})"
            ) from None

    def _try_clients(self, topic: str) -> None:
        """Connect a producer and a consumer by each server of each URL; raises ConfigurationError where none works."""
        keys = {self._described.bootstrap: "service-url"}
        keys.setdefault(self._described.cross_zone_bootstrap, "[zones] cross-zone")
        for url, key in keys.items():
            servers = servers_of(url) if url else ()
            problems = [problem for server in servers if (problem := self._problem(url, server, topic))]
            if servers and len(problems) == len(servers):
                raise ConfigurationError(
                    f"{self._described.path}: no client can send to and read from the run's own topic by {key}: "
                    f"{'; '.join(problems)}; check the token, its role, TLS, and that the addresses which the brokers "
                    "advertise can be reached from here"
                )
            for problem in problems:
                self._note(f"note: {problem}; going on with the other servers")

    def _problem(self, url: str, server: str, topic: str) -> str:
        """The reason why no client can use this server of a URL; empty where one can."""
        pulsar: Any = import_module("pulsar")  # only a run against real brokers needs it in this process
        try:
            with ExitStack() as stack:
                options = _options(dict(self._described.client), pulsar)
                client = pulsar.Client(f"{url.partition('://')[0]}://{server}", **options)
                stack.callback(_closed, client)
                client.create_producer(topic)
                client.subscribe(topic, f"{PREFIX}probe")
        except Exception as error:  # the client's own errors have no common type but this
            return f"{server}: {redacted(str(error))}"
        return ""


def _options(client: Mapping[str, str], pulsar: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "operation_timeout_seconds": CLIENT_TIMEOUT_S,
        "connection_timeout_ms": 1000 * CLIENT_TIMEOUT_S // 2,
        "logger": pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
        "tls_allow_insecure_connection": client.get("tlsAllowInsecureConnection") == "true",
        "tls_validate_hostname": client.get("tlsHostnameVerificationEnable", "true") == "true",
    }
    for name, option in (
        ("tlsTrustCertsFilePath", "tls_trust_certs_file_path"),
        ("tlsCertificateFilePath", "tls_certificate_file_path"),
        ("tlsKeyFilePath", "tls_private_key_file_path"),
    ):
        if name in client:
            options[option] = client[name]
    if token := token_of(client):
        options["authentication"] = pulsar.AuthenticationToken(token)
    elif client.get("authPlugin"):
        options["authentication"] = pulsar.AuthenticationTLS(client["tlsCertificateFilePath"], client["tlsKeyFilePath"])
    return options


def _closed(client: Any) -> None:
    with suppress(Exception):  # it could not connect
        client.close()
