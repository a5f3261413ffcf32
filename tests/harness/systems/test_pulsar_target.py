"""The embedded target of Pulsar: what it refuses before it starts anything, and what it tries again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.host.maven import Jars
from perfgate.model import ClusterSpec
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError
from perfgate.systems.pulsar.managed import embedded
from perfgate.systems.pulsar.managed.embedded import PulsarTarget
from perfgate.systems.pulsar.managed.nodes import last_words
from tests.harness.build import scenario

SPEC = ClusterSpec(system="pulsar", bookies=3)
JARS = Jars(version="4.0.8", jars=(Path("/jars/pulsar-broker.jar"),))


class Clusters:
    """Stands in for clusters: each start ends as `ends` says next."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends, self.made, self.closed = list(ends), list[dict[str, Any]](), 0

    def __call__(self, spec: ClusterSpec, **given: Any) -> Any:
        self.made.append(given)
        error = self.ends.pop(0)
        made = Mock(start=Mock(side_effect=error), close=self._close)
        made.spec = spec  # as an argument it would say what the mock is like
        return made

    def _close(self) -> None:
        self.closed += 1


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    made = Clusters(None, None, None)
    monkeypatch.setattr(embedded, "EmbeddedCluster", made)
    monkeypatch.setattr(embedded, "pulsar_jars", lambda version: JARS)
    monkeypatch.setattr(embedded, "find_java", lambda *_, **__: Path("/java/bin/java"))
    return made


def target(tmp_path: Path, *, compared: bool = False) -> PulsarTarget:
    return PulsarTarget(log_folder=tmp_path, cross_zone=False, say=print, compared=compared)


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
def test_what_processes_of_pulsar_cannot_have_is_refused(
    clusters: Clusters, tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        target(tmp_path).prepare([SPEC, ClusterSpec(**{"system": "pulsar", "bookies": 3, **given})])


def test_memory_is_asked_for_before_a_start_and_before_a_second_cluster(
    clusters: Clusters, tmp_path: Path, memory: Callable[[float], None]
) -> None:
    memory(1_000)
    with pytest.raises(ConfigurationError, match=r"too little memory: Pulsar's nodes take about .* 1,000 MiB are"):
        target(tmp_path).prepare([SPEC])
    memory(8_000)
    made = target(tmp_path)
    made.prepare([SPEC])
    first = made.cluster(SPEC)
    assert made.cluster(SPEC) is first
    memory(1_000)
    with pytest.raises(ConfigurationError, match="a second cluster side by side"):
        made.beside(SPEC)
    assert len(clusters.made) == 1


def test_memory_that_is_less_at_a_later_pair_gives_up_nothing_that_was_measured(
    clusters: Clusters, tmp_path: Path, memory: Callable[[float], None]
) -> None:
    """It was wrong usage at the fifth pair of clusters, and every scenario that was not decided yet was INVALID."""
    clusters.ends = [None] * 5
    made = target(tmp_path)
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
    assert len(clusters.made) == 5


def test_room_is_asked_for_twice_what_is_written_for_bookies_write_it_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[float]()
    monkeypatch.setattr(embedded, "check_disk", lambda needed, folder: asked.append(needed))
    target(tmp_path).check_room(1e9, 5e9)
    assert asked == [2e9]


def test_a_port_that_was_taken_is_tried_again_once_and_nothing_else_is(clusters: Clusters, tmp_path: Path) -> None:
    clusters.ends = [TargetError("java.net.BindException: Address already in use"), None]
    assert target(tmp_path).start(SPEC, tmp_path)
    assert (len(clusters.made), clusters.closed) == (2, 1)
    clusters.ends = [TargetError("BindException"), TargetError("BindException: again")]
    with pytest.raises(TargetError, match="again"):
        target(tmp_path).start(SPEC, tmp_path)
    clusters.ends = [BrokersFailedError("bookie 11 exited"), None]
    with pytest.raises(BrokersFailedError, match="bookie 11"):
        target(tmp_path).start(SPEC, tmp_path)
    assert clusters.closed == 4, "whatever went wrong, nothing of it is left"


def test_of_two_sides_that_differ_in_version_or_jvm_neither_starts_with_a_cache(
    clusters: Clusters, tmp_path: Path, memory: Callable[[float], None]
) -> None:
    memory(16_000)
    other = ClusterSpec(system="pulsar", bookies=3, jvm_options=("-XX:+UseZGC",))
    fsync = ClusterSpec(system="pulsar", bookies=3, bookie_config=(("journalSyncData", "true"),))
    for specs, compared, warm in (
        ((SPEC, other), True, False),
        ((SPEC, other), False, True),
        ((SPEC, fsync), True, True),
    ):
        clusters.ends = [None]
        made = target(tmp_path, compared=compared)
        made.prepare(specs)
        made.cluster(SPEC)
        assert clusters.made[-1]["warm_start"] is warm


def test_links_cannot_be_severed_and_facts_tell_the_durability(tmp_path: Path) -> None:
    made = target(tmp_path)
    plain = replace(scenario(), cluster=SPEC)
    assert made.cannot(plain) is None
    assert "severed" in (made.cannot(replace(plain, cluster=replace(SPEC, severable=True))) or "")
    too_few = replace(plain, topic=replace(plain.topic, replication_factor=4))
    assert made.cannot(too_few) == "quorums 4/4/3 need 4 bookies; the cluster has 3"
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
