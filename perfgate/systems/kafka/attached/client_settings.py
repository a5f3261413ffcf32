"""A target file's `[client]`: its secrets, numbers and PEM files, and whether librdkafka takes its settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from perfgate.host.disk import is_there
from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret, redacted, revealed
from perfgate.systems.kafka.client.iam import MECHANISM as IAM
from perfgate.systems.kafka.client.iam import logs_in_by_iam, mechanism_of, tokens, without_iam
from perfgate.systems.kafka.client.settings import not_plain

INSIDE = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
"""Settings that name a PEM file, and those that hold its text."""
NAMES_A_FILE = (
    "ssl.keystore.location",
    "ssl.crl.location",
    "ssl.engine.location",
    "ssl.providers",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "https.ca.location",
)
PROBE = "probe"
"""librdkafka then looks for the authorities of the machine it is on."""


def refuse_unknown_settings(client: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a setting that clients refuse, with its name and without a secret's value."""
    for name, value in client.items():
        if words := _refusal(name, value):
            raise ConfigurationError(f"[client] {redacted(words)}")
        if words := not_plain(name, value, partial(_takes, name)):
            raise ConfigurationError(f"[client] {name} = {redacted(repr(value))} {words}")


def refuse_what_is_no_client(client: Mapping[str, str], bootstrap: str) -> None:
    """Raise ConfigurationError where these settings together make no client, without a secret's value.

    With OAUTHBEARER none is made: it would ask for its first token. Of AWS_MSK_IAM a token is.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    if logs_in_by_iam(client):
        tokens({"bootstrap.servers": bootstrap})()
        client = without_iam(client)
    if mechanism_of(client) == "OAUTHBEARER":
        return
    try:
        AdminClient({**revealed(client), "log_level": "0"})
    except KafkaException as error:
        raise ConfigurationError(f"[client] {no_client(client, str(error.args[0].str()))}") from None


def no_client(client: Mapping[str, str], words: str) -> str:
    """The reason why no client can be made of these settings, by librdkafka's `words`, and the remedy."""
    words = words.removeprefix("Failed to create admin client: ")
    files = {name: client[name] for name in (*INSIDE, *NAMES_A_FILE) if name in client and client[name] != PROBE}
    if missing := next((name for name, file in files.items() if name in words and not is_there(Path(file))), ""):
        return f"{missing}: no such file: {files[missing]}"
    mechanism = mechanism_of(client)
    if "No provider for SASL mechanism" in words or "Unsupported SASL mechanism" in words:
        return (
            f"sasl.mechanisms {mechanism} is not one that the suite's clients have (PLAIN, SCRAM-SHA-256, "
            f"SCRAM-SHA-512, OAUTHBEARER, {IAM}): give the gate a user of such a kind on the same "
            f"cluster; {redacted(words)}"
        )
    return redacted(words)


def _takes(name: str, value: str) -> bool:
    return not _refusal(name, value)


def _refusal(name: str, value: str) -> str:
    from confluent_kafka import KafkaException  # only a run against real brokers needs librdkafka
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient({**revealed({name: value}), "log_level": "0"})
    except KafkaException as error:
        words = str(error.args[0].str())
        # A setting that needs another setting too is not refused for itself.
        own = words.startswith(("No such configuration property", "Invalid value", "Configuration property"))
        return words if own else ""
    except (TypeError, ValueError) as error:
        return f"{name}: {error}"
    return ""


def inlined(client: Settings, path: Path) -> Settings:
    """Return the settings with the text of their files, which load hosts lack. Raises ConfigurationError by `path`."""
    settings: dict[str, str] = {}
    for name, value in client:
        if name in NAMES_A_FILE:
            raise ConfigurationError(
                f"target file {path}: {name} names a file of this machine, which load hosts do not have; --hosts takes "
                f"PEM files ({', '.join(INSIDE)}), whose text goes to the hosts by their encrypted connections"
            )
        inside = INSIDE.get(name)
        if inside is None or value == PROBE:
            settings[name] = value
            continue
        try:
            text = Path("".join(value)).read_text()  # a Secret's text is its mask
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"target file {path}: {name}: --hosts sends the text of a PEM file to the load hosts, and {value} "
                f"cannot be read as one: {error}"
            ) from None
        settings[inside] = Secret(text) if inside == "ssl.key.pem" else text
    return tuple(sorted(settings.items()))
