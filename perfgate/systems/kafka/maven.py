"""The Maven repository that jars come from: Maven Central, or the mirror that a person's Maven uses for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret

VARIABLE = "KAFKA_PERF_GATE_MAVEN"
"""The address of a mirror of Maven Central; comes before that of settings.xml."""
OF_CENTRAL = re.compile(r"\*|external:(http:)?\*|central")
PLACEHOLDER = re.compile(r"\$\{env\.([^}]+)\}")


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where a mirror is, and with which user and password."""

    url: str
    username: str = ""
    password: str = ""


def mirror() -> Mirror | None:
    """Return the mirror of Maven Central that is stated by VARIABLE or in Maven's settings.xml; None where none is.

    Raises ConfigurationError for what cannot be used.
    """
    if stated := os.environ.get(VARIABLE, ""):
        return Mirror(_checked(stated, VARIABLE))
    path = Path.home() / ".m2" / "settings.xml"
    if not path.is_file():
        return None
    try:
        settings = ElementTree.fromstring(re.sub(r'\sxmlns="[^"]*"', "", path.read_text(), count=1))  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for one in settings.iterfind("mirrors/mirror"):
        if _mirrors_central((one.findtext("mirrorOf") or "").strip()):
            url = _checked(_value(path, one.findtext("url")), f"{path}: the mirror's url")
            return Mirror(url, *_login(path, settings, (one.findtext("id") or "").strip()))
    return None


def _mirrors_central(of: str) -> bool:
    parts = [part.strip() for part in of.split(",")]
    return "!central" not in parts and any(OF_CENTRAL.fullmatch(part) for part in parts)


def _login(path: Path, settings: ElementTree.Element, name: str) -> tuple[str, str]:
    for server in settings.iterfind("servers/server"):
        if (server.findtext("id") or "").strip() == name:
            username, password = (_value(path, server.findtext(key)) for key in ("username", "password"))
            if re.fullmatch(r"\{.+\}", password):
                raise ConfigurationError(
                    f"{path}: the password of server {name} is encrypted, which Maven alone can read: state it as "
                    "${env.NAME} there, or the mirror's address in " + VARIABLE
                )
            return username, password
    return "", ""


def _value(path: Path, text: str | None) -> str:
    def of_environment(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise ConfigurationError(f"{path}: the environment variable {found[1]} is not set")
        return os.environ[found[1]]

    return PLACEHOLDER.sub(of_environment, (text or "").strip())


def _checked(url: str, where: str) -> str:
    if not re.match(r"https?://[^\s/]+", url) or "@" in urlsplit(url).netloc:
        raise ConfigurationError(
            f"{where} must read like https://mirror.example.org/maven, without a user (that stands in ~/.netrc, or in "
            "settings.xml as the mirror's server)"
        )
    return url.rstrip("/")


@contextmanager
def repository() -> Iterator[str]:
    """Give the repository's address; while open, requests to a mirror that asks for it are made with its log-in.

    The log-in goes into a netrc file in memory, which a run that is killed leaves nowhere: an address with a password
    in it would be kept in what is cached, and shown in errors.
    """
    from jgo.constants import MAVEN_CENTRAL_URL

    found = mirror()
    if found is None or not found.username:
        yield found.url if found else MAVEN_CENTRAL_URL
        return
    Secret(found.password)
    before = os.environ.get("NETRC")
    usual = Path(before) if before else Path.home() / ".netrc"
    with os.fdopen(os.memfd_create("netrc"), "w") as file:
        file.write(f"machine {urlsplit(found.url).hostname} login {found.username} password {found.password}\n")
        file.write(usual.read_text() if usual.is_file() else "")
        file.flush()
        os.environ["NETRC"] = f"/proc/self/fd/{file.fileno()}"
        try:
            yield found.url
        finally:
            if before is None:
                del os.environ["NETRC"]
            else:
                os.environ["NETRC"] = before
