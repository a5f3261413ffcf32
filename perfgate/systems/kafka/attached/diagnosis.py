"""Diagnosis of brokers that cannot be reached: name, port, TLS and log-in tried in order, a line per cause and remedy.

librdkafka retries whatever goes wrong and then reports a time-out only.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import redacted, revealed
from perfgate.systems.attached.diagnosis import Keys, context_of, problem_of
from perfgate.systems.kafka.attached.client_settings import no_client
from perfgate.systems.kafka.client.iam import with_tokens

METADATA_TIMEOUT_S = 12.0
TLS = ("ssl", "sasl_ssl")
KEYS = Keys(
    servers="bootstrap-servers",
    protocol="security.protocol",
    any_name='"ssl.endpoint.identification.algorithm" = "none"',
    authority='"ssl.ca.location" (or ssl.truststore.location of the properties file)',
    tls="ssl.* settings",
)


def reachable(bootstrap: str, settings: Mapping[str, str]) -> tuple[AdminClient, list[str]]:
    """Return a client that has spoken with brokers, and the other servers' problems. Raises ConfigurationError."""
    servers = bootstrap.split(",")
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        results = pool.map(lambda server: problem_of(server, partial(_context, settings), KEYS), servers)
        problems = [text for text in results if text]
    if len(problems) == len(servers):
        raise ConfigurationError("; ".join(problems))
    return _logged_in(bootstrap, settings), problems


def _context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    if settings.get("security.protocol", "plaintext").lower() not in TLS:
        return None
    location = settings.get("ssl.ca.location")
    return context_of(
        authorities=location if location and Path(location).is_file() else None,
        folder=location if location and Path(location).is_dir() else None,
        text=settings.get("ssl.ca.pem"),
        names=settings.get("ssl.endpoint.identification.algorithm", "https") != "none",
        verified=settings.get("enable.ssl.certificate.verification", "true") != "false",
    )


def _logged_in(bootstrap: str, settings: Mapping[str, str]) -> AdminClient:
    errors: list[KafkaError] = []
    quiet: dict[str, Any] = {"log_level": "0", "reconnect.backoff.max.ms": "500", "error_cb": errors.append}
    try:
        admin = AdminClient(with_tokens({**quiet, "bootstrap.servers": bootstrap, **revealed(settings)}))
    except KafkaException as error:
        raise ConfigurationError(f"no client for {bootstrap}: {no_client(settings, error.args[0].str())}") from None
    try:
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
    except KafkaException as error:
        with suppress(KafkaException):
            admin.poll(0.1)
        raise ConfigurationError(_log_in_problem(bootstrap, settings, errors, error.args[0])) from None
    return admin


def _log_in_problem(bootstrap: str, settings: Mapping[str, str], errors: Sequence[KafkaError], last: KafkaError) -> str:
    words = {error.code(): redacted(error.str()) for error in reversed(errors)}
    if KafkaError._AUTHENTICATION in words:
        user = f" as {settings['sasl.username']!r}" if "sasl.username" in settings else ""
        return (
            f"{bootstrap}: the brokers refused the log-in{user}: {words[KafkaError._AUTHENTICATION]}; check "
            "sasl.mechanism, user and password (for OAUTHBEARER: the token endpoint and the client; for AWS_MSK_IAM: "
            "what the policies of the credentials allow)"
        )
    if KafkaError._SSL in words:
        return (
            f"{bootstrap}: TLS failed: {words[KafkaError._SSL]}; where the brokers ask for a certificate state "
            "ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
        )
    detail = "; ".join(dict.fromkeys(words.values())) or last.str()
    return (
        f"{bootstrap}: connected, but the brokers did not answer within {METADATA_TIMEOUT_S:.0f} s: {detail}; check "
        "security.protocol, and that the addresses which the brokers advertise can be reached from here"
    )
