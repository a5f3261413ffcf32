"""The driver `java`: the official ProducerPerformance and ConsumerPerformance, a process per client, side by side.

The suite times the window: it opens once the load has run for the warm-up's bound, the records sent in it are the
change of the topic's end offsets, and CPU is read at its edges. The tools take a number of records, not a time; a round
in which any of them ended too early is run again with more.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.machine_use import Usage
from perfgate.load.tools import ENGLISH, EndedError, ToolDriver, Tools, received_of, result_of, write_properties
from perfgate.model import MIB, ClusterSpec, Scenario
from perfgate.model.load import LoadError, LoadResult, LoadSpec, Observer, Sent
from perfgate.model.secret import revealed
from perfgate.systems.kafka.load.official import (
    ProducerOutput,
    ReadSoFar,
    by_hand,
    consumer_arguments,
    inexpressible,
    new_options,
    parse_consumer,
    parse_producer,
    producer_arguments,
)

HEAP = "-Xmx512m"  # as kafka-run-class.sh of the tools has it
TRIES = 4
FIRST_GUESS = 20_000
TAIL_S = 1.5
"""A tool gets records for this much more than its window: its rate is not even."""
END_MARGIN_S = 30
SLOWEST = 20
"""A tool may take this many times longer for its records than expected: the first guess of its rate may be that wrong.
"""
REPORT_EVERY_MS = 250


class _EndedEarly(Exception):
    """A tool had sent all its records before the window closed."""


class _Tools(Tools):
    def read_so_far(self) -> list[list[ReadSoFar]]:
        return [parse_consumer(text) for text in self.outputs()]

    def at_next_line(self) -> tuple[ReadSoFar, float]:
        """Wait until every tool has reported once more; return their records together, and when that was."""
        counts = [len(lines) for lines in self.read_so_far()]

        def reported() -> bool:
            return all(len(lines) > n for lines, n in zip(self.read_so_far(), counts, strict=True))

        self.wait_for(reported, "measuring", every_s=0.01)
        last = [lines[-1] for lines in self.read_so_far()]
        return ReadSoFar(records=sum(r.records for r in last), mib=sum(r.mib for r in last)), time.monotonic()


class JavaDriver(ToolDriver):
    """See :class:`perfgate.model.load.Driver`. Remembers the rates it has seen, to give the tools enough records."""

    name = "java"
    by_hand = staticmethod(by_hand)

    def __init__(self, *, java: Path, classpath: str, version: str) -> None:
        self._java = java
        self._classpath = classpath
        self._version = version
        self._rates: dict[Scenario, float] = {}
        """Records/s of a client; the sides of a comparison have the same name."""

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.cluster.security != ClusterSpec().security:
            return "the java driver cannot log in: a secured cluster tells its keys in librdkafka's settings alone"
        reason = inexpressible(scenario)
        return f"the java driver cannot express it: {reason}" if reason else None

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        if not spec.scenario.load.sends:
            return self._read(spec, observer)
        outputs: list[ProducerOutput] = []
        for _ in range(TRIES):
            try:
                return self._send(spec, observer, outputs)
            except _EndedEarly:
                clients = spec.scenario.producers * spec.scenario.threads
                seen = max(output.total.records_per_s for output in outputs[-clients:])
                self._rates[spec.scenario] = max(1.5 * self._rate(spec), 1.2 * seen)
        raise LoadError(f"ProducerPerformance ended before its window in {TRIES} tries")

    def _rate(self, spec: LoadSpec) -> float:
        clients = spec.scenario.producers * spec.scenario.threads
        return min(spec.scenario.load.rate / clients, self._rates.get(spec.scenario, FIRST_GUESS))

    def _send(self, spec: LoadSpec, observer: Observer, outputs: list[ProducerOutput]) -> LoadResult:
        scenario, rate = spec.scenario, self._rate(spec)
        clients = scenario.producers * scenario.threads
        seconds = spec.warmup_max_s + spec.window_s + TAIL_S
        asked = math.ceil(rate * seconds)
        warmup = math.ceil(rate * spec.warmup_max_s) if new_options(self._version) else 0
        arguments = producer_arguments(
            scenario,
            version=self._version,
            topic=spec.topic,
            records=asked,
            rate=scenario.load.rate / clients,
            warmup=warmup,
        )
        with Guard() as guard:
            tools = _Tools(guard, observer)
            where = self._where(spec, tools.folder, "--producer.config")
            for _ in range(clients):
                tools.start(self._command("ProducerPerformance", *arguments, "--print-metrics", *where))
            empty = observer.written()
            tools.wait_for(lambda: observer.written() > empty, "starting")
            started = time.monotonic()
            lasted = tools.let_pass(spec.warmup_max_s, "warming up")
            usage, before, opened = Usage(tools.pids) if lasted else None, observer.written(), time.monotonic()
            if usage:
                tools.edge(usage)
                lasted = tools.let_pass(spec.window_s, "measuring")
                after, closed = observer.written(), time.monotonic()
            if usage and lasted:
                tools.edge(usage)
                # Before the rest is sent: a round whose guess was far too high is given up there.
                self._rates[scenario] = max(1.0, (after - before) / (closed - opened) / clients)
            bound_s = END_MARGIN_S + SLOWEST * seconds
            tools.wait_for(tools.ended, "sending the rest", bound_s=bound_s, alive=False)
            new = [parse_producer(text, warmed_up=warmup > 0) for text in tools.outputs()]
        outputs += new
        if not usage or not lasted:
            raise _EndedEarly
        sent = _sent(outputs, new, after - before, closed - opened, asked, scenario.record_bytes)
        return result_of(usage, started, opened, closed, sent=sent, received=None)

    def _read(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        scenario = spec.scenario
        assert scenario.consumers is not None
        clients = scenario.consumers.processes * scenario.consumers.threads
        with Guard() as guard:
            tools = _Tools(guard, observer)
            where = self._where(spec, tools.folder, "--consumer.config")
            arguments = consumer_arguments(
                scenario,
                version=self._version,
                topic=spec.topic,
                group=f"{spec.topic}-{time.time_ns()}",
                records=scenario.load.records // clients,
            )
            for _ in range(clients):
                more = ("--show-detailed-stats", "--reporting-interval", REPORT_EVERY_MS)
                tools.start(self._command("ConsumerPerformance", *arguments, *more, *where))
            try:
                tools.wait_for(lambda: all(tools.read_so_far()), "starting")
                started = time.monotonic()
                tools.let_pass(spec.warmup_max_s, "warming up")
                before, opened = tools.at_next_line()
                usage = Usage(tools.pids)
                tools.edge(usage)
                tools.let_pass(spec.window_s, "measuring")
                after, closed = tools.at_next_line()
            except EndedError as error:
                if not tools.ended_well():
                    raise
                raise LoadError(
                    f"ConsumerPerformance had read the backlog of {scenario.load.records:,} records before its window "
                    f"of {spec.window_s:g} s was over; it reads a backlog once"
                ) from error
            tools.edge(usage)
        received = received_of(
            after.records, in_window=after.records - before.records, bytes_in_window=(after.mib - before.mib) * MIB
        )
        return result_of(usage, started, opened, closed, sent=None, received=received)

    def _command(self, tool: str, *arguments: object) -> list[object]:
        return [self._java, HEAP, *ENGLISH, "-cp", self._classpath, f"org.apache.kafka.tools.{tool}", *arguments]

    def _where(self, spec: LoadSpec, folder: Path, old_option: str) -> list[object]:
        """Arguments for the brokers' addresses and the log-in, which goes into a file, out of `ps`."""
        new = new_options(self._version)
        config = folder / "client.properties"
        settings = revealed(spec.security)
        if not new and old_option == "--producer.config":
            settings["bootstrap.servers"] = spec.bootstrap
        write_properties(config, settings)
        option = "--command-config" if new else old_option
        servers = [] if "bootstrap.servers" in settings else ["--bootstrap-server", spec.bootstrap]
        return [*servers, option, config]


