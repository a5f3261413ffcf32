"""The sampler of a Prometheus that scrapes the brokers: what they used, by the scrapes inside the window themselves.

PromQL's rate() stretches the increase between the scrapes it finds to the window's edges, as if nothing had changed
there; in a window of four scrapes that is a quarter of the answer. Here cores are the increase between the first and
the last scrape inside the window over the time between those two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from perfgate.host.waiting import NotYet, poll_until
from perfgate.metrics.health import EVIDENCE, Pairs, increase
from perfgate.metrics.over_time import OverTime, of_gauges, of_scrapes
from perfgate.metrics.prometheus import Prometheus, Series
from perfgate.metrics.prometheus_source import PRESETS, PrometheusSource
from perfgate.metrics.usage import CPU, Looks, cpu_metrics
from perfgate.model.errors import ConfigurationError

FEWEST_SCRAPES = 4
"""Fewer inside a window do not tell what was used in it."""
LATE_SCRAPES_S = 3.0
"""A scrape takes a moment to arrive; so long is waited for those that belong to the window."""
ByBroker = dict[int, list[list[tuple[float, float]]]]
"""Of each broker, its series as (time, value) pairs."""


def least_window_s(scrape_interval_s: float) -> float:
    """Return the shortest window that surely holds enough scrapes."""
    return (FEWEST_SCRAPES + 1) * scrape_interval_s


def inside(values: Pairs, opens: float, closes: float) -> list[tuple[float, float]]:
    """Return the pairs of which the time lies in the window."""
    return [(at, value) for at, value in values if opens <= at <= closes]


class PrometheusSampler:
    """Tells the brokers' cores over windows; see :class:`perfgate.metrics.usage.Sampler`."""

    gives: Sequence[str] = (*CPU, *(evidence.metric for evidence in EVIDENCE))
    read: Callable[[], Looks] | None = None
    untold = "a Prometheus is asked for CPU, and for traffic and health where exporters give them their usual names"

    def __init__(self, prometheus: Prometheus, brokers: Mapping[int, str], scrape_interval_s: float = 0.0) -> None:
        """`brokers`: the addresses (host:port) that the brokers advertise, by broker id.

        `scrape_interval_s`: where it is known, no scrapes are waited for that a window has no room for.
        """
        self._prometheus = prometheus
        self._roomy_s = (FEWEST_SCRAPES - 1) * scrape_interval_s
        self._brokers = brokers
        self._edges: list[float] = []
        self.unavailable = ""
        """Why there are no metrics, once they were asked for."""

    def edge(self) -> None:
        """Note the moment on Prometheus' clock."""
        self._edges.append(self._prometheus.now())

    def glance(self) -> None:
        """Do nothing: Prometheus looks by itself."""

    def over_time(self) -> OverTime:
        """Return each broker's cores from one scrape to the next inside the last window; nothing when not known."""
        opens, closes = self._edges[-2:]
        try:
            found = self._by_broker(self._prometheus.source, opens, closes)
        except (Unavailable, ConfigurationError):
            return {}  # `metrics` says why
        return (of_gauges if self._prometheus.source.query else of_scrapes)(found, opens)

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        """Return the cores of every broker, the busiest and all; nothing, with the reason, when they are not known."""
        spans = [(self._edges[2 * window], self._edges[2 * window + 1]) for window in windows]
        self.unavailable = ""
        shortest_s = min(closes - opens for opens, closes in spans)
        if shortest_s < self._roomy_s:
            self.unavailable = f"a window of {shortest_s:.1f} s has no room for {FEWEST_SCRAPES} scrapes of Prometheus"
            return {}
        try:
            per_span = [self._cores(*span) for span in spans]
        except (Unavailable, ConfigurationError) as error:
            self.unavailable = str(error)
            return {}
        lengths = [closes - opens for opens, closes in spans]
        cores = {
            broker: sum(found[broker] * length for found, length in zip(per_span, lengths, strict=True)) / sum(lengths)
            for broker in per_span[0]
        }
        return {**cpu_metrics(cores, records_per_s), **self._health(spans)}

    def _health(self, spans: Sequence[tuple[float, float]]) -> dict[str, float]:
        """Return what there is of the evidence over these spans."""
        found = {}
        for evidence in EVIDENCE:
            query = f'{{__name__=~"{"|".join(evidence.names)}"}}'
            values: list[list[tuple[float, float]]] = []
            for opens, closes in spans:
                series = self._prometheus.instant(f"{query}[{round(closes - opens) + 2}s]", closes + 1)
                values += [pairs for one in series if len(pairs := inside(one.values, opens, closes)) > 1]
            if values:
                found[evidence.metric] = evidence.of(values)
        return found

    def _cores(self, opens: float, closes: float) -> dict[int, float]:
        """Return each broker's cores between two moments. Raises Unavailable with the number of scrapes."""
        source = self._prometheus.source

        def scraped() -> ByBroker:
            found = self._by_broker(source, opens, closes)
            scrapes = min((len(values) for series in found.values() for values in series), default=0)
            if scrapes < FEWEST_SCRAPES:
                raise NotYet(
                    f"{scrapes} scrapes in a window of {closes - opens:.0f} s, {FEWEST_SCRAPES} are needed: lengthen "
                    "the rounds (--window) or have Prometheus scrape more often"
                )
            return found

        found = poll_until("too few scrapes", scraped, within_s=LATE_SCRAPES_S, every_s=0.5, error=Unavailable)
        missing = sorted(set(self._brokers) - set(found))
        if missing:
            raise Unavailable(
                f"no series for broker {', '.join(map(str, missing))}; check [prometheus] match and brokers"
            )
        if source.query:
            return {b: sum(sum(v for _, v in values) / len(values) for values in all_) for b, all_ in found.items()}
        return {
            broker: sum(increase(values) / (values[-1][0] - values[0][0]) for values in series)
            for broker, series in found.items()
        }

    def _by_broker(self, source: PrometheusSource, opens: float, closes: float) -> ByBroker:
        seconds = max(1, round(closes - opens) + 2)
        names = [source.preset] if source.preset else list(PRESETS)
        empty: list[str] = []
        for name in [""] if source.query else names:
            preset = PRESETS.get(name)
            match = ",".join(filter(None, (preset.match if preset else "", source.match)))
            query = f"({source.query})[{seconds}s:1s]" if preset is None else f"{preset.counter}{{{match}}}[{seconds}s]"
            series = self._prometheus.instant(query, closes + 1)
            if series:
                label = source.label or (preset.label if preset else "instance")
                return self._mapped(series, label, opens, closes)
            empty.append(query)
        raise Unavailable(
            f"Prometheus {source.url} has no series for {'; '.join(empty)}: name the exporter ([prometheus] source = "
            f"{' | '.join(PRESETS)}), a label matcher (match) or a query of your own (query)"
        )

    def _mapped(self, series: Sequence[Series], label: str, opens: float, closes: float) -> ByBroker:
        hosts: dict[str, list[int]] = defaultdict(list)
        for broker, address in self._brokers.items():
            hosts[address.rpartition(":")[0]].append(broker)
        found: ByBroker = defaultdict(list)
        strangers: list[str] = []
        for one in series:
            value = one.labels.get(label, "")
            known: int | None = self._prometheus.source.brokers.get(value)
            here = hosts.get(value.rpartition(":")[0] or value, [])
            if known is None and not self._prometheus.source.brokers and len(here) == 1:
                known = here[0]
            if known is None:
                strangers.append(value)
            else:
                found[known].append(inside(one.values, opens, closes))
        if not found:
            raise Unavailable(
                f"none of the values of label {label!r} ({', '.join(sorted(set(strangers))[:6])}) is a broker's host; "
                'state [prometheus] brokers, as in: brokers = { "kafka-1:7071" = 1 }'
            )
        return dict(found)


class Unavailable(Exception):
    """The metrics of a window are not known; the message holds the reason."""
