"""A build of Kafka that a person names (--kafka-home): a distribution, its archive, or a folder of jars."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from perfgate.host.cache import cache_dir
from perfgate.model import DEFAULT_KAFKA_VERSION, ClusterSpec, Scenario
from perfgate.model.declared import UNKNOWN_VERSION
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.java import LOG4J, KafkaJars, kafka_jars, resolved_jars

ARCHIVES = (".tgz", ".tar.gz", ".tar")
CLIENTS = re.compile(r"kafka-clients-(?P<version>\d[\w.-]*?)\.jar")
"""The jar that every distribution has, and whose name tells its version."""
IS = "--kafka-home (cluster.home) is a distribution of Kafka, its .tgz, or a folder of all its jars"


def with_version_of_build(scenario: Scenario) -> Scenario:
    """Return the scenario with the version that its own build says, where it is run on one.

    Raises ConfigurationError for what is no build of Kafka.
    """
    if not scenario.cluster.home:
        return scenario
    version = jars_of_build(scenario.cluster.home).version
    return replace(scenario, cluster=replace(scenario.cluster, kafka_version=version))


def jars_of(cluster: ClusterSpec) -> KafkaJars:
    """Return the class path of these brokers: of their own build, or of their version. Raises ConfigurationError.

    Of an image that does not tell its version: of the suite's own.
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
        raise ConfigurationError(f"{path}: no such folder or archive; {IS}")
    jars = sorted((folder / "libs" if (folder / "libs").is_dir() else folder).glob("*.jar"))
    versions = sorted({found["version"] for jar in jars if (found := CLIENTS.fullmatch(jar.name))})
    if not versions:
        raise ConfigurationError(f"{path} holds no kafka-clients-*.jar; {IS}")
    if len(versions) > 1:
        raise ConfigurationError(f"{path} holds jars of several versions of Kafka: {', '.join(versions)}")
    # In front of a distribution's own: what it logs with differs from release to release.
    return KafkaJars(version=versions[0], jars=(*resolved_jars("Log4j", "+".join(LOG4J)), *jars))


@cache
def digest_of_build(home: str) -> str:
    """Return what tells this build from others: the beginning of the SHA-256 of all its jars."""
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
