"""The driver `pulsar-perf`: Pulsar's official tool, a process with a thread for each client.

Its own sums divide by a time with start and shutdown in it. So the suite times a window: sends are measured between two
of the tool's lines of progress, 10 s apart or a multiple of that, with the latencies of its histogram file for the same
time; reads by its client's reports of each second. CPU is read at the window's edges. SIGTERM ends the tool: it
closes its clients, which waits for outstanding answers, and then gives its sums.
"""

from __future__ import annotations

import math
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.machine_use import Usage
from perfgate.load.tools import ENGLISH, ToolDriver, Tools, received_of, result_of, write_properties
from perfgate.model import Scenario
from perfgate.model.histogram import encode, of_counts
from perfgate.model.load import PREFIX, LoadError, LoadResult, LoadSpec, Observer, Sent
from perfgate.model.secret import revealed
from perfgate.systems.pulsar.client import TLS_PLUGINS, TOKEN_PLUGINS
from perfgate.systems.pulsar.load.official import (
    CONF_NAMES,
    LOGGING,
    REPORT_S,
    Consumed,
    by_hand,
    consumer_arguments,
    created,
    inexpressible,
    latencies,
    parse_consumed,
    parse_histograms,
    parse_pending,
    parse_produced,
    producer_arguments,
    pushed_back_s,
    received_in_all,
    reports,
    sent_in_all,
)
from perfgate.systems.pulsar.load.settings import log_in, settings_of

TOOL = "org.apache.pulsar.testclient.PulsarPerfTestTool"
HEAP = ("-Xmx1g", "-XX:MaxDirectMemorySize=512m")
"""With 512 MiB the histogram file's five digits once took the last of it ("Java heap space"), and no line followed."""
OPENS = tuple(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "jdk.internal.misc"))
CONNECT_S = 60.0
LINE_MARGIN_S = 15.0
"""A line of progress is late on a busy machine, or when the tool collects garbage; later than this the tool hangs."""
END_S = 60.0
BATCHED = 2
"""Times that the Java client counts the bytes of a batched message against its bound: its own, and its batch's buffer.
(Seen: 64 MiB, unlimited rate, 174,000/s of 1,024 B: 170 ms on average from send to acknowledgement are 29 MiB.)"""


class PulsarPerfDriver(ToolDriver):
    """See :class:`perfgate.model.load.Driver`."""

    name = "pulsar-perf"
    by_hand = staticmethod(by_hand)

    def __init__(self, *, java: Path, classpath: str) -> None:
        self._java = java
        self._classpath = classpath

    def cannot(self, scenario: Scenario) -> str | None:
        return inexpressible(scenario)

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        with Guard() as guard:
            tools = Tools(guard, observer)
            return self._send(spec, tools) if spec.scenario.load.sends else self._read(spec, tools)

    def _send(self, spec: LoadSpec, tools: Tools) -> LoadResult:
        scenario, histograms = spec.scenario, tools.folder / "latencies.hlog"
        before = tools.observer.written()
        # A limit of the target must be kept; the cap of a load need not.
        rate, limited = min(scenario.load.rate, spec.most_rate), math.isfinite(spec.most_rate)
        arguments = producer_arguments(scenario, topic=spec.topic, rate=rate, at_most=limited)
        more = ("-i", "1", "--warmup-time", "0", "--histogram-file", histograms)
        tools.start(self._command(spec, tools.folder, "produce", *more, *arguments))
        clients = scenario.producers * scenario.threads
        tools.wait_for(lambda: created(output(tools)) >= clients, "connecting", bound_s=CONNECT_S)
        started = time.monotonic()
        tools.let_pass(spec.warmup_max_s, "warming up")
        first = _next_line(tools, reports(output(tools)) + 1, "warming up")
        usage, opened = Usage(tools.pids), time.monotonic()
        tools.edge(usage)
        last = _next_line(tools, first + max(1, math.ceil(spec.window_s / REPORT_S)), "measuring")
        tools.edge(usage)
        text = self._ended(tools)
        lines = parse_produced(text)
        total, failed = sent_in_all(text)
        more_written = tools.observer.written() - before - total - sum(failed.values())
        if more_written > 0:
            raise LoadError(
                f"pulsar-perf ended with {more_written:,} records that the brokers hold and it does not know of"
            )
        counts = latencies(lines, parse_histograms(histograms.read_text()), first, last)
        opens, closes = lines[first - 1], lines[last - 1]
        acked = closes.records - opens.records
        window_s = closes.at_s - opens.at_s
        lost = round(sum(line.failed_per_s for line in lines[first:last]) * window_s / (last - first))
        refused_s = full_s(scenario, text, opens.at_s, closes.at_s)
        sent = Sent(
            attempted_in_window=acked + lost,
            acked_in_window=acked,
            acked_bytes_in_window=acked * scenario.record_bytes,
            pushback_s=refused_s,
            pushback_in_window_s=refused_s,
            attempted=total + sum(failed.values()),
            acked=total,
            failed=failed,
            errors={},
            unresolved=0,
            unsent=0,
            latency=encode(of_counts(counts)),
        )
        return result_of(usage, started, opened, opened + window_s, sent=sent, received=None)

    def _read(self, spec: LoadSpec, tools: Tools) -> LoadResult:
        scenario, subscription = spec.scenario, f"{PREFIX}{time.time_ns()}"
        arguments = consumer_arguments(scenario, topic=spec.topic, subscription=subscription)
        tools.start(self._command(spec, tools.folder, "consume", "-i", "1", *arguments))

        def reads() -> bool:
            return any(line.records_per_s for line in parse_consumed(output(tools)))

        tools.wait_for(reads, "connecting", bound_s=CONNECT_S)
        started = time.monotonic()
        tools.let_pass(spec.warmup_max_s, "warming up")
        opened, opens_s = time.monotonic(), time.time()
        usage = Usage(tools.pids)
        tools.edge(usage)
        tools.let_pass(spec.window_s, "measuring")
        closed, closes_s = time.monotonic(), time.time()
        tools.edge(usage)
        text = self._ended(tools)
        read = received_in_all(text)
        if read >= scenario.load.records:
            raise LoadError(
                f"pulsar-perf had read the backlog of {scenario.load.records:,} records before its window of "
                f"{spec.window_s:g} s was over; it reads a backlog once: give it more (load.records)"
            )
        records_per_s, bytes_per_s = read_per_s(parse_consumed(text), opens_s, closes_s)
        window_s = closed - opened
        received = received_of(read, in_window=records_per_s * window_s, bytes_in_window=bytes_per_s * window_s)
        return result_of(usage, started, opened, closed, sent=None, received=received)

    def _command(self, spec: LoadSpec, folder: Path, command: str, *arguments: object) -> list[object]:
        logging, conf = folder / "log4j2.properties", folder / "client.conf"
        logging.write_text(LOGGING)
        url, _, listener = spec.bootstrap.partition("#")
        write_properties(conf, conf_of(revealed(spec.security)))
        options = ["-u", url, *(("--listener-name", listener) if listener else ())]
        java = [self._java, *HEAP, *ENGLISH, *OPENS, f"-Dlog4j2.configurationFile={logging}"]
        java += ["-Dio.netty.tryReflectionSetAccessible=true", "-cp", self._classpath]
        return [*java, TOOL, conf, command, *options, *arguments]

    def _ended(self, tools: Tools) -> str:
        (pid,) = tools.pids
        tools.guard.signal(pid, signal.SIGTERM)
        tools.wait_for(tools.ended, "ending", bound_s=END_S, alive=False)
        return output(tools)


