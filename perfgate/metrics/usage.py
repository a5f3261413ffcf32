"""Brokers' CPU, memory, disk and network between the edges of windows, from counters that are read at each edge."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Protocol

from perfgate.metrics.health import Pairs, increase
from perfgate.model import MIB
from perfgate.model.errors import TargetError

WATCH_EVERY_S = 0.5
LEAST_COMPILING_CORES = 0.03
"""Warm brokers go on compiling this much for minutes (seen: 0.01 to 0.02 cores each at 500 records/s)."""
SETTLED_S = 0.5
"""Brokers that did not compile for this long have settled: a second of warm-up has room for two looks."""
CPU = ("broker_cpu_cores.max", "broker_cpu_cores.sum", "broker_cpu_us_per_record")
FIGURES: Mapping[str, tuple[str, ...]] = {
    "CPU": ("broker_cpu_cores.sum",),
    "memory": ("broker_rss_mib.sum",),
    "disk": ("broker_disk_write_mib_per_s",),
    "network": ("broker_network_in_mib_per_s", "network_in_mib_per_s"),
}
"""Figures that every round reports by any of these metrics, or with the reason why it is missing."""
LATE_SHARE, LATE_S = 0.1, 0.3
"""An engine's counters that were read later than a window's edge, by this share of it and this many s, are not the
window's. This machine's are: a delay of the reading thread delays the load as well."""
LEAST_CPU_CORES = 0.05
"""Less CPU than this is a handful of the kernel's ticks of 10 ms: a share of it means nothing."""
GLANCE_EVERY_S = 1.0
LEAST_APART_S = 0.5
"""Two looks closer than this show little: the kernel counts CPU in ticks of 10 ms."""
OverTime = Mapping[str, tuple[tuple[float, float], ...]]
"""Cores by broker id: pairs of a moment at which a part of the window ends, in s since it opened, and the cores."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A broker's counters at a moment (s): seconds of CPU, bytes resident, bytes written to disk. None: not known.

    `compiling_s`: seconds of CPU of each of its JVM's compiler threads, by thread id. `traffic`: bytes received and
    sent over each of its connections.
    """

    at: float
    cpu_s: float
    rss_bytes: int
    written_bytes: int | None
    compiling_s: Mapping[int, float] | None = None
    traffic: Mapping[int, tuple[int, int]] | None = None


Looks = Mapping[int, Usage]
"""Counters of every broker by its id."""


class Sampler(Protocol):
    """Source of the brokers' usage. Window i lies between the edges 2 i and 2 i + 1; -1 is the last."""

    def edge(self, at: float | None = None) -> None:
        """Note that a window opens or closes, was to do so `at` this moment (s on the monotonic clock; None: now).

        Raises TargetError when a broker is gone.
        """

    def glance(self) -> None:
        """Note the brokers' usage so far; called again and again while a window is open."""

    def over_time(self) -> OverTime:
        """Each broker's cores over the time of the last window; empty where they are not known."""

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        """The broker metrics over these windows, in which `records_per_s` were acknowledged.

        Afterwards `unavailable` holds the reason why metrics are missing.
        """

    gives: Sequence[str]
    """Its metrics, unless something is `unavailable`."""
    unavailable: str
    why_missing: str
    """Why some of FIGURES are missing although nothing is `unavailable`."""
    read: Callable[[], Looks] | None
    """Reads every broker's counters now; None where these cannot be had at any moment."""


