"""Pulsar's jars are those of a list with their hashes: nothing else is run, and what lacks is said."""

import hashlib
import re
from pathlib import Path

import pytest

from perfgate.host import maven
from perfgate.model import DEFAULT_PULSAR_VERSION
from perfgate.model.errors import ConfigurationError
from perfgate.systems.pulsar import jars
from perfgate.systems.pulsar.jars import kept_digests, known_versions, pulsar_jars, tool_version

LINE = re.compile(r"[0-9a-f]{64}  [\w.-]+(:[\w.-]+){2,3}")
NAME = "org.example:one:1.0"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the jar of a list of one, in a repository that has it; no other one is reached."""
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.setenv(maven.VARIABLE, "http://127.0.0.1:9/maven")
    jar = tmp_path / "m2" / "org" / "example" / "one" / "1.0" / "one-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"a jar")
    (tmp_path / f"pulsar-1.0.0{jars.SUFFIX}").write_text(f"{hashlib.sha256(b'a jar').hexdigest()}  {NAME}\n")
    return jar


@pytest.mark.parametrize("version", known_versions())
def test_lists_name_each_jar_once_with_its_hash_and_have_all_roles(version: str) -> None:
    lines = (jars.LISTS / f"pulsar-{version}{jars.SUFFIX}").read_text().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    names = list(kept_digests(version))
    assert len({*names}) == len(lines) > 300
    artifacts = {name.split(":")[1] for name in names}
    assert {"pulsar-broker", "bookkeeper-server", "log4j-core", "vertx-http-server", "prometheus-metrics-provider"} <= (
        artifacts
    )
    assert f"org.apache.pulsar:pulsar-broker:{version}" in names
    assert not [name for name in names if "etcd" in name]


def test_the_default_version_has_a_list_and_its_own_tool() -> None:
    assert DEFAULT_PULSAR_VERSION in known_versions()
    assert "org.apache.pulsar:pulsar-testclient:4.0.8" in kept_digests(DEFAULT_PULSAR_VERSION)


def test_an_unknown_version_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"Pulsar 3\.9\.9 is not among .*: 4\.0\.8, 4\.2\.4"):
        pulsar_jars("3.9.9")


def test_a_jar_is_found_and_another_one_in_its_place_is_refused(repository: Path, tmp_path: Path) -> None:
    found = pulsar_jars("1.0.0", tmp_path)
    assert (found.version, found.jars, found.classpath) == ("1.0.0", (repository,), str(repository))
    repository.write_bytes(b"another jar")
    with pytest.raises(ConfigurationError, match=r"not the jars of Pulsar 1\.0\.0 .*one-1\.0\.jar"):
        pulsar_jars("1.0.0", tmp_path)


def test_a_jar_that_cannot_be_had_is_named(repository: Path, tmp_path: Path) -> None:
    repository.unlink()
    with pytest.raises(ConfigurationError, match=r"org\.example:one:1\.0 cannot be had .*docs/air-gapped\.md"):
        pulsar_jars("1.0.0", tmp_path)


@pytest.mark.parametrize(("version", "tool"), [("4.0.8", "4.0.8"), ("4.2.4", "4.0.8"), ("9.9.9", "4.0.8")])
def test_the_tool_is_of_the_cluster_or_of_the_default(version: str, tool: str) -> None:
    """4.2.4 has no pulsar-testclient; an attached cluster may be of any version."""
    assert tool_version(version) == tool
