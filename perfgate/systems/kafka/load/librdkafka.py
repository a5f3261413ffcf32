"""The default driver: librdkafka clients in generator processes of their own, merged over their common window."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Any

from perfgate.load.payload import run_tag
from perfgate.load.processes import Generators, Message
from perfgate.load.turns import WARM_S, Pace, Turn, timetable
from perfgate.load.wake import WakeProbe
from perfgate.model import Load, Scenario, Settings, with_settings
from perfgate.model.histogram import encode, merged
from perfgate.model.load import LoadError, LoadResult, LoadSpec, Observer, Received, Sent

READY_TIMEOUT_S = 45
LEAD_S = 0.05
DRAIN_MARGIN_S = 10
MARGIN_S = 900.0
"""A load that nobody ends lasts so much longer than it should, and no more."""
CATCH_UP_S = 15
STATISTICS_MS = 500
FILL_RATE = 1e9
MEASURING = "measuring"
TAKING_TURNS = "taking turns"
PRODUCE, CONSUME = "producer", "consumer"

# What makes librdkafka mean the same as the Java client's defaults, where the row says nothing else:
# its own defaults are 1,000,000 requests in flight, linger 5 ms, 1 MB batches, 1 GiB of buffer and 300 s to deliver.
# The bound on buffered records keeps a generator of small records under 300 MiB: each takes about 250 bytes more.
SAME_AS_JAVA: Settings = (
    ("acks", "1"),
    ("batch.size", "16384"),
    ("compression.type", "none"),
    ("delivery.timeout.ms", "120000"),
    ("enable.idempotence", "false"),
    ("linger.ms", "0"),
    ("max.in.flight.requests.per.connection", "5"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.kbytes", "32768"),
    ("queue.buffering.max.messages", "400000"),
    ("socket.nagle.disable", "true"),
)
# The Java consumer's defaults. librdkafka would wait a second before it fetches again once its store is full.
CONSUME_AS_JAVA: Settings = (
    ("auto.offset.reset", "earliest"),
    ("enable.auto.commit", "true"),
    ("fetch.max.bytes", "52428800"),
    ("fetch.queue.backoff.ms", "2"),
    ("fetch.min.bytes", "1"),
    ("fetch.wait.max.ms", "500"),
    ("isolation.level", "read_uncommitted"),
    ("max.partition.fetch.bytes", "1048576"),
)
STORE_KIB, STORE_RECORDS = 131_072, 300_000
"""What a consumer fetches ahead, over all its partitions: as much as stays under 300 MiB of memory in all."""


def producer_settings(producer: Settings) -> dict[str, str]:
    """Return the full client settings of a row's producer."""
    return dict(with_settings(SAME_AS_JAVA, dict(producer)))


class LibrdkafkaDriver:
    """See :class:`perfgate.model.load.Driver`."""

    name = "librdkafka"
    takes_turns = True

    def cannot(self, scenario: Scenario) -> str | None:
        """Return None: every load can be expressed."""
        return None

    def latency_basis(self, load: Load) -> str:
        """Return from which moment the latency of this load is counted."""
        return {"capped": "buffer-acceptance", "paced": "intended-send", "backlog": "none"}[load.kind]

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        """Run one round in new generator processes."""
        drain_s = drain_s_of(spec.scenario)
        backlog = spec.scenario.load.kind == "backlog"
        workers = {**consumers_of(spec), **({} if backlog else producers_of(spec))}
        with _wake_probe(spec.scenario.load) as wake, Generators(workers) as generators:
            generators.follow(CONSUME if backlog else PRODUCE)
            generators.wait_for("ready", READY_TIMEOUT_S, observer)
            start = time.monotonic() + LEAD_S
            generators.tell(start=start)
            steady = generators.warm_up(start, spec.warmup_max_s, observer)
            opens = time.monotonic() + LEAD_S
            closes = opens + spec.window_s
            generators.tell(window=[opens, closes])
            generators.listen_until(opens, MEASURING, observer)
            observer.edge()
            generators.listen_until(closes, MEASURING, observer)
            observer.edge()
            woken_ms = wake.p99_ms(opens, closes) if wake else None
            sent = generators.wait_for(
                "result", drain_s + DRAIN_MARGIN_S, observer, only=PRODUCE, phase="waiting for acknowledgements"
            )
            if sent and spec.scenario.consumers is not None:
                generators.wait_for_done(CONSUME, sum(result["acked"] for result in sent), CATCH_UP_S, observer)
            generators.tell(CONSUME, stop=True)
            received = generators.wait_for("result", DRAIN_MARGIN_S, observer, only=CONSUME, phase="ending consumers")
        result = _load_result(sent, received, warmup_s=opens - start, steady=steady, window_s=closes - opens)
        return replace(result, wake_delay_p99_ms=woken_ms)

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], int]:
        """Run two loads in turns; return each side's result and how many turns were late.

        `specs` by side, "A" and "B". The observer's `edge` is called as each measured turn opens and closes.
        """
        drain_s = max(drain_s_of(spec.scenario) for spec in specs.values())
        # Relative to the start, which is set once every process is ready.
        turns = timetable(order, 0.0, at)
        workers = {
            f"{side}-{name}": {**request, "gap_s": at.gap_s, "turns": _times(turns, side)}
            for side, spec in specs.items()
            for name, request in producers_of(spec).items()
        }
        with _wake_probe(next(iter(specs.values())).scenario.load) as wake, Generators(workers) as generators:
            generators.wait_for("ready", READY_TIMEOUT_S, observer)
            begin = time.monotonic() + LEAD_S
            measured = [turn for turn in timetable(order, begin, at) if turn.closes > turn.opens]
            own = {side: [turn for turn in measured if turn.side == side] for side in specs}
            for side, mine in own.items():
                generators.tell(side, start=begin, window=[mine[0].starts, mine[-1].closes])
            for turn in measured:
                for edge in (turn.opens, turn.closes):
                    generators.listen_until(edge, TAKING_TURNS, observer)
                    observer.edge()
            woken_ms = wake.p99_ms(measured[0].opens, measured[-1].closes) if wake else None
            results = {
                side: generators.wait_for(
                    "result", drain_s + DRAIN_MARGIN_S, observer, only=side, phase="waiting for acknowledgements"
                )
                for side in specs
            }
        found = {}
        for side, sent in results.items():
            active = sum(turn.closes - turn.starts for turn in own[side])
            window_s = sum(turn.closes - turn.opens for turn in own[side])
            share = active / (own[side][-1].closes - own[side][0].starts)
            result = _load_result(sent, [], warmup_s=WARM_S, steady=True, window_s=window_s, share=share)
            found[side] = replace(result, wake_delay_p99_ms=woken_ms)
        return found, max(result["late_turns"] for sent in results.values() for result in sent)


