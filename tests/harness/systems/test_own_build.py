"""Builds of Kafka of one's own, mirrors of Maven Central, and which Java and which version brokers have."""

import hashlib
import io
import os
import tarfile
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from requests.utils import get_netrc_auth

from perfgate.fixtures.wiring_kafka import fetch
from perfgate.host import toxiproxy
from perfgate.host.docker_engine import refuse_elsewhere
from perfgate.host.maven import RELEASED, VARIABLE, Mirror, mirror, repository
from perfgate.model import DEFAULT_KAFKA_VERSION, ClusterSpec, with_changes
from perfgate.model.changes import release_numbers
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka import java
from perfgate.systems.kafka.java import java_needed
from perfgate.systems.kafka.managed import containers
from perfgate.systems.kafka.managed.containers import VERSION_LINE, ContainersCluster
from perfgate.systems.kafka.managed.monitoring import exporter_jar
from perfgate.systems.kafka.managed.own_cluster import Monitoring
from perfgate.systems.kafka.managed.tiered import tiered_jar
from tests.harness.build import scenario

LOGGING = "log4j-core.jar"


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the names of what is resolved: whatever it is, it is one jar to log with. Nothing is fetched."""
    asked: list[str] = []
    (tmp_path / LOGGING).write_bytes(b"a jar")

    def resolve(what: str, _endpoint: str) -> tuple[Path, ...]:
        asked.append(what)
        return (tmp_path / LOGGING,)

    monkeypatch.setattr(java, "resolved_jars", resolve)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    java.jars_of_build.cache_clear()
    java.digest_of_build.cache_clear()
    return asked


def distribution(folder: Path, version: str = "4.4.0-SNAPSHOT") -> Path:
    libs = folder / f"kafka_2.13-{version}" / "libs"
    libs.mkdir(parents=True)
    for name in (f"kafka-clients-{version}.jar", f"kafka_2.13-{version}.jar", "scala-library-2.13.16.jar"):
        (libs / name).write_bytes(name.encode())
    return libs.parent


def test_a_distribution_its_libs_and_its_archive_are_one_build(tmp_path: Path) -> None:
    home = distribution(tmp_path)
    archive = tmp_path / "kafka.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(home, home.name)
    for at in (home, home / "libs", archive):
        found = java.jars_of_build(str(at))
        assert found.version == "4.4.0-SNAPSHOT"
        assert found.jars[0] == tmp_path / LOGGING, "what the suite logs with comes first"
        assert {jar.name for jar in found.jars[1:]} == {jar.name for jar in (home / "libs").iterdir()}


def test_a_scenario_on_a_build_has_its_version_and_is_told_from_others(tmp_path: Path) -> None:
    home = distribution(tmp_path)
    row = with_changes(scenario(), [("cluster.home", str(home))])
    assert java.with_version_of_build(row).cluster.version == "4.4.0-SNAPSHOT"
    before = java.digest_of_build(str(home))
    (home / "libs" / "scala-library-2.13.16.jar").write_bytes(b"built anew")
    java.digest_of_build.cache_clear()
    assert java.digest_of_build(str(home)) != before


def test_an_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    archive, evil = tmp_path / "kafka.tar", tmp_path / "evil"
    evil.write_text("x")
    with tarfile.open(archive, "w") as packed:
        packed.add(evil, "../../evil")
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        java.jars_of_build(str(archive))
    assert not list((tmp_path / "cache" / "kafka-perf-gate" / "builds").iterdir())


@pytest.mark.parametrize("home", ["~nobody-of-this-name/kafka", "A" * 300])
def test_what_can_be_no_path_is_no_build(home: str) -> None:
    """A home of nobody, or a name that is too long, was a traceback."""
    with pytest.raises(ConfigurationError, match="no such folder or archive"):
        java.jars_of_build(home)


def test_an_archive_that_is_damaged_is_one_message(tmp_path: Path) -> None:
    """Where the damage was in a file's own bytes it was a traceback."""
    home, packed = distribution(tmp_path), io.BytesIO()
    (home / "libs" / "large.jar").write_bytes(bytes(1_000_000))
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(home, home.name)
    squeeze, archive = zlib.compressobj(wbits=31), tmp_path / "kafka.tgz"
    begin = squeeze.compress(packed.getvalue()[:500_000]) + squeeze.flush(zlib.Z_FULL_FLUSH)
    archive.write_bytes(begin + b"\7" * 64)  # of no type that a block may have
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        java.jars_of_build(str(archive))


@pytest.mark.parametrize(
    ("version", "java"), [("4.3.1", 17), ("4.4.0-SNAPSHOT", 17), ("3.9.1", 11), ("10.0.0", 17), ("2.8.2", 11)]
)
def test_the_java_that_brokers_need(version: str, java: int) -> None:
    assert java_needed(version) == java


