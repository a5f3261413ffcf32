"""Java's ahead-of-time cache: one file for each Java, Kafka and set of options, recorded by one broker, used by all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.host import toxiproxy
from perfgate.host.java import FIRST_RELEASE, cache_path, find_java, java_release
from perfgate.host.maven import Jars
from perfgate.model import ClusterSpec
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.managed.brokers import JVM_OPTIONS, needed_mib
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.build.java import FakeJava

JARS = Jars(version="4.3.1", jars=(Path("/jars/kafka.jar"),))


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of caches, which holds none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def brokers(java: FakeJava, tmp_path: Path, **changes: object) -> EmbeddedCluster:
    spec = ClusterSpec(**changes)  # type: ignore[arg-type]  # the tests name the fields they change
    return EmbeddedCluster(spec, java=java.path, jars=JARS, logs=tmp_path, cross_zone=False)


def options(cluster: EmbeddedCluster) -> list[list[str]]:
    try:
        return [cluster._aot_options(node) for node in (1, 2, 3)]
    finally:
        cluster.close()


def target(tmp_path: Path, say: Callable[[str], None] = print, *, compared: bool = False) -> EmbeddedTarget:
    """A target whose jars are there."""
    return EmbeddedTarget(log_folder=tmp_path, cross_zone=False, say=say, compared=compared, jars=lambda _spec: JARS)


@pytest.mark.usefixtures("cached", "fake_java")
def test_of_two_sides_that_differ_in_their_jvm_neither_starts_with_what_the_other_cannot_have(tmp_path: Path) -> None:
    """Brokers with a cache are as fast after seconds as others after minutes: a change of the heap was SLOWER."""
    plain, zgc = ClusterSpec(), ClusterSpec(jvm_options=("-XX:+UseZGC",))
    threads = ClusterSpec(config=(("num.network.threads", "8"),))

    def started(spec: ClusterSpec, *both: ClusterSpec, compared: bool = True) -> list[list[str]]:
        made = target(tmp_path, compared=compared)
        made.prepare(both)
        return options(made._maker(spec, tmp_path)())

    assert started(plain, plain, zgc) == [[], [], []]
    assert any(started(plain, plain, threads)), "both have the same"
    assert any(started(plain, plain, zgc, compared=False)), "a gate holds each scenario against its own figures"


@pytest.mark.parametrize(
    ("asked", "mib"),
    [((), 762), (("-Xms1g", "-Xmx1g"), 1274), (("-Xmx1g", "-Xmx2048m"), 2298), (("-XX:+UseZGC",), 762)],
)
def test_a_broker_takes_its_heap_and_what_the_jvm_has_besides(asked: tuple[str, ...], mib: float) -> None:
    assert needed_mib(asked) == mib


class Unstarted(EmbeddedTarget):
    """Starts clusters that need nothing."""

    def start(self, spec: ClusterSpec, logs: Path) -> Any:
        return Mock(spec=["close"])


def test_no_second_cluster_is_started_into_memory_that_is_not_there(
    tmp_path: Path, memory: Callable[..., None]
) -> None:
    """The kernel ended a broker of the candidate: BROKEN, "do not apply"."""
    memory(2000)
    made = Unstarted(log_folder=tmp_path, cross_zone=False, say=print, compared=True)
    with pytest.raises(ConfigurationError, match="takes about 2,286 MiB of memory, and 2,000 MiB are available"):
        made.beside(ClusterSpec())
    memory(64_000, 2000)  # the rest is other containers'
    with pytest.raises(ConfigurationError, match="takes about 2,286 MiB of memory, and 2,000 MiB are available"):
        made.beside(ClusterSpec())
    for mib in (4000, 2000):  # units that are measured are not given up for less memory later
        memory(mib)
        made.beside(ClusterSpec())


@pytest.mark.usefixtures("fake_java")
def test_no_brokers_are_started_into_memory_that_is_not_there(tmp_path: Path, memory: Callable[..., None]) -> None:
    """The kernel ended one of them: a first run that was red, and blamed Kafka."""
    memory(2000)
    with pytest.raises(ConfigurationError, match="3 brokers take about 2,286 MiB, and 2,000 MiB are available"):
        target(tmp_path).prepare([ClusterSpec(brokers=1), ClusterSpec()])
    target(tmp_path).prepare([ClusterSpec(brokers=1)])


@pytest.mark.usefixtures("fake_java")
def test_controllers_of_their_own_take_memory_too(tmp_path: Path, memory: Callable[..., None]) -> None:
    """The six JVMs of a cluster for faults were counted as three."""
    memory(3000)
    with pytest.raises(ConfigurationError, match="3 brokers and 3 controllers take about 4,572 MiB, and 3,000 MiB"):
        target(tmp_path).prepare([ClusterSpec(), ClusterSpec(controllers=3)])
    target(tmp_path).prepare([ClusterSpec()])


@pytest.mark.parametrize("severable", [True, False])
@pytest.mark.usefixtures("cached", "fake_java")
def test_what_cuts_links_is_built_before_any_broker_is_started(
    tmp_path: Path, memory: Callable[..., None], *, severable: bool
) -> None:
    """Brokers for faults waited for minutes while it was built, or the run was BROKEN."""
    memory(8000)
    toxiproxy.built().parent.mkdir(parents=True)
    toxiproxy.built().touch()
    said = list[str]()
    target(tmp_path, said.append).prepare([ClusterSpec(), ClusterSpec(severable=severable)])
    assert ("Toxiproxy: building it, once" in said) is severable


def test_this_machine_s_java_says_its_release() -> None:
    assert java_release(find_java()) >= 17


def test_the_cache_is_of_one_java_one_kafka_and_one_set_of_options(cached: Path, tmp_path: Path) -> None:
    java, other = (FakeJava(tmp_path / name).path for name in ("one", "other"))
    one = cache_path(java, "kafka-4.3.1", JARS.classpath, ["-server"])
    assert one == cache_path(java, "kafka-4.3.1", JARS.classpath, ["-server"])
    others = {
        cache_path(other, "kafka-4.3.1", JARS.classpath, ["-server"]),
        cache_path(java, "kafka-4.3.1", "/jars/other.jar", ["-server"]),
        cache_path(java, "kafka-4.3.1", JARS.classpath, ["-client"]),
    }
    assert len(others | {one}) == 4
    assert one is not None
    assert one.is_relative_to(cached)


@pytest.mark.parametrize(("release", "has"), [(FIRST_RELEASE, True), (FIRST_RELEASE - 1, False), (21, False)])
def test_an_older_java_has_none(tmp_path: Path, release: int, has: bool) -> None:
    java = FakeJava(tmp_path / "java", release)
    assert (cache_path(java.path, "kafka-4.3.1", JARS.classpath, []) is not None) is has


def test_one_broker_records_and_later_ones_use_it(cached: Path, fake_java: FakeJava, tmp_path: Path) -> None:
    first, second, third = options(brokers(fake_java, tmp_path))
    assert first[0].startswith("-XX:AOTCacheOutput=")
    assert second == third == []
    path = cache_path(fake_java.path, "kafka-4.3.1", JARS.classpath, JVM_OPTIONS)
    assert path is not None
    assert path.is_relative_to(cached)
    assert not list(path.parent.glob("*.part")), "nothing is left of what was not kept"
    kept = brokers(fake_java, tmp_path)
    path.touch()
    assert options(kept) == [[f"-XX:AOTCache={path}"]] * 3


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("changes", [{"jvm_options": ("-Xlog:gc",)}, {"severable": True}])
def test_brokers_of_a_change_or_for_faults_record_none(
    fake_java: FakeJava, tmp_path: Path, changes: dict[str, object]
) -> None:
    assert options(brokers(fake_java, tmp_path, **changes)) == [[], [], []]
