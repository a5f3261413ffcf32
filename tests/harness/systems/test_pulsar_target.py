"""The embedded target of Pulsar: what it refuses before it starts anything, and what it tries again."""

import math
import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import javaproperties
import pytest

from perfgate.host.maven import Jars
from perfgate.model import ClusterSpec
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError
from perfgate.systems.pulsar.managed.embedded import PulsarTarget
from perfgate.systems.pulsar.managed.nodes import last_words
from tests.harness.build import scenario
from tests.harness.build.java import FakeJava

SPEC = ClusterSpec(system="pulsar", bookies=3)


class Target(PulsarTarget):
    """Its jars are there, and each of its clusters starts, or fails to, as `ends` says next."""

    def __init__(self, folder: Path, *ends: BaseException | None) -> None:
        super().__init__(log_folder=folder, cross_zone=False, say=print, jars=jars_of)
        self.ends = list(ends)
        self.made = self.closed = 0

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], Any]:
        return partial(self._made_of, spec)

    def _made_of(self, spec: ClusterSpec) -> Any:
        self.made += 1
        made = Mock(start=Mock(side_effect=self.ends.pop(0)), close=self._has_closed)
        made.spec = spec  # as an argument it would say what the mock is like
        return made

    def _has_closed(self) -> None:
        self.closed += 1


def jars_of(version: str) -> Jars:
    return Jars(version=version, jars=(Path("/jars/pulsar-broker.jar"),))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image": "apachepulsar/pulsar:4.0.8"}, r"--pulsar-image.* need --target containers.*--pulsar-version"),
        ({"memory_mib_per_broker": 512}, "--broker-memory"),
        ({"home": "/kafka"}, r"cluster\.home"),
        ({"security": "tls"}, r"cluster\.security"),
        ({"controllers": 3}, r"cluster\.controllers"),
        ({"log_dirs": 2}, r"cluster\.log-dirs"),
        ({"bookies": 0}, r"cluster\.bookies"),
    ],
)
def test_what_processes_of_pulsar_cannot_have_is_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Target(tmp_path).prepare([SPEC, ClusterSpec(**{"system": "pulsar", "bookies": 3, **given})])


@pytest.mark.usefixtures("fake_java")
def test_memory_is_asked_for_before_a_start_and_before_a_second_cluster(
    tmp_path: Path, memory: Callable[..., None]
) -> None:
    memory(1_000)
    with pytest.raises(ConfigurationError, match=r"too little memory: Pulsar's nodes take about .* 1,000 MiB are"):
        Target(tmp_path).prepare([SPEC])
    memory(64_000, 1_000)
    with pytest.raises(ConfigurationError, match=r"too little memory: .* 1,000 MiB are"):
        Target(tmp_path).prepare([SPEC])  # the kernel ended brokers in a container of 1,000 MiB: BROKEN
    memory(8_000)
    made = Target(tmp_path, None)
    made.prepare([SPEC])
    first = made.cluster(SPEC)
    assert made.cluster(SPEC) is first
    memory(1_000)
    with pytest.raises(ConfigurationError, match="a second cluster side by side"):
        made.beside(SPEC)
    assert made.made == 1


def test_memory_that_is_less_at_a_later_pair_gives_up_nothing_that_was_measured(
    tmp_path: Path, memory: Callable[..., None]
) -> None:
    """It was wrong usage at the fifth pair of clusters, and every scenario that was not decided yet was INVALID."""
    made = Target(tmp_path, *[None] * 5)
    made.cluster(SPEC)
    memory(1_000)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="a second cluster side by side"):
            made.beside(SPEC)
    for free in (16_000, 1_000):
        memory(free)
        made.close()
        made.cluster(SPEC)
        made.beside(SPEC)
    assert made.made == 5


def test_room_is_asked_for_twice_what_is_written_for_bookies_write_it_twice(tmp_path: Path) -> None:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    Target(tmp_path).check_room(0.3 * free, math.inf)
    with pytest.raises(ConfigurationError, match="too little disk"):
        Target(tmp_path).check_room(0.7 * free, 0.0)