def test_versions_compare_by_their_numbers() -> None:
    assert release_numbers("4.10.0-acme3") == (4, 10, 0) > release_numbers("4.9.1")
    assert release_numbers("unknown") == ()
    for released in ("4.3.1", "2.13.16", "2.0.0-alpha1", "33.4.0-jre"):
        assert RELEASED.fullmatch(released)
    for own in ("4.4.0-SNAPSHOT", "4.3.1-acme1", "3.9.1-0-gabcdef"):
        assert not RELEASED.fullmatch(own)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("apache/kafka:4.1.0", "4.1.0"),
        ("registry:5000/team/kafka-3.9.1:prod", "unknown"),
        ("registry.example/kafka:3.9.1-hardened.7", "3.9.1"),
        ("mine", "unknown"),
    ],
)
def test_an_image_has_the_version_of_its_tag_or_an_unknown_one(image: str, version: str) -> None:
    """Every image was called 4.3.1, in run.json and in the report."""
    assert with_changes(scenario(), [("cluster.image", image)]).cluster.version == version
    stated = with_changes(scenario(), [("cluster.version", "4.0.1"), ("cluster.image", "mine")])
    assert stated.cluster.version == "4.0.1"


def test_tools_for_an_image_of_unknown_version_are_the_suites_own(resolved: list[str]) -> None:
    assert java.jars_of(ClusterSpec(version="unknown", image="mine")).version == DEFAULT_KAFKA_VERSION
    assert java.jars_of(ClusterSpec(version="3.9.1")).version == "3.9.1"
    assert resolved == [f"Kafka {DEFAULT_KAFKA_VERSION}", "Kafka 3.9.1"]


def test_a_broker_tells_its_version_in_its_log() -> None:
    line = "[2026-01-01 00:00:00,000] INFO Kafka version: 4.1.0 (org.apache.kafka.common.utils.AppInfoParser)"
    found = VERSION_LINE.search(line)
    assert found is not None
    assert found[1] == "4.1.0"


@pytest.mark.parametrize("url", ["http+docker://localhost", "http://127.0.0.1:2375", "http://localhost:2375"])
def test_an_engine_of_this_machine_is_one(url: str) -> None:
    refuse_elsewhere(url)


def test_an_engine_of_another_machine_is_refused_at_once() -> None:
    """Its brokers never became reachable: 5 min, then INVALID."""
    with pytest.raises(ConfigurationError, match=r"engine is at docker\.invalid:2375 \(DOCKER_HOST"):
        refuse_elsewhere("http://docker.invalid:2375")


def settings_xml(home: Path, mirrors: str, servers: str = "") -> None:
    path = home / ".m2" / "settings.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">'
        f"<servers>{servers}</servers><mirrors>{mirrors}</mirrors></settings>"
    )


def one(of: str, url: str = "https://mirror.example/maven/", name: str = "m") -> str:
    return f"<mirror><id>{name}</id><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>"


@pytest.mark.parametrize(
    ("of", "mirrored"),
    [("*", True), ("central", True), ("external:*", True), ("a,central", True), ("*,!central", False), ("a", False)],
)
def test_mavens_own_mirror_of_central_is_used(tmp_path: Path, of: str, mirrored: bool) -> None:
    assert mirror() is None
    settings_xml(tmp_path / "home", one(of))
    assert mirror() == (Mirror("https://mirror.example/maven") if mirrored else None)


def test_mavens_settings_may_have_either_quotes(tmp_path: Path) -> None:
    """In single ones the namespace stayed, and the mirror was not seen: jars were fetched past it."""
    settings_xml(tmp_path / "home", one("*"))
    path = tmp_path / "home" / ".m2" / "settings.xml"
    path.write_text(path.read_text().replace('"', "'"))
    assert mirror() == Mirror("https://mirror.example/maven")


def test_a_variable_comes_before_mavens_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_xml(tmp_path / "home", one("*"))
    monkeypatch.setenv(VARIABLE, "https://other.example/m2")
    assert mirror() == Mirror("https://other.example/m2")
    monkeypatch.setenv(VARIABLE, "https://user:hunter2@other.example/m2")
    with pytest.raises(ConfigurationError, match="without a user") as caught:
        mirror()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("lacking", ["", "memfd_create"])
