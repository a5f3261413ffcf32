"""A Prometheus of the run's own, with a JMX exporter in every broker: what users run next to their brokers."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.ports import HOST
from perfgate.host.toxiproxy import ask_here
from perfgate.host.waiting import NotYet, poll_until
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.java import agent_jar

PROMETHEUS_IMAGE = "prom/prometheus:v3.7.3"
AGENT = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
START_TIMEOUT_S = 90
"""A bound on a hang: a Prometheus that has ended is noticed at once."""
SCRAPE_INTERVAL_S = 1
AGENT_FIRST_PORT = 7071
"""Port of the first broker's exporter for a Prometheus that was there before the run; the next ones follow."""
# The names that most dashboards use (lower case, domain_type_name), of a cluster's health and load.
AGENT_CONFIG = """\
lowercaseOutputName: true
rules:
  - pattern: kafka.server<type=ReplicaManager, name=(UnderReplicatedPartitions|OfflineReplicaCount)><>Value
    name: kafka_server_replicamanager_$1
  - pattern: kafka.server<type=ReplicaManager, name=(IsrShrinksPerSec)><>Count
    name: kafka_server_replicamanager_$1_total
    type: COUNTER
  - pattern: kafka.controller<type=KafkaController, name=(OfflinePartitionsCount|ActiveControllerCount)><>Value
    name: kafka_controller_kafkacontroller_$1
  - pattern: kafka.server<type=KafkaRequestHandlerPool, name=RequestHandlerAvgIdlePercent><>OneMinuteRate
    name: kafka_server_requesthandler_idle_ratio
  - pattern: kafka.server<type=BrokerTopicMetrics, name=(BytesInPerSec|BytesOutPerSec)><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
"""


@functools.cache
def exporter_jar() -> Path:
    """Return the JMX exporter's agent, from Maven coordinates on first use. Raises ConfigurationError.

    Cached: jgo lays its folder out anew at each call, while a broker may be starting from it.
    """
    return agent_jar(AGENT)


def prometheus_server() -> Path:
    path = shutil.which("prometheus")
    if path is None:
        raise ConfigurationError(
            "--with-prometheus needs a `prometheus` on the PATH (Debian: apt-get install prometheus); "
            "with one elsewhere use --prometheus-url"
        )
    return Path(path)


def agent_option(address: str, jar: Path, config: Path) -> str:
    return f"-javaagent:{jar}={address}:{config}"


def server_config(agents: Iterable[str]) -> str:
    """Settings of a Prometheus that scrapes these exporters (host:port) every second."""
    targets = "".join(f"          - {agent}\n" for agent in agents)
    return (
        f"global:\n  scrape_interval: {SCRAPE_INTERVAL_S}s\nscrape_configs:\n  - job_name: kafka\n"
        f"    static_configs:\n      - targets:\n{targets}"
    )


def start_prometheus(
    guard: Guard, folder: Path, log: Path, *, port: int, agents: Mapping[int, int], check: Callable[[], None]
) -> str:
    """Start a Prometheus that scrapes the agents (port by broker id); return its URL once it is ready."""
    config = folder / "prometheus.yml"
    config.write_text(server_config(f"{HOST}:{agent}" for agent in agents.values()))
    guard.spawn(
        [
            prometheus_server(),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={HOST}:{port}",
        ],
        log=log,
    )
    return wait_for_prometheus(f"http://{HOST}:{port}", len(agents), check, f"its log: {log}")


def wait_for_prometheus(url: str, agents: int, check: Callable[[], None], evidence: str) -> str:
    """Return the URL once the Prometheus there has scraped this many exporters. Raises TargetError with `evidence`."""

    def scraped() -> str:
        result = ask_here(f"{url}/api/v1/query?query=sum(up)", timeout_s=1).json()["data"]["result"]
        up = int(result[0]["value"][1]) if result else 0
        if up < agents:
            raise NotYet(f"{up} of {agents} exporters scraped")
        return url

    return poll_until(
        "Prometheus was not ready",
        scraped,
        within_s=START_TIMEOUT_S,
        every_s=0.1,
        not_yet=(NotYet, OSError),
        check=check,
        error=lambda failure: TargetError(f"{failure}; {evidence}"),
    )
