"""Tiered storage (KIP-405) of brokers that this suite starts: Kafka's own LocalTieredStorage, a folder."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from perfgate.host.maven import digest, published_sha1, repository
from perfgate.model import ClusterSpec
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import redacted
from perfgate.systems.kafka.java import MARKER

ENABLED, MANAGER = "remote.log.storage.system.enable", "remote.log.storage.manager.class.name"
LOCAL = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
"""Of the tests of Kafka's storage module, whose jar is published; its quick start uses the same."""
FOLDER = "remote-tier"
FETCH_TIMEOUT_S = 60


def is_tiered(spec: ClusterSpec) -> bool:
    """Whether brokers have a remote tier, and state none of their own."""
    config = dict(spec.config)
    return config.get(ENABLED) == "true" and MANAGER not in config


@functools.cache
def tiered_jar(version: str) -> Path:
    """Return the jar with the remote tier of this Kafka, fetched and checked once. Raises ConfigurationError."""
    group, artifact, classifier = "org.apache.kafka", "kafka-storage", "test"
    try:
        with repository() as url:
            from jgo.maven import MavenContext  # takes 0.1 s, and only such a cluster needs it

            context = MavenContext(remote_repos={"central": url}, timeout=FETCH_TIMEOUT_S)
            jar = Path(context.project(group, artifact).at_version(version).artifact(classifier=classifier).resolve())
            marker = jar.with_name(f"{jar.name}.{MARKER}")
            kept = marker.read_text() if marker.exists() else ""
            published = kept or published_sha1(group, artifact, version, classifier, url)
            if published and published != digest(jar, "sha1"):
                raise ConfigurationError(
                    f"{jar} differs from what the Maven repository publishes; remove it to fetch it again"
                )
            if published and not kept:
                with suppress(OSError):  # a repository that is only read is asked again the next time
                    marker.write_text(published)
    except ConfigurationError:
        raise
    except Exception as error:  # whatever its HTTP layer raises; all of it means the same to the user
        raise ConfigurationError(
            f"tiered storage: {artifact}-{version}-{classifier}.jar cannot be had from the Maven repository "
            f"({type(error).__name__}: {redacted(str(error))})"
        ) from error
    return jar


def tiered_settings(spec: ClusterSpec, folder: Path, jar: Path) -> dict[str, str]:
    """Return the brokers' settings of a remote tier in `folder`, which all of them share; `jar`: what it is made of."""
    return {
        MANAGER: LOCAL,
        "remote.log.storage.manager.class.path": str(jar),
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(folder / FOLDER),
        "remote.log.metadata.manager.listener.name": "INTERNAL",
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(min(3, spec.brokers)),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    }


def local_share(topic: str, replicas: int, logs: Iterable[Path], tier: Path) -> float:
    """Return the bytes of a topic in each replica's `logs` over those in the remote `tier`; infinity: none there."""
    own = _bytes_of(path for folder in logs for path in folder.glob(f"{topic}-*/*.log"))
    remote = _bytes_of(path for path in tier.rglob("*.log") if f"/{topic}-" in str(path))
    return own / replicas / remote if remote else float("inf")


def _bytes_of(files: Iterable[Path]) -> int:
    size = 0
    for file in files:
        with suppress(FileNotFoundError):  # brokers delete and rename files meanwhile
            size += file.stat().st_size
    return size