def test_a_mirror_s_log_in_goes_by_a_file_that_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """A Python that lacks os.memfd_create, as conda's, ended in an AttributeError."""
    if lacking:
        monkeypatch.delattr(os, lacking)
    monkeypatch.setenv("MIRROR_PASSWORD", "hunter2-of-the-mirror")
    monkeypatch.delenv("NETRC", raising=False)
    login = "<username>gate</username><password>${env.MIRROR_PASSWORD}</password>"
    settings_xml(tmp_path / "home", one("*"), f"<server><id>m</id>{login}</server>")
    with repository() as url:
        assert url == "https://mirror.example/maven"
        netrc = Path(os.environ["NETRC"])
        assert netrc.read_text() == "machine mirror.example login gate password hunter2-of-the-mirror\n"
        assert str(netrc.resolve()).endswith("(deleted)"), "a run that is killed leaves it nowhere"
        assert get_netrc_auth(url) == ("gate", "hunter2-of-the-mirror")
    assert not netrc.exists()
    assert "NETRC" not in os.environ


@pytest.mark.parametrize("password", ["two words of mine", 'a "quoted" one', "back\\slashes\\", "#hunter2"])
def test_a_mirror_s_password_may_have_any_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """A blank, a quote or a backslash made it another one, or the log-in none: 401 of the mirror."""
    monkeypatch.setenv("MIRROR_PASSWORD", password)
    login = "<username>gate</username><password>${env.MIRROR_PASSWORD}</password>"
    settings_xml(tmp_path / "home", one("*"), f"<server><id>m</id>{login}</server>")
    with repository() as url:
        assert get_netrc_auth(url) == ("gate", password)


def test_an_encrypted_password_and_a_broken_file_are_one_line(tmp_path: Path) -> None:
    server = "<server><id>m</id><username>u</username><password>{COQLCE6DU6GtcS5P=}</password></server>"
    settings_xml(tmp_path / "home", one("*"), server)
    with pytest.raises(ConfigurationError, match="is encrypted"):
        mirror()
    (tmp_path / "home" / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(ConfigurationError, match=r"settings\.xml"):
        mirror()


class _Published(BaseHTTPRequestHandler):
    """A repository that publishes the checksum of b"the tier" for whatever it is asked."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(hashlib.sha1(b"the tier", usedforsecurity=False).hexdigest().encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_the_jar_of_the_remote_tier_is_held_against_its_repository_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start of a broker asked the repository: a full run ended at its first failure, and none ran without it."""
    monkeypatch.setenv("M2_REPO", str(tmp_path))
    jar = tmp_path / "org/apache/kafka/kafka-storage/9.8.7/kafka-storage-9.8.7-test.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"the tier")
    toxiproxy.built().parent.mkdir(parents=True)
    toxiproxy.built().touch()
    exporter_jar.cache_clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Published) as http:
        monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{http.server_port}")
        threading.Thread(target=http.serve_forever, daemon=True).start()
        fetch(["9.8.7"], print)
        assert tiered_jar("9.8.7") == jar
        http.shutdown()
    exporter_jar.cache_clear()
    assert len([path for path in _Published.asked if "9.8.7" in path]) == 1
    tiered_jar.cache_clear()
    assert tiered_jar("9.8.7") == jar, "a later run needs no repository"
    tiered_jar.cache_clear()
    jar.write_bytes(b"another")
    with pytest.raises(ConfigurationError, match=r"9\.8\.7-test\.jar differs from what the Maven repository publishes"):
        tiered_jar("9.8.7")


def test_a_maven_repository_that_is_only_read_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("M2_REPO", str(tmp_path))
    jar = tmp_path / "org/apache/kafka/kafka-storage/9.8.6/kafka-storage-9.8.6-test.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"the tier")
    jar.with_name(f"{jar.name}.{java.MARKER}").symlink_to(tmp_path / "nowhere" / "marker")  # for root, who may write
    before = len(_Published.asked)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Published) as http:
        monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{http.server_port}")
        threading.Thread(target=http.serve_forever, daemon=True).start()
        for _ in range(2):
            tiered_jar.cache_clear()
            assert tiered_jar("9.8.6") == jar
        http.shutdown()
    assert len(_Published.asked) == before + 2


@pytest.mark.usefixtures("fake_docker")
def test_files_are_mounted_for_an_images_own_user_to_read_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 077 no broker in a container could read its exporter's jar or rules: all ended at once, BROKEN."""
    (jar := tmp_path / "agent.jar").touch(mode=0o600)
    monkeypatch.setattr(containers, "exporter_jar", lambda: jar)
    cluster = ContainersCluster(
        ClusterSpec(), logs=tmp_path, toxiproxy_image=None, monitoring=Monitoring(url="http://prometheus:9090")
    )
    before = os.umask(0o077)
    try:
        mounted = [Path(at) for at in cluster._node(1, "id").volumes]
    finally:
        os.umask(before)
    assert sorted(path.name for path in mounted) == ["agent.jar", "jmx.yml"]
    assert [path for path in mounted if path.stat().st_mode & 0o444 != 0o444] == []