def _sent(
    everything: Sequence[ProducerOutput],
    last: Sequence[ProducerOutput],
    written: int,
    seconds: float,
    asked: int,
    record_bytes: int,
) -> Sent:
    """Return the counts; `everything` includes tries that ended early, whose records are in the topic too."""
    acked = sum(output.total.records for output in everything)
    lost = asked * len(last) - sum(output.total.records for output in last)
    failed = Counter[str]()
    for output in last:
        failed.update(output.errors)
    if failed.total() != lost:  # not every error costs a record, not every lost record is reported
        failed = Counter({f"told: {', '.join(failed) or 'nothing'}": lost} if lost else {})
    # The tools report their blocked time over their whole run; a window's share is taken to be the same.
    blocked = sum(output.blocked_s / (output.total.records / output.total.records_per_s) for output in last) / len(last)
    return Sent(
        attempted_in_window=written,
        acked_in_window=written,
        acked_bytes_in_window=written * record_bytes,
        pushback_s=blocked * seconds,
        pushback_in_window_s=blocked * seconds,
        attempted=acked + failed.total(),
        acked=acked,
        failed=failed,
        errors={},
        unresolved=0,
        unsent=0,
        throttled_ms=math.ceil(sum(output.throttled_ms for output in last)),
        percentiles=_percentiles(last),
    )


def _percentiles(outputs: Sequence[ProducerOutput]) -> dict[str, float]:
    """Average and maximum of several clients together; percentiles only of a lone client."""
    summaries = [output.steady or output.total for output in outputs]
    records = sum(summary.records for summary in summaries)
    figures = {
        "latency_ms.avg": sum(summary.avg_ms * summary.records for summary in summaries) / records,
        "latency_ms.max": max(summary.max_ms for summary in summaries),
    }
    if len(summaries) == 1:
        (only,) = summaries
        figures |= {f"latency_ms.{name}": getattr(only, f"{name}_ms") for name in ("p50", "p95", "p99", "p999")}
    return figures
