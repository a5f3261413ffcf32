"""Secured listeners of a cluster that the suite starts: a certificate, and a user with a password, made for it alone.

Clients use them; brokers talk to each other in plain text, as they do without.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.host.guard import Guard
from perfgate.host.java import find_java
from perfgate.host.ports import HOST
from perfgate.host.session import run_in_session
from perfgate.model import Settings, settings
from perfgate.model.errors import TargetError
from perfgate.model.secret import Secret
from perfgate.systems.kafka.managed.faults import KafkaTools

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

FOR_CLIENTS = ("SAMEZONE", "CROSSZONE")
PROTOCOLS = {"tls": "SSL", "sasl-tls": "SASL_SSL"}
"""Kafka's own names (security.protocol)."""
MECHANISM, USER = "SCRAM-SHA-512", "perfgate"
KEYTOOL_TIMEOUT_S = 300
"""A bound on a hang."""
EXTENSIONS = ("bc:c", "ku=digitalSignature,keyCertSign", f"san=ip:{HOST},dns:localhost")
"""The certificate is its own authority."""
LAST_WORDS = 300
INSIDE = "/opt/kafka/config/keys.p12"


class Secured:
    """Keys of a cluster, and the settings of brokers and clients with them."""

    def __init__(self, security: str, *, java: Path, folder: Path) -> None:
        """`security`: one of PROTOCOLS; `java`: whose keytool is used; `folder`: the cluster's. Raises TargetError."""
        self._protocol, self._scram = PROTOCOLS[security], security == "sasl-tls"
        self._password, self.store, self._authority = secrets.token_hex(16), folder / "keys.p12", folder / "keys.pem"
        make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=kafka-perf-gate", "-validity", "30"]
        make += [part for extension in EXTENSIONS for part in ("-ext", extension)]
        for arguments in (make, ["-exportcert", "-rfc", "-file", str(self._authority)]):
            keytool = [str(java.with_name("keytool")), *arguments, "-alias", "broker", "-keystore", str(self.store)]
            keytool += ["-storetype", "PKCS12", "-storepass:env", "KEYS"]
            code, output = run_in_session(keytool, KEYTOOL_TIMEOUT_S, {**os.environ, "KEYS": self._password})
            if code:
                raise TargetError(f"keytool made no certificate: {output[-LAST_WORDS:].strip()}")

    def broker_settings(self, protocols: str, store: str = "") -> dict[str, str]:
        """Return a broker's settings, with its map of `protocols`; `store`: its key store, if not `self.store`."""
        secured = {f"{name}:PLAINTEXT": f"{name}:{self._protocol}" for name in FOR_CLIENTS}
        values = {
            "listener.security.protocol.map": ",".join(secured.get(name, name) for name in protocols.split(",")),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": store or str(self.store),
            "ssl.keystore.password": self._password,
        }
        if self._scram:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            values["sasl.enabled.mechanisms"] = MECHANISM
            mechanism = MECHANISM.lower()
            values |= {f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config": module for name in FOR_CLIENTS}
        return values

    def credential(self) -> str:
        """The user's SCRAM credential as Kafka's configuration tool takes it; empty where there is no user."""
        return f"{MECHANISM}=[password={self._password}]" if self._scram else ""

    def format_options(self) -> list[str]:
        """Options that format a node's log folder with the user in it.

        Users of this machine can read them: the password opens this cluster alone, on loopback.
        """
        return ["--add-scram", f"{MECHANISM}=[name={USER},password={self._password}]"] if self._scram else []

    def client_settings(self) -> Settings:
        extra: Mapping[str, object] = {
            "security.protocol": self._protocol,
            "ssl.ca.location": str(self._authority),
            **({"sasl.mechanisms": MECHANISM, "sasl.username": USER} if self._scram else {}),
        }
        password = (("sasl.password", Secret(self._password)),) if self._scram else ()
        return (*settings(extra), *password)


class ContainerKeys:
    """Keys of a cluster of containers: made on this machine, mounted into each broker, gone with the cluster."""

    def __init__(self, security: str) -> None:
        """Raises TargetError without a certificate. The folder is this user's alone, and goes with the run."""
        self._guard = Guard()
        try:
            folder = Path(tempfile.mkdtemp(prefix="kafka-perf-gate-keys-"))
            self._guard.owns(folder)
            self.secured = Secured(security, java=find_java(), folder=folder)
            self.secured.store.chmod(0o644)
        except BaseException:
            self.close()
            raise

    def given_to(self, container: DockerContainer, protocols: str) -> Mapping[str, str]:
        """Mount the key store into a broker's container; return its listeners' settings, by its map of `protocols`."""
        container.with_volume_mapping(str(self.secured.store), INSIDE, "ro")
        return self.secured.broker_settings(protocols, INSIDE)

    def lacking_user(self, tools: KafkaTools) -> str:
        """Register the clients' user, if any, whom images do not format; return why the brokers did not take it."""
        try:
            if credential := self.secured.credential():
                tools.add_user(USER, credential)
        except TargetError as error:
            return str(error)
        return ""

    def close(self) -> None:
        self._guard.close()
