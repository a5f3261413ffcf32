"""The brokers' JVM options: those of a run come last, and another collector replaces the suite's own."""

import tempfile
from pathlib import Path

import pytest

from perfgate.host.java import names_collector
from perfgate.host.maven import Jars
from perfgate.model import ClusterSpec
from perfgate.model.errors import TargetError
from perfgate.systems.kafka.attached.java_properties import read_properties
from perfgate.systems.kafka.managed.brokers import JVM_OPTIONS, jvm_options
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.build.java import FakeJava


def test_without_a_wish_they_are_the_suites_own() -> None:
    assert jvm_options(()) == list(JVM_OPTIONS)


def test_what_is_asked_for_comes_last() -> None:
    assert jvm_options(("-Xmx1g",))[-1] == "-Xmx1g"


@pytest.mark.parametrize("collector", ["-XX:+UseZGC", "-XX:+UseParallelGC", "-XX:+UseShenandoahGC", "-XX:+UseG1GC"])
def test_there_is_one_collector(collector: str) -> None:
    """A JVM that is told of two does not start: changes/zgc.toml never measured anything."""
    found = jvm_options((collector, "-Xmx1g"))
    assert [option for option in found if option.startswith("-XX:+Use")] == [collector]
    assert names_collector([collector])
    assert not names_collector(["-XX:-UseG1GC", "-XX:+UseNUMA"])


@pytest.mark.usefixtures("temporary_files")
def test_log_folders_are_formatted_in_english_by_a_jvm_of_the_suites_own_options(
    fake_java: FakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another language a refused setting was a broker that had failed."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=de")
    fake_java.does('echo "in $LC_ALL$LANGUAGE$JAVA_TOOL_OPTIONS."; exit 1')
    jars = Jars(version="4.3.1", jars=())
    cluster = EmbeddedCluster(
        ClusterSpec(brokers=1), java=fake_java.path, jars=jars, logs=tmp_path, cross_zone=False, warm_start=False
    )
    with pytest.raises(TargetError, match=r"in C\.UTF-8\."):
        cluster.start()
    cluster.close()


PRINCIPALS = r" RULE:[1:$1](.*)s/@.*\.COM// "


def test_brokers_read_their_settings_as_they_are_stated(
    fake_java: FakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backslash was lost, so another change was measured than was asked for; and the data of brokers in a folder
    beyond ASCII went into another, whose room was not looked at, and stayed there.
    """
    (folder := tmp_path / "größe 1").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    fake_java.does("exit 1")
    spec = ClusterSpec(brokers=1, config=(("sasl.kerberos.principal.to.local.rules", PRINCIPALS),))
    jars = Jars(version="4.3.1", jars=())
    cluster = EmbeddedCluster(spec, java=fake_java.path, jars=jars, logs=tmp_path, cross_zone=False, warm_start=False)
    try:
        with pytest.raises(TargetError, match="refused"):
            cluster.start()
        (written,) = cluster._data.glob("broker-*.properties")
        of_broker = read_properties(written)
        assert of_broker["sasl.kerberos.principal.to.local.rules"] == PRINCIPALS
        assert [of_broker["log.dirs"]] == [str(at) for at in cluster.log_dirs()]
    finally:
        cluster.close()
