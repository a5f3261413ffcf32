"""Real brokers as clients on load hosts see them: with the PEM files inside the settings, and real zones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perfgate.load.hosts_file import HostsFile
from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.iam import MECHANISM as IAM
from perfgate.systems.kafka.client.iam import logs_in_by_iam

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


def for_load_hosts(described: DescribedTarget, file: HostsFile | None) -> DescribedTarget:
    """Return the target as the hosts of the file need it; None: no file. Raises ConfigurationError.

    Clients in a real other zone use the same servers as the others.
    """
    if file is None:
        return described
    if logs_in_by_iam(dict(described.client)) and not file.here:
        raise ConfigurationError(
            f"target file {described.path}: --hosts with {IAM}: each client signs with AWS credentials, and those of "
            "this machine are not taken to others; leave --hosts out or use local:N"
        )
    if not file.here and not file.scheduler:  # a scheduler's workers are refused settings to log in
        described = replace(described, client=inlined(described.client, described.path))
    return replace(described, cross_zone_bootstrap=described.bootstrap) if file.zones.real else described


def inlined(client: Settings, path: Path) -> Settings:
    """Return the settings with no file in them: a load host has none of this machine's files.

    `path`: the target file. Raises ConfigurationError for a file that cannot be read, or that no setting can hold.
    """
    found: dict[str, str] = {}
    for name, value in client:
        if name in NAMES_A_FILE:
            raise ConfigurationError(
                f"target file {path}: {name} names a file of this machine, which load hosts do not have; --hosts takes "
                f"PEM files ({', '.join(INSIDE)}), whose text goes to the hosts by their encrypted connections"
            )
        inside = INSIDE.get(name)
        if inside is None or value == PROBE:
            found[name] = value
            continue
        try:
            text = Path("".join(value)).read_text()  # a Secret's text is its mask
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"target file {path}: {name}: --hosts sends the text of a PEM file to the load hosts, and {value} "
                f"cannot be read as one: {error}"
            ) from None
        found[inside] = Secret(text) if inside == "ssl.key.pem" else text
    return tuple(sorted(found.items()))