class CounterSampler:
    gives: Sequence[str] = (*CPU, "broker_rss_mib.max", "broker_rss_mib.sum", "broker_disk_write_mib_per_s")
    unavailable = ""

    def __init__(
        self,
        read: Callable[[], Looks],
        brokers: Iterable[int],
        *,
        glance: Callable[[], Looks] | None = None,
        edge: Callable[[], Looks] | None = None,
        why_missing: str,
        elsewhere: bool = False,
        role_of: Callable[[int], str] | None = None,
    ) -> None:
        """`read` leaves out the brokers that are gone; at an edge all `brokers` have to be there.

        `glance` reads fewer counters, where that is cheaper; `edge` also those of edges alone. `elsewhere`: another
        machine's engine reads them, perhaps late. `role_of`: of each, where they are nodes of several roles.
        """
        self._role_of = role_of
        self.read: Callable[[], Looks] | None = read
        self._read_whole, self._read_little = edge or read, glance or read
        self.why_missing, self._elsewhere = why_missing, elsewhere
        self._brokers = set(brokers)
        self._looks: list[Looks] = []
        self._edges_at: list[float] = []
        self._glances: list[Looks] = []
        self._glanced_at = math.inf
        self._quick = True  # otherwise a glance could make the next edge late

    def edge(self, at: float | None = None) -> None:
        began = time.monotonic()
        self._edges_at.append(began if at is None else at)
        looks = self._read_whole()
        self._quick = time.monotonic() - began <= LATE_S
        if gone := self._brokers - set(looks):
            raise TargetError(f"broker {min(gone)} was gone when its CPU was read")
        self._looks.append(looks)
        opens = len(self._looks) % 2 == 1
        self._glances = [looks] if opens else [*self._glances, looks]
        self._glanced_at = time.monotonic() if opens else math.inf

    def glance(self) -> None:
        """Read the counters where a window is open and the last look was GLANCE_EVERY_S ago, unless that takes long."""
        if self._quick and time.monotonic() - self._glanced_at >= GLANCE_EVERY_S:
            self._glances.append(self._read_little())
            self._glanced_at = time.monotonic()

    def over_time(self) -> OverTime:
        return of_looks(self._glances) if self._glances else {}

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        """The broker metrics over these windows; none where an engine's counters came too late for them."""
        spans = [(self._looks[2 * window], self._looks[2 * window + 1]) for window in windows]
        edges = [(self._edges_at[2 * window], self._edges_at[2 * window + 1]) for window in windows]
        self.unavailable = read_late(spans, edges) if self._elsewhere else ""
        if self.unavailable:
            return {}
        of_roles = role_metrics(spans, self._role_of) if self._role_of else {}
        return {**of_roles, **broker_metrics(spans, records_per_s)}


class Settled:
    """Whether brokers have stopped compiling their code; called again and again while they are loaded."""

    def __init__(self, read: Callable[[], Looks], most: float, now: Callable[[], float] = time.monotonic) -> None:
        """`most`: share of a broker's CPU that its compiler threads may use."""
        self._read, self._most, self._now = read, most, now
        self._looks: Looks = {}
        self._looked_at = -math.inf
        self._settled = False

    def __call__(self) -> bool:
        """Judge the last SETTLED_S of every broker; False before, True where it is not known."""
        if self._now() - self._looked_at >= SETTLED_S:
            before, self._looks, self._looked_at = self._looks, self._read(), self._now()
            unknown = all(usage.compiling_s is None for usage in self._looks.values())
            shares = compile_shares((before, self._looks))
            self._settled = unknown or (bool(before) and max(shares.values(), default=0.0) <= self._most)
        return self._settled


