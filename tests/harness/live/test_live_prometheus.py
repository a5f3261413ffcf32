"""Brokers' CPU from a real Prometheus with JMX exporters, beside the kernel's own counters over the same window."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perfgate.host.guard import Guard
from perfgate.host.ports import HOST, free_ports
from perfgate.metrics.process import process_sampler
from perfgate.metrics.prometheus import Prometheus
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.model import KIB, ClusterSpec, Load, settings
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from perfgate.systems.kafka.managed.monitoring import AGENT_FIRST_PORT, prometheus_server, server_config
from perfgate.systems.kafka.managed.own_cluster import Monitoring
from tests.harness.build import scenario
from tests.harness.live.started_gates import wait_for
from tests.harness.live_load import LiveLoad, row
from tests.harness.run_gate import BEGUN_BOUND_S, PROBES, gate

AGREE = 0.1
SHORT = ("--rounds", 2, "--window", 1, "--broker-warmup", 15)
WINDOW_S = 30.0
PLAIN = row(scenario(), load=Load(kind="capped", rate=100_000), producer=settings({"batch.size": KIB}))

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("PROMETHEUS_REQUIRED"),
    reason="no `prometheus` on the PATH",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    target = EmbeddedTarget(
        log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print, monitoring=Monitoring(own=True)
    )
    spec = ClusterSpec(brokers=2)
    target.prepare([spec])
    try:
        yield target.cluster(spec)
    finally:
        target.close()


@needs_prometheus
def test_prometheus_and_the_kernel_agree_on_the_brokers_cpu(cluster: EmbeddedCluster) -> None:
    prometheus = Prometheus(PrometheusSource(url=cluster.prometheus_url, brokers=cluster.agents()))
    assert prometheus.scrape_interval_s() == 1
    here = process_sampler(cluster.broker_pids)
    there = PrometheusSampler(prometheus, {broker: HOST for broker in cluster.broker_pids()})
    query = "sum by (instance)(rate(process_cpu_seconds_total[3s]))"
    stated = PrometheusSource(url=cluster.prometheus_url, brokers=cluster.agents(), query=query)
    asked = PrometheusSampler(Prometheus(stated), {broker: HOST for broker in cluster.broker_pids()})

    def edge() -> None:
        here.edge()
        there.edge()
        asked.edge()

    result, _ = LiveLoad(cluster).run(LibrdkafkaDriver(), PLAIN, window_s=WINDOW_S, edge=edge)
    assert result.sent is not None
    rate = result.sent.acked_in_window / result.window_s
    mine, theirs = here.metrics(rate, [-1]), there.metrics(rate, [-1])
    assert not there.unavailable
    for metric in ("broker_cpu_cores.1", "broker_cpu_cores.2", "broker_cpu_cores.sum", "broker_cpu_us_per_record"):
        print(f"{metric}: kernel {mine[metric]:.4f}, Prometheus {theirs[metric]:.4f}")
        assert theirs[metric] == pytest.approx(mine[metric], rel=AGREE)
    own = asked.metrics(rate, [-1])["broker_cpu_cores.sum"]
    print(f"broker_cpu_cores.sum: a query with a range {own:.4f}")
    assert own == pytest.approx(mine["broker_cpu_cores.sum"], rel=2 * AGREE)
    assert theirs["under_replicated_partitions.max"] == theirs["isr_shrinks"] == 0
    assert 0 < theirs["request_handler_idle_ratio.min"] <= 1
    assert theirs["network_in_mib_per_s"] > 0


def expect_answer(make: Callable[[], PrometheusSampler], words: str) -> None:
    """Ask until the sampler gives `words` as its reason: on a busy machine Prometheus misses scrapes meanwhile."""

    def answered() -> bool:
        sampler = make()
        sampler.edge()
        sampler.edge()
        assert sampler.metrics(1000, [-1]) == {}
        return words in sampler.unavailable

    wait_for(answered, BEGUN_BOUND_S, words)


@needs_prometheus
def test_too_few_scrapes_are_no_answer(cluster: EmbeddedCluster) -> None:
    prometheus = Prometheus(PrometheusSource(url=cluster.prometheus_url, brokers=cluster.agents()))
    hosts = {broker: HOST for broker in cluster.broker_pids()}
    expect_answer(lambda: PrometheusSampler(prometheus, hosts), "scrapes in a window of 0 s, 4 are needed")


@needs_prometheus
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"preset": "cadvisor"}, "no series for container_cpu_usage_seconds_total"),
        ({"query": "no_such_metric"}, "no series for (no_such_metric)"),
        ({"query": "sum("}, "refused the query"),
        ({"preset": "jmx-exporter", "brokers": {}}, "is a broker's host; state [prometheus] brokers"),
    ],
)
def test_what_does_not_answer_says_why(cluster: EmbeddedCluster, source: dict[str, object], words: str) -> None:
    stated = PrometheusSource(url=cluster.prometheus_url, **source)  # type: ignore[arg-type]  # as the rows name them
    expect_answer(lambda: PrometheusSampler(Prometheus(stated), {1: "kafka-1:9092", 2: "kafka-2:9092"}), words)


@pytest.mark.slow
@needs_prometheus
def test_a_gate_lengthens_its_rounds_for_prometheus(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", PROBES, "-k", "capped-plain", "--with-prometheus", *SHORT, "--relations-only")
    assert done.measured, done.output
    assert "rounds of 5 s: Prometheus needs 4 scrapes in each" in done.output
    assert done.run["tier"]["window_s"] == 5
    metrics = done.scenario("capped-plain")["metrics"]
    assert metrics["broker_cpu_cores.sum"]["value"] > 0
    assert metrics["isr_shrinks"]["value"] == 0


@pytest.mark.slow
@needs_prometheus
def test_a_comparison_at_the_cap_goes_by_windows_that_prometheus_can_tell(tmp_path: Path) -> None:
    """No turn of a second holds four scrapes: it was INVALID, "was not measured in every round"."""
    change = tmp_path / "change.toml"
    change.write_text('name = "nothing"\n')
    asked = ("-k", "capped-plain", "--with-prometheus", *SHORT, f"--compare={change}", "--budget", "3m")
    done = gate(tmp_path / "results", PROBES, *asked, "--set", "load.rate=2000")
    assert "turns of 1 s hold too few scrapes of Prometheus" in done.output
    assert "brokers' CPU decides, which takes windows of 5 s to tell" in done.output
    (found,) = done.run["comparisons"]
    assert (found["method"], found["metric"]) == ("turns", "broker_cpu_us_per_record"), done.output
    assert found["verdict"] in ("SAME", "INCONCLUSIVE")
    assert all(r["metrics"]["broker_cpu_us_per_record"] > 0 for r in found["candidate"]["rounds"])


def scrapes(url: str) -> bool:
    """Return whether the Prometheus is there and has begun."""
    try:
        return Prometheus(PrometheusSource(url=url)).scrape_interval_s() == 1
    except ConfigurationError:
        return False


@pytest.mark.slow
@needs_prometheus
def test_a_prometheus_that_was_there_before(tmp_path: Path) -> None:
    (port,), config = free_ports(1), tmp_path / "prometheus.yml"
    config.write_text(server_config(f"localhost:{AGENT_FIRST_PORT + broker}" for broker in range(3)))
    with Guard() as guard:
        guard.spawn(
            [
                prometheus_server(),
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address={HOST}:{port}",
            ],
            log=tmp_path / "prometheus.log",
        )
        url = f"http://{HOST}:{port}"
        deadline = time.monotonic() + BEGUN_BOUND_S
        while not scrapes(url):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        done = gate(
            tmp_path / "results", PROBES, "-k", "capped-plain", "--prometheus-url", url, *SHORT, "--relations-only"
        )
    assert done.measured, done.output
    assert done.run["tier"]["window_s"] == 5
    assert done.scenario("capped-plain")["metrics"]["broker_cpu_cores.3"]["value"] > 0


def test_a_prometheus_that_is_down_is_one_message_before_the_start(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", PROBES, "-k", "capped-plain", "--prometheus-url", f"http://{HOST}:9")
    assert done.code == 2, done.output
    assert "no answer" in done.output
    assert "Traceback" not in done.output
    assert not list((tmp_path / "results").glob("2*"))