def _wake_probe(load: Load) -> AbstractContextManager[WakeProbe | None]:
    """Return what measures the machine's wake-up delay where a schedule depends on it."""
    return WakeProbe() if load.kind == "paced" else nullcontext()


def _times(turns: Sequence[Turn], side: str) -> list[list[float]]:
    return [[turn.starts, turn.opens, turn.closes] for turn in turns if turn.side == side]


def _load_result(
    sent: Sequence[Message], received: Sequence[Message], *, warmup_s: float, steady: bool, window_s: float,
    share: float = 1.0,
) -> LoadResult:  # fmt: skip
    """Return the processes' results added up; they worked for `share` of the time that their CPU was read over."""
    everything = [*sent, *received]
    return LoadResult(
        warmup_s=warmup_s,
        steady=steady,
        window_s=window_s,
        cpu_cores=sum(result["cpu_cores"] for result in everything) / share,
        busiest_thread_cores=max(result["busiest_thread_cores"] for result in everything) / share,
        rss_mib=max(result["rss_mib"] for result in everything),
        sent=_sent(sent) if sent else None,
        received=_received(received) if received else None,
    )


def fill(spec: LoadSpec, observer: Observer) -> None:
    """Write the row's backlog into its topic. Raises LoadError when not every record got there."""
    records = spec.scenario.load.records
    one = replace(spec.scenario, producers=1, threads=1, load=Load(kind="capped", rate=min(FILL_RATE, spec.most_rate)))
    (request,) = producers_of(replace(spec, scenario=one)).values()
    bound_s = drain_s_of(one) + max(records * one.record_bytes / 1e6, 2 * records / one.load.rate)
    with Generators({PRODUCE: {**request, "records": records, "most_s": bound_s + MARGIN_S}}) as generators:
        generators.follow(PRODUCE)
        generators.wait_for("ready", READY_TIMEOUT_S, observer)
        generators.tell(start=time.monotonic())
        (result,) = generators.wait_for("result", bound_s, observer, phase="writing the backlog")
    if result["acked"] != records:
        raise LoadError(
            f"of the backlog's {records:,} records {result['acked']:,} were acknowledged: {result['errors']}"
        )


def drain_s_of(scenario: Scenario) -> float:
    """Return how long a producer waits for the outcomes of its records in the end, in s."""
    return float(producer_settings(scenario.producer)["delivery.timeout.ms"]) / 1e3 + 5