def output(tools: Tools) -> str:
    (text,) = tools.outputs()
    return text


def conf_of(settings: dict[str, str]) -> dict[str, str]:
    """A target's client settings for the tool's conf file: Java knows a plugin by its class alone."""
    stated = {"tlsHostnameVerificationEnable": "true", **settings}  # Java's own default is false
    conf = {CONF_NAMES[name]: value for name, value in stated.items() if name in CONF_NAMES}
    plugin, parameters = log_in(settings)
    if plugin:
        names = next((names for names in (TOKEN_PLUGINS, TLS_PLUGINS) if plugin in names), (plugin,))
        conf |= {"authPlugin": names[-1], "authParams": parameters}
    return conf


def read_per_s(lines: Sequence[Consumed], opens_s: float, closes_s: float) -> tuple[float, float]:
    """Records and bytes/s of all consumers between two moments (s since 1970). Raises LoadError for a silent one."""
    within: dict[str, list[Consumed]] = defaultdict(list)
    for line in lines:
        if opens_s <= line.at_s <= closes_s:
            within[line.consumer].append(line)
    if silent := {line.consumer for line in lines} - within.keys():
        raise LoadError(f"pulsar-perf reported nothing of {', '.join(sorted(silent))} in the window")
    return (
        sum(sum(line.records_per_s for line in own) / len(own) for own in within.values()),
        sum(sum(line.bytes_per_s for line in own) / len(own) for own in within.values()),
    )


def _next_line(tools: Tools, number: int, phase: str) -> int:
    """Wait for the line of progress of this number, counted from 1; return the number."""
    bound_s = REPORT_S * (number - reports(output(tools))) + LINE_MARGIN_S
    tools.wait_for(lambda: reports(output(tools)) >= number, phase, bound_s=bound_s, every_s=0.02)
    return number


def full_s(scenario: Scenario, text: str, opens_s: float, closes_s: float) -> float:
    """Time in the window for which buffers were full, in s; see :func:`pushed_back_s`."""
    chosen = settings_of(scenario.producer, "producer")
    return pushed_back_s(
        parse_pending(text),
        opens_s,
        closes_s,
        messages=int(chosen["maxPendingMessages"]),
        record_bytes=scenario.record_bytes,
        most_bytes=int(chosen["maxPendingBytes"]) // (BATCHED if chosen["batchingEnabled"] == "true" else 1),
    )
