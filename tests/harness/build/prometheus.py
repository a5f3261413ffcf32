"""A Prometheus that holds stated series."""

import re
from typing import Any

from perfgate.host.clocks import Estimate
from perfgate.metrics.prometheus import Series
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.model.errors import ConfigurationError

SAME_CLOCK = Estimate(at=0.0, offset=0.0, bound=0.0)
"""Prometheus' clock shows what this machine's monotonic one does."""


class Scraped:
    """A Prometheus that holds these series, by name and labels; counters that grow by half a core."""

    def __init__(self, *series: dict[str, str], refuses: str = "", **stated: Any) -> None:
        self.source, self._series, self._refuses = PrometheusSource(url="http://p", **stated), series, refuses
        self.exporter, self.first = self.source.preset, SAME_CLOCK
        self._now = 0.0
        self.asked: list[str] = []

    def look(self) -> Estimate:
        return SAME_CLOCK

    def instant(self, query: str, at: float) -> list[Series]:
        self.asked.append(query)
        if self._refuses and self._refuses in query:
            raise ConfigurationError("refused")
        name, _, rest = query.partition("{")
        matchers = dict(re.findall(r'([a-z_]+)=~?"([^"]*)"', rest))
        if name:
            matchers["__name__"] = name
        found = [
            labels
            for labels in self._series
            if all(re.fullmatch(pattern, labels.get(label, "")) for label, pattern in matchers.items())
        ]
        values = [(float(second), 0.5 * second) for second in range(int(at) - 20, int(at))]
        return [Series(labels=labels, values=values) for labels in found]


def process(instance: str, job: str = "kafka") -> dict[str, str]:
    return {"__name__": "process_cpu_seconds_total", "instance": instance, "job": job}


def jvm(instance: str, job: str = "kafka") -> dict[str, str]:
    return {"__name__": "jvm_threads_current", "instance": instance, "job": job}


KAFKA = (process("kafka-1:7071"), jvm("kafka-1:7071"))
NODE = process("kafka-1:9100", "node")


def sampled(prometheus: Any) -> tuple[dict[str, float], str]:
    sampler = PrometheusSampler(prometheus, {1: "kafka-1:9092"})
    sampler.edge(10.0)
    sampler.edge(20.0)
    return sampler.metrics(1000, [0]), sampler.unavailable


def scraping(*series: dict[str, str], **stated: Any) -> Any:
    found: Any = Scraped(*series, **stated)
    found.scrape_interval_s = lambda: 1.0
    return found
