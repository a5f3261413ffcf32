"""Pulsar's jars: a frozen list of coordinates a version, each with its SHA-256, from a repository of Maven.

The lists are next to this module. Maven cannot resolve Pulsar's jars by their POMs alone: 4.0.8's depend on a jar that
was never published (bcprov), 4.2.4's on several versions of the same library. Each list was tested: broker, bookie and
ZooKeeper run on all of it, and nothing else is ever fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.host.maven import Jars, digest, repository
from perfgate.model.errors import ConfigurationError
from perfgate.model.pages import page
from perfgate.model.secret import redacted
from perfgate.model.system import DEFAULT_PULSAR_VERSION

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext

SUFFIX = ".jars.sha256"
LISTS = Path(__file__).parent
AT_A_TIME = 8
"""Parallel downloads: 315 jars, 232 MB, took 78 s."""
FETCH_TIMEOUT_S = 60
TRIES = 3
TOOL = ":pulsar-testclient:"
JAVA_NEEDED = 17
"""Pulsar 4.0 and 4.2 are compiled for it (pulsar.apache.org, "Pulsar Java runtime")."""


def known_versions(lists: Path = LISTS) -> list[str]:
    """Versions that can be started, those of which the folder has lists, oldest first."""
    names = [path.name.removeprefix("pulsar-").removesuffix(SUFFIX) for path in lists.glob(f"pulsar-*{SUFFIX}")]
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")])


def kept_digests(version: str, lists: Path = LISTS) -> Mapping[str, str]:
    """SHA-256 of every jar by group:artifact[:classifier]:version. Raises ConfigurationError without a list."""
    path = lists / f"pulsar-{version}{SUFFIX}"
    if version not in (known := known_versions(lists)):
        raise ConfigurationError(
            f"Pulsar {version} is not among those whose jars are known: {', '.join(known)}; another one "
            "is measured as a cluster of your own (--target FILE.toml)"
        )
    return {name: sha256 for sha256, name in (line.split() for line in path.read_text().splitlines())}


def pulsar_jars(version: str, lists: Path = LISTS) -> Jars:
    """Pulsar `version` from the local repository (~/.m2), where missing jars are fetched first; all are checked.

    Raises ConfigurationError for an unknown version, and for a jar that cannot be fetched, or is not the tested jar.
    """
    expected = kept_digests(version, lists)
    try:
        with repository() as url, ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
            from jgo.maven import MavenContext  # takes 0.1 s, and only a run that starts brokers fetches jars

            context = MavenContext(remote_repos={"central": url}, timeout=FETCH_TIMEOUT_S)
            jars = tuple(pool.map(lambda name: _jar(context, name), expected))
            actual = pool.map(lambda jar: digest(jar, "sha256"), jars)
            checked = zip(jars, actual, expected.values(), strict=True)
            other = [str(jar) for jar, sha256, listed in checked if sha256 != listed]
    except OSError as error:
        raise ConfigurationError(f"the jars of Pulsar {version} cannot be read: {redacted(str(error))}") from error
    if other:
        raise ConfigurationError(
            f"not the jars of Pulsar {version} that the suite was tested with: {', '.join(other)}; use none of them, "
            "find out where they came from, then remove these files to fetch them again"
        )
    return Jars(version=version, jars=jars)


def tool_version(version: str) -> str:
    """The Pulsar whose pulsar-perf is used: where this one has none the default, which speaks with any later one."""
    known = version in known_versions() and any(TOOL in name for name in kept_digests(version))
    return version if known else DEFAULT_PULSAR_VERSION


def tool_jars(version: str) -> Jars:
    """The jars of the pulsar-perf for this Pulsar. Raises ConfigurationError as :func:`pulsar_jars` does."""
    return pulsar_jars(tool_version(version))


def are_here(version: str) -> bool:
    """Whether the local repository has every jar of this Pulsar; their checksums are not looked at."""
    from jgo.maven import MavenContext

    context = MavenContext()
    return all((path := _wanted(context, name).cached_path) and path.exists() for name in kept_digests(version))


def _wanted(context: MavenContext, coordinates: str) -> Artifact:
    group, artifact, *classifier, version = coordinates.split(":")
    return context.project(group, artifact).at_version(version).artifact(classifier="".join(classifier))


def _jar(context: MavenContext, coordinates: str) -> Path:
    wanted = _wanted(context, coordinates)
    last: Exception | None = None
    for _ in range(TRIES):
        try:
            return Path(wanted.resolve())
        except Exception as error:  # any error of its HTTP layer: all mean the same to the user
            last = error
    raise ConfigurationError(
        f"{coordinates} cannot be had from the Maven repository ({type(last).__name__}: {redacted(str(last))}); check "
        f"the connection to it (a mirror: {page('air-gapped')})"
    ) from last
