"""A Pulsar cluster as others run it: TLS and tokens for everyone, authorization, its own authority."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from perfgate.host.java import find_java
from perfgate.host.ports import HOST, free_ports
from perfgate.model import ClusterSpec, Settings, settings
from perfgate.systems.pulsar.client.admin import Admin
from perfgate.systems.pulsar.jars import JAVA_NEEDED, pulsar_jars
from perfgate.systems.pulsar.managed.embedded import EmbeddedCluster
from perfgate.systems.pulsar.managed.nodes import CLUSTER, SAME_ZONE_LISTENER, broker_ids, role_of

SUPERUSER, TENANT_ADMIN, NOBODY = "superuser", "gate", "nobody"
TENANT = "gate"
KEY = b"the key that signs this test's tokens"
AUTHENTICATION = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
SPEC = ClusterSpec(
    system="pulsar",
    bookies=3,
    config=settings({"metadataStoreSessionTimeoutMillis": 6_000, "bookkeeper_delayEnsembleChange": "true"}),
    bookie_config=settings({"journalSyncData": "false"}),
)


def token(role: str, key: bytes = KEY) -> str:
    """Return a JSON web token of this role (RFC 7519, HS256)."""
    head, claims = (_part(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"sub": role}))
    return f"{head}.{claims}.{_part(hmac.new(key, f'{head}.{claims}'.encode(), hashlib.sha256).digest())}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return files of a certificate for this machine's loopback that signs itself, and of its key."""
    key, now = rsa.generate_private_key(public_exponent=65537, key_size=2048), datetime.datetime.now(datetime.UTC)
    # Brokers name one another by localhost, where their web services are concerned.
    names = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths[1].write_bytes(private)
    return paths


class SecuredCluster(EmbeddedCluster):
    """Its brokers let nobody in without a token, and have ports with TLS beside those that the suite starts it by."""

    def __init__(self, spec: ClusterSpec, folder: Path, **more: Any) -> None:
        super().__init__(spec, cross_zone=False, warm_start=False, **more)
        self.certificate, self._key = certificate(folder)
        (folder / "signing.key").write_bytes(KEY)
        (folder / "superuser.token").write_text(token(SUPERUSER))
        self._secrets = folder
        ports = iter(free_ports(2 * spec.brokers))
        self.tls_ports = {broker: (next(ports), next(ports)) for broker in broker_ids(spec)}
        """Of each broker's service, and of its web service."""

    @cached_property
    def admin(self) -> Admin:
        return Admin([f"http://{HOST}:{self._web_ports[broker]}" for broker in self._ids], self.client_settings())

    def client_settings(self) -> Settings:
        return (("authParams", f"token:{token(SUPERUSER)}"), ("authPlugin", AUTHENTICATION))

    def _is_healthy(self, node: int) -> bool:
        if role_of(node) != "broker":
            return super()._is_healthy(node)
        return self.admin.is_ready(f"http://{HOST}:{self._web_ports[node]}")

    def _settings(self, node: int) -> Mapping[str, str]:
        found = super()._settings(node)
        if role_of(node) != "broker":
            return found
        service, web = self.tls_ports[node]
        return {
            **found,
            "brokerServicePortTls": str(service),
            "webServicePortTls": str(web),
            "advertisedListeners": f"{found['advertisedListeners']},{SAME_ZONE_LISTENER}:pulsar+ssl://{HOST}:{service}",
            "tlsCertificateFilePath": str(self.certificate),
            "tlsKeyFilePath": str(self._key),
            "tlsTrustCertsFilePath": str(self.certificate),
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
            "tokenSecretKey": f"file://{self._secrets}/signing.key",
            "superUserRoles": SUPERUSER,
            "brokerClientTlsEnabled": "true",
            "brokerClientTrustCertsFilePath": str(self.certificate),
            "brokerClientAuthenticationPlugin": AUTHENTICATION,
            "brokerClientAuthenticationParameters": f"file://{self._secrets}/superuser.token",
        }


@dataclass(frozen=True)
class SecuredPulsar:
    """The cluster, and target files of it."""

    cluster: SecuredCluster
    admin: Admin
    _files: list[Path] = field(default_factory=list)

    @property
    def service_url(self) -> str:
        """The service URL of all brokers, over TLS."""
        return "pulsar+ssl://" + ",".join(f"{HOST}:{port}" for port, _ in self.cluster.tls_ports.values())

    @property
    def admin_url(self) -> str:
        """The addresses of all brokers' web service, over TLS."""
        return "https://" + ",".join(f"{HOST}:{port}" for _, port in self.cluster.tls_ports.values())

    @property
    def web_ports(self) -> Mapping[int, int]:
        """The port by which each broker is listed, that of its web service without TLS."""
        return {broker: self.cluster._web_ports[broker] for broker in self.cluster.tls_ports}

    def target_file(self, folder: Path, role: str = TENANT_ADMIN, **changed: str) -> Path:
        """Write a target file for this role into the folder; `changed` lines win, by their key, as TOML."""
        (folder / f"{role}.token").write_text(changed.pop("token", token(role)))
        lines = {
            "service-url": f'"{self.service_url}"',
            "admin-url": f'"{self.admin_url}"',
            "tenant": f'"{TENANT}"',
            **{key.replace("_", "-"): value for key, value in changed.items() if key != "tables"},
        }
        trusted = changed.get("tables", f'[client]\ntlsTrustCertsFilePath = "{self.cluster.certificate}"\n')
        path = folder / "target.toml"
        path.write_text(
            'system = "pulsar"\n'
            + "".join(f"{key} = {value}\n" for key, value in lines.items())
            + f'{trusted}token = {{ file = "{role}.token" }}\n[limits]\nbytes = "100 GB"\nmib-per-s = 50\n'
        )
        return path

    def left(self) -> list[str]:
        """Return the namespaces of the tenant."""
        return self.admin.namespaces(TENANT)


@contextmanager
def secured_pulsar(folder: Path) -> Iterator[SecuredPulsar]:
    """Start the cluster, with a tenant whose admin is the role TENANT_ADMIN."""
    java = find_java(JAVA_NEEDED, what="Pulsar")
    cluster = SecuredCluster(SPEC, folder, java=java, jars=pulsar_jars(SPEC.version), logs=folder / "logs")
    try:
        cluster.start()
        cluster.admin.create_tenant(TENANT, [CLUSTER], [TENANT_ADMIN])
        yield SecuredPulsar(cluster, cluster.admin)
    finally:
        cluster.close()
