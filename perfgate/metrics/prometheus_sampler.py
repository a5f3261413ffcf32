"""Sampler of a Prometheus that scrapes the brokers: their CPU by the scrapes inside the window.

PromQL's rate() extrapolates the increase to the window's edges; in a window of four scrapes that is a quarter of the
answer. Here cores are the increase between the first and the last scrape inside over the time between them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from perfgate.host.clocks import Estimate, interpolated
from perfgate.host.waiting import NotYet, poll_until
from perfgate.metrics.health import EVIDENCE, Pairs, increase
from perfgate.metrics.prometheus import Prometheus, Series, moved_by
from perfgate.metrics.prometheus_source import OF_KAFKA, OWN_QUERY, PRESETS, Preset
from perfgate.metrics.usage import CPU, OF_A_ROLE, Looks, OverTime, cpu_metrics, of_gauges, of_scrapes
from perfgate.model.errors import ConfigurationError

FEWEST_SCRAPES = 4
"""Fewer inside a window do not show the usage in it."""
OF_A_PROCESS = "process_cpu_seconds_total"
"""Every exporter exports this of its own process, a broker's or another."""
OF_JVMS = ("jvm_threads_current", "jvm_info", "jvm_gc_collection_seconds_count", "jvm_memory_bytes_used")
"""Series of the JMX exporter about its JVM, by its versions."""
LOOKS_BACK_S = 60.0
"""At the start brokers are searched in this time and two scrape intervals."""
LATE_SCRAPES_S = 3.0
"""Time that the scrapes of a window may take to arrive."""
CORES = "broker_cpu_cores.sum"
ByBroker = dict[int, list[list[tuple[float, float]]]]


def least_window_s(scrape_interval_s: float, looks_back_s: float = 0.0) -> float:
    return (FEWEST_SCRAPES + 1) * scrape_interval_s + looks_back_s


def inside(values: Pairs, opens: float, closes: float) -> list[tuple[float, float]]:
    return [(at, value) for at, value in values if opens <= at <= closes]