def producers_of(spec: LoadSpec) -> dict[str, dict[str, object]]:
    """Return what each producer process is told, by its name."""
    scenario = spec.scenario
    request = {
        **_common(spec, "produce", producer_settings(scenario.producer)),
        "load": scenario.load.kind,
        "rate": scenario.load.rate,
        "most_rate": spec.most_rate if spec.most_rate < math.inf else 0.0,
        "records": 0,
        "record_bytes": scenario.record_bytes,
        "payload": asdict(scenario.payload),
        "keys": asdict(scenario.keys),
        "seed": spec.seed,
        "drain_s": drain_s_of(scenario),
        "clients": scenario.threads,
        "of": scenario.producers * scenario.threads,
    }
    firsts = range(0, scenario.producers * scenario.threads, scenario.threads)
    return {f"{PRODUCE}-{n}": {**request, "first": first} for n, first in enumerate(firsts, 1)}


def consumers_of(spec: LoadSpec) -> dict[str, dict[str, object]]:
    """Return what each consumer process is told, by its name."""
    scenario, consumers = spec.scenario, spec.scenario.consumers
    if consumers is None:
        return {}
    backlog = scenario.load.kind == "backlog"
    count = consumers.processes * consumers.threads
    shares = [list(range(number, scenario.topic.partitions, count)) for number in range(count)]
    store = {
        "queued.max.messages.kbytes": str(max(1024, STORE_KIB // scenario.topic.partitions)),
        "queued.min.messages": str(max(1000, STORE_RECORDS // scenario.topic.partitions)),
    }
    client = {**dict(CONSUME_AS_JAVA), **store, **dict(consumers.config)}
    # Without commits an assigned consumer leaves no group behind.
    client |= {} if consumers.membership == "group" else {"enable.auto.commit": "false"}
    client |= {"group.id": spec.topic, "statistics.interval.ms": str(STATISTICS_MS)}
    client |= {"enable.partition.eof": "true"} if backlog else {}
    request = {
        **_common(spec, "consume", client),
        "assigned": shares if consumers.membership == "assigned" else None,
        "laps": backlog,
        "producers": 1 if backlog else scenario.producers * scenario.threads,
        "clients": consumers.threads,
    }
    firsts = range(0, count, consumers.threads)
    return {f"{CONSUME}-{n}": {**request, "first": first} for n, first in enumerate(firsts, 1)}


def _common(spec: LoadSpec, role: str, client: Mapping[str, str]) -> dict[str, object]:
    return {
        "role": role,
        "topic": spec.topic,
        "partitions": spec.scenario.topic.partitions,
        # The row's own settings win: what is measured is what is declared.
        "client": {
            **dict(spec.security),
            **client,
            "bootstrap.servers": spec.bootstrap,
            "allow.auto.create.topics": "false",
        },
        "run": run_tag(spec.run_id),
        "most_s": spec.warmup_max_s + spec.window_s + drain_s_of(spec.scenario) + MARGIN_S,
    }


def _sent(results: Sequence[Message]) -> Sent:
    counts = ("attempted_in_window", "acked_in_window", "acked_bytes_in_window", "attempted", "acked",
              "unresolved", "unsent", "withdrawn", "throttled_ms")  # fmt: skip
    return Sent(
        # Several clients push back side by side: the share is that of the average client.
        pushback_s=_mean(results, "pushback_s"),
        pushback_in_window_s=_mean(results, "pushback_in_window_s"),
        stalled_in_window_s=_mean(results, "stalled_in_window_s"),
        failed=_failed(results),
        errors=_errors(results),
        acked_by_partition=[sum(counts) for counts in zip(*(r["acked_by_partition"] for r in results), strict=True)],
        latency=_added(results, "latency"),
        send_latency=_added(results, "send_latency"),
        schedule_delay=_added(results, "schedule_delay"),
        **{name: sum(result[name] for result in results) for name in counts},
    )


def _received(results: Sequence[Message]) -> Received:
    counts = ("received_in_window", "received_bytes_in_window", "read", "received", "foreign", "corrupt",
              "duplicated", "reordered", "redelivered", "negative_latencies", "throttled_ms")  # fmt: skip
    fetches = sum(result["fetches"] for result in results)
    return Received(
        errors=_errors(results),
        failed=_failed(results),
        fetch_ms=sum(result["fetch_ms"] for result in results) / fetches if fetches else None,
        latency=_added(results, "latency"),
        **{name: sum(result[name] for result in results) for name in counts},
    )


def _mean(results: Sequence[Message], name: str) -> float:
    return float(sum(result[name] / result["clients"] for result in results)) / len(results)


def _failed(results: Sequence[Message]) -> dict[str, int]:
    total = Counter[str]()
    for result in results:
        total.update(result["failed"])
    return dict(total)


def _errors(results: Sequence[Message]) -> dict[str, str]:
    return {code: text for result in reversed(results) for code, text in result["errors"].items()}


def _added(results: Sequence[Message], name: str) -> str:
    texts: list[Any] = [result.get(name, "") for result in results]
    return encode(merged(texts)) if any(texts) else ""
