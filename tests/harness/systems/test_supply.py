"""Packages and jars that are installed and run are those that the suite was tested with, by their hashes."""

import re
from pathlib import Path

import pytest
from packaging.version import Version

from perfgate.load.agent import PACKAGES
from perfgate.model import DEFAULT_KAFKA_VERSION
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka import java
from perfgate.systems.kafka.java import agent_jar, kafka_jars, kept_digests
from perfgate.systems.kafka.managed.monitoring import AGENT
from tests.documents import lowest

ROOT = Path(__file__).parents[3]
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;]+)")


MORE = ("requirements-dev.lock", "requirements-hosts.lock", "perfgate/load/requirements-agent.lock")
LOCKS = ("requirements.lock", *MORE, "requirements-no-deps.txt")


def pins(name: str) -> dict[str, str]:
    """Return the version of each package that a requirements file pins, by its normalised name."""
    found = (PINNED.match(line) for line in (ROOT / name).read_text().splitlines())
    return {re.sub(r"[-_.]+", "-", pin[1]).lower(): pin[2] for pin in found if pin}


@pytest.mark.parametrize("name", ["requirements", "requirements-dev", "requirements-hosts"])
def test_the_lock_has_what_the_requirements_ask_for(name: str) -> None:
    wanted, locked = pins(f"{name}.txt"), pins(f"{name}.lock")
    assert wanted
    assert {package: locked.get(package) for package in wanted} == wanted, "run: make lock"


@pytest.mark.parametrize("other", MORE)
@pytest.mark.parametrize("one", ["requirements.lock", "requirements-hosts.lock"])
def test_the_locks_agree(one: str, other: str) -> None:
    run, more = pins(one), pins(other)
    assert {name: more[name] for name in run.keys() & more.keys()} == {
        name: run[name] for name in run.keys() & more.keys()
    }


def test_a_load_host_gets_what_it_is_checked_for() -> None:
    """`install = true` installs this lock; without it a host is asked for the versions of these."""
    wanted = [line for line in (ROOT / "requirements-agent.txt").read_text().splitlines() if line[:1].isalpha()]
    assert {*PACKAGES, *wanted} <= pins(MORE[-1]).keys()


def test_the_page_on_load_hosts_has_the_versions_that_they_are_given() -> None:
    """It installed the newest ones on the run's machine, and every run was refused."""
    text = (ROOT / "docs" / "hosts-ssh.md").read_text()
    (line,) = re.findall(r"^    pip install (confluent-kafka==.+)$", text, re.MULTILINE)
    given = pins(MORE[-1])
    assert line.split() == [f"{name}=={given[name]}" for name in PACKAGES]


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_a_hash(name: str) -> None:
    text = re.sub(r"\\\n\s*", " ", (ROOT / name).read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if "--hash=sha256:" not in line] == []
    assert "--require-hashes" in (ROOT / "Makefile").read_text()


def test_an_installed_package_asks_for_what_the_checkout_is_tested_with() -> None:
    asked, pinned = lowest.ranges(), pins("requirements.txt")
    assert {*asked} == {*pinned} - {"hatchling"}, "which builds the package"
    for name, (least, too_new) in asked.items():
        assert Version(least) <= Version(pinned[name]) < Version(too_new), name


def test_the_lower_ends_that_are_tested_are_those_of_the_package() -> None:
    assert lowest.FILE.read_text() == lowest.text(), "run: make lock"
    assert pins(lowest.FILE.name) == {name: least for name, (least, _) in lowest.ranges().items()}


def test_all_jars_of_the_default_version_are_kept_by_their_hash() -> None:
    names = {jar.name for jar in (*kafka_jars(DEFAULT_KAFKA_VERSION).jars, agent_jar(AGENT))}
    assert names == kept_digests().keys()


def test_a_jar_that_is_not_the_tested_one_is_refused_though_its_lock_file_agrees(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Someone in the middle of the first download changes the jar and the checksum beside it."""
    (tmp_path / "kept").write_text(java.KEPT.read_text().replace("  kafka-server-4", "0  kafka-server-4"))
    monkeypatch.setattr(java, "KEPT", tmp_path / "kept")
    with pytest.raises(
        ConfigurationError, match=r"not the jars that the suite was tested with .*kafka-server-4\.3\.1\.jar"
    ):
        kafka_jars("4.3.1")
