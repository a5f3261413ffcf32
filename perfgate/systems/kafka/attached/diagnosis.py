"""Diagnosis of brokers that cannot be reached: name, port, TLS and log-in tried in order, one line per cause and
remedy.

librdkafka retries whatever goes wrong and then reports a time-out only.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import redacted, revealed
from perfgate.systems.kafka.attached.client_settings import no_client
from perfgate.systems.kafka.client.iam import with_tokens

CONNECT_TIMEOUT_S = 5.0
METADATA_TIMEOUT_S = 12.0
TLS = ("ssl", "sasl_ssl")
# OpenSSL's X509_V_ERR_* (x509_vfy.h)
EXPIRED, NOT_YET_VALID, HOST_MISMATCH, IP_MISMATCH = 10, 9, 62, 64


def reachable(bootstrap: str, settings: Mapping[str, str]) -> tuple[AdminClient, list[str]]:
    """Return an admin client that has spoken with the brokers, and what is wrong with some of the servers.

    Raises ConfigurationError, cause and remedy in one message, when no server can be used.
    """
    servers = bootstrap.split(",")
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        problems = [text for text in pool.map(lambda server: _problem(server, settings), servers) if text]
    if len(problems) == len(servers):
        raise ConfigurationError("; ".join(problems))
    return _logged_in(bootstrap, settings), problems


def _problem(server: str, settings: Mapping[str, str]) -> str:
    """The reason why this server cannot be used before anyone logs in; empty when it can."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S) as connection:
            if settings.get("security.protocol", "plaintext").lower() in TLS:
                _shake_hands(connection, host, settings)
    except socket.gaierror:
        return f"{server}: the host name does not resolve; check bootstrap-servers and the DNS of this machine"
    except TimeoutError:
        return (
            f"{server}: no answer within {CONNECT_TIMEOUT_S:.0f} s; a firewall or a route drops what is sent there, or "
            "the port belongs to something else"
        )
    except ConnectionRefusedError:
        return f"{server}: nothing listens there (connection refused); check the port, and whether the broker runs"
    except ssl.SSLCertVerificationError as error:
        return f"{server}: {_certificate_problem(error, host)}"
    except ssl.SSLError as error:
        if error.reason in {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"}:
            return f"{server}: the listener does not speak TLS; check security.protocol and the port"
        return f"{server}: the TLS handshake failed ({error.reason}); check the certificates and ssl.* settings"
    except OSError as error:
        return f"{server}: {error.strerror or error}; check bootstrap-servers and the network of this machine"
    return ""


def _shake_hands(connection: socket.socket, host: str, settings: Mapping[str, str]) -> None:
    context = ssl.create_default_context(
        cafile=settings.get("ssl.ca.location") if Path(settings.get("ssl.ca.location", "/")).is_file() else None,
        capath=settings.get("ssl.ca.location") if Path(settings.get("ssl.ca.location", "")).is_dir() else None,
        cadata=settings.get("ssl.ca.pem"),
    )
    # As the clients look at certificates. From Python 3.13 on its default refuses authorities that all others accept,
    # as those that state no key usage (VERIFY_X509_STRICT).
    context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if settings.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(connection, server_hostname=host):
        pass  # a broker that wants a certificate of ours says so later, at the log-in


def _certificate_problem(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == EXPIRED:
        return "the broker's certificate (or its issuer's) has expired; have it renewed"
    if error.verify_code == NOT_YET_VALID:
        return "the broker's certificate is not valid yet; check the clocks of this machine and the broker"
    if error.verify_code in (HOST_MISMATCH, IP_MISMATCH):
        return (
            f"the broker's certificate is not for the name {host!r}; use the name it was made for in "
            'bootstrap-servers or, knowing the risk, set "ssl.endpoint.identification.algorithm" = "none"'
        )
    return (
        f"the broker's certificate is of an unknown issuer ({error.verify_message}); state the CA that signed it as "
        '"ssl.ca.location" (or ssl.truststore.location of the properties file)'
    )


def _logged_in(bootstrap: str, settings: Mapping[str, str]) -> AdminClient:
    heard: list[KafkaError] = []
    quiet: dict[str, Any] = {"log_level": "0", "reconnect.backoff.max.ms": "500", "error_cb": heard.append}
    try:
        admin = AdminClient(with_tokens({**quiet, "bootstrap.servers": bootstrap, **revealed(settings)}))
    except KafkaException as error:
        raise ConfigurationError(f"no client for {bootstrap}: {no_client(settings, error.args[0].str())}") from None
    try:
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
    except KafkaException as error:
        with suppress(KafkaException):
            admin.poll(0.1)
        raise ConfigurationError(_log_in_problem(bootstrap, settings, heard, error.args[0])) from None
    return admin


def _log_in_problem(bootstrap: str, settings: Mapping[str, str], heard: Sequence[KafkaError], last: KafkaError) -> str:
    said = {error.code(): redacted(error.str()) for error in reversed(heard)}
    if KafkaError._AUTHENTICATION in said:
        user = f" as {settings['sasl.username']!r}" if "sasl.username" in settings else ""
        return (
            f"{bootstrap}: the brokers refused the log-in{user}: {said[KafkaError._AUTHENTICATION]}; check "
            "sasl.mechanism, user and password (for OAUTHBEARER: the token endpoint and the client; for AWS_MSK_IAM: "
            "what the policies of the credentials allow)"
        )
    if KafkaError._SSL in said:
        return (
            f"{bootstrap}: TLS failed: {said[KafkaError._SSL]}; where the brokers ask for a certificate state "
            "ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
        )
    detail = "; ".join(dict.fromkeys(said.values())) or last.str()
    return (
        f"{bootstrap}: connected, but the brokers did not answer within {METADATA_TIMEOUT_S:.0f} s: {detail}; check "
        "security.protocol, and that the addresses which the brokers advertise can be reached from here"
    )