def test_a_port_that_was_taken_is_tried_again_once_and_nothing_else_is(tmp_path: Path) -> None:
    taken, again = TargetError("java.net.BindException: Address already in use"), TargetError("BindException: again")
    cases: list[tuple[list[BaseException | None], str, int]] = [
        ([taken, None], "", 1),
        ([taken, again, None], "again", 2),
        ([BrokersFailedError("bookie 11 exited"), None], "bookie 11", 1),
    ]
    for ends, words, closed in cases:
        made = Target(tmp_path, *ends)
        with pytest.raises(TargetError, match=words) if words else nullcontext():
            assert made.start(SPEC, tmp_path)
        assert made.closed == closed, "whatever went wrong, nothing of it is left"


@pytest.mark.usefixtures("fake_java")
def test_of_two_sides_that_differ_in_version_or_jvm_neither_starts_with_a_cache(
    tmp_path: Path, memory: Callable[..., None]
) -> None:
    memory(16_000)
    other = ClusterSpec(system="pulsar", bookies=3, jvm_options=("-XX:+UseZGC",))
    fsync = ClusterSpec(system="pulsar", bookies=3, bookie_config=(("journalSyncData", "true"),))
    for specs, compared, warm in (
        ((SPEC, other), True, False),
        ((SPEC, other), False, True),
        ((SPEC, fsync), True, True),
    ):
        made = PulsarTarget(log_folder=tmp_path, cross_zone=False, say=print, compared=compared, jars=jars_of)
        made.prepare(specs)
        cluster = made._maker(SPEC, tmp_path)()
        try:
            assert cluster.facts()["aot_cache"] is warm
        finally:
            cluster.close()


def test_nodes_read_their_settings_as_they_are_stated(
    fake_java: FakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of bookies in a folder beyond ASCII went into another, whose room was not looked at, and stayed there."""
    (folder := tmp_path / "größe 1").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    target = PulsarTarget(log_folder=tmp_path, cross_zone=False, say=print, jars=jars_of)
    cluster = target._maker(replace(SPEC, config=(("brokerClientAuthenticationParameters", r"a\b"),)), tmp_path)()
    fake_java.does("exit 1")
    try:
        with pytest.raises(TargetError):
            cluster.start()
        broker, bookie, store = (
            javaproperties.loads((cluster._data / f"{name}.conf").read_text(encoding="latin-1"))
            for name in ("broker-1", "bookie-11", "metadata-store")
        )
        assert broker["brokerClientAuthenticationParameters"] == r"a\b"
        assert bookie["journalDirectories"] == f"{cluster._data}/bookie-11/journal"
        assert store["dataDir"] == f"{cluster._data}/metadata-store"
    finally:
        cluster.close()


def test_links_cannot_be_severed_and_facts_tell_the_durability(tmp_path: Path) -> None:
    made = Target(tmp_path)
    plain = replace(scenario(), cluster=SPEC)
    assert made.cannot(plain) is None
    assert "severed" in (made.cannot(replace(plain, cluster=replace(SPEC, severable=True))) or "")
    too_few = replace(plain, topic=replace(plain.topic, replication_factor=4))
    assert made.cannot(too_few) == "quorums 4/4/3 need 4 bookies; the cluster has 3"
    assert made.cannot(replace(too_few, refusal="NotEnoughBookies")) is None, "that is what it is about"
    facts = made.facts(ClusterSpec(system="pulsar", bookies=3, bookie_config=(("journalSyncData", "false"),)))
    assert (facts["system"], facts["pulsar_version"], facts["durability"]) == ("pulsar", SPEC.version, "page cache")
    assert made.facts(SPEC)["durability"] == "fsync", "BookKeeper's own default"


def test_a_bookie_that_prints_its_usage_is_quoted_with_what_it_said_before() -> None:
    log = (
        "starting\n"
        + "ERROR Malformed configuration file: journalFormat\nnull\nusage: BookieServer [options]\n -c <arg>"
    )
    assert last_words(log) == "starting\nERROR Malformed configuration file: journalFormat\nnull"
    assert last_words("\n".join(map(str, range(30)))) == "\n".join(map(str, range(15, 30)))
