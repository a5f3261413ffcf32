"""The brokers' JVM options: those of a run come last, and another collector replaces the suite's own."""

import pytest

from perfgate.host.java import names_collector
from perfgate.systems.kafka.managed.brokers import JVM_OPTIONS, jvm_options


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
