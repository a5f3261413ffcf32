"""Usage of Pulsar's nodes from a Prometheus: brokers and bookies, which name their counter differently."""

import pytest

from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import OF_KAFKA, PRESETS
from perfgate.metrics.usage import OF_A_ROLE
from tests.harness.build.prometheus import process, scraping

NODES = {1: "pulsar-1:8080", 2: "pulsar-2:8080", 11: "bookie-1:3181"}
BOOKIE = {"__name__": "process_cpu_seconds", "instance": "bookie-1:8000", "job": "bookie"}
SERIES = (process("pulsar-1:8080", "broker"), process("pulsar-2:8080", "broker"), BOOKIE)


def role_of(node: int) -> str:
    return "bookies" if node > 10 else "brokers"


def sampler(*series: dict[str, str], **stated: str) -> PrometheusSampler:
    made = PrometheusSampler(scraping(*series, **stated), NODES, role_of=role_of)
    made.edge(10.0)
    made.edge(20.0)
    return made


def test_each_role_is_shown_and_the_sum_is_of_all() -> None:
    found = sampler(*SERIES, preset="pulsar").metrics(1000, [0])
    assert found["broker_cpu_cores.sum"] == pytest.approx(1.5)
    assert found["broker_cpu_us_per_record"] == pytest.approx(1500)
    stem = OF_A_ROLE["broker_cpu_cores.sum"]
    assert found[f"{stem}.brokers"] == pytest.approx(1.0)
    assert found[f"{stem}.bookies"] == pytest.approx(0.5)


def test_a_bookie_that_nobody_scrapes_leaves_no_figure() -> None:
    one = sampler(*SERIES[:2], preset="pulsar")
    assert one.metrics(1000, [0]) == {}
    assert "11" in one.unavailable


def test_brokers_of_kafka_are_not_searched_by_it() -> None:
    assert set(OF_KAFKA) == set(PRESETS) - {"pulsar"}
    one = PrometheusSampler(scraping(BOOKIE), {11: "bookie-1:9092"})
    one.edge(10.0)
    one.edge(20.0)
    assert one.metrics(1000, [0]) == {}
    assert "has no series" in one.unavailable