class PrometheusSampler:
    """Brokers' cores over windows; see :class:`perfgate.metrics.usage.Sampler`."""

    gives: Sequence[str] = (*CPU, *(evidence.metric for evidence in EVIDENCE))
    read: Callable[[], Looks] | None = None
    why_missing = (
        "a Prometheus is asked for CPU, and for traffic and health where exporters give them their usual names"
    )

    def __init__(
        self,
        prometheus: Prometheus,
        brokers: Mapping[int, str],
        scrape_interval_s: float = 0.0,
        role_of: Callable[[int], str] | None = None,
    ) -> None:
        """`brokers`: the advertised addresses (host:port) by broker id; `role_of`: of each, where they have several.

        `scrape_interval_s`: where it is known, windows that are too short for enough scrapes are not waited for. The
        clocks are compared now, before a round, and again after the window.
        """
        self._prometheus, self._source = prometheus, prometheus.source
        try:
            self._before = prometheus.look()
        except ConfigurationError:
            self._before = prometheus.first  # a step of the clock since then is seen after the round
        self._looks_back_s = self._source.looks_back_s
        self._roomy_s = (FEWEST_SCRAPES - 1) * scrape_interval_s + self._looks_back_s
        self._brokers, self._role_of = brokers, role_of
        self._edges: list[float] = []
        """On this machine's monotonic clock."""
        self._after: Estimate | None = None
        self.unavailable = ""
        """Why there are no metrics, once they were asked for."""
        self._answered = ""
        """The preset whose series were the brokers' in the last answer; empty of a query."""

    def settle(self) -> str:
        """Find the exporter that has every broker, and return its description. Raises ConfigurationError."""
        interval_s = self._prometheus.scrape_interval_s()

        def reported() -> ByBroker:
            closes = time.monotonic() + self._prometheus.first.offset
            by_broker = self._by_broker(closes - LOOKS_BACK_S - 2 * interval_s - self._looks_back_s, closes)
            if missing := sorted(broker for broker in self._brokers if not any(by_broker.get(broker, ()))):
                raise Unavailable(_missing(missing))
            return by_broker

        try:
            retried = (NotYet, Unavailable)
            poll_until("not told", reported, within_s=LATE_SCRAPES_S, every_s=0.5, not_yet=retried, error=Unavailable)
        except Unavailable as error:
            raise ConfigurationError(f"[prometheus] cannot tell the brokers' CPU: {error}") from None
        if self._source.query:
            return "brokers' CPU: by [prometheus] query"
        self._prometheus.exporter = self._answered
        preset = PRESETS[self._answered]
        return f"brokers' CPU: {preset.counter or preset.match} ({self._answered}), that of {preset.of}"

    def edge(self, at: float | None = None) -> None:
        """Note the moment: Prometheus is asked about the past, however late this is called."""
        self._edges.append(time.monotonic() if at is None else at)
        self._after = None

    def glance(self) -> None:
        """Do nothing: Prometheus looks by itself."""

    def over_time(self) -> OverTime:
        try:
            opens, closes = map(self._there, self._edges[-2:])
            by_broker = self._by_broker(opens, closes)
        except (Unavailable, ConfigurationError):
            return {}  # `metrics` says why
        return (of_gauges if self._source.query else of_scrapes)(by_broker, opens)

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        edges = [(self._edges[2 * window], self._edges[2 * window + 1]) for window in windows]
        self.unavailable = ""
        shortest_s = min(closes - opens for opens, closes in edges)
        if shortest_s < self._roomy_s:
            self.unavailable = f"a window of {shortest_s:.1f} s has no room for {FEWEST_SCRAPES} scrapes of Prometheus"
            if self._looks_back_s:
                self.unavailable += f" after the {self._looks_back_s:g} s that its query looks back"
            return {}
        try:
            spans = [(self._there(opens), self._there(closes)) for opens, closes in edges]
            per_span = [self._cores(*span) for span in spans]
        except (Unavailable, ConfigurationError) as error:
            self.unavailable = str(error)
            return {}
        lengths = [closes - opens for opens, closes in spans]
        cores = {
            broker: sum(span[broker] * length for span, length in zip(per_span, lengths, strict=True)) / sum(lengths)
            for broker in per_span[0]
        }
        return {**self._of_roles(cores), **cpu_metrics(cores, records_per_s), **self._health(spans)}

    def _of_roles(self, cores: Mapping[int, float]) -> dict[str, float]:
        if self._role_of is None:
            return {}
        by_role: dict[str, float] = defaultdict(float)
        for node, used in cores.items():
            by_role[f"{OF_A_ROLE[CORES]}.{self._role_of(node)}"] += used
        return by_role

    def _there(self, moment: float) -> float:
        """A moment on Prometheus' clock. Raises Unavailable where that was set since before the round."""
        self._after = self._after or self._prometheus.look()
        if moved_s := moved_by(self._before, self._after):
            raise Unavailable(
                f"Prometheus' clock, or this machine's, was set by {abs(moved_s):.1f} s during the round: which of its "
                "scrapes are of the window is not known (keep both clocks by a time service)"
            )
        return moment + interpolated(self._before, self._after, moment).offset

    def _health(self, spans: Sequence[tuple[float, float]]) -> dict[str, float]:
        """The evidence over these spans; nothing where the Prometheus does not answer."""
        figures = {}
        for evidence in EVIDENCE:
            windows: list[tuple[float, list[list[tuple[float, float]]]]] = []
            for opens, closes in spans:
                try:
                    series = self._evidence(evidence.names, round(closes - opens) + 2, closes + 1)
                except ConfigurationError:
                    return {}  # the CPU is known all the same
                values = [pairs for entry in series if len(pairs := inside(entry.values, opens, closes)) > 1]
                windows += [(closes - opens, values)] if values else []
            if windows:
                figures[evidence.metric] = evidence.over(windows)
        return figures

    def _evidence(self, names: Sequence[str], seconds: int, at: float) -> list[Series]:
        """The series that `match` selects, else with the brokers' hosts; of single topics where none is of all."""
        named = f'__name__=~"{"|".join(names)}"'
        matched = self._source.match
        series = self._prometheus.instant(f"{{{named},{matched}}}[{seconds}s]", at) if matched else []
        if not series:
            hosts = {address.rpartition(":")[0] or address for address in self._brokers.values()}
            known = hosts | self._source.brokers.keys()
            series = [
                entry
                for entry in self._prometheus.instant(f"{{{named}}}[{seconds}s]", at)
                if any({value, value.rpartition(":")[0] or value} & known for value in entry.labels.values())
            ]
        whole = [entry for entry in series if "topic" not in entry.labels]
        return whole or series

    def _cores(self, opens: float, closes: float) -> dict[int, float]:
        def scraped() -> ByBroker:
            by_broker = self._by_broker(opens, closes)
            scrapes = min((len(values) for series in by_broker.values() for values in series), default=0)
            if scrapes < FEWEST_SCRAPES:
                raise NotYet(
                    f"{scrapes} scrapes in a window of {closes - opens:.0f} s, {FEWEST_SCRAPES} are needed: lengthen "
                    "the rounds (--window) or have Prometheus scrape more often"
                )
            return by_broker

        by_broker = poll_until("too few scrapes", scraped, within_s=LATE_SCRAPES_S, every_s=0.5, error=Unavailable)
        if missing := sorted(set(self._brokers) - set(by_broker)):
            raise Unavailable(_missing(missing))
        if self._source.query:
            return {
                broker: sum(sum(value for _, value in pairs) / len(pairs) for pairs in series)
                for broker, series in by_broker.items()
            }
        return {
            broker: sum(increase(pairs) / (pairs[-1][0] - pairs[0][0]) for pairs in series)
            for broker, series in by_broker.items()
        }

    def _by_broker(self, opens: float, closes: float) -> ByBroker:
        source, seconds = self._source, max(1, round(closes - opens) + 2)
        names = [self._prometheus.exporter] if self._prometheus.exporter else list(OF_KAFKA)
        empty: list[str] = []
        others: Unavailable | None = None
        for name in [""] if source.query else names:
            preset = PRESETS.get(name, OWN_QUERY)
            match = ",".join(filter(None, (preset.match, source.match)))
            query = f"({source.query})[{seconds}s:1s]" if source.query else f"{preset.counter}{{{match}}}[{seconds}s]"
            label = source.label or preset.label
            series = self._prometheus.instant(query, closes + 1)
            if not source.label and preset.also and not any(label in entry.labels for entry in series):
                label = preset.also
            if series and preset.counter == OF_A_PROCESS:
                series = self._of_jvms(series, label, closes, certain=bool(source.preset or source.brokers))
            if series:
                try:
                    by_broker = self._mapped(series, label, opens, closes, preset)
                except Unavailable as error:
                    others = others or error  # another exporter may know these brokers
                else:
                    self._answered = name
                    return by_broker
            else:
                empty.append(query)
        raise others or Unavailable(
            f"Prometheus {source.url} has no series for {'; '.join(empty)}: name the exporter ([prometheus] source = "
            f"{' | '.join(PRESETS)}), a label matcher (match) or a query of your own (query)"
        )

    def _of_jvms(self, series: Sequence[Series], label: str, closes: float, *, certain: bool) -> list[Series]:
        """The series of JVMs, as other exporters have some too; where no JVM is known all, if they are `certain`."""
        of_jvms = self._prometheus.instant(f'{{__name__=~"{"|".join(OF_JVMS)}"}}', closes)
        jvms = {entry.labels.get(label, "") for entry in of_jvms}
        kept = [entry for entry in series if entry.labels.get(label, "") in jvms]
        return kept or (list(series) if certain else [])

    def _mapped(self, series: Sequence[Series], label: str, opens: float, closes: float, preset: Preset) -> ByBroker:
        hosts: dict[str, list[int]] = defaultdict(list)
        pods: dict[str, list[int]] = defaultdict(list)
        for broker, address in self._brokers.items():
            host = address.rpartition(":")[0]
            hosts[host].append(broker)
            if not host.replace(".", "").isdigit():
                pods[host.partition(".")[0]].append(broker)  # the name of a pod in Kubernetes
        by_broker: ByBroker = defaultdict(list)
        reported: dict[int, list[Mapping[str, str]]] = defaultdict(list)
        strangers: list[str] = []
        for entry in series:
            value = entry.labels.get(label, "")
            known = self._source.brokers.get(value)
            here = hosts.get(value.rpartition(":")[0] or value) or pods.get(value, [])
            if known is None and not self._source.brokers and len(here) == 1:
                known = here[0]
            if known is None:
                strangers.append(value)
            else:
                by_broker[known].append(inside(entry.values, opens + self._looks_back_s, closes))
                reported[known].append(entry.labels)
        if not by_broker:
            raise Unavailable(
                f"none of the values of label {label!r} ({', '.join(sorted(set(strangers))[:6])}) is a broker's host; "
                'state [prometheus] brokers, as in: brokers = { "kafka-1:7071" = 1 }'
            )
        for broker, labels in reported.items():
            if several := preset.apart(labels):
                raise Unavailable(
                    f"broker {broker} is told of several times in Prometheus ({several}): select what is of the broker "
                    "by [prometheus] match or brokers"
                )
        return dict(by_broker)


def _missing(brokers: Sequence[int]) -> str:
    return f"no series for broker {', '.join(map(str, brokers))}; check [prometheus] match and brokers"


class Unavailable(Exception):
    """The metrics of a window are not known; the message holds the reason."""
