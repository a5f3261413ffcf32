"""A Java client's properties in librdkafka's words: what means the same is translated, anything else is an error.

Sources: the Java client's configuration reference (kafka.apache.org/documentation), librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import javaproperties

from perfgate.model.errors import ConfigurationError

SAME_NAME = {
    "bootstrap.servers",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.cipher.suites",
}
RENAMED = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
STORES = {f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "password", "type")}
"""Files in Java's own formats, and PEM; what becomes of them is up to `convert`."""
LOGIN_MODULES = ("plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule")
JAAS_OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
JAAS = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+required(?P<options>(\s+\w+\s*=\s*(\"(\\.|[^\"\\])*\"|[^\s\";]+))*)\s*;\s*"
)
JAAS_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:\\.|[^\"\\])*)\"|([^\s\";]+))")
OIDC_HANDLER = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler"
)

Convert = Callable[[Mapping[str, str]], Mapping[str, str]]


def read_properties(path: Path) -> dict[str, str]:
    """Return what a Java properties file says. Raises ConfigurationError; the message never holds a value."""
    try:
        with path.open("rb") as stream:
            return dict(javaproperties.load(stream))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: not a Java properties file ({error.__class__.__name__})") from None


def translated(properties: Mapping[str, str], convert: Convert) -> dict[str, str]:
    """Return the same in librdkafka's settings.

    `convert` is given the store settings (location, password, type of trust store and key store, and the key's
    password) and returns librdkafka's. Raises ConfigurationError naming the property that cannot be translated; the
    message never holds a value.
    """
    found: dict[str, str] = {}
    stores: dict[str, str] = {}
    for name, value in properties.items():
        if name in SAME_NAME:
            found[name] = value
        elif name in RENAMED:
            found[RENAMED[name]] = value
        elif name in STORES or name == "ssl.key.password":
            stores[name] = value
        elif name == "sasl.jaas.config":
            found.update(_login(value))
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value.strip().lower() or "none"  # empty switches the check off in Java
        elif name == "sasl.login.callback.handler.class" and OIDC_HANDLER.fullmatch(value.strip()):
            found["sasl.oauthbearer.method"] = "oidc"
        else:
            raise ConfigurationError(
                f"property {name!r} has no counterpart in librdkafka; leave it out, or state what it is for in [client]"
            )
    if "sasl.oauthbearer.client.id" in found:
        found.setdefault("sasl.oauthbearer.method", "oidc")
    return {**found, **convert(stores)} if stores else found


def _login(jaas: str) -> dict[str, str]:
    parsed = JAAS.fullmatch(jaas)
    if not parsed:
        raise ConfigurationError(
            'property \'sasl.jaas.config\' does not read like: <login module> required username="..." password="...";'
        )
    module = parsed["module"]
    if module.removeprefix("org.apache.kafka.common.security.") not in LOGIN_MODULES:
        raise ConfigurationError(
            f"property 'sasl.jaas.config': login module {module} has no counterpart in librdkafka; "
            f"translated are {', '.join(LOGIN_MODULES)} of org.apache.kafka.common.security"
        )
    found = {}
    for name, quoted, plain in JAAS_OPTION.findall(parsed["options"]):
        if name not in JAAS_OPTIONS:
            raise ConfigurationError(f"property 'sasl.jaas.config': option {name!r} has no counterpart in librdkafka")
        found[JAAS_OPTIONS[name]] = re.sub(r"\\(.)", r"\1", quoted) or plain
    return found