class UsageWatch:
    """Reads counters again and again in a thread while the context is open; brokers may come and go."""

    def __init__(self, read: Callable[[], Looks] | None, every_s: float = WATCH_EVERY_S) -> None:
        self._read, self._every_s = read, every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read_again, daemon=True)
        self._failed: Exception | None = None
        self.cpu: list[tuple[float, dict[str, float]]] = []
        """Moments (s on the monotonic clock), each with the CPU seconds of every broker that was there, by its id."""
        self.memory: list[tuple[float, dict[str, float]]] = []
        """The same of the bytes that it held in memory."""

    def __enter__(self) -> UsageWatch:
        if self._read:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Raise TargetError when the counters could no longer be read, unless another error ends the context."""
        self._done.set()
        if self._read:
            self._thread.join()
        if self._failed and kind is None:
            raise TargetError(f"the brokers' CPU could not be read to the end: {self._failed}") from self._failed

    def _read_again(self) -> None:
        assert self._read is not None
        try:
            while not self._done.wait(self._every_s):
                looks = self._read()
                at = time.monotonic()
                self.cpu.append((at, {str(broker): usage.cpu_s for broker, usage in looks.items()}))
                self.memory.append((at, {str(broker): float(usage.rss_bytes) for broker, usage in looks.items()}))
        except Exception as error:  # a thread's error, handed over at the end
            self._failed = error


def read_late(spans: Sequence[tuple[Looks, Looks]], edges: Sequence[tuple[float, float]]) -> str:
    """Why counters are not of the windows that opened and closed at these moments (s); empty where they are."""
    late = max(
        usage.at - at
        for span, pair in zip(spans, edges, strict=True)
        for look, at in zip(span, pair, strict=True)
        for usage in look.values()
    )
    shortest = min(closed - opened for opened, closed in edges)
    if late <= max(LATE_SHARE * shortest, LATE_S):
        return ""
    return f"counters were read {late:.1f} s after an edge of a window of {shortest:.1f} s"


def broker_metrics(spans: Sequence[tuple[Looks, Looks]], records_per_s: float) -> dict[str, float]:
    """Cores, memory, disk and network of the brokers, and CPU and network per record, over all spans."""
    brokers = list(spans[0][0])
    seconds = {b: sum(after[b].at - before[b].at for before, after in spans) for b in brokers}
    cores = {b: sum(after[b].cpu_s - before[b].cpu_s for before, after in spans) / seconds[b] for b in brokers}
    rss = [usage.rss_bytes / MIB for usage in spans[-1][1].values()]
    metrics = cpu_metrics(cores, records_per_s)
    metrics["broker_rss_mib.max"] = max(rss)
    metrics["broker_rss_mib.sum"] = sum(rss)
    if (written := _written_per_s(spans, seconds)) is not None:
        metrics["broker_disk_write_mib_per_s"] = written / MIB
    if (traffic := _traffic_per_s(spans, seconds)) is not None:
        received, sent = traffic
        metrics |= {"broker_network_in_mib_per_s": received / MIB, "broker_network_out_mib_per_s": sent / MIB}
        if records_per_s > 0:
            metrics["broker_network_in_bytes_per_record"] = received / records_per_s
    if shares := compile_shares(*spans):
        metrics["broker_compile_share.max"] = max(shares.values())
    return metrics


OF_A_ROLE: Mapping[str, str] = {
    "broker_cpu_cores.sum": "broker_cpu_cores",
    "broker_rss_mib.sum": "broker_rss_mib",
    **{f"broker_{what}_mib_per_s": f"broker_{what}_mib_per_s" for what in ("disk_write", "network_in", "network_out")},
}
"""Figures of a role's nodes that are reported beside those of all nodes, and their names without the role."""


def role_metrics(spans: Sequence[tuple[Looks, Looks]], role_of: Callable[[int], str]) -> dict[str, float]:
    """Cores, memory, disk and network of each role's nodes together, by `<metric>.<role>`."""
    by_role: dict[str, float] = {}
    for role in dict.fromkeys(role_of(node) for node in spans[0][0]):
        before, after = (
            [{node: usage for node, usage in looks.items() if role_of(node) == role} for looks in side]
            for side in zip(*spans, strict=True)
        )
        metrics = broker_metrics(list(zip(before, after, strict=True)), 0.0)
        by_role |= {f"{stem}.{role}": metrics[name] for name, stem in OF_A_ROLE.items() if name in metrics}
    return by_role


def _written_per_s(spans: Sequence[tuple[Looks, Looks]], seconds: Mapping[int, float]) -> float | None:
    """Bytes/s that all brokers together wrote to disk; None unless they are known at every look."""
    total = 0.0
    for before, after in spans:
        for broker, early in before.items():
            late = after[broker].written_bytes
            if early.written_bytes is None or late is None:
                return None
            total += (late - early.written_bytes) / seconds[broker]
    return total


def missing_figures(metrics: Mapping[str, float], sampler: Sampler) -> dict[str, str]:
    """The FIGURES that are not among a round's metrics, each with the reason."""
    now, always = sampler.unavailable or sampler.why_missing, sampler.why_missing or sampler.unavailable
    return {
        figure: now if set(names) & set(sampler.gives) else always
        for figure, names in FIGURES.items()
        if not any(name in metrics for name in names)
    }


