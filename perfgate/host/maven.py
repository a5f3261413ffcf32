"""A repository of Maven: Maven Central or a mirror of it with its log-in, and the checksums that it publishes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from perfgate.host.disk import home
from perfgate.host.session import in_memory
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret

FETCH_TIMEOUT_S = 60
RELEASED = re.compile(r"\d+(\.\d+)*([.-](Final|GA|RELEASE|jre|android|alpha\d*|beta\d*))?")
"""Versions of public releases; those of forks and snapshots have other parts."""
VARIABLE = "KAFKA_PERF_GATE_MAVEN"
"""Environment variable with the address of a mirror of Maven Central; it overrides settings.xml."""
XMLNS = r"""\sxmlns\s*=\s*("[^"]*"|'[^']*')"""
OF_CENTRAL = re.compile(r"\*|external:(http:)?\*|central")
PLACEHOLDER = re.compile(r"\$\{env\.([^}]+)\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Jars:
    version: str
    jars: tuple[Path, ...]

    @property
    def classpath(self) -> str:
        return os.pathsep.join(str(jar) for jar in self.jars)


def digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def published_sha1(group: str, artifact: str, version: str, classifier: str, url: str) -> str:
    """The SHA-1 that the repository at `url` publishes for a jar; empty: it has none. Raises ConfigurationError."""
    import requests  # as jgo does, and only when jars are new

    folder = "/".join((*group.split("."), artifact, version))
    name = "-".join(part for part in (artifact, version, classifier) if part)
    url = f"{url.rstrip('/')}/{folder}/{name}.jar.sha1"
    try:
        reply = requests.get(url, timeout=FETCH_TIMEOUT_S)
        if reply.status_code == requests.codes.not_found and not RELEASED.fullmatch(version):
            return ""
        reply.raise_for_status()
        return reply.text.split()[0]
    except (OSError, IndexError) as error:
        raise ConfigurationError(f"no published checksum for {artifact} {version} ({url}): {error}") from error


@dataclass(frozen=True, slots=True)
class Mirror:
    url: str
    username: str = ""
    password: str = ""


def mirror() -> Mirror | None:
    """The mirror of Maven Central in VARIABLE or Maven's settings.xml; None: none. Raises ConfigurationError."""
    if stated := os.environ.get(VARIABLE, ""):
        return Mirror(_checked(stated, VARIABLE))
    path = home() / ".m2" / "settings.xml"
    if not path.is_file():
        return None
    try:
        settings = ElementTree.fromstring(re.sub(XMLNS, "", path.read_text(), count=1))  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for element in settings.iterfind("mirrors/mirror"):
        if _mirrors_central((element.findtext("mirrorOf") or "").strip()):
            url = _checked(_value(path, element.findtext("url")), f"{path}: the mirror's url")
            return Mirror(url, *_login(path, settings, (element.findtext("id") or "").strip()))
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
    def of_environment(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        if name not in os.environ:
            raise ConfigurationError(f"{path}: the environment variable {name} is not set")
        return os.environ[name]

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
    """The repository's address; while the context is open, requests to a mirror with a log-in use it.

    The log-in goes into a netrc file in memory, which a killed run does not leave behind: an address with a password
    in it would be cached, and shown in errors.
    """
    from jgo.constants import MAVEN_CENTRAL_URL

    chosen = mirror()
    if chosen is None or not chosen.username:
        yield chosen.url if chosen else MAVEN_CENTRAL_URL
        return
    Secret(chosen.password)
    before = os.environ.get("NETRC")
    usual = Path(before) if before else home() / ".netrc"
    with in_memory("netrc") as file:
        username, password = (re.sub(r'([\s"\\])', r"\\\1", text) for text in (chosen.username, chosen.password))
        file.write(f"machine {urlsplit(chosen.url).hostname} login {username} password {password}\n".encode())
        file.write(usual.read_bytes() if usual.is_file() else b"")
        file.flush()
        os.environ["NETRC"] = f"/proc/self/fd/{file.fileno()}"
        try:
            yield chosen.url
        finally:
            if before is None:
                del os.environ["NETRC"]
            else:
                os.environ["NETRC"] = before
