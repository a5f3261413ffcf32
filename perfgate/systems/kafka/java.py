"""Kafka's jars and a Java to run them: from Maven coordinates, a mirror or a named build, all of them verified."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.host.disk import cache_dir, is_there
from perfgate.host.maven import Jars, digest, published_sha1, repository
from perfgate.model import DEFAULT_KAFKA_VERSION, ClusterSpec, Scenario
from perfgate.model.changes import release_numbers
from perfgate.model.declared import UNKNOWN_VERSION
from perfgate.model.errors import ConfigurationError
from perfgate.model.pages import page
from perfgate.model.secret import redacted

if TYPE_CHECKING:
    from jgo.env import Environment

LOG4J_VERSION = "2.25.3"
LOG4J = [f"org.apache.logging.log4j:{n}:{LOG4J_VERSION}" for n in ("log4j-api", "log4j-core", "log4j-slf4j-impl")]
KEPT = Path(__file__).with_name("jars.sha256")
"""`sha256sum` of the jars that the suite was tested with."""
ARCHIVES = (".tgz", ".tar.gz", ".tar")
MARKER = "verified-against-published-sha1"
"""A file beside jars that were."""
OF_KAFKA = re.compile(r"(kafka-(clients|server|storage|metadata|raft|tools)|kafka_2\.13)-\d")
CLIENTS = re.compile(r"kafka-clients-(?P<version>\d[\w.-]*?)\.jar")
"""The jar that every distribution has, and whose name holds its version."""
A_BUILD_IS = "--kafka-home (cluster.home) is a distribution of Kafka, its .tgz, or a folder of all its jars"


def java_needed(kafka_version: str) -> int:
    """Return the oldest Java that this Kafka's brokers and tools run on (kafka.apache.org, "Java Version")."""
    return 17 if release_numbers(kafka_version) >= (4,) else 11


def kafka_jars(version: str) -> Jars:
    """Return Kafka `version` from the local cache, or from Maven coordinates on first use.

    Each jar is checked against the repository's published SHA-1 when it is first resolved, and at every start against
    the SHA-256 of the lock file and, for the default version, of `jars.sha256`. Raises ConfigurationError for an
    unknown version, another checksum, or jars of two Kafka versions.
    """
    # kafka-clients is named because a transitive dependency may pull in an older release (seen: 3.9.1 into 4.3.1).
    kafka = [f"org.apache.kafka:{name}:{version}" for name in ("kafka_2.13", "kafka-tools", "kafka-clients")]
    jars = resolved_jars(f"Kafka {version}", "+".join(kafka + LOG4J))
    strays = [jar.name for jar in jars if OF_KAFKA.match(jar.name) and not jar.name.endswith(f"-{version}.jar")]
    if strays:
        raise ConfigurationError(f"Kafka {version} resolved with jars of another version: {', '.join(strays)}")
    return Jars(version=version, jars=jars)


def is_resolved(version: str) -> bool:
    """Whether the cache has this Kafka, verified, as a start without a network needs it."""
    markers = (cache_dir() / "jgo" / "envs" / "org" / "apache" / "kafka" / "kafka_2.13").glob(f"*/{MARKER}")
    return any(next(marker.parent.glob(f"*/kafka-clients-{version}.jar"), None) for marker in markers)


def agent_jar(coordinates: str) -> Path:
    """Return the jar of a Java agent, verified as Kafka's own are. Raises ConfigurationError."""
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
            f"repository (a mirror: {page('air-gapped')})"
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
        sha256 = dict(zip(jars, pool.map(lambda jar: digest(jar, "sha256"), jars), strict=True))
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
        marker = environment.path / MARKER
        if marker.exists():
            return
        entries = (locked[jar.name] for jar in jars)
        published = pool.map(lambda dep: published_sha1(dep.groupId, dep.artifactId, dep.version, "", url), entries)
        wrong = [jar.name for jar, sha1 in zip(jars, published, strict=True) if sha1 and sha1 != digest(jar, "sha1")]
    if wrong:
        raise ConfigurationError(
            f"jars differ from the checksums that the Maven repository publishes: {', '.join(wrong)}; "
            f"remove {environment.path} and the same files under ~/.m2 to fetch them again"
        )
    marker.touch()


def kept_digests() -> dict[str, str]:
    return {name: digest for digest, name in (line.split() for line in KEPT.read_text().splitlines())}


def with_version_of_build(scenario: Scenario) -> Scenario:
    """The scenario with the version of its own build, if any. Raises ConfigurationError for no build of Kafka."""
    if not scenario.cluster.home:
        return scenario
    version = jars_of_build(scenario.cluster.home).version
    return replace(scenario, cluster=replace(scenario.cluster, version=version))


def jars_of(cluster: ClusterSpec) -> Jars:
    """Return the class path of these brokers' build or version (unknown: the default). Raises ConfigurationError."""
    if cluster.home:
        return jars_of_build(cluster.home)
    known = cluster.version != UNKNOWN_VERSION
    return kafka_jars(cluster.version if known else DEFAULT_KAFKA_VERSION)


@cache
def jars_of_build(home: str) -> Jars:
    """Return the class path of the build, which is taken as it is. Raises ConfigurationError."""
    path = Path(home)
    with suppress(RuntimeError):  # nobody of this name has a home
        path = path.expanduser()
    path = path.absolute()
    there = is_there(path)
    folder = _unpacked(path) if there and path.is_file() and path.name.endswith(ARCHIVES) else path
    if not (there and folder.is_dir()):
        raise ConfigurationError(f"{path}: no such folder or archive; {A_BUILD_IS}")
    jars = sorted((folder / "libs" if (folder / "libs").is_dir() else folder).glob("*.jar"))
    versions = sorted({match["version"] for jar in jars if (match := CLIENTS.fullmatch(jar.name))})
    if not versions:
        raise ConfigurationError(f"{path} holds no kafka-clients-*.jar; {A_BUILD_IS}")
    if len(versions) > 1:
        raise ConfigurationError(f"{path} holds jars of several versions of Kafka: {', '.join(versions)}")
    # In front of a distribution's own: what it logs with differs from release to release.
    return Jars(version=versions[0], jars=(*resolved_jars("Log4j", "+".join(LOG4J)), *jars))


@cache
def digest_of_build(home: str) -> str:
    sha256 = hashlib.sha256()
    for jar in jars_of_build(home).jars:
        sha256.update(jar.name.encode())
        with jar.open("rb") as stream:
            sha256.update(hashlib.file_digest(stream, "sha256").digest())
    return sha256.hexdigest()[:16]


def _unpacked(archive: Path) -> Path:
    target = cache_dir() / "builds" / digest(archive, "sha256")[:32]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix="part-"))
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(part, filter="data")
            part.rename(target)
        except (tarfile.TarError, zlib.error, OSError, EOFError) as error:
            raise ConfigurationError(f"{archive} cannot be unpacked: {error}") from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
    folders = [path for path in target.iterdir() if path.is_dir()]
    return folders[0] if len(folders) == 1 and not (target / "libs").is_dir() else target