def _traffic_per_s(spans: Sequence[tuple[Looks, Looks]], seconds: Mapping[int, float]) -> tuple[float, float] | None:
    """Bytes/s received and sent, over connections that have not ended; None unless known at every look."""
    received = sent = 0.0
    for before, after in spans:
        for broker, late in after.items():
            early = before[broker].traffic
            if early is None or late.traffic is None:
                return None
            for connection, (into, out) in late.traffic.items():
                former_in, former_out = early.get(connection, (0, 0))
                received += max(0, into - former_in) / seconds[broker]
                sent += max(0, out - former_out) / seconds[broker]
    return received, sent


def compile_shares(*spans: tuple[Looks, Looks]) -> dict[int, float]:
    """Share of each broker's CPU that its JVM spent on compiling in these spans, where known and not negligible."""
    shares = {}
    for broker in spans[-1][1]:
        lasted = used = compiled = 0.0
        for before, after in spans:
            early, late = before.get(broker), after.get(broker)
            if early is None or late is None or early.compiling_s is None or late.compiling_s is None:
                continue
            lasted += late.at - early.at
            used += late.cpu_s - early.cpu_s
            for thread, seconds in late.compiling_s.items():
                compiled += max(0.0, seconds - early.compiling_s.get(thread, 0.0))
        if lasted > 0 and used >= LEAST_CPU_CORES * lasted:
            shares[broker] = 0.0 if compiled < LEAST_COMPILING_CORES * lasted else min(1.0, compiled / used)
    return shares


def cpu_metrics(cores: Mapping[int, float], records_per_s: float) -> dict[str, float]:
    """CPU metrics from each broker's cores; CPU per record only when records were acknowledged."""
    metrics = {f"broker_cpu_cores.{broker}": value for broker, value in cores.items()}
    metrics["broker_cpu_cores.max"] = max(cores.values())
    metrics["broker_cpu_cores.sum"] = sum(cores.values())
    if records_per_s > 0:
        metrics["broker_cpu_us_per_record"] = sum(cores.values()) / records_per_s * 1e6
    return metrics


def of_looks(looks: Sequence[Looks]) -> dict[str, tuple[tuple[float, float], ...]]:
    """Cores of each broker from one look to the next; the first opens the window, the last closes it."""
    cores: dict[str, tuple[tuple[float, float], ...]] = {}
    for broker, opened in looks[0].items():
        seen = [(usage.at - opened.at, usage.cpu_s) for look in looks if (usage := look.get(broker))]
        apart = [seen[0]]
        for at, cpu_s in seen[1:-1]:
            if min(at - apart[-1][0], seen[-1][0] - at) >= LEAST_APART_S:
                apart.append((at, cpu_s))
        cores[str(broker)] = _steps([[*apart, seen[-1]]])
    return cores


def of_scrapes(series: Mapping[int, Sequence[Pairs]], opens: float) -> dict[str, tuple[tuple[float, float], ...]]:
    """The same from each broker's scraped counters, added up."""
    moved = {b: [[(at - opens, value) for at, value in pairs] for pairs in counters] for b, counters in series.items()}
    return {str(broker): _steps(counters) for broker, counters in moved.items()}


def of_gauges(series: Mapping[int, Sequence[Pairs]], opens: float) -> dict[str, tuple[tuple[float, float], ...]]:
    """The same from values that are cores already."""
    return {
        str(broker): _added((at - opens, value) for pairs in gauges for at, value in pairs)
        for broker, gauges in series.items()
    }


def _steps(counters: Sequence[Pairs]) -> tuple[tuple[float, float], ...]:
    """Cores of all counters together up to each moment at which any was read: containers are read one by one."""
    parts = [
        [(now[0], increase((last, now)) / (now[0] - last[0])) for last, now in pairwise(pairs) if now[0] > last[0]]
        for pairs in counters
    ]
    moments = {at for counter in parts for at, _ in counter}
    # Each part is given by its end; after the last those of the last count.
    return _added(
        (at, counter[min(bisect_left(counter, at, key=itemgetter(0)), len(counter) - 1)][1])
        for at in moments
        for counter in parts
        if counter
    )


def _added(cores: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Cores at moments, those of the same moment added up."""
    sums: dict[float, float] = defaultdict(float)
    for at, used in cores:
        sums[at] += used
    return tuple((round(at, 2), round(used, 4)) for at, used in sorted(sums.items()))
